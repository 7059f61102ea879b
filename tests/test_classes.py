"""A class is abstract or final: no class that objects are made of has classes below it."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from abc import ABC
from pathlib import Path

ROOT = Path(__file__).parent.parent

EXTENDED = {
    "scanjit.errors": "users catch several errors by their base",
    "scanjit.tracebacks.BriefError": "what all errors have in common; users may raise it",
    "scanjit.symbol.Symbol": "it has no code: it tells type checkers what a node has",
    "scanjit.ir.node.Op": "most ops are objects of it; those with rules of their own are of classes below",
    "lasagne_like.layers.base": "users derive their own layers, as from those of Lasagne",
    "lasagne_like.layers": "layers extend others where they do in Lasagne",
    "lasagne_like.cells.base.Cell": "users derive their own cells",
    "lasagne_like.cells.gated.GatedCell": "users derive their own cells with gates",
    "lasagne_like.cells.wrappers.Wrapper": "users derive their own wrappers of cells",
    "lasagne_like.cells.lstm.LSTM": "its variants change one part of it",
    "lasagne_like.init": "users derive their own initializers; normal and uniform ones extend others as in Lasagne",
}
"""Classes that objects are made of and that others extend (a class, a file or a folder), each with the reason."""


SHARED_NAMES = {
    "StepFunction": "both are what `step_function` makes: of any function, and of a network",
}
"""Names that two classes have, each with the reason."""


def classes() -> list[type]:
    """All classes that are defined in the packages; files whose third parties are not installed are left out."""
    found: dict[type, None] = {}
    for package in ("scanjit", "lasagne_like"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
            if module.name.endswith("__main__"):
                continue
            try:
                members = vars(importlib.import_module(module.name))
            except ImportError:
                continue
            found |= dict.fromkeys(
                value for value in members.values() if isinstance(value, type) and value.__module__ == module.name
            )
    return list(found)


def concrete_bases() -> dict[str, list[str]]:
    """The classes that others extend though they are not declared as abstract, each with these others."""
    found: dict[str, list[str]] = {}
    for made in classes():
        for base in made.__bases__:
            own = base.__module__.split(".")[0] in ("scanjit", "lasagne_like")
            abstract = ABC in base.__bases__ or inspect.isabstract(base) or getattr(base, "_is_protocol", False)
            if own and not abstract:
                found.setdefault(f"{base.__module__}.{base.__qualname__}", []).append(made.__qualname__)
    return found


def is_listed(name: str) -> bool:
    return any(name == listed or name.startswith(listed + ".") for listed in EXTENDED)


def test_a_class_that_others_extend_is_abstract() -> None:
    found = {name: below for name, below in concrete_bases().items() if not is_listed(name)}
    assert not found, f"declare them as abstract (ABC), or compose: {found}"


def test_a_name_means_one_class() -> None:
    """Names that begin with an underscore are those of one file."""
    found: dict[str, set[str]] = {}
    for made in classes():
        if not made.__qualname__.startswith("_"):
            found.setdefault(made.__qualname__, set()).add(made.__module__)
    twice = {name: sorted(modules) for name, modules in found.items() if len(modules) > 1}
    assert twice.keys() == SHARED_NAMES.keys(), f"one word for a concept, one concept for a word: {twice}"


def test_exceptions_are_needed() -> None:
    found = concrete_bases()
    for listed in EXTENDED:
        assert any(name == listed or name.startswith(listed + ".") for name in found), f"nothing extends {listed}"


def test_nobody_calls_upwards() -> None:
    """What a class leaves to those below it is an abstract method, not one that raises; users' classes are told."""
    for path in sorted((ROOT / "scanjit").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "NotImplementedError" in text else ():
            if isinstance(node, ast.Raise):
                assert "NotImplementedError" not in ast.dump(node), f"{path}:{node.lineno}: use abc.abstractmethod"
