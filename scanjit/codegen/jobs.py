"""Calls of the functions that run nests, packs and calls of LAPACK; the places where threads meet, and the looks
whether a call is to end."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import singledispatch

from scanjit import types
from scanjit.codegen.common import Common, Draft, StatementPlace
from scanjit.codegen.decomposition import decomposition_source
from scanjit.codegen.fourier import fourier_source
from scanjit.codegen.guest import guest_source
from scanjit.codegen.lapack_calls import call_source
from scanjit.codegen.pack import pack_source
from scanjit.codegen.places import PREPARED, PROFILE, SYNC
from scanjit.codegen.roots import roots_source
from scanjit.codegen.sharing import Variables
from scanjit.codegen.sorting import order_source
from scanjit.codegen.source import Source
from scanjit.codegen.where_true import where_true_source
from scanjit.schedule.nests import (
    Decomposition,
    Fetch,
    Fourier,
    GuestCall,
    Job,
    LapackCall,
    Load,
    Nest,
    Order,
    Pack,
    RootsOfUnity,
    Tile,
    WhereTrue,
    walk_values,
)
from scanjit.schedule.threads.split import Piece
from scanjit.target import Target
from scanjit.types import Dimension

UNLOOKED = 16
"""A thread looks whether it is to end in each turn of a loop, and after this many calls of functions."""


class Jobs:
    """Writes the calls of one function."""

    def __init__(self, common: Common, draft: Draft) -> None:
        self.common, self.draft, self.sharing = common, draft, Variables(common, draft)
        self._unlooked = 0
        """The number of calls since the last look."""

    def write(self, job: Job, at: StatementPlace) -> None:
        """Run a job. A job that runs once is left out in calls for which it has run before."""
        if job in self.common.program.once:
            self.draft.add(at, f"if {self.common.entry('flag', PREPARED)} == 0:")
            for source in self._timed(job, at.inside):
                decided = [*source.numbers, *(offset for _, offset in source.addresses)]
                decided += [] if source.tile.split is None else [source.tile.split.size]
                decided += [] if source.rows is None else [source.rows.size]
                self.common.kept_sizes |= dict.fromkeys(decided)
            at = at.inside
        else:
            self._timed(job, at)
        self.called(at)

    def write_without_meeting(self, some: Sequence[Nest], at: StatementPlace) -> None:
        """Run nests between which threads do not meet (see `codegen.meetings`)."""
        self._before(some, at)
        self._call_by_rows(some, [self.common.nests.of(nest) for nest in some], at)
        self.called(at)

    def _timed(self, job: Job, at: StatementPlace) -> Sequence[Source]:
        """Run a job, and return the functions that it calls. If time is taken, the first thread adds up how long the
        job took, waiting included, and how often it ran."""
        common = self.common
        if common.timed is None:
            return self._written(job, at)
        place = 2 * len(common.timed)
        common.timed.append(job)
        self.draft.add(at, "tick = clock()")
        sources = self._written(job, at)
        self.draft.add(at, "if thread == 0:")
        ticks, runs = (common.address(PROFILE, place + i, at) for i in (0, 1))
        self.draft.add(at.inside, f"store_i64({ticks}, load_i64({ticks}) + clock() - tick)")
        self.draft.add(at.inside, f"store_i64({runs}, load_i64({runs}) + 1)")
        return sources

    def _written(self, job: Job, at: StatementPlace) -> Sequence[Source]:
        if isinstance(job, Nest):
            return self._nest(job, at)
        return self._call([source_of(job, self.common.program.target)], at)

    def outline(self, job: Job, at: StatementPlace) -> object:
        """A key that is equal for jobs that call the same functions."""
        return tuple([s.digest for s in self._sources(job, at)]) if isinstance(job, Nest) else (type(job), job.title)

    def _sources(self, nest: Nest, at: StatementPlace) -> Sequence[Source]:
        """The functions that run a nest."""
        nests, in_step = self.common.nests, at.counted or self.draft.whole
        return [nests.of(nest)] if in_step else nests.apart(nest)  # in a step, each call counts

    # ---- where threads meet, and end ---------------------------------------------------------------------------------

    def called(self, at: StatementPlace) -> None:
        """Note that a function was called, and write a look now and then."""
        self._unlooked += 1
        if self._unlooked == UNLOOKED:
            self.look(at)

    def _before(self, some: Sequence[Nest], at: StatementPlace) -> None:
        """Look before nests that trust memory, if a function before them may have ended early."""
        if not self.draft.unbroken and any(map(trusts_memory, some)):
            self.look(at)

    def look(self, at: StatementPlace) -> None:
        """End if this thread is interrupted. Nobody reads the memory after that."""
        self._unlooked = 0
        self.draft.add(at, "if interrupted(line):", "    return")

    def begin_loop(self, at: StatementPlace, steps: Dimension, early: bool = False) -> None:
        """Write that a loop over time begins, how many steps it has, and whether it may end early."""
        self.draft.add(at, f"begin_loop(line, {self.common.number(steps)}, {int(early)})")

    def meet(self, at: StatementPlace, how: str = "barrier") -> None:
        """All threads (of a team) wait for each other here; in a step, those that share its rows. A thread that runs
        alone waits for nobody."""
        if not self.draft.alone:
            kept = self.sharing.step(at)
            self.draft.add(at, f"{how}({self._sync(at)}, {kept.thread}, {kept.threads}, line)")

    @contextmanager
    def first_thread(self, at: StatementPlace) -> Iterator[StatementPlace]:
        """Where to write what only the first thread computes, while the others wait. It also says how far the call
        is."""
        self.draft.add(at, f"if {self.sharing.step(at).thread} == 0:")
        yield at.inside
        self.meet(at, "wait_for_first")

    @contextmanager
    def shares(self, at: StatementPlace, many: str) -> Iterator[tuple[StatementPlace, str]]:
        """Where to write work that is divided into `many` shares, and the variable that is the number of a share."""
        if self.draft.alone:
            yield at, "thread"
            return
        kept, share = self.sharing.step(at), self.draft.fresh("share")
        operands = f"({self._sync(at)}, {kept.thread}, {kept.threads}, {many}, line)"
        self.draft.add(at, f"{share} = first_share{operands}", f"while {share} >= 0:")
        yield at.inside, share
        self.draft.add(at.inside, f"{share} = next_share{operands}")

    def _sync(self, at: StatementPlace) -> str:
        return "sync" if at.team else self.common.address(SYNC, 0, at)

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _nest(self, nest: Nest, at: StatementPlace) -> Sequence[Source]:
        sources, pieces = self._sources(nest, at), nest if nest in self.common.program.pieces else None
        self._before([nest], at)
        if nest.time is not None and sources[0].looks and not at.counted:
            self.begin_loop(at, nest.time.size, nest.until is not None)
            self._call(sources, at, pieces, told=True)
            self.draft.add(at, "end_loop(line)")
            return sources
        return self._call_by_rows([nest], sources, at, pieces)

    def _call_by_rows(
        self, some: Sequence[Nest], sources: Sequence[Source], at: StatementPlace, pieces: Nest | None = None
    ) -> Sequence[Source]:
        """Call the functions of nests; in calls with one row, those of their variants for one row."""
        tile, single = some[0].tile, self.common.program.single
        variants = [self.common.nests.of(single[nest]) for nest in some if nest in single]
        if variants and tile is not None and tile.rows is not None:
            self.draft.add(at, f"if {self.common.number(tile.rows.size)} == 1:")
            self._call(variants, at.inside)
            self.draft.add(at, "else:")
            at, pieces = at.inside, None
        return self._call(sources, at, pieces)

    def _call(
        self, sources: Sequence[Source], at: StatementPlace, nest: Nest | None = None, told: bool = False
    ) -> Sequence[Source]:
        """Call functions that run a job, all for the same share of it. With a `nest`, they run a piece at a time. With
        `told`, the caller's thread passes on how many steps it has made, as it runs the job alone."""
        if self.draft.whole:
            self.draft.inside |= {source.name: source for source in sources}
        else:
            sources = [self.common.known(source) for source in sources]
            self.draft.calls |= dict.fromkeys(source.name for source in sources)
        tile, kept, turn = sources[0].tile, self.sharing.step(at), ""
        by_columns = not self.draft.alone and tile.split is not None and tile.split is not tile.own
        if not by_columns:
            at, turn = self._in_turns(tile, at)
        if self.draft.alone:
            self._call_for(sources, at, "0", turn)
        elif told and tile.split is None:
            with self.first_thread(at) as inside:
                self._call_for(sources, inside, "0")
        else:
            piece, shared, turns = self.draft.fresh("piece"), self.sharing.shared(tile, at, turn), "0"
            if nest is not None:
                turns = self._turns(nest)
            elif by_columns and self.sharing.turns(tile, at) is not None:
                # columns that stay in the cache for all rows
                turns = self.common.number(tile.group * (tile.lanes * tile.vectors))
            operands = ", ".join([self._sync(at), kept.thread, kept.threads, *shared, turns, "line"])
            self.draft.add(at, f"{piece} = first_piece({operands})", f"while {piece} >= 0:")
            inside = at.inside
            if by_columns:
                inside, turn = self._in_turns(tile, inside)
            self._call_for(sources, inside, piece, turn)
            self.draft.add(at.inside, f"{piece} = next_piece(line)")
        return sources

    def _in_turns(self, tile: Tile, at: StatementPlace) -> tuple[StatementPlace, str]:
        """A loop over the turns in which a thread computes its own rows, if these come several times: where to write
        what it does in a turn, and the variable that is the number of the turn."""
        times = self.sharing.turns(tile, at)
        if times is None:
            return at, ""
        turn = self.draft.fresh("time")
        self.draft.add(at, f"for {turn} in range({times}):")
        return at.inside, turn

    def _call_for(self, sources: Sequence[Source], at: StatementPlace, piece: str, turn: str = "") -> None:
        """Call functions for a piece of the loop that threads share, and for the rows of a turn."""
        for source in sources:
            self._call_one(source, at, piece, turn)

    def _call_one(self, source: Source, at: StatementPlace, piece: str, turn: str) -> None:
        tile, line, rows = source.tile, ["line"] if source.looks else [], source.rows
        addresses = [self.common.address(buffer, offset, at) for buffer, offset in source.addresses]
        numbers = self.common.given(source)
        if rows is not None and rows.steps is not None:  # the part of each row that is a piece
            moved = [f" + {piece}*{step}" if step else "" for step in rows.steps]
            addresses = [address + more for address, more in zip(addresses, moved, strict=True)]
            numbers[rows.points] = f"piece_end(line) - {piece}"
        arguments = [*addresses, *numbers]

        def call(*more: str) -> str:
            return f"{source.name}({', '.join([*arguments, *more, *line])})"

        if tile.rest:
            even, left = self.sharing.evenly(tile, at, piece)
            self.draft.add(at, call(*even), f"if {left[0]} < {left[1]}:", "    " + call(*left))
            return
        end = "piece_end(line)"
        if self.draft.alone and tile.split is not None:
            size = tile.split.size
            # LLVM would compute a vector with one lane as a number, and forget that a product and a sum may be an fma
            one_left = isinstance(size, int) and size % tile.lanes == 1
            end = self.common.entry("number", size) if one_left else self.common.number(size)
        ranges: tuple[str, ...] = () if tile.split is None else (piece, end)
        if rows is not None and (tile.split is None or rows.steps is not None):
            ranges = ("0", self.common.number(rows.size))
        if tile.own is not None and tile.own is not tile.split:
            ranges += self.sharing.own(tile, at, turn)
        self.draft.add(at, call(*ranges))

    def _turns(self, nest: Nest) -> str:
        """How many turns of the loop that threads share are one piece of a nest. Before each piece, a thread looks
        whether to end."""
        turns = types.size()
        self.common.pieces.append(Piece.of(nest, turns))
        return self.common.number(turns)


def trusts_memory(nest: Nest) -> bool:
    """Whether a nest takes numbers from memory for places without a check, as what writes them leaves none outside.
    Nobody may have written them if a thread was interrupted."""
    stores = [index for store in (*nest.stores, *nest.finals) for index in store.indices]
    fetches = [index for value in nest.values if isinstance(value, Fetch) for index in value.indices]
    places = [value for index in (*stores, *fetches) if index.sure for value in index.values]
    return any(isinstance(value, Load) and value.access.buffer.kind != "input" for value in walk_values(places))


@singledispatch
def source_of(job: Job, target: Target) -> Source:
    """The source of a job other than a nest."""
    raise TypeError(job)


source_of.register(Decomposition, decomposition_source)
source_of.register(Fourier, fourier_source)
source_of.register(GuestCall, guest_source)
source_of.register(LapackCall, call_source)
source_of.register(Order, order_source)
source_of.register(Pack, pack_source)
source_of.register(WhereTrue, where_true_source)
source_of.register(RootsOfUnity, roots_source)
