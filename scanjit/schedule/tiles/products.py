"""Sums of products, as in convolutions and products of matrices: their operands, and the order of their terms."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from scanjit import types
from scanjit.ops.elementwise import MUL
from scanjit.ops.narrow import MUL_APART, MUL_PAIRS, MUL_QUADS
from scanjit.ops.stretch import SUM
from scanjit.records import record
from scanjit.schedule.nests import Access, Apply, Load, Nest, NestLoop, Reduce, reductions_in
from scanjit.target import Target
from scanjit.types import Dimension

PAGE = 4096
"""A processor fetches ahead what is read in one direction, within a page of so many bytes."""
MANY_TERMS = 64
"""A register tile adds so many terms in about the time that memory needs for an answer."""


def reductions_of(nest: Nest) -> list[Reduce]:
    """The reductions of a nest. A reduction inside another one comes before it."""
    return reductions_in(nest.values)


def factors(reduction: Reduce) -> tuple[Load, ...] | None:
    """The loads that a sum of products multiplies. Two operands; or three, if the first one is read as two
    (`MUL_APART`). None for any other reduction."""
    term = reduction.term
    if reduction.op is SUM and isinstance(term, Apply) and term.op in (MUL, MUL_PAIRS, MUL_APART, MUL_QUADS):
        loads = tuple(arg for arg in term.args if isinstance(arg, Load))
        return loads if len(loads) == len(term.args) else None
    return None


def far_rows(nest: Nest, rows: NestLoop) -> list[Access]:
    """What is read behind sums of many terms, row by row, where processors do not foresee the next row as it lies in
    another page of memory: what a gate adds to `h @ w`, for example. Fetched before the sums, it is there behind
    them."""
    lane, summed = nest.space[-1], {loop for reduction in reductions_of(nest) for loop in reduction.loops}
    terms = types.product(loop.size for loop in summed)
    if isinstance(terms, int) and terms < MANY_TERMS:
        return []

    def far(access: Access) -> bool:
        step = access.strides.get(rows, 0)
        apart = not isinstance(step, int) or abs(step) * access.buffer.dtype.itemsize > PAGE
        return apart and access.strides.get(lane) == 1 and summed.isdisjoint(access.strides)

    accesses = dict.fromkeys(value.access for value in nest.values if isinstance(value, Load))
    return list(filter(far, accesses))


def near_steps(reduction: Reduce) -> tuple[int, ...]:
    """The steps between loads with which lanes along a reduction are filled at once. For pairs that are taken apart, a
    step of 2 is among them: the two numbers of each pair together are consecutive."""
    term = reduction.term
    return (0, 1, 2) if isinstance(term, Apply) and term.op is MUL_APART else (0, 1)


def takes_apart(reduction: Reduce, target: Target) -> bool:
    """Whether a reduction takes the numbers of its right operand apart: those of a pair, or each two of four bytes."""
    op = reduction.term.op if isinstance(reduction.term, Apply) else None
    return op is MUL_APART or (op is MUL_QUADS and not target.multiplies_quads)


def is_of_packs(reduction: Reduce) -> bool:
    """Whether a reduction is a sum of products of packs: pairs of bfloat16, or quads of int8."""
    term = reduction.term
    return reduction.op is SUM and isinstance(term, Apply) and term.op in (MUL_PAIRS, MUL_QUADS)


@record(eq=True)
class Depth:
    """The order in which panels hold the terms of a sum: `loops`, the outermost first, each of them backwards if
    `against`. In the operand that is packed, the terms lie along axes of these `sizes`, `steps` apart."""

    loops: tuple[NestLoop, ...]
    against: tuple[bool, ...]
    sizes: tuple[Dimension, ...]
    steps: tuple[Dimension, ...]

    @property
    def size(self) -> Dimension:
        """How many terms there are."""
        return types.product(loop.size for loop in self.loops)

    def strides(self, step: Dimension) -> dict[NestLoop, Dimension]:
        """The stride of each loop in panels, where neighbours in this order lie `step` apart."""
        found: dict[NestLoop, Dimension] = {}
        for loop, against in reversed(list(zip(self.loops, self.against, strict=True))):
            found[loop] = -1 * step if against else step
            step = loop.size * step
        return found

    def start(self, step: Dimension) -> Dimension:
        """How far behind the first term in memory the term lies at which all loops are 0."""
        return sum((-1 * (loop.size - 1) * s for loop, s in self._turned(step)), start=0)

    def _turned(self, step: Dimension) -> list[tuple[NestLoop, Dimension]]:
        found = self.strides(step)
        return [(loop, found[loop]) for loop, against in zip(self.loops, self.against, strict=True) if against]


def depth_of(access: Access, loops: Sequence[NestLoop]) -> Depth:
    """The order of the terms of an access. If they lie in memory in equal steps, that is their order, along one
    axis."""
    steps = {loop: access.strides.get(loop, 0) for loop in loops}
    sizes = tuple(loop.size for loop in loops)
    plain = Depth(tuple(loops), (False,) * len(loops), sizes, tuple(steps.values()))
    if len(loops) == 1:
        return plain
    against = {loop: not types.not_negative(step) for loop, step in steps.items()}
    apart = {loop: -1 * step if against[loop] else step for loop, step in steps.items()}
    if all(isinstance(step, int) for step in apart.values()):
        loops = sorted(loops, key=lambda loop: types.as_int(apart[loop]), reverse=True)
    found = Depth(tuple(loops), tuple(against[loop] for loop in loops), (types.product(sizes),), (apart[loops[-1]],))
    return found if found.strides(*found.steps) == steps else plain


def is_packed(reduction: Reduce, lane: NestLoop) -> bool:
    """Whether the right operand of a product is packed for lanes along a loop."""
    return any(load.access.panel is lane for load in factors(reduction) or ())


class Product(NamedTuple):
    """A product of matrices whose right operand can be packed: its operands, the order of its terms, and the loops of
    the space that go from one right matrix to the next, the outermost first (those of a batch of products)."""

    left: Load
    right: Load
    depth: Depth
    batch: tuple[NestLoop, ...]


def packable(reduction: Reduce, lane: NestLoop) -> Product | None:
    """The product of matrices that a reduction is, if lanes run along the right operand and this can be packed, else
    None.

    Of matrices that overlap, as the windows of a convolution do, panels would be larger than they are. Where terms lie
    along two axes, each number is packed by itself. That pays for one matrix that all rows read, such as filters. A
    batch of such matrices is left where it is: neither way is faster for all sizes.
    """
    found = factors(reduction)
    if found is None:
        return None
    *lefts, right = sorted(found, key=lambda load: lane in load.access.strides)
    if right.access.panel is not None:
        return None
    loops = right.access.strides.keys()
    if any(lane in load.access.strides for load in lefts) or not {lane, *reduction.loops} <= loops:
        return None  # an operand with one row for all terms is no matrix
    depth = depth_of(right.access, reduction.loops)
    batch = tuple(loop for loop in loops if loop is not lane and loop not in reduction.loops)
    apart = len(depth.sizes) > 1 and not right.access.buffer.fixed
    if (batch and apart) or ((batch or apart) and may_overlap(right.access)):
        return None
    return Product(lefts[0], right, depth, batch)


FEW_STEPS = 16
"""If the steps of two loops differ by a smaller factor than this, a loop of unknown size is taken for one over the taps
of a filter; otherwise for one over the rows of a matrix. A wrong guess costs time or memory; results are the same."""


def may_overlap(access: Access) -> bool:
    """Whether an access is likely to read elements more than once, as the windows of a convolution do: all turns of one
    loop together go as far as one turn of another loop, or farther."""
    return any(
        _goes_beyond(loop.size, step, apart)
        for (loop, step), (_, apart) in itertools.permutations(access.strides.items(), 2)
    )


def _goes_beyond(size: Dimension, step: Dimension, apart: Dimension) -> bool:
    """Whether `size` turns, each `step` behind the one before, are likely to go as far as `apart`."""
    if isinstance(step, int) and isinstance(apart, int) and isinstance(size, int):
        return abs(step) <= abs(apart) <= (size - 1) * abs(step)
    times = types.exact_quotient(apart, step)
    return isinstance(times, int) and 0 < abs(times) < (size if isinstance(size, int) else FEW_STEPS)
