"""What loops have been seen to get wrong elsewhere, each against a loop in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.fuzz.check import Config

MODES = ["reference", "emulate", "numba"]


@pytest.fixture(params=["reference", "emulate"])
def mode(request: pytest.FixtureRequest) -> str:
    """Most meanings are tested without compiling."""
    return request.param


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(got, float), np.asarray(expected, float), rtol=1e-9, atol=1e-12)


def slopes(f: Callable[..., float], *values: np.ndarray, step: float = 1e-6) -> list[np.ndarray]:
    """Gradients by central differences."""
    result = []
    for k, value in enumerate(values):
        slope = np.zeros_like(value)
        for at in np.ndindex(value.shape):
            sides = []
            for sign in (1, -1):
                moved = [v.copy() for v in values]
                moved[k][at] += sign * step
                sides.append(f(*moved))
            slope[at] = (sides[0] - sides[1]) / (2 * step)
        result.append(slope)
    return result


def gradients_agree(build: Callable[..., sj.Node], values: list[np.ndarray], mode: str, dims: Any = None) -> None:
    """Compiled gradients of a scalar are those by differences of the reference's values."""
    xs = [sj.tensor(d if dims else v.shape, name=f"x{i}") for i, (v, d) in enumerate(
        zip(values, dims or [None] * len(values), strict=True))]  # fmt: skip
    cost = build(*xs)
    plain = sj.function(xs, cost, mode="reference")
    got = sj.function(xs, sj.grad(cost, xs, disconnected="zero"), mode=mode)(*values)
    for a, b in zip(got, slopes(lambda *v: float(plain(*v)), *values), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(5, 3))

# ---- carries that are not computed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_swapped_states(mode: str) -> None:
    a, b = sj.vector("a"), sj.vector("b")
    ys = sj.scan(lambda p, q: [q, p], outputs_info=[a, b], n_steps=3)
    got = sj.function([a, b], ys, mode=mode)([1.0, 2.0], [3.0, 4.0])
    close(got[0], [[3, 4], [1, 2], [3, 4]])
    close(got[1], [[1, 2], [3, 4], [1, 2]])


@pytest.mark.parametrize("mode", MODES)
def test_states_that_rotate_through_arithmetic(mode: str) -> None:
    a = sj.vector("a")
    ys = sj.scan(lambda p, q, r: [q, r + 1, p], outputs_info=[a, 2 * a, 3 * a], n_steps=4)
    got = sj.function([a], [y[-1] for y in ys], mode=mode)([1.0, 10.0])
    p, q, r = (np.array([1.0, 10.0]) * k for k in (1, 2, 3))
    for _ in range(4):
        p, q, r = q, r + 1, p
    for x, y in zip(got, (p, q, r), strict=True):
        close(x, y)


def test_carry_that_echoes_a_sequence(mode: str) -> None:
    xs = sj.matrix("xs")
    ys = sj.scan(lambda x, h: [x, h * 2], xs, [xs[0], None])
    got = sj.function([xs], ys, mode=mode)(ROWS)
    close(got[0], ROWS)
    close(got[1], 2 * np.concatenate([ROWS[:1], ROWS[:-1]]))


def test_carry_that_becomes_a_constant(mode: str) -> None:
    xs, c = sj.matrix("xs"), sj.vector("c")
    ys = sj.scan(lambda x, h: [c, h + x], xs, [sj.zeros(3), None])
    got = sj.function([xs, c], ys, mode=mode)(ROWS, [1.0, 2.0, 3.0])
    close(got[0], np.tile([1.0, 2.0, 3.0], (5, 1)))
    close(got[1], ROWS + np.concatenate([np.zeros((1, 3)), np.tile([1.0, 2.0, 3.0], (4, 1))]))


def test_carry_that_stays(mode: str) -> None:
    xs, h = sj.matrix("xs"), sj.vector("h")
    ys, _ = sj.scan(lambda x, h, s: [h, s + h * x], xs, [h, sj.zeros(3)])
    close(sj.function([xs, h], ys, mode=mode)(ROWS, [1.0, 2.0, 3.0]), np.tile([1.0, 2.0, 3.0], (5, 1)))


