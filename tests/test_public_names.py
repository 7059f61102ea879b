"""The public names: `import scanjit as sj` offers them, once each, documented, with an example that runs."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import scanjit as sj

TYPES = {"TensorLike"}
"""Types for annotations, which have no docstring. The page of symbols describes them."""


def test_public_names_exist_and_are_documented():
    assert len(set(sj.__all__)) == len(sj.__all__)
    for name in sj.__all__:
        value = getattr(sj, name)
        assert not inspect.ismodule(value), name
        assert inspect.getdoc(value) or name in TYPES, f"{name} has no docstring"


def documented() -> Iterator[tuple[str, Any]]:
    """What users call: public functions and the methods of public classes, but for errors."""
    offered = {name: getattr(sj, name) for name in sj.__all__ if name not in TYPES} | {
        "random.Stream": sj.random.Stream
    }
    for name, value in offered.items():
        if not inspect.isclass(value):
            yield name, value
        elif not issubclass(value, Exception):
            yield name, value
            methods = {key: method for key, method in vars(value).items() if inspect.isfunction(method)}
            yield from ((f"{name}.{key}", method) for key, method in methods.items() if not key.startswith("_"))


INTERNAL = {"SharedVariable.converted", "SharedVariable.check_shape", "SharedVariable.as_declared"}
"""Methods that users do not call, but other layers do."""


@pytest.mark.quick(120)
@pytest.mark.parametrize("name, value", [pair for pair in documented() if pair[0] not in INTERNAL])
def test_what_users_call_has_an_example(name, value):
    """They run, as doctests of the modules: those that are made for a table of functions too."""
    assert ">>>" in (inspect.getdoc(value) or ""), f"{name} has no example"


def test_names_that_are_modules_too_are_functions():
    assert callable(sj.tensor) and callable(sj.function) and callable(sj.jit) and callable(sj.shared)


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("switch", "where"),
        ("eq", "equal"),
        ("set_subtensor", r"x\[index\].set"),
        ("nan", r"np\.nan"),
        ("linalg", "its functions alone, such as sj.solve"),
        ("asarray", "as_tensor"),
    ],
)
def test_names_of_other_libraries_lead_to_ours(name: str, here: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute {name!r}: write {here}"):
        getattr(sj, name)
