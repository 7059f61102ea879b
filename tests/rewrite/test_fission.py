"""What leaves a loop: before it, after it, sums over time, what never changes; and slices pushed to their sources."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scanjit import types
from scanjit.ir import INPUT, PART, Graph, Node, constant, new_input, walk
from scanjit.loops import scan, until
from scanjit.ops.contraction import contract
from scanjit.ops.elementwise import ADD
from scanjit.ops.index import GATHER
from scanjit.ops.scan import scan_node
from scanjit.ops.shape import CONCATENATE, SET_SLICE, SLICE, window
from scanjit.ops.stretch import full
from scanjit.runtime.program import Staged
from tests.fuzz.programs import program
from tests.rewrite.support import B, T, body, count, cut, fn, h, mm, passed, scans, shape, symbol, total, view, x


def w(name: str = "w") -> Node:
    return symbol(name, 4, 4)


def one(outputs: Any) -> Node:
    (loop,) = scans(outputs)
    return loop


# ---- what never changes ----------------------------------------------------------------------------------------------


def with_constants(step: Callable[..., Node], *consts: Node) -> Node:
    """`carry' = step(row, carry, *consts)`: what the step makes of constants is in the body, as in a gradient's."""
    row, carry, *inner = (new_input(n.type) for n in (h(), h(), *consts))
    body_ = Graph.of([carry, row, *inner], [(new := step(row, carry, *inner)), new])
    return PART(scan_node(body_, [h()], [x()], consts, T), index=1)


def test_what_does_not_change_is_made_before_the_loop() -> None:
    out = with_constants(lambda r, p, v, a: fn("tanh", mm(p, fn("exp", v)) * fn("sigmoid", a) + r), w(), symbol("a", 4))
    new, notes = passed("hoist", [out])
    assert body(one(new))["exp"] == body(one(new))["sigmoid"] == 0 and count(new)["exp"] == 1
    assert notes == ["does not change from step to step, and is made before the loop: exp, sigmoid"]


def test_views_of_constants_stay_next_to_their_use() -> None:
    def step(r: Node, p: Node, v: Node) -> Node:
        return fn("tanh", mm(p, cut(fn("exp", v), 0, 4)) + mm(p, cut(v, 4, 8)) + r)

    new, _ = passed("hoist", [with_constants(step, symbol("v", 4, 8))])
    assert body(one(new))["slice"] == 2 and count(new)["slice"] == 0 and count(new)["exp"] == 1


def test_large_constants_are_operands_and_nothing_is_computed_from_constants_in_a_loop() -> None:
    k = constant(np.random.default_rng(0).normal(size=(1000, 4)))
    out = scan(lambda r, p: fn("tanh", r + p + total(fn("exp", k), 0) + cut(k, 0, 1, 0)), [x()], [h()])
    new, _ = passed("hoist prune", [out])
    assert shape(one(new))[2] == 2 and body(one(new))["exp"] == body(one(new))["constant"] == 0


def test_a_value_leaves_although_a_part_of_it_leaves_too() -> None:
    def step(r: Node, p: Node, v: Node) -> Node:
        inner = fn("exp", v)
        return fn("tanh", mm(p, inner) + mm(p, fn("sigmoid", inner)) + r)

    new, _ = passed("hoist", [with_constants(step, symbol("v", 4, 4))])
    assert body(one(new))["exp"] == body(one(new))["sigmoid"] == 0 and count(new)["exp"] == 1


def test_out_of_two_loops() -> None:
    v = w()

    def outer(rows: Node, p: Node) -> Node:
        ys = scan(lambda r, q: fn("tanh", mm(q, fn("exp", v)) + r), [rows], [p])
        return fn("tanh", total(ys, 0))

    out = scan(outer, [symbol("x", "T", 3, "B", 4)], [h()])
    new, _ = passed("hoist", [out])
    assert count(new)["exp"] == 1


# ---- before the loop -------------------------------------------------------------------------------------------------


def test_products_with_a_row_leave_with_what_is_added_to_them() -> None:
    v, r_, b = w(), w("r"), symbol("b", 4)
    out = scan(lambda r, p: fn("tanh", (mm(r, v) + b) + mm(p, r_)), [x()], [h()])
    new, _ = passed("hoist_pre", [out])
    assert body(one(new))["contract"] == 1 and body(one(new))["add"] == 1
    assert count(new)["contract"] == count(new)["add"] == 1


