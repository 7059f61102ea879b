"""A nest as Numba source: a function of addresses and sizes. Scalars, addresses and SIMD values only; no arrays."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from scanjit import types
from scanjit.codegen.frame import SCRATCH, Point
from scanjit.codegen.linear import LinearWriter
from scanjit.codegen.looks import looking
from scanjit.codegen.names import imports, suffix
from scanjit.schedule.nests import Buffer, JoinedLoop, Load, Nest, NestLoop, Reduce, Register, Tile, walk_values
from scanjit.show.identifiers import identifier
from scanjit.types import Dimension

SPILLED = -1
"""The row of a point inside the loop over the rows of a tile that was put into memory."""


@dataclass(frozen=True)
class Source:
    """The source of a function, and what it has to be called with: `addresses`, then `numbers` (for the functions that
    run statements: a table, threads, counters); and the functions that it calls. The last arguments are the ranges that
    this thread computes: of the tile's `split`, and of its `own` rows, if that is another loop; and, if it `looks`
    whether to end, the thread's line."""

    name: str
    text: str
    arity: int
    addresses: tuple[tuple[Buffer, Dimension], ...]
    numbers: tuple[Dimension, ...]
    calls: tuple[str, ...] = ()
    tile: Tile = field(default_factory=Tile)
    looks: bool = False


def nest_source(nest: Nest) -> Source:
    """The source of a nest. Equal nests of different programs give the same text, and so the same kernel."""
    writer = NestWriter(nest)
    writer.write_loops()
    names = [*writer.addresses.values(), *writer.numbers.values()]
    tile = writer.tile
    names += ["begin", "end"] if tile.split is not None else []
    names += ["low", "high"] if tile.own is not None and tile.own is not tile.split else []
    names += ["line"] if looking(writer.function, tile) else []
    body = writer.function.text(1)
    return replace(finished(nest.label, body, names, tuple(writer.addresses), tuple(writer.numbers)), tile=tile)


def finished(
    label: str,
    body: list[str],
    parameters: list[str],
    addresses: tuple[tuple[Buffer, Dimension], ...],
    numbers: tuple[Dimension, ...],
    calls: tuple[str, ...] = (),
) -> Source:
    """A whole source: imports, and a function named by its content."""
    head = imports(body, frozenset(calls))
    signature = f"({', '.join(parameters)}):"
    digest = hashlib.sha256("\n".join([*head, signature, *body]).encode()).hexdigest()[:12]
    name = f"{identifier(label, 'nest').rstrip('_')}_{digest}"
    lines = [*head, "", "", f"def {name}{signature}", *(body or ["    return"]), ""]
    looks = "line" in parameters
    return Source(name, "\n".join(lines), len(parameters), addresses, numbers, calls, looks=looks)


