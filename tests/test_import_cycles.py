"""No file imports a file that imports it: not at the top, not inside a function, not for type checkers alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("scanjit", "lasagne_like")
Imports = Mapping[str, list[str]]
"""For each module: the modules that it imports."""


def test_there_is_no_cycle() -> None:
    found = cycles(imports_of(ROOT))
    assert not found, "files that import each other:\n" + "\n".join(" -> ".join([*cycle, cycle[0]]) for cycle in found)


def imports_of(root: Path) -> Imports:
    """The imports of every module in the packages below `root`, read from the source."""
    paths = {module(path.relative_to(root)): path for package in PACKAGES for path in (root / package).rglob("*.py")}
    return {
        name: sorted({target for target in targets(path, name) for target in [known(target, paths)] if target})
        for name, path in sorted(paths.items())
    }


def module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def targets(path: Path, name: str) -> Iterator[str]:
    """What a file imports, wherever in it: `a.b.c` for `from a.b import c`, whether `c` is a module or not."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            whole = ".".join(filter(None, [base, node.module]))
            yield from (f"{whole}.{alias.name}" for alias in node.names)


def known(target: str, paths: Mapping[str, Path]) -> str | None:
    """The module that an import means: the longest beginning of the dotted path that is one."""
    while target and target not in paths:
        target = target.rpartition(".")[0]
    return target or None


def cycles(imports: Imports) -> list[list[str]]:
    """One cycle of each group of modules that import each other, the shortest from its first module."""
    found: list[list[str]] = []
    seen: set[str] = set()
    for name in imports:
        if name not in seen and (cycle := shortest(name, imports)):
            found.append(cycle)
            seen |= {other for other in imports if reaches(name, other, imports) and reaches(other, name, imports)}
    return found


def shortest(start: str, imports: Imports) -> list[str]:
    """The shortest way from a module back to itself; empty if there is none."""
    ways, seen = [[start]], set()
    for way in ways:
        for target in imports[way[-1]]:
            if target == start:
                return way
            if target not in seen:
                seen.add(target)
                ways.append([*way, target])
    return []


def reaches(start: str, end: str, imports: Imports) -> bool:
    stack, seen = [start], set()
    while stack:
        for target in imports[stack.pop()]:
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return end in seen


@pytest.mark.parametrize(
    ("files", "cycle"),
    [
        ({"a": "from scanjit import b", "b": "from scanjit.a import x"}, ["scanjit.a", "scanjit.b"]),
        ({"a": "def f():\n    import scanjit.b", "b": "from . import a"}, ["scanjit.a", "scanjit.b"]),
        (
            {"a": "from typing import *\nif TYPE_CHECKING:\n    from .b import x", "b": "import scanjit.a"},
            ["scanjit.a", "scanjit.b"],
        ),
        (
            {"a": "from .b import x", "b": "from .c import x", "c": "from scanjit.a import x"},
            ["scanjit.a", "scanjit.b", "scanjit.c"],
        ),
        ({"a": "from .b import x", "b": "import numpy"}, None),
    ],
)
def test_cycles_are_found(files: dict[str, str], cycle: list[str] | None, tmp_path: Path) -> None:
    (tmp_path / "scanjit").mkdir()
    for name, text in {"__init__": "", **files}.items():
        (tmp_path / "scanjit" / f"{name}.py").write_text(text)
    assert cycles(imports_of(tmp_path)) == ([cycle] if cycle else [])