def test_sums_are_not_reassociated() -> None:
    v, r_, b = w(), w("r"), symbol("b", 4)
    out = scan(lambda r, p: fn("tanh", mm(r, v) + mm(p, r_) + b), [x()], [h()])
    new, _ = passed("hoist_pre", [out])
    assert body(one(new))["add"] == 2


def test_elementwise_work_on_tensors_stays() -> None:
    out = scan(lambda r, p: fn("tanh", fn("exp", r) + p), [x()], [h()])
    new, notes = passed("hoist_pre", [out])
    assert body(one(new))["exp"] == 1 and not notes


def test_scalars_leave() -> None:
    a = symbol("a")
    out = scan(lambda r, p: a * fn("exp", r) + 0.5 * p, [symbol("s", "T")], [symbol("h")])
    new, _ = passed("hoist_pre", [out])
    assert body(one(new))["exp"] == 0 and body(one(new))["mul"] == 1


def test_a_slice_of_a_product_stays_with_its_use() -> None:
    """One product of matrices, one sequence; not a product for each slice."""
    v = symbol("v", 4, 8)

    def step(r: Node, p: Node) -> Node:
        z = mm(r, v)
        return fn("tanh", cut(z, 0, 4) * p + cut(z, 4, 8))

    new, _ = passed("hoist_pre", [scan(step, [x()], [h()])])
    assert shape(one(new))[1] == 1 and body(one(new))["slice"] == 2


def test_gathers_leave_with_a_product() -> None:
    """By itself, a step reads the array where it lies. Rows that a product needs are read for all steps at once."""
    table, indices, v = symbol("e", 7, 4), symbol("i", "T", "B", dtype="int64"), symbol("v", 4, 4)
    positive = fn("abs", indices)
    for product in (False, True):

        def step(i: Node, p: Node, product: bool = product) -> Node:
            row = GATHER(table, i, axis=0)
            return fn("tanh", (mm(row, v) if product else row) + p)

        new, _ = passed("hoist_pre", [scan(step, [positive], [h()])])
        assert body(one(new))["gather"] == (not product)


def test_what_may_fail_does_not_leave_a_loop_that_may_end_early() -> None:
    table, indices = symbol("e", 7, 4), fn("abs", symbol("i", "T", "B", dtype="int64"))

    def step(i: Node, p: Node) -> Any:
        p = fn("tanh", GATHER(table, i, axis=0) + mm(p, w()))
        return [p], until(total(p) > 1.0)

    new, _ = passed("simplify hoist_pre", [scan(step, [indices], [h()])])
    assert body(one(new))["gather"] == 1


def test_products_of_rows_made_by_elementwise_ops_stay() -> None:
    """Over all of time their operands would have to be stored."""
    a = symbol("a", "T", "B", 4, 3)

    def step(r: Node, s: Node, p: Node) -> Node:
        return fn("tanh", contract(r, fn("exp", s), (0, 1), (0, 1, 2), (0, 2)) + p)

    out = scan(step, [x(), a], [symbol("h", "B", 3)])
    new, _ = passed("hoist_pre", [out])
    assert body(one(new))["contract"] == 1


def test_a_map_is_no_loop() -> None:
    v = w()
    out = scan(lambda r: fn("tanh", mm(r, v)), [x()])
    new, _ = passed("hoist_pre", [out])
    assert not scans(new)


def test_an_inner_loop_over_rows_leaves_the_outer_one() -> None:
    def outer(rows: Node, p: Node) -> Node:
        ys = scan(lambda r, q: fn("tanh", q + r), [rows], [full(0.0, (B, 4))])
        return fn("tanh", total(ys, 0) + p)

    new, _ = passed("simplify prune hoist_pre", [scan(outer, [symbol("x", "T", 3, "B", 4)], [h()])])
    assert all(body(loop)["scan"] == 0 for loop in scans(new))


# ---- after the loop --------------------------------------------------------------------------------------------------


