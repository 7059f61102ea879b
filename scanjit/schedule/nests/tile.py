"""How a nest is vectorised, blocked and shared among threads."""

from scanjit.records import record
from scanjit.schedule.nests.loops import NestLoop
from scanjit.types import Dimension


@record(eq=True)
class Tile:
    """How a nest is vectorised, divided into register tiles, and shared among threads.

    Attributes
    ----------
    lanes : how many elements a vector has. Lanes run along the last loop of the space.
    vectors : how many vectors a register tile has along that loop.
    horizontal : whether lanes run along the last loop of each reduction instead; or, without reductions, along the
        steps of each row.
    rows : a loop (or several, joined) whose iterations share loads. A register tile has `row_block` of these rows.
    left : how many of the vectors that are left after whole tiles are computed at a time. Only the last of them has a
        mask, and threads may share them more evenly. If 0, all of them are computed at a time, with masks.
    group : how many tiles of columns are computed for some rows, before the next rows.
    split : the loop that threads share, in pieces of `unit` iterations.
    own : the loop of which each thread keeps its part (see `OwnRows`). One row is `each` iterations. Outside of a step,
        the rows may come several times: then a thread keeps its part of each time.
    rest : whether all threads compute equally many pieces of `split`, and then share the pieces that are left by rows:
        the loop `own`.
    strips : in a nest with time, how many iterations of each loop a strip has. All points of a strip go through a step
        before any goes through the next one. Without strips, time is inside all other loops. In a nest that sums down
        columns: how many columns add a few terms before any adds the next ones (see `schedule.tiles.columns`).
    steps : how many steps a point of a strip goes through before the next point does.
    many : 1 in calls that use `strips`; 0 in calls with time, or the terms of sums, inside all other loops.
    ahead : 1 if the next terms are fetched ahead: those of right operands in panels, and in strips of columns those of
        the columns (there in calls in which it is 1), else 0.
    beyond : whether each block of rows also fetches a part of the panels that come next.
    narrow : whether the points that are left after whole vectors are computed in vectors of fewer lanes, not in one
        whose other lanes are masked.
    brief : sizes that are at least 1, and at most as many as `wide` vectors have lanes: the loop along which lanes run
        is so many vectors, without a loop, if it has one of these sizes.
    matrices : whether registers that hold matrices multiply (see `schedule.tiles.matrices`).
    meanwhile : whether they compute the sums of the next tile of columns while those of this one are used.
    down : 1 in calls in which a step goes through the points of a strip from the last to the first; 0 in others.
    """

    lanes: int = 1
    vectors: int = 1
    rows: NestLoop | None = None
    row_block: int = 1
    horizontal: bool = False
    left: int = 0
    group: Dimension = 1
    split: NestLoop | None = None
    unit: int = 1
    own: NestLoop | None = None
    each: Dimension = 1
    rest: bool = False
    strips: tuple[Dimension, ...] = ()
    steps: int = 1
    many: Dimension = 1
    ahead: Dimension = 0
    beyond: bool = False
    narrow: bool = False
    brief: tuple[Dimension, ...] = ()
    wide: int = 1
    matrices: bool = False
    meanwhile: bool = False
    down: Dimension = 0

    @property
    def row_loops(self) -> tuple[NestLoop, ...]:
        """The loops of the nest that `rows` consists of."""
        if self.rows is None:
            return ()
        return self.rows.parts or (self.rows,)

    @property
    def own_loops(self) -> tuple[NestLoop, ...]:
        """The loops of the nest that `own` consists of."""
        return () if self.own is None else self.own.parts or (self.own,)
