"""Loops of a batch that end by themselves: a vector of examples runs until the last of them has ended, with its state
in registers, and does not wait for other vectors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.fuzz.check import Config
from tests.pairs import pairwise


def divisor(x: Any, y: Any) -> Any:
    """The greatest common divisor."""
    return sj.while_loop(lambda s: sj.not_equal(s[1], 0), lambda s: (s[1], s[0] % s[1]), (x, y))[0]


def halvings(x: Any, y: Any) -> Any:
    """How many steps of Collatz lead to 1."""
    next_to = lambda n: sj.where(sj.equal(n % 2, 0), n // 2, 3 * n + 1)
    return sj.while_loop(lambda s: s[0] > 1, lambda s: (next_to(s[0]), s[1] + 1), (x, 0))[1]


def root(x: Any, y: Any) -> Any:
    """A square root by Newton's method."""
    x = sj.cast(x, "float64")
    return sj.while_loop(lambda r: abs(r * r - x) > 1e-9 * x, lambda r: 0.5 * (r + x / r), x)


def doublings(x: Any, y: Any) -> Any:
    """Where x first exceeds 1000. A lane of zeros behind the last example would never end."""
    return sj.while_loop(lambda x: x < 1000, lambda x: 2 * x, x)


def limited(x: Any, y: Any) -> Any:
    """At most 9 steps, which the state counts, of a step that reads a table."""
    table = sj.as_tensor(np.array([3, 0, 4, 1, 2]))
    go_on = lambda s: sj.not_equal(s[0], y % 5) & (s[1] < 9)
    return sj.while_loop(go_on, lambda s: (table[s[0]], s[1] + 1), (x % 5, 0), max_steps=10)[1]


MODELS = [divisor, halvings, root, doublings, limited]


@pairwise(model=MODELS, mode=["emulate", "numba"], threads=[1, 3], width=[None, 16, 32], size=["T", 12])
def test_as_the_reference(
    model: Callable[..., Any], mode: Any, threads: int, width: int | None, size: int | str
) -> None:
    x, y = (sj.tensor((size,), "int64", name) for name in "xy")
    mapped = sj.map(model, [x, y])
    with Config(threads=threads, width=width).active():
        f, reference = (sj.function([x, y], mapped, mode=each) for each in (mode, "reference"))
        for steps in (0, 1, 2, 7, 8, 9, 41) if size == "T" else (12,):
            given = np.random.default_rng(steps).integers(1, 500, (2, steps))
            np.testing.assert_array_equal(f(*given), reference(*given))


@pytest.mark.parametrize("model", MODELS)
def test_vectors_do_not_wait_for_each_other(model: Callable[..., Any]) -> None:
    x, y = sj.vector("x", "int64"), sj.vector("y", "int64")
    f = sj.function([x, y], sj.map(model, [x, y]), mode="emulate")
    assert "one nest with all of its steps" in str(f.explain())
    assert "stop if all" in str(sj.dprint(f, file="str", stage="blocks"))


def test_gradients() -> None:
    x = sj.vector("x")
    y = sj.map(lambda x: sj.while_loop(lambda x: x < 100.0, lambda x: x * x, x, max_steps=20), x)
    f, reference = (sj.function([x], [y, sj.grad(y.sum(), x)], mode=mode) for mode in ("emulate", "reference"))
    given = np.array([1.5, 200.0, 3.0, 1.01])
    for found, wanted in zip(f(given), reference(given), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_entries_of_a_small_state_end_apart() -> None:
    """A step of a loop solves an equation for each of its four numbers: they lie in one vector."""

    def solve(x: Any, y: Any) -> Any:
        error = lambda z: z - y - 0.1 * (x - z * z * z)
        return sj.while_loop(lambda z: abs(error(z)) > 1e-10, lambda z: z - error(z) / (1.0 + 0.3 * z * z), y)

    x = sj.tensor(("T", 4), "float64", "x")
    made = sj.scan(lambda x, y: sj.vmap(solve)(x, y), x, sj.full(4, 0.5))
    f, reference = (sj.function([x], made, mode=mode) for mode in ("numba", "reference"))
    given = np.random.default_rng(0).standard_normal((20, 4))
    np.testing.assert_allclose(f(given), reference(given), rtol=1e-12)
    assert "number by number" not in str(f.explain())