def test_products_that_feed_no_carry_leave() -> None:
    v, o = w(), w("o")
    hs, ys = scan(lambda r, p: (q := fn("tanh", mm(p, v) + r), fn("tanh", mm(q, o))), [x()], [h(), None])
    new, notes = passed("hoist_post", [hs, ys])
    assert shape(one(new))[3] == 1 and body(one(new))["contract"] == 1
    assert count(new)["contract"] == count(new)["tanh"] == 1
    assert notes == ["feeds no carry, and is done over all of time after the loop: contract"]


def test_reductions_leave_where_their_operand_is_stored_anyway() -> None:
    v = w()
    _, ys = both = scan(lambda r, p: (q := fn("tanh", mm(p, v) + r), total((q - r) * q, 1)), [x()], [h(), None])
    new, _ = passed("prune hoist_post", [ys])
    assert body(one(new))["sum"] == 1, "to leave, it would have to store q for every step"
    new, _ = passed("prune hoist_post", both)
    assert body(one(new))["sum"] == 0 and shape(one(new))[3] == 1


def test_elementwise_work_on_tensors_stays_in_the_loop() -> None:
    ys = scan(lambda r, p: (q := fn("tanh", p + r), fn("exp", q)), [x()], [h(), None])
    new, notes = passed("hoist_post", ys)
    assert body(one(new))["exp"] == 1 and not notes


def test_scalars_that_feed_no_carry_leave() -> None:
    ys = scan(lambda r, p: (q := 0.5 * p + r, fn("log", q * q) / q), [symbol("s", "T")], [symbol("h"), None])
    new, _ = passed("hoist_post", ys)
    assert body(one(new))["log"] == body(one(new))["div"] == 0 and shape(one(new))[3] == 1


def test_an_element_at_a_computed_place_is_read_in_the_loop() -> None:
    """Outside, the table of every step would be read: it would be stored, a copy in each step."""

    def step(r: Node, table: Node, at: Node) -> Any:
        place = fn("mod", at + 1, 7)
        new = fn("where", fn("equal", iota, at), r, table)
        return new, place, fn("log", GATHER(new, fn("mod", 3 * at, 7), axis=0) + r)

    iota = constant(np.arange(7))
    ys = scan(step, [symbol("s", "T")], [symbol("table", 7), symbol("at", dtype="int64"), None])
    loop = one(passed("prune hoist_post", ys[2:])[0])
    assert body(loop)["gather"] == 1 and body(loop)["log"] == 0
    assert [part.shape[1:] for part in loop.types[2:]] == [()]
    tables = one(passed("prune hoist_post", [ys[0], ys[2]])[0])
    assert body(tables)["gather"] == 0, "the tables are stored anyway"


def test_what_feeds_a_carry_stays() -> None:
    v = w()
    ys = scan(lambda r, p: (fn("tanh", (q := mm(p, v)) + r), q), [x()], [h(), None])
    new, notes = passed("hoist_post", ys)
    assert body(one(new))["contract"] == 1 and not notes


def test_the_rows_after_the_end_of_a_loop_do_not_count() -> None:
    v = w()

    def step(r: Node, p: Node) -> Any:
        q = fn("tanh", mm(p, v) + r)
        return [q, mm(q, v)], until(total(q) > 0.0)

    hs, ys = scan(step, [x()], [h(), None])
    new, _ = passed("simplify hoist_post", [hs, ys, total(ys)])
    assert body(one(new))["contract"] == 1


# ---- sums over time --------------------------------------------------------------------------------------------------

Term = Callable[[Node, Node, Node], Node]


def summed(term: Term, init: Node) -> tuple[list[Node], Node]:
    """The final value of `acc' = acc + term(row, carry, new carry)`, after fission; and the loop."""
    v = w()

    def step(r: Node, p: Node, acc: Node) -> Any:
        q = fn("tanh", mm(p, v) + r)
        return q, acc + term(r, p, q)

    hs, accs = scan(step, [x()], [h(), init])
    last = accs.args[0]
    new, _ = passed("simplify prune hoist_post simplify", [hs, PART(last, index=1)])
    return new, one(new)


