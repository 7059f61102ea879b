"""Nests that do the same several times with other buffers, such as a copy into each part of a vector, or an update of
each weight.

Such a nest is one job, which threads share as one. But its function is written and compiled for one of the parts, and
called for each part.
"""

from collections.abc import Iterable, Mapping, Sequence

from scanjit.codegen.neighbours import in_pairs, loaded_in_pairs
from scanjit.ops.elementwise import ADD, MUL, SUB
from scanjit.records import replace
from scanjit.schedule.nests import (
    Access,
    Apply,
    Buffer,
    Literal,
    Load,
    Nest,
    Position,
    Store,
    Value,
    reductions_in,
    walk_values,
)
from scanjit.walks import fold

_QUICK = (ADD, SUB, MUL)


def parts(nest: Nest) -> list[Nest]:
    """Nests that together do what a nest does, one after the other. Stores that use a common value stay in one nest,
    unless the value is the same at all points or says where a point is. So do those that store or load neighbours,
    which fill vectors together. The result is the nest itself if its parts depend on each other, or would compute much
    twice."""
    if len(nest.stores) < 2 or not _separable(nest):
        return [nest]
    groups: dict[int, list[Store]] = {}
    group_of: dict[Value | Access, int] = {}
    pairs = loaded_in_pairs(nest)
    moves: dict[Value, bool] = {}
    places: dict[Value, bool] = {}
    for number, stores in enumerate(in_pairs(nest.stores)):
        stored = [store.value for store in stores]
        for value in stored:
            for judge, found in ((_moves, moves), (_says_where, places)):
                fold(value, lambda value: value.operands, judge, found)
        values = [value for value in walk_values(stored) if moves[value] and not places[value]]
        loads = (pairs.get(value.access.where()) for value in values if isinstance(value, Load))
        used: list[Value | Access] = [*values, *(pair.first for pair in loads if pair is not None)]
        others = {group_of[each] for each in used if each in group_of}
        groups[number] = [*(store for other in sorted(others) for store in groups.pop(other)), *stores]
        group_of |= {each: number for each, group in group_of.items() if group in others} if others else {}
        group_of |= dict.fromkeys(used, number)
    if len(groups) == 1 or not _independent(list(groups.values())) or _repeats(nest, groups.values(), places):
        return [nest]
    return [_part(nest, stores) for stores in groups.values()]


def _part(nest: Nest, stores: Sequence[Store]) -> Nest:
    """The nest with some of its stores. Strips of columns are for sums."""
    part = replace(nest, stores=tuple(stores))
    assert part.tile is not None
    return part if reductions_in(part.values) else replace(part, tile=replace(part.tile, strips=()))


def _separable(nest: Nest) -> bool:
    """Whether a nest computes each point by itself, and writes only to its own elements."""
    plain = all(not store.indices and not store.add for store in nest.stores)
    inside = nest.time is None and not nest.sequential and nest.tile is not None and nest.tile.rows is None
    return plain and inside and nest.repeatable


def _moves(value: Value, operands: Sequence[bool]) -> bool:
    """Whether a value differs from point to point."""
    return bool(value.own_loops) or any(operands)


def _says_where(value: Value, operands: Sequence[bool]) -> bool:
    """Whether a value is computed from counters and numbers alone, which takes next to no time."""
    return isinstance(value, Literal | Position) or (isinstance(value, Apply) and value.op in _QUICK and all(operands))


def _repeats(nest: Nest, groups: Iterable[Sequence[Store]], places: Mapping[Value, bool]) -> bool:
    """Whether the parts have more than twice as many values as the nest, apart from those that say where a point is. So
    it is for the entries of a matrix's inverse, which all need the same elimination."""

    def count(stores: Sequence[Store]) -> int:
        return sum(not places[value] for value in walk_values([store.value for store in stores]))

    left = 2 * count(nest.stores)
    for stores in groups:
        left -= count(stores)
        if left < 0:
            return True
    return False


def _independent(groups: Sequence[Sequence[Store]]) -> bool:
    """Whether no group reads a buffer that another one writes."""
    readers: dict[Buffer, set[int]] = {}
    for number, stores in enumerate(groups):
        for value in walk_values([store.value for store in stores]):
            for access in value.accesses:
                readers.setdefault(access.buffer, set()).add(number)
    return all(
        readers.get(store.access.buffer, {number}) <= {number}
        for number, stores in enumerate(groups)
        for store in stores
    )
