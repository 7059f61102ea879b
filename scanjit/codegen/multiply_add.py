"""Which sums of a step are written as multiply-adds, in nests whose steps wait for each other.

The result of a multiply-add is there four cycles after the last of its operands, that of an addition after three. In `a
* h + b`, where `h` comes last, a multiply-add is faster: a product and then a sum take seven cycles. In `h + a * b`,
the product is there before `h` is, so the sum is faster. LLVM does not ask which operand comes last, and joins all that
it can.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scanjit.kinds import kind_of
from scanjit.ops.elementwise import ADD, MUL, SUB
from scanjit.schedule.nests import Apply, Nest, Register, Value, walk_values

SUM, PRODUCT, BOTH = 3, 4, 4
"""The cycles that an addition, a multiplication and a multiply-add take on processors since 2019."""
STEPS = 12
"""Which operand comes last is decided in the step with this number. In the first steps, all carries come at once."""
EACH_CYCLE = 3
"""How many operations a processor does in a cycle. If a step has more operations than fit into the cycles in which it
waits, LLVM decides: its code has the fewest operations."""


class MultiplyAdds(NamedTuple):
    """How sums are written.

    Attributes
    ----------
    places : for each sum that becomes a multiply-add, which of its operands is the product.
    apart : the products that are computed by themselves.
    """

    places: Mapping[Value, int]
    apart: frozenset[Value]


NONE = MultiplyAdds({}, frozenset())
"""LLVM decides about all sums."""


def multiply_adds(nest: Nest, copies: int) -> MultiplyAdds:
    """The multiply-adds of a nest that computes `copies` points side by side in each step."""
    values = walk_values(nest.updates)
    sums = [value for value in values if _products(value)]
    if not sums:
        return NONE
    ends: dict[Value, float] = dict.fromkeys(nest.registers, 0.0)
    places: dict[Value, int | None] = {}
    half = 0.0
    for step in range(STEPS):
        for value in values:
            if not isinstance(value, Register):
                ends[value], places[value] = _end(value, ends)
        ends.update(zip(nest.registers, [ends[update] for update in nest.updates], strict=True))
        if step == STEPS // 2 - 1:
            half = max(ends[register] for register in nest.registers)
    waits = (max(ends[register] for register in nest.registers) - half) / (STEPS - STEPS // 2)
    if copies * sum(value.cost for value in nest.values if isinstance(value, Apply)) > EACH_CYCLE * waits:
        return NONE
    apart = {value.operands[place] for value in sums if places[value] is None for place in _products(value)}
    return MultiplyAdds({value: place for value in sums if (place := places[value]) is not None}, frozenset(apart))


def _products(value: Value) -> Sequence[int]:
    """Which operands of a sum of floats are products."""
    if not isinstance(value, Apply) or value.op not in (ADD, SUB) or not kind_of(value.dtype).floating:
        return ()
    return [i for i, part in enumerate(value.args) if isinstance(part, Apply) and part.op is MUL]


def _end(value: Value, ends: Mapping[Value, float]) -> tuple[float, int | None]:
    """The cycle in which a value can be there; for a sum, also the operand that is then the product of a
    multiply-add."""
    begin = max((ends[part] for part in value.operands), default=0.0)
    if not isinstance(value, Apply):
        return begin, None
    if not kind_of(value.dtype).floating:
        return begin + value.cost, None
    if value.op not in (ADD, SUB):
        return begin + (PRODUCT if value.op is MUL else 2 * value.cost + 2), None
    found: tuple[float, int | None] = begin + SUM, None
    for place in _products(value):
        end = max(ends[part] for part in parts_of(value, place)) + BOTH
        if end < found[0] or (end == found[0] and found[1] is None):
            found = end, place
    return found


def parts_of(value: Value, place: int) -> tuple[Value, Value, Value]:
    """The factors of the product at a place of a sum, and the other operand."""
    a, b = value.operands[place].operands
    return a, b, value.operands[1 - place]
