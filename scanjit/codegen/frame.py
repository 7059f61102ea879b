"""The frame of a nest's source: its scopes, the variables that are known in each, and its names and parameters.

A value is written in the outermost scope in which everything that it depends on is known. So nothing is computed or
loaded in a loop that it does not depend on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple

from scanjit import types
from scanjit.codegen.multiply_add import multiply_adds
from scanjit.codegen.names import FreshNames, suffix
from scanjit.codegen.neighbours import Part, in_pairs, loaded_in_pairs
from scanjit.codegen.scope import Scope
from scanjit.codegen.source import Parameters
from scanjit.kinds import kind_of
from scanjit.ops.elementwise import MAXIMUM, MINIMUM
from scanjit.records import record, replace
from scanjit.schedule.nests import (
    LINE,
    Access,
    Apply,
    Buffer,
    Literal,
    Load,
    Nest,
    NestLoop,
    Position,
    Reduce,
    Register,
    Store,
    Tile,
    Value,
    reductions_in,
    walk_values,
)
from scanjit.types import Dimension
from scanjit.walks import fold


@record(eq=True)
class Point:
    """Which copy of unrolled lines a value belongs to: the row of the tile, the vector, and the lanes of its
    vectors."""

    row: int = 0
    vector: int = 0
    width: int = 1


IN_LOOP = -1
"""The row number of points inside a loop over the rows of a register tile."""


ValueOf = Callable[[Value, Point], str]
"""A function that writes a value at a point, and returns the variable that holds it."""


@record(eq=True)
class RowOrder:
    """The variables of a list of rows: its address, the number of rows, and how many of them (the first ones) are
    wanted. Inside the loop over tiles, `first` is the position of the tile's first row in the list."""

    rows: str
    count: str
    wanted: str
    first: str = ""


class Turned(NamedTuple):
    """Memory on the stack in which the vectors of some rows lie one behind the other: where the first one lies, the row
    that it belongs to, and the bytes of a vector."""

    address: str
    low: str
    step: int


