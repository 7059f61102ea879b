"""Loops of numbers with loops and branches in their steps: all in one function, with the numbers on the stack."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.fuzz.check import Config
from tests.pairs import pairwise


def window(x: Any) -> Any:
    """The longest window whose sum is at most 3."""

    def step(t: Any, x_t: Any, left: Any, total: Any, longest: Any) -> Any:
        shorter = lambda state: (state[0] + 1, state[1] - x[state[0]])
        left, total = sj.while_loop(lambda state: state[1] > 3.0, shorter, (left, total + x_t))
        return left, total, sj.maximum(longest, t - left + 1)

    return sj.scan(step, [sj.arange(x.shape[0]), x], [0, 0.0, 0])[2]


def greater_before(x: Any) -> Any:
    """The last greater element, from a stack."""

    def step(x: Any, stack: Any, size: Any) -> Any:
        top = lambda size: stack[sj.maximum(size - 1, 0)]
        size = sj.while_loop(lambda size: (size > 0) & (top(size) < x), lambda size: size - 1, size)
        return stack[size].set(x), size + 1, sj.where(size > 0, top(size), -1.0)

    return sj.scan(step, x, [sj.zeros(40), 0, None])[2]


def one_after_the_other(x: Any) -> Any:
    """Two inner loops, and one in an inner loop."""

    def halved(state: Any) -> Any:
        a, n = state
        return sj.while_loop(lambda b: b > 1.0, lambda b: 0.25 * b, a) * 0.5, n + 1

    def step(x: Any, h: Any) -> Any:
        a, n = sj.while_loop(lambda state: state[0] > 0.01, halved, (abs(x) + h, 0))
        b = sj.while_loop(lambda b: b < 2.0, lambda b: b + h + 1.0, a)
        return 0.5 * b + n

    return sj.scan(step, x, 0.0)


def known_lengths(x: Any) -> Any:
    """Inner loops of three steps, and of none, behind a branch."""

    def step(x: Any, h: Any, k: Any) -> Any:
        power = lambda n: sj.scan(lambda a, b: (a * x + b, a), None, [h, k], n_steps=n)
        h = sj.ifelse(h > k, lambda: power(3)[0][-1] - power(2)[1][-1], lambda: h + x)
        return sj.tanh(h), sj.ifelse(x > 0.0, lambda: k + 0.1, lambda: -k)

    return sj.scan(step, x, [0.0, 0.5])[0]


MODELS = [window, greater_before, one_after_the_other, known_lengths]


@pairwise(model=MODELS, mode=["emulate", "numba"], threads=[1, 3])
def test_as_the_reference(model: Callable[[Any], Any], mode: Any, threads: int) -> None:
    x = sj.vector("x", "float64")
    with Config(threads=threads).active():
        f, reference = (sj.function([x], model(x), mode=each) for each in (mode, "reference"))
        for steps in (0, 1, 40):
            given = np.random.default_rng(steps).uniform(0.0, 1.0, steps)
            np.testing.assert_allclose(f(given), reference(given), rtol=1e-12)


@pytest.mark.parametrize("model", [window, greater_before, known_lengths])
def test_numbers_lie_on_the_stack(model: Callable[[Any], Any]) -> None:
    x = sj.vector("x", "float64")
    loops = re.findall(r"^def loop_.*?(?=^\S|\Z)", sj.function([x], model(x)).source, re.DOTALL | re.MULTILINE)
    assert len(loops) == 1
    step = re.search(r"^    for step0 .*?(?=^    \S)", loops[0], re.DOTALL | re.MULTILINE)
    assert step is not None
    assert "% 2" not in step[0]
    assert re.search(r"store\w*\(p", step[0]) is None


def test_a_table_that_inner_loops_read_is_changed_in_place() -> None:
    x = sj.vector("x", "float64")
    f = sj.function([x], greater_before(x))
    assert "chosen in lanes" not in str(f.explain())
    assert re.search(r"def \w*scatter_", f.source) is not None


def test_an_index_outside_in_an_inner_loop_is_an_error() -> None:
    x = sj.vector("x", "float64")
    last = lambda t: sj.while_loop(lambda t: x[t] > 0.0, lambda t: t + 1, t)
    f = sj.function([x], sj.scan(last, sj.arange(x.shape[0])))
    np.testing.assert_array_equal(f(np.array([1.0, 2.0, 0.0])), [2, 2, 2])
    with pytest.raises(sj.OutOfBoundsError, match="index 3 is out of bounds"):
        f(np.array([1.0, 0.0, 2.0]))
