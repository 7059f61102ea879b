"""Fourier transforms: a statement of its own reads the rows where they lie."""

from scanjit import ir
from scanjit.ir import Node
from scanjit.ops.passes import table_of, table_size
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.lowering import ArrayRule, Lowering
from scanjit.schedule.lower.region import Item
from scanjit.schedule.nests import Buffer, Fourier, Ref, RootsOfUnity


class FourierRule(ArrayRule):
    """The rule of `fourier`. Rows with gaps between their elements are copied. The powers of roots of unity are a
    constant where the length is known, else a statement of their own."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Add the statement, with memory that is as large as its result."""
        (x,) = node.operands
        given = maps.view_ref(x, lowering.locate)
        if given is not None and given.contiguous:
            given, needs = lowering.place_of(x), lowering.items_of(x)
        else:
            given = lowering.new_memory(x, x, x.type.shape, "rows")
            needs = [lowering.copy(x, given)]
        result, spare = (lowering.new_memory(node, node, node.type.shape, name) for name in ("fourier", "spare"))
        table, filled = self._table(lowering, node)
        statement = Fourier(given, result, spare, table, int(node.params["sign"]))
        lowering.put(node, result, [lowering.add_statement(statement, [*needs, *filled])])

    def _table(self, lowering: Lowering, node: Node) -> tuple[Ref, list[Item]]:
        """Where the powers of roots of unity lie, and what computes them."""
        n = node.type.shape[-2]
        if isinstance(n, int):
            powers = table_of(n, node.dtype)
            place = lowering.locate(ir.constant(powers if powers.size else powers.dtype.type([0])))
            assert place is not None
            return place, []
        place = Ref.whole(Buffer(node.dtype, (table_size(n),), "temporary", "roots"))
        return place, [lowering.add_statement(RootsOfUnity(place, n), [])]
