"""Where generated lines go: nested loop bodies, what is known in each, names and parameters.

A value is written in the outermost scope in which everything that it depends on is known, so that nothing is computed
or loaded more often than its loops ask for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scanjit.config import MOST_THREADS
from scanjit.schedule.nests import (
    Access,
    Buffer,
    Nest,
    NestLoop,
    Reduce,
    Register,
    Tile,
    Value,
)
from scanjit.schedule.threads.beside import MOST_BRANCHES
from scanjit.types import Dimension
from scanjit.walks import fold

STATUS = Buffer(np.dtype("int64"), (), "temporary", "status")
"""Where a nest reports an index out of bounds."""
SCRATCH_BYTES = 8192
SCRATCH = Buffer(np.dtype("int8"), (MOST_THREADS * SCRATCH_BYTES,), "temporary", "scratch")
"""Where a register tile is put before the rows of its epilogue are computed one after the other; one a thread."""
SYNC_WORDS = 32
SYNC = Buffer(np.dtype("int64"), ((1 + MOST_BRANCHES) * SYNC_WORDS,), "temporary", "sync")
"""Where threads meet: all of them, and those of each team that runs a loop of its own."""
PREPARED = Buffer(np.dtype("int64"), (), "temporary", "prepared")
"""Not memory, but a number in the table: whether what is kept between calls is there already."""
PROFILE = Buffer(np.dtype("int64"), (), "temporary", "profile")
"""Where the ticks and runs of statements are added up."""


class Scope:
    """The body of a loop (or of the function): lines, and scopes inside it. While an inner scope is open, further lines
    go before it. `most` says how many turns a loop never exceeds, where its text does not; `steps`, that it is over
    time."""

    def __init__(self, header: str | None, most: int | None = None, steps: bool = False) -> None:
        self.header, self.most, self.steps = header, most, steps
        self.lines: list[str | Scope] = []
        self._before: Scope | None = None

    def add(self, line: str | Scope) -> None:
        """Add a line (before the inner scope that is open)."""
        (self.lines if self._before is None else self._before.lines).append(line)

    def open(self, inner: Scope) -> None:
        """Begin an inner scope."""
        self._before = Scope(None)
        self.lines += [self._before, inner]

    def close(self) -> None:
        """End the inner scope: further lines go after it."""
        self._before = None

    def text(self, indent: int = 0) -> list[str]:
        """The source lines."""
        result = [] if self.header is None else ["    " * indent + self.header]
        inner = indent if self.header is None else indent + 1
        body: list[str] = []
        for line in self.lines:
            body += ["    " * inner + line] if isinstance(line, str) else line.text(inner)
        if self.header is not None and not body:  # steps that leave what they carry as it is
            body = ["    " * inner + "pass"]
        return result + body


@dataclass(frozen=True)
class Point:
    """Which copy of the unrolled body a value belongs to: a row of the tile, a vector, the width of its vectors."""

    row: int = 0
    vector: int = 0
    width: int = 1


class Frame:
    """The state of writing one nest."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.tile = nest.tile or Tile()
        self.lane = nest.space[-1] if nest.space and not self.tile.horizontal else None
        """The loop along which lanes run just now (in a horizontal reduction, the reduction's own)."""
        self.columns = nest.space[-1] if nest.space and self.tile.horizontal and self.tile.vectors > 1 else None
        """The loop of which several iterations are computed at a time, each with vectors of its own, where lanes run
        along the reductions."""
        self.addresses: dict[tuple[Buffer, Dimension], str] = {}
        self.numbers: dict[Dimension, str] = {}
        self.function = Scope(None)
        self.scopes: list[Scope] = [self.function]
        self.memos: list[dict[object, str]] = [{}]
        self.masks: list[list[str] | None] = [None]
        self.level: dict[NestLoop, int] = {}
        self.index: dict[tuple[NestLoop, int], str] = {}
        self._counts: dict[str, int] = {}
        self._dependence: dict[Value, frozenset[NestLoop]] = {}

    # ---- scopes -----------------------------------------------------------------------------------------------------

    @property
    def scope(self) -> Scope:
        """The innermost open scope."""
        return self.scopes[-1]

    def push(
        self, header: str | None, loop: NestLoop | None = None, counter: str = "", most: int | None = None
    ) -> None:
        """Open a scope; the body of a loop, if one is given (of at most so many turns)."""
        inner = Scope(header, most, loop is not None and loop is self.nest.time)
        self.scope.open(inner)
        self.scopes.append(inner)
        self.memos.append({})
        self.masks.append(self.masks[-1])
        if loop is not None:
            self.level[loop] = len(self.scopes) - 1
            self.index[loop, 0] = counter

    def pop(self, depth: int) -> None:
        """Close scopes until `depth` are open."""
        while len(self.scopes) > depth:
            self.scopes.pop()
            self.memos.pop()
            self.masks.pop()
            self.scope.close()

    def level_of(self, loops: frozenset[NestLoop]) -> int:
        """The outermost scope in which the counters of `loops` are known."""
        return max((self.level[loop] for loop in loops if loop in self.level), default=0)

    def remember(self, level: int, key: object, hint: str, text: str) -> str:
        """A variable for an expression, written once in the scope of a level."""
        for memo in self.memos[: level + 1]:
            if key in memo:
                return memo[key]
        name = self.fresh(hint)
        self.scopes[level].add(f"{name} = {text}")
        self.memos[level][key] = name
        return name

    def recall(self, level: int, key: object) -> str | None:
        """The variable of an expression, if it is written."""
        return next((memo[key] for memo in self.memos[: level + 1] if key in memo), None)

    def bounds(self, loop: NestLoop, start: str = "0", stop: str | None = None) -> tuple[str, str]:
        """The range of a loop that this thread runs, of `start` to `stop`."""
        stop = self.size(loop.size) if stop is None else stop
        if loop is not self.tile.split and loop is not self.tile.own:
            return start, stop
        low, high = ("begin", "end") if loop is self.tile.split else ("low", "high")
        first = low if start == "0" else f"max({low}, {start})"
        return first, high if stop == self.size(loop.size) else f"min({high}, {stop})"

    # ---- names and numbers ------------------------------------------------------------------------------------------

    def fresh(self, hint: str) -> str:
        """A new variable."""
        self._counts[hint] = self._counts.get(hint, -1) + 1
        return f"{hint}{self._counts[hint]}"

    def size(self, dim: Dimension) -> str:
        """A dimension as source: a literal, or a parameter."""
        if isinstance(dim, int):
            return str(dim)
        return self.numbers.setdefault(dim, f"n{len(self.numbers)}")

    def address(self, buffer: Buffer, offset: Dimension) -> str:
        """The parameter that holds the address of a position in a buffer."""
        return self.addresses.setdefault((buffer, offset), f"p{len(self.addresses)}")

    def counter(self, loop: NestLoop, point: Point) -> str:
        """The counter of a loop, as text."""
        if loop is self.columns:
            return self.index[loop, point.vector]
        return self.index[loop, point.row if loop in self.tile.row_loops else 0]

    def depends(self, value: Value) -> frozenset[NestLoop]:
        """The loops that a value depends on. A register depends on time; a reduction is complete in the innermost scope
        only."""
        return fold(value, lambda part: part.operands, self._depends, self._dependence)

    def _depends(self, value: Value, parts: list[frozenset[NestLoop]]) -> frozenset[NestLoop]:
        found: set[NestLoop] = set(value.own_loops).union(*parts)
        if isinstance(value, Reduce):
            found = (found - set(value.loops)) | set(self.nest.space)
        elif isinstance(value, Register) and self.nest.time is not None:
            found |= {self.nest.time, *self.nest.space}
        return frozenset(found)

    # ---- addresses --------------------------------------------------------------------------------------------------

    def vector(self, access: Access, point: Point) -> tuple[str, Dimension]:
        """The address of a vector's first lane, and the bytes from lane to lane (0: one element for all).

        Every step but the innermost one is a variable of its own, written in the scope of its loop."""
        itemsize = access.buffer.dtype.itemsize
        text, level = self.address(access.buffer, access.offset), 0
        loops = sorted(access.strides, key=lambda loop: self.level[loop])
        for loop in loops:
            level = max(level, self.level[loop])
            counter, step = self.counter(loop, point), self.size(access.strides[loop] * itemsize)
            if counter != "0":
                text += f" + {counter}" if step == "1" else f" + {counter}*{step}"
                if loop is not loops[-1]:
                    row = point.row if loop in self.tile.row_loops else 0
                    text = self.remember(level, ("pointer", text, row), "q", text)
        lane = self.lane
        if lane is None or access.strides.get(lane, 0) == 0:
            return text, 0
        apart = access.strides[lane] * itemsize
        if point.vector and self.columns is None:
            text += f" + {self.size(point.vector * point.width * apart)}"
        return text, itemsize if point.width == 1 or access.panel is lane else apart

    def mask(self, point: Point) -> str | None:
        """The mask of a vector's lanes that exist; None where all do."""
        masks = self.masks[-1]
        return None if masks is None or point.width == 1 else masks[point.vector if self.columns is None else 0]

    def every(self, point: Point) -> str:
        """The mask of a vector's lanes that exist, in any case."""
        return self.mask(point) or self.all_lanes(point)

    def all_lanes(self, point: Point) -> str:
        """The mask of all lanes of a vector."""
        text = f"splat_boolx{point.width}(True)"
        return self.remember(0, text, "every", text)
