"""What `lasagne_like` takes from the engine is public, and what it offers itself is documented and typed."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import lasagne_like
import scanjit as sj

FILES = sorted(Path(lasagne_like.__file__).parent.rglob("*.py"))
MODULES = [m.name for m in pkgutil.walk_packages(lasagne_like.__path__, "lasagne_like.")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_only_public_names_of_the_engine_are_used(path: Path) -> None:
    """`sj.name` must be in `scanjit.__all__`; imports are looked at by tests/test_layering.py."""
    allowed = {*sj.__all__, "random"}  # a module
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sj":
            assert node.attr in allowed, f"{path}:{node.lineno} uses sj.{node.attr}"


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_has_a_docstring(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__, name
    for public in getattr(module, "__all__", ()):
        thing = getattr(module, public)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, f"{name}.{public}"
