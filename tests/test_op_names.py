"""Nobody knows an op by its name: passes ask for traits, or name the op as an object.

Names are for prints and files. The only tables by name are those of other formats: they say what an op is called there.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from scanjit.ir import OPS

ROOT = Path(__file__).parent.parent
TABLES = ("scanjit/onnx/exporting", "scanjit/export")
"""Where an op is looked up by its name in the table of another format. To compare names is an error there too."""
FORMATS = ("scanjit/torch.py",)
"""Where names of ops are those of another format, wherever they stand."""
FILES = [
    path
    for package in ("scanjit", "lasagne_like")
    for path in sorted((ROOT / package).rglob("*.py"))
    if not str(path.relative_to(ROOT)).startswith(FORMATS)
]


def test_no_op_is_found_by_its_name() -> None:
    found = [line for path in FILES for line in names_in(ast.parse(path.read_text(encoding="utf-8")), path)]
    assert not found, "use a trait of `Op`, or the op itself:\n" + "\n".join(found)


def names_in(tree: ast.Module, path: Path) -> Iterator[str]:
    """Each place at which an op's name is compared with the name of an op, or looked up in a table or in `OPS`."""
    known = aliases(tree)
    has_table = str(path.relative_to(ROOT)).startswith(TABLES)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(is_name_of_op(side, known) for side in sides):
                yield from places(sides, known, path, node)
        elif isinstance(node, ast.Subscript):
            if is_name_of_op(node.slice, known):
                yield from () if has_table else lookup(path, node)
            elif last_name(node.value) == "OPS":
                yield from places([node.slice], known, path, node)
        elif isinstance(node, ast.Call):
            function = last_name(node.func)
            of_ops = function == "get" and isinstance(node.func, ast.Attribute) and last_name(node.func.value) == "OPS"
            if of_ops or function in ("apply", "rule"):
                yield from places(node.args, {}, path, node)
            elif function == "get" and any(is_name_of_op(arg, known) for arg in node.args):
                yield from () if has_table else lookup(path, node)
        elif isinstance(node, ast.Match) and is_name_of_op(node.subject, known):
            yield from places([case.pattern for case in node.cases], known, path, node)


def lookup(path: Path, node: ast.AST) -> Iterator[str]:
    """A table by the name of an op, wherever it is: it could be one by the op."""
    yield f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"  # type: ignore[attr-defined]


def aliases(tree: ast.Module) -> dict[str, list[ast.expr]]:
    """What is assigned to each variable of a file, wherever: `name = node.op.name`, `TABLE = {...}`."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            pairs = [(target, node.value)]  # type: ignore[attr-defined]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):  # type: ignore[attr-defined]
                pairs = list(zip(target.elts, node.value.elts, strict=False))  # type: ignore[attr-defined]
            for variable, value in pairs:
                if isinstance(variable, ast.Name) and value is not None:
                    found.setdefault(variable.id, []).append(value)
    return found


def is_name_of_op(node: ast.expr, known: dict[str, list[ast.expr]]) -> bool:
    """Whether an expression is `something.op.name` (or `op.name`), or a variable that is."""
    if isinstance(node, ast.Name):
        return any(is_name_of_op(value, {}) for value in known.get(node.id, ()))
    return isinstance(node, ast.Attribute) and node.attr == "name" and last_name(node.value) == "op"


def last_name(node: ast.expr) -> str:
    """`c` of `a.b.c`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def places(nodes: list[ast.AST], known: dict[str, list[ast.expr]], path: Path, at: ast.AST) -> Iterator[str]:
    """The names of ops among the strings of some expressions, and of the variables in them."""
    for node in nodes:
        for part in ast.walk(node):
            own = known.get(part.id, ()) if isinstance(part, ast.Name) else ()
            for value in (part, *(inner for table in own for inner in ast.walk(table))):
                if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value in OPS:
                    yield f"{path.relative_to(ROOT)}:{at.lineno}: {value.value}"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        'if node.op.name == "add": pass',
        'if op.name != "add": pass',
        'if node.op.name in ("what", "add"): pass',
        'NAMES = ("sum", "what")\nif node.op.name in NAMES: pass',
        'name = node.op.name\nif name == "add": pass',
        'name, x = node.op.name, 1\nif name == "add": pass',
        'OPS["add"](a, b)',
        'ir.OPS.get("add")',
        'apply("add", a, b)',
        '@rules.rule("add")\ndef f(node): pass',
        "self.table[node.op.name]",
        "table.get(node.op.name, 2)",
        'match node.op.name:\n    case "add": pass',
    ],
)
def test_the_ways_to_know_a_name_are_found(text: str) -> None:
    assert list(names_in(ast.parse(text), ROOT / "example.py"))


def test_a_format_has_a_table_by_name_but_compares_no_names() -> None:
    path = ROOT / "scanjit" / "export" / "example.py"
    assert not list(names_in(ast.parse("TABLE.get(node.op.name)\nTABLE[node.op.name]"), path))
    assert list(names_in(ast.parse('if node.op.name == "add": pass'), path))
    assert list(names_in(ast.parse('TABLE = {"add": "Add"}\nif node.op.name in TABLE: pass'), path))


def test_other_strings_are_left_alone() -> None:
    text = 'if atom.kind == "min": pass\nx.name == "add"\ntable = {"add": 1}\ntable["add"]\nnode.op.name == "what"'
    assert not list(names_in(ast.parse(text), ROOT / "example.py"))
