"""Warnings of random numbers and clocks that would be frozen when a function is traced."""

import datetime
import linecache
import random
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj

RNG = np.random.default_rng(0)
X = sj.vector("x")


def noise() -> float:
    return random.gauss(0.0, 1.0)


def now() -> float:
    return time.perf_counter()


STEPS: dict[str, tuple[Callable[..., Any], str]] = {
    "np.random": (lambda a, h: a + h + np.random.normal(), "np.random.normal runs once"),
    "np.random.default_rng": (lambda a, h: a + h + np.random.default_rng(1).normal(), "np.random.default_rng"),
    "a generator": (lambda a, h: a + h + RNG.normal(), "RNG.normal runs once"),
    "random": (lambda a, h: a + h * random.random(), "random.random runs once"),
    "a helper": (lambda a, h: a + h + noise(), "random.gauss runs once"),
    "time": (lambda a, h: a + h * time.perf_counter(), "time.perf_counter runs once"),
    "a date": (lambda a, h: a + h * datetime.datetime.now().second, "datetime.datetime.now runs once"),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_draws_is_warned_of(name: str) -> None:
    step, words = STEPS[name]
    with pytest.warns(UserWarning, match=words) as caught:
        sj.scan(step, X, 0.0)
    assert [one.filename for one in caught] == [__file__]
    assert words.partition(" ")[0] in linecache.getline(__file__, caught[0].lineno)
    assert "sj.random.Stream" in str(caught[0].message) or "time" in str(caught[0].message)


def test_a_jitted_function_and_a_closure() -> None:
    rng = np.random.RandomState(0)
    f = sj.jit(lambda x: x + rng.rand(), mode="reference")
    with pytest.warns(UserWarning, match="rng.rand runs once") as caught:
        f(1.0)
    assert caught[0].filename == __file__


def test_a_method_as_a_step() -> None:
    class Model:
        def step(self, a: Any, h: Any) -> Any:
            return a + h + np.random.rand()

    with pytest.warns(UserWarning, match="np.random.rand"):
        sj.scan(Model().step, X, 0.0)


def test_what_does_no_harm_is_not_warned_of() -> None:
    stream = sj.random.Stream(1)

    def step(a: Any, h: Any) -> Any:
        time.sleep(0)
        assert isinstance(RNG, np.random.Generator)
        return np.tanh(a + h) + stream.normal()

    def weighted(x: Any, now: Any) -> Any:  # `now` is not the function of that name
        return sj.scan(lambda a, h: a + h * now, x, 0.0)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sj.scan(step, X, 0.0)
        sj.jit(weighted, mode="reference")(np.ones(3), 2.0)
        sj.jit(lambda x: np.random and x * np.pi, mode="reference")(1.0)