def test_one_value_is_two_carries_and_two_outputs(mode: str) -> None:
    xs = sj.matrix("xs")
    ys = sj.scan(lambda x, a, b: [a + x, a + x, b, b], xs, [sj.zeros(3), sj.zeros(3), None, None])
    got = sj.function([xs], ys, mode=mode)(ROWS)
    total = np.cumsum(ROWS, 0)
    before = np.concatenate([np.zeros((1, 3)), total[:-1]])
    for x, y in zip(got, (total, total, before, before), strict=True):
        close(x, y)


def test_gradients_of_swapped_states(mode: str) -> None:
    def build(a: sj.Node, b: sj.Node) -> sj.Node:
        p, q = sj.scan(lambda p, q: [q, sj.tanh(p) * q], outputs_info=[a, b], n_steps=3)
        return (p[-1] + 2 * q[1]).sum()

    gradients_agree(build, [RNG.normal(size=3), RNG.normal(size=3)], mode)


# ---- lengths ---------------------------------------------------------------------------------------------------------


def test_no_steps_and_gradients(mode: str) -> None:
    xs, h, w = sj.matrix("xs"), sj.vector("h"), sj.matrix("w")
    ys = sj.scan(lambda x, s: sj.tanh(x + sj.dot(s, w)), xs, h)
    cost = ys.sum() + (h * h).sum()
    f = sj.function([xs, h, w], [ys, *sj.grad(cost, [xs, h, w])], mode=mode)
    got = f(np.zeros((0, 3)), np.array([1.0, 2.0, 3.0]), np.eye(3))
    assert [g.shape for g in got] == [(0, 3), (0, 3), (3,), (3, 3)]
    close(got[2], [2, 4, 6])
    close(got[3], np.zeros((3, 3)))


def test_n_steps_zero_and_symbolic(mode: str) -> None:
    h, n = sj.vector("h"), sj.lscalar("n")
    ys = sj.scan(lambda s: s * 0.5 + 1, outputs_info=h, n_steps=n)
    g = sj.grad(ys.sum() + h.sum(), h)
    f = sj.function([h, n], [ys, g], mode=mode)
    for count in (0, 1, 3):
        y, slope = f([1.0, 2.0], count)
        assert y.shape == (count, 2)
        close(slope, np.full(2, 1 + sum(0.5**k for k in range(1, count + 1))))
    with pytest.raises(sj.ScanError):
        f([1.0, 2.0], -1)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_backwards_with_few_steps(mode: str, steps: int) -> None:
    xs = sj.matrix("xs")
    ys = sj.scan(lambda x, h: h * 0.5 + x, xs, sj.zeros(3), n_steps=steps, go_backwards=True)
    cost = (ys * ys).sum()
    got, slope = sj.function([xs], [ys, sj.grad(cost, xs)], mode=mode)(ROWS)
    rows, h, expected = [], np.zeros(3), np.zeros_like(ROWS)
    for i in range(steps):
        h = h * 0.5 + ROWS[len(ROWS) - 1 - i]
        rows.append(h)
    close(got, np.reshape(rows, (steps, 3)))
    for i in range(steps):
        expected[len(ROWS) - 1 - i] = sum(2 * rows[k] * 0.5 ** (k - i) for k in range(i, steps))
    close(slope, expected)


@pytest.mark.parametrize("mode", MODES)
def test_last_of_an_empty_scan_is_an_error(mode: str) -> None:
    xs = sj.matrix("xs")
    last = sj.scan(lambda x, h: h + x, xs, sj.zeros(3))[-1]
    f = sj.function([xs], last, mode=mode)
    close(f(ROWS), ROWS.sum(0))
    with pytest.raises(sj.OutOfBoundsError):
        f(np.zeros((0, 3)))


def test_too_few_rows_is_an_error(mode: str) -> None:
    xs, n = sj.matrix("xs"), sj.lscalar("n")
    f = sj.function([xs, n], sj.scan(lambda x: x * 2, xs, n_steps=n), mode=mode)
    close(f(ROWS, 2), 2 * ROWS[:2])
    with pytest.raises(sj.ScanError, match="5 rows"):
        f(ROWS, 6)


