"""A name that begins with an underscore is used in its own file alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = [path for package in ("scanjit", "lasagne_like") for path in sorted((ROOT / package).rglob("*.py"))]


def test_no_private_name_of_another_file_is_used() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
    ours = set().union(*map(names_of_own, trees.values()))
    found = [line for path, tree in trees.items() for line in uses(tree, path, ours)]
    assert not found, "make it public, or do without:\n" + "\n".join(found)


def uses(tree: ast.Module, path: Path, ours: set[str]) -> Iterator[str]:
    """Each place where a private name of another file is imported, or looked up in a module or in an object.

    `ours` are the private names of all files: others, such as `sys._getframe`, are those of other packages."""
    others = ours - names_of_own(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] in PACKAGES):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and not is_self(node.value) and node.attr in others:
            found = [node.attr]
        else:
            continue
        yield from (f"{path.relative_to(ROOT)}:{node.lineno}: {name}" for name in found if is_private(name))


PACKAGES = ("scanjit", "lasagne_like")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def names_of_own(tree: ast.Module) -> set[str]:
    """The private names that a file gives to its own functions, classes, variables, and attributes of `self`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value):
            found.add(node.attr)
        elif isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__slots__" for t in node.targets
        ):
            found |= {part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)}
    return found


@pytest.mark.parametrize(
    "text",
    [
        "from scanjit.ir import _intern",
        "from . import _intern",
        "from scanjit import ir\nir._intern()",
        "def f(node): return node._cache",
        "class A:\n    def f(self, other): return self._x + other._y",
    ],
)
def test_private_names_of_others_are_found(text: str) -> None:
    assert list(uses(ast.parse(text), ROOT / "example.py", {"_intern", "_cache", "_y"}))


@pytest.mark.parametrize(
    "text",
    [
        "from numpy import _x",
        "import a.__init__\nx.__class__",
        "class A:\n    def f(self): self._x = self._g()",
        "class A:\n    _x = 1\n    def __eq__(self, other): return self._x == other._x",
        "sys._getframe()",
        'class A:\n    __slots__ = ("_x",)\n    def __eq__(self, other): return other._x',
    ],
)
def test_own_names_are_left_alone(text: str) -> None:
    assert not list(uses(ast.parse(text), ROOT / "example.py", {"_x", "_g"}))
