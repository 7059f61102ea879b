"""Fetching right operands of products ahead of the register tiles that read them.

A panel is read once for each block of rows. All but the first of these find it in a near cache. So each block of rows
fetches a part of the panel that comes next, and the first one finds it near as well. What a near cache holds is still
too far away for tiles that compute as fast as it answers: of their own panel, they fetch the terms that come next.
"""

from collections.abc import Sequence

from scanjit.codegen.frame import Frame, Point
from scanjit.schedule.nests import Access, NestLoop, Reduce
from scanjit.schedule.tiles.products import factors

TERMS = 8
"""Of its own panel, a tile fetches what it reads so many terms later: for 4 rows and vectors, after 64 cycles or more.
Second caches take 14 to 16 to answer."""


class Ahead:
    """What a loop over terms fetches in each of its turns.

    Parameters
    ----------
    frame : where the loop will be written.
    reductions, loop : the sums of products, and the loop over their terms.
    """

    def __init__(self, frame: Frame, reductions: Sequence[Reduce], loop: NestLoop) -> None:
        self.frame, self.loop = frame, loop
        accesses = dict.fromkeys(load.access for r in reductions for load in factors(r) or ())
        on = frame.tile.ahead == 1 and frame.tile.row_block > 1
        self.panels = [access for access in accesses if on and access.panel is not None]
        alone = frame.tile.beyond and all(reduction.loops == (loop,) for reduction in reductions)
        self._next = self._share_of_next(self.panels[0]) if self.panels and alone else None

    def _share_of_next(self, access: Access) -> tuple[str, str]:
        """Where the part of the next panels begins that this block of rows fetches, and how far a turn goes on: not at
        all if there is one block, which reads each panel once."""
        frame, tile, rows = self.frame, self.frame.tile, self.frame.tile.rows
        assert rows is not None and access.panel is not None
        (start, stop), width = frame.bounds(rows), tile.lanes * tile.vectors
        column = access.strides[access.panel] * access.buffer.dtype.itemsize
        with frame.inside(None, self.loop, "0"):
            own, _ = frame.vector(access, Point(0, 0, tile.lanes))
        blocks = frame.remember(
            0, ("blocks", access), "blocks", f"max(({stop} - {start} + {tile.row_block - 1})//{tile.row_block}, 1)"
        )
        of_turn = frame.size(column * width // self.loop.size)
        step = frame.remember(0, ("share", access), "share", f"{of_turn}*min({blocks} - 1, 1)//{blocks}")
        behind = f"{own} + {frame.size(column * width * tile.group)}"
        block = f"({frame.index[rows, 0]} - {start})//{tile.row_block}"
        return frame.line("next", f"{behind} + {block}*{frame.size(self.loop.size)}*{step}"), step

    def write(self, turn: str) -> None:
        """The lines of a turn, whose number is `turn`."""
        frame, tile = self.frame, self.frame.tile
        for access in self.panels:
            step = frame.size(access.strides[self.loop] * access.buffer.dtype.itemsize * TERMS)
            for vector in range(tile.vectors):
                address, _ = frame.vector(access, Point(0, vector, tile.lanes))
                frame.scope.add(f"prefetch({address} + {step})")
        if self._next is not None:
            first, step = self._next
            frame.scope.add(f"prefetch({first} + {turn}*{step})")
