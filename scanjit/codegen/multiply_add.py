"""Which sums are written as multiply-adds.

All sums of a product are, whoever else reads the product: so the bits of a sum do not depend on what else is stored or
computed. LLVM makes no others. An exception is a product of which the other operand is computed: `a * b - b * a` is
zero, as the imaginary part of a complex number times its conjugate is.

In nests whose steps wait for each other, some are not. The result of a multiply-add is there four cycles after the last
of its operands, that of an addition after three. In `a * h + b`, where `h` comes last, a multiply-add is faster: a
product and then a sum take seven cycles. In `h + a * b`, the product is there before `h` is, so the sum is faster.
"""

import functools
import math
import operator
from collections import Counter
from collections.abc import Mapping, Sequence

from scanjit.kinds import kind_of
from scanjit.ops.elementwise import ADD, MUL, NEG, SUB
from scanjit.schedule.nests import Apply, Literal, Nest, Register, Tile, Value, walk_values

SUM, PRODUCT, BOTH = 3, 4, 4
"""The cycles that an addition, a multiplication and a multiply-add take on processors since 2019."""
STEPS = 12
"""Which operand comes last is decided in the step with this number. In the first steps, all carries come at once."""
EACH_CYCLE = 3
"""How many operations a processor does in a cycle. If a step has more operations than fit into the cycles in which it
waits, all sums of products are multiply-adds: these are the fewest operations."""


def multiply_adds(nest: Nest, tile: Tile) -> Mapping[Value, int]:
    """For each sum that is written as a multiply-add, which of its operands is the product."""
    places = _places(nest.values)
    steps = nest.time is not None and nest.lanewise is None and not tile.strips  # in strips, other points are computed
    waiting = _of_waiting(nest, places, tile.row_block * tile.vectors) if steps else {}
    return {value: found for value, (first, *_) in places.items() if (found := waiting.get(value, first)) is not None}


def _of_waiting(nest: Nest, possible: Mapping[Value, Sequence[int]], copies: int) -> Mapping[Value, int | None]:
    """The same for the sums that become carries of a nest that computes `copies` points side by side in each step; None
    for a sum that is not a multiply-add. Empty if steps have more to compute than they wait."""
    values = walk_values(nest.updates)
    ends: dict[Value, float] = dict.fromkeys(nest.registers, 0.0)
    places: dict[Value, int | None] = {}
    half = 0.0
    for step in range(STEPS):
        for value in values:
            if not isinstance(value, Register):
                ends[value], places[value] = _end(value, ends, possible.get(value, ()))
        ends.update(zip(nest.registers, [ends[update] for update in nest.updates], strict=True))
        if step == STEPS // 2 - 1:
            half = max((ends[register] for register in nest.registers), default=0.0)
    waits = (max((ends[register] for register in nest.registers), default=0.0) - half) / (STEPS - STEPS // 2)
    work = copies * sum(value.cost for value in nest.values if isinstance(value, Apply))
    return {} if work > EACH_CYCLE * waits else places


def _places(values: Sequence[Value]) -> Mapping[Value, Sequence[int]]:
    """For each sum of floats with products that may be part of a multiply-add, which of its operands they are. Their
    order is that of the sum, so that it does not depend on the rest of the nest. But if the nest has `a * b + c * d`
    and `d * c + b * a`, the first of both is the same."""
    order = {value: i for i, value in enumerate(values)}
    products = {value: factors for value in values if (factors := _factors(value, order))}
    readers = Counter(products[part] for value in values for part in value.operands if part in products)
    bits = {factors: 1 << i for i, factors in enumerate(each for each, count in readers.items() if count > 1)}
    reads: dict[Value, int] = {}
    firsts: dict[frozenset[tuple[int, ...]], tuple[int, ...]] = {}
    places: dict[Value, Sequence[int]] = {}
    for value in values:
        own = bits.get(products[value], 0) if value in products else 0
        reads[value] = functools.reduce(operator.or_, [reads[part] for part in value.operands], own)
        if isinstance(value, Apply) and value.op in (ADD, SUB):
            found = [
                (products[part], i)
                for i, part in enumerate(value.args)
                if part in products and not bits.get(products[part], 0) & reads[value.args[1 - i]]
            ]
            if found:
                first = firsts.setdefault(frozenset(factors for factors, _ in found), found[0][0])
                places[value] = [i for _, i in sorted(found, key=lambda each: each[0] != first)]
    return places


def _factors(value: Value, order: Mapping[Value, int]) -> tuple[int, ...]:
    """What stands for the factors of a rounded product of floats, whatever their order and their signs; empty for other
    values."""
    if not isinstance(value, Apply) or value.op is not MUL or not kind_of(value.dtype).floating or _is_exact(value):
        return ()
    bare = [part.args[0] if isinstance(part, Apply) and part.op is NEG else part for part in value.args]
    return tuple(sorted(order[part] for part in bare))


def _is_exact(product: Apply) -> bool:
    """Whether a product is not rounded, as a factor is a power of two: then a multiply-add has the same bits, and takes
    longer if several sums have this product."""
    numbers = [part.number for part in product.args if isinstance(part, Literal)]
    return any(abs(math.frexp(number)[0]) == 0.5 for number in numbers)


def _end(value: Value, ends: Mapping[Value, float], places: Sequence[int]) -> tuple[float, int | None]:
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
    for place in places:
        end = max(ends[part] for part in parts_of(value, place)) + BOTH
        if end < found[0] or (end == found[0] and found[1] is None):
            found = end, place
    return found


def parts_of(value: Value, place: int) -> tuple[Value, Value, Value]:
    """The factors of the product at a place of a sum, and the other operand."""
    a, b = value.operands[place].operands
    return a, b, value.operands[1 - place]
