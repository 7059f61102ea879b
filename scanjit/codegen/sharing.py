"""How the threads of a call share what a nest computes, as variables of the function that calls it."""

from typing import NamedTuple

from scanjit.codegen.common import Common, Draft, Place
from scanjit.schedule.nests import OwnRows, Tile
from scanjit.types import Dimension


class Share(NamedTuple):
    """Variables that say how threads share a step.

    Attributes
    ----------
    thread, threads : the number of this thread among those that share the columns of its rows, and how many these are.
    low, high : the rows of this thread; all rows, where threads keep none.
    shares : 0 where threads keep rows, else 1.
    """

    thread: str
    threads: str
    low: str
    high: str
    shares: str


ALL = Share("thread", "threads", "0", "0", "1")
"""Outside of steps whose threads may keep rows: all threads share everything."""


class Sharing:
    """Writes the variables of one function; each once, before the first statement, unless a counter is part of it."""

    def __init__(self, common: Common, draft: Draft) -> None:
        self.common, self.draft = common, draft
        self._ranges: dict[tuple[Dimension, int, OwnRows | None, bool], tuple[str, str]] = {}
        self._steps: dict[OwnRows, Share] = {}

    def step(self, at: Place) -> Share:
        """How the threads share the nests of a place."""
        rows, number = at.rows, self.common.number
        if rows is None:
            return ALL
        if rows not in self._steps:
            flag, size = number(rows.apart), number(rows.size)
            made = Share(*(self.draft.fresh(name) for name in ("column", "columns", "low", "high", "shares")))
            pieces, scale = number((rows.size + (rows.unit - 1)) // rows.unit), _scale(rows.unit)
            last = f"min({pieces}*(thread + 1)//threads{scale}, {size})"
            self.draft.shares += [
                f"{made.shares} = 1 - {flag}",
                f"{made.thread} = thread*{made.shares}",
                f"{made.threads} = threads - {flag}*(threads - 1)",
                f"{made.low} = {flag}*({pieces}*thread//threads{scale})",
                f"{made.high} = {size} + {flag}*({last} - {size})",
            ]
            self._steps[rows] = made
        return self._steps[rows]

    def split(self, tile: Tile, at: Place) -> tuple[str, str]:
        """The range of a nest's `split` that this thread computes."""
        assert tile.split is not None
        size, unit, kept, number = tile.split.size, tile.unit, self.step(at), self.common.number
        key = size, unit, at.rows, tile.split is tile.own
        if key in self._ranges and not self.common.moves(size):
            return self._ranges[key]
        begin, end = self.draft.fresh("begin"), self.draft.fresh("end")
        pieces, scale = number((size + (unit - 1)) // unit), _scale(unit)
        first = f"{pieces}*{kept.thread}//{kept.threads}{scale}"
        last = f"min({pieces}*({kept.thread} + 1)//{kept.threads}{scale}, {number(size)})"
        if tile.split is tile.own:  # its own rows, or a share of those that all go over together
            low, high = self.own(tile, at)
            first = f"{low} + {kept.shares}*({pieces}*thread//threads{scale})"
            last = f"min({pieces}*(thread + 1)//threads{scale}, {number(size)})"
            last = f"{high} + {kept.shares}*({last} - {high})"
        self._write(size, at, f"{begin} = {first}", f"{end} = {last}")
        self._ranges[key] = begin, end
        return begin, end

    def own(self, tile: Tile, at: Place) -> tuple[str, str]:
        """The range of a nest's `own` loop that belongs to the rows of this thread."""
        kept, each = self.step(at), self.common.number(tile.each)
        low, high = (name if each == "1" else f"{name}*{each}" for name in (kept.low, kept.high))
        return low, high

    def evenly(self, tile: Tile, at: Place) -> list[tuple[str, str, str, str]]:
        """Two calls of a nest, each with a range of its `split` and one of its rows. In the first one, threads compute
        equally many pieces; in the second one, the pieces that are left, each thread some of the rows."""
        assert tile.split is not None
        assert tile.rows is not None
        number, fresh = self.common.number, self.draft.fresh
        kept, size, rows, block = self.step(at), tile.split.size, tile.rows.size, tile.row_block
        pieces, thread, threads = number((size + (tile.unit - 1)) // tile.unit), kept.thread, kept.threads
        even, left, low, high = (fresh(word) for word in ("even", "left", "low", "high"))
        tiles = number((rows + (block - 1)) // block)
        self._write(
            rows,
            at,
            f"{even} = {pieces}//{threads}*{tile.unit}",
            f"{left} = {even}*{threads}",
            f"{low} = {tiles}*{thread}//{threads}*{block}",
            f"{high} = min({tiles}*({thread} + 1)//{threads}*{block}, {number(rows)})",
        )
        first, last = (kept.low, kept.high) if at.rows is not None else ("0", number(rows))
        end = f"min({even}*({thread} + 1), {number(size)})"
        return [(f"{even}*{thread}", end, first, last), (left, number(size), low, high)]

    def _write(self, size: Dimension, at: Place, *lines: str) -> None:
        if self.common.moves(size):
            self.draft.add(at, *lines)
        else:
            self.draft.shares += lines


def _scale(unit: int) -> str:
    return f"*{unit}" if unit > 1 else ""
