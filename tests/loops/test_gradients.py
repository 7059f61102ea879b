"""Derivatives of what scan builds, against differences of values and against the same loop written otherwise."""

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.autodiff import grad
from scanjit.ir import Node, apply
from scanjit.loops import filter, foldr, map, reduce, scan, until
from scanjit.ops import scan_derivatives
from scanjit.ops.functions import TANH
from scanjit.ops.stretch import SUM
from scanjit.runtime.gradcheck import check_grad
from tests.loops.test_scan import run, symbol

rng = np.random.default_rng(3)
X, Y, M = rng.normal(size=7), rng.normal(size=5), rng.normal(size=(5, 2))


def tanh(x: Node) -> Node:
    return apply(TANH, x)


def total(x: Node) -> Node:
    return SUM(x, axes=tuple(range(x.ndim)))


def test_taps_of_both_signs() -> None:
    def loop(x: Node, y: Node, h: Node, w: Node) -> Node:
        return scan(
            lambda xa, xb, xc, b, h3, h1: tanh(w * h1 + xa * h3 - xb * b + xc * xc),
            [dict(input=x, taps=[-2, 1, 0]), y],
            dict(initial=h, taps=[-3, -1]),
        )

    check_grad(loop, [X, Y, rng.normal(size=3), np.array(0.7)])


@pytest.mark.parametrize("backwards", [False, True])
def test_several_outputs_and_directions(backwards: bool) -> None:
    def loop(m: Node, h: Node, c: Node) -> Any:
        def step(row: Node, state: Node, before: Node, last: Node) -> Any:
            new = tanh(row * state + last)
            return new, total(new) * before, row * last

        infos = [h, dict(initial=c, taps=[-2, -1]), None]
        return scan(step, m, infos, go_backwards=backwards, n_steps=4)

    check_grad(loop, [M, rng.normal(size=2), rng.normal(size=2)])


def test_until() -> None:
    def loop(x: Node, w: Node) -> Any:
        def step(a: Node, h: Node, run: Node) -> Any:
            new = h * w + a * a
            return (new, run + 1.0), until(run > 2.5)

        return scan(step, x, [0.5, 0.0])[0]

    check_grad(loop, [X, np.array(0.9)])
    x, w = symbol("x", "T"), symbol("w")
    dx = grad(total(loop(x, w)), x)
    found = run(dx, {x: X, w: 0.9})[0]
    assert found[3] != 0 and not found[4:].any()


def test_nested_scans_that_close_over_outer_symbols() -> None:
    def loop(m: Node, w: Node) -> Any:
        def outer(row: Node, h: Node) -> Node:
            return tanh(reduce(lambda a, t: t * w + a * h, row, h))

        return scan(outer, m, 0.3)

    check_grad(loop, [M, np.array(0.4)])


def test_shorthands() -> None:
    check_grad(lambda x: map(lambda a, b: a * a * b, [x, dict(input=x, taps=[-1])]), [X])
    check_grad(lambda x, h: foldr(lambda a, t: tanh(t * a), x, h), [X, np.array(0.8)])
    check_grad(lambda x: filter(lambda a: a > 0.1, x * x) * 3.0, [X])


def test_a_state_in_a_structure() -> None:
    def loop(x: Node, h: Node, c: Node) -> Any:
        step = lambda a, s: {"h": tanh(s["c"] * a), "c": s["h"] + s["c"]}
        return scan(step, x, [{"h": h, "c": c}])

    check_grad(loop, [X, np.array(0.1), np.array(-0.4)])


def test_zero_and_one_steps() -> None:
    x, h = symbol("x", "T"), symbol("h")
    last = reduce(lambda a, t: tanh(t * a), x, h)
    dx, dh = grad(last, [x, h])
    assert [g.tolist() for g in run([dx, dh], {x: X[:0], h: 0.5})] == [[], 1.0]
    slope = 1 - np.tanh(0.5 * X[0]) ** 2
    np.testing.assert_allclose(run([dx, dh], {x: X[:1], h: 0.5})[1], X[0] * slope)


