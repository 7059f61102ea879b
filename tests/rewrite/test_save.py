"""What the forward loop keeps for the reverse one."""

from typing import Any

import pytest

from scanjit.autodiff import grad
from scanjit.ir import Node
from scanjit.loops import scan
from scanjit.ops.contraction import contract
from scanjit.ops.stretch import full
from tests.rewrite.support import B, body, checked, count, cut, fn, mm, passed, scans, shape, symbol, total, view

STEPS = "simplify merge last_rows prune hoist save prune simplify"


def weights(columns: int = 4) -> tuple[Node, Node, Node, Node]:
    return symbol("x", "T", "B", 4), symbol("h", "B", 4), symbol("w", 4, columns), symbol("r", 4, columns)


def saved(step: Any, *wrt: Node, **params: Any) -> tuple[list[Node], list[str]]:
    """Forward and reverse loop for the cost `sum(h^2)`, and notes."""
    x, h, *_ = wrt
    hs = scan(step, [x], [h], **params)
    cost = total(hs * hs)
    new, notes = passed(STEPS, [cost, *grad(cost, list(wrt))])
    return scans(new), notes


def test_the_output_of_a_transcendental_is_kept_not_its_input() -> None:
    x, h, w, r = weights()
    (forward, backward), notes = saved(lambda a, p: fn("tanh", mm(a, w) + mm(p, r)) * 0.5, x, h, w, r)
    assert body(backward)["tanh"] == body(backward)["add"] - 3 == 0  # of cotangents and of sums
    assert body(backward)["contract"] == 4  # two for rows and carry, two for the weights
    assert shape(forward)[3] == 3  # h, h before, tanh
    assert notes[-1] == "the forward loop stores 1 values for the gradient: tanh"


def test_what_is_a_result_already_is_kept_for_free() -> None:
    x, h, w, r = weights()
    (forward, backward), _ = saved(lambda a, p: fn("tanh", mm(a, w) + mm(p, r)), x, h, w, r)
    assert shape(forward)[3] == 2  # h and h before
    assert body(backward)["tanh"] == 0


def test_cheap_ops_are_done_again() -> None:
    x, h, _, _ = weights()
    (forward, _), _ = saved(lambda a, p: p * 0.5 + a * p, x, h)
    assert shape(forward)[3] == 2  # h and h before: a, p and what is made of them are there


@pytest.mark.parametrize(("row", "kept"), [((), 3), (("B",), 2)])
def test_quotients_of_rows_are_done_again_and_those_of_numbers_are_kept(row: tuple[str, ...], kept: int) -> None:
    (forward, backward), _ = saved(
        lambda a, p: fn("tanh", a / (p * p + 2.0)), symbol("x", "T", *row), symbol("h", *row)
    )
    assert shape(forward)[3] == kept  # h, h before, and the quotient
    assert body(backward)["div"] == 4 - kept


def test_a_sum_is_kept_instead_of_its_terms() -> None:
    """relu(x @ w + h @ r + b): what relu's rule asks of the sum is kept, not the two products."""
    x, h, w, r = weights()
    b = symbol("b", 4)
    (forward, backward), _ = saved(lambda a, p: fn("relu", mm(a, w) + mm(p, r) + b) * p, x, h, w, r, b)
    assert shape(forward)[3] == 3
    assert body(backward)["contract"] == 4


def test_a_part_of_a_product_is_kept_where_only_that_is_needed() -> None:
    """The reset gate of a GRU multiplies one third of h @ r."""
    x, h, w, r = weights(8)

    def step(a: Node, p: Node) -> Node:
        z = mm(p, r)
        return fn("tanh", cut(mm(a, w), 0, 4) + fn("sigmoid", cut(z, 0, 4)) * cut(z, 4, 8))

    (forward, _), _ = saved(step, x, h, w, r)
    ys = [n.type.shape[-1] for n in forward.params["body"].outputs]
    assert ys == [4] * 5  # the carry; h, h before, the gate, the half: nothing of width 8


