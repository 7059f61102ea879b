"""Pruning, merging and last rows of loops."""

import numpy as np
import pytest

from scanjit import types
from scanjit.autodiff import grad
from scanjit.ir import PART, Graph, Node, as_dim, constant, dim_node, new_input
from scanjit.loops import scan, until
from scanjit.ops.scan import SCAN, scan_node
from scanjit.ops.shape import IOTA
from scanjit.ops.stretch import BROADCAST_TO, broadcast_to, full
from scanjit.rewrite import Note, pipeline
from scanjit.types import Type
from tests.rewrite.support import (
    B,
    T,
    body,
    checked,
    count,
    cut,
    fn,
    h,
    mm,
    passed,
    same,
    scans,
    shape,
    symbol,
    total,
    values,
    view,
    x,
)


def final(ys: Node) -> Node:
    """The last row."""
    return view(cut(ys, T - 1, T, 0), *range(1, ys.ndim))


def test_results_that_nobody_uses_are_dropped() -> None:
    a, _ = scan(lambda r, h: (fn("tanh", r + h), fn("exp", r)), [x()], [h(), None])
    (out,), notes = passed("prune", [a])
    (loop,) = scans([out])
    assert shape(loop) == (1, 1, 0, 1) and body(loop)["exp"] == 0
    assert notes == ["1 results that nothing uses were dropped"]


def test_a_loop_without_anything_to_prune_is_left() -> None:
    ys = scan(lambda r, h: fn("tanh", r + h), [x()], [h()])
    (out,), notes = passed("prune", [ys])
    assert out is ys and not notes


def test_dead_carries_are_dropped_with_what_only_they_need() -> None:
    """d needs c, c needs d: nothing else does."""
    w = symbol("w", 4, 4)
    a, _, _ = scan(lambda r, h, c, d: (fn("tanh", r + h), mm(d, w), c + r), [x()], [h(), h("c"), h("d")])
    (out,), _ = passed("prune", [a])
    (loop,) = scans([out])
    assert shape(loop) == (1, 1, 0, 1) and count([out])["input"] == 2


def test_loops_before_one_that_needs_less_need_less() -> None:
    a, b = scan(lambda r, h: (fn("tanh", r + h), r * h), [x()], [h(), None])
    c, _ = scan(lambda p, q, h: (fn("tanh", p + h), q * h), [a, b], [h("g"), None])
    (out,), _ = passed("prune", [c])
    assert [shape(loop)[3] for loop in scans([out])] == [1, 1]


def test_operands_given_twice_are_given_once() -> None:
    s, w = x(), symbol("w", 4)
    out = scan(lambda p, q, h, v, u: fn("tanh", p * v + q * u + h), [s, s], [h()], [w, w])
    (out,), _ = passed("prune", [out])
    assert shape(scans([out])[0]) == (1, 1, 1, 1)


def test_constants_of_computed_sizes_keep_the_size_that_the_step_knows() -> None:
    """An `iota` costs nothing in a step, but its size there is the value of a constant of the loop."""
    size = fn("mod", dim_node(T), 4)
    inner = new_input(size.type)
    row, places = (new_input(Type(np.dtype("int64"), shape)) for shape in ((), (as_dim(inner),)))
    body = Graph.of([row, inner, places], [fn("mul", row, places)])
    loop = scan_node(body, [], [symbol("x", "T", dtype="int64")], [size, IOTA(length=as_dim(size))], T)
    (out,), _ = passed("prune", [PART(loop, index=0)])
    same([PART(loop, index=0)], [out], values([loop]))


@pytest.mark.parametrize("kind", ["number", "name", "twice"])
@pytest.mark.parametrize("role", ["carry", "row", "constant"])
def test_sizes_that_rewriting_finds_to_be_known_or_equal(kind: str, role: str) -> None:
    """A tensor that a step reads has a size that was the value of a constant of the loop."""
    n = fn("mod", dim_node(T), 4)
    found = {"number": constant(3), "name": dim_node(B), "twice": n}[kind]
    choice = fn("where", fn("less", total(symbol("c", "B")), 0.5), found, found)
    sizes = [as_dim(choice), as_dim(n)]
    assert types.as_atom(sizes[0]) is choice.dim_atom is not None
    a, b = (cut(symbol(name, "T", 9), 0, size) for name, size in zip("ab", sizes, strict=True))
    if role == "carry":
        ys = scan(lambda r, p, q: (fn("tanh", p + r), fn("sin", q + r)), [total(x(), 1, 2)], [total(a, 0), total(b, 0)])
    elif role == "row":
        ys = scan(lambda p, q: (fn("tanh", p), fn("sin", q)), [a, b], [None, None])
    else:
        ys = [scan(lambda r, p, q: fn("tanh", total(p * r) + total(q * r)), [total(x(), 1, 2)], [None], [a, b])]
    new, _ = passed("simplify prune", ys)
    (loop,) = scans(new)
    assert len(loop.params["sizes"]) == 1
    checked([*ys, *grad(sum(map(total, ys), constant(0.0)), [a])])