# ---- until -----------------------------------------------------------------------------------------------------------


def _doubling(x: sj.Node, limit: sj.Node) -> sj.Node:
    return sj.scan(lambda s: (s * 2, sj.until(s * 2 > limit)), outputs_info=x, n_steps=10)


def test_until_includes_the_step_that_ends_it(mode: str) -> None:
    x, limit = sj.scalar("x"), sj.scalar("limit")
    f = sj.function([x, limit], _doubling(x, limit), mode=mode)
    close(f(1.0, 7.0), [2, 4, 8])
    close(f(1.0, 1.0), [2])
    assert f(1.0, 1e9).shape == (10,)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_after_until(mode: str) -> None:
    x, limit = sj.scalar("x"), sj.scalar("limit")
    ys = _doubling(x, limit)
    f = sj.function([x, limit], [sj.grad(ys[-1], x), sj.grad(ys.sum(), x)], mode=mode)
    for value, expected in ((7.0, (8, 14)), (1.0, (2, 2)), (3.0, (4, 6))):
        for got, slope in zip(f(1.0, value), expected, strict=True):
            close(got, slope)


def test_last_row_after_no_step(mode: str) -> None:
    xs = sj.vector("xs")
    ys = sj.scan(lambda x, s: (s + x, sj.until(x > 1)), xs, sj.constant(0.0))
    f = sj.function([xs], ys[-1], mode=mode)
    assert f([0.5, 2.0, 9.0]) == 2.5
    with pytest.raises(sj.OutOfBoundsError):
        f(np.zeros(0))


# ---- taps ------------------------------------------------------------------------------------------------------------


@pytest.mark.quick(4)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("taps", [[-1, 0, 2], [1], [-2], [0, -1, 1]])
def test_gradients_with_mixed_taps(mode: str, taps: list[int], backwards: bool) -> None:
    def build(xs: sj.Node, h: sj.Node) -> sj.Node:
        def step(*args: sj.Node) -> sj.Node:
            total = sum(k * a for k, a in enumerate(args[: len(taps)], start=1))
            return sj.tanh(total * 0.3 + 0.5 * args[-1] - 0.2 * args[-2])

        ys = sj.scan(
            step, {"input": xs, "taps": taps}, {"initial": h, "taps": [-2, -1]}, go_backwards=backwards
        )  # fmt: skip
        return (ys * ys).sum() + ys[0].sum()

    gradients_agree(build, [RNG.normal(size=(6, 2)), RNG.normal(size=(2, 2))], mode, [("T", 2), (2, 2)])


def test_taps_of_outputs_in_any_order(mode: str) -> None:
    h = sj.tensor((3,), name="h")
    ys = sj.scan(lambda far, near: far + 10 * near, outputs_info={"initial": h, "taps": [-3, -1]}, n_steps=4)
    zs = sj.scan(lambda near, far: far + 10 * near, outputs_info={"initial": h, "taps": [-1, -3]}, n_steps=4)
    past = [1.0, 2.0, 3.0]
    for _ in range(4):
        past.append(past[-3] + 10 * past[-1])
    for got in sj.function([h], [ys, zs], mode=mode)([1.0, 2.0, 3.0]):
        close(got, past[3:])


