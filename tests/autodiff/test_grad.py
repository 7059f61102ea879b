"""The chain rule and what users call: structures, constants, known gradients, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import errors, ir
from scanjit.autodiff import Lop, Rop, grad, jvp, vjp
from scanjit.derivatives import hessian, hvp, jacobian
from scanjit.ir import Node, constant
from scanjit.ops.branch import IFELSE
from scanjit.ops.chain import pullback, pushforward
from scanjit.ops.contraction import CONTRACT, contract
from scanjit.ops.elementwise import FLOOR, STOP_GRADIENT, SUB, WHERE
from scanjit.ops.functions import TANH
from scanjit.ops.promotion import CAST
from scanjit.ops.scan import SCAN
from scanjit.rewrite import run
from scanjit.runtime.gradcheck import check_grad
from scanjit.runtime.shared import shared
from tests.autodiff.helpers import loop, total, value, values, var


def tanh(x: Node) -> Node:
    return ir.apply(TANH, x)


# ---- the chain rule --------------------------------------------------------------------------------------------------


def test_shared_subexpressions_add_up() -> None:
    x = var("x")
    y = x * x
    assert value(grad(y * y + y, x), {x: 3.0}) == 4 * 27 + 6


def test_broadcast_operands_get_their_own_shape() -> None:
    x, y, z = var("x", "n", 1), var("y", 3), var("z")
    g = grad(total(x * y * z), [x, y, z])
    assert [str(node.type) for node in g] == ["float64(n, 1)", "float64(3)", "float64()"]
    env = {x: [[1.0], [2.0]], y: [1.0, 2.0, 3.0], z: 2.0}
    assert [v.tolist() for v in values(g, env)] == [[[12.0], [12.0]], [6.0, 6.0, 6.0], 18.0]


def test_wrt_may_be_inside_the_graph_and_depend_on_other_wrt() -> None:
    x = var("x")
    y = x * x
    z = y * x
    assert [float(v) for v in values(grad(z, [x, y]), {x: 3.0})] == [27.0, 3.0]


def test_outputs_may_be_given_twice_and_depend_on_each_other() -> None:
    x = var("x")
    y = x * x
    found = pullback([y, y, y * x], [constant(1.0), constant(10.0), constant(100.0)], [x])
    assert value(found[0], {x: 2.0}) == 11 * 4 + 100 * 12


@pytest.mark.parametrize("derivative", [grad, jacobian, hessian, hvp, sj.vjp])
def test_what_to_differentiate_by_is_asked_for(derivative: Any) -> None:
    """As JAX's `hessian(f)` is written."""
    with pytest.raises(
        errors.ArgumentError, match=rf"sj.{derivative.__name__} needs the variables .*(?s:.*)function f"
    ):
        derivative(lambda x: x * x)


def test_only_paths_from_wrt_are_visited() -> None:
    x, y = var("x"), var("y")
    (g,) = pullback([tanh(y) * x], [constant(1.0)], [x])
    assert sum(node.op is TANH for node in ir.walk([g])) == 1
    assert all(node.op is not SUB for node in ir.walk([g]))


def test_structural_zeros_are_none() -> None:
    x, y, n = var("x"), var("y"), var("n", dtype="int64")
    assert pullback([x], [constant(1.0)], [y]) == [None]
    assert pushforward([x, n + 1], {y: constant(1.0)}) == [None, None]
    assert pullback([ir.apply(WHERE, x > 0, y, y * 2)], [constant(1.0)], [x]) == [None]


def test_accumulation_has_one_order() -> None:
    x = var("x", 4)

    def build() -> Node:
        parts = [tanh(x * float(k)) for k in range(1, 6)]
        return grad(total(sum(parts[1:], start=parts[0])), x)

    assert build() is build()


def test_nodes_belong_to_the_line_of_the_forward_node() -> None:
    x = var("x")
    y = tanh(x)
    g = grad(y, x)
    (slope,) = (node for node in ir.walk([g]) if node.op is SUB)
    assert slope.where == y.where != errors.user_location()


def test_a_jvp_from_a_vjp_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CONTRACT, "jvp", None)
    check_grad(lambda a, b: contract(a, b, (0, 1), (1,), (0,)), [np.ones((2, 3)), np.arange(3.0)], order=2)


