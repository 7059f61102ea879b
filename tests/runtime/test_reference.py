"""The reference interpreter against plain NumPy, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scanjit import errors, ir, types
from scanjit.ir import Node
from scanjit.ops.contraction import contract
from scanjit.ops.shape import IOTA, RESHAPE, window
from scanjit.ops.stretch import broadcast_to, full
from scanjit.runtime import sizes
from scanjit.runtime.reference import Interpreter, evaluate
from scanjit.runtime.watch import At, Watch
from scanjit.types import Type
from tests.autodiff.helpers import loop, total, value, values, var

X = np.array([1.0, -2.0, 3.0, 0.5])


def test_elementwise_and_products_have_the_values_and_dtypes_of_numpy(rng: np.random.Generator) -> None:
    a, b = var("a", "n", 3, dtype="float32"), var("b", 3, dtype="float32")
    va, vb = rng.normal(size=(2, 3)).astype("float32"), rng.normal(size=3).astype("float32")
    got = values([a * b + 2, contract(a, b, (0, 1), (1,), (0,)), a > b], {a: va, b: vb})
    for found, wanted in zip(got, [va * vb + 2, va @ vb, va > vb], strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_results_are_new_arrays() -> None:
    x = var("x", 3)
    given_ = np.zeros(3)
    got = value(x, {x: given_})
    got += 1
    assert not given_.any()
    value(broadcast_to(x, (2, 3)), {x: given_})[:] = 1  # writable, and not a view of itself


def test_nothing_warns_about_floating_point() -> None:
    x = var("x", 2)
    with np.errstate(all="raise"):
        got = value(x / (x - x), {x: [1.0, 0.0]})
    assert np.isinf(got[0]) and np.isnan(got[1])


# ---- scans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 4])
def test_a_recurrence(rows: int, reverse: bool) -> None:
    x, h0, a = var("x", "T"), var("h0"), var("a")
    last, hs = loop(lambda c, r, k: ([k[0] * c[0] + r[0]], [c[0] * r[0]]), [h0], [x], [a], reverse=reverse)
    h, ys = 2.0, np.zeros(rows)
    for t in reversed(range(rows)) if reverse else range(rows):
        ys[t] = h * X[t]
        h = 3 * h + X[t]
    got = values([last, hs], {x: X[:rows], h0: 2.0, a: 3.0})
    np.testing.assert_array_equal(got[0], h)
    np.testing.assert_array_equal(got[1], ys)


def test_integer_carries_swaps_and_echoes() -> None:
    x, p0, q0, i0 = var("x", "T"), var("p0"), var("q0"), var("i0", dtype="int64")
    results = loop(lambda c, r, k: ([c[1], c[0], c[2] + 1, r[0]], [c[2], c[3]]), [p0, q0, i0, ir.constant(9.0)], [x])
    got = values(results, {x: X[:3], p0: 1.0, q0: 2.0, i0: 5})
    assert [g.tolist() for g in got] == [2.0, 1.0, 8, 3.0, [5, 6, 7], [9.0, 1.0, -2.0]]
    assert got[2].dtype == got[4].dtype == np.int64


@pytest.mark.parametrize("reverse", [False, True])
def test_until_stops_after_the_step_that_meets_it(reverse: bool) -> None:
    x, h0 = var("x", "T"), var("h0")
    last, hs, count = loop(lambda c, r, k: ([c[0] + r[0]], [c[0] + r[0]], c[0] + r[0] > 3), [h0], [x], reverse=reverse)
    got = values([last, hs, count], {x: np.ones(6), h0: 1.0})
    assert got[0] == 4 and got[2] == 3 and got[2].dtype == np.int64
    ran = np.array([2.0, 3, 4, 0, 0, 0])
    np.testing.assert_array_equal(got[1], ran[::-1] if reverse else ran)
    assert values([count, last], {x: np.zeros(0), h0: 1.0}) == [0, 1]
    assert value(count, {x: np.zeros(2), h0: 1.0}) == 2


def test_scans_nest_and_see_sizes_from_outside() -> None:
    x, w = var("x", "T", "n"), var("w", "n")

    def outer(c: list, r: list, k: list) -> tuple:
        (inner,) = loop(lambda c, r, k: ([c[0] * k[0] + r[0]], []), [c[0]], [r[0]], [c[0] + total(w)])
        return [inner], [ir.dim_node(types.size("n")) + 1, inner]

    last, n, ys = loop(outer, [ir.constant(1.0)], [x])
    vx, vw = np.arange(6.0).reshape(3, 2), np.array([0.5, 0.25])
    h, wanted = 1.0, []
    for row in vx:
        k = h + vw.sum()
        for entry in row:
            h = h * k + entry
        wanted.append(h)
    got = values([last, n, ys], {x: vx, w: vw})
    assert got[0] == wanted[-1] and got[1].tolist() == [3, 3, 3] and got[2].tolist() == wanted


def test_a_body_whose_sizes_are_values_outside() -> None:
    n, x = var("n", dtype="int64"), var("x", "T")
    size = ir.as_dim(n) * 2
    init = full(1.0, (size,))
    last, hs = loop(lambda c, r, k: ([c[0] * r[0] + full(1.0, (size,))], [c[0]]), [init], [x])
    assert last.type.shape == (size,) and hs.type.shape[1:] == (size,)
    got = values([last, hs], {n: 2, x: [2.0, 3.0]})
    assert got[0].tolist() == [10.0] * 4 and got[1].tolist() == [[1.0] * 4, [3.0] * 4]
    m = var("m", dtype="int64")
    moved = ir.replace([last], {n: m + 1})
    assert values(moved, {m: 0, x: [2.0, 3.0]})[0].tolist() == [10.0] * 2


def test_a_constant_of_a_body_whose_size_is_a_value_outside() -> None:
    n, v, x = var("n", dtype="int64"), var("v"), var("x", "T")
    many = full(v, (ir.as_dim(n) + 1,))
    (last,) = loop(lambda c, r, k: ([total(many * c[0]) * r[0]], []), [v], [x])
    assert value(last, {n: 2, v: 1.0, x: [2.0, 3.0]}) == 54


def test_an_operand_whose_value_is_also_a_size() -> None:
    n, m = var("n", dtype="int64"), var("m", dtype="int64")
    (moved,) = ir.replace([broadcast_to(n, (ir.as_dim(n),))], {n: m + 1})
    assert value(moved, {m: 1}).tolist() == [2, 2]


def test_a_size_that_differs_from_step_to_step() -> None:
    x = var("x", 5)

    def step(c: list, r: list, k: list) -> tuple:
        i = ir.as_dim(c[0])
        return [c[0] + 1], [total(window(x, 0, 0, i))]

    _, sums = loop(step, [ir.constant(0)], length=4)
    assert value(sums, {x: np.arange(5.0)}).tolist() == [0, 0, 1, 3]
    with pytest.raises(errors.ScanError, match="one size to be stacked"):
        loop(lambda c, r, k: ([c[0] + 1], [window(x, 0, 0, ir.as_dim(c[0]))]), [ir.constant(0)], length=4)


def test_a_negative_number_of_steps() -> None:
    n = var("n", dtype="int64")
    _, ys = loop(lambda c, r, k: ([c[0] + 1], [c[0]]), [ir.constant(0)], length=ir.as_dim(n))
    assert value(ys, {n: 3}).tolist() == [0, 1, 2]
    with pytest.raises(errors.ScanjitError, match="negative number of steps"):
        value(ys, {n: -1})


@settings(max_examples=30)
@given(
    rows=st.integers(0, 5),
    carries=st.integers(0, 3),
    reverse=st.booleans(),
    until=st.booleans(),
    seed=st.integers(0, 99),
)
def test_random_loops(rows: int, carries: int, reverse: bool, until: bool, seed: int) -> None:
    """Each new carry and y is a random sum of all that a step sees."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(-2, 3, (carries + 2, carries + 2)).astype(float)
    vx, vc, vk = rng.integers(-3, 4, rows).astype(float), rng.integers(-3, 4, carries).astype(float), 2.0

    def after(items: list) -> list:
        return [sum((w * item for w, item in zip(row, items, strict=True)), start=0 * items[-1]) for row in weights]

    def step(c: list, r: list, k: list) -> tuple:
        found = after([*c, *r, *k])
        return found[:carries], found[carries:], *([found[-1] > 3] if until else [])

    x, k = var("x", "T"), var("k")
    inits = [var(f"c{i}") for i in range(carries)]
    got = values(loop(step, inits, [x], [k], reverse=reverse), {x: vx, k: vk, **dict(zip(inits, vc, strict=True))})
    state, ys, count = list(vc), np.zeros((2, rows)), 0
    for t in reversed(range(rows)) if reverse else range(rows):
        found = after([*state, vx[t], vk])
        state, ys[:, t], count = found[:carries], found[carries:], count + 1
        if until and found[-1] > 3:
            break
    wanted = [*state, *ys, *([count] if until else [])]
    np.testing.assert_equal(got, wanted)


