"""Rows that statements of their own read where they lie: to sort them, and to find the places of what is true."""

import numpy as np

from scanjit import types
from scanjit.ir import Node
from scanjit.ops.shape import SLICE
from scanjit.schedule.lower.lowering import ArrayRule, Lowering
from scanjit.schedule.nests import (
    ALONG,
    MOST_PACKED,
    SORTED,
    TOGETHER,
    Buffer,
    Order,
    Ref,
    WhereTrue,
    bands_of,
    row_major,
)
from scanjit.types import Dimension


def _flips_rows(node: Node) -> bool:
    """Whether a node is its operand with the elements of the last axis in the opposite order."""
    if node.op is not SLICE:
        return False
    *shape, n = node.operands[0].type.shape
    last = (*(0 for _ in shape), n - 1)
    return node.type.shape == (*shape, n) and node.params["start"] == last and node.params["step"][-1] == -1


class OrderRule(ArrayRule):
    """The rule of the ops that sort rows, or some of their entries; these alone, or the `whole` row. Rows are copied if
    there are gaps between their elements, unless the first elements of all rows are neighbours, then the second
    elements, and so on."""

    def __init__(self, finds_places: bool, whole: bool = False) -> None:
        self.finds_places, self.whole = finds_places, whole

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Add the statement, with memory for sorting one long row in each band."""
        x = node.operands[0]
        shape = x.type.shape
        *batch, n = shape
        flipped = _flips_rows(x)
        if flipped:
            (x,) = x.operands
        crossed = (*row_major(tuple(batch)), types.product(batch))
        values, needs = lowering.laid_out(x, "rows", lambda place: place.contiguous or place.strides == crossed)
        apart, ranks = values.contiguous, None
        if len(node.operands) > 1:
            ranks, more = lowering.laid_out(node.operands[1], "ranks")
            needs = [*needs, *more]
        found = node.type.shape
        if apart:
            result = Ref.whole(Buffer(node.dtype, found, "temporary", node.op.name))
        else:
            result = Ref(Buffer(node.dtype, (found[-1], *batch), "temporary", node.op.name), 0, found, crossed)
        room = self._spare(x, n, ALONG if ranks is None else SORTED)
        if ranks is not None and room != 0:
            room += ranks.shape[-1]
        if not apart:
            room += types.minimum(types.product(batch), TOGETHER) * n
        spare = Ref.whole(Buffer(np.dtype("int64"), (room * bands_of(shape),), "temporary", "spare"))
        order = Order(values, result, spare, self.finds_places, apart, ranks, flipped, self.whole)
        lowering.put(node, result, [lowering.add_statement(order, needs)])

    def _spare(self, x: Node, n: Dimension, along: int) -> Dimension:
        """How many numbers of 64 bits the sorting of one row works in, if it has more than `along` elements."""
        if isinstance(n, int) and n <= along:
            return 0
        if not self.finds_places:
            return 2 * n if x.dtype.itemsize == 8 else n
        if x.dtype.itemsize == 8:
            return 4 * n
        return 2 * n * types.minimum(1 + n // MOST_PACKED, 2)


class WhereTrueRule(ArrayRule):
    """The rule of `where_true`."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Add the statement."""
        truths, needs = lowering.laid_out(node.operands[0], "truths")
        result = lowering.new_place(node)
        lowering.put(node, result, [lowering.add_statement(WhereTrue(truths, result), needs)])
