"""How the threads of a call share what a nest computes, as variables of the function that calls it."""

from collections.abc import Callable
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

    def split(self, tile: Tile, at: Place, share: str) -> tuple[str, str]:
        """The range of a nest's `split` that is a share (a variable, set in a loop at this place)."""
        assert tile.split is not None
        size, unit, kept, number = tile.split.size, tile.unit, self.step(at), self.common.number
        key = size, unit, at.rows, tile.split is tile.own
        known = not self.common.moves(size) and key in self._ranges
        begin, end = self._ranges[key] if known else (self.draft.fresh("begin"), self.draft.fresh("end"))
        self._ranges[key] = begin, end
        pieces, scale = number((size + (unit - 1)) // unit), _scale(unit)

        def of(mine: str, thread: str) -> list[str]:
            first = f"{pieces}*{mine}//{kept.threads}{scale}"
            last = f"min({pieces}*({mine} + 1)//{kept.threads}{scale}, {number(size)})"
            if tile.split is tile.own:  # its own rows, or a share of those that all go over together
                low, high = self.own(tile, at)
                first = f"{low} + {kept.shares}*({pieces}*{thread}//threads{scale})"
                last = f"min({pieces}*({thread} + 1)//threads{scale}, {number(size)})"
                last = f"{high} + {kept.shares}*({last} - {high})"
            return [f"{begin} = {first}", f"{end} = {last}"]

        self._write(size, at, share, known, of)
        return begin, end

    def own(self, tile: Tile, at: Place) -> tuple[str, str]:
        """The range of a nest's `own` loop that belongs to the rows of this thread."""
        kept, each = self.step(at), self.common.number(tile.each)
        low, high = (name if each == "1" else f"{name}*{each}" for name in (kept.low, kept.high))
        return low, high

    def evenly(self, tile: Tile, at: Place, share: str) -> list[tuple[str, str, str, str]]:
        """Two calls of a nest for a share, each with a range of its `split` and one of its rows. In the first one, all
        shares have equally many pieces; in the second one, the pieces that are left, each share some of the rows."""
        assert tile.split is not None
        assert tile.rows is not None
        number, fresh = self.common.number, self.draft.fresh
        kept, size, rows, block = self.step(at), tile.split.size, tile.rows.size, tile.row_block
        pieces, threads = number((size + (tile.unit - 1)) // tile.unit), kept.threads
        even, left, low, high, begin, end = (fresh(word) for word in ("even", "left", "low", "high", "begin", "end"))
        tiles = number((rows + (block - 1)) // block)

        def of(mine: str, _: str) -> list[str]:
            return [
                f"{begin} = {even}*{mine}",
                f"{end} = min({even}*({mine} + 1), {number(size)})",
                f"{low} = {tiles}*{mine}//{threads}*{block}",
                f"{high} = min({tiles}*({mine} + 1)//{threads}*{block}, {number(rows)})",
            ]

        whole = [f"{even} = {pieces}//{threads}*{tile.unit}", f"{left} = {even}*{threads}"]
        if self.common.moves(rows):
            self.draft.add(at, *whole)
        else:
            self.draft.shares += whole
        self._write(rows, at, share, False, of)
        first, last = (kept.low, kept.high) if at.rows is not None else ("0", number(rows))
        return [(begin, end, first, last), (left, number(size), low, high)]

    def _write(self, size: Dimension, at: Place, share: str, known: bool, of: Callable[[str, str], list[str]]) -> None:
        """Write the variables of a share, in its loop. Those that do not change with a counter are written once for the
        thread's own share: a single thread has no other."""
        kept = self.step(at)
        if self.common.moves(size):
            self.draft.add(at, *of(share, share))
            return
        if not known:
            self.draft.shares += of(kept.thread, "thread")
        self.draft.add(at, f"if {kept.threads} > 1:", *("    " + line for line in of(share, share)))


def _scale(unit: int) -> str:
    return f"*{unit}" if unit > 1 else ""