# ---- inputs, sizes, conditions ---------------------------------------------------------------------------------------


def test_shared_variables_have_their_values_and_intermediates_may_be_given() -> None:
    from scanjit.runtime.shared import shared

    w, x = shared(np.array([1.0, 2.0]), "w"), var("x", 2)
    inner = ir.as_node(w) + x
    outer = inner * 2
    assert value(outer, {x: [1.0, 1.0]}).tolist() == [4, 6]
    w.set_value(np.array([0.0, 0.0]))
    assert value(outer, {x: [1.0, 1.0]}).tolist() == [2, 2]
    assert value(outer, {inner: [5.0, 5.0]}).tolist() == [10, 10]


def test_a_program_runs_again_with_other_sizes() -> None:
    x = var("x", "T")
    program = Interpreter([total(x), IOTA(length=types.size("T")), RESHAPE(x, shape=(types.size("T"), 1))], [x])
    for rows in (2, 3, 2):
        got = program({x: np.ones(rows)})
        assert [g.tolist() for g in got] == [rows, list(range(rows)), [[1.0]] * rows]


def test_the_trace_sees_every_value_and_step() -> None:
    x = var("x", "T")
    (last,) = loop(lambda c, r, k: ([c[0] + r[0]], []), [ir.constant(0.0)], [x])
    seen: list[tuple[str, tuple[int, ...]]] = []

    class Trace(Watch):
        def computed(self, node: Node, operands: Sequence[Any], value: Any, at: At) -> None:
            seen.append((node.op.name, tuple(moment.number for moment in at)))

    evaluate([last], {x: [1.0, 2.0]}, [Trace()])
    assert [entry for entry in seen if entry[0] == "add"] == [("add", (0,)), ("add", (1,))]
    assert ("scan", ()) in seen


