"""Ops of matrices that are statements of their own. LAPACK computes one matrix after the other, each in a copy of an
operand. Small ones are decomposed side by side."""

from abc import abstractmethod
from collections.abc import Iterable

import numpy as np

from scanjit import types
from scanjit.ir import Node
from scanjit.schedule.lower.lowering import ArrayRule, Lowering
from scanjit.schedule.lower.region import Item
from scanjit.schedule.nests import LARGEST, Buffer, Decomposition, LapackCall, Ref
from scanjit.signatures import DType
from scanjit.types import Dimension

WORK = 64 * 256 + 65 * 64
"""How many numbers of memory LAPACK's reflections need, for blocks of 64 columns that are applied to 256 columns at a
time."""


class LapackRule(ArrayRule):
    """The common part of the rules of these ops: copy the operands, then call a routine that works in the copies."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Make the copies, and call the routine on them."""
        call, needs = self.call(lowering, node, lowering.new_place(node))
        lowering.context.notes.append(
            f"{node.op.name} at {node.where}: LAPACK's, one matrix after the other, on one thread"
        )
        lowering.put(node, call.result, [lowering.add_statement(call, needs)])

    @abstractmethod
    def call(self, lowering: Lowering, node: Node, whole: Ref) -> tuple[LapackCall, Iterable[Item]]:
        """The call that puts the result into `whole`, and the copies that it needs."""


class DecompositionRule(LapackRule):
    """The common part of the rules of `eigh`, `qr` and `svd`: matrices of small known sizes are decomposed side by
    side."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Add the statement that fits the size."""
        (a,) = node.operands
        if not all(isinstance(size, int) and 0 < size <= LARGEST for size in a.type.shape[-2:]):
            super().lower(lowering, node)
            return
        given, needs = lowering.laid_out(a, "matrices")
        result = Ref.whole(Buffer(node.dtype, node.type.shape, "temporary", node.op.name))
        lowering.put(node, result, [lowering.add_statement(Decomposition(node.op.name, given, result), needs)])


class CholeskyRule(LapackRule):
    """The rule of `cholesky`: the matrices are copied, and factored in place."""

    def call(self, lowering: Lowering, node: Node, whole: Ref) -> tuple[LapackCall, Iterable[Item]]:
        """Factor a copy."""
        return LapackCall("cholesky", (whole,), (True,)), [lowering.copy(node.operands[0], whole)]


class LuRule(LapackRule):
    """The rule of `lu`: the matrices are copied into the first rows of the result, and factored there."""

    def call(self, lowering: Lowering, node: Node, whole: Ref) -> tuple[LapackCall, Iterable[Item]]:
        """Factor a copy; the routine needs memory for pivots."""
        (a,) = node.operands
        n = a.type.shape[-1]
        copy = lowering.copy(a, whole.window(node.ndim - 2, 0, n))
        pivots = Ref.whole(Buffer(np.dtype("int64"), (2 * n,), "temporary", "pivots"))
        return LapackCall("lu", (whole, pivots), (True, True)), [copy]


def _memory(dtype: DType, *sizes: Dimension) -> list[Ref]:
    """New vectors of these sizes, for a routine to work in."""
    return [Ref.whole(Buffer(dtype, (size,), "temporary", "work")) for size in sizes]


class EighRule(DecompositionRule):
    """The rule of `eigh`: the matrices are copied into the first rows of the result, where vectors replace them."""

    def call(self, lowering: Lowering, node: Node, whole: Ref) -> tuple[LapackCall, Iterable[Item]]:
        """Decompose a copy."""
        (a,) = node.operands
        n = a.type.shape[-1]
        copy = lowering.copy(a, whole.window(node.ndim - 2, 0, n))
        memory = [*_memory(a.dtype, 1 + 6 * n + 2 * n * n), *_memory(np.dtype("int64"), 3 + 5 * n)]
        return LapackCall("eigh", (whole, *memory), (True, True, True)), [copy]


def _columns(lowering: Lowering, a: Node) -> tuple[Ref, Item]:
    """A copy of matrices, column after column: its place, and the item that makes it."""
    m, n = a.type.shape[-2:]
    place = Ref.whole(Buffer(a.dtype, (*a.type.shape[:-2], n, m), "temporary", "columns"))
    turned = Ref(place.buffer, 0, a.type.shape, (*place.strides[:-2], 1, m))
    return place, lowering.copy(a, turned)


class QrRule(DecompositionRule):
    """The rule of `qr`: the copy is factored, then R and Q are put side by side."""

    def call(self, lowering: Lowering, node: Node, whole: Ref) -> tuple[LapackCall, Iterable[Item]]:
        """Factor a copy."""
        (a,) = node.operands
        place, copy = _columns(lowering, a)
        memory = _memory(a.dtype, WORK, types.minimum(*a.type.shape[-2:]))
        return LapackCall("qr", (whole, place, *memory), (True,) * 4), [copy]


class SvdRule(DecompositionRule):
    """The rule of `svd`: left vectors go where they belong; right ones and values are put beside them."""

    def call(self, lowering: Lowering, node: Node, whole: Ref) -> tuple[LapackCall, Iterable[Item]]:
        """Decompose a copy."""
        (a,) = node.operands
        m, n = a.type.shape[-2:]
        k = types.minimum(m, n)
        place, copy = _columns(lowering, a)
        numbers = _memory(a.dtype, 5 * k * k + 10 * k + 64 * (m + n) + 64, k, k * n)
        memory = [*numbers, *_memory(np.dtype("int64"), 8 * k)]
        return LapackCall("svd", (whole, place, *memory), (True,) * 6), [copy]


class TriangularSolveRule(LapackRule):
    """The rule of `triangular_solve`: the right sides are copied, and solved in place. The matrices are read where they
    lie, if their rows are contiguous."""

    def call(self, lowering: Lowering, node: Node, whole: Ref) -> tuple[LapackCall, Iterable[Item]]:
        """Solve in a copy."""
        a, b = node.operands
        place, needs = lowering.laid_out(a, "triangle", lambda place: place.strides[-2:] == (place.shape[-1], 1))
        needs = [*needs, lowering.copy(b, whole)]
        flags = {name: bool(node.params[name]) for name in ("lower", "trans", "unit")}
        return LapackCall("triangular_solve", (place, whole), (False, True), flags), needs