def test_equal_carries_are_one() -> None:
    i = h()
    a, b = scan(lambda r, p, q: (fn("tanh", r + p), fn("tanh", r + q)), [x()], [i, i])
    (p, q), notes = passed("prune", [a, b])
    (loop,) = scans([p, q])
    assert shape(loop) == (1, 1, 0, 1) and p is q
    assert "two carries are always equal: they are one" in notes


def test_carries_that_only_begin_the_same_are_two() -> None:
    zero = full(0.0, (B, 4))
    a, b = scan(lambda r, p, q: (fn("tanh", r + p), fn("tanh", r - q)), [x()], [zero, zero])
    new, _ = passed("prune", [a, b])
    assert shape(scans(new)[0])[0] == 2


def test_carries_that_never_change_are_constants() -> None:
    a, b = scan(lambda r, p, q: (fn("tanh", r + p * q), q), [x()], [h(), h("q")])
    new, notes = passed("prune", [a, b])
    (loop,) = scans(new)
    assert shape(loop) == (1, 1, 1, 1)
    assert new[1].op is BROADCAST_TO  # the same in every step
    assert "a carry never changes: it is a constant" in notes


def test_a_result_that_is_a_sequence_is_that_sequence() -> None:
    s = x()
    a, b = scan(lambda r, p: (fn("tanh", r + p), r), [s], [h(), None])
    (_, out), _ = passed("prune", [a, b])
    assert out is s


def test_sequences_that_are_broadcast_over_time_are_constants() -> None:
    row, one = symbol("v", 4), symbol("u", 1, "B", 4)
    s = [x(), broadcast_to(row, (T, B, 4)), broadcast_to(one, (T, B, 4))]
    out = scan(lambda r, p, q, h: fn("tanh", r + p + q + h), s, [h()])
    (out,), notes = passed("prune", [out])
    assert shape(scans([out])[0]) == (1, 1, 2, 1)
    assert "a sequence is the same in every step: it is a constant" in notes


def test_sequences_broadcast_along_another_axis_are_broadcast_inside() -> None:
    narrow = symbol("v", "T", 1, 4)
    out = scan(lambda p, h: fn("tanh", p + h), [broadcast_to(narrow, (T, B, 4))], [h()])
    (out,), _ = passed("prune", [out])
    assert count([out])["broadcast_to"] == 0


def test_small_constants_and_views_are_made_inside() -> None:
    w = symbol("w", 4, 4)
    out = scan(lambda p, h, k, v: fn("tanh", mm(h, v) + p * k), [x()], [h()], [constant(np.arange(4.0)), view(w, 1, 0)])
    (out,), _ = passed("prune", [out])
    (loop,) = scans([out])
    assert shape(loop) == (1, 1, 1, 1) and loop.operands[-1] is w


@pytest.mark.parametrize("steps", [0, 1])
def test_loops_of_no_step_or_one(steps: int) -> None:
    a, b = scan(lambda r, p: (fn("tanh", r + p), r * p), [symbol("x", steps, "B", 4)], [h(), None])
    new, notes = passed("prune", [a, b])
    assert not scans(new) and notes


def test_one_step_with_a_condition_is_left() -> None:
    a = scan(lambda r, p: (r + p, until(constant(True))), [symbol("x", 1, "B", 4)], [h()])
    new, _ = passed("simplify prune", [a])
    assert len(scans(new)) == 1


# ---- merging ---------------------------------------------------------------------------------------------------------


def test_a_loop_with_more_results_does_for_both() -> None:
    s, i = x(), h()
    a = scan(lambda r, p: fn("tanh", r + p), [s], [i])
    b, c = scan(lambda r, p: (fn("tanh", r + p), p), [s], [i, None])
    new, notes = passed("merge prune", [a, b, c])
    (loop,) = scans(new)
    assert shape(loop) == (1, 1, 0, 2) and new[0] is new[1]
    assert notes == ["two loops compute the same carries: they are one"]


def test_one_of_the_loops_may_have_carries_and_operands_of_its_own() -> None:
    s, i = x(), h()
    a = scan(lambda r, p: fn("tanh", r + p), [s], [i])
    b, c = scan(lambda r, z, p, q: (fn("tanh", r + p), p * z + q), [s, x("z")], [i, h("q")])
    new, _ = passed("merge", [a, b, c])
    assert [shape(loop)[:2] for loop in scans(new)] == [(2, 2)]


def test_chains_of_loops_are_merged() -> None:
    s, i = x(), h()
    a = scan(lambda r, p: fn("tanh", r + p), [s], [i])
    outs = []
    for k in range(3):
        b, c = scan(lambda r, p, k=k: (fn("tanh", r - p), p * float(k + 2)), [a], [i, None])
        outs += [b, c]
    new, _ = passed("merge", [a, *outs])
    assert len(scans(new)) == 2


