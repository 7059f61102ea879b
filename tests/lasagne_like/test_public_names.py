"""What `lasagne_like` takes from the engine is public, and what it offers itself is documented and typed."""

import ast
import importlib
import inspect
import pkgutil
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import lasagne_like
import scanjit as sj

FILES = sorted(Path(lasagne_like.__file__).parent.rglob("*.py"))
MODULES = [m.name for m in pkgutil.walk_packages(lasagne_like.__path__, "lasagne_like.", onerror=lambda name: None)]
if not find_spec("sklearn"):
    MODULES = [name for name in MODULES if not name.startswith("lasagne_like.estimators")]


@pytest.mark.quick(28)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_only_public_names_of_the_engine_are_used(path: Path) -> None:
    """`sj.name` must be in `scanjit.__all__`; imports are looked at by tests/test_layering.py."""
    allowed = {*sj.__all__, "parallel", "plot", "random", "show"}  # modules
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


def documented() -> list[tuple[str, Any]]:
    """Every class and function that a public module lists, once."""
    found = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", ()):
            thing = getattr(module, public)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found[thing] = f"{thing.__module__}.{public}"
    return [(label, thing) for thing, label in found.items()]


@pytest.mark.parametrize(("label", "thing"), documented(), ids=lambda value: value if isinstance(value, str) else "")
def test_docstrings_have_an_example_and_name_the_parameters(label: str, thing: Any) -> None:
    """Examples run as doctests. Parameters are listed if there are several, those of the signature and no others."""
    doc = inspect.getdoc(thing) or ""
    assert "Examples\n--------" in doc and ">>> " in doc
    own = list(inspect.signature(thing.__init__ if inspect.isclass(thing) else thing).parameters)
    own = [name for name in own if name not in ("self", "args", "kwargs")]
    if "Parameters\n----------\n" not in doc:
        assert len(own) < 2 or issubclass(thing, tuple)
        return
    section = re.split(r"\n\n(?=\w+\n---)", doc.split("Parameters\n----------\n")[1])[0]
    listed = re.findall(r"^(?!\s)([\w*, ]+?)(?= :|$)", section, re.MULTILINE)
    names = [name.strip().lstrip("*") for line in listed for name in line.split(",")]
    assert [name for name in names if name not in ("args", "kwargs")] == own
