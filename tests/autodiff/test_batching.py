"""Batches against a loop over the examples."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import scanjit as sj
from scanjit import errors, ir, types
from scanjit.autodiff import grad
from scanjit.batching import batch_graph, vmap
from scanjit.ir import Node
from scanjit.ops.contraction import CONTRACT, contract
from scanjit.ops.functions import TANH
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import IOTA, window
from scanjit.ops.stretch import BROADCAST_TO, broadcast_to, full
from scanjit.ops.view import DIMSHUFFLE
from tests.autodiff.helpers import loop, total, value, values, var

SIZE = 3


def compare(fn: Callable[..., Any], point: Sequence[Any], batched: Sequence[bool], rtol: float = 1e-12) -> list[bool]:
    """Run `fn` over a batch of some arguments and for each example alone. Returns which outputs have a batch axis."""
    rng = np.random.default_rng(0)
    single = [var(f"a{i}", *np.shape(p), dtype=str(np.asarray(p).dtype)) for i, p in enumerate(point)]
    wide = [var(f"b{i}", "B", *np.shape(p), dtype=str(np.asarray(p).dtype)) for i, p in enumerate(point)]
    outputs = [node for node in ir_list(fn(*single))]
    mapping = {s: w for s, w, flag in zip(single, wide, batched, strict=True) if flag}
    found = batch_graph(outputs, mapping, types.size("B"))
    arrays = [
        np.stack([p + (rng.normal(size=np.shape(p)) if np.asarray(p).dtype.kind == "f" else i) for i in range(SIZE)])
        if flag
        else np.asarray(p)
        for p, flag in zip(point, batched, strict=True)
    ]
    env = {w if flag else s: a for s, w, a, flag in zip(single, wide, arrays, batched, strict=True)}
    got = values([node for node, _ in found], env)
    for i in range(SIZE):
        one = {s: a[i] if flag else a for s, a, flag in zip(single, arrays, batched, strict=True)}
        for (_, flag), result, wanted in zip(found, got, values(outputs, one), strict=True):
            np.testing.assert_allclose(result[i] if flag else result, wanted, rtol=rtol, atol=1e-12)
    return [flag for _, flag in found]


def ir_list(value: Any) -> list[Node]:
    return list(value) if isinstance(value, tuple | list) else [value]


# ---- graphs ----------------------------------------------------------------------------------------------------------


def test_what_is_not_batched_stays_as_it_is() -> None:
    x, w = var("x", 3), var("w", 3)
    wide = var("wide", 4, 3)
    inner = w * 2
    (kept, no), (new, yes) = batch_graph([inner, inner + x], {x: wide}, 4)
    assert kept is inner and not no and yes and new.type.shape == (4, 3)
    assert any(arg is inner for node in ir.walk([new]) for arg in node.args)


def test_arguments_by_name_are_batched_on_the_first_axis() -> None:
    x, w, b = sj.matrix("x"), sj.vector("w"), sj.vector("b")
    batched = sj.vmap(lambda x, w, scale=1.0, shift=0.0: x @ w * scale + shift, in_axes=(1, None))
    f = sj.function([x, w, b], batched(x, w, shift=b), mode="reference")
    rows, weights, shifts = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0]), np.array([0.0, 10.0, 20.0])
    np.testing.assert_array_equal(f(rows, weights, shifts), weights @ rows + shifts)


def test_broadcasting_between_ranks() -> None:
    compare(lambda x, y: x * y, [np.ones(2), np.ones((3, 2))], [True, False])
    compare(lambda x, y: x * y, [np.ones(2), np.ones((3, 2))], [False, True])
    compare(lambda x, y: x * y, [np.ones(2), np.ones((3, 2))], [True, True])
    compare(lambda x, y: x + y, [1.0, np.ones((3, 2))], [True, True])


def test_ops_without_a_rule_become_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CONTRACT, "batch", None)

    def product_of(a: Node, b: Node) -> Node:
        return contract(a, b, (0, 1), (1, 2), (0, 2))

    def square(a: Node, b: Node) -> Node:
        return contract(a, a, (0, 1), (1, 2), (0, 2)) * total(b)

    for flags in ([True, True], [True, False], [False, True]):
        compare(square, [np.ones((2, 2)), np.ones((2, 3))], flags)
        compare(product_of, [np.ones((2, 2)), np.ones((2, 3))], flags)


def test_a_loop_over_examples_sees_sizes_that_are_values(monkeypatch: pytest.MonkeyPatch) -> None:
    n, x, wide = var("n", dtype="int64"), var("x"), var("wide", "B")
    monkeypatch.setattr(BROADCAST_TO, "batch", None)
    ((new, flag),) = batch_graph([full(x, (ir.as_dim(n),))], {x: wide}, types.size("B"))
    assert flag
    assert value(new, {n: 2, wide: [1.0, 2.0]}).tolist() == [[1, 1], [2, 2]]


def test_a_size_cannot_differ_between_examples() -> None:
    n = var("n", dtype="int64")
    y = IOTA(length=ir.as_dim(n))
    with pytest.raises(errors.NotSupportedError, match="size that differs between the examples"):
        batch_graph([y], {n: var("ns", 3, dtype="int64")}, 3)


# ---- scans -----------------------------------------------------------------------------------------------------------


def step(c: list, r: list, k: list) -> tuple:
    h = ir.apply(TANH, c[0] * k[0] + r[0]) + c[1] * 0.5
    return [h, c[1] * 0.9], [h * r[0], c[1] + 1.0]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("flags", [tuple(i >> k & 1 == 1 for k in range(4)) for i in range(1, 16)])
def test_scans_over_batches(flags: tuple[bool, ...], reverse: bool) -> None:
    got = compare(
        lambda x, h, g, a: loop(step, [h, g], [x], [a], reverse=reverse),
        [np.ones((4, 2)), np.ones(2), 0.5, np.ones(2)],
        flags,
    )
    late = flags[2]
    assert got == [True, late, True, late]  # the second carry and y are batched only if its initial value is


def test_carries_become_batched_one_by_the_other() -> None:
    def chain(c: list, r: list, k: list) -> tuple:
        return [c[1], c[2], c[2] + r[0], c[3] + 1.0], [c[0]]

    got = compare(lambda x, p: loop(chain, [p, p, p, p], [x]), [np.ones(5), 1.0], [True, False])
    assert got == [True, True, True, False, True]


@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True)])
def test_nested_scans_over_batches(flags: tuple[bool, ...]) -> None:
    def outer(c: list, r: list, k: list) -> tuple:
        inner, ys = loop(lambda c, r, k: ([c[0] * k[0] + r[0]], [c[0]]), [c[0]], [r[0]], [k[0]])
        return [inner], [total(ys), k[0] * 2.0]

    compare(lambda x, a: loop(outer, [ir.constant(0.5)], [x], [a]), [np.ones((2, 3)), 0.5], flags)


@pytest.mark.parametrize("flags", [(True, False, False), (False, True, False), (True, True, True)])
def test_gradients_over_batches_and_of_batches(flags: tuple[bool, ...]) -> None:
    def fn(x: Node, h: Node, a: Node) -> Any:
        last, ys = loop(lambda c, r, k: ([ir.apply(TANH, c[0] * k[0] + r[0])], [c[0] * r[0]]), [h], [x], [a])
        first = grad(last + total(ys), [x, h, a])
        return [*first, *grad(total(first[0]) + first[1] * first[2], [x, h, a])]

    compare(fn, [np.ones(3), 0.3, 0.8], flags)
    x, h, a = var("x", 2, 3), var("h"), var("a", 2)

    def example(x: Node, a: Node) -> Node:
        return loop(lambda c, r, k: ([ir.apply(TANH, c[0] * k[0] + r[0])], []), [h], [x], [a])[0]

    found = grad(total(vmap(example)(x, a)), [x, h, a])
    env = {x: np.arange(6.0).reshape(2, 3) / 5, h: 0.3, a: np.array([0.5, 0.7])}
    got = values(found, env)
    alone = [var("x", 3), h, var("a")]
    single = grad(example(alone[0], alone[2]), alone)
    each = [values(single, {alone[0]: env[x][i], h: 0.3, alone[2]: env[a][i]}) for i in range(2)]
    np.testing.assert_allclose(got[0], [e[0] for e in each])
    np.testing.assert_allclose(got[1], each[0][1] + each[1][1])
    np.testing.assert_allclose(got[2], [e[2] for e in each])


def countdown(x: Node, h: Node, n: Node) -> tuple[Node, ...]:
    def step(c: list, r: list, k: list) -> tuple:
        return [c[0] * 0.5 + r[0], c[1] + 1], [c[0], c[1]], c[0] * 0.5 + r[0] > k[0]

    return loop(step, [h, ir.constant(0)], [x], [n])


@pytest.mark.parametrize("flags", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)])
def test_examples_that_stop_at_different_steps(flags: tuple[int, ...]) -> None:
    got = compare(countdown, [np.array([0.5, 0.7, 0.9, 1.0, 0.1]), 0.3, 0.8], flags)
    assert all(got)


def test_a_count_that_is_one_for_all_is_a_size_outside() -> None:
    def fn(x: Node, y: Node) -> list[Node]:
        _, ys, count = loop(lambda c, r, k: ([c[0] + r[0]], [c[0]], r[1] > 1), [ir.constant(0.0)], [x, y])
        ran = ir.as_dim(count)
        return [total(window(ys, 0, 0, ran) * 2), full(1.0, (ran,)), count + 1]

    assert compare(fn, [np.ones(4), np.arange(4.0)], [True, False]) == [True, False, False]
    x, y, wide = var("x", 4), var("y", 4), var("wide", 2, 4)
    found = batch_graph(fn(x, y), {x: wide}, 2)
    assert sum(node.op is SCAN for node in ir.walk([node for node, _ in found])) == 1


def test_a_condition_that_is_one_for_all() -> None:
    def fn(x: Node, y: Node) -> tuple[Node, ...]:
        return loop(lambda c, r, k: ([c[0] + r[0]], [c[0]], r[1] > 1), [ir.constant(0.0)], [x, y])

    assert compare(fn, [np.ones(4), np.arange(4.0)], [True, False]) == [True, True, False]


def test_the_size_of_the_batch_may_be_a_value() -> None:
    n, h = var("n", dtype="int64"), var("h")
    x = full(1.0, (ir.as_dim(n), 3)) * h
    (out,) = (vmap(lambda row: loop(lambda c, r, k: ([c[0] + r[0] + total(row)], []), [h], [row])[0])(x),)
    g = grad(total(out), h)
    assert value(out, {n: 2, h: 1.0}).tolist() == [13.0, 13.0]
    assert value(g, {n: 2, h: 1.0}) == 26.0


FLAGS = st.lists(st.booleans(), min_size=5, max_size=5).filter(any)


@settings(max_examples=25)
@given(st.integers(0, 3), FLAGS, st.booleans(), st.integers(0, 10**6))
def test_random_loops(rows: int, flags: list[bool], until: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, 5, (4, 3))

    def fn(x: Node, y: Node, k: Node, p: Node, q: Node) -> Any:
        def step(c: list, r: list, fixed: list) -> tuple:
            seen = [*c, *r, *fixed]
            outputs = [seen[i] * seen[j] + ir.apply(TANH, seen[k]) for i, j, k in picks]
            return outputs[:2], outputs[2:], *([outputs[0] > 1.5] if until else [])

        return loop(step, [p, q], [x, y], [k])

    compare(fn, [rng.normal(size=rows), rng.normal(size=rows), 0.7, 0.1, -0.4], flags, rtol=1e-9)


def test_code_of_a_step_over_all_of_time() -> None:
    """What fission does: the batch is time."""
    x, w = var("x", "T", 2), var("w", 2, 2)
    row = var("row", 2)
    per_step = ir.apply(TANH, contract(row, w, (0,), (0, 1), (1,)))
    ((stacked, flag),) = batch_graph([per_step], {row: x}, types.size("T"))
    assert flag and stacked.type.shape == (types.size("T"), 2)
    env = {x: np.arange(6.0).reshape(3, 2), w: np.ones((2, 2))}
    np.testing.assert_allclose(value(stacked, env), np.tanh(env[x] @ env[w]))


# ---- vmap ------------------------------------------------------------------------------------------------------------


def test_axes_in_and_out() -> None:
    x, y = var("x", 2, 3, 4), var("y", 4)
    vx, vy = np.arange(24.0).reshape(2, 3, 4), np.arange(4.0)

    def fn(a: Node, b: Node) -> tuple[Node, Node]:
        return a * b, total(b)

    first, second = vmap(fn, in_axes=(1, None), out_axes=(-1, None))(x, y)
    got = values([first, second], {x: vx, y: vy})
    np.testing.assert_array_equal(got[0], np.moveaxis(vx, 1, 2) * vy[:, None])
    assert got[1] == 6.0
    spread = vmap(fn, in_axes=(1, None))(x, y)[1]
    assert value(spread, {y: vy, x: vx}).tolist() == [6.0] * 3


def test_structures_arrays_and_nesting() -> None:
    x = var("x", 2, 3)
    outer = vmap(vmap(lambda d: {"twice": d["x"] * 2, "sum": d["x"] + d["y"]}))
    found = outer({"x": x, "y": np.ones((2, 3))})
    vx = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(value(found["twice"], {x: vx}), vx * 2)
    np.testing.assert_array_equal(value(found["sum"], {x: vx}), vx + 1)


def test_per_example_gradients() -> None:
    x, w = var("x", "B", 2), var("w", 2)
    found = vmap(lambda row: grad(total(ir.apply(TANH, row * w)), w))(x)
    vx, vw = np.arange(6.0).reshape(3, 2) / 4, np.array([0.5, -0.5])
    np.testing.assert_allclose(value(found, {x: vx, w: vw}), vx * (1 - np.tanh(vx * vw) ** 2))


def test_wrong_axes() -> None:
    x = var("x", 2, 3)
    with pytest.raises(errors.ArgumentError, match="no axis 2"):
        vmap(lambda a: a, in_axes=2)(x)
    with pytest.raises(errors.ArgumentError, match="one entry for each of the arguments"):
        vmap(lambda a: a, in_axes=(0, 0))(x)
    with pytest.raises(errors.ArgumentError, match="needs an argument with a batch axis"):
        vmap(lambda a: a, in_axes=None)(x)
    with pytest.raises(errors.ArgumentError, match="differs between the examples"):
        vmap(lambda a: a, out_axes=None)(x)
    with pytest.raises(errors.ShapeError, match="batch axes"):
        vmap(lambda a, b: a)(x, var("y", 3))
    for wrong in ("a", 0.5, (0.5,), ["a"]):
        with pytest.raises(errors.ArgumentError, match="in_axes of vmap has numbers of axes, and None"):
            vmap(lambda a: a, in_axes=wrong)(x)  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match="vmap takes a function"):
        vmap(None)  # type: ignore[call-overload]


def test_views_in_a_batch() -> None:
    def views(x: Node) -> list[Node]:
        return [window(x, 1, 1, 2), DIMSHUFFLE(x, order=(1, 0)), broadcast_to(x, (4, 2, 3))]

    compare(views, [np.ones((2, 3))], [True])


def test_batches_whose_sizes_have_different_names() -> None:
    """Complex numbers have two parts, of which one may depend on one argument alone."""
    x = np.arange(3.0)
    add = sj.jit(lambda x, y: vmap(lambda a, b: a + b)(x, y))
    np.testing.assert_array_equal(add(x, 1j * x), x + 1j * x)
    for fn in (lambda a, b: a + b, lambda a, b: (a * 2, b * 3), lambda a, b: b * 3):
        with pytest.raises(errors.ShapeError):
            sj.jit(lambda x, y, fn=fn: vmap(fn)(x, y))(x, np.ones(4))


def _rated(x: Any, rate: Any) -> sj.Node:
    return sj.scan(lambda x, level: level + rate * (x - level), x, 0.0)


def test_batched_functions_can_be_pickled() -> None:
    f = sj.jit(sj.vmap(_rated, in_axes=(0, None), out_axes=1), mode="reference")
    assert repr(f) == "<jit of _rated: 0 compiled>"
    xs = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(f))(xs, 0.5), f(xs, 0.5))
    part = sj.vmap(functools.partial(_rated, rate=0.5))
    np.testing.assert_array_equal(sj.jit(pickle.loads(pickle.dumps(part)), mode="reference")(xs), f(xs, 0.5).T)