def test_what_is_larger_than_what_it_is_made_of_is_done_again() -> None:
    """exp(d * A) of a state space model: N times as large as d."""
    d, a = symbol("d", "T", "B", 4), symbol("a", 4, 3)
    h = full(0.0, (B, 4, 3))
    hs = scan(lambda v, p: fn("exp", view(v, 0, 1, None) * a) * p + view(v, 0, 1, None), [d], [h])
    cost = total(hs * hs)
    new, _ = passed(STEPS, [cost, *grad(cost, [d, a])])
    forward, backward = scans(new)
    assert shape(forward)[3] == 2 and body(backward)["exp"] == 1


def test_reductions_are_kept() -> None:
    x, h, _, r = weights()

    def step(a: Node, p: Node) -> Node:
        z = mm(p, r) + a
        d = z - view(total(z, 1) * 0.25, 0, None)
        return fn("tanh", d / fn("sqrt", view(total(d * d, 1) * 0.25, 0, None) + 0.1))

    (_, backward), notes = saved(step, x, h, r)
    assert "sqrt" in notes[-1]
    assert body(backward)["sqrt"] == 0


@pytest.mark.parametrize("checkpoint", ["sqrt", 3, "all"])
def test_checkpoints_do_not_change_what_is_kept(checkpoint: Any) -> None:
    """The same loops: which rows of what they keep are in memory at a time is decided later."""
    x, h, _, r = weights()
    (plain, _), (made, _) = (
        saved(lambda a, p: fn("exp", mm(p, r)) + a, x, h, r, checkpoint=given)[0] for given in (None, checkpoint)
    )
    assert len(plain.params["body"].outputs) == len(made.params["body"].outputs)


@pytest.mark.parametrize("params", [{"truncate_gradient": 2}, {"go_backwards": True}])
def test_windows_of_rows(params: dict[str, Any]) -> None:
    """A truncated gradient reads the last rows of what the forward loop keeps."""
    x, h, _, r = weights()
    hs = scan(lambda a, p: fn("tanh", mm(p, r) + a) * 0.5, [x], [h], **params)
    cost = total(hs * hs)
    outputs, _ = checked([cost, *grad(cost, [x, r])])
    forward, backward = scans(outputs)
    assert body(backward)["tanh"] == 0 and body(forward)["tanh"] == 1


def test_second_derivatives() -> None:
    x, h, _, r = weights()
    hs = scan(lambda a, p: fn("tanh", mm(p, r) + a), [x], [h])
    (g,) = grad(total(hs * hs), [r])
    cost = total(g * g)
    outputs, _ = checked([cost, *grad(cost, [x, r])])
    assert [body(loop)["tanh"] for loop in scans(outputs)] == [1] + [0] * (len(scans(outputs)) - 1)


def test_a_final_carry_that_is_read_row_by_row_is_no_stack() -> None:
    s = symbol("s", 2, "B")
    last = scan(lambda r, p: fn("tanh", p * view(total(r)) + 0.5), [s], [symbol("h", 3)])
    final = view(cut(last, 1, 2, 0), 1)
    ys = scan(lambda r, p: fn("tanh", p * 0.5 + r), [final], [symbol("a")])
    checked([total(ys), total(s)])


def test_inner_loops() -> None:
    """What an inner loop keeps for its reverse, the outer one keeps: the reverse loops compute no forward loop."""
    x, v, h = symbol("x", "T", "S", 4), symbol("v", 4, 4), symbol("h", 4)

    def outer(rows: Node, p: Node) -> Any:
        ys = scan(lambda a, q: fn("tanh", contract(a, v, (0,), (0, 1), (1,)) + q * 0.5), [rows], [p])
        return view(cut(ys, 2, 3, 0), 1), ys

    _, ys = scan(outer, [x], [h, None])
    cost = total(ys * ys)
    outputs, _ = checked([cost, *grad(cost, [x, v, h])], {"S": 3})
    forward, backward = scans(outputs)
    assert count(backward.params["body"].outputs)["scan"] == 1
    (inner,) = scans(backward.params["body"].outputs)
    assert body(inner)["tanh"] == 0
    assert count(forward.params["body"].outputs)["scan"] == 1