def test_a_cotangent_of_another_dtype_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    x = var("x")
    monkeypatch.setattr(TANH, "vjp", lambda g, y, x: (CAST(g, dtype=np.dtype("float32")),))
    with pytest.raises(errors.InternalError, match="cotangent from tanh has another dtype"):
        grad(tanh(x), x)


# ---- grad ------------------------------------------------------------------------------------------------------------


def test_structures_of_wrt() -> None:
    x, y = var("x"), var("y")
    cost, env = x * x * y, {x: 2.0, y: 3.0}
    single, as_list, as_tuple = grad(cost, x), grad(cost, [x, y]), grad(cost, (y,))
    as_dict = grad(cost, {"a": {"x": x}, "b": [y]})
    assert value(single, env) == 12 and isinstance(as_list, list) and isinstance(as_tuple, tuple)
    assert (as_list[0] is single and as_dict == {"a": {"x": single}, "b": [as_tuple[0]]}) or as_dict["a"]["x"] is single
    assert as_dict["b"][0] is as_tuple[0] is as_list[1]
    assert grad(cost, []) == []


def test_shared_variables() -> None:
    w, x = shared(np.array([1.0, 2.0]), "w"), var("x", 2)
    g = grad(total(w * w * x), [w, x])
    assert [v.tolist() for v in values(g, {x: [3.0, 4.0]})] == [[6.0, 16.0], [1.0, 4.0]]


def test_consider_constant() -> None:
    x = var("x")
    y = x * x
    assert value(grad(y * x, x, consider_constant=[y]), {x: 3.0}) == 9
    with pytest.raises(errors.GradientError, match="considered constant"):
        grad(y, x, consider_constant=[y])
    assert value(grad(y, x, consider_constant=[y], disconnected="zero"), {x: 3.0}) == 0


def test_known_gradients_replace_what_would_be_computed() -> None:
    x = var("x")
    y = x * x
    z = y * y
    assert value(grad(None, x, known_grads={y: 10.0}), {x: 3.0}) == 60
    assert value(grad(z, x, known_grads={y: 10.0}), {x: 3.0}) == 60
    assert value(grad(z, x, known_grads={y: x}), {x: 3.0}) == 18
    assert value(grad(z + x, x, known_grads={y: 0.0}), {x: 3.0}) == 1
    with pytest.raises(errors.ArgumentError, match="needs a cost"):
        grad(None, x)


def results_that_need_not() -> dict[str, Callable[[ir.Node, ir.Node], tuple[ir.Node, ir.Node]]]:
    """Pairs of a result that does not depend on the second argument, and one of the same op that does."""
    return {
        "scan": lambda x, y: sj.scan(lambda a, h, g: (h + a, g * y), x, [0.0, 1.0]),
        "scan, through a carry": lambda x, y: sj.scan(lambda a, h, g: (h + a, g + h), x, [0.0, y]),
        "scan, the other carry": lambda x, y: sj.scan(lambda a, h, g: (h + g, g * 2.0 + a), x, [y, 1.0])[::-1],
        "map": lambda x, y: sj.map(lambda a: (a * 2, a * y), x),
        "while_loop": lambda x, y: sj.while_loop(
            lambda s: s[0] < 9.0, lambda s: (s[0] + 1.0, s[1] * y), (x[0], x[1]), max_steps=20
        ),
        "ifelse": lambda x, y: sj.ifelse(x[0] > 0, lambda: (x[0], y), lambda: (x[1], y * 2)),
        "ifelse in scan": lambda x, y: sj.map(lambda a: sj.ifelse(a > 0, lambda: (a, y), lambda: (2 * a, y * 2)), x),
    }


@pytest.mark.parametrize("name", results_that_need_not())
def test_a_result_that_does_not_depend_on_a_variable_has_no_gradient_for_it(name: str) -> None:
    x, y = var("x", "T"), var("y")
    without, dependent = results_that_need_not()[name](x, y)
    assert grad(dependent.sum(), y).ndim == 0
    with pytest.raises(errors.GradientError, match="no gradient for y: the cost does not depend on it"):
        grad(without.sum(), y)


