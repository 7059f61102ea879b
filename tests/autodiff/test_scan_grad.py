"""Derivatives of scans: against differences, and exactly, of orders up to four, for polynomial recurrences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings, strategies as st

from scanjit import errors, ir, types
from scanjit.autodiff import grad, jvp, vjp
from scanjit.ir import Node
from scanjit.ops.contraction import contract
from scanjit.ops.elementwise import MUL
from scanjit.ops.functions import TANH
from scanjit.ops.roles import Roles
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import window
from scanjit.ops.stretch import full
from scanjit.runtime.gradcheck import check_grad
from tests.autodiff.helpers import loop, total, value, values, var

RNG = np.random.default_rng(1)


def scans(*outputs: Node) -> list[Node]:
    """The scan nodes of a graph."""
    return [node for node in ir.walk(outputs) if node.op is SCAN]


# ---- against differences ---------------------------------------------------------------------------------------------


def tanh(x: Node) -> Node:
    return ir.apply(TANH, x)


def matvec(h: Node, w: Node) -> Node:
    return contract(h, w, (0,), (0, 1), (1,))


def rnn(x: Node, h0: Node, w: Node, **params: Any) -> tuple[Node, ...]:
    def step(c: list, r: list, k: list) -> tuple:
        h = tanh(matvec(c[0], k[0]) + r[0])
        return [h], [h]

    return loop(step, [h0], [x], [w], **params)


CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "rnn": (rnn, [RNG.normal(size=(4, 2)), RNG.normal(size=2), RNG.normal(size=(2, 2))]),
    "reverse": (
        lambda *a: rnn(*a, reverse=True),
        [RNG.normal(size=(4, 2)), RNG.normal(size=2), RNG.normal(size=(2, 2))],
    ),
    "one step": (rnn, [RNG.normal(size=(1, 2)), RNG.normal(size=2), RNG.normal(size=(2, 2))]),
    "no step": (rnn, [RNG.normal(size=(0, 2)), RNG.normal(size=2), RNG.normal(size=(2, 2))]),
    "only the last": (
        lambda *a: rnn(*a)[0],
        [RNG.normal(size=(3, 2)), RNG.normal(size=2), RNG.normal(size=(2, 2))],
    ),
    "swapped carries": (
        lambda x, p, q, a: loop(lambda c, r, k: ([c[1], tanh(c[0] * k[0]) + r[0]], [c[0] * c[1]]), [p, q], [x], [a]),
        [RNG.normal(size=4), 0.3, -0.7, 1.2],
    ),
    "a carry that echoes a sequence": (
        lambda x, p: loop(lambda c, r, k: ([r[0]], [c[0] * r[0]]), [p], [x]),
        [RNG.normal(size=4), 0.3],
    ),
    "a carry that echoes a constant": (
        lambda x, p, a: loop(lambda c, r, k: ([k[0]], [c[0] * r[0]]), [p], [x], [a]),
        [RNG.normal(size=4), 0.3, 1.4],
    ),
    "a carry that never changes": (
        lambda x, p: loop(lambda c, r, k: ([c[0], c[1] + c[0] * r[0]], []), [p, p], [x]),
        [RNG.normal(size=4), 0.3],
    ),
    "an unused carry": (
        lambda x, p, q: loop(lambda c, r, k: ([c[0] * r[0], r[0]], [c[0]]), [p, q], [x])[::2],
        [RNG.normal(size=4), 0.3, 0.2],
    ),
    "an integer carry": (
        lambda x, p: loop(
            lambda c, r, k: ([c[0] * r[0] + ir.apply(MUL, c[1], 0.5), c[1] + 1], [c[0], c[1]]),
            [p, ir.constant(2)],
            [x],
        ),
        [RNG.normal(size=4), 0.3],
    ),
    "an integer sequence": (
        lambda x, p, n: loop(lambda c, r, k: ([c[0] * r[0] + r[1]], [r[1] * 2]), [p], [x, n]),
        [RNG.normal(size=4), 0.3, np.arange(4)],
    ),
    "the same variable twice": (
        lambda x: loop(lambda c, r, k: ([c[0] * r[0] + r[1] * k[0]], [c[0]]), [window(x, 0, 0, 2)], [x, x], [x]),
        [RNG.normal(size=(2, 2))],
    ),
    "a shape from outside": (
        lambda x, p: loop(lambda c, r, k: ([c[0] + total(full(r[0], x.type.shape) * x)], []), [p], [x]),
        [RNG.normal(size=3), 0.3],
    ),
    "no sequence": (
        lambda p, a: loop(lambda c, r, k: ([tanh(c[0] * k[0])], [c[0] * k[0]]), [p], [], [a], length=4),
        [0.5, 1.5],
    ),
    "no carry": (
        lambda x, a: loop(lambda c, r, k: ([], [tanh(r[0] * k[0])]), [], [x], [a]),
        [RNG.normal(size=4), 1.5],
    ),
    "nested": (
        lambda x, h, a: loop(
            lambda c, r, k: (
                [loop(lambda c, r, k: ([tanh(c[0] * k[0]) + r[0]], []), [c[0]], [r[0]], [c[0] * k[0]])[0]],
                [c[0]],
            ),
            [h],
            [x],
            [a],
        ),
        [RNG.normal(size=(2, 3)), 0.4, 0.8],
    ),
    "one scan over another": (
        lambda x, h: rnn(rnn(x, h, x)[1], h, x),
        [RNG.normal(size=(2, 2)), RNG.normal(size=2)],
    ),
    "until": (
        lambda x, h, a: loop(lambda c, r, k: ([c[0] * k[0] + r[0]], [c[0] * r[0]], c[0] + r[0] > 2), [h], [x], [a])[:2],
        [np.array([0.5, 1.5, 0.7, 0.2]), 0.4, 0.8],
    ),
    "until, reverse": (
        lambda x, h, a: loop(
            lambda c, r, k: ([c[0] * k[0] + r[0]], [c[0] * r[0]], c[0] + r[0] > 2), [h], [x], [a], reverse=True
        )[:2],
        [np.array([0.5, 1.5, 0.7, 0.8]), 0.4, 0.8],
    ),
    "until is never": (
        lambda x, h: loop(lambda c, r, k: ([c[0] * r[0]], [c[0]], r[0] > 9), [h], [x])[:2],
        [np.array([0.5, 1.5, 0.7, 0.8]), 0.4],
    ),
}


@pytest.mark.quick(6)
@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_the_limits_of_differences(name: str) -> None:
    fn, point = CASES[name]
    check_grad(fn, point, order=2)


def test_check_grad_sees_a_wrong_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    fn, point = CASES["rnn"]
    monkeypatch.setattr(TANH, "vjp", lambda g, y, x: (g * (1 - y),))
    with pytest.raises(errors.GradientError, match=r"gradient \(order 1\) for argument 0 is wrong at"):
        check_grad(fn, point, order=1)


@settings(max_examples=25)
@given(st.integers(0, 3), st.integers(1, 3), st.booleans(), st.sampled_from([None, "until"]), st.integers(0, 10**6))
def test_random_loops(rows: int, carries: int, reverse: bool, until: str | None, seed: int) -> None:
    """New carries and ys are random sums of products of two of what a step sees; some are simply passed on."""
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, carries + 3, (carries + 2, 4))
    scale = rng.normal(size=(carries + 2, 2)) * 0.7
    kinds = rng.integers(0, 3, carries + 2)

    def fn(x: Node, y: Node, k: Node, *inits: Node) -> Any:
        def step(c: list, r: list, fixed: list) -> tuple:
            seen = [*c, *r, *fixed]
            outputs = []
            for (a, b, d, e), (v, w), kind in zip(picks, scale, kinds, strict=True):
                product = seen[a] * seen[b] * float(v) + tanh(seen[d]) * seen[e] * float(w)
                outputs.append(product if kind else seen[a])
            return outputs[:carries], outputs[carries:], *([r[0] > 0.9] if until else [])

        return loop(step, inits, [x, y], [k], reverse=reverse)[: carries + 2]

    check_grad(fn, [rng.normal(size=rows), rng.normal(size=rows), 0.9, *rng.normal(size=carries)], order=2)


# ---- exactly ---------------------------------------------------------------------------------------------------------


def polynomial(rows: int, reverse: bool) -> tuple[sympy.Expr, list[sympy.Symbol]]:
    """The sum of the ys and the last carry of `h = a*h + x**2; y = h*x`, as a polynomial."""
    a, h, *xs = sympy.symbols(f"a h x:{rows}") if rows else sympy.symbols("a h")
    state, cost = h, 0
    for x in reversed(xs) if reverse else xs:
        state = a * state + x**2
        cost += state * x
    return sympy.expand(cost + state), [a, h, *xs]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_derivatives_of_orders_one_to_four_are_exact(rows: int, reverse: bool) -> None:
    """All numbers are small integers, which floats hold exactly."""
    x, a, h0 = var("x", "T"), var("a"), var("h0")

    def step(c: list, r: list, k: list) -> tuple:
        h = k[0] * c[0] + r[0] * r[0]
        return [h], [h * r[0]]

    last, ys = loop(step, [h0], [x], [a], reverse=reverse)
    formula, symbols = polynomial(rows, reverse)
    point = [2, 3, *[1, -2, 2][:rows]]
    at = dict(zip(symbols, point, strict=True))
    env = {a: 2.0, h0: 3.0, x: np.array(point[2:], float)}
    current, expected = last + total(ys), formula
    for order, (name, picked) in enumerate([("a", a), ("h", h0), ("a", a), ("x", x)], 1):
        found = values(grad(current, [a, h0, x], disconnected="zero"), env)
        wanted = [int(expected.diff(s).subs(at)) for s in symbols]
        assert [float(found[0]), float(found[1]), *found[2].tolist()] == wanted, f"order {order}"
        if name == "x":
            break
        current = grad(current, picked, disconnected="zero")
        expected = expected.diff(symbols[0 if name == "a" else 1])


def test_fourth_order_by_one_variable() -> None:
    x, a = var("x", "T"), var("a")
    (last,) = loop(lambda c, r, k: ([k[0] * c[0] + r[0] * r[0]], []), [ir.constant(1.0)], [x], [a])
    symbol = sympy.Symbol("a")
    expected, current = symbol**5 + sum(4 * symbol**i for i in range(5)), last
    for _ in range(4):
        current, expected = grad(current, a), expected.diff(symbol)
        assert value(current, {a: 3.0, x: np.full(5, 2.0)}) == int(expected.subs(symbol, 3))


def test_mixed_modes_agree_exactly() -> None:
    x, a = var("x", "T"), var("a")
    (last,) = loop(lambda c, r, k: ([k[0] * c[0] + r[0] * r[0]], []), [ir.constant(1.0)], [x], [a])
    one, env = ir.constant(1.0), {a: 3.0, x: np.array([1.0, 2, 3])}
    reverse = grad(last, a)
    forward = jvp(last, a, one)
    second = [grad(reverse, a), grad(forward, a), jvp(reverse, a, one), jvp(forward, a, one)]
    found = values([reverse, forward, *second], env)
    assert found[0] == found[1] and len({float(v) for v in found[2:]}) == 1


# ---- the form of the result ------------------------------------------------------------------------------------------


def test_the_reverse_scan_saves_carries_and_nothing_else() -> None:
    x, h0, w = var("x", "T", 2), var("h0", 2), var("w", 2, 2)
    g = grad(total(rnn(x, h0, w, name="net", unroll=3, checkpoint="sqrt")[0]), w)
    forward, backward = sorted(scans(g), key=lambda node: node.params["reverse"])
    assert forward.params["name"] == "net" and backward.params["name"] == "net.grad"
    assert backward.params["unroll"] == 3 and backward.params["checkpoint"] == "sqrt"
    roles = Roles.of(backward)
    _, xs, consts = roles.split(backward.operands)
    assert [s.op.name for s in xs] == ["part", "input"] and len(consts) == 1
    assert (roles.carries, roles.ys) == (2, 0)  # the cotangent of h, the sum for w; none of x, which nobody wants
    saved = xs[0]
    assert saved.args[0] is forward and saved.params["index"] == 2
    body = forward.params["body"]
    assert body.outputs[2] is body.inputs[0]


def test_a_step_that_is_linear_in_its_carry_saves_none() -> None:
    x, h0, a = var("x", "T"), var("h0"), var("a", "T")
    (last,) = loop(lambda c, r, k: ([c[0] * r[1] + r[0]], []), [h0], [x, a])
    (backward,) = scans(*grad(last, [x, h0]))
    assert Roles.of(backward).split(backward.operands)[1][0] is a


def test_a_returned_carry_is_not_saved_twice() -> None:
    x, h0 = var("x", "T"), var("h0")
    results = loop(lambda c, r, k: ([tanh(c[0]) * r[0]], [c[0]]), [h0], [x])
    forward, _ = sorted(scans(grad(results[0], h0)), key=lambda node: node.params["reverse"])
    assert forward is results[0].args[0]


def test_only_what_is_needed_is_carried() -> None:
    x, p, q, a, b = var("x", "T"), var("p"), var("q"), var("a"), var("b")

    def step(c: list, r: list, k: list) -> tuple:
        return [c[0] * k[0] + r[0], c[1] * k[1] + r[0]], []

    first, _ = loop(step, [p, q], [x], [a, b])
    backward = next(node for node in scans(grad(first, a)) if node.params["reverse"])
    assert backward.params["carries"] == 2  # not the other carry, nor a sum for b
    backward = next(node for node in scans(grad(first, x)) if node.params["reverse"])
    assert backward.params["carries"] == 1 and Roles.of(backward).ys == 1


def test_structural_zeros() -> None:
    x, n, h0 = var("x", "T"), var("n", "T", dtype="int64"), var("h0")
    last, _ = loop(lambda c, r, k: ([c[0] * r[0], c[1] + r[1]], []), [h0, ir.constant(0)], [x, n])
    node = last.args[0]
    found = node.op.vjp((ir.constant(1.0), None), ir.parts(node), *node.operands, **node.params)
    assert [g is None for g in found] == [False, True, False, True]
    assert all(g is None for g in node.op.vjp((None, None), ir.parts(node), *node.operands, **node.params))


# ---- until, truncate -------------------------------------------------------------------------------------------------


def test_until_gives_zeros_for_rows_that_did_not_run() -> None:
    x, h0 = var("x", "T"), var("h0")
    for reverse in (False, True):
        last, ys, count = loop(
            lambda c, r, k: ([c[0] + r[0] * r[0]], [r[0] * r[0]], r[0] > 2), [h0], [x], reverse=reverse
        )
        vx = np.array([1.0, 2, 3, 4, 5])
        g = grad(last + total(ys), x)
        got = value(g, {x: vx[::-1] if reverse else vx, h0: 1.0})
        wanted = np.array([4.0, 8, 12, 0, 0])
        np.testing.assert_array_equal(got, wanted[::-1] if reverse else wanted)
        assert value(count, {x: vx[::-1] if reverse else vx, h0: 1.0}) == 3


def truncated(x: np.ndarray, h0: float, a: float, k: int, reverse: bool) -> list[Any]:
    """The gradient of the last state of `h = a*h + x**2` through the last k steps only."""
    order = list(range(len(x)))[:: -1 if reverse else 1]
    before, h = [], h0
    for t in order:
        before.append(h)
        h = a * h + x[t] ** 2
    g, ga, gx = 1.0, 0.0, np.zeros(len(x))
    for step in range(len(x) - 1, max(len(x) - k, 0) - 1, -1):
        gx[order[step]], ga = g * 2 * x[order[step]], ga + g * before[step]
        g *= a
    return [gx, g if k >= len(x) else 0.0, ga]


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("k", [0, 1, 3, 4, 7])
def test_truncated_gradients(k: int, reverse: bool, static: bool) -> None:
    x, h0, a = var("x", 4 if static else "T"), var("h0"), var("a")
    (last,) = loop(lambda c, r, k: ([k[0] * c[0] + r[0] * r[0]], []), [h0], [x], [a], reverse=reverse, truncate=k)
    vx = np.array([1.0, 2, -1, 3])
    found = values(grad(last, [x, h0, a]), {x: vx, h0: 2.0, a: 3.0})
    np.testing.assert_equal(found, truncated(vx, 2.0, 3.0, k, reverse))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("k", [0, 1, 3, 9])
def test_truncation_counts_the_steps_that_ran(k: int, reverse: bool) -> None:
    x, h0, a = var("x", "T"), var("h0"), var("a")
    last, _ = loop(
        lambda c, r, k: ([k[0] * c[0] + r[0] * r[0]], [], r[0] > 2.5), [h0], [x], [a], reverse=reverse, truncate=k
    )
    vx = np.array([1.0, 2, 3, 4, 5])
    ran = truncated(vx[:3], 2.0, 3.0, k, False)
    ran[0] = np.concatenate([ran[0], np.zeros(2)])[:: -1 if reverse else 1]
    found = values(grad(last, [x, h0, a]), {x: vx[:: -1 if reverse else 1], h0: 2.0, a: 3.0})
    np.testing.assert_equal(found, ran)


# ---- sizes, dtypes, transposes ---------------------------------------------------------------------------------------


def test_sizes_that_are_values_reach_into_the_reverse_scan() -> None:
    n, x, v = var("n", dtype="int64"), var("x", "T"), var("v", "m")
    size = ir.as_dim(n) * 2
    init = full(1.0, (size,)) * total(v)

    def step(c: list, r: list, k: list) -> tuple:
        h = c[0] * c[0] * r[0] + full(1.0, (size,))
        return [h], [h]

    last, hs = loop(step, [init], [x])
    cost = total(last) + total(hs)
    g = grad(cost, [x, v])
    gg = grad(total(g[0]), [x, v])
    env = {n: 2, x: np.array([0.5, 0.25]), v: np.array([1.0, 1.0])}

    def at(vx: np.ndarray, vv: np.ndarray, which: Node) -> float:
        return float(value(which, {n: 2, x: vx, v: vv}))

    for node, found in ((cost, g), (total(g[0]), gg)):
        got = values(found, env)
        for i, variable in enumerate((x, v)):
            for j in range(2):
                up, down = ([env[x].copy(), env[v].copy()] for _ in range(2))
                up[i][j] += 1e-6
                down[i][j] -= 1e-6
                assert variable.ndim == 1
                assert got[i][j] == pytest.approx((at(*up, node) - at(*down, node)) / 2e-6, rel=1e-6, abs=1e-6)


def test_an_inner_loop_that_ends_by_itself() -> None:
    """The gradient of a step with `until` inside: its count is a size inside the body of the outer reverse scan."""

    def fn(x: Node, h: Node) -> Any:
        def step(c: list, r: list, k: list) -> tuple:
            inner = loop(lambda c, r, k: ([c[0] * 1.1 + r[0]], [c[0] * r[0]], r[0] > 1), [c[0]], [r[0]])
            return [inner[0]], [total(inner[1])]

        return loop(step, [h], [x])

    check_grad(fn, [np.array([[0.5, 1.5, 0.3], [0.4, 0.2, 0.6], [1.2, 0.1, 0.2]]), 0.3], order=2)


def test_float32_stays_float32() -> None:
    x, h0, w = var("x", "T", 2, dtype="float32"), var("h0", 2, dtype="float32"), var("w", 2, 2, dtype="float32")
    last, ys = rnn(x, h0, w)
    g = grad(total(ys) + total(last), [x, h0, w])
    gg = grad(total(g[2]), [x, h0, w])
    env = {x: RNG.normal(size=(3, 2)).astype("f4"), h0: np.zeros(2, "f4"), w: RNG.normal(size=(2, 2)).astype("f4")}
    double = [var("x", "T", 2), var("h0", 2), var("w", 2, 2)]
    last, ys = rnn(*double)
    exact = values(
        grad(total(ys) + total(last), double), {d: env[s].astype("f8") for d, s in zip(double, (x, h0, w), strict=True)}
    )
    for node, got, wanted in zip([*g, *gg], values([*g, *gg], env), [*exact, *[None] * 3], strict=True):
        assert node.dtype == got.dtype == np.float32
        if wanted is not None:
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["rnn", "swapped carries", "nested", "until", "an integer carry", "unused"])
def test_forward_is_the_transpose_of_reverse(name: str) -> None:
    fn, point = CASES.get(name, CASES["an unused carry"])
    inputs = [var(f"v{i}", *np.shape(p)) for i, p in enumerate(point)]
    outputs = [o for o in fn(*inputs) if o.dtype.kind == "f"]
    env = dict(zip(inputs, point, strict=True))
    shapes = [v.shape for v in values(outputs, env)]
    tangents = [RNG.normal(size=np.shape(p)) for p in point]
    cotangents = [RNG.normal(size=s) for s in shapes]
    forward = values(jvp(outputs, inputs, tangents), env)
    reverse = values(vjp(outputs, inputs, cotangents, disconnected="zero"), env)
    left = sum(np.vdot(a, b) for a, b in zip(forward, cotangents, strict=True))
    right = sum(np.vdot(a, b) for a, b in zip(reverse, tangents, strict=True))
    assert left == pytest.approx(right, rel=1e-12)


def test_a_symbolic_length() -> None:
    n, h0, a = var("n", dtype="int64"), var("h0"), var("a")
    (last,) = loop(lambda c, r, k: ([c[0] * k[0]], []), [h0], [], [a], length=ir.as_dim(n))
    g = grad(last, [h0, a])
    assert [float(v) for v in values(g, {n: 3, h0: 5.0, a: 2.0})] == [8.0, 5 * 3 * 4]
    assert [float(v) for v in values(g, {n: 0, h0: 5.0, a: 2.0})] == [1.0, 0.0]
    (known,) = (node for node in scans(*g) if node.params["reverse"])
    assert isinstance(known.params["length"], types.Dim)


def test_long_unrolled_graphs() -> None:
    x = var("x")
    y = x
    for _ in range(3000):
        y = y * 1.0 + x
    assert value(grad(y, x), {x: 1.0}) == 3001
    assert value(jvp(y, x, 1.0), {x: 1.0}) == 3001