# ---- gradients that end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 4, 9])
def test_truncated_gradients_with_several_outputs(mode: str, k: int) -> None:
    xs, w = sj.vector("xs"), sj.scalar("w")

    def step(x: sj.Node, a: sj.Node, b: sj.Node) -> list[sj.Node]:
        return [w * a + x, b + a, a * x]

    outputs = sj.scan(step, xs, [sj.constant(1.0), sj.constant(0.0), None], truncate_gradient=k)
    cost = outputs[0][-1] + outputs[1][-1] + outputs[2][-1]
    got = sj.function([xs, w], sj.grad(cost, [xs, w]), mode=mode)(np.array([0.5, -1.0, 2.0, 0.3]), 0.7)
    values, steps = np.array([0.5, -1.0, 2.0, 0.3]), 4

    def last(shift: np.ndarray, w_shift: float) -> float:
        a, b, c = 1.0, 0.0, 0.0
        for t in range(steps):  # only the last k steps know of the change
            x = values[t] + shift[t] * (t >= steps - k)
            v = 0.7 + w_shift * (t >= steps - k)
            a, b, c = v * a + x, b + a, a * x
        return a + b + c

    eps = 1e-6
    for t in range(steps):
        unit = np.eye(steps)[t] * eps
        close(np.round(got[0][t], 7), np.round((last(unit, 0) - last(-unit, 0)) / (2 * eps), 7))
    close(np.round(got[1], 7), np.round((last(np.zeros(4), eps) - last(np.zeros(4), -eps)) / (2 * eps), 7))


# ---- the same thing twice ------------------------------------------------------------------------------------------


def test_one_variable_given_twice(mode: str) -> None:
    xs, w = sj.matrix("xs"), sj.vector("w")

    def step(a: sj.Node, b: sj.Node, h: sj.Node, p: sj.Node, q: sj.Node) -> sj.Node:
        return sj.tanh(a * b + h * p - q)

    ys = sj.scan(step, [xs, xs], w, [w, w])
    f = sj.function([xs, w], [ys, *sj.grad(ys.sum(), [xs, w])], mode=mode)
    v = np.array([0.5, -0.2, 1.0])
    rows, h = [], v
    for row in ROWS:
        h = np.tanh(row * row + h * v - v)
        rows.append(h)
    got = f(ROWS, v)
    close(got[0], rows)
    gradients_agree(lambda a, b: sj.scan(step, [a, a], b, [b, b]).sum(), [ROWS, v], mode)


# ---- unrolled --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unroll", [True, 2])
def test_unrolled_steps_over_sizes_that_are_not_known(unroll: Any) -> None:
    """The nests of a step are no nests of their own, however large they may be."""
    x = sj.tensor((4 if unroll is True else "T", "B", "N"))
    step = lambda row, h: sj.tanh(h + row)[:, ::-1] * h.sum(0)
    y = sj.scan(step, x, sj.ones(x.shape[1:]), unroll=unroll)
    plain, compiled = (sj.function([x], y, mode=mode) for mode in ("reference", "emulate"))
    values = RNG.normal(size=(4, 3, 5))
    close(compiled(values), plain(values))


@pytest.mark.quick(6)
@pytest.mark.parametrize("unroll", [True, 2, 3])
@pytest.mark.parametrize("steps", [0, 1, 4, 5])
def test_unrolled_loops_compute_the_same(mode: str, unroll: Any, steps: int) -> None:
    xs, w = sj.tensor((steps, 3), name="xs"), sj.matrix("w")
    results = []
    for how in (False, unroll):
        h, y = sj.scan(
            lambda x, h, w=w: [sj.tanh(x + sj.dot(h, w)), h.sum()], xs, [sj.zeros(3), None], unroll=how
        )  # fmt: skip
        cost = (h * h).sum() + y.sum()
        results.append(sj.function([xs, w], [h, y, *sj.grad(cost, [xs, w])], mode=mode)(ROWS[:steps], ROWS[:3]))
    for a, b in zip(*results, strict=True):
        close(a, b)


def test_nested_loops(mode: str) -> None:
    xs = sj.matrix("xs")

    def outer(row: sj.Node, h: sj.Node) -> sj.Node:
        inner = sj.scan(lambda v, s: sj.tanh(v + s * h), row, sj.constant(0.1))
        return inner[-1] + 0.5 * h

    gradients_agree(lambda x: sj.scan(outer, x, sj.constant(0.3)).sum(), [ROWS], mode, [("T", "N")])
    assert sj.function([xs], sj.scan(outer, xs, sj.constant(0.3)), mode=mode)(np.zeros((0, 4))).shape == (0,)


# ---- sizes in a step -------------------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["rewritten", "as written"])
def rewriting(request: pytest.FixtureRequest) -> Iterator[None]:
    with Config(rewrite=request.param).active():
        yield


