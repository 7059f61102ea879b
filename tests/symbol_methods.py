"""Writes the declarations of `Node`'s methods in `scanjit/symbol.py`, from the functions that these methods are:

python -m tests.symbol_methods && ruff format scanjit/symbol.py
"""

import ast
import inspect
import textwrap
from pathlib import Path

from scanjit import symbol
from scanjit.tensor import protocol

FILE = Path(symbol.__file__)
BEGIN = "        # ---- methods, written by `python -m tests.symbol_methods`\n"
END = "        # ---- end of the methods\n"


def declaration(name: str) -> ast.FunctionDef:
    """The signature of a function as that of a method or property, with the first paragraph of its docstring."""
    value = protocol.GIVEN[name]
    function = value.fget if isinstance(value, property) else value
    assert (function.__doc__ or "").strip(), f"{name} has no docstring"
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    summary = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
    if function.__name__ in protocol.FUNCTIONS and "See `" not in summary:
        summary += f" See `scanjit.{function.__name__}`."
    tree.name, tree.args.args[0] = name, ast.arg("self")
    for argument in tree.args.args[1:]:  # this layer does not know Node
        text = ast.unparse(argument.annotation or ast.Name("Any")).replace("Node", "Symbol[Any]")
        argument.annotation = ast.parse(text, mode="eval").body
    if isinstance(value, property):
        tree.decorator_list = [ast.Name("property")]
        del tree.args.args[1:], tree.args.defaults[:]
    if ast.unparse(tree.returns or tree) == "Node":
        tree.returns = ast.Name("N")
    tree.body = [ast.Expr(ast.Constant(textwrap.fill(summary, 102).replace("\n", "\n    ")))]
    return tree


def declarations() -> list[str]:
    """What should stand in the file, without its layout."""
    return [ast.unparse(declaration(name)) for name in sorted(protocol.GIVEN) if not name.startswith("_")]


def declared() -> list[str]:
    """What stands in the file."""
    middle = FILE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]
    return [ast.unparse(node) for node in ast.parse(textwrap.dedent(middle)).body]


if __name__ == "__main__":
    before, rest = FILE.read_text(encoding="utf-8").split(BEGIN)
    written = "\n\n".join(textwrap.indent(text, " " * 8) for text in declarations())
    FILE.write_text(before + BEGIN + written + "\n\n" + END + rest.split(END)[1], encoding="utf-8")