def test_what_has_no_gradient() -> None:
    x, n, v, other = var("x"), var("n", dtype="int64"), var("v", 3), var("other")
    with pytest.raises(errors.GradientError, match="must be a scalar") as caught:
        grad(v * 2, v)
    assert "sum or mean" in str(caught.value) and "test_grad.py" in caught.value.where
    with pytest.raises(errors.GradientError, match="n is of int64"):
        grad(x * n, n)
    with pytest.raises(errors.GradientError, match="the cost must be of floats"):
        grad(n * 2, x)
    with pytest.raises(errors.GradientError, match="no gradient for other: the cost does not depend on it"):
        grad(x * x, [x, other])
    with pytest.raises(errors.GradientError, match="through integers"):
        grad(ir.apply(WHERE, other > 0, x, x * 2), other)
    for choice in ("zero", "ignore"):
        assert value(grad(x * x, [x, other], disconnected=choice)[1], {}) == 0
    with pytest.raises(errors.ArgumentError, match="disconnected"):
        grad(x * x, x, disconnected="perhaps")


def test_a_derivative_that_is_zero_is_connected() -> None:
    x, h0 = var("x", "T"), var("h0")
    assert value(grad(ir.apply(FLOOR, h0), h0), {h0: 1.5}) == 0
    _, ys = loop(lambda c, r, k: ([r[0]], [ir.apply(FLOOR, c[0])]), [h0], [x])
    assert value(grad(total(ys), h0), {h0: 1.5, x: np.ones(2)}) == 0


# ---- vjp, jvp, jacobian, hessian -------------------------------------------------------------------------------------


def test_vjp_and_jvp_take_structures() -> None:
    x, y = var("x", 2), var("y", 2)
    outputs = {"p": x * y, "s": total(x)}
    env = {x: np.array([1.0, 2.0]), y: np.array([3.0, 4.0])}
    back = vjp(outputs, [x, y], {"s": 10.0, "p": np.array([1.0, -1.0])})
    assert [v.tolist() for v in values(back, env)] == [[13.0, 6.0], [1.0, -2.0]]
    ahead = jvp(outputs, [x, y], (np.array([1.0, 0.0]), np.array([0.0, 1.0])))
    assert value(ahead["p"], env).tolist() == [3.0, 2.0] and value(ahead["s"], env) == 1.0
    assert value(Rop(total(x), x, [1.0, 2.0]), env) == 3.0
    assert value(Lop([total(x)], x, [5.0]), env).tolist() == [5.0, 5.0]
    assert value(jvp(total(y), x, x), {}) == 0


def test_derivatives_through_casts() -> None:
    x = var("x", 2)
    narrow = CAST(x, dtype=np.dtype("float32"))
    y = CAST(narrow * narrow, dtype=np.dtype("float64"))
    ahead, back = jvp(y, x, np.ones(2)), grad(total(y), x)
    assert ahead.dtype == back.dtype == np.float64
    assert values([ahead, back], {x: np.array([1.0, 3.0])})[0].tolist() == [2.0, 6.0]
    integer = CAST(x, dtype=np.dtype("int64"))
    assert pushforward([CAST(integer, dtype=np.dtype("float64"))], {x: x}) == [None]


def test_tangents_of_one_variable_add_up() -> None:
    x = var("x")
    assert value(jvp(x * x, [x, x], (1.0, 10.0)), {x: 3.0}) == 66


def test_tangents_that_do_not_fit() -> None:
    x, y = var("x", 2), var("y", 2)
    with pytest.raises(errors.GradientError, match="tangents must have the structure of wrt"):
        jvp(x * y, [x, y], x)
    with pytest.raises(errors.GradientError, match="a tangent must have the type"):
        jvp(x * y, [x, y], [1.0, 2.0])
    with pytest.raises(errors.ShapeError):
        jvp(x * y, x, np.zeros(3))
    with pytest.raises(errors.GradientError, match="structure of outputs"):
        vjp([x, y], x, {"a": 1})


