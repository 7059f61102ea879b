"""How a nest is vectorised, blocked and shared among threads."""

from dataclasses import dataclass

from scanjit.schedule.nests.loops import NestLoop
from scanjit.types import Dimension


@dataclass(frozen=True)
class Tile:
    """How a nest is vectorised and blocked.

    `lanes` elements a vector. Lanes run along the last loop of the space, `vectors` vectors at a time; where
    `horizontal`, along the last loop of each reduction. `rows` is a loop (or several, joined) of which `row_block`
    iterations share the loads that do not depend on it. With `singles`, the vectors that are left after whole tiles are
    computed one at a time; threads may then share them more evenly. Tiles of columns go in groups of `group`: some rows
    of all of these, then the next rows. Threads share the loop `split`, in pieces of `unit` iterations; or each keeps
    its part of the loop `own`, of which `each` iterations are one row, through all steps (see `OwnRows`). With `rest`,
    all threads compute equally many pieces, and of those that are left some of the rows, which are `own` then.

    In a nest with time, `strips` says of each loop of the space how many iterations a strip has: all points of a strip
    go through a step before any goes through the next. Without strips, time is inside all other loops; so it is in
    calls in which `many` is 0. In others it is 1.
    """

    lanes: int = 1
    vectors: int = 1
    rows: NestLoop | None = None
    row_block: int = 1
    horizontal: bool = False
    singles: bool = False
    group: Dimension = 1
    split: NestLoop | None = None
    unit: int = 1
    own: NestLoop | None = None
    each: Dimension = 1
    rest: bool = False
    strips: tuple[Dimension, ...] = ()
    many: Dimension = 1

    @property
    def row_loops(self) -> tuple[NestLoop, ...]:
        """The loops of the nest that `rows` stands for."""
        if self.rows is None:
            return ()
        return self.rows.parts or (self.rows,)