class NestWriter(LinearWriter):
    """Writes the loops of a nest, and its body at every point of the register tile."""

    stepping = False
    """Whether a loop over time is open, so that the body is a step of points whose carries are in memory."""

    def write_loops(self) -> None:
        """Write everything."""
        self.registers = {}
        if self.nest.time is not None and self.tile.strips:
            self._strips(self.nest.time)
            self.pop(1)
            return
        for loop in self.nest.space:
            if loop not in (self.lane, *self.tile.row_loops, self.columns):
                name = self.fresh("i")
                start, stop = self.bounds(loop)
                self.push(f"for {name} in range({stop if start == '0' else f'{start}, {stop}'}):", loop, name)
        if self.lane is not None:
            if self.tile.rows is not None:
                self.order_rows(self.lane, self.tile.rows)
            self._lanes(self.lane)
        else:
            if self.columns is not None:
                self._blocked(self.columns, self.tile.vectors)
            if self.tile.rows is not None:
                self._blocked(self.tile.rows, self.tile.row_block)
            self._body()
        self.pop(1)

    def _lanes(self, lane: NestLoop) -> None:
        """The loop along which lanes run: full vectors, then a masked tail; or masked throughout, where the body is a
        register tile (whose tail would double the code)."""
        width, size = self.tile.lanes * self.tile.vectors, lane.size
        known = isinstance(size, int)
        if self.tile.singles:
            self._tiles_and_singles(lane)
            return
        if lane is self.tile.own and width > 1:
            self._own_lanes(lane, width)
            return
        if width == 1 or (known and size % width == 0):
            self._lane_loop(lane, "0", self.size(size), False)
        elif known and size < width and lane is not self.tile.split:
            self._lane_loop(lane, None, "", True)
        elif any(isinstance(v, Reduce) for v in walk_values(self.nest.roots)):
            self._lane_loop(lane, "0", self.size(size), True)
        else:
            full = self.size(size // width * width)
            self._lane_loop(lane, "0", full, False)
            self._lane_loop(lane, full, self.size(size), True, 1)

    def _own_lanes(self, lane: NestLoop, width: int) -> None:
        """Lanes along the rows of this thread, which may end anywhere: full vectors, then a masked one; or masked
        throughout."""
        start, stop = self.bounds(lane)
        if any(isinstance(v, Reduce) for v in walk_values(self.nest.roots)):
            self._lane_range(lane, start, stop, True)
            return
        full = self.fresh("full")
        self.scope.add(f"{full} = {start} + ({stop} - {start})//{width}*{width}")
        self._lane_range(lane, start, full, False)
        self._lane_range(lane, full, stop, True, 1)

    def _lane_loop(self, lane: NestLoop, start: str | None, stop: str, masked: bool, most: int | None = None) -> None:
        if start is None:
            self._lane_range(lane, None, "", masked)
        else:
            self._lane_range(lane, *self.bounds(lane, start, stop), masked, most)

    def _tiles_and_singles(self, lane: NestLoop) -> None:
        """Whole tiles, then the vectors that are left one at a time; the last one masked, if it is not full."""
        tile, size = self.tile, lane.size
        assert isinstance(size, int)
        start, stop = self.bounds(lane)
        whole, width = size // tile.lanes * tile.lanes, tile.lanes * tile.vectors
        top = stop if whole == size else f"min({stop}, {whole})"
        left = self.fresh("left")
        self.scope.add(f"{left} = {start} + ({top} - {start})//{width}*{width}")
        self._lane_range(lane, start, left, False)
        self.tile = replace(tile, vectors=1)
        self._lane_range(lane, left, stop, whole != size, tile.vectors)
        self.tile = tile

    def _lane_range(self, lane: NestLoop, start: str | None, stop: str, masked: bool, most: int | None = None) -> None:
        """A loop over a range of the lanes' loop (of at most so many turns); none, if one vector is all. The loop over
        the rows of tiles is inside or, for groups of tiles, around it."""
        depth, width = len(self.scopes), self.tile.lanes * self.tile.vectors
        rows = self.tile.rows
        if rows is not None and start is not None and self.tile.group != 1:
            start, stop = self._group(start, stop, self.size(self.tile.group * width))
            self._blocked(rows, self.tile.row_block)
            rows = None
        if start is None:
            self.push(None, lane, "0")
        else:
            name = self.fresh("j")
            bounds = f"{start}, {stop}" + (f", {width}" if width > 1 else "")
            bounds = stop if start == "0" and width == 1 else bounds
            self.push(f"for {name} in range({bounds}):", lane, name, most)
        if masked:
            self.masks[-1] = [self._head(lane, v) for v in range(self.tile.vectors)]
        if rows is not None:
            self._blocked(rows, self.tile.row_block)
        self._body()
        self.pop(depth)

    def _group(self, start: str, stop: str, columns: str) -> tuple[str, str]:
        """Open a loop over groups of so many columns; the range of a group."""
        first, last = self.fresh("first"), self.fresh("last")
        self.push(f"for {first} in range({start}, {stop}, max({columns}, 1)):")  # (a range that cannot raise)
        self.scope.add(f"{last} = min({first} + {columns}, {stop})")
        return first, last

    def _head(self, lane: NestLoop, vector: int) -> str:
        """The mask of the lanes of a vector that are left."""
        mask, lanes = self.fresh("mask"), self.tile.lanes
        left = self.bounds(lane)[1] if lane is self.tile.own else self.size(lane.size)
        left += f" - {self.index[lane, 0]}" if self.index[lane, 0] != "0" else ""
        left += f" - {vector * lanes}" if vector else ""
        self.scope.add(f"{mask} = head_x{lanes}({left})")
        return mask

    def _blocked(self, loop: NestLoop, block: int) -> None:
        """The loop over blocks of rows (or columns). Those beyond the last repeat it: they store the same values
        again."""
        if self.order is not None and loop is self.tile.rows:
            self.ordered_tile(loop, block)
            return
        size, name = loop.size, self.fresh("i")
        start, stop = self.bounds(loop)
        self.push(f"for {name} in range({start}, {stop}, {block}):", loop, name)
        whole = isinstance(size, int) and size % block == 0 and loop is not self.tile.own
        last = f"{stop} - 1" if loop is self.tile.own else self.size(size - 1)
        for r in range(1, block):
            if whole:
                self.index[loop, r] = f"({name} + {r})"
            else:
                self.index[loop, r] = self.fresh("row")
                self.scope.add(f"{self.index[loop, r]} = min({name} + {r}, {last})")
        for r in range(block):
            self._part(loop, r)

    def _part(self, loop: NestLoop, row: int) -> None:
        """Where the loops stand that a row of joined loops consists of."""
        if not isinstance(loop, JoinedLoop):
            return
        left = self.index[loop, row]
        for part in reversed(loop.parts[1:]):
            size, many, at = self.size(part.size), self.fresh("many"), self.fresh("at")
            self.scope.add(f"{many} = {left}//{size}")
            self.scope.add(f"{at} = {left} - {many}*{size}")
            self.level[part], self.index[part, row], left = self.level[loop], at, many
        self.level[loop.parts[0]], self.index[loop.parts[0], row] = self.level[loop], left

    def points(self) -> list[Point]:
        """The copies of the body: the rows and vectors of the register tile."""
        width = 1 if self.lane is None else self.tile.lanes
        return [Point(r, v, width) for r in range(self.tile.row_block) for v in range(self.tile.vectors)]

    def _body(self) -> None:
        if self.stepping:
            self._step_in_memory()
            return
        if self.nest.time is not None:
            self._time(self.nest.time)
            return
        points = self.points()
        if self.tile.rows is not None and self.tile.row_block > 1 and self._has_epilogue():
            points = self._spill(self.tile.rows, points)
        for point in points:
            for store in self.nest.stores:
                self.store(store, point)

    def _has_epilogue(self) -> bool:
        """Whether more is done with the reductions than storing them (and none depends on another)."""
        values = walk_values([store.value for store in self.nest.stores])
        nested = any(
            isinstance(v, Reduce) and any(isinstance(x, Reduce) for x in walk_values([v.body])) for v in values
        )
        return not nested and any(not isinstance(store.value, Reduce) for store in self.nest.stores)

    def _spill(self, rows: NestLoop, points: list[Point]) -> list[Point]:
        """Put the register tile into memory and open a loop over its rows, so that what follows is written once: less
        code, and no work for rows that do not exist. Returns the copies of the body in that loop."""
        reductions = [v for v in walk_values(self.nest.roots) if isinstance(v, Reduce)]
        scratch, offsets, nbytes = self.address(SCRATCH, 0), {}, 0
        for point in points:
            for reduction in reductions:
                total = self.reduction(reduction, point)
                offsets[reduction, point] = nbytes
                self.scope.add(f"store({scratch}{f' + {nbytes}' if nbytes else ''}, {total})")
                nbytes += point.width * max(reduction.dtype.itemsize, 1)
        first, block, size = self.index[rows, 0], self.tile.row_block, rows.size
        whole = isinstance(size, int) and size % block == 0 and rows is not self.tile.own
        stop = self.bounds(rows)[1] if rows is self.tile.own else self.size(size)
        last = f"{first} + {block}" if whole else f"min({first} + {block}, {stop})"
        if self.order is not None:
            first, last = self.order.first, f"min({self.order.first} + {block}, {self.order.count})"
        name = self.fresh("i")
        self.push(f"for {name} in range({first}, {last}):", rows, name)
        self.index[rows, SPILLED] = name
        if self.order is not None:
            self.index[rows, SPILLED] = self.fresh("row")
            self.scope.add(f"{self.index[rows, SPILLED]} = load_i64({self.order.rows} + {name}*8)")
        self._part(rows, SPILLED)
        row = self.fresh("row")
        self.scope.add(f"{row} = {scratch} + ({name} - {first})*{nbytes // block}")
        inner = [Point(SPILLED, point.vector, point.width) for point in points if point.row == 0]
        for point in inner:
            for reduction in reductions:
                offset = offsets[reduction, Point(0, point.vector, point.width)]
                text = f"load_{suffix(reduction.dtype, point.width)}({row}{f' + {offset}' if offset else ''})"
                self.memos[-1]["reduced", reduction, point] = self.fresh("dot")
                self.scope.add(f"{self.memos[-1]['reduced', reduction, point]} = {text}")
        return inner

    # ---- time around strips -----------------------------------------------------------------------------------------

    def _strips(self, time: NestLoop) -> None:
        """Strips of points go through time, each step done for all points of a strip. Along one loop of unknown size,
        the vector that is not full goes through time alone; so do all, if fewer than two are full. Which points do so
        does not depend on threads: with carries in registers, the last bit may be another one."""
        (*outer, lane), width = self.nest.space, self.tile.lanes
        first, last = self.bounds(lane)
        if outer or isinstance(lane.size, int) or lane is self.tile.own:
            self._strips_until(time, last)
            return
        full = self.size(lane.size // width * width * types.minimum(lane.size // (2 * width), 1))
        self._strips_until(time, f"min({last}, {full})")
        self.stepping = False
        self._lane_range(lane, f"max({first}, {full})", last, True)

    def _strips_until(self, time: NestLoop, end: str) -> None:
        """Loops over strips, the last of which ends there; in them the loop over time, in that loops over points."""
        depth, ranges = len(self.scopes), {}
        for loop, strip in zip(self.nest.space, self.tile.strips, strict=True):
            first, last = self.bounds(loop)
            last = end if loop is self.lane else last
            ranges[loop] = (first, last) if strip == loop.size else self._group(first, last, self.size(strip))
        name = self.fresh("t")
        self.push(f"for {name} in range({self.size(time.size)}):", time, name)
        self._count(time, name)
        self.stepping = True
        *outer, lane = self.nest.space
        for loop in outer:
            point = self.fresh("i")
            self.push(f"for {point} in range({', '.join(ranges[loop])}):", loop, point)
        (first, last), width = ranges[lane], self.tile.lanes
        whole = lane.size % width == 0 if isinstance(lane.size, int) else not outer
        if whole and lane is not self.tile.own:
            self._lane_range(lane, first, last, False)
        else:
            full = self.fresh("full")
            self.scope.add(f"{full} = {first} + ({last} - {first})//{width}*{width}")
            self._lane_range(lane, first, full, False)
            self._lane_range(lane, full, last, True)
        self.pop(depth)

    def _step_in_memory(self) -> None:
        """A step of a vector of points: all that it reads, then all that it stores."""
        (point,) = self.points()
        for register, access in zip(self.nest.registers, self.nest.carried, strict=True):
            self.registers[register.index, 0] = self.value(Load(register.dtype, access), point)
        kept = {store.value.index: store for store in self.nest.finals if isinstance(store.value, Register)}
        made = [(store, self.value(store.value, point)) for store in self.nest.stores]
        for register, update in zip(self.nest.registers, self.nest.updates, strict=True):
            if register.index in kept:
                made.append((kept[register.index], self.value(update, point)))
        for store, text in made:
            self.write(store, text, point)

    # ---- time inside ------------------------------------------------------------------------------------------------

    def _time(self, time: NestLoop) -> None:
        """The loop over time, carrying registers; what is stored last is written after it."""
        for point in self.points():
            for register in self.nest.registers:
                text, name = self.value(register.init, point), self.fresh("c")
                self.scope.add(f"{name} = {text}")
                self.registers[register.index, point.vector] = name
        size, unroll = time.size, max(1, self.nest.unroll)
        full = self.linear_time(time)  # as many steps at a time as there are lanes
        if full is None:
            full = size // unroll * unroll
            self.time_loop(time, "0", self.size(full), unroll)
        if size != full:
            self.time_loop(time, self.size(full), self.size(size), 1, max(unroll, self.tile.lanes))
        for point in self.points():
            for store in self.nest.finals:
                assert isinstance(store.value, Register)
                self.write(store, self.registers[store.value.index, point.vector], point)

    def time_loop(self, time: NestLoop, start: str, stop: str, copies: int, most: int | None = None) -> None:
        """Write a loop over steps, several a turn; of at most so many turns."""
        depth, name = len(self.scopes), self.fresh("t")
        bounds = stop if start == "0" and copies == 1 else f"{start}, {stop}"
        self.push(f"for {name} in range({bounds}{f', {copies}' if copies > 1 else ''}):", time, name, most)
        for copy in range(copies):
            self.memos[-1] = {}
            self._count(time, f"{name} + {copy}" if copy else name)
            for point in self.points():
                self._step(point)
        self.pop(depth)

    def _count(self, time: NestLoop, step: str) -> None:
        """The row of a step: as the loop counts, or from the last one on."""
        self.index[time, 0] = f"({step})" if " " in step else step
        if self.nest.reverse:
            self.index[time, 0] = self.fresh("row")
            self.scope.add(f"{self.index[time, 0]} = {self.size(time.size - 1)} - {step.replace('+', '-')}")

    def _step(self, point: Point) -> None:
        for store in self.nest.stores:
            self.store(store, point)
        new = [self.value(value, point) for value in self.nest.updates]
        names = [self.registers[r.index, point.vector] for r in self.nest.registers]
        for i, text in enumerate(new):  # a register that another one takes over is read before it changes
            if text != names[i] and any(text == name for name in names):
                new[i] = self.fresh("old")
                self.scope.add(f"{new[i]} = {text}")
        for name, text in zip(names, new, strict=True):
            if name != text:
                self.scope.add(f"{name} = {text}")
