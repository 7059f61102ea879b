"""Products of many terms, such as the gradient of a layer's weights over a large batch: they are summed a stretch of
terms at a time, so that what a stretch reads of both operands stays in the cache. The order of the terms is the
same."""

from functools import partial

from scanjit import types
from scanjit.records import replace as changed
from scanjit.schedule.nests import Nest, Pack, Program, Reduce, Statement
from scanjit.schedule.tiles.apply import in_variants
from scanjit.schedule.tiles.choose import choose_tile
from scanjit.schedule.tiles.lanes import lanes_last
from scanjit.schedule.tiles.merge import merge_loops
from scanjit.schedule.tiles.pack import pack_operands, pays
from scanjit.schedule.tiles.products import Product, factors, is_packed, reductions_of
from scanjit.schedule.time import sums
from scanjit.schedule.time.parts import StretchStatements, loop
from scanjit.schedule.time.stretch import Stretch
from scanjit.schedule.time.sums import SumLoops
from scanjit.target import Target
from scanjit.types import Dimension

LEAST = 256
"""A stretch has at least this many terms: results are read and written once for all of them."""
LEAST_PACKED = 2048
"""The least number of terms if the right operands lie in panels. Each panel is read for many rows before the next
one."""


def cut_long_sums(program: Program) -> Program:
    """The program with long sums of products computed a stretch of terms at a time. If the best loop for lanes depends
    on a size, a nest gets one variant for each loop."""
    notes, suite = list[str](), list[Statement]()
    cut = partial(_cut, target=program.target, notes=notes)
    for statement in program.suite:
        suite += in_variants(statement, program.target, notes, cut) if isinstance(statement, Nest) else [statement]
    return program.with_suite(suite, notes)


def _cut(nest: Nest, target: Target, notes: list[str]) -> list[Statement]:
    """The statements of a nest with long sums: packs of whole right operands, and the loop over stretches. Another nest
    stays as it is."""
    packs, found = list[Pack](), _long_sums(nest, target)
    if found is not None and any(access.buffer.fixed for access, _ in nest.accesses):
        packs, nest = _packed(nest, target)
        found = _long_sums(nest, target)
    if found is None:
        return [*packs, nest]
    first, rows, total = types.counter("first"), types.counter("rows"), next(iter(found.values())).size
    steps = _terms(nest, target.near_bytes) // types.maximum(sums.depth(found) or 0, 1)
    size = types.minimum(types.maximum(steps, 1), total)
    notes.append(f"nest {nest.label}: sums over {total} are made in blocks of {size}, each read while it is near")
    part = StretchStatements.sums(nest, found, Stretch(first, first, rows, {}, rows))
    return [*packs, *loop([part], (first, rows), total, size)]


def _long_sums(nest: Nest, target: Target) -> SumLoops | None:
    """The products that a nest consists of, each with the loop to be cut. None if the nest does anything else, or if a
    product certainly has few terms."""
    if nest.time is not None or nest.sequential:
        return None
    found: SumLoops = {}
    for value in nest.values:
        if isinstance(value, Reduce):
            if not sums.is_float_sum(value) or factors(value) is None:
                return None
            found[value] = next((loop for loop in value.loops if loop.size != 1), value.loops[0])
    plain = all(store.value in found and not store.indices and not store.add for store in nest.stores)
    if not found or not plain or nest.finals or len({loop.size for loop in found.values()}) > 1:
        return None
    many = [types.product(loop.size for loop in value.loops) for value in found]
    if any(isinstance(terms, int) and terms < 2 * _least(nest) for terms in many):
        return None
    chosen = sums.tile_of_stretch(nest, found, target)
    return found if chosen.rows is not None and not chosen.horizontal else None


def _packed(nest: Nest, target: Target) -> tuple[list[Pack], Nest]:
    """Packs of whole right operands (not stretch by stretch), and the nest that reads these. Only operands that are the
    same in all calls are packed, as this is done once."""
    shaped = lanes_last(merge_loops(nest), target)
    shaped = changed(shaped, tile=choose_tile(shaped, target, True))
    lane = shaped.space[-1]
    right = [load for value in reductions_of(shaped) for load in factors(value) or ()]
    if not any(lane in load.access.strides and load.access.buffer.fixed for load in right):
        return [], nest
    packs: list[Pack] = []

    def place(pack: Pack, product: Product) -> Pack | None:
        if not pays(shaped, product, True, target, product.depth.size):
            return None
        packs.append(pack)
        return pack

    return packs, changed(pack_operands(shaped, place), tile=None, lane=lane)


def _terms(nest: Nest, near_bytes: int) -> Dimension:
    """How many terms a stretch has: as many as read about `near_bytes` of an operand."""
    widest = types.maximum(nest.space[-1].size, types.product(loop.size for loop in nest.space[:-1]))
    itemsize = nest.stores[0].value.dtype.itemsize
    return types.maximum(near_bytes // types.maximum(widest * itemsize, 1), _least(nest))


def _least(nest: Nest) -> int:
    packed = bool(nest.space) and all(is_packed(value, nest.space[-1]) for value in reductions_of(nest))
    return LEAST_PACKED if packed else LEAST
