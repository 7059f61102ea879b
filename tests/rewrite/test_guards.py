"""Products that masks make needless: which are found, and which must not be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from scanjit.autodiff import grad
from scanjit.ir import Node, apply, walk
from scanjit.loops import scan, until
from scanjit.ops import Reduction
from scanjit.ops.contraction import CONTRACT, CONTRACT_WHERE
from scanjit.ops.elementwise import GREATER, LESS, WHERE
from scanjit.ops.extremes import ARGMAX
from scanjit.ops.index import GATHER
from scanjit.ops.prod import PROD
from scanjit.ops.promotion import cast
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import IOTA
from scanjit.ops.stretch import SUM
from scanjit.rewrite import guards
from tests.rewrite.support import T, checked, cut, fn, mm, symbol, total, view

H = 9


def products(outputs: Sequence[Node]) -> list[str]:
    """For each product, loops included: "all" if it has no guard, else whether that is about "rows" or "terms"."""
    found = []
    for node in walk(outputs):
        if node.op is SCAN:
            found += products(node.params["body"].outputs)
        elif node.op is CONTRACT:
            found.append("all")
        elif node.op is CONTRACT_WHERE:
            found.append("rows" if set(node.params["where"]) <= set(node.params["out"]) else "terms")
    return found


def weights(gates: int = 1) -> tuple[Node, ...]:
    return symbol("x", "T", "B", H), symbol("h", "B", H), symbol("w", H, gates * H), symbol("r", H, gates * H)


def held(mask: Node, new: Node, old: Any) -> Node:
    return fn("where", view(mask, 0, None), new, old)


def test_a_mask_of_state_and_row_with_an_axis_of_one() -> None:
    """The guard is about a view of the mask. The view depends on the state as the mask does, and stays in the step."""
    x, h, w = symbol("x", "T"), symbol("h", "B", H), symbol("w", H, H)

    def step(row: Node, p: Node) -> Node:
        keep = GREATER(view(total(p * row, 1), 0, None), 0 * view(row, None, None))
        return fn("where", keep, mm(p, w), p)

    hs = scan(step, [x], [h])
    assert products(checked([hs])[0]) == ["rows"]
    checked([hs, *grad(total(hs * hs), [h, w])])


def test_every_product_of_a_masked_layer() -> None:
    (x, h, w, r), m = weights(), symbol("m", "T", "B", dtype="bool")
    hs = scan(lambda a, c, p: held(c, fn("tanh", mm(a, w) + mm(p, r)), p), [x, m], [h])
    assert products(checked([hs])[0]) == ["rows"] * 2
    new, notes = checked([hs, *grad(total(hs * hs), [x, h, w, r])])
    assert sorted(products(new)) == ["rows"] * 4 + ["terms"] * 2
    assert any("leaves out rows where a mask is false" in note.text for note in notes if note.pass_name == "guards")


@pytest.mark.quick(3)
@pytest.mark.parametrize("way", ["lengths", "float", "column", "negated", "arithmetic", "zero", "backwards"])
def test_ways_to_write_a_mask(way: str) -> None:
    x, h, w, r = weights(3)
    m = symbol("m", "T", "B", dtype="bool")
    if way == "lengths":
        m = apply(LESS, view(IOTA(length=T), 0, None), symbol("n", "B", dtype="int64"))
    elif way in ("float", "column"):
        m = symbol("m", "T", "B", *([1] if way == "column" else []))

    def gru(a: Node, c: Node, p: Node) -> Node:
        z, s = mm(a, w), mm(p, cut(r, 0, 2 * H))
        u, reset = (fn("sigmoid", cut(z, k * H, (k + 1) * H) + cut(s, k * H, (k + 1) * H)) for k in (0, 1))
        new = u * p + (1 - u) * fn("tanh", cut(z, 2 * H, 3 * H) + mm(reset * p, cut(r, 2 * H, 3 * H)))
        if way == "column":
            return fn("where", apply(GREATER, c, 0), new, p)
        if way == "negated":
            return fn("where", ~view(c, 0, None), p, new)
        if way == "arithmetic":
            weight = cast(view(c, 0, None), "float64")
            return weight * new + (1 - weight) * p
        return held(apply(GREATER, c, 0) if way == "float" else c, new, 0 if way == "zero" else p)

    hs = scan(gru, [x, m], [h], go_backwards=way == "backwards")
    new, _ = checked([hs, *grad(total(hs * hs), [x, h, w, r])])
    assert "all" not in products(new) and len(products(new)) >= 10


def test_stacked_layers_and_what_follows_them() -> None:
    """The second layer reads the first one's states: these are wanted everywhere, what made them is not."""
    (x, h, w, r), m = weights(), symbol("m", "T", "B", dtype="bool")
    hs = x
    for _ in range(2):
        hs = scan(lambda a, c, p: held(c, fn("tanh", mm(a, w) + mm(p, r)), p), [hs, m], [h])
    out = symbol("o", H, H)
    cost = total(fn("tanh", mm(hs, out)) * cast(view(m, 0, 1, None), "float64"))
    new, _ = checked([cost, *grad(cost, [x, w, out])])
    assert "all" not in products(new)