MATRIX = full(0.0, (4, 4))
LEAVING: dict[str, tuple[Term, Node, dict[str, int]]] = {
    "a product": (lambda r, p, q: contract(p, q, (0, 1), (0, 2), (1, 2)), MATRIX, {"contract": 1, "sum": 0}),
    "a sum over rows": (lambda r, p, q: total(q, 0), full(0.0, (4,)), {"sum": 1}),
    "a transposed product": (
        lambda r, p, q: view(contract(p, q, (0, 1), (0, 2), (2, 1)), 1, 0),
        MATRIX,
        {"contract": 1, "sum": 0},
    ),
    "a product in a window": (
        lambda r, p, q: SET_SLICE(full(0.0, (4, 8)), contract(p, q, (0, 1), (0, 2), (1, 2)), start=(0, 2), step=(1, 1)),
        full(0.0, (4, 8)),
        {"contract": 1, "sum": 0, "set_slice": 1},
    ),
    "two products": (
        lambda r, p, q: contract(p, q, (0, 1), (0, 2), (1, 2)) - contract(r, q, (0, 1), (0, 2), (1, 2)) * 0.5,
        MATRIX,
        {"contract": 2, "sum": 0},
    ),
    "products side by side": (
        lambda r, p, q: CONCATENATE(*(contract(a, q, (0, 1), (0, 2), (1, 2)) for a in (p, r)), axis=0),
        full(0.0, (8, 4)),
        {"contract": 2, "sum": 0, "concatenate": 1},
    ),
    "an outer product": (lambda r, p, q: view(p, 0, 1, None) * view(q, 0, None, 1), full(0.0, (B, 4, 4)), {}),
    "a scalar": (lambda r, p, q: total(p * q), constant(0.0), {"sum": 1}),
    "a product of rows that reduces": (
        lambda r, p, q: contract(r, view(r, 0, 1), (0, 1), (0, 1), (0,)),
        full(0.0, (B,)),
        {"contract": 1},
    ),
    "rows alone": (lambda r, p, q: fn("exp", r), full(0.0, (B, 4)), {"exp": 1, "sum": 1}),
}


@pytest.mark.parametrize("name", LEAVING)
def test_sums_leave(name: str) -> None:
    term, init, wanted = LEAVING[name]
    new, loop = summed(term, init)
    assert shape(loop)[0] == 1
    found = count(new)
    assert {op: found[op] for op in wanted} == wanted


STAYING: dict[str, tuple[Term, Node]] = {
    "elementwise": (lambda r, p, q: p * q, full(0.0, (B, 4))),
    "a product of what a step computes": (
        lambda r, p, q: contract(fn("exp", r), fn("tanh", r), (0, 1), (0, 1), (0,)),
        full(0.0, (B,)),
    ),
    "a product that reduces": (lambda r, p, q: contract(fn("exp", p), q * r, (0, 1), (0, 1), (0,)), full(0.0, (B,))),
}


@pytest.mark.parametrize("name", STAYING)
def test_sums_stay(name: str) -> None:
    _, loop = summed(*STAYING[name])
    assert shape(loop)[0] == 2


def test_the_initial_value_is_added() -> None:
    new, _ = summed(lambda r, p, q: contract(p, q, (0, 1), (0, 2), (1, 2)), symbol("m", 4, 4))
    assert new[1].op is ADD


def of_numbers(step: Callable[..., Any], carries: int, ys: int = 0, dtype: str = "float64") -> Node:
    """The loop of a step of numbers, after fission."""
    inits = [*(symbol(f"h{i}", dtype=dtype) for i in range(carries)), *[None] * ys]
    found = scan(step, [symbol("s", "T", dtype=dtype)], inits)
    found = [found] if isinstance(found, Node) else found
    lasts = [PART(y.args[0], index=i) for i, y in enumerate(found[:carries])]
    return one(passed("prune hoist_post", [*lasts, *found[carries:]])[0])


def fires(r: Node, p: Node) -> tuple[Node, Node]:
    """A state that begins again, and whether it does."""
    q = p + 0.5 * r
    fired = fn("greater", q, constant(1.0))
    return fn("where", fired, constant(0.0), q), fired