def test_what_is_missing_or_does_not_fit() -> None:
    x, y, z = var("x", "T"), var("y", 3, "T"), var("z", "S")
    with pytest.raises(errors.ArgumentError, match="no value for <y"):
        value(x + y, {x: [1.0]})
    with pytest.raises(errors.DtypeError):
        value(x, {x: np.array([1])})
    with pytest.raises(errors.ShapeError, match=r"input y has 7.* in dimension 1") as caught:
        value(x + y, {x: np.zeros(5), y: np.zeros((3, 7))})
    assert "input x has 5 rows in dimension 0 ('T')" in str(caught.value)
    with pytest.raises(errors.ShapeError, match="input y has 1 dimensions instead of 2"):
        value(y, {y: np.zeros(3)})
    with pytest.raises(errors.ShapeError, match="dimension 0 of input y has size 4 instead of 3"):
        value(y, {y: np.zeros((4, 3))})
    with pytest.raises(errors.ShapeError, match="must be equal") as caught:
        value(x + z, {x: np.zeros(2), z: np.zeros(3)})
    assert "2 (T) and 3 (S)" in str(caught.value) and "test_reference.py" in str(caught.value)


def test_bind_solves_composite_dimensions() -> None:
    T, S = types.size("T"), types.size("S")
    assert sizes.bind([var("x", "T")], [(5,)]) == {types.as_atom(T): 5}
    a = ir.new_input(types.Type(np.dtype("float64"), (2 * T + S, S)), "a")
    assert sizes.bind([a], [(11, 3)]) == {types.as_atom(T): 4, types.as_atom(S): 3}
    with pytest.raises(errors.ShapeError, match="dimension 0 of input a has size 10 instead of"):
        sizes.bind([a], [(10, 3)])