def test_jacobian_and_hessian() -> None:
    x, w = var("x", "n"), var("w", 2, 2)
    vx, vw = np.array([0.3, -0.2]), np.array([[1.0, 2.0], [3.0, 4.0]])
    y = tanh(contract(w, x, (0, 1), (1,), (0,)))
    by_x, by_w = jacobian(y, (x, w))
    slope = 1 - np.tanh(vw @ vx) ** 2
    np.testing.assert_allclose(value(by_x, {x: vx, w: vw}), slope[:, None] * vw)
    np.testing.assert_allclose(value(by_w, {x: vx, w: vw}), np.einsum("i,ij,k->ijk", slope, np.eye(2), vx))
    h = hessian(total(x * x * x), x)
    np.testing.assert_allclose(value(h, {x: vx}), np.diag(6 * vx))
    assert value(hessian(total(x), x), {x: vx}).tolist() == [[0, 0], [0, 0]]


def test_jacobian_of_a_scan() -> None:
    x, h0 = var("x", "T"), var("h0")
    _, ys = loop(lambda c, r, k: ([c[0] * r[0]], [c[0] * r[0]]), [h0], [x])
    got = value(jacobian(ys, x), {x: np.array([2.0, 3.0, 5.0]), h0: 1.0})
    assert got.tolist() == [[1, 0, 0], [3, 2, 0], [15, 10, 6]]
    ahead = value(jacobian(ys, x, mode="forward"), {x: np.array([2.0, 3.0, 5.0]), h0: 1.0})
    np.testing.assert_array_equal(ahead, got)


def test_both_modes_of_the_jacobian() -> None:
    """By several variables, of ranks other than 1; by default along the smaller side."""
    x, w, s = var("x", 2), var("w", 3, 2), var("s")
    y = tanh(contract(w, x * s, (0, 1), (1,), (0,)))
    env = {x: np.array([0.3, -0.2]), w: np.arange(6.0).reshape(3, 2) / 5, s: 0.7}
    back, ahead = (jacobian(y, {"x": x, "w": w, "s": s}, mode=mode) for mode in ("reverse", "forward"))
    for key, shape in (("x", (3, 2)), ("w", (3, 3, 2)), ("s", (3,))):
        assert back[key].type.shape == ahead[key].type.shape == shape
        np.testing.assert_allclose(value(back[key], env), value(ahead[key], env), rtol=1e-14)
    assert jacobian(y, s) is jacobian(y, s, mode="forward") is not jacobian(y, s, mode="reverse")
    assert jacobian(y, w) is jacobian(y, w, mode="reverse") is not jacobian(y, w, mode="forward")