def test_cheap_sums_of_numbers_stay_in_loops_that_wait() -> None:
    """To count in the loop takes no time. A logarithm does, and steps that fill lanes do not wait."""

    def counted(r: Node, p: Node, acc: Node) -> Any:
        q, fired = fires(r, p)
        return q, acc + fn("where", fired, constant(1.0), constant(0.0))

    def likelihood(r: Node, p: Node, acc: Node) -> Any:
        q, _ = fires(r, p)
        return q, acc + fn("log", q * q + 1.0)

    def read(r: Node, p: Node, acc: Node) -> Any:
        """Numbers that are read digit by digit: steps of integers with factors do not fill lanes."""
        digit = fn("less", r, 10)
        return fn("where", digit, p * 10 + r, 0), acc + fn("where", digit, 0, p)

    assert shape(of_numbers(counted, 2))[0] == 2
    assert shape(of_numbers(likelihood, 2))[0] == 1
    assert shape(of_numbers(read, 2, dtype="int64"))[0] == 2
    assert shape(of_numbers(read, 2))[0] == 1
    assert shape(of_numbers(lambda r, p, acc: (q := 0.5 * p + r, acc + q * q), 2))[0] == 1
    assert shape(of_numbers(lambda r, p, acc: (fn("tanh", p), acc + r * r), 2))[0] == 1, "no carry is needed"


def test_steps_of_several_linear_carries_do_not_wait() -> None:
    ordered = lambda r, n, m, acc: (n + 1.0, m + (r - m) / (n + 1.0), acc + (r - m) * (r - m))
    coupled = lambda r, n, m, acc: (0.5 * n - m, 0.5 * m + n, acc + n * m)
    assert shape(of_numbers(ordered, 3))[0] == 2
    assert shape(of_numbers(coupled, 3))[0] == 3


def test_cheap_numbers_stay_unless_less_is_stored_outside() -> None:
    stays = of_numbers(lambda r, p: (q := fn("maximum", p, r), q - r), 1, 1)
    assert body(stays)["sub"] == 1

    def step(r: Node, p: Node) -> Any:
        q, fired = fires(r, p)
        return q, fn("where", fired, constant(1.0), constant(0.0))

    leaves = of_numbers(step, 1, 1)
    assert body(leaves)["where"] == 1 and [part.dtype for part in leaves.types[1:]] == [np.bool_]


def test_what_is_added_twice_and_used_elsewhere_too() -> None:
    """The summand that leaves is that of the sum, not of another addition of it."""

    def step(r: Node, p: Node, acc: Node) -> Any:
        g = total(p * r, 0)
        return fn("tanh", p + r), fn("tanh", g + 1.0) + ((acc + g) + g)

    outs = scan(step, [x()], [h(), symbol("m", 4)])
    new, _ = passed("hoist_post", [outs[0], outs[1]])
    assert shape(one(new))[0] == 2  # the partial sums are asked for
    final = PART(outs[1].args[0], index=1)
    new, _ = passed("simplify prune hoist_post", [final])
    assert count(new)["sum"] >= 1


def test_a_sum_that_is_read_is_no_sum() -> None:
    def step(r: Node, p: Node, acc: Node) -> Any:
        return fn("tanh", p + r + acc), acc + total(p, 0)

    outs = scan(step, [x()], [h(), symbol("m", 4)])
    new, _ = passed("hoist_post", outs)
    assert shape(one(new))[0] == 2


# ---- back into the loop ----------------------------------------------------------------------------------------------


def test_light_sequences_are_made_in_the_loop() -> None:
    x_, g = x(), symbol("g", 4)
    ys = scan(lambda r, p: fn("tanh", r + p), [x_ * 2.0 + g], [h()])
    new, notes = passed("sink", [ys])
    assert body(one(new))["mul"] == 1 and count(new)["mul"] == 0 and shape(one(new))[1:3] == (1, 1)
    assert notes == ["a sequence is made row by row in the loop that reads it: add, mul"]


