"""Local algebra of views, concatenations, windows set into zeros, reductions and products."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scanjit import types
from scanjit.ir import CONSTANT, Node, constant
from scanjit.ops.contraction import contract
from scanjit.ops.extremes import MAX
from scanjit.ops.index import GATHER
from scanjit.ops.shape import CONCATENATE, IOTA, RESHAPE, SET_SLICE, SLICE, flip, window
from scanjit.ops.stretch import broadcast_to, full
from scanjit.rewrite import algebra_shape
from tests.rewrite.support import count, cut, fn, mm, same, simplified, symbol, total, values, view

B, H = types.size("B"), types.size("H")


def x() -> Node:
    return symbol("x", "B", 6)


def y() -> Node:
    return symbol("y", "B", 6)


def cat(*parts: Node, axis: int = 1) -> Node:
    return CONCATENATE(*parts, axis=axis)


def placed(v: Node, start: Any, size: Any, axis: int = 1) -> Node:
    """`v` in zeros."""
    shape = list(v.type.shape)
    shape[axis] = size
    starts = [0] * v.ndim
    starts[axis] = start
    return SET_SLICE(full(0.0, shape), v, start=tuple(starts), step=(1,) * v.ndim)


V = view
Case = tuple[Callable[[Node, Node], Node], Callable[[Node, Node], Node]]
CASES: dict[str, Case] = {
    "dimshuffle identity": (lambda x, y: V(x, 0, 1), lambda x, y: x),
    "dimshuffle twice": (lambda x, y: V(V(x, 1, None, 0), 2, 0), lambda x, y: x),
    "broadcast twice": (
        lambda x, y: broadcast_to(broadcast_to(x, (3, B, 6)), (2, 3, B, 6)),
        lambda x, y: broadcast_to(x, (2, 3, B, 6)),
    ),
    "broadcast of a new axis": (
        lambda x, y: broadcast_to(V(x, None, 0, 1), (3, B, 6)),
        lambda x, y: broadcast_to(x, (3, B, 6)),
    ),
    "dimshuffle of broadcast": (
        lambda x, y: V(broadcast_to(x, (3, B, 6)), 1, 0, 2),
        lambda x, y: broadcast_to(V(x, 0, None, 1), (B, 3, 6)),
    ),
    "x[:]": (lambda x, y: SLICE(x, start=(0, 0), length=(B, 6), step=(1, 1)), lambda x, y: x),
    "x[1:5][1:3]": (lambda x, y: cut(cut(x, 1, 5), 1, 3), lambda x, y: cut(x, 2, 4)),
    "x[::-1][::-1]": (lambda x, y: flip(flip(x, 0), 0), lambda x, y: x),
    "x[::-1][1:3]": (lambda x, y: cut(flip(x, 1), 1, 3), lambda x, y: window(x, 1, 4, 2, -1)),
    "broadcast[...]": (
        lambda x, y: cut(broadcast_to(x, (3, B, 6)), 1, 3),
        lambda x, y: broadcast_to(cut(x, 1, 3), (3, B, 2)),
    ),
    "dimshuffle[...]": (lambda x, y: cut(V(x, 1, 0), 1, 3, 0), lambda x, y: V(cut(x, 1, 3), 1, 0)),
    "concatenate[first]": (lambda x, y: cut(cat(x, y), 0, 6), lambda x, y: x),
    "concatenate[inside second]": (lambda x, y: cut(cat(x, y), 7, 9), lambda x, y: cut(y, 1, 3)),
    "concatenate[two of three]": (lambda x, y: cut(cat(x, y, x), 6, 18), lambda x, y: cat(y, x)),
    "concatenate[other axis]": (
        lambda x, y: cut(cat(x, y, axis=0), 1, 3),
        lambda x, y: cat(cut(x, 1, 3), cut(y, 1, 3), axis=0),
    ),
    "set_slice[same]": (
        lambda x, y: cut(SET_SLICE(x, cut(y, 0, 2), start=(0, 3), step=(1, 1)), 3, 5),
        lambda x, y: cut(y, 0, 2),
    ),
    "set_slice[outside]": (
        lambda x, y: cut(SET_SLICE(x, cut(y, 0, 2), start=(0, 3), step=(1, 1)), 0, 3),
        lambda x, y: cut(x, 0, 3),
    ),
    "set_slice[inside]": (
        lambda x, y: cut(SET_SLICE(x, cut(y, 0, 3), start=(0, 2), step=(1, 1)), 3, 4),
        lambda x, y: cut(y, 1, 2),
    ),
    "set_slice all": (lambda x, y: SET_SLICE(x, y, start=(0, 0), step=(1, 1)), lambda x, y: y),
    "set_slice all in reverse order": (
        lambda x, y: SET_SLICE(x, y, start=(B - 1, 0), step=(-1, 1)),
        lambda x, y: flip(y, 0),
    ),
    "max of x[::-1]": (lambda x, y: MAX(flip(x, 1), axes=(1,)), lambda x, y: MAX(x, axes=(1,))),
    "set_slice twice": (
        lambda x, y: SET_SLICE(
            SET_SLICE(x, cut(y, 0, 2), start=(0, 1), step=(1, 1)), cut(y, 2, 4), start=(0, 1), step=(1, 1)
        ),
        lambda x, y: SET_SLICE(x, cut(y, 2, 4), start=(0, 1), step=(1, 1)),
    ),
    "concatenate of one": (lambda x, y: cat(x), lambda x, y: x),
    "concatenate nested": (lambda x, y: cat(x, cat(y, x)), lambda x, y: cat(x, y, x)),
    "concatenate of nothing": (lambda x, y: cat(x, cut(y, 2, 2)), lambda x, y: x),
    "concatenate of neighbours": (lambda x, y: cat(cut(x, 1, 3), cut(x, 3, 6)), lambda x, y: cut(x, 1, 6)),
    "concatenate of all": (lambda x, y: cat(cut(x, 0, 3), cut(x, 3, 6)), lambda x, y: x),
    "reshape twice": (
        lambda x, y: RESHAPE(RESHAPE(x, shape=(6 * B,)), shape=(2, 3 * B)),
        lambda x, y: RESHAPE(x, shape=(2, 3 * B)),
    ),
    "reshape back": (lambda x, y: RESHAPE(RESHAPE(x, shape=(6 * B,)), shape=(B, 6)), lambda x, y: x),
    "rows of a reshape": (
        lambda x, y: cut(RESHAPE(x, shape=(B, 2, 3)), 0, B // 2, axis=0),
        lambda x, y: RESHAPE(cut(x, 0, B // 2, axis=0), shape=(B // 2, 2, 3)),
    ),
    "reshape with ones": (lambda x, y: RESHAPE(x, shape=(B, 1, 6, 1)), lambda x, y: V(x, 0, None, 1, None)),
    "transposes of both": (lambda x, y: V(x, 1, 0) * V(y, 1, 0) + 1.0, lambda x, y: V(x * y + 1.0, 1, 0)),
    "a transpose and what is narrow": (
        lambda x, y: V(x, 1, 0) * V(y, 1, 0) + V(cut(x, 2, 3), 1, 0),
        lambda x, y: V(x * y + cut(x, 2, 3), 1, 0),
    ),
    "a transpose and a number a row": (
        lambda x, y: V(x, 1, 0) / V(total(y, 1), None, 0),
        lambda x, y: V(x / V(total(y, 1), 0, None), 1, 0),
    ),
    "a transpose and fewer axes": (
        lambda x, y: V(x, 1, 0) - total(y, 1),
        lambda x, y: V(x - V(total(y, 1), 0, None), 1, 0),
    ),
    "gather of an entry": (
        lambda x, y: GATHER(x, constant(np.int64(2)), axis=1),
        lambda x, y: V(cut(x, 2, 3), 0),
    ),
    "gather of iota": (
        lambda x, y: GATHER(x, IOTA(length=3) + 2, axis=1),
        lambda x, y: cut(x, 2, 5),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equations(name: str) -> None:
    a, b = x(), y()
    before, after = (f(a, b) for f in CASES[name])
    new = simplified(before)
    assert new is simplified(after) is after, f"{new!r}"
    for sizes in ({}, {"B": 0}, {"B": 1}):
        same([before], [new], values([before], sizes), exact=True)


SUMS: dict[str, Case] = {
    "sum of x[::-1]": (lambda x, y: total(flip(x, 1), 1), lambda x, y: total(x, 1)),
    "sum of x[::-1, ::-1]": (lambda x, y: total(flip(flip(x, 0), 1), 1), lambda x, y: total(flip(x, 0), 1)),
    "product over a reversed axis of both": (
        lambda x, y: contract(flip(x, 1), flip(flip(y, 1), 0), (0, 1), (2, 1), (0, 2)),
        lambda x, y: contract(x, flip(y, 0), (0, 1), (2, 1), (0, 2)),
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_in_another_order(name: str) -> None:
    a, b = x(), y()
    before, after = (f(a, b) for f in SUMS[name])
    new = simplified(before)
    assert new is simplified(after) is after, f"{new!r}"
    for sizes in ({}, {"B": 0}, {"B": 1}):
        same([before], [new], values([before], sizes))


# ---- windows set into zeros ------------------------------------------------------------------------------------------


def parts(count: int, width: Any = H) -> list[Node]:
    shape = ("B", width) if isinstance(width, int) else ("B", "H")
    return [symbol(f"p{k}", *shape) for k in range(count)]


def test_the_gradient_of_gates_is_one_concatenation() -> None:
    ps = parts(4)
    out = placed(ps[0], 0, 4 * H)
    for k in (1, 2, 3):
        out = out + placed(ps[k], k * H, 4 * H)
    new = simplified(out)
    assert new is cat(*ps)
    same([out], [new], values([out]), exact=True)


@pytest.mark.parametrize("order", [(3, 1, 0, 2), (2, 3, 0, 1)])
def test_windows_in_any_order(order: tuple[int, ...]) -> None:
    ps = parts(4)
    out = placed(ps[order[0]], order[0] * H, 4 * H)
    for k in order[1:]:
        out = placed(ps[k], k * H, 4 * H) + out
    assert simplified(out) is cat(*ps)


def test_gaps_are_filled_with_zeros() -> None:
    a, b = parts(2, 2)
    out = placed(a, 1, 9) + placed(b, 5, 9)
    new = simplified(out)
    assert new.op is CONCATENATE and [p.type.shape[1] for p in new.operands] == [1, 2, 2, 2, 2]
    same([out], [new], values([out]), exact=True)


def test_windows_that_may_overlap_are_added() -> None:
    a, b = parts(2, 3)
    out = placed(a, 1, 9) + placed(b, 3, 9)
    assert count([simplified(out)])["add"] == 1
    unknown = types.size("k")
    out = placed(a, unknown, 3 + 2 * H) + placed(b, 0, 3 + 2 * H)
    assert count([simplified(out)])["add"] == 1


def test_windows_next_to_another_summand() -> None:
    ps, d = parts(2), cat(*parts(2)) * 2.0
    out = (d + placed(ps[0], 0, 2 * H)) + placed(ps[1], H, 2 * H)
    new = simplified(out)
    assert new is d + cat(*ps)
    same([out], [new], values([out]))


def test_two_summands_are_not_reassociated() -> None:
    ps, d, e = parts(2), symbol("d", "B", 1), symbol("e", "B", 1)
    wide = [broadcast_to(v, (B, 2 * H)) for v in (d, e)]
    out = (fn("tanh", wide[0]) + placed(ps[0], 0, 2 * H)) + (fn("exp", wide[1]) + placed(ps[1], H, 2 * H))
    assert count([simplified(out)])["add"] >= 2


def test_set_slices_one_after_the_other() -> None:
    ps = parts(2)
    out = SET_SLICE(placed(ps[0], 0, 2 * H), ps[1], start=(0, H), step=(1, 1))
    assert simplified(out) is cat(*ps)


# ---- reductions and products -----------------------------------------------------------------------------------------

Make = Callable[[dict[str, Node]], Node]


def tensors() -> dict[str, Node]:
    return {"a": symbol("a", "T", "B", 4), "w": symbol("w", 4, 3), "c": symbol("c", "T", "B", 3), "v": symbol("v", "B")}


PRODUCTS: dict[str, tuple[Make, dict[str, int]]] = {
    "sum over a row label": (lambda p: total(mm(p["a"], p["w"]), 0), {"contract": 1, "sum": 1}),
    "sum over a row label of a constant's product": (
        lambda p: total(mm(p["a"], constant(np.arange(12.0).reshape(4, 3))), 0),
        {"contract": 1, "sum": 1},
    ),
    "sum over a shared label": (
        lambda p: total(contract(p["a"], p["c"], (0, 1, 2), (0, 1, 3), (0, 2, 3)), 0),
        {"contract": 1, "sum": 0},
    ),
    "product of a transpose": (
        lambda p: contract(view(p["w"], 1, 0), p["a"], (0, 1), (2, 3, 1), (2, 3, 0)),
        {"contract": 1, "dimshuffle": 0},
    ),
    "product with a broadcast number": (
        lambda p: contract(full(2.0, (types.size("T"), B)), p["a"], (0, 1), (0, 1, 2), (2,)),
        {"contract": 0, "sum": 1, "mul": 1, "broadcast_to": 0},
    ),
    "outer product": (lambda p: contract(p["v"], p["w"], (0,), (1, 2), (0, 1, 2)), {"contract": 0, "mul": 1}),
    "diagonal product": (
        lambda p: contract(p["c"], p["c"], (0, 1, 2), (0, 1, 2), (1, 0, 2)),
        {"contract": 0, "mul": 1},
    ),
    "product written with broadcasts": (
        lambda p: total(view(p["a"], 0, 1, 2, None) * view(p["w"], None, None, 0, 1), 2),
        {"contract": 1, "mul": 0, "sum": 0},
    ),
    "sum of squares stays": (lambda p: total(p["a"] * p["a"], 0, 1), {"contract": 0, "mul": 1, "sum": 1}),
    "sum of sums": (lambda p: total(total(p["a"], 1), 0), {"sum": 1}),
    "sum of a transpose": (lambda p: total(view(p["a"], 2, 0, 1), 0), {"sum": 1, "dimshuffle": 0}),
    "sum of windows": (lambda p: total(placed(total(p["a"], 2), 1, 9), 0), {"sum": 1}),
    "max of a broadcast": (
        lambda p: MAX(broadcast_to(p["v"], (3, B)), axes=(0,)),
        {"max": 0, "broadcast_to": 0},
    ),
    "sum over a size of 1": (lambda p: total(view(p["v"], 0, None), 1), {"sum": 0, "dimshuffle": 0}),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_and_sums(name: str) -> None:
    make, wanted = PRODUCTS[name]
    before = make(tensors())
    new = simplified(before)
    found = count([new])
    assert {op: found[op] for op in wanted} == wanted
    for sizes in ({}, {"T": 0}, {"B": 0}, {"B": 1, "T": 1}):
        same([before], [new], values([before], sizes))


FACTORS: dict[str, Make] = {
    "a sum of products": lambda p: total(mm(p["a"], p["w"]), 0),
    "a product with what does not vary": lambda p: contract(
        broadcast_to(p["v"], (types.size("T"), B)), p["a"], (0, 1), (0, 1, 2), (1, 2)
    ),
}


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nothing_is_factored_out_that_may_be_infinite(name: str, value: float) -> None:
    """inf * (1 - 2) is not inf - 2 inf; nan times a sum over nothing is not 0."""
    before = FACTORS[name](tensors())
    for sizes in ({"T": 0}, {}):
        env = values([before], sizes)
        for node in env:
            if node.name in ("w", "v"):
                env[node] = np.full_like(env[node], value)
        same([before], [simplified(before)], env)


def test_a_product_that_is_used_whole_is_not_made_twice() -> None:
    p = tensors()
    z = mm(p["a"], p["w"])
    out = total(z, 2) + total(fn("tanh", z), 2)
    assert count([simplified(out)])["contract"] == 1


def test_an_index_out_of_bounds_is_still_one() -> None:
    a = symbol("a", 3)
    node = GATHER(a, IOTA(length=5), axis=0)
    assert simplified(node) is node


@pytest.mark.parametrize("length, step, same_place", [(2, 1, True), (2, 2, False), (1, 2, True), (3, 2, False)])
def test_a_slice_of_what_was_set_with_another_step(length: int, step: int, same_place: bool) -> None:
    """Windows with different steps are the same only where they have one element."""
    row, v = symbol("row", 7), symbol("v", length)
    node = SLICE(SET_SLICE(row, v, start=(1,), step=(1,)), start=(1,), length=(length,), step=(step,))
    new = simplified(node)
    same([node], [new], values([node]), exact=True)
    assert (new is v) == same_place


def test_slices_of_counting() -> None:
    node = SLICE(IOTA(length=9), start=(2,), length=(3,), step=(2,))
    new = simplified(node)
    same([node], [new], {}, exact=True)
    assert new.op is CONSTANT or count([new])["slice"] == 0
    np.testing.assert_array_equal(constant(1).params["data"].array, 1)


def test_the_windows_of_a_sum_are_looked_for_in_time_linear_in_its_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Node] = []
    real = algebra_shape._placed
    monkeypatch.setattr(algebra_shape, "_placed", lambda node: looked.append(node) or real(node))
    counts = []
    for terms in (40, 80):
        looked.clear()
        total = x()
        for _ in range(terms):
            total = np.tanh(total[::-1]) + total
        simplified(total)
        counts.append(len(looked))
    assert counts[1] < 3 * counts[0]