@pytest.mark.parametrize(
    "rows, columns, expected",
    [(7, 3, "forward"), (3, 7, "reverse"), ("n", 3, "forward"), (3, "n", "reverse"), ("n", "n", "reverse"),
     ("n", 300, None), (300, "n", None), ("n", "m", None)],
)  # fmt: skip
def test_the_mode_of_a_jacobian_follows_the_sizes(rows: int | str, columns: int | str, expected: str | None) -> None:
    """What is known when it is built decides; or else what is known in a call."""
    x, w = var("x", columns), var("w", rows, columns)
    y = tanh(contract(w, x, (0, 1), (1,), (0,)))
    found = jacobian(y, x)
    if expected is not None:
        assert found is jacobian(y, x, mode=expected)
        return
    (branches,) = found.operands
    assert branches.op is IFELSE
    for m, n in ((3, 5), (5, 3)):
        shape = tuple(size if isinstance(size, int) else given for size, given in ((rows, m), (columns, n)))
        vw, vx = np.arange(shape[0] * shape[1]).reshape(shape) / 1e4 - 0.1, np.linspace(-0.1, 0.1, shape[1])
        env = {w: vw, x: vx}
        assert value(branches.operands[0], env) == (shape[1] < shape[0]), "the forward mode where columns are fewer"
        wanted = (1 - np.tanh(vw @ vx) ** 2)[:, None] * vw
        np.testing.assert_allclose(value(found, env), wanted, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(sj.function([w, x], found, mode="emulate")(vw, vx), wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("size", [2, "n"])
def test_a_hessian_is_one_program(size: int | str) -> None:
    """There are as many rows as columns; with several variables, each by all of them."""
    x, s = var("x", size), var("s")
    cost = total(tanh(x * s) * x)
    whole = [
        hessian(cost, x),
        *hessian(cost, [x, s]),
        *(node for row in hessian(cost, [x, s], mixed=True) for node in row),
    ]
    assert "ifelse" not in {node.op.name for node in ir.walk(whole)}
    env = {x: np.array([0.3, -0.2]), s: 0.7}
    (xx, xs), (sx, ss) = (map(lambda node: value(node, env), row) for row in hessian(cost, [x, s], mixed=True))
    np.testing.assert_allclose(xs, sx, rtol=1e-12, atol=1e-13)
    slopes = [values(grad(cost, [x, s]), {**env, s: 0.7 + sign * 1e-5}) for sign in (1, -1)]
    for got, above, below in zip((sx, ss), *slopes, strict=True):
        np.testing.assert_allclose(got, (above - below) / 2e-5, rtol=1e-6)
    np.testing.assert_allclose(xx, np.diag(np.diag(xx)))


def test_second_derivatives_of_a_loop_are_two_loops() -> None:
    """The value, and one batch of changes for all small variables; a large one has a batch of its own."""
    xs, a, b, w = var("xs", 4), var("a"), var("b", 2), var("w", 3)
    big = var("big", 70)
    step = lambda c, r, k: ([tanh(c[0] * r[0] * k[1] + total(c[0]) * k[0])], [c[0]])
    last = total(loop(step, [b], [xs], [a * total(w * w), total(big * big)])[0])
    env = {xs: np.array([0.3, -0.2, 0.5, 1.0]), a: 0.7, b: np.array([0.2, 0.4]), big: np.full(70, 0.1)}
    env[w] = np.array([0.5, -1.0, 0.8])
    for wrt, carries in (((a,), 2), ((a, b, w), 2), ((a, big), 3)):
        mixed = hessian(last, wrt, mixed=True)
        flat = [node for row in mixed for node in row]
        forward, back = (node for node in ir.walk(run([last, *grad(last, wrt), *flat]).outputs) if node.op is SCAN)
        assert forward.params["carries"] == carries and back.params["reverse"]
        for x, row in zip(wrt, mixed, strict=True):
            for y, block in zip(wrt, row, strict=True):
                wanted = value(jacobian(grad(last, x), y, disconnected="zero", mode="reverse"), env)
                np.testing.assert_allclose(value(block, env), wanted, rtol=1e-10, atol=1e-13)
        alone = hessian(last, wrt)
        for i in range(len(wrt)):
            np.testing.assert_allclose(value(alone[i], env), value(mixed[i][i], env), rtol=1e-12, atol=1e-13)


def test_second_derivatives_by_a_variable_that_is_computed_from_another() -> None:
    x = var("x", 2)
    y = x * x
    cost = total(y * x)  # x**3; and by y alone, y * x
    (xx, xy), (yx, yy) = hessian(cost, [x, y], mixed=True)
    env = {x: np.array([3.0, 5.0])}
    np.testing.assert_allclose(value(xx, env), np.diag([18.0, 30.0]))
    np.testing.assert_allclose(value(yx, env), np.eye(2))
    back = [value(jacobian(g, v, mode="reverse", disconnected="zero"), env) for g in grad(cost, [x, y]) for v in (x, y)]
    for got, wanted in zip((xx, xy, yx, yy), back, strict=True):
        np.testing.assert_allclose(value(got, env), wanted)
    (alone_x, alone_y), twice = hessian(cost, [x, y]), hessian(cost, [x, x])
    np.testing.assert_array_equal(value(alone_x, env), value(xx, env))
    np.testing.assert_array_equal(value(alone_y, env), value(yy, env))
    assert [value(h, env).tolist() for h in twice] == [value(xx, env).tolist()] * 2


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_what_a_jacobian_takes_as_constant(mode: str) -> None:
    x = var("x", 2)
    y = tanh(x)
    got = value(jacobian(x * y, x, consider_constant=[y], mode=mode), {x: np.array([0.3, 1.0])})
    np.testing.assert_allclose(got, np.diag(np.tanh([0.3, 1.0])))
    with pytest.raises(errors.GradientError, match="no gradient for x"):
        jacobian(y, x, consider_constant=[y], mode=mode)
    assert not value(jacobian(y, x, consider_constant=[y], disconnected="zero", mode=mode), {x: np.ones(2)}).any()
    with pytest.raises(errors.ArgumentError, match="the mode of a jacobian is unknown"):
        jacobian(y, x, mode="backward")


def test_products_with_the_hessian() -> None:
    """Against the whole matrix, over a loop, with mixed derivatives."""
    xs, h0, w = var("xs", 4), var("h0"), var("w", 2)
    (last, _) = loop(lambda c, r, k: ([tanh(c[0] * k[0] + r[0])], [c[0]]), [h0], [xs], [total(w * w)])
    wrt, rng = {"w": w, "h": h0}, np.random.default_rng(0)
    env = {xs: rng.normal(size=4), h0: 0.5, w: rng.normal(size=2)}
    vectors = {"w": rng.normal(size=2), "h": 2.0}
    blocks = hessian(last, wrt, mixed=True)
    whole = {a: {b: value(blocks[a][b], env) for b in wrt} for a in wrt}
    got = hvp(last, wrt, vectors)
    for a in wrt:
        expected = whole[a]["w"] @ vectors["w"] + whole[a]["h"] * vectors["h"]
        np.testing.assert_allclose(value(got[a], env), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(whole["w"]["h"], whole["h"]["w"], rtol=1e-12, atol=1e-13)
    alone = hessian(last, wrt)
    np.testing.assert_array_equal(value(alone["w"], env), whole["w"]["w"])
    step = 1e-5
    ends = [value(grad(last, w), {**env, w: env[w] + sign * step * vectors["w"]}) for sign in (1, -1)]
    np.testing.assert_allclose(whole["w"]["w"] @ vectors["w"], (ends[0] - ends[1]) / (2 * step), rtol=1e-6)
    with pytest.raises(errors.GradientError, match="structure of wrt"):
        hvp(last, wrt, [1.0])


# ---- check_grad ------------------------------------------------------------------------------------------------------


def test_check_grad_goes_as_deep_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that is right itself, but whose own derivative is wrong."""

    def frozen(g: Node, y: Node, x: Node) -> tuple[Node]:
        return (g * (1 - STOP_GRADIENT(y * y)),)

    monkeypatch.setattr(TANH, "vjp", frozen)
    check_grad(tanh, 0.5, order=1)
    with pytest.raises(errors.GradientError, match="order 2"):
        check_grad(tanh, 0.5, order=2)


def test_check_grad_shows_the_worst_element(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TANH, "vjp", lambda g, y, x: (g * (1 - y * y * y),))
    with pytest.raises(errors.GradientError, match=r"argument 1 is wrong at \(0, 2\)") as caught:
        check_grad(lambda n, x: tanh(x) * n, [2, np.array([[0.0, 0.1, 0.7]])])
    assert "from differences" in str(caught.value)


def test_wrong_arguments_of_grad_and_check_grad() -> None:
    x: Any = var("x")
    for wrong in (5, "a", [(x, x)]):
        with pytest.raises(errors.ArgumentError, match="known_grads maps symbols to their gradients"):
            grad(x * x, x, known_grads=wrong)
    with pytest.raises(errors.ArgumentError, match="check_grad takes a function"):
        check_grad(x, [1.0])
    with pytest.raises(errors.DtypeError, match="this dtype is not supported"):
        check_grad(lambda a: a, ["a"])


def test_check_grad_takes_what_runs_a_graph() -> None:
    from scanjit.runtime.reference import Interpreter

    used = []

    def mode(inputs: Any, outputs: Any) -> Any:
        used.append(len(outputs))
        program = Interpreter(outputs, inputs)
        return lambda *arrays: program(dict(zip(inputs, arrays, strict=True)))

    check_grad(lambda x: [x * x, total(x)], np.arange(3.0), mode=mode)
    assert used


def test_the_derivatives_of_a_reciprocal_divide_once() -> None:
    x = sj.vector("x")
    first = sj.grad((1 / x).sum(), x)
    nodes = ir.walk(run([1 / x, first, sj.grad(first.sum(), x)]).outputs)
    assert sum(node.op.name == "div" for node in nodes) == 1


@pytest.mark.parametrize("derivative", [sj.grad, sj.hessian, sj.jacobian])
def test_a_function_in_the_place_of_its_result_is_an_error_that_says_what_to_write(derivative: Any) -> None:
    with pytest.raises(errors.ArgumentError, match=r"give its result, such as f\(x\).*sj.value_and_grad"):
        derivative(lambda x: (x * x).sum(), sj.vector("x"))
