"""Matrices that are the same in all steps are packed before the loop, also if a step multiplies them by one vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.schedule.tiles.apply import STEPS_OF_A_PACK
from tests.fuzz.check import Config
from tests.pairs import pairwise

ALONG_SUMS = "lanes along the reductions"


def states(steps: int | str, n: int | str, dtype: str) -> tuple[list[sj.Node], list[sj.Node]]:
    """A recurrence whose state is multiplied by a matrix from the left, and its gradients."""
    x, r = sj.tensor((steps, n), dtype, "x"), sj.tensor((n, n), dtype, "r")
    h = sj.scan(lambda row, h: sj.tanh(r @ h + row), x, sj.zeros((x.shape[1],), dtype))
    return [x, r], [h, *sj.grad((h * h).sum(), [x, r])]


def expected(x: np.ndarray, r: np.ndarray) -> np.ndarray:
    h, found = np.zeros(x.shape[1]), []
    for row in x.astype("float64"):
        h = np.tanh(r @ h + row)
        found.append(h)
    return np.array(found).reshape(x.shape)


@pytest.mark.quick(4)
@pairwise(n=["n", 3, 5, 16, 33], dtype=["float32", "float64"], mode=["numba", "emulate"])
def test_states_as_columns(n: int | str, dtype: str, mode: str, rng: np.random.Generator) -> None:
    inputs, outputs = states("T", n, dtype)
    assert ALONG_SUMS not in sj.function(inputs, outputs[0], mode="emulate").explain()
    functions = {}
    for threads in (1, 2, 3):
        with Config(threads=threads).active():
            functions[threads] = sj.function(inputs, outputs, mode=mode)
    for size in (0, 1, 2, 7, 8, 9, 40) + (300,) * (mode == "numba") if isinstance(n, str) else (n,):
        for steps in (0, 1, 2, 9):
            x, r = (rng.standard_normal(s).astype(dtype) / max(size, 1) for s in ((steps, size), (size, size)))
            results = {}
            for threads, f in functions.items():
                with Config(threads=threads).active():
                    results[threads] = f(x, r)
            np.testing.assert_equal(results[2], results[1])
            np.testing.assert_equal(results[3], results[1])
            rtol = {"float32": 1e-4, "float64": 1e-11}[dtype]
            np.testing.assert_allclose(results[1][0], expected(x, r), rtol=rtol, atol=rtol)


def test_gradients(rng: np.random.Generator) -> None:
    inputs, outputs = states("T", "n", "float64")
    f = sj.function(inputs, outputs)
    x, r, dr = rng.standard_normal((6, 5)), rng.standard_normal((5, 5)), rng.standard_normal((5, 5))
    above, below = ((expected(x, r + e * dr) ** 2).sum() for e in (1e-6, -1e-6))
    np.testing.assert_allclose((f(x, r)[2] * dr).sum(), (above - below) / 2e-6, rtol=1e-7)


def explained(step: Any, *arguments: Any) -> str:
    return sj.function(list(arguments[0]), sj.scan(step, *arguments[1:]), mode="emulate").explain()


def test_what_a_step_changes_is_not_packed_for_it() -> None:
    """A matrix of each step, and a matrix that the steps change."""
    x, r, m = sj.tensor(("T", "n"), name="x"), sj.tensor(("n", "n"), name="r"), sj.tensor(("T", "n", "n"), name="m")
    zeros = sj.zeros((x.shape[1],))
    assert ALONG_SUMS not in explained(lambda row, h: r @ h + row, [x, r], x, zeros)
    assert ALONG_SUMS in explained(lambda a, h: a @ h + 1, [m], m, sj.zeros((m.shape[1],)))
    assert ALONG_SUMS in explained(lambda row, h, a: (a @ h + row, a * 0.5), [x, r], x, [zeros, r])


def test_a_loop_in_a_loop_and_a_branch(rng: np.random.Generator) -> None:
    """The inner loop multiplies by a matrix of the outer step, and a branch by one that no step changes."""
    m, r = sj.tensor(("T", "n", "n"), "float64", "m"), sj.tensor(("n", "n"), "float64", "r")

    def step(a: sj.Node, h: sj.Node) -> sj.Node:
        inner = sj.scan(lambda k: sj.tanh(a @ k), None, h, n_steps=9)[-1]
        return sj.ifelse(inner.sum() > 0, r @ inner, inner)

    f = sj.function([m, r], sj.scan(step, m, sj.ones((m.shape[1],), "float64")))
    a, b = rng.standard_normal((7, 5, 5)), rng.standard_normal((5, 5))
    h, wanted = np.ones(5), []
    for matrix in a:
        for _ in range(9):
            h = np.tanh(matrix @ h)
        h = b @ h if h.sum() > 0 else h
        wanted.append(h)
    np.testing.assert_allclose(f(a, b), wanted, rtol=1e-11)


@pytest.mark.parametrize("steps", [2, STEPS_OF_A_PACK, STEPS_OF_A_PACK + 1])
def test_few_steps_pack_nothing(steps: int) -> None:
    inputs, outputs = states(steps, "n", "float32")
    assert (ALONG_SUMS in sj.function(inputs, outputs[0], mode="emulate").explain()) == (steps <= STEPS_OF_A_PACK)


def test_few_steps_in_many() -> None:
    """What the outer steps leave as it is, is packed for the inner ones too."""
    x, r = sj.tensor(("T", "n"), name="x"), sj.tensor(("n", "n"), name="r")
    inner = lambda row, h: sj.scan(lambda h: sj.tanh(r @ h + row), None, h, n_steps=2)[-1]
    assert ALONG_SUMS not in explained(inner, [x, r], x, sj.zeros((x.shape[1],)))
