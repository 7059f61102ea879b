"""How the threads of a call share a nest: the loop whose pieces they compute."""

from typing import NamedTuple

from scanjit import types
from scanjit.codegen.common import Common, Draft, StatementPlace
from scanjit.schedule.nests import OwnRows, Tile
from scanjit.types import Dimension


class Share(NamedTuple):
    """Variables that say how threads share a step.

    Attributes
    ----------
    thread, threads : the number of this thread among those that share the columns of its rows, and how many threads
        these are.
    low, high : the rows of this thread. If threads keep no rows, all rows.
    """

    thread: str
    threads: str
    low: str
    high: str


class SharedTurns(NamedTuple):
    """The turns of a loop that threads share: its bounds, and how many turns stay together, as text."""

    low: str
    high: str
    unit: str


WHOLE = SharedTurns("0", "1", "1")
"""A nest that one thread computes."""


class Variables:
    """Writes the variables of one function. Each is written once, before the first statement, unless it depends on a
    counter."""

    def __init__(self, common: Common, draft: Draft) -> None:
        self.common, self.draft = common, draft
        self._steps: dict[OwnRows, Share] = {}

    def step(self, at: StatementPlace) -> Share:
        """How the threads share the nests of a place. Outside of steps whose threads may keep rows, all threads share
        everything."""
        rows, number = at.rows, self.common.number
        if rows is None:
            return Share("thread", "threads", "0", "0")
        if rows not in self._steps:
            flag, size = number(rows.apart), number(rows.size)
            made = Share(*(self.draft.fresh(name) for name in ("column", "columns", "low", "high")))
            pieces = number(rows.pieces)
            scale = f"*{rows.unit}" if rows.unit > 1 else ""
            last = f"min({pieces}*(thread + 1)//threads{scale}, {size})"
            self.draft.shares += [
                f"{made.thread} = thread*(1 - {flag})",
                f"{made.threads} = threads - {flag}*(threads - 1)",
                f"{made.low} = {flag}*({pieces}*thread//threads{scale})",
                f"{made.high} = {size} + {flag}*({last} - {size})",
            ]
            self._steps[rows] = made
        return self._steps[rows]

    def shared(self, tile: Tile, at: StatementPlace, turn: str = "") -> SharedTurns:
        """The turns of a nest that threads share: those of its `split` loop, or of its own rows."""
        if tile.split is None:
            return WHOLE
        if tile.rest:
            return SharedTurns("0", self.step(at).threads, "1")
        own = tile.split is tile.own and at.rows is not None
        low, high = self.own(tile, at, turn) if own else ("0", self.common.number(tile.split.size))
        return SharedTurns(low, high, str(tile.unit))

    def own(self, tile: Tile, at: StatementPlace, turn: str = "") -> tuple[str, str]:
        """The range of a nest's `own` loop that belongs to this thread's rows, in one of the `turns`."""
        assert tile.own is not None
        if at.rows is None:
            return "0", self.common.number(tile.own.size)
        kept, each = self.step(at), self.common.number(tile.each)
        low, high = (name if each == "1" else f"{name}*{each}" for name in (kept.low, kept.high))
        times = self.common.number(_times(tile, at.rows, 1 - at.rows.several))
        high = high if times == "1" else f"{high}*{times}"
        moved = f" + {turn}*{self.common.number(at.rows.size * tile.each)}" if turn else ""
        return low + moved, high + moved

    def turns(self, tile: Tile, at: StatementPlace) -> str | None:
        """In how many turns a thread computes its own rows in a nest: as often as these come, or all rows of all times
        at once if it has all rows. None if they come once."""
        if tile.own is None or at.rows is None:
            return None
        times = _times(tile, at.rows, at.rows.several)
        return None if times == 1 else self.common.number(times)

    def evenly(self, tile: Tile, at: StatementPlace, share: str) -> list[tuple[str, str, str, str]]:
        """Two calls of a nest for a share, each with a range of its `split` and a range of its rows. In the first call,
        all shares have equally many pieces. In the second one, each share has some rows of the pieces that are left."""
        assert tile.split is not None
        assert tile.rows is not None
        number, fresh = self.common.number, self.draft.fresh
        kept, size, rows, block = self.step(at), tile.split.size, tile.rows.size, tile.row_block
        pieces, threads = number((size + (tile.unit - 1)) // tile.unit), kept.threads
        even, left, low, high, begin, end = (fresh(word) for word in ("even", "left", "low", "high", "begin", "end"))
        tiles = number((rows + (block - 1)) // block)
        self.draft.add(
            at,
            f"{even} = {pieces}//{threads}*{tile.unit}",
            f"{left} = {even}*{threads}",
            f"{begin} = {even}*{share}",
            f"{end} = min({even}*({share} + 1), {number(size)})",
            f"{low} = {tiles}*{share}//{threads}*{block}",
            f"{high} = min({tiles}*({share} + 1)//{threads}*{block}, {number(rows)})",
        )
        first, last = (kept.low, kept.high) if at.rows is not None else ("0", number(rows))
        return [(begin, end, first, last), (left, number(size), low, high)]


def _times(tile: Tile, rows: OwnRows, all_times: Dimension) -> Dimension:
    """If `all_times` is 1: how many times the rows come in a nest. If it is 0: 1."""
    assert tile.own is not None
    times = types.exact_quotient(tile.own.size, rows.size * tile.each)
    assert times is not None
    return 1 + all_times * (times - 1)
