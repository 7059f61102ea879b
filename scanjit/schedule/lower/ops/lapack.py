"""Ops of matrices that are statements of their own. LAPACK computes one matrix after the other, each in a copy of an
operand. Small ones are decomposed side by side."""

from collections.abc import Callable, Iterable

import numpy as np

from scanjit import types
from scanjit.ir import Node
from scanjit.ops.decompositions import EIGH, SVD
from scanjit.ops.shape import SLICE
from scanjit.schedule.lower.lowering import ArrayRule, Lowering
from scanjit.schedule.lower.region import Item
from scanjit.schedule.nests import LARGEST, Buffer, Decomposition, LapackCall, Ref, most_beside
from scanjit.signatures import DType
from scanjit.types import Dimension

WORK = 64 * 256 + 65 * 64
"""How many numbers of memory LAPACK's reflections need, for blocks of 64 columns that are applied to 256 columns at a
time."""
Copied = tuple[LapackCall, Iterable[Item]]
"""The call of a routine that works in copies of its operands, and what makes these copies."""


class LapackRule(ArrayRule):
    """The rule of an op that LAPACK computes. `call` gives the call that puts the result of a node into a place. If the
    op is `small` for matrices of small known sizes, these are decomposed side by side."""

    def __init__(self, call: Callable[[Lowering, Node, Ref], Copied], small: bool = False) -> None:
        self.call, self.small = call, small

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Make the copies, and call the routine on them; or add the statement for small matrices."""
        a = node.operands[0]
        most = most_beside(a.type.shape[:-2])
        most = most if isinstance(most, int) else LARGEST
        if self.small and all(isinstance(size, int) and 0 < size <= most for size in a.type.shape[-2:]):
            given, needs = lowering.laid_out(a, "matrices")
            result = Ref.whole(Buffer(node.dtype, node.type.shape, "temporary", node.op.name))
            job = Decomposition(node.op.name, given, result, _vectors_are_read(lowering, node))
            lowering.put(node, result, [lowering.add_statement(job, needs)])
            return
        call, copies = self.call(lowering, node, lowering.new_place(node))
        note = f"{node.op.name} at {node.where}: LAPACK's, one matrix after the other, on one thread"
        beside = f"; of at most {LARGEST} rows and columns side by side in lanes, without LAPACK"
        lowering.context.notes.append(note + beside if call.sizes_beside else note)
        lowering.put(node, call.result, [lowering.add_statement(call, copies)])


def cholesky(lowering: Lowering, node: Node, whole: Ref) -> Copied:
    """The matrices are copied, and factored in place."""
    return LapackCall("cholesky", (whole,), (True,)), [lowering.copy(node.operands[0], whole)]


def lu(lowering: Lowering, node: Node, whole: Ref) -> Copied:
    """The matrices are copied into the first rows of the result, and factored there; the routine needs memory for
    pivots."""
    pivots = Ref.whole(Buffer(np.dtype("int64"), (2 * node.type.shape[-1],), "temporary", "pivots"))
    return LapackCall("lu", (whole, pivots), (True, True)), [_in_first_rows(lowering, node, whole)]


def eigh(lowering: Lowering, node: Node, whole: Ref) -> Copied:
    """The matrices are copied into the first rows of the result, where vectors replace them."""
    n = node.type.shape[-1]
    memory = [*_memory(node.dtype, 1 + 6 * n + 2 * n * n), *_memory(np.dtype("int64"), 3 + 5 * n)]
    call = LapackCall("eigh", (whole, *memory), (True, True, True), _with_vectors(lowering, node))
    return call, [_in_first_rows(lowering, node, whole)]


def qr(lowering: Lowering, node: Node, whole: Ref) -> Copied:
    """The copy is factored, then R and Q are put side by side."""
    (a,) = node.operands
    place, copy = _columns(lowering, a)
    memory = _memory(a.dtype, WORK, types.minimum(*a.type.shape[-2:]))
    return LapackCall("qr", (whole, place, *memory), (True,) * 4), [copy]


def svd(lowering: Lowering, node: Node, whole: Ref) -> Copied:
    """Left vectors go where they belong; right ones and values are put beside them."""
    (a,) = node.operands
    m, n = a.type.shape[-2:]
    k = types.minimum(m, n)
    place, copy = _columns(lowering, a)
    numbers = _memory(a.dtype, 5 * k * k + 10 * k + 64 * (m + n) + 64, k, k * n)
    memory = [*numbers, *_memory(np.dtype("int64"), 8 * k)]
    return LapackCall("svd", (whole, place, *memory), (True,) * 6, _with_vectors(lowering, node)), [copy]


def triangular_solve(lowering: Lowering, node: Node, whole: Ref) -> Copied:
    """The right sides are copied, and solved in place. The matrices are read where they lie, if their rows are
    contiguous."""
    a, b = node.operands
    place, needs = lowering.laid_out(a, "triangle", lambda place: place.strides[-2:] == (place.shape[-1], 1))
    flags = {name: bool(node.params[name]) for name in ("lower", "trans", "unit")}
    return LapackCall("triangular_solve", (place, whole), (False, True), flags), [*needs, lowering.copy(b, whole)]


def _vectors_are_read(lowering: Lowering, node: Node) -> bool:
    """Whether anything reads a vector of a decomposition. If not, all its readers are windows of the values, which lie
    behind the vectors."""
    m, n = node.operands[0].type.shape[-2:]
    if node.op not in (EIGH, SVD):
        return True
    axis, values = (-2, n) if node.op is EIGH else (-1, m + n)
    readers = [other for other in lowering.nodes if any(arg is node for arg in other.operands)]
    return node in lowering.outputs or any(
        other.op is not SLICE or other.params["start"][axis] != values or other.params["length"][axis] != 1
        for other in readers
    )


def _with_vectors(lowering: Lowering, node: Node) -> dict[str, bool]:
    """The option of a routine that tells whether it computes vectors. LAPACK computes values alone in another way, with
    other last bits. So a step always has vectors: the step of a loop and the copy of it that its gradient runs compute
    the same bits."""
    return {"vectors": not lowering.whole or _vectors_are_read(lowering, node)}


def _memory(dtype: DType, *sizes: Dimension) -> list[Ref]:
    """New vectors of these sizes, for a routine to work in."""
    return [Ref.whole(Buffer(dtype, (size,), "temporary", "work")) for size in sizes]


def _in_first_rows(lowering: Lowering, node: Node, whole: Ref) -> Item:
    """A copy of square matrices in the first rows of the result."""
    (a,) = node.operands
    return lowering.copy(a, whole.window(node.ndim - 2, 0, a.type.shape[-1]))


def _columns(lowering: Lowering, a: Node) -> tuple[Ref, Item]:
    """A copy of matrices, column after column: its place, and the item that makes it."""
    m, n = a.type.shape[-2:]
    place = Ref.whole(Buffer(a.dtype, (*a.type.shape[:-2], n, m), "temporary", "columns"))
    turned = Ref(place.buffer, 0, a.type.shape, (*place.strides[:-2], 1, m))
    return place, lowering.copy(a, turned)
