"""A name that begins with an underscore is used in its own file alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = [path for package in ("scanjit", "lasagne_like") for path in sorted((ROOT / package).rglob("*.py"))]


def test_no_private_name_of_another_file_is_used() -> None:
    ours: set[str] = set()
    read = []
    for path in FILES:  # no two trees at a time: the collector would go through all of them again and again
        tree = ast.parse(path.read_text(encoding="utf-8"))
        ours |= (own := names_of_own(tree))
        read.append((path, list(uses(tree, own))))
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path, names in read
        for name, line, imported in names
        if imported or name in ours
    ]
    assert not found, "make it public, or do without:\n" + "\n".join(found)


def uses(tree: ast.Module, own: set[str]) -> Iterator[tuple[str, int, bool]]:
    """Each private name that a file imports from ours, or looks up in a module or in an object and does not have among
    its own: its line, and whether it is imported. One that is looked up may be of another package: `sys._getframe`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] in PACKAGES):
            yield from ((alias.name, node.lineno, True) for alias in node.names if is_private(alias.name))
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            if node.attr not in own and not is_self(node.value):
                yield node.attr, node.lineno, False


PACKAGES = ("scanjit", "lasagne_like")


def private(text: str) -> list[tuple[str, int, bool]]:
    tree = ast.parse(text)
    return list(uses(tree, names_of_own(tree)))


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
    assert private(text)


@pytest.mark.parametrize(
    "text",
    [
        "from numpy import _x",
        "import a.__init__\nx.__class__",
        "class A:\n    def f(self): self._x = self._g()",
        "class A:\n    _x = 1\n    def __eq__(self, other): return self._x == other._x",
        'class A:\n    __slots__ = ("_x",)\n    def __eq__(self, other): return other._x',
    ],
)
def test_own_names_are_left_alone(text: str) -> None:
    assert not private(text)


def test_names_of_other_packages_are_looked_up_alone() -> None:
    assert private("sys._getframe()") == [("_getframe", 1, False)]