def test_equal_steps_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step knows is found once for equal steps, unless others want other results of them."""
    asked: Counter[tuple[Node, int]] = Counter()
    plain = guards.unwanted

    def counted(node: Node, i: int, *facts: Any) -> Any:
        asked[node, i] += 1
        return plain(node, i, *facts)

    monkeypatch.setattr(guards, "unwanted", counted)
    (x, h, w, r), m, n = weights(), symbol("m", "T", "B", dtype="bool"), symbol("n", "T", "B", dtype="bool")

    def layer(start: Node) -> Node:
        return scan(lambda a, c, p: held(c, fn("tanh", mm(a, w) + mm(p, r)), p), [x, m], [start])

    new, _ = checked([layer(h), layer(h * 2), layer(h * 3)])
    assert products(new) == ["rows"] * 4 and set(asked.values()) == {1}
    apart = lambda a, p: fn("tanh", a * p)  # the second loop alone makes rows that nobody wants
    one, other = (scan(apart, [mm(x, w)], [start]) for start in (h, h * 2))
    new, _ = checked([one, fn("where", view(m & n, 0, 1, None), other, 0)])
    assert max(asked.values()) == 2


def test_a_mask_that_does_not_change() -> None:
    (x, h, w, r), m = weights(), symbol("m", "B", dtype="bool")
    hs = scan(lambda a, p: held(m, fn("tanh", mm(a, w) + mm(p, r)), p), [x], [h])
    assert products(checked([hs])[0]).count("rows") >= 1


def test_loops_in_loops() -> None:
    (x, h, _, r), m = weights(), symbol("m", "T", "B", dtype="bool")

    def outer(c: Node, a: Node, p: Node) -> Node:
        inner = scan(lambda q: fn("tanh", mm(q, r) + a), outputs_info=[p], n_steps=3)
        return held(c, inner[-1], p)

    hs = scan(outer, [m, x], [h])
    checked([hs, *grad(total(hs * hs), [x, r])])


# ---- what must not get a guard ---------------------------------------------------------------------------------------


def _unguarded(step: Any, *more: Node) -> list[str]:
    """A step of which a product gets no guard; the notes on it."""
    (x, h, w, r), m = weights(), symbol("m", "T", "B", dtype="bool")
    made = scan(lambda *args: step(*args, w, r), [x, m], [h, *more], return_list=True)
    new, notes = checked(made)
    assert "all" in products(new)
    return [note.text for note in notes if note.pass_name == "guards"]


def test_a_product_that_is_read_outside_of_the_mask_too() -> None:
    def step(a: Node, c: Node, p: Node, q: Node, w: Node, r: Node) -> list[Node]:
        z = mm(p, r)
        return [held(c, fn("tanh", a + z), p), q + z]

    notes = _unguarded(step, symbol("q", "B", H))
    assert any("is computed in full: all of it is wanted by add" in note for note in notes)


def test_a_product_that_decides() -> None:
    def step(a: Node, c: Node, p: Node, w: Node, r: Node) -> Node:
        z = mm(p, r)
        rows = apply(GREATER, total(z, 1), 0)
        return held(rows, fn("tanh", a + z), p)

    _unguarded(step)


def test_a_product_that_finds_an_index() -> None:
    """An index that nobody wants may still lie outside, and be reported."""

    def step(a: Node, c: Node, p: Node, w: Node, r: Node) -> Node:
        at = ARGMAX(mm(p, r), axis=1)
        return held(c, GATHER(w, at, axis=0) + a, p)

    _unguarded(step)


def test_zero_times_what_may_be_infinite() -> None:
    """Where a product is multiplied by zero later, what stands between them must stay finite for any of its values."""
    (x, _, w, _), m = weights(), symbol("m", "T", "B", dtype="bool")
    zero = apply(WHERE, view(m, 0, 1, None), x, 0)
    assert products(checked([zero * fn("tanh", mm(x, w))])[0]) == ["rows"]
    for inner in (1 / (fn("exp", fn("tanh", mm(x, w))) + 1), fn("exp", mm(x, w)), fn("log", fn("abs", mm(x, w)))):
        assert products(checked([zero * inner])[0]) == ["all"]
        assert products(checked([apply(WHERE, view(m, 0, 1, None), inner, 0)])[0]) == ["rows"]


def test_rows_of_steps_that_did_not_run_are_anything() -> None:
    (x, h, w, r), m = weights(), symbol("m", "T", "B", dtype="bool")

    def step(a: Node, c: Node, p: Node) -> Any:
        new = held(c, fn("tanh", a + mm(p, r)), p)
        return [new, apply(WHERE, view(c, 0, None), new, 0)], until(apply(GREATER, total(new), 2.0))

    _, ys = scan(step, [x, m], [h, None], return_list=True)
    checked([ys, mm(ys, w)])


def test_small_sums_and_bools_are_left_alone() -> None:
    x, w, m = symbol("x", "T", 3), symbol("w", 3, 5), symbol("m", "T", dtype="bool")
    assert products(checked([held(m, mm(x, w), 0)])[0]) == ["all"]
    a, b = symbol("a", "T", H, dtype="bool"), symbol("b", H, 5, dtype="bool")
    assert products(checked([apply(WHERE, view(m, 0, None), mm(a, b), False)])[0]) == ["all"]


@pytest.mark.parametrize(("op", "found"), [(SUM, "terms"), (PROD, "all")])
def test_a_row_of_zeros_may_be_empty(op: Reduction, found: str) -> None:
    """The sum of a row of zeros is 0, but its product is 1 if the row is empty."""
    x, w, m = symbol("x", "T", "B"), symbol("w", "T", H), symbol("m", "T", dtype="bool")
    rows = op(apply(WHERE, view(m, 0, None), x, 0), axes=(1,))
    assert products(checked([mm(view(rows, None, 0), w)])[0]) == [found]


def test_masks_along_an_axis_of_the_sum() -> None:
    x, w, m = symbol("x", "T", "B"), symbol("w", "B", 5), symbol("m", "B", dtype="bool")
    assert products(checked([mm(apply(WHERE, m, x, 0), w)])[0]) == ["terms"]
