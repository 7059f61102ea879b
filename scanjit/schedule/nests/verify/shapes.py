"""Rules about the fields of statements: that they fit each other."""

from collections.abc import Iterator

import numpy as np

from scanjit import types
from scanjit.schedule.nests.branches import Beside, If
from scanjit.schedule.nests.nest import Nest, rereads
from scanjit.schedule.nests.pack import Pack
from scanjit.schedule.nests.program import Program
from scanjit.schedule.nests.statement import Statement, every_in, with_outer
from scanjit.schedule.nests.steps import Blocks, RowsApart, TimeLoop
from scanjit.schedule.nests.tile import Tile
from scanjit.schedule.nests.values import Reduce
from scanjit.schedule.nests.verify.problem import Problem


def fields_fit(program: Program) -> Iterator[Problem]:
    """Counters are sizes of their own; a loop stops early only if it counts its steps; registers have updates; panels
    have room for what is packed."""
    for statement in every_in(program.suite):
        own = statement.counters[:2] if isinstance(statement, TimeLoop | Blocks) else ()
        checks = {"a counter is no size of its own": all(types.as_atom(dim) is not None for dim in own)}
        if isinstance(statement, TimeLoop):
            flags = [ref.buffer.dtype for ref in (statement.stop, statement.count) if ref is not None]
            checks["it stops early and does not count its steps, or the reverse"] = len(flags) in (0, 2)
            checks["a flag is no int64"] = all(dtype == np.dtype("int64") for dtype in flags)
        elif isinstance(statement, If):
            checks["the condition is no int64"] = statement.condition.buffer.dtype == np.dtype("int64")
        elif isinstance(statement, Beside):
            sizes = {len(part) for part in (statement.branches, statement.first, statement.many, statement.place)}
            checks["not every branch has threads"] = len(sizes) == 1
            if (wave := statement.wave) is not None:
                same = [
                    isinstance(b, Blocks)
                    and b.total == wave.total
                    and b.turn is not None
                    and b.turn.number == wave.number
                    for b in statement.branches
                ]
                checks["not every branch runs blocks of the same steps"] = all(same)
                checks["not every branch has a delay"] = len(wave.delays) == len(statement.branches)
        elif isinstance(statement, Pack):
            checks |= _pack_checks(statement)
        elif isinstance(statement, Nest):
            checks |= _nest_checks(statement)
        yield from _broken(statement, checks)


def _broken(statement: Statement, checks: dict[str, bool]) -> Iterator[Problem]:
    yield from ((statement, text) for text, holds in checks.items() if not holds)


def _pack_checks(pack: Pack) -> dict[str, bool]:
    *batch, blocks, depth, groups, width = pack.target.shape
    terms = [types.product(ref.shape[len(batch) : -1]) for ref in pack.sources]
    few = [n - room - 1 for ref in pack.sources for n, room in zip(ref.shape, batch, strict=False)]
    return {
        "a size of its panels is negative": not any(types.not_negative(-1 - size) for size in pack.target.shape),
        "its panels have no room for all matrices": not any(map(types.not_negative, few)),
        "its panels have another width": width == pack.width,
        "its panels are of another number of operands": groups == len(pack.sources),
        "its panels have no room for all terms": not any(types.not_negative(n - depth - 1) for n in terms),
        "its panels have no room for all columns": not any(
            types.not_negative(ref.shape[-1] - blocks * width - 1) for ref in pack.sources
        ),
    }


def _nest_checks(nest: Nest) -> dict[str, bool]:
    in_order = nest.sequential or all(store.apart or not store.indices for store in nest.stores)
    over_time = (*nest.registers, *nest.updates, *nest.finals, *nest.carried)
    return {
        "it has registers, but no time": nest.time is not None or not over_time,
        "not every register has an update": len(nest.registers) == len(nest.updates),
        "time is one of its other loops too": nest.time not in nest.space,
        "a loop comes twice": len(set(nest.space)) == len(nest.space),
        "lanes are to run along a loop that is not its": nest.lane in (None, nest.time, *nest.space),
        "computed places are written out of order": in_order,
        "a final store is of no register": all(store.value in nest.registers for store in nest.finals),
    }


def tiles_fit(program: Program) -> Iterator[Problem]:
    """A tile names loops of its own nest. Its numbers are positive. Fields that need each other are both set."""
    for statement, outer in with_outer(program.suite):
        if isinstance(statement, Nest) and statement.tile is not None:
            kept = any(isinstance(around, RowsApart) for around in outer)
            yield from _broken(statement, _tile_checks(statement, statement.tile, kept))
        if isinstance(statement, RowsApart):
            yield from _broken(statement, _own_checks(statement))


def _tile_checks(nest: Nest, tile: Tile, kept: bool) -> dict[str, bool]:
    numbers = (tile.lanes, tile.vectors, tile.row_block, tile.unit)
    lane = nest.space[-1] if nest.space else None
    reduces = any(isinstance(value, Reduce) for value in nest.values)
    shared = (*nest.space, tile.rows)
    return {
        "a number of its tile is not positive": all(number >= 1 for number in numbers),
        "a vector has no power of two of lanes": tile.lanes & (tile.lanes - 1) == 0,
        "rows of its tile are of a loop that is not its": all(loop in nest.space for loop in tile.row_loops),
        "lanes run along its rows": tile.horizontal or lane not in tile.row_loops,
        "it has a block of rows, but no rows": tile.rows is not None or tile.row_block == 1,
        "points may be computed twice, and read what they change": (tile.rows is None and tile.left < 2)
        or not rereads(nest.stores),
        "it has groups of tiles, but no rows": tile.rows is not None or tile.group == 1,
        "lanes run along reductions, and there are none": not tile.horizontal or reduces or nest.lanewise is not None,
        "lanes run along reductions, and panels are wider than a number": not tile.horizontal
        or all(access.panel is None or access.buffer.shape[-1] == 1 for access, _ in nest.accesses),
        "threads share a loop that is not its": tile.split is None or tile.split in shared,
        "a share of rows is no multiple of a tile": tile.split is not tile.rows
        or tile.split is None
        or tile.unit % tile.row_block == 0,
        "a share of columns is no multiple of a vector": tile.split is not lane
        or tile.split is None
        or tile.horizontal
        or tile.unit % tile.lanes == 0,
        "own rows are of a loop that is not its": tile.own is None or tile.own in shared,
        "it has own rows where threads keep no rows": tile.own is None or tile.rest or kept,
        "it has no own rows where threads keep rows": tile.own is not None or not kept,
        "what is left over is shared by no rows": not tile.rest
        or (tile.split is not None and tile.rows is not None and tile.own is tile.rows is not tile.split),
        "it has strips, but no time and no sums": not tile.strips or nest.time is not None or reduces,
        "strips are of another number of loops": not tile.strips or len(tile.strips) == len(nest.space),
        "registers in strips lie nowhere": not tile.strips or len(nest.carried) == len(nest.registers),
    }


def _own_checks(apart: RowsApart) -> dict[str, bool]:
    loops = [statement for statement in apart.suite if isinstance(statement, TimeLoop)]
    parts = [*apart.suite, *(inner for loop in loops for inner in loop.suite)]
    tiles = [part.tile for part in parts if isinstance(part, Nest) and part.tile is not None]
    return {
        "threads keep rows of something that is no nest": len(tiles) + len(loops) == len(parts),
        "threads keep rows through more or less than one loop": len(loops) == 1,
        "rows that threads keep are not the rows of a nest": all(
            types.exact_quotient(tile.own.size, apart.own_rows.size * tile.each) is not None
            for tile in tiles
            if tile.own is not None
        ),
    }
