"""The order of rows: a statement of its own reads them where they lie."""

import numpy as np

from scanjit.ir import Node
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.lowering import ArrayRule, Lowering
from scanjit.schedule.nests import Buffer, Order, Ref


class OrderRule(ArrayRule):
    """The rule of `argsort`. Rows with gaps between their elements are copied."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Add the statement, with memory for as many words as one row needs."""
        (x,) = node.operands
        values = maps.view_ref(x, lowering.locate)
        if values is not None and values.contiguous:
            values, needs = lowering.place_of(x), lowering.items_of(x)
        else:
            values = lowering.new_place(x, "rows")
            needs = [lowering.copy(x, values)]
        order = Ref.whole(Buffer(node.dtype, node.type.shape, "temporary", "order"))
        words = 1 if x.dtype.itemsize < 8 else 3
        spare = Ref.whole(Buffer(np.dtype("int64"), (words * x.type.shape[-1],), "temporary", "spare"))
        lowering.context.notes.append(f"argsort at {node.where}: one row after the other, on one thread")
        lowering.put(node, order, [lowering.add_statement(Order(values, order, spare), needs)])