SEQUENCES: dict[str, Callable[[], list[Node]]] = {
    "of a product": lambda: [mm(x(), w()) + 1.0],
    "that cost more": lambda: [fn("tanh", x())],
    "of two": lambda: [x("a") * x("b")],
    "of which something else is made too": lambda: [(s := x() * 2.0), total(s)],
    "of numbers, by several ops": lambda: [((symbol("s", "T") * 2.0 + 1.0) * 3.0 + 1.0)],
    "of short rows, by several ops": lambda: [((symbol("s", "T", 4) * 2.0 + 1.0) * 3.0 + 1.0)],
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_other_sequences_stay(name: str) -> None:
    sequence, *more = SEQUENCES[name]()
    ys = scan(lambda r, p: fn("tanh", r + p), [sequence], [full(0.0, sequence.type.shape[1:])])
    new, notes = passed("sink", [ys, *more])
    assert not notes and body(one(new))["mul"] == 0


def test_light_sequences_of_parts_sink() -> None:
    """They are made of a column of what is in memory."""
    ys = scan(lambda r, p: fn("tanh", r + p), [symbol("s", "T", 3)[:, 1] * 0.5], [full(0.0, ())])
    new, notes = passed("sink", [ys])
    assert body(one(new))["mul"] == 1 and count(new)["mul"] == 0
    assert notes == ["a sequence is made row by row in the loop that reads it: mul"]


@pytest.mark.parametrize("row", [(), (3,), (4, 2)])
def test_light_sequences_of_numbers_and_short_rows_sink(row: tuple[int, ...]) -> None:
    sequence = total(symbol("v", 4)) * symbol("s", "T", *row) + 1.0
    ys = scan(lambda r, p: fn("tanh", r + p), [sequence], [full(0.0, row)])
    new, notes = passed("sink", [ys])
    assert body(one(new))["mul"] == 1 and count(new)["mul"] == 0
    assert notes == ["a sequence is made row by row in the loop that reads it: add, mul"]


@pytest.mark.parametrize("more", [1, 5])
def test_light_sequences_of_common_ops_sink_together(more: int) -> None:
    """What both need may cost as much as both."""
    s = symbol("s", "T")
    twice = s * 2.0
    for _ in range(more):
        twice = twice + s
    ys = scan(lambda a, b, p: fn("tanh", a * p + b), [twice + 1.0, twice * 3.0], [full(0.0, ())])
    new, notes = passed("sink", [ys, total(s)])
    outside = 0 if more == 1 else 2
    assert count(new)["mul"] == outside and body(one(new))["mul"] == 3 - outside
    assert shape(one(new))[1] == (1 if more == 1 else 2)
    assert notes == ["a sequence is made row by row in the loop that reads it: add, mul"] * (more == 1)


# ---- slices ----------------------------------------------------------------------------------------------------------


def test_slices_of_a_product_are_products_with_slices() -> None:
    a, v = h(), symbol("v", 4, 6)
    z = mm(a, v)
    new, notes = passed("push_slices", [cut(z, 0, 2), fn("exp", cut(z, 2, 6))])
    assert count(new)["contract"] == 2 and all(n.operands[1].op is SLICE for n in _all(new, "contract"))
    assert notes == ["a product is used in 2 slices: each is a product of its own"]


def test_slices_that_are_all_of_a_gradient_of_weights() -> None:
    gradient = contract(x(), symbol("dz", "T", "B", 6), (0, 1, 2), (0, 1, 3), (2, 3))
    for ends, products in (((2, 4, 6), 1), ((2, 4), 2)):
        new, _ = passed("push_slices", [cut(gradient, end - 2, end) for end in ends])
        assert count(new)["contract"] == products


def test_slices_go_through_elementwise_ops_and_views() -> None:
    a, b = h(), symbol("b", 4)
    z = view(fn("tanh", a * 2.0 + b), 1, 0)
    new, _ = passed("push_slices", [cut(z, 0, 2, 0), cut(z, 2, 4, 0)])
    assert count(new)["tanh"] == 2
    assert all(n.operands[0].op is INPUT for n in _all(new, "slice"))


def test_slices_that_overlap_are_left() -> None:
    z = fn("tanh", h())
    outs = [cut(z, 0, 3), cut(z, 2, 4)]
    new, _ = passed("push_slices", outs)
    assert all(a is b for a, b in zip(new, outs, strict=True))


def test_what_is_also_used_whole_is_left() -> None:
    z = fn("tanh", h())
    outs = [cut(z, 0, 2), z * 2.0]
    new, _ = passed("push_slices", outs)
    assert count(new)["tanh"] == 1


def test_slices_of_rows_of_time() -> None:
    y = fn("tanh", mm(x(), w()))
    new, _ = passed("push_slices simplify", [window(y, 0, 0, 0)])
    assert _all(new, "contract")[0].type.shape[0] == 0


def test_gates_of_a_symbolic_size() -> None:
    size = types.size("H")
    a, v = symbol("a", "B", "H"), symbol("v", "H", "H")
    wide = SET_SLICE(full(0.0, (size, 3 * size)), v, start=(0, size), step=(1, 1))
    z = fn("tanh", mm(a, wide))
    new, _ = passed("push_slices", [cut(z, k * size, (k + 1) * size) for k in range(3)])
    assert count(new)["contract"] == 3


def _all(nodes: list[Node], name: str) -> list[Node]:
    return [node for node in walk(nodes) if node.op.name == name]


def test_generated_code_does_not_depend_on_addresses() -> None:
    """What leaves a loop is a set. The order of what the loop stores for it is that of the graph."""
    made, sources = [], set()
    for many in range(4):
        made.append((program(5_000_123), [object() for _ in range(1000 * many)]))
        p = made[-1][0]
        sources.add(Staged(list(p.inputs), list(p.outputs), "f", "emulate").source)
    assert len(sources) == 1


# ---- carries of other shapes -----------------------------------------------------------------------------------------


def with_derivatives(level: Node, changes: Node, row: Node, rate: Node) -> tuple[Node, Node]:
    """A scalar recurrence, and its forward derivatives by several parameters."""
    new = fn("tanh", level * rate + row)
    return new, (changes * rate + level) * (1.0 - new * new)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("columns", [5, "B"])
def test_a_value_that_needs_no_derivatives_has_a_loop_of_its_own(columns: int | str, backwards: bool) -> None:
    """Its results are the same ones: final values, and what is stacked."""
    inits, rate, rows = [symbol("h0"), symbol("d0", columns)], symbol("rate"), symbol("x", "T")
    step = lambda r, h, d: (*with_derivatives(h, d, r, rate), h * 2.0, d + h)
    found = scan(step, rows, [*inits, None, None], go_backwards=backwards)
    new, notes = passed("apart", [found[2], found[0], found[3], found[1]])
    first, second = scans(new)
    assert notes == ["carries that need no others have a loop of their own"]
    assert shape(first)[0] == shape(second)[0] == 1 and body(first)["tanh"] == 1
    assert not body(second)["tanh"], "what the first loop computes is read"


def test_loops_part_until_all_carries_of_one_have_one_shape() -> None:
    inits = [symbol("c", 4), symbol("a"), symbol("b", 2), symbol("d", "B")]
    step = lambda r, c, a, b, d: (c + a + cut(b, 0, 1), a * 0.5 + r, b * 0.3 + a, d * a + cut(c, 0, 1) * cut(b, 1, 2))
    found = scan(step, symbol("x", "T"), inits)
    new, notes = passed("apart", list(found))
    assert len(notes) == 3 and [shape(loop)[0] for loop in scans(new)] == [1, 1, 1, 1]


def test_what_does_not_part() -> None:
    """Carries that need each other, large ones, those of loops that may end, those of loops with products, and those
    that are all small."""
    a, b, big, rows = symbol("a"), symbol("b", 5), symbol("big", 8), symbol("x", "T")
    together = scan(lambda r, p, q: (p + cut(q, 0, 1).sum(), q * p + r), rows, [a, b])
    tied = scan(lambda r, p, q: (p * 0.5 + view(cut(q, 0, 1)), q * p + r), rows, [a, b])
    large = scan(lambda r, p, q: (p * 0.5 + r, q * 0.5 + cut(p, 0, 5)), rows, [big, b])
    ends = scan(lambda r, p, q: ((p * 0.5 + r, q * p), until(p > 1.0)), rows, [a, b])
    product = scan(lambda r, p, q: (p * 0.5 + r, mm(q, symbol("w", 5, 5)) * p), rows, [a, b])
    small = scan(lambda r, p, q: (p * 0.5 + r, q * p), rows, [a, symbol("few", 4)])
    for found in (together, tied, large, ends, product, small):
        assert passed("apart", list(found))[1] == []


def test_loops_inside_of_steps_part() -> None:
    a, b = symbol("a"), symbol("b", 5)
    inner = lambda r, s: s + scan(lambda row, p, q: (p * 0.5 + row, q * p + s), r, [a, b])[1].sum()
    new, notes = passed("apart", [scan(inner, symbol("x", "T", 4), symbol("s"))])
    assert len(notes) == 1 and count(one(new).params["body"].outputs)["scan"] == 2
