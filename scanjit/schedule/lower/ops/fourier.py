"""Fourier transforms: a statement of its own reads the rows where they lie."""

from collections.abc import Sequence

from scanjit import ir, types
from scanjit.ir import Node
from scanjit.ops.fourier import FROM_HALF_SPECTRUM, HALF_SPECTRUM
from scanjit.ops.passes import known_length, length_of_pairs, table_of, table_size
from scanjit.rewrite.match import is_zero
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.lowering import ArrayRule, Lowering
from scanjit.schedule.lower.region import Item
from scanjit.schedule.nests import Buffer, Form, Fourier, Ref, RootsOfUnity, parts_of, work_of
from scanjit.types import Dimension


def _place_of_pairs(real: Ref | None, imaginary: Ref | None) -> Ref | None:
    """The place of pairs, if the real and imaginary parts at these two places lie beside each other; else None."""
    if real is None or imaginary is None or real.buffer is not imaginary.buffer:
        return None
    if real.strides != imaginary.strides or real.offset + 1 != imaginary.offset:
        return None
    return Ref(real.buffer, real.offset, (*real.shape, 2), (*real.strides, 1))


class FourierRule(ArrayRule):
    """The rule of `fourier`, and of half spectra. Operands that do not lie as the statement reads them are copied. The
    powers of roots of unity are a constant where the length is known, else a statement of their own."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Add the statement, with memory that is as large as its result."""
        x = node.operands[0]
        forms: tuple[Form, Form] = ("pairs", "pairs")
        if node.op is FROM_HALF_SPECTRUM:
            forms = "half", "reals"
        elif node.op is HALF_SPECTRUM:
            forms = "reals", "half"
        elif is_zero(node.operands[1]):
            forms = "reals", "pairs"
        real = "reals" in forms
        given, needs = self._operand_place(lowering, node.operands[:1] if forms[0] == "reals" else node.operands)
        *rows, n = x.type.shape
        n = node.params.get("length", n)
        result = lowering.new_memory(node, node, node.type.shape, node.op.name)
        count = types.product(rows)
        work = work_of(count, n, real)
        spare = lowering.new_memory(node, node, (parts_of(count, n, real), work, 2), "spare")
        table, filled = self._table(lowering, node, n, real)
        sign = int(node.params.get("sign", 1 if node.op is FROM_HALF_SPECTRUM else -1))
        statement = Fourier(given, result, spare, table, sign, n, *forms)
        lowering.put(node, result, [lowering.add_statement(statement, [*needs, *filled])])

    def _operand_place(self, lowering: Lowering, operands: Sequence[Node]) -> tuple[Ref, list[Item]]:
        """Where the operands lie: rows of floats, or of pairs, without gaps; and what computes them."""
        x, *imaginary = operands
        if not imaginary:
            return lowering.laid_out(x, "rows")
        place = _place_of_pairs(*(maps.view_ref(operand, lowering.locate) for operand in operands))
        if place is not None and place.contiguous:
            for operand in operands:
                lowering.place_of(operand)
            return place, [item for operand in operands for item in lowering.items_of(operand)]
        place = lowering.new_memory(x, x, (*x.type.shape, 2), "rows")
        parts = [Ref(place.buffer, i, x.type.shape, place.strides[:-1]) for i in (0, 1)]
        return place, [lowering.copy(operand, part) for operand, part in zip(operands, parts, strict=True)]

    def _table(self, lowering: Lowering, node: Node, n: Dimension, real: bool) -> tuple[Ref, list[Item]]:
        """Where the powers of roots of unity lie, and what computes them."""
        known = known_length(n, real)
        if known is not None:
            powers = table_of(length_of_pairs(known) if real else known, node.dtype, real and known % 2 == 0)
            place = lowering.locate(ir.constant(powers if powers.size else powers.dtype.type([0])))
            assert place is not None
            return place, []
        first, key = lowering.context.first, (RootsOfUnity, node.dtype, n, real)
        if key in first:
            return first[key][0], []
        place = Ref.whole(Buffer(node.dtype, (table_size(n),), "temporary", "roots"))
        statement = RootsOfUnity(place, n, real)
        if any(atom.kind in ("value", "counter") for atom in types.atoms(n)):
            return place, [lowering.add_statement(statement, [])]
        first[key] = place, statement
        return place, []
