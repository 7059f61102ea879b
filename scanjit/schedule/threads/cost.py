"""What statements cost: operations and bytes, for the sizes of a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from scanjit import types
from scanjit.ops import Elementwise
from scanjit.schedule.nests import (
    Access,
    Apply,
    Beside,
    Blocks,
    Buffer,
    LapackCall,
    Leaf,
    Nest,
    NestLoop,
    Pack,
    Reduce,
    Statement,
    TimeLoop,
    walk_values,
)
from scanjit.types import Atom, Dimension


class Cost(NamedTuple):
    """All runs of a statement: how many, the operations of each, the bytes that each touches, and into how many pieces
    it can be divided among threads. In a step whose threads may keep their rows also the loop, and how many of the
    bytes are the same for all rows."""

    statement: Leaf
    runs: int
    operations: float
    nbytes: float
    pieces: int
    loop: TimeLoop | None = None
    fixed: float = 0.0


def costs(body: Sequence[Statement], sizes: Mapping[Atom, int]) -> list[Cost]:
    """The cost of every statement in these that is no loop, in order. A loop that may end early counts with all of its
    steps; the last block of time as a whole one."""
    return list(_costs(body, dict(sizes), 1))


def _costs(body: Sequence[Statement], sizes: dict[Atom, int], runs: int) -> Iterator[Cost]:
    for statement in body:
        if isinstance(statement, TimeLoop):
            counters = _at(statement.step, 0) | _at(statement.row, 0) | _at(statement.ran, 0)
            times = types.evaluate(statement.length, sizes)
            found = _costs(statement.body, sizes | counters, runs * times)
            if statement.rows is None:
                yield from found
            else:
                for cost in found:
                    fixed = touched(cost.statement, sizes | counters, fixed=True) or 0.0
                    yield cost._replace(loop=statement, fixed=fixed)
        elif isinstance(statement, Blocks):
            yield from _block(statement, sizes, runs)
        elif isinstance(statement, Beside):
            yield from _costs(statement.branches, sizes, runs)
        else:
            work, nbytes = operations(statement, sizes) or 0.0, touched(statement, sizes) or 0.0
            yield Cost(statement, runs, work, nbytes, _pieces(statement, sizes))


def _block(blocks: Blocks, sizes: dict[Atom, int], runs: int) -> Iterator[Cost]:
    """What a block costs, of which some (the first, the last) may leave out statements."""
    total, size = types.evaluate(blocks.total, sizes), types.evaluate(blocks.size, sizes)
    count = -(-total // size)
    some = [
        _costs(blocks.body, sizes | _at(blocks.first, number * size) | _at(blocks.rows, min(total, size)), runs * count)
        for number in sorted({0, max(count - 2, 0), max(count - 1, 0)})
    ]
    for costs in zip(*some, strict=True):
        yield max(costs, key=lambda cost: (cost.operations * cost.runs, cost.nbytes * cost.runs))


def _pieces(statement: Leaf, sizes: Mapping[Atom, int]) -> int:
    if isinstance(statement, LapackCall):
        return 1
    if isinstance(statement, Pack):
        size, unit = statement.sources[0].shape[-1], statement.width
    elif statement.tile is None or statement.tile.split is None:
        return 1
    else:
        size, unit, tile = statement.tile.split.size, statement.tile.unit, statement.tile
        if tile.rest and tile.rows is not None:
            return -(-size // unit) * max(1, -(-types.evaluate(tile.rows.size, sizes) // tile.row_block))
    return max(1, -(-types.evaluate(size, sizes) // unit))


def _at(dim: Dimension, value: int) -> dict[Atom, int]:
    atom = types.as_atom(dim)
    return {} if atom is None else {atom: value}


def operations(statement: Leaf, sizes: Mapping[Atom, int]) -> float | None:
    """About how many operations a run takes (a multiply-add counts as two); None where that depends on sizes that are
    not given."""
    try:
        if isinstance(statement, Pack):
            return float(types.evaluate(types.product(statement.target.shape), sizes))
        if isinstance(statement, LapackCall):  # every entry of the result is a sum of about so many products
            *_, rows, columns = statement.refs[0].shape
            return float(types.evaluate(types.product(statement.result.shape) * types.minimum(rows, columns), sizes))
        each = 1.0
        inside: set[object] = set()
        for value in walk_values(statement.roots):
            if isinstance(value, Reduce):
                steps = types.evaluate(types.product(loop.size for loop in value.loops), sizes)
                parts = [v for v in walk_values([value.body]) if isinstance(v, Apply) and v not in inside]
                inside.update(parts)
                each += steps * (1 + sum(_cost(v) for v in parts))
        each += sum(_cost(v) for v in walk_values(statement.roots) if isinstance(v, Apply) and v not in inside)
        return types.evaluate(types.product(_points(statement)), sizes) * each
    except KeyError:
        return None


def _points(nest: Nest) -> list[Dimension]:
    return [loop.size for loop in nest.space] + ([nest.time.size] if nest.time else [])


def _cost(value: Apply) -> int:
    return value.op.cost if isinstance(value.op, Elementwise) else 1


def touched(statement: Leaf, sizes: Mapping[Atom, int], fixed: bool = False) -> float | None:
    """How many different bytes a run reads and writes; None where that depends on sizes that are not given. With
    `fixed`, only those that are not of one row."""
    try:
        if isinstance(statement, Pack):
            return 2.0 * types.evaluate(statement.target.nbytes, sizes)
        if isinstance(statement, LapackCall):
            sized = [types.product(ref.shape) * ref.buffer.dtype.itemsize for ref in statement.refs]
            return float(sum(types.evaluate(nbytes, sizes) for nbytes in sized))
        areas: dict[tuple[Buffer, Dimension], float] = {}
        own = statement.tile.own if statement.tile is not None else None
        for access, _ in statement.accesses():
            if fixed and access.strides.get(own, 0) != 0:  # type: ignore[arg-type]
                continue
            key = access.buffer, access.offset
            areas[key] = max(areas.get(key, 0.0), _area(access, sizes))
        totals: dict[Buffer, float] = {}
        for (buffer, _), area in areas.items():
            totals[buffer] = totals.get(buffer, 0.0) + area
        return sum(min(total, types.evaluate(buffer.nbytes, sizes)) for buffer, total in totals.items())
    except KeyError:
        return None


def _area(access: Access, sizes: Mapping[Atom, int]) -> float:
    loops: list[NestLoop] = [loop for loop, stride in access.strides.items() if stride != 0]
    return access.buffer.dtype.itemsize * float(types.evaluate(types.product(loop.size for loop in loops), sizes))