@pytest.mark.parametrize("k", [0, 1, 2, 3, 5, 9])
def test_truncation_is_the_gradient_of_the_last_steps(k: int) -> None:
    """As if the loop had started k steps before its end, from a state that is a constant."""

    def loop(x: Node, h: Any, g: Any, w: Node, **options: Any) -> Any:
        def step(a: Node, two: Node, one: Node, before: Node) -> Any:
            return tanh(w * one + a * two), tanh(before + one * a) * w

        return scan(step, x, [dict(initial=h, taps=[-2, -1]), g], **options)

    def cost(outputs: Any) -> Node:
        return total(outputs[0] * 2.0) + total(outputs[1] * outputs[0])

    x, w = symbol("x", "T"), symbol("w")
    h0, g0 = np.array([0.2, -0.3]), np.float64(0.5)
    truncated = run(grad(cost(loop(x, h0, g0, w, truncate_gradient=k)), [x, w]), {x: Y, w: 0.8})
    start = max(len(Y) - k, 0)
    hs, gs = run(loop(x, h0, g0, w), {x: Y, w: 0.8})
    hs, gs = np.concatenate([h0, hs]), np.concatenate([[g0], gs])
    tail = run(grad(cost(loop(x, hs[start : start + 2], gs[start], w)), [x, w]), {x: Y[start:], w: 0.8})
    np.testing.assert_allclose(truncated[0], np.concatenate([np.zeros(start), tail[0]]), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(truncated[1], tail[1], rtol=1e-12, atol=1e-14)


def test_the_gradient_of_loops_in_loops_asks_about_each_step_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that asked its inner loop twice would take a second for 10 levels, and years for 30."""
    asked = []
    pullback = scan_derivatives.pullback
    monkeypatch.setattr(scan_derivatives, "pullback", lambda *given: (asked.append(1), pullback(*given))[1])

    def nested(level: int, h: sj.Node) -> sj.Node:
        inner = (lambda h: nested(level - 1, h * 0.9)) if level else sj.sin
        return sj.scan(inner, outputs_info=h, n_steps=n)[-1]

    x, n = sj.vector("x"), sj.scalar("n", "int64")
    gradient = sj.grad(nested(9, x).sum(), x)
    assert 10 <= len(asked) < 200
    assert sj.function([x, n], gradient, mode="reference")([0.5], 1).shape == (1,)


def member(number: int, factor: float) -> tuple[Node, Node, Node]:
    """The sequence of a loop, its initial value, and all states."""
    x, start = symbol(f"x{number}", "T"), symbol(f"h{number}")
    return x, start, scan(lambda x_t, h: h * factor + x_t, x, start)


def test_loops_with_equal_steps_are_derived_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    pullback = scan_derivatives.pullback
    monkeypatch.setattr(scan_derivatives, "pullback", lambda *given: (asked.append(1), pullback(*given))[1])
    counts = []
    for factor, count in ((0.625, 1), (0.375, 5)):
        asked.clear()
        _, starts, states = zip(*(member(number, factor) for number in range(count)), strict=True)
        grad(sum(hs[-1] for hs in states), list(starts))
        counts.append(len(asked))
    assert counts[0] == counts[1] > 0


def test_each_loop_has_the_derivative_of_its_own_step_and_results() -> None:
    def member(number: int, factor: float) -> tuple[Node, Node, Node, Node]:
        x, start = symbol(f"x{number}", "T"), symbol(f"h{number}")
        step = lambda x_t, h: (h * factor + x_t, h * 8)
        return x, start, *scan(step, x, [start, None])

    (x, a, one, _), (y, b, other, _), (z, c, _, second), (u, d, *both) = (
        member(number, factor) for number, factor in enumerate((0.5, 0.25, 0.5, 0.5))
    )
    cost = one[-1] + other[-1] + second[-1] + both[0][-1] + both[1][-1]
    given = {x: Y, y: Y, z: Y, u: Y, a: 0.0, b: 0.0, c: 0.0, d: 0.0}
    found = run(grad(cost, [a, b, c, d]), given)
    np.testing.assert_array_equal(found, [0.5**5, 0.25**5, 8 * 0.5**4, 0.5**5 + 8 * 0.5**4])
    of_x, of_c = run(grad(cost, [x, c]), given)  # other operands of equal loops are asked for
    np.testing.assert_array_equal(of_x, 0.5 ** np.arange(5)[::-1])
    np.testing.assert_array_equal(of_c, 8 * 0.5**4)
