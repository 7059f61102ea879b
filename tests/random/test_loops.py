"""Draws inside of loops and batches: other ones in each step, the same ones however the loop is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ops import random as ops
from scanjit.random import Stream
from scanjit.runtime import host
from scanjit.runtime.gradcheck import check_grad
from tests.random.support import SEED, drawn, identical
from tests.targets import with_vectors

MODES = ("reference", "emulate")
ZERO = np.int64(0)


def key(number: int, call: int = 0, *frames: int) -> np.ndarray:
    """The key of a draw, by the definition; `frames` are the steps of the outer loops."""
    found = ops.RANDOM_BITS.reference(np.int64(SEED), np.int64(number), np.int64(call))
    for frame in frames:
        found = ops.RANDOM_BITS.reference(found, np.int64(frame), np.int64(-1))
    return found


def normal(number: int, step: int, shape: tuple[int, ...], dtype: str = "float64", *outer: int) -> np.ndarray:
    index = np.arange(int(np.prod(shape))).reshape(shape)
    return ops.RANDOM_NORMAL.reference(key(number, 0, *outer), np.int64(step), index, dtype=np.dtype(dtype))


def noisy(stream: Stream, steps: Any = 7, **options: Any) -> Any:
    """A recurrence with noise: its states, and its noise."""

    def step(h: Any) -> Any:
        noise = stream.normal(h.shape)
        return h * 0.5 + noise, noise

    return sj.scan(step, outputs_info=[np.zeros((2, 3)), None], n_steps=steps, **options)


NOISE = np.stack([normal(0, step, (2, 3)) for step in range(7)])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("options", [{}, {"unroll": 2}, {"unroll": 3}, {"unroll": True}, {"checkpoint": 2}], ids=str)
def test_each_step_draws_its_own(options: dict[str, Any], mode: str) -> None:
    states, noise = drawn(lambda s: noisy(s, **options), mode)
    identical(noise, NOISE)
    expected = np.zeros((2, 3))
    for state, row in zip(states, NOISE, strict=True):
        expected = expected * 0.5 + row
        np.testing.assert_allclose(state, expected, rtol=1e-13)


def test_compiled() -> None:
    for options in ({}, {"unroll": 3}):
        identical(drawn(lambda s, o=options: noisy(s, **o), "numba")[1], NOISE)


@pytest.mark.parametrize("size", [16, 32, 64])
def test_widths_of_vectors(size: int) -> None:
    with host.using(with_vectors(size)):
        identical(drawn(noisy, "emulate")[1], NOISE)


@pytest.mark.parametrize("mode", MODES)
def test_symbolic_lengths(mode: str) -> None:
    """A longer loop begins as a shorter one, whatever is computed over all of time and in which blocks."""
    n = sj.lscalar("n")
    stream = Stream()
    f = sj.function([n], noisy(stream, n)[1], mode=mode)
    for length in (0, 1, 7):
        stream.seed(SEED)
        identical(f(length), NOISE[:length])


def test_long_loops_in_blocks_of_time() -> None:
    x, stream = sj.vector("x"), Stream()
    y = sj.scan(lambda x_t, h: 0.9 * h + x_t * stream.normal(), x, np.float64(0))
    by_mode = []
    for mode in ("reference", "numba"):
        stream.seed(SEED)
        by_mode.append(sj.function([x], y, mode=mode)(np.ones(3000)))
    np.testing.assert_allclose(*by_mode, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("mode", MODES)
def test_what_is_drawn_outside_is_the_same_in_every_step(mode: str) -> None:
    def build(stream: Stream) -> Any:
        mask = stream.bernoulli((4,), 0.5, "float64")
        return sj.scan(lambda h: (h + 1, mask * h), outputs_info=[np.ones(4), None], n_steps=3)[1]

    rows = drawn(build, mode)
    identical(rows[1], 2 * rows[0])


@pytest.mark.parametrize("mode", MODES)
def test_several_draws_in_a_step(mode: str) -> None:
    def build(stream: Stream) -> Any:
        def step(x_t: Any) -> Any:
            return stream.normal((3,)), stream.bernoulli((3,), 0.5), stream.normal((3,), dtype="float32"), x_t

        return sj.scan(step, np.arange(4.0))

    first, second, third, _ = drawn(build, mode)
    identical(first, np.stack([normal(0, t, (3,)) for t in range(4)]))
    identical(third, np.stack([normal(2, t, (3,), "float32") for t in range(4)]))
    assert second.dtype == np.bool_ and len(set(map(tuple, second.tolist()))) > 1


@pytest.mark.parametrize("mode", MODES)
def test_backwards_counts_steps(mode: str) -> None:
    """The number is that of the step, not of the row."""
    f = lambda stream: sj.scan(lambda x_t: stream.normal((2,)) + 0 * x_t, np.arange(3.0), go_backwards=True)
    np.testing.assert_array_equal(drawn(f, mode), np.stack([normal(0, t, (2,)) for t in range(3)]))


@pytest.mark.parametrize("mode", MODES)
def test_nested_loops(mode: str) -> None:
    def build(stream: Stream) -> Any:
        def outer(x: Any) -> Any:
            return sj.scan(lambda y: stream.normal((3,)) + 0 * (x + y), np.zeros(4)), stream.normal()

        return sj.scan(outer, np.zeros(2))

    inner, single = drawn(build, mode)
    expected = [[normal(0, t, (3,), "float64", outer) for t in range(4)] for outer in range(2)]
    np.testing.assert_array_equal(inner, expected)
    np.testing.assert_array_equal(single, [normal(1, t, ()) for t in range(2)])


@pytest.mark.parametrize("mode", MODES)
def test_until(mode: str) -> None:
    def build(stream: Stream) -> Any:
        def step() -> Any:
            x = stream.uniform()
            return x, sj.until(x > 0.9)

        return sj.scan(step, n_steps=200)

    rows = drawn(build, mode)
    assert rows[-1] > 0.9 and np.all(rows[:-1] <= 0.9) and len(set(rows.tolist())) == len(rows)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("most", [None, 500])
def test_while_loop(mode: str, most: int | None) -> None:
    """Rejection: draw until a number is large enough."""

    def build(stream: Stream) -> Any:
        body = lambda state: (stream.uniform((), dtype="float64"), state[1] + 1)
        return sj.while_loop(lambda state: state[0] < 0.95, body, (0.0, 0), most)

    value, steps = drawn(build, mode)
    numbers = [
        float(ops.RANDOM_UNIFORM.reference(key(number), np.int64(steps - 1), ZERO, dtype=np.dtype("float64")))
        for number in range(3)  # the step is traced again where the dtypes of numbers have to be found
    ]
    assert float(value) in numbers and value >= 0.95 and steps > 1


@pytest.mark.parametrize("mode", MODES)
def test_shorthands(mode: str) -> None:
    rows = np.arange(6.0)

    def build(stream: Stream) -> list[Any]:
        return [
            sj.map(lambda x: x + stream.uniform(), rows),
            sj.reduce(lambda x, total: total + stream.uniform(), rows, 0.0),
            sj.filter(lambda x: stream.bernoulli((), 0.5), rows),
        ]

    mapped, total, kept = drawn(build, mode)
    assert len(set((mapped - rows).tolist())) == 6 and 0 < total < 6 and set(kept) <= set(rows)


def test_strict_takes_draws() -> None:
    identical(drawn(lambda s: noisy(s, strict=True))[1], NOISE)


@pytest.mark.quick(2)
@pytest.mark.parametrize("options", [{}, {"unroll": True}, {"checkpoint": "sqrt"}, {"checkpoint": 2}], ids=str)
def test_gradient_through_a_noisy_loop(options: dict[str, Any]) -> None:
    """The reverse loop sees the noise that the loop saw: against differences, with the state as it is."""
    stream = Stream(4)

    def cost(loc: Any, scale: Any, h0: Any) -> Any:
        def step(h: Any) -> Any:
            return np.tanh(h * stream.bernoulli(h.shape, 0.7, h.dtype) + loc + scale * stream.normal(h.shape))

        return (sj.scan(step, outputs_info=h0, n_steps=6, **options) ** 2).sum()

    values = [np.array([0.1, -0.2, 0.3]), np.array(0.4), np.array([0.5, 0.2, -0.1])]
    check_grad(cost, values)

    symbols = [sj.vector(), sj.scalar(), sj.vector()]
    total = cost(*symbols)
    outputs = [total, *sj.grad(total, symbols)]
    results = []
    for mode in ("reference", "emulate"):
        stream.seed(4)
        f = sj.function(symbols, outputs, mode=mode)
        f(*values)
        results.append(f(*values))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_dropout_between_the_layers_of_a_network(rng: np.random.Generator) -> None:
    """As lasagne_like writes it, in float32, with gradients, compiled."""
    x, w = sj.tensor(("T", "B", 4), "float32"), sj.matrix("w", "float32")
    stream = Stream(6)

    def step(x_t: Any, h: Any) -> Any:
        kept = stream.uniform(h.shape, dtype=h.dtype) >= 0.5
        return np.tanh((x_t + sj.where(kept, h / 0.5, 0)) @ w)

    y = sj.scan(step, x, sj.zeros((x.shape[1], 4), "float32"))
    outputs = [y, sj.grad((y * y).sum(), w)]
    values = [rng.normal(size=s).astype("float32") for s in ((9, 3, 4), (4, 4))]
    results = []
    for mode in ("reference", "numba"):
        stream.seed(6)
        results.append(sj.function([x, w], outputs, mode=mode)(*values))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


# ---- batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_examples_of_a_batch_draw_their_own(mode: str) -> None:
    def build(stream: Stream) -> Any:
        return sj.vmap(lambda x: x + stream.normal((3,)))(np.zeros((5, 3)))

    identical(drawn(build, mode), np.stack([normal(0, k, (3,)) for k in range(5)]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("outside", ["vmap", "scan"])
def test_batches_and_loops_nest(outside: str, mode: str) -> None:
    def build(stream: Stream) -> Any:
        looped: Callable[[Any], Any] = lambda x: sj.scan(lambda x_t: x_t + stream.normal(), x)
        if outside == "vmap":
            return sj.vmap(looped)(np.zeros((2, 4)))
        return sj.scan(sj.vmap(lambda x: x + stream.normal()), np.zeros((2, 4)))

    expected = [[normal(0, inner, (), "float64", outer) for inner in range(4)] for outer in range(2)]
    np.testing.assert_array_equal(drawn(build, mode), expected)


def test_a_draw_outside_of_the_batch_is_one_for_all() -> None:
    def build(stream: Stream) -> Any:
        z = stream.normal((3,))
        return sj.vmap(lambda x: x + z)(np.zeros((5, 3)))

    identical(drawn(build), np.tile(normal(0, 0, (3,)), (5, 1)))


def test_batched_parameters() -> None:
    def build(stream: Stream) -> Any:
        return sj.vmap(lambda scale: stream.normal((3,), scale=scale))(np.array([0.0, 1.0, 2.0]))

    np.testing.assert_allclose(drawn(build), [k * normal(0, k, (3,)) for k in range(3)], rtol=1e-15)
