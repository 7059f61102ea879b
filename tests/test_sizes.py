"""Sizes are compared with `==`: by their words in the source, by watching each `is` at work, and by what it decides."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import scanjit as sj
from tests.lstm import lstm_outputs
from tests.scripts import python

ROOT = Path(__file__).parent.parent
PACKAGES = ("scanjit", "lasagne_like", "benchmarks", "tests")
SOURCES = [path for package in PACKAGES for path in ROOT.glob(f"{package}/**/*.py")]
WORDS = {"size", "dim", "length", "steps", "n_steps", "width", "depth"}
"""What sizes are called."""


def identities(tree: ast.AST) -> Iterator[tuple[ast.Compare, list[ast.expr]]]:
    """Each comparison with `is` or `is not`, and its operands; not those with None and the like."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            operands = [node.left, *node.comparators]
            if not any(isinstance(operand, ast.Constant) for operand in operands):
                yield node, operands


def is_size(operand: ast.expr) -> bool:
    """Whether an expression is a size, going by what it is called."""
    if isinstance(operand, ast.Subscript):
        return isinstance(operand.value, ast.Attribute) and operand.value.attr == "shape"
    name = operand.id if isinstance(operand, ast.Name) else operand.attr if isinstance(operand, ast.Attribute) else ""
    return name in WORDS


def test_no_size_is_compared_by_identity() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in SOURCES
        for node, operands in identities(ast.parse(path.read_text(encoding="utf-8")))
        if any(map(is_size, operands))
    ]
    assert not found, "compare sizes with ==, not with is:\n" + "\n".join(found)


WATCH = '''
"""Build programs with every `is` of the packages watched, and print those that compare two sizes."""
import ast, builtins, contextlib, importlib.machinery, pathlib, sys

found = {}

def watched(a, b, where):
    if all(type(x) is int or type(x).__name__ == "Dim" for x in (a, b)):
        found.setdefault(where, f"{where}: {a} is {b}")
    return a is b

class Watch(ast.NodeTransformer):
    def __init__(self, path):
        self.path = path

    def visit_Compare(self, node):
        self.generic_visit(node)
        operands = [node.left, *node.comparators]
        if len(node.ops) > 1 or not isinstance(node.ops[0], ast.Is | ast.IsNot):
            return node
        if any(isinstance(operand, ast.Constant) for operand in operands):
            return node
        where = ast.Constant(f"{self.path}:{node.lineno}")
        call = ast.Call(ast.Name("__watched__", ast.Load()), [*operands, where], [])
        return ast.copy_location(call if isinstance(node.ops[0], ast.Is) else ast.UnaryOp(ast.Not(), call), node)

plain = importlib.machinery.SourceFileLoader.get_code

def get_code(self, name):
    if name.split(".")[0] not in ("scanjit", "lasagne_like"):
        return plain(self, name)
    path = pathlib.Path(self.path)
    tree = Watch(path.relative_to(pathlib.Path.cwd())).visit(ast.parse(path.read_text(encoding="utf-8")))
    return compile(ast.fix_missing_locations(tree), str(path), "exec")

builtins.__watched__ = watched
importlib.machinery.SourceFileLoader.get_code = get_code
sys.path.insert(0, ".")

import scanjit as sj
from tests.fuzz.check import USER_ERRORS, Config
from tests.fuzz.programs import program
from tests.test_sizes import lstm_gradient

with Config().active():
    sj.function(*lstm_gradient(257), mode="emulate")
    for seed in range(20):
        p = program(seed)
        with contextlib.suppress(*USER_ERRORS):  # in a few programs, an index is certainly out of bounds
            sj.function(p.inputs, p.outputs, mode="emulate")
print("\\n".join(found.values()))
'''


def test_no_size_meets_another_in_an_is() -> None:
    found = python(WATCH, folder=ROOT).strip()
    assert not found, "compare sizes with ==, not with is:\n" + found


# ---- what depends on it ----------------------------------------------------------------------------------------------


def lstm_gradient(steps: int | str, hidden: int = 32) -> tuple[list[sj.Node], list[sj.Node]]:
    """The gradients of an LSTM over so many steps."""
    x = sj.tensor((steps, 16, 24), "float32", "x")
    w, r = sj.tensor((24, 4 * hidden), "float32", "w"), sj.tensor((hidden, 4 * hidden), "float32", "r")
    h = lstm_outputs(x, w, r, name="lstm")
    return [x, w, r], [h, *sj.grad((h * h).sum(), [w, r])]


def decisions(f: sj.CompiledFunction) -> list[str]:
    """What `explain` says of a function, with numbers that are or follow from its number of steps left out."""
    text = f.explain().split("  memory:")[0]
    return [re.sub(r"\b(256|257|1000)\b", "T", line) for line in text.splitlines()]


def test_a_long_known_length_changes_no_decision() -> None:
    made = {steps: sj.function(*lstm_gradient(steps), mode="emulate") for steps in (256, 257, 1000, "T")}
    expected = decisions(made[256])
    assert any("in blocks of time" in line for line in expected)
    assert decisions(made[257]) == decisions(made[1000]) == expected
    unknown = [line for line in decisions(made["T"]) if "nest zeros" not in line]  # (sets sums to zero without steps)
    assert sorted(unknown) == sorted(expected)


def test_memory_grows_with_what_is_kept_alone() -> None:
    f = sj.function(*lstm_gradient("T"), mode="emulate")
    for steps in (256, 257, 1000):
        g = sj.function(*lstm_gradient(steps), mode="emulate")
        assert g.memory() == f.memory(T=steps)
