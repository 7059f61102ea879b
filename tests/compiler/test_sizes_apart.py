"""Sizes that are declared apart, and are equal when the function runs."""

from __future__ import annotations

import numpy as np
import pytest

import scanjit as sj
from tests.compare import all_close
from tests.fuzz.cases import apart
from tests.fuzz.check import Config, check


@pytest.mark.parametrize("order", [1, 2, 3])
def test_states_of_a_loop(order: int, rng: np.random.Generator) -> None:
    """Two states that are always equal; their derivatives become one loop."""
    a, b = sj.vector("a"), sj.vector("b")
    states = sj.scan(lambda p, q: (sj.sin(p + q),) * 2, outputs_info=[a, b], n_steps=2)
    found = list(states)
    for _ in range(order):
        found = sj.grad(sum((x**2).sum() for x in found), [a, b])
    plain, compiled = (sj.function([a, b], found, mode=mode) for mode in ("reference", "emulate"))
    values = rng.normal(size=(2, 3))
    all_close(compiled(*values), plain(*values), rtol=1e-9, atol=1e-12)
    with pytest.raises(sj.ShapeError):
        compiled(values[0], values[1, :2])


def test_a_constant_given_twice_under_two_sizes() -> None:
    """One operand for two inputs of a step, whose types name the size differently: the other inputs keep theirs."""
    a, b = sj.vector("a"), sj.vector("b")
    both = a + b
    y = sj.scan(lambda h, u, v: sj.tanh(h * u + v), outputs_info=[b], non_sequences=[both, both], n_steps=3)
    f = sj.function([a, b], sj.grad((y**2).sum(), [a, b]), mode="emulate")
    g = sj.function([a, b], sj.grad((y**2).sum(), [a, b]), mode="reference")
    all_close(f([1.0, 2.0], [0.5, -1.0]), g([1.0, 2.0], [0.5, -1.0]), rtol=1e-9)


def test_random_programs() -> None:
    for seed in range(30):
        try:
            check(apart(seed), [Config()])
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