def test_loops_that_have_an_update_in_common_with_others_are_merged() -> None:
    """The two directions of a layer, say: their first pair differs, others do not."""

    s = x()

    def loop(w: Node, more: bool) -> Node:
        start = full(1.0, (B, 4), "float64")
        fed = [start, start, None] if more else [start, start]
        steps = scan(lambda r, p, c: (fn("tanh", c), r * w + fn("exp", p + c), c * c)[: len(fed)], [s], fed)
        return steps[-1]

    ws = [symbol(name, 4) for name in "uv"]
    new, notes = passed("merge", [loop(w, more) for more in (False, True) for w in ws])
    assert len(scans(new)) == 2 and len(notes) == 2


def test_loops_that_differ_are_not_merged() -> None:
    s, i = x(), h()
    outs = [
        scan(lambda r, p: fn("tanh", r + p), [s], [i]),
        scan(lambda r, p: fn("tanh", r - p), [s], [i]),
        scan(lambda r, p: fn("tanh", r + p), [x("z")], [i]),
        scan(lambda r, p: fn("tanh", r + p), [s], [h("j")]),
    ]
    new, notes = passed("merge", outs)
    assert len(scans(new)) == 4 and not notes


def test_a_loop_over_the_results_of_another_is_not_merged_with_it() -> None:
    s, i = x(), h()
    a, b = scan(lambda r, p: (fn("tanh", p), r), [s], [i, None])
    c, d = scan(lambda r, p: (fn("tanh", p), r * 2.0), [b], [i, None])
    new, _ = passed("merge", [a, b, c, d])
    assert len(scans(new)) == 2


def test_loops_that_end_by_a_condition() -> None:
    s, i = x(), h()

    def step(more: bool):
        def made(r: Node, p: Node):
            p = fn("tanh", r + p)
            return ([p, p * 2.0] if more else [p]), until(total(p) > 0.5)

        return made

    a = scan(step(False), [s], [i])
    b, c = scan(step(True), [s], [i, None])
    new, _ = passed("merge", [a, b, c])
    assert len(scans(new)) == 1


# ---- last rows -------------------------------------------------------------------------------------------------------


def test_the_last_row_is_the_final_carry() -> None:
    ys = scan(lambda r, p: fn("tanh", r + p), [x()], [h()])
    outs = [final(ys)]
    result, _ = _passed_if_rows("simplify last_rows prune", outs)
    (loop,) = scans(result)
    assert shape(loop)[3] == 0 and count(result)["slice"] == 0


def test_in_a_reverse_loop_it_is_the_first_one() -> None:
    ys = scan(lambda r, p: fn("tanh", r + p), [x()], [h()])
    node = ys.args[0]
    back = SCAN(*node.operands, **{**node.params, "reverse": True})
    first = view(cut(PART(back, index=1), 0, 1, 0), 1, 2)
    result, _ = _passed_if_rows("simplify last_rows prune", [first])
    assert shape(scans(result)[0])[3] == 0


def test_in_a_loop_that_a_step_ends_it_is_the_row_of_that_step() -> None:
    ys = scan(lambda r, p: (fn("tanh", r + p), until(total(p) > 1.0)), [x()], [h()])
    rows = ys.type.shape[0]
    last, first = (view(cut(ys, at, at + 1, 0), 1, 2) for at in (rows - 1, 0))
    result, _ = _passed_if_rows("simplify last_rows prune", [last])
    (loop,) = scans(result)
    assert shape(loop)[3] == 0 and count(result)["slice"] == 0
    result, _ = _passed_if_rows("simplify last_rows prune", [first])
    assert shape(scans(result)[0])[3] == 1, "another row is not there at the end"


def _passed_if_rows(names: str, outs: list[Node]) -> tuple[list[Node], list[str]]:
    """As `passed`, for what needs a row."""
    notes: list[Note] = []
    new = list(outs)
    for name in names.split():
        new = dict(pipeline.PIPELINE + pipeline.LOOPS)[name](new, notes)
    for changed in ({}, {"T": 1}):
        same(outs, new, values(outs, changed))
    return new, [note.text for note in notes]


def test_the_gradient_of_the_last_row_begins_with_it() -> None:
    s, i, w = x(), h(), symbol("w", 4, 4)
    ys = scan(lambda r, p: fn("tanh", r + mm(p, w)), [s], [i])
    cost = total(final(ys))
    outs = [cost, *grad(cost, [s, i, w])]
    new, notes = _passed_if_rows("simplify merge last_rows prune", outs)
    _, backward = scans(new)
    assert count(new)["set_slice"] == 0
    assert "a sequence that is zero but for one row was added to an initial value" in notes
    assert shape(backward)[1] == 2  # the carry before the step, and x
