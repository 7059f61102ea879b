"""Functions that run statements: loops over time and blocks of it, branches.

A function takes the address of a table of int64: addresses of buffers, and numbers (sizes, strides) that the caller
computed from the sizes of this call. The function itself computes only what changes from step to step. The tables of
the functions that it calls are the first parts of its own. So two layers of a stack, or both directions of one layer,
can be calls of one function with two tables.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from scanjit import types
from scanjit.codegen.alike import likeness_of
from scanjit.codegen.beside import BesideWriter, BranchCall
from scanjit.codegen.brief import Brief, brief, known as known_rows
from scanjit.codegen.common import Common, Draft, StatementPlace, Written, unused
from scanjit.codegen.jobs import Jobs, trusts_memory
from scanjit.codegen.meetings import without_meetings
from scanjit.codegen.source import Parameters, Source
from scanjit.codegen.whole import is_alone, is_short, locals_of, row_on_stack, steps_between_looks
from scanjit.ops.scan import MOST_UNROLLED
from scanjit.records import replace
from scanjit.schedule.nests import (
    Beside,
    Blocks,
    If,
    Job,
    Nest,
    RowsApart,
    Statement,
    TimeLoop,
    every_in,
    nests_of,
)
from scanjit.types import Atom, Dimension

DEEPEST = 8
"""Loops that are nested deeper than this are functions of their own: Python allows 20 loops inside each other."""
PORTION = 16
"""If a sequence of statements is longer than this, pieces of this length are functions of their own."""
FEWEST = 3
"""At least this many statements become a function of their own if others do the same with other buffers."""
Portion = tuple[Statement, ...]
"""Statements that one function may run: a statement, or jobs that come one after the other."""


class StatementWriter:
    """Writes a function that runs statements, and those that it calls. A `whole` function has the functions of its jobs
    in its own source. `alone` says that one thread runs it."""

    def __init__(self, common: Common, whole: bool = False, alone: bool = False) -> None:
        self.common, self.draft = common, Draft(whole, alone)
        self.jobs = Jobs(common, self.draft)
        self.after_step: defaultdict[TimeLoop, list[str]] = defaultdict(list)
        """The lines behind each step of a loop."""

    def source(self, label: str, at: StatementPlace, counters: Sequence[str] = ()) -> Source:
        """The function, whose last parameters are these counters."""
        lines, table = self.draft.text(self.common.table)
        calls, inside = tuple(self.draft.calls), self.draft.inside
        return Parameters().source(label, lines, [*at.parameters, *counters], calls, table=table, inside=inside)

    def write(self, statements: Sequence[Statement], at: StatementPlace) -> None:
        """Write statements, in order."""
        if not statements:
            self.draft.add(at, "pass")
        portions, alike = self._portions(statements, at)
        for few in portions:
            apart = few in alike or len(few) == PORTION or (_loops(few) and at.depth > DEEPEST)
            if apart and not self.draft.whole:  # another function does not know what lies on the stack of this one
                if isinstance(few[0], Blocks) and few in alike:
                    self._call_loop(few[0], at, whole=False)
                else:
                    self._portion(few, at)
                continue
            for some in without_meetings(few, self.common, at):
                if len(some) == 1:
                    self._statement(some[0], at)
                else:
                    self.jobs.write_without_meeting([each for each in some if isinstance(each, Nest)], at)

    def _portions(self, statements: Sequence[Statement], at: StatementPlace) -> tuple[list[Portion], set[Portion]]:
        """The statements one by one, with jobs that follow each other together; and the portions that call the same
        functions as another one, as for the layers of a stack: jobs, or a loop over blocks."""
        found: list[Portion] = []
        same: dict[tuple[object, ...], list[Portion]] = {}
        may_share = self.common.timed is None and not self.draft.whole
        for plain, run in itertools.groupby(statements, lambda statement: isinstance(statement, Job)):
            some = tuple(run)
            if not plain:
                found += [(statement,) for statement in some]
                for each in some if may_share and not at.repeated else ():
                    if (outline := self._outline(each, at)) is not None:
                        same.setdefault((Blocks, outline), []).append((each,))
                continue
            shared = len(some) >= FEWEST and may_share
            outlines = [self.jobs.outline(job, at) for job in some if isinstance(job, Job)] if shared else []
            for begin, end in _pieces(outlines if shared and not at.repeated else some):  # in a loop, each call counts
                found.append(some[begin:end])
                if shared and end - begin >= FEWEST:
                    same.setdefault(tuple(outlines[begin:end]), []).append(found[-1])
        return found, {few for each in same.values() if len(each) > 1 for few in each}

    def _outline(self, statement: Statement, at: StatementPlace) -> object:
        """A key that is equal for jobs, and loops over blocks of jobs, that call the same functions. None for other
        statements."""
        if isinstance(statement, Job):
            return self.jobs.outline(statement, at)
        if not isinstance(statement, Blocks) or statement.own_rows is not None or is_alone(statement):
            return None
        inside = [self._outline(each, at) for each in statement.suite]
        return None if None in inside else tuple(inside)

    def _statement(self, statement: Statement, at: StatementPlace) -> None:
        match statement:
            case Job():
                self.jobs.write(statement, at)
            case Beside():
                self._beside(statement, at)
            case Blocks() if statement.own_rows is not None and not self.draft.whole:
                self._call_loop(statement, at, whole=False)
            case Blocks():
                self._blocks(statement, at)
            case If():
                self._if(statement, at)
            case TimeLoop():
                self._time_loop(statement, at)
            case RowsApart():
                self._rows_apart(statement, at)
            case _:
                raise TypeError(statement)

    def _rows_apart(self, apart: RowsApart, at: StatementPlace) -> None:
        """Write one function for statements of which threads may compute their own rows. If the loop has a function
        without the others, or already stands in a function, each statement is written by itself."""
        if self.draft.whole or apart.suite == (apart.loop,) or self._is_brief(apart.loop, at):
            for statement in apart.suite:
                if isinstance(statement, TimeLoop):
                    self._time_loop(statement, at, apart)
                else:
                    self._statement(statement, at)
        else:
            self._call_loop(apart, at, whole=False)

    def _is_brief(self, loop: TimeLoop, at: StatementPlace) -> bool:
        """Whether a loop has variants for short rows, or is one function with its nests."""
        short = is_short(loop, self.common.program, self.common.nests)
        return short or next(self._brief(loop, at), None) is not None

    def _time_loop(self, loop: TimeLoop, at: StatementPlace, apart: RowsApart | None = None) -> None:
        """A loop over time, and before it the variants for rows of one vector and of two, if there are such. Threads
        may compute its rows `apart`."""
        for short in self._brief(loop, at):
            self._call_brief(loop, short, at)
            if not short.sizes:
                return
            self.draft.add(at, "else:")
            at = at.inside
        own = loop if apart is None else replace(apart, suite=(loop,), private=())  # other statements use those too
        if not self.draft.whole and is_short(loop, self.common.program, self.common.nests):
            held = known_rows(loop) if is_alone(loop) and self.common.timed is None else None
            if held is None:
                self._call_loop(own, at, whole=True)
            else:
                self._call_brief(loop, held, at)
        elif (not self.draft.alone and is_alone(loop)) or (apart is not None and not self.draft.whole):
            self._call_loop(own, at, whole=False)
        else:
            self._loop(loop, at)

    def _brief(self, loop: TimeLoop, at: StatementPlace) -> Iterator[Brief]:
        """The variants of a loop for short rows, but for those whose code would be long."""
        common, shared = self.common, at.rows is None and not is_alone(loop)
        if self.draft.whole or common.timed is not None or not shared:
            return
        for vectors in (1, 2):
            short = brief(loop, vectors)
            if short is None or not is_short(short.loop, common.program, common.nests, short):
                return
            yield short

    # ---- functions of their own --------------------------------------------------------------------------------------

    def _portion(self, few: Portion, at: StatementPlace) -> None:
        """Call a function that runs a part of a long sequence of statements. The time to compile a function grows
        faster than its length."""

        def write(inner: StatementWriter) -> None:
            for statement in few:
                inner._statement(statement, replace(at, depth=0))

        name, table, counters = self._function("part", few, at, write)
        self.draft.add(at, f"{name}({', '.join([table, *at.parameters[1:], *counters])})")

    def _function(
        self,
        label: str,
        statements: Sequence[Statement],
        at: StatementPlace,
        write: Callable[[StatementWriter], None],
        step: str = "",
        whole: bool = False,
        own: tuple[object, ...] | None = None,
    ) -> tuple[str, str, list[str]]:
        """Write a function that runs statements. Returns its name, where its table begins, and the counters that it
        takes. It takes those of the loops around it, and `step`, which may be one of its own. Inside, counters have
        other names, so that the function is the same wherever it is called.

        If `own` is given, it and the statements decide what is written: a function is written once for statements that
        are alike."""
        counted = {atom for statement in every_in(statements) for atom in types.atoms(*statement.counters)}
        given = {atom: name for atom, name in self.common.counters.items() if atom not in counted or name == step}
        facts = None if own is None or self.draft.whole else (*own, self.draft.alone, self.common.turned)
        alike = None if facts is None else likeness_of(statements, self.common, given, at, facts)
        if alike is None or (found := self.common.written.get(alike.key)) is None:
            function, counters = self._new_function(label, at, write, given, whole)
            if alike is not None:
                self.common.written[alike.key] = Written(alike, function, counters)
        else:
            function, counters = found.function.called(found.statements.names_in(alike), None), found.counters
        self.draft.calls[function.name] = None
        return function.name, self.draft.table_of(function), [list(given.values())[i] for i in counters]

    def _new_function(
        self,
        label: str,
        at: StatementPlace,
        write: Callable[[StatementWriter], None],
        given: Mapping[Atom, str],
        whole: bool,
    ) -> tuple[Source, list[int]]:
        """Write a function, which may take the `given` counters. Returns it, and the positions of those it takes."""
        known: dict[Atom, str] = {}
        for atom, name in given.items():
            known[atom] = unused(name.rstrip("0123456789"), known.values())
        turned = not whole and (label != "part" or self.common.turned)  # a whole loop is optimised as one
        inner = StatementWriter(self.common.inside(known, turned), whole, self.draft.alone)
        write(inner)
        words = inner.draft.words() if known else set()
        taken = {i: name for i, name in enumerate(known.values()) if name in words}
        return self.common.known(inner.source(label, at, list(taken.values()))), list(taken)

    # ---- loops -------------------------------------------------------------------------------------------------------

    def _blocks(self, blocks: Blocks, at: StatementPlace) -> None:
        """A loop over blocks of time."""
        number = self.common.number
        first, rows = self.common.counter(blocks.first, "first"), self.common.counter(blocks.count, "rows")
        total, size = number(blocks.total), number(blocks.size)
        block = first.replace("first", "block")  # count blocks, as a range could raise if its step is no literal
        count = number((blocks.total + (blocks.size - 1)) // blocks.size)
        which = f"({count} - 1 - {block})" if blocks.backwards else block
        scan = None if at.counted else self._scan_of(blocks)
        inside, bounds = replace(at.inside, repeated=True), count
        if blocks.turn is not None:
            begin, many = number(blocks.turn.number * blocks.turn.blocks), number(blocks.turn.blocks)
            bounds = f"{begin}, min({begin} + {many}, {count})"
        elif scan is not None:
            self.jobs.begin_loop(at, blocks.total)
        if at.rows is not None and at.rows is blocks.own_rows:
            kept, copy = self.jobs.sharing.step(inside), self.common.counter(blocks.copy, "copy")
            bounds = f"{kept.low}, {kept.high}"
            self.draft.add(at, f"{copy} = min(thread, {kept.low})")  # 1 of 2 threads has the only block: it has copy 0
            self.common.private |= dict.fromkeys(blocks.private, blocks.copy)
        self.draft.add(at, f"for {block} in range({bounds}):")
        self.draft.add(inside, f"{first} = {which}*{size}", f"{rows} = min({size}, {total} - {first})")
        if scan is not None:
            done = blocks.total - blocks.first - blocks.count if blocks.backwards else blocks.first
            self.common.done[scan], inside = done, replace(inside, counted=True)
            self.draft.add(inside, f"count_steps(line, {number(done)})")
        self.write(blocks.suite, inside)
        self.jobs.look(inside)
        if scan is not None and blocks.turn is None:
            self.draft.add(at, "end_loop(line)")
        self.common.end([blocks.first, blocks.count])

    def _kept_rows(self, apart: RowsApart, at: StatementPlace) -> None:
        """What a thread computes of its rows: nests, the loop over time, and nests."""
        if apart.private:
            kept, copy = self.jobs.sharing.step(at), self.common.counter(apart.copy, "copy")
            flag = self.common.number(apart.own_rows.apart)
            self.draft.add(
                at, f"{copy} = {flag}*min(thread, {kept.low})"
            )  # 1 of 2 threads has the only row: its copy is 0
            self.common.private |= dict.fromkeys(apart.private, apart.copy)
        place = apart.suite.index(apart.loop)
        if apart.suite[:place]:
            self.write(apart.suite[:place], at)
        self._loop(apart.loop, at)
        if apart.suite[place + 1 :]:
            self.write(apart.suite[place + 1 :], at)

    def _scan_of(self, blocks: Blocks) -> Statement | None:
        """The scan whose steps these blocks divide. If there are several, it is the last one in the suite: the others
        are recomputed for it. None if the blocks divide no scan."""
        every = [s.loop if isinstance(s, RowsApart) else s for s in blocks.suite]
        lengths: dict[Statement, Dimension] = {s: s.length for s in every if isinstance(s, TimeLoop)}
        lengths |= {s: s.time.size for s in every if isinstance(s, Nest) and s.time is not None}
        return next((s for s in reversed(every) if s in lengths and self.common.moves(lengths[s])), None)

    def _if(self, choice: If, at: StatementPlace) -> None:
        """The two branches. In a loop, threads meet once all have read the condition, before anyone overwrites it."""
        runs = self.draft.fresh("runs")
        condition = self.common.address(choice.condition.buffer, choice.condition.offset, at)
        if not self.draft.alone:
            self.jobs.look(at)  # nobody may have written the condition if this thread is interrupted
        self.draft.add(at, f"{runs} = load_i64({condition})")
        if at.repeated:
            self.jobs.meet(at)  # nobody may write it anew before all have looked
        self.draft.add(at, f"if {runs} != 0:")
        self.write(choice.then, at.inside)
        self.draft.add(at, "else:")
        self.write(choice.otherwise, at.inside)

    def _call_loop(self, loop: TimeLoop | Blocks | RowsApart, at: StatementPlace, whole: bool) -> None:
        """Call a function that is a loop: one whose source contains the functions of its nests, one that a single
        thread runs, or one that each thread may run for its own rows. These rows are then its share of the loop: if it
        is late, another thread runs the loop in its place."""
        alone, inside = is_alone(loop), at
        if whole and not alone and self.common.timed is None:
            # To share nests of a few operations takes longer than to compute them. A call with few has one thread.
            self.draft.add(at, "if threads == 1:")
            self._look_before(loop, at.inside)
            self.draft.add(at.inside, self._loop_function(loop, at, whole, True)("thread"))
            self.draft.add(at, "else:")
            inside = at.inside
        call = self._loop_function(loop, at, whole, alone)
        if alone:
            self._look_before(loop, inside)
            with self.jobs.first_thread(inside) as first:
                self.draft.add(first, call("thread"))
        elif isinstance(loop, Blocks | RowsApart) and loop.own_rows is not None:
            with self.jobs.shares(inside, f"{self.common.number(loop.own_rows.apart)}*threads") as (place, share):
                self.draft.add(place, call(share))
        else:
            self.draft.add(inside, call("thread"))
        if not isinstance(loop, Blocks):
            self._read_steps(_loop_of(loop), at)

    def _look_before(self, loop: Statement, at: StatementPlace) -> None:
        """Look before a loop that one thread runs: its steps read conditions and trust memory without a look."""
        if not self.draft.alone or any(map(trusts_memory, nests_of([loop]))):
            self.jobs.look(at)

    def _read_steps(self, loop: TimeLoop, at: StatementPlace) -> None:
        """Read how many steps ran of a loop that was a function, if its steps may end it."""
        if loop.count is not None:
            self.jobs.look(at)  # nobody may have written the number if this thread is interrupted
            self.draft.add(at, f"{self.common.counter(loop.ran, 'ran')} = load_i64({self._ran_at(loop, at)})")
            if at.repeated:
                self.jobs.meet(at)  # nobody may run the loop again before all have looked

    def _call_brief(self, loop: TimeLoop, short: Brief, at: StatementPlace) -> None:
        """Call the variant of a loop for short rows, if rows are short in this call, or the one that passes numbers in
        registers."""
        if loop in self.common.done:
            self.common.done[short.loop] = self.common.done[loop]
        if short.sizes:
            self.draft.add(at, f"if {short.condition(self.common.number)}:")
            at = at.inside
        call = self._loop_function(short.loop, at, True, True, short)
        if is_alone(loop):
            self._look_before(loop, at)
        with self.jobs.first_thread(at) as first:
            self.draft.add(first, call("thread"))
        self._read_steps(short.loop, at)

    def _loop_function(
        self,
        loop: TimeLoop | Blocks | RowsApart,
        at: StatementPlace,
        whole: bool,
        alone: bool,
        short: Brief | None = None,
    ) -> Callable[[str], str]:
        """Write the function of a loop, which one thread runs if it is `alone`; it may be the variant of another one
        for `short` rows. Returns what makes a call of it for the share of a thread."""
        rows = None if isinstance(loop, TimeLoop) else loop.own_rows
        place = replace(at, depth=0, rows=rows or at.rows)

        def write(inner: StatementWriter) -> None:
            inner.draft.alone |= alone
            if isinstance(loop, Blocks):
                inner._blocks(loop, place)
            elif isinstance(loop, RowsApart) and not whole:
                inner._kept_rows(loop, place)
            elif alone and whole:
                inner.draft.unbroken = not any(self.common.nests.of(nest).looks for nest in nests_of([loop]))
                inner._on_stack(_loop_of(loop), place, short)
            else:
                inner._loop(_loop_of(loop), place)

        own = None if whole else ("alone", alone)
        name, table, counters = self._function("loop", [loop], at, write, whole=whole, own=own)
        others = at.parameters[2:]
        return lambda thread: f"{name}({', '.join([table, thread, *others, *counters])})"

    def _ran_at(self, loop: TimeLoop, at: StatementPlace) -> str:
        """The address of the number of steps of a loop that ran."""
        assert loop.count is not None
        return self.common.address(loop.count.buffer, 0, at)

    def _on_stack(self, loop: TimeLoop, at: StatementPlace, short: Brief | None) -> None:
        """A loop over time, with the buffers that only it uses on the stack."""
        common = self.common
        after_loop: list[str] = []
        length = loop.length if loop.count is None else loop.ran
        if loop.count is not None:
            common.counter(loop.ran, "ran")
        for some in locals_of(loop, common.program, short):
            name, buffer = self.draft.fresh("kept"), some.buffer
            lanes = common.program.target.lanes(buffer.dtype.itemsize)
            self.draft.add(at, f"{name} = stack({some.stack_bytes})", *some.cleared(name, lanes))
            for carrier in some.carriers if some.slots > 1 else ():
                self.after_step[carrier] += some.copied(name, f"{name} + {some.nbytes}", lanes)
            if loop in some.carriers:
                slot = types.product(buffer.shape[1:])
                first, last = (
                    common.address(buffer, step % some.slots * slot, at) for step in (loop.start, loop.start + length)
                )
                self.draft.add(at, *some.copied(name, first, lanes))
                after_loop += some.copied(last, name, lanes)
            common.local[buffer] = name, some.known
        for row in () if short is None else short.rows:
            assert short is not None
            some, name = row_on_stack(row, short), self.draft.fresh("kept")
            lanes = common.program.target.lanes(row.buffer.dtype.itemsize)
            self.draft.add(at, f"{name} = stack({some.stack_bytes})", *some.cleared(name, lanes))
            first, size = common.address(row.first.buffer, row.first.offset, at), common.number(row.size)
            self.draft.add(at, f"if {common.number(loop.length)} > 0:")
            most = row.size if isinstance(row.size, int) else short.lanes * short.vectors
            self.draft.add(at.inside, *some.begun(name, first, size, lanes, most))
            self.after_step[loop] += some.copied(name, f"{name} + {some.nbytes}", lanes)
            common.local[row.buffer] = name, some.known
        self._loop(loop, at)
        self.draft.add(at, *after_loop)

    def _loop(self, loop: TimeLoop, at: StatementPlace) -> None:
        """A loop over time."""
        step, inside = self.common.counter(loop.step, "step"), replace(at, counted=True, repeated=True)
        if not at.counted:
            self.jobs.begin_loop(at, loop.total, loop.count is not None)
            self.common.done[loop] = 0
        if loop.count is not None:
            self.draft.add(at, f"{self.common.counter(loop.ran, 'ran')} = 0")
        if loop.stop is None and (loop.unroll is True or loop.unroll > 1):
            self._unrolled(loop, step, inside)
        else:
            self._steps(loop, step, at, inside.inside)
        if not at.counted:
            self.draft.add(at, "end_loop(line)")
        if loop.count is not None:
            ran = self.common.counter(loop.ran, "ran")
            with self.jobs.shares(at, "1") as (place, _):
                self.draft.add(place, f"store_i64({self._ran_at(loop, at)}, {ran})")
            if at.repeated:
                self.jobs.meet(at)  # a late thread looks at `stop` until here: it may hold something else then
        self.common.end([loop.step, loop.row])

    def _steps(self, loop: TimeLoop, step: str, at: StatementPlace, inside: StatementPlace) -> None:
        """The loop over steps, with a look in each turn. If steps have few operations, a turn is many steps."""
        start, stop = self.common.number(loop.start), self.common.number(loop.start + loop.length)
        together = steps_between_looks(loop) if self.draft.alone and self.draft.whole else 1
        turn = inside
        if together > 1:
            stretch = types.counter("stretch")
            first = self.common.counter(stretch, "stretch")
            self.draft.add(at, f"for {first} in range({start}, {stop}, {together}):")
            self._count(loop, stretch, inside)
            self.draft.add(inside, f"for {step} in range({first}, min({first} + {together}, {stop})):")
            turn = inside.inside
            self.common.end([stretch])
        else:
            self.draft.add(at, f"for {step} in range({'' if start == '0' else f'{start}, '}{stop}):")
            self._count(loop, loop.step, inside)
        self._step(loop, turn)
        self.draft.add(turn, *self.after_step[loop])
        self._ends(loop, step, turn)
        self.jobs.look(inside)

    def _count(self, loop: TimeLoop, step: Dimension, at: StatementPlace) -> None:
        """Note how many steps were made before this one, if the steps of this loop are counted."""
        if (before := self.common.done.get(loop)) is not None:
            self.draft.add(at, f"count_steps(line, {self.common.number(before + step - loop.start)})")

    def _step(self, loop: TimeLoop, at: StatementPlace) -> None:
        common, add = self.common, self.draft.add
        step, row = common.counter(loop.step, "step"), common.counter(loop.row, "row")
        add(at, f"{row} = {common.number(loop.total - 1)} - {step}" if loop.reverse else f"{row} = {step}")
        self.write(loop.suite, at)

    def _ends(self, loop: TimeLoop, step: str, at: StatementPlace) -> None:
        """End the loop if its step says so."""
        if loop.count is None or loop.stop is None:
            return
        ran, stop = self.common.counter(loop.ran, "ran"), self.common.address(loop.stop.buffer, 0, at)
        # Others may have come to later steps. Then this is the number of one of these steps, or 0.
        look = "load_i64" if self.draft.alone else "peek_i64"
        self.draft.add(at, f"{ran} = {step} + 1", f"if {look}({stop}) == {ran}:", "    break")

    def _unrolled(self, loop: TimeLoop, step: str, at: StatementPlace) -> None:
        """All steps, or several in each turn, one after the other: calls of one function that is a step."""
        start, stop = self.common.number(loop.start), self.common.number(loop.start + loop.length)
        if loop.length == 0:
            self.draft.add(at, "pass")
            return
        place = StatementPlace(rows=at.rows, team=at.team, counted=True, repeated=True)
        write = lambda inner: inner._step(loop, place)
        name, table, counters = self._function("step", [loop], place, write, step)

        def call(number: str) -> str:
            given = [number if counter == step else counter for counter in counters]
            return f"{name}({', '.join([table, *at.parameters[1:], *given])})"

        copies = loop.unroll
        if copies is True:  # a long loop repeats such a stretch
            copies = MOST_UNROLLED if isinstance(loop.length, int) else 1
        if loop.unroll is True and isinstance(loop.length, int) and loop.length <= MOST_UNROLLED:
            for number in range(loop.length):
                self._count(loop, loop.start + number, at)
                self.draft.add(at, call(str(number)))
                self.jobs.called(at)
            return
        full = self.common.number(loop.start + loop.length // copies * copies)
        for begin, end, many in [(start, full, copies), (full, stop, 1)]:
            if begin != end:
                self.draft.add(at, f"for {step} in range({begin}, {end}{f', {many}' if many > 1 else ''}):")
                self._count(loop, loop.step, at.inside)
                self.draft.add(at.inside, *(call(f"{step} + {copy}" if copy else step) for copy in range(many)))
                self.jobs.look(at.inside)

    # ---- side by side ------------------------------------------------------------------------------------------------

    def _beside(self, beside: Beside, at: StatementPlace) -> None:
        """Loops side by side: a function for each."""
        if beside.wave is not None:
            self.common.counter(beside.wave.number, "turn")
        calls = [self._branch(branch, at) for branch in beside.branches]
        BesideWriter(self.common, self.draft, self.jobs).write(beside, calls, at)
        self.common.end(beside.counters)

    def _branch(self, branch: Statement, at: StatementPlace) -> BranchCall:
        """Write a function that runs a branch. Returns what writes its call."""
        place = StatementPlace(team=True, counted=at.counted, repeated=at.repeated)
        write = lambda inner: inner.write([branch], place)
        name, table, counters = self._function("branch", [branch], place, write, own=("branch",))

        def call(thread: str, threads: str, sync: str, given: Mapping[str, str]) -> str:
            some = [given.get(counter, counter) for counter in counters]
            return f"{name}({', '.join([table, thread, threads, 'line', 'thread', sync, *some])})"

        return call


def _pieces(outlines: Sequence[object]) -> list[tuple[int, int]]:
    """Where to divide jobs that follow each other, so that as few as possible are written: a piece that calls the same
    functions as an earlier one is not written again. What no other piece repeats stays together, in portions of
    `PORTION` if it is long.

    Examples
    --------
    >>> _pieces("aabaabaabxyzw")
    [(0, 3), (3, 6), (6, 9), (9, 13)]
    >>> _pieces(range(40))
    [(0, 16), (16, 32), (32, 40)]
    """
    total, sizes = len(outlines), [len(outlines), *range(min(PORTION, len(outlines) // 2), FEWEST - 1, -1)]
    cut = {size: [tuple(outlines[i : i + size]) for i in range(0, total, size)] for size in sizes}
    size = min(sizes, key=lambda size: sum(map(len, set(cut[size]))))
    count = Counter(cut[size])
    found: list[tuple[int, int]] = []
    for again, run in itertools.groupby(range(len(cut[size])), lambda i: count[cut[size][i]] > 1):
        pieces = list(run)
        begin, end = pieces[0] * size, min(pieces[-1] * size + size, total)
        step = size if again else PORTION if end - begin > 2 * PORTION else end - begin
        found += [(i, min(i + step, end)) for i in range(begin, end, step)]
    return found


def _loop_of(loop: TimeLoop | RowsApart) -> TimeLoop:
    return loop if isinstance(loop, TimeLoop) else loop.loop


def _loops(few: Portion) -> bool:
    return any(statement.repeats and not statement.ends_early for statement in few)