def test_conditions_come_from_everywhere_and_name_their_line() -> None:
    x, y, w = var("x", "T"), var("y", "S"), var("w", "K")

    def step(c: list, r: list, k: list) -> tuple:
        return [c[0] + w], []

    (last,) = loop(step, [y], [x])
    found = sizes.conditions([last, x + y])
    assert {(str(c.left), str(c.right)) for c in found if c.kind == "=="} == {("S", "K"), ("T", "S")}
    env = {types.as_atom(types.size(name)): n for name, n in {"T": 2, "S": 2, "K": 2}.items()}
    assert sizes.check(found, env) == []
    with pytest.raises(errors.ShapeError, match="must be equal"):
        sizes.check(found, {**env, types.as_atom(types.size("K")): 3})
    assert sizes.check(found, {}) == found


def test_conditions_on_values_wait_for_them() -> None:
    n, x = var("n", dtype="int64"), var("x", "T")
    out = x + full(1.0, (ir.as_dim(n),))
    (condition,) = [c for c in sizes.conditions([out]) if c.kind == "=="]
    env = {types.as_atom(types.size("T")): 2}
    assert sizes.check([condition], env) == [condition]
    assert sizes.check([condition], {**env, types.as_atom(ir.as_dim(n)): 2}) == []
    assert value(out, {n: 2, x: [1.0, 2.0]}).tolist() == [2, 3]
    with pytest.raises(errors.ShapeError, match="must be equal"):
        value(out, {n: 3, x: [1.0, 2.0]})


def test_conditions_inside_a_step_belong_to_its_body() -> None:
    x = var("x", 3)

    def step(c: list, r: list, k: list) -> tuple:
        return [c[0] + 1], [total(x + full(1.0, (ir.as_dim(c[0]) + 2,)))]

    _, ys = loop(step, [ir.constant(1)], length=var("n", "N").type.shape[0])
    inside = [c for c in sizes.conditions([ys]) if c.body is not None and c.kind == "=="]
    assert len(inside) == 1 and inside[0].body is ys.args[0].params["body"]
    n = var("n", "N")
    program = Interpreter([ys, total(n)], [x, n])
    assert program({x: np.zeros(3), n: np.zeros(1)})[0].tolist() == [3.0]
    with pytest.raises(errors.ShapeError, match="must be equal"):
        program({x: np.zeros(3), n: np.zeros(2)})


def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    x = var("x", 3)
    node = x * 2
    with monkeypatch.context() as patch:
        patch.setattr(node.op, "reference", lambda a, b: (a * b).astype("float32"))
        with pytest.raises(errors.InternalError, match="the value of mul has another type") as caught:
            value(node, {x: np.zeros(3)})
        assert "test_reference.py" in str(caught.value)
        patch.setattr(node.op, "reference", lambda a, b: (a * b)[:2])
        with pytest.raises(errors.InternalError, match="the value of mul"):
            value(node, {x: np.zeros(3)})
    monkeypatch.setattr(node, "types", (Type(np.dtype("float32"), node.type.shape),))
    with pytest.raises(errors.InternalError, match="the type of mul is not"):
        value(node, {x: np.zeros(3)})


def test_errors_of_ops_have_the_line_of_their_node() -> None:
    x, i = var("x", 3), var("i", 1, dtype="int64")
    with pytest.raises(errors.OutOfBoundsError) as caught:
        value(ir.OPS["gather"](x, i, axis=0), {x: np.zeros(3), i: [5]})
    assert "test_reference.py" in str(caught.value)


def test_long_graphs_do_not_recurse() -> None:
    x = var("x")
    y = x
    for _ in range(5000):
        y = y + x
    assert value(y, {x: 1.0}) == 5001
