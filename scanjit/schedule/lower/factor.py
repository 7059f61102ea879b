"""Ops that LAPACK computes: where their operands and results lie. Each is computed in a copy of an operand."""

from __future__ import annotations

import numpy as np

from scanjit.ir import Node
from scanjit.ops.factor import CHOLESKY, LU, TRIANGULAR_SOLVE
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.region import Item, Region, Single
from scanjit.schedule.nests import Buffer, LapackCall, Ref


def cholesky(region: Region, node: Node) -> None:
    """Copy the matrices, and factor the copies."""
    (a,) = node.operands
    whole = region.copy(a, region.new_buffer(node))
    _called(region, node, LapackCall("cholesky", [whole], (True,)), whole, [region.items[-1]])


def lu(region: Region, node: Node) -> None:
    """Copy the matrices into the first rows of the result, and factor them there."""
    (a,) = node.operands
    n = a.type.shape[-1]
    whole = region.new_buffer(node)
    region.copy(a, whole.window(node.ndim - 2, 0, n))
    pivots = Buffer(np.dtype("int64"), (2 * n,), "temporary", "pivots")
    region.buffers.add(pivots)
    _called(region, node, LapackCall("lu", [whole, Ref.whole(pivots)], (True, True)), whole, [region.items[-1]])


def triangular_solve(region: Region, node: Node) -> None:
    """Copy the right sides, and solve in place. The matrices are read where they lie, if their rows are contiguous."""
    a, b = node.operands
    place = maps.view_ref(a, region.locate)
    if place is not None and place.strides[-1] == 1 and place.strides[-2] == place.shape[-1]:
        place, needs = region.place_of(a), region.items_of(a)
    else:
        place, needs = region.copy(a, region.new_buffer(a, "triangle")), region.items[-1:]
    whole = region.copy(b, region.new_buffer(node))
    flags = {name: bool(node.params[name]) for name in ("lower", "trans", "unit")}
    call = LapackCall("triangular_solve", [place, whole], (False, True), flags)
    _called(region, node, call, whole, [*needs, region.items[-1]])


def _called(region: Region, node: Node, call: LapackCall, place: Ref, needs: list[Item]) -> None:
    region.context.notes.append(f"{node.op.name} at {node.where}: LAPACK's, one matrix after the other, on one thread")
    item = Single(call, dict.fromkeys(needs, False))
    region.items.append(item)
    region.places[node] = place
    region.makers[node] = [item]


HANDLERS = {CHOLESKY: cholesky, LU: lu, TRIANGULAR_SOLVE: triangular_solve}
