"""Digests of functions and of what they use from outside."""

import functools
import gc
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.contents import captured


@pytest.mark.parametrize("name", ["mine", "mathutils", "numpy_helpers.more"])
def test_a_module_of_a_user_is_no_library(name: str) -> None:
    """Whatever its name begins with: what its functions use is looked at."""
    module = types.ModuleType(name)
    exec("k = 1\ndef f(x):\n    return x * k", module.__dict__)
    before = captured(module.f)
    assert captured(module.f) == before
    module.k = 2  # type: ignore[attr-defined]
    assert captured(module.f) != before


def test_a_library_is_known_by_its_name() -> None:
    assert captured(np.tanh) == captured(np.tanh) != captured(np.sinh)


class Model:
    """Has what functions use in an attribute, in one of its class, and behind methods."""

    shift = 1.0

    def __init__(self) -> None:
        self.scale = 2.0

    def scaled(self, x: float) -> float:
        return self.scale * x

    @property
    def rate(self) -> float:
        return self.scale / 2

    @functools.cached_property
    def offset(self) -> float:
        return self.scale - 1

    @staticmethod
    def moved(x: float) -> float:
        return x + Model.shift


@dataclass(slots=True)
class Slots:
    """Has what functions use in a slot."""

    scale: float = 2.0


NAME = "scale"


def scaled(model: Any, x: float) -> float:
    return model.scale * x


def used(model: Any, slots: Any) -> dict[str, Callable[[float], float]]:
    variable = "scale"

    def later(x: float) -> float:
        first = model
        return scaled(first, x)

    return {
        "attribute": lambda x: model.scale * x,
        "method": lambda x: model.scaled(x),
        "property": lambda x: model.rate * x,
        "cached property": lambda x: model.offset * x,
        "static method": lambda x: model.moved(x),
        "attribute of the class": lambda x: x + model.shift,
        "named further down": later,
        "slot": lambda x: slots.scale * x,
        "getattr": lambda x: getattr(model, "scale") * x,  # noqa: B009
        "getattr in a loop": lambda x: sum(getattr(model, name) * x for name in ("scale", "shift")),
        "getattr of a variable": lambda x: getattr(model, variable) * x,
        "getattr of a default": lambda x, name="scale": getattr(model, name) * x,
        "getattr of a global": lambda x: getattr(model, NAME) * x,
    }


@pytest.mark.parametrize("name", used(None, None))
def test_attributes_that_a_function_uses(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, slots = Model(), Slots()
    function = used(model, slots)[name]
    before = captured(function)
    assert captured(function) == before
    model.other = 3.0  # type: ignore[attr-defined]
    assert captured(function) == before
    model.scale = slots.scale = 3.0
    monkeypatch.setattr(Model, "shift", 2.0)
    assert captured(function) != before


def test_a_variable_without_a_value() -> None:
    function = lambda x: x * later
    before = captured(function)
    later = 1.0
    assert captured(function) != before


def test_what_is_known_by_its_address_lives_as_long_as_the_digest() -> None:
    """Another object with this address would be taken for it."""
    used = {"stream": sj.random.Stream(1)}
    found, lives = captured(lambda x: x + used["stream"].uniform(())), weakref.ref(used.pop("stream"))
    gc.collect()
    assert lives() is not None
    del found
    gc.collect()
    assert lives() is None