def _three() -> sj.Node:
    return sj.cast(sj.constant([1.2, 2.3]).sum(), "int64")


@pytest.mark.usefixtures("rewriting")
@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("size", [lambda xs: _three(), lambda xs: sj.cast(xs.shape[1] * 0.5, "int64") + 2])
def test_a_size_that_is_computed_and_the_same_in_all_steps(
    mode: str, size: Callable[[sj.Node], sj.Node], outside: bool
) -> None:
    """Made of constants and sizes alone, it needs no step to be known, and what relies on it is checked."""
    xs = sj.matrix("xs")
    made = sj.ones(size(xs)) * xs.sum() if outside else None
    ys = sj.scan(lambda row, s: s + (row + (sj.ones(size(xs)) if made is None else made)).sum(), xs, sj.constant(0.0))
    f = sj.function([xs], [ys, sj.grad(ys.sum(), xs)], mode=mode)
    add = ROWS.sum() if outside else 1.0
    close(f(ROWS)[0], np.cumsum((ROWS + add).sum(1)))
    with pytest.raises(sj.ShapeError):
        f(np.ones((5, 5)))


def test_a_size_that_differs_from_step_to_step() -> None:
    xs = sj.matrix("xs")
    ys = sj.scan(lambda row, s: s + row[: sj.cast(row.sum(), "int64")].sum(), xs, sj.constant(0.0))
    close(sj.function([xs], ys, mode="reference")(np.ones((2, 3))), [3, 6])
    for rewrite in (False, True):
        with Config(rewrite=rewrite).active():
            close(sj.function([xs], ys, mode="emulate")(np.array([[1.0, 1, 1], [0.5, 0.5, 0.2]])), [3, 3.5])


def test_a_size_made_of_a_symbolic_number_of_constants(mode: str) -> None:
    """It is not known before a call, although nothing but constants goes into it."""
    x = sj.vector("x")
    count = sj.broadcast_to(sj.constant(1), (x.shape[0],)).sum()
    close(sj.function([x], sj.arange(count) * 2, mode=mode)(np.zeros(4)), [0, 2, 4, 6])


def test_products_without_rows(mode: str) -> None:
    x, w = sj.tensor((1, 0, None)), sj.tensor((1, 2, None, 2))
    f = sj.function([x, w], sj.einsum("abc,adce->dbe", x, w), mode=mode)
    assert f(np.zeros((1, 0, 3)), np.ones((1, 2, 3, 2))).shape == (2, 0, 2)


def test_a_computed_size_that_is_a_value_in_a_step(mode: str) -> None:
    """How many steps a loop ran: the size of what another loop reads, and a number in its steps."""
    x = sj.vector("x")
    ran = sj.scan(lambda v, h: (h + v, sj.until(h + v > 2)), x, sj.constant(0.0))

    def step(h: sj.Node) -> sj.Node:
        at = sj.cast(h, "int64") % ran.shape[0]
        return sj.tanh(h + ran[at].inc(h).sum() * 0.1)

    f = sj.function([x], sj.scan(step, outputs_info=sj.constant(0.3), n_steps=4), mode=mode)
    h, expected = 0.3, []
    for _ in range(4):
        h = np.tanh(h + (np.array([1.0, 2.0, 3.0]).sum() + h) * 0.1)
        expected.append(h)
    close(f(np.ones(7)), expected)


def test_a_product_with_one_row_over_and_over(mode: str) -> None:
    """The right operand repeats a row, and that row is added to the product too."""
    x, v = sj.matrix("x"), sj.vector("v")
    w = sj.broadcast_to(v, (v.shape[0], v.shape[0]))
    f = sj.function([x, v], sj.scan(lambda h: sj.tanh(h @ w * 0.3 + w), outputs_info=x, n_steps=3), mode=mode)
    row = np.linspace(-1, 1, 5)
    h, expected = np.eye(5), []
    for _ in range(3):
        h = np.tanh(h @ np.tile(row, (5, 1)) * 0.3 + row)
        expected.append(h)
    close(f(np.eye(5), row), expected)