class Frame:
    """The source of one nest while it is written, and what is known at each place in it.

    Attributes
    ----------
    lane : the loop along which lanes run now; in a horizontal reduction, the last loop of the reduction.
    columns : if lanes run along reductions, the loop of which several iterations are computed at a time, each with
        vectors of its own.
    level : for each open loop, how many scopes are around its lines.
    running : for each open scope, the loop whose steps it holds, if it is the scope of one.
    index : the counters of open loops, by loop and row (or vector of `columns`).
    registers : the variables that are carried through time, by register and vector.
    order : the order of rows, if those that a mask wants come first.
    group : the bounds of the group of tiles of columns in which the present tile lies, if there are groups.
    guessed : the choices that are written as branches.
    decided : the conditions that are known behind branches, and what they are.
    fresh : makes new variables.
    squares : where the vectors of accesses lie that were turned (see `codegen.across`), by access and vector.
    """

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.tile = nest.tile or Tile()
        self.lane = nest.space[-1] if nest.space and not self.tile.horizontal else None
        self.columns = nest.space[-1] if nest.space and self.tile.horizontal and self.tile.vectors > 1 else None
        self.parameters = Parameters()
        self.function = Scope(None)
        self.scopes: list[Scope] = [self.function]
        self.memos: list[dict[object, str]] = [{}]
        self.masks: list[list[str] | None] = [None]
        self.running: list[NestLoop | None] = [None]
        self.level: dict[NestLoop, int] = {}
        self.index: dict[tuple[NestLoop, int], str] = {}
        self.registers: dict[tuple[int, int], str] = {}
        self.order: RowOrder | None = None
        self.group: tuple[str, str] | None = None
        self.guessed = nest.guessed
        self.decided: Mapping[Value, bool] = {}
        self.squares: dict[tuple[Access, int], Turned] = {}
        self._hidden: list[tuple[NestLoop, int, str] | None] = [None]
        self.fresh = FreshNames()
        self._dependence: dict[Value, frozenset[NestLoop]] = {}

    @cached_property
    def multiply_adds(self) -> Mapping[Value, int]:
        """For each sum that is written as a multiply-add, which of its operands is the product."""
        return multiply_adds(self.nest, self.tile)

    @cached_property
    def pairs(self) -> Mapping[object, Part]:
        """The places that are loaded together with a neighbour, by `Access.where`."""
        return loaded_in_pairs(self.nest)

    @cached_property
    def stores(self) -> list[tuple[Store, ...]]:
        """The stores of the nest. Two that store neighbours are one pair."""
        return in_pairs(self.nest.stores)

    @cached_property
    def foreseen(self) -> frozenset[Value]:
        """The extrema of carries of one number, which are to be ready soon. (If an operand is a number, LLVM knows that
        it is not NaN.)"""
        if self.nest.time is None or self.nest.space:
            return frozenset()
        extrema = [value for value in self.nest.values if _is_extremum(value)]
        return frozenset(v for v in extrema if any(isinstance(part, Register) for part in walk_values([v])))

    # ---- scopes -----------------------------------------------------------------------------------------------------

    @property
    def scope(self) -> Scope:
        """The innermost open scope."""
        return self.scopes[-1]

    def push(
        self, header: str | None, loop: NestLoop | None = None, counter: str = "", most: int | None = None
    ) -> None:
        """Open a scope. If `loop` is given, it is the scope of that loop, which has at most `most` turns."""
        inner = Scope(header, most, loop is not None and loop is self.nest.time)
        self.scope.open(inner)
        self.scopes.append(inner)
        self.memos.append({})
        self.masks.append(self.masks[-1])
        self.running.append(loop if header is not None and header.startswith("for ") else None)
        self._hidden.append((loop, self.level[loop], self.index[loop, 0]) if loop in self.level else None)
        if loop is not None:
            self.level[loop] = len(self.scopes) - 1
            self.index[loop, 0] = counter

    def pop(self, depth: int) -> None:
        """Close scopes until `depth` are open. A loop that was open twice gets the counter of the outer one back."""
        while len(self.scopes) > depth:
            if (hidden := self._hidden.pop()) is not None:
                loop, self.level[loop], self.index[loop, 0] = hidden
            self.scopes.pop()
            self.memos.pop()
            self.masks.pop()
            self.running.pop()
            self.scope.close()

    @contextmanager
    def inside(
        self, header: str | None, loop: NestLoop | None = None, counter: str = "", most: int | None = None
    ) -> Iterator[None]:
        """A scope that is open inside this context, see `push`. Scopes that are opened in it are closed with it."""
        depth = len(self.scopes)
        self.push(header, loop, counter, most)
        yield
        self.pop(depth)

    def level_of(self, loops: frozenset[NestLoop]) -> int:
        """The number of the outermost scope in which the counters of `loops` are known."""
        return max([self.level[loop] for loop in loops if loop in self.level], default=0)

    def known_inside(self, level: int, dim: Dimension) -> Dimension:
        """A dimension as it is known in the scope number `level`: the loops around it are not empty."""
        loops = [each for loop in self.running[: level + 1] if loop is not None for each in (loop, *loop.parts)]
        sizes = [loop.size for loop in loops]
        return types.substitute(dim, {atom: size + 1 for size in sizes if (atom := types.as_atom(size)) is not None})

    def remember(self, level: int, key: object, hint: str, text: str) -> str:
        """The variable of an expression. If there is none yet, it is written in the scope number `level`, and
        remembered under `key`."""
        if (found := self.recall(level, key)) is not None:
            return found
        name = self.fresh(hint)
        self.scopes[level].add(f"{name} = {text}")
        self.memos[level][key] = name
        return name

    def recall(self, level: int, key: object) -> str | None:
        """The variable that is remembered under `key` in one of the outer scopes, if there is one."""
        for memo in self.memos[: level + 1]:
            if key in memo:
                return memo[key]
        return None

    def line(self, hint: str, text: str) -> str:
        """A new variable for an expression, written in the innermost scope."""
        name = self.fresh(hint)
        self.scope.add(f"{name} = {text}")
        return name

    def loop(
        self,
        over: NestLoop | None,
        hint: str,
        bounds: Sequence[str],
        step: int = 1,
        most: int | None = None,
        down: Dimension = 0,
    ) -> str:
        """Open a loop over `bounds` (start and stop) in steps; returns its counter. If `down` is 1, the loop `over`
        goes from its last point to its first; `bounds` are then a whole number of steps apart."""
        if most is None and over is not None and isinstance(over.size, int):
            most = -(-over.size // step)
        if most is None and over is not None and over.size in self.tile.brief:
            most = -(-self.tile.lanes * self.tile.wide // step)
        name, (start, stop) = self.fresh(hint), bounds
        text = stop if start == "0" and step == 1 else f"{start}, {stop}" + (f", {step}" if step > 1 else "")
        self.push(f"for {name} in range({text}):", over, name, most)
        if over is not None and down != 0:
            ends = f"{stop} - {step}" if start == "0" else f"{start} + {stop} - {step}"
            turned = f"{ends} - {name}" if down == 1 else f"{name} + {self.size(down)}*({ends} - 2*{name})"
            self.index[over, 0] = self.line("down", turned)
        return name

    def bounds(self, loop: NestLoop) -> tuple[str, str]:
        """The range of a loop that this thread runs."""
        if loop is self.tile.split:
            return "begin", "end"
        return ("low", "high") if loop is self.tile.own else ("0", self.size(loop.size))

    def fills(self, lane: NestLoop, width: int) -> bool:
        """Whether a loop certainly consists of whole pieces of this width. (The part of a thread begins and ends
        between two pieces.)"""
        return lane is not self.tile.own and types.remainder(lane.size, width) == 0

    def points(self) -> list[Point]:
        """The copies of unrolled lines: the rows and vectors of the register tile."""
        width = 1 if self.lane is None else self.tile.lanes
        return [Point(r, v, width) for r in range(self.tile.row_block) for v in range(self.tile.vectors)]

    @contextmanager
    def fewer_vectors(self, vectors: int = 1, lanes: int | None = None) -> Iterator[None]:
        """Inside this context, a register tile has so many vectors; of so many lanes, if they are given."""
        tile, self.tile = self.tile, replace(self.tile, vectors=vectors, lanes=lanes or self.tile.lanes)
        yield
        self.tile = tile

    # ---- names and numbers ------------------------------------------------------------------------------------------

    def size(self, dim: Dimension) -> str:
        """A dimension as text: a literal, or a parameter."""
        return self.parameters.number(dim)

    def address(self, buffer: Buffer, offset: Dimension) -> str:
        """The parameter that holds the address of a position in a buffer."""
        return self.parameters.address(buffer, offset)

    def counter(self, loop: NestLoop, point: Point) -> str:
        """The counter of a loop at a point, as text."""
        if (loop, point.vector) in self.index and loop in (self.lane, self.columns):
            return self.index[loop, point.vector]
        return self.index[loop, point.row if loop in self.tile.row_loops else 0]

    def depends(self, value: Value) -> frozenset[NestLoop]:
        """The loops that a value depends on. A register depends on time and space. A reduction counts as known only in
        the innermost scope."""
        found = self._dependence.get(value)
        return fold(value, lambda part: part.operands, self._depends, self._dependence) if found is None else found

    def _depends(self, value: Value, parts: list[frozenset[NestLoop]]) -> frozenset[NestLoop]:
        found: set[NestLoop] = set(value.own_loops).union(*parts)
        if isinstance(value, Reduce):
            found = (found - set(value.loops)) | set(self.nest.space)
        elif isinstance(value, Register) and self.nest.time is not None:
            found |= {self.nest.time, *self.nest.space}
        return frozenset(found)

    def place(self, value: Value, point: Point) -> tuple[int, int, int]:
        """Where a value is known at a point: the number of the scope, and the row and the vector that it is for."""
        loops = self.depends(value)
        row = point.row if point.row and not loops.isdisjoint(self.tile.row_loops) else 0
        return self.level_of(loops), row, point.vector if (self.columns or self.lane) in loops else 0

    # ---- addresses --------------------------------------------------------------------------------------------------

    def turned(self, load: Load, point: Point) -> str:
        """The address of a square of as many vectors as they have lanes, in which a load's lanes lie one vector after
        the other. It is written here."""
        lanes = self.tile.lanes
        step = lanes * load.dtype.itemsize
        square = self.remember(0, ("square", load), "square", f"stack({lanes * step})")
        at, across = self.vector(load.access, point)
        self.scope.add(f"transpose_{suffix(load.dtype, lanes)}({square}, {step}, {at}, {self.size(across)})")
        return square

    def vector(self, access: Access, point: Point) -> tuple[str, Dimension]:
        """The address of a vector's first lane, and the bytes from lane to lane (0: all lanes read one element).

        Each partial sum but the last is a variable, written in the scope of its loop.
        """
        itemsize = access.buffer.dtype.itemsize
        text, level = self.address(access.buffer, access.offset), 0
        loops = sorted(access.strides, key=lambda loop: self.level[loop])
        for loop in loops:
            level = max(level, self.level[loop])
            counter = self.counter(loop, point)
            if counter != "0":
                step = self.step(access, loop, loop is loops[-1])
                text += f" + {counter}" if step == "1" else f" + {counter}*{step}"
                if loop is not loops[-1]:
                    row = point.row if loop in self.tile.row_loops else 0
                    text = self.remember(level, ("pointer", text, row), "q", text)
        lane = self.lane
        if lane is None or access.strides.get(lane, 0) == 0:
            return text, 0
        apart = access.strides[lane] * itemsize
        if self._is_beside(point):
            text += f" + {self._beside(access, point, lane, apart)}"
        return text, itemsize if point.width == 1 or access.panel is lane else apart

    def fetch(self, access: Access, row: int) -> None:
        """Fetch what a register tile will read of a row, if its lanes read neighbours: one instruction for each line of
        memory."""
        address, step = self.vector(access, Point(row, 0, self.tile.lanes))
        itemsize = access.buffer.dtype.itemsize
        nbytes = self.tile.lanes * self.tile.vectors * itemsize
        for line in range(0, nbytes, LINE) if step == itemsize else ():
            self.scope.add(f"prefetch({address}{f' + {line}' if line else ''})")

    def turned_vector(self, access: Access, point: Point) -> str | None:
        """The address of the vector of a step, if it was turned."""
        found = self.squares.get((access, point.vector))
        if found is None or self.nest.time is None:
            return None
        return f"{found.address} + ({self.index[self.nest.time, 0]} - {found.low})*{found.step}"

    def _is_beside(self, point: Point) -> bool:
        """Whether a vector lies behind the first one of a register tile, and has no counter of its own."""
        return point.vector > 0 and self.columns is None and (self.lane, point.vector) not in self.index

    def _beside(self, access: Access, point: Point, lane: NestLoop, apart: Dimension) -> str:
        """How many bytes a vector of a register tile lies behind the first one, as text.

        There may be no panel behind the last one. A load of no lanes is no error there, but where memory is not mapped
        it takes hundreds of cycles, in every term of a sum. So the first vector is loaded again.
        """
        columns = point.vector * point.width
        text = self.size(columns * apart)
        if access.panel is None or self.mask(point) is None:
            return text
        there = f"{text}*min(max({self.size(lane.size)} - {self.counter(lane, point)} - {columns}, 0), 1)"
        return self.remember(self.level[lane], there, "beside", there)

    def position(self, value: Position, point: Point) -> tuple[str, Dimension]:
        """A position at a vector's first lane, as text, and how far the next lane is from it."""
        terms = [f"{self.counter(loop, point)}*{self.size(stride)}" for loop, stride in value.strides.items()]
        step = value.strides.get(self.lane, 0) if self.lane is not None else 0
        if step != 0 and self._is_beside(point):
            terms.append(self.size(step * (point.vector * point.width)))
        if value.offset != 0 or not terms:
            terms.insert(0, self.size(value.offset))
        return " + ".join(terms), step

    def step(self, access: Access, loop: NestLoop, last: bool) -> str:
        """The bytes from one turn of a loop to the next, as text. `last` says that no other loop moves the access
        inside it.

        For an operand of a register tile this is a parameter, even if the number is known: then the directions of a
        layer, and layers with inputs of different widths, have the same text. So much is computed for each such address
        that the parameter costs nothing; in the lines behind a product it would. The steps of lanes and panels, and
        those from one element to the next, are literals: instructions have room for them.
        """
        itemsize, rows = access.buffer.dtype.itemsize, self.tile.rows
        size = access.strides[loop] * itemsize
        literal = loop is self.lane or access.panel is not None or access not in self._operands
        beside = loop is rows or (last and loop not in self.nest.space)
        if literal or size == 0 or (beside and size == itemsize):
            return self.size(size)
        return self.parameters.number_of(access.buffer, size)

    @cached_property
    def _operands(self) -> set[Access]:
        """The operands that the reductions of a register tile read in each turn, and the masks of their guards."""
        if self.tile.rows is None:
            return set()
        reductions = reductions_in(self.nest.values)
        read = [value for r in reductions for value in (r.term, r.guard) if value is not None]
        return {access for value in walk_values(read) for access in value.accesses}

    def mask(self, point: Point) -> str | None:
        """The mask of the lanes of a vector that exist; None if all do."""
        masks = self.masks[-1]
        return None if masks is None or point.width == 1 else masks[point.vector if self.columns is None else 0]

    def every(self, point: Point) -> str:
        """The mask of the lanes of a vector that exist, also if all do."""
        return self.mask(point) or self.all_lanes(point.width)

    def all_lanes(self, width: int) -> str:
        """The mask of all lanes of a vector."""
        text = f"splat_boolx{width}(True)"
        return self.remember(0, text, "every", text)


def _is_extremum(value: Value) -> bool:
    """Whether a value is the minimum or maximum of two floats that are computed."""
    if not isinstance(value, Apply) or value.op not in (MAXIMUM, MINIMUM):
        return False
    kind = kind_of(value.dtype)
    return kind.floating and not kind.is_half and not any(isinstance(arg, Literal) for arg in value.args)
