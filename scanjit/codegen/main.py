"""A program's main function as Numba source: loops over time, and calls of its nests.

It takes the address of a table of int64: addresses of buffers, and numbers (sizes, strides) that the caller computed
from the sizes of this call. Only what changes from step to step is computed here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from scanjit import types
from scanjit.codegen.call import call_source
from scanjit.codegen.frame import PREPARED, PROFILE, SCRATCH, SCRATCH_BYTES, SYNC, SYNC_WORDS
from scanjit.codegen.nest import Source, finished, nest_source
from scanjit.codegen.pack import pack_source
from scanjit.ops.scan import MOST_UNROLLED
from scanjit.schedule.nests import (
    Beside,
    Blocks,
    Buffer,
    If,
    LapackCall,
    Leaf,
    Nest,
    OwnRows,
    Pack,
    Program,
    Statement,
    Tile,
    TimeLoop,
)
from scanjit.schedule.threads.split import in_pieces
from scanjit.target import Target
from scanjit.types import Atom, Dimension

OWN_WORDS = frozenset(
    "begin block column columns end even first high left line low n piece ran row rows runs shares step stopped "
    "tick".split()
) | {""}
"""What the variables begin with that a main function has of its own."""
UNLOOKED = 16
"""After so many calls of functions, and in each turn of a loop, a thread looks whether it is to end."""
DEEPEST = 8
"""Loops that are nested deeper are functions of their own: Python allows 20 loops inside each other."""
PORTION = 16
"""So many statements of a long sequence are a function of their own."""


@dataclass(frozen=True)
class Generated:
    """All source of a program: `functions` in an order in which each comes after those that it calls; the last is the
    main function. `table` lists what the caller puts in the table: addresses of buffers, and values of dimensions.
    `timed` are the statements whose time is taken: the buffer `PROFILE` gets two numbers of each, ticks and runs.
    `pieces` are nests that are computed a piece at a time, and the number of turns of `split` in a piece: an atom in
    `table`. `kept_sizes` are what the results of kept statements depend on, beside the values that they read."""

    functions: list[Source]
    table: list[Buffer | Dimension]
    timed: list[Leaf]
    pieces: list[tuple[Nest, Dimension]]
    kept_sizes: list[Dimension]

    @property
    def main(self) -> Source:
        """The function to call, with the address of the table."""
        return self.functions[-1]


def generate(
    program: Program,
    label: str = "main",
    profile: bool = False,
) -> Generated:
    """Generate the source of a program; with `profile`, it takes the time of each statement. Statements that run once
    are left out in calls for which the entry `PREPARED` of the table is not 0."""
    table: dict[tuple[str, Buffer | Dimension], str] = {}
    functions: dict[str, Source] = {}
    timed: list[Leaf] = []
    writer = _MainWriter(program.target, table, functions, {}, timed if profile else None)
    writer.once = program.once
    writer.statements(program.body, 0)
    main = writer.finished(label, [])
    return Generated(
        [*functions.values(), main], [entry for _, entry in table], timed, writer.pieces, list(writer.kept_sizes)
    )


class _Kept(NamedTuple):
    """Variables for how threads share a step: the number of a thread among those that share the columns of its rows,
    and how many these are; its own rows (all, where none are kept); and 0 where threads keep rows, else 1."""

    thread: str
    threads: str
    low: str
    high: str
    shares: str


class _MainWriter:
    """Writes a function that runs statements; several share a table, the functions that they call, and counters."""

    def __init__(
        self,
        target: Target,
        table: dict[tuple[str, Buffer | Dimension], str],
        functions: dict[str, Source],
        counters: dict[Atom, str],
        timed: list[Leaf] | None,
    ) -> None:
        self.target, self.table, self.functions, self.counters = target, table, functions, counters
        self.timed = timed
        self.once: Collection[Statement] = ()
        self.kept_sizes: dict[Dimension, None] = {}
        self.lines: list[str] = []
        self.shares: list[str] = []
        self._shared: dict[tuple[Dimension, int, OwnRows | None, bool], tuple[str, str]] = {}
        self._kept: dict[OwnRows, _Kept] = {}
        self._counts: dict[str, int] = {}
        self.rows: OwnRows | None = None
        """In a step whose threads may keep their rows."""
        self.calls: dict[str, None] = {}
        self.last = ""
        self.pieces: list[tuple[Nest, Dimension]] = []
        self.unlooked = 0
        """How many calls there were since the last look whether to end."""
        self.stepping = False
        self.team: tuple[str, ...] = ()
        """In a branch of what stands side by side, `thread` and `threads` count those of its team, and there are two
        parameters more: the number of the thread among all, and where the team meets."""

    def finished(self, label: str, parameters: list[str]) -> Source:
        """The source: what it uses of the table is loaded first."""
        words = self.words()
        loads = [
            f"    {name} = load_i64(table{f' + {8 * i}' if i else ''})"
            for i, name in enumerate(self.table.values())
            if name in words
        ]
        body = [*loads, *("    " + line for line in (*self.shares, *self.lines))]
        parameters = ["table", "thread", "threads", "line", *self.team, *parameters]
        return finished(label, body, parameters, (), (), tuple(self.calls))

    def words(self) -> set[str]:
        """Every name in what is written so far."""
        return set(re.findall(r"\w+", "\n".join((*self.shares, *self.lines))))

    def add(self, depth: int, line: str) -> None:
        """Add a line at a depth of indentation."""
        self.lines.append("    " * depth + line)

    def statements(self, body: Sequence[Statement], depth: int) -> None:
        """Write statements, in order."""
        if not body:
            self.add(depth, "pass")
        for few in _portions(body):
            deep = depth > DEEPEST and few[0].repeats and not few[0].ends_early
            if len(few) > 1 or deep:
                self._portion(few, depth)
            else:
                self._statement(few[0], depth)

    def _portion(self, few: Sequence[Statement], depth: int) -> None:
        """Write a function that runs some of many statements: the time to compile one grows faster than its length."""
        inner = _MainWriter(self.target, self.table, self.functions, self.counters, self.timed)
        inner.team, inner.once, inner.rows, inner.stepping = self.team, self.once, self.rows, self.stepping
        inner.kept_sizes, inner.pieces = self.kept_sizes, self.pieces
        own = _counted(few)
        known = [name for atom, name in self.counters.items() if atom not in own]
        for statement in few:
            inner._statement(statement, 0)
        function, outer = self._function(inner, "part", known)
        self.add(depth, f"{function}({', '.join(['table', 'thread', 'threads', 'line', *self.team, *outer])})")

    def _statement(self, statement: Statement, depth: int) -> None:
        if not isinstance(statement, Leaf):
            _WRITERS[type(statement)](self, statement, depth)
        elif statement in self.once:
            self.add(depth, f"if {self._entry('flag', PREPARED)} == 0:")
            self._leaf(statement, depth + 1)
            self.kept_sizes |= dict.fromkeys(self._sizes_of_last())
        else:
            self._leaf(statement, depth)

    def _leaf(self, leaf: Leaf, depth: int) -> None:
        """Run a leaf."""
        if self.timed is None:
            _WRITERS[type(leaf)](self, leaf, depth)
        else:
            self._timed(leaf, self.timed, depth)
        self._called(depth)

    def _sizes_of_last(self) -> Iterator[Dimension]:
        """The sizes that decide what the function does that was called last, and to what."""
        called = self.functions[self.last]
        yield from called.numbers
        yield from (offset for _, offset in called.addresses)
        if called.tile.split is not None:
            yield called.tile.split.size

    def _called(self, depth: int) -> None:
        """A function was called: look now and then whether to end."""
        self.unlooked += 1
        if self.unlooked == UNLOOKED:
            self._look(depth)

    def _look(self, depth: int) -> None:
        """End if this thread is interrupted. What is in memory then nobody reads."""
        self.unlooked = 0
        self.add(depth, "if interrupted(line):")
        self.add(depth + 1, "return")

    def _timed(self, leaf: Leaf, timed: list[Leaf], depth: int) -> None:
        """Run a leaf; the first thread adds up how long it took, waiting included, and how often it ran."""
        place = 16 * len(timed)
        timed.append(leaf)
        self.add(depth, "tick = clock()")
        _WRITERS[type(leaf)](self, leaf, depth)
        self.add(depth, "if thread == 0:")
        ticks, runs = (self._address(PROFILE, i) for i in (place // 8, place // 8 + 1))
        self.add(depth + 1, f"store_i64({ticks}, load_i64({ticks}) + clock() - tick)")
        self.add(depth + 1, f"store_i64({runs}, load_i64({runs}) + 1)")

    def _lapack(self, call: LapackCall, depth: int) -> None:
        self._call(call_source(call), depth)

    def _pack(self, pack: Pack, depth: int) -> None:
        lanes = min(self.target.lanes(pack.target.dtype.itemsize), max(pack.width, 1))
        self._call(pack_source(pack, lanes), depth)

    def _nest(self, nest: Nest, depth: int) -> None:
        """Call a nest. One whose register tile has several rows has a form for one row beside it, in a step and where
        it reads weights that are packed once for many calls: the rows are a batch, and a batch of one would compute the
        same row several times."""
        tile = nest.tile
        lasting = self.stepping or any(a.panel is not None and a.buffer.fixed for a, _ in nest.accesses())
        rows = tile.rows if tile is not None and tile.row_block > 1 and lasting else None
        if tile is None or rows is None or isinstance(rows.size, int):
            alone = depth == 0 and not self.team and not self.stepping
            self._call(nest_source(nest), depth, nest if alone and in_pieces(nest) else None)
            return
        single = replace(nest, tile=replace(tile, row_block=1, unit=1 if tile.split is rows else tile.unit))
        self.add(depth, f"if {self.number(rows.size)} == 1:")
        self._call(nest_source(single), depth + 1)
        self.add(depth, "else:")
        self._call(nest_source(nest), depth + 1)

    def _call(self, source: Source, depth: int, nest: Nest | None = None) -> None:
        """Call a function that runs a statement; for a nest that is given, a piece at a time."""
        self.functions[source.name] = source
        self.calls[source.name], self.last = None, source.name
        arguments = [self._address(buffer, offset) for buffer, offset in source.addresses]
        arguments += [self.number(dim) for dim in source.numbers]
        tile, kept = source.tile, self._keeping()
        if tile.rest:
            self._call_evenly(source, arguments, depth)
            return
        if tile.split is None:
            self.add(depth, f"if {kept.thread} == 0:")
            depth += 1
        else:
            share = self._share(tile, depth)
            if nest is not None:
                share, depth = self._piece(nest, share, depth), depth + 1
            arguments += share
        if tile.own is not None and tile.own is not tile.split:
            arguments += [_times(kept.low, self.number(tile.each)), _times(kept.high, self.number(tile.each))]
        arguments += ["line"] if source.looks else []
        self.add(depth, f"{source.name}({', '.join(arguments)})")
        self._meet(depth - (tile.split is None or nest is not None))

    def _piece(self, nest: Nest, share: tuple[str, str], depth: int) -> tuple[str, str]:
        """A loop over the pieces of a share, which looks before each of them whether to end; the bounds of a piece."""
        turns = types.size()
        self.pieces.append((nest, turns))
        self.add(depth, f"for piece in range({share[0]}, {share[1]}, max({self.number(turns)}, 1)):")
        self._look(depth + 1)
        return "piece", f"min(piece + {self.number(turns)}, {share[1]})"

    def _call_evenly(self, source: Source, arguments: list[str], depth: int) -> None:
        """Call a nest of which threads compute equally many pieces, and then rows of those that are left."""
        name, tile, own = source.name, source.tile, ["line"] if source.looks else []
        assert tile.split is not None
        assert tile.rows is not None
        kept, size, rows, block = self._keeping(), tile.split.size, tile.rows.size, tile.row_block
        pieces, thread, threads = self.number((size + (tile.unit - 1)) // tile.unit), kept.thread, kept.threads
        even, left, low, high = (self._fresh(word) for word in ("even", "left", "low", "high"))
        tiles = self.number((rows + (block - 1)) // block)
        lines = [
            f"{even} = {pieces}//{threads}*{tile.unit}",
            f"{left} = {even}*{threads}",
            f"{low} = {tiles}*{thread}//{threads}*{block}",
            f"{high} = min({tiles}*({thread} + 1)//{threads}*{block}, {self.number(rows)})",
        ]
        if any(atom in self.counters for atom in types.atoms(rows)):
            for line in lines:
                self.add(depth, line)
        else:
            self.shares += lines
        first, last = (kept.low, kept.high) if self.rows is not None else ("0", self.number(rows))
        end = f"min({even}*({thread} + 1), {self.number(size)})"
        self.add(depth, f"{name}({', '.join([*arguments, f'{even}*{thread}', end, first, last, *own])})")
        self.add(depth, f"if {left} < {self.number(size)}:")
        self.add(depth + 1, f"{name}({', '.join([*arguments, left, self.number(size), low, high, *own])})")
        self._meet(depth)

    def _meet(self, depth: int, everybody: bool = False) -> None:
        """All threads (of a team) wait here for each other; in a step, those that share its rows."""
        threads = "threads" if everybody else self._keeping().threads
        self.add(depth, f"barrier({'sync' if self.team else self._address(SYNC, 0)}, {threads}, line)")

    def _share(self, tile: Tile, depth: int) -> tuple[str, str]:
        """Variables for the range of a nest's `split` that this thread computes."""
        assert tile.split is not None
        size, unit, kept = tile.split.size, tile.unit, self._keeping()
        moves = any(atom in self.counters for atom in types.atoms(size))
        key = size, unit, self.rows, tile.split is tile.own
        if not moves and key in self._shared:
            return self._shared[key]
        begin, end = self._fresh("begin"), self._fresh("end")
        pieces, scale = self.number((size + (unit - 1)) // unit), f"*{unit}" if unit > 1 else ""
        first = f"{pieces}*{kept.thread}//{kept.threads}{scale}"
        last = f"min({pieces}*({kept.thread} + 1)//{kept.threads}{scale}, {self.number(size)})"
        if tile.split is tile.own:  # its own rows, or a share of those that all go over together
            each = self.number(tile.each)
            first = f"{_times(kept.low, each)} + {kept.shares}*({pieces}*thread//threads{scale})"
            last = f"min({pieces}*(thread + 1)//threads{scale}, {self.number(size)})"
            last = f"{_times(kept.high, each)} + {kept.shares}*({last} - {_times(kept.high, each)})"
        lines = [f"{begin} = {first}", f"{end} = {last}"]
        if moves:
            for line in lines:
                self.add(depth, line)
        else:
            self.shares += lines
            self._shared[key] = begin, end
        return begin, end

    def _keeping(self) -> _Kept:
        """How the threads share the nests of this place."""
        rows = self.rows
        if rows is None:
            return _Kept("thread", "threads", "0", "0", "1")
        if rows not in self._kept:
            flag, size = self.number(rows.kept), self.number(rows.size)
            made = _Kept(*(self._fresh(name) for name in ("column", "columns", "low", "high", "shares")))
            pieces, scale = self.number((rows.size + (rows.unit - 1)) // rows.unit), f"*{rows.unit}"
            scale = scale if rows.unit > 1 else ""
            last = f"min({pieces}*(thread + 1)//threads{scale}, {size})"
            self.shares += [
                f"{made.shares} = 1 - {flag}",
                f"{made.thread} = thread*{made.shares}",
                f"{made.threads} = threads - {flag}*(threads - 1)",
                f"{made.low} = {flag}*({pieces}*thread//threads{scale})",
                f"{made.high} = {size} + {flag}*({last} - {size})",
            ]
            self._kept[rows] = made
        return self._kept[rows]

    def _fresh(self, name: str) -> str:
        """A new variable."""
        self._counts[name] = self._counts.get(name, -1) + 1
        return f"{name}{self._counts[name]}"

    # ---- loops ------------------------------------------------------------------------------------------------------

    def _counter(self, dim: Dimension, name: str) -> str:
        """A variable for a dimension that changes while the program runs."""
        atom = types.as_atom(dim)
        assert atom is not None
        if atom not in self.counters:
            same = sum(known.startswith(name) for known in self.counters.values())
            self.counters[atom] = f"{name}{same}"
        return self.counters[atom]

    def _blocks(self, blocks: Blocks, depth: int) -> None:
        """A loop over blocks of time."""
        first, rows = self._counter(blocks.first, "first"), self._counter(blocks.rows, "rows")
        total, size = self.number(blocks.total), self.number(blocks.size)
        block = first.replace("first", "block")  # a range whose step is no literal could raise: count blocks
        count = self.number((blocks.total + (blocks.size - 1)) // blocks.size)
        self.add(depth, f"for {block} in range({count}):")
        self.add(depth + 1, f"{first} = {f'({count} - 1 - {block})' if blocks.backwards else block}*{size}")
        self.add(depth + 1, f"{rows} = min({size}, {total} - {first})")
        self.statements(blocks.body, depth + 1)
        self._look(depth + 1)

    def _if(self, choice: If, depth: int) -> None:
        """The branch that is chosen."""
        runs = self._fresh("runs")
        self.add(depth, f"{runs} = load_i64({self._address(choice.condition.buffer, choice.condition.offset)})")
        self._meet(depth)  # nobody may write it anew before all have looked
        self.add(depth, f"if {runs} != 0:")
        self.statements(choice.then, depth + 1)
        self.add(depth, "else:")
        self.statements(choice.otherwise, depth + 1)

    def _loop(self, loop: TimeLoop, depth: int) -> None:
        """A loop over time."""
        step = self._counter(loop.step, "step")
        if loop.count is not None:  # a thread knows itself how many steps ran: others may go on, and write there
            self.add(depth, f"store_i64({self._address(loop.count.buffer, 0)}, 0)")
            self.add(depth, f"{self._counter(loop.ran, 'ran')} = 0")
            self._meet(depth)
        if loop.stop is None and (loop.unroll is True or loop.unroll > 1):
            self._unrolled(loop, step, depth)
        else:
            bounds = f"{self.number(loop.start)}, " if loop.start != 0 else ""
            self.add(depth, f"for {step} in range({bounds}{self.number(loop.start + loop.length)}):")
            self._step(loop, step, depth + 1)
            self._look(depth + 1)
        if loop.rows is not None:
            self._meet(depth, everybody=True)

    def _unrolled(self, loop: TimeLoop, step: str, depth: int) -> None:
        """All steps, or several an iteration, one after the other: calls of one function that is a step."""
        start, stop = self.number(loop.start), self.number(loop.start + loop.length)
        if loop.length == 0:
            self.add(depth, "pass")
            return
        call = self._step_function(loop, step)
        copies = loop.unroll
        if copies is True:  # a long loop iterates over such stretches
            copies = MOST_UNROLLED if isinstance(loop.length, int) else 1
        if loop.unroll is True and isinstance(loop.length, int) and loop.length <= MOST_UNROLLED:
            for number in range(loop.length):
                self.add(depth, call(str(number)))
                self._called(depth)
            return
        full = self.number(loop.start + loop.length // copies * copies)
        if copies > 1:
            self.add(depth, f"for {step} in range({start}, {full}, {copies}):")
            for copy in range(copies):
                self.add(depth + 1, call(f"{step} + {copy}" if copy else step))
            self._look(depth + 1)
        if full != stop or copies == 1:
            self.add(depth, f"for {step} in range({full if copies > 1 else start}, {stop}):")
            self.add(depth + 1, call(step))
            self._look(depth + 1)

    def _step_function(self, loop: TimeLoop, step: str) -> Callable[[str], str]:
        """Write a function that runs one step; returns how it is called for a step."""
        inner = _MainWriter(self.target, self.table, self.functions, self.counters, self.timed)
        inner.team = self.team
        own = _counted([loop])  # known from before, if the same steps are written a second time
        known = [name for atom, name in self.counters.items() if atom not in own or name == step]
        inner._step(loop, step, 0)
        function, outer = self._function(inner, "step", known)

        def call(number: str) -> str:
            arguments = [number if name == step else name for name in outer]
            return f"{function}({', '.join(['table', 'thread', 'threads', 'line', *self.team, *arguments])})"

        return call

    def _function(self, inner: _MainWriter, label: str, known: Sequence[str]) -> tuple[str, list[str]]:
        """A function of what another writer wrote: its name, and which of the `known` counters it takes."""
        outer = [name for name in known if name in inner.words()]
        function = inner.finished(label, outer)
        self.functions[function.name] = function
        self.calls[function.name] = None
        return function.name, outer

    # ---- side by side ----------------------------------------------------------------------------------------------

    def _beside(self, beside: Beside, depth: int) -> None:
        """Loops side by side: a function for each, which all threads call, or those of its team."""
        calls = [self._branch(branch) for branch in beside.branches]
        self.add(depth, f"if {self.number(beside.apart)} == 0 or threads == 1:")
        for call in calls:
            self.add(depth + 1, call("thread", "threads", self._address(SYNC, 0)))
        self.add(depth, "else:")
        for k, (call, first, many) in enumerate(zip(calls, beside.first, beside.many, strict=True), start=1):
            begin, count = self.number(first), self.number(many)
            self.add(depth + 1, f"if {begin} <= thread < {begin} + {count}:")
            self.add(depth + 2, call(f"thread - {begin}", count, self._address(SYNC, k * SYNC_WORDS)))
        self._meet(depth + 1)

    def _branch(self, branch: Statement) -> Callable[[str, str, str], str]:
        """Write a function that runs a branch; returns how it is called by a thread of so many, that meet there."""
        inner = _MainWriter(self.target, self.table, self.functions, self.counters, self.timed)
        inner.team = ("worker", "sync")
        own = _counted([branch])  # known from before, if the steps of a loop are made again for its gradient
        known = [name for atom, name in self.counters.items() if atom not in own]
        inner.statements([branch], 0)
        function, outer = self._function(inner, "branch", known)

        def call(thread: str, threads: str, sync: str) -> str:
            return f"{function}({', '.join(['table', thread, threads, 'line', 'thread', sync, *outer])})"

        return call

    def _step(self, loop: TimeLoop, step: str, depth: int) -> None:
        row = self._counter(loop.row, "row")
        self.add(depth, f"{row} = {self.number(loop.total - 1)} - {step}" if loop.reverse else f"{row} = {step}")
        outer = self.stepping, self.rows
        self.stepping, self.rows = True, loop.rows
        self.statements(loop.body, depth)
        self.stepping, self.rows = outer
        if loop.count is not None and loop.stop is not None:
            stopped = step.replace("step", "stopped")
            self.add(depth, f"{self._counter(loop.ran, 'ran')} = {step} + 1")
            self.add(depth, f"store_i64({self._address(loop.count.buffer, 0)}, {self._counter(loop.ran, 'ran')})")
            self.add(depth, f"{stopped} = load_i64({self._address(loop.stop.buffer, 0)})")
            self._meet(depth)  # nobody may begin the next step before all have looked
            self.add(depth, f"if {stopped} != 0:")
            self.add(depth + 1, "break")

    # ---- numbers ----------------------------------------------------------------------------------------------------

    def _entry(self, kind: str, what: Buffer | Dimension) -> str:
        name = _word(what.name) if isinstance(what, Buffer) else "n"
        return self.table.setdefault((kind, what), f"{name}{len(self.table)}")

    def _address(self, buffer: Buffer, offset: Dimension) -> str:
        base = self._entry("buffer", buffer)
        if buffer is SCRATCH:
            return f"{base} + {'worker' if self.team else 'thread'}*{SCRATCH_BYTES}"
        offset = offset * buffer.dtype.itemsize
        return base if offset == 0 else f"{base} + {self.number(offset)}"

    def number(self, dim: Dimension) -> str:
        """A dimension as text: a literal, an entry of the table, or a polynomial in counters with such coefficients."""
        if isinstance(dim, int):
            return str(dim)
        if not any(atom in self.counters for atom in types.atoms(dim)):
            return self._entry("number", dim)
        groups: dict[tuple[Atom, ...], Dimension] = {}
        for monomial, factor in dim.terms:
            moving = tuple(atom for atom in monomial if self._moves(atom))
            still = types.monomial([atom for atom in monomial if not self._moves(atom)], factor)
            groups[moving] = groups.get(moving, 0) + still
        terms = []
        for moving, coefficient in groups.items():
            factors = [self._atom(atom) for atom in moving]
            if coefficient != 1 or not factors:
                factors.append(self.number(coefficient))
            terms.append("*".join(factors))
        return terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"

    def _moves(self, atom: Atom) -> bool:
        return any(inner in self.counters for inner in types.atoms(types.monomial([atom], 1)))

    def _atom(self, atom: Atom) -> str:
        if atom in self.counters:
            return self.counters[atom]
        left, right = (self.number(arg) for arg in atom.args)
        return f"{atom.kind}({left}, {right})" if atom.kind in ("min", "max") else f"({left} {atom.kind} {right})"


def _portions(body: Sequence[Statement]) -> list[Sequence[Statement]]:
    """Statements as they are; where many of them that are no loops come one after the other, `PORTION` at a time."""
    found: list[Sequence[Statement]] = []
    for plain, run in itertools.groupby(body, lambda statement: isinstance(statement, Leaf)):
        some = list(run)
        size = PORTION if plain and len(some) > 2 * PORTION else 1
        found += [some[i : i + size] for i in range(0, len(some), size)]
    return found


def _times(name: str, factor: str) -> str:
    return name if factor == "1" else f"{name}*{factor}"


def _counted(body: Sequence[Statement]) -> set[Atom]:
    """The atoms of what loops count."""
    every = (other for statement in body for other in statement.every())
    return {atom for statement in every for dim in statement.counters for atom in types.atoms(dim)}


def _word(name: str) -> str:
    """A buffer's name as the beginning of a variable's, different from those of the generator's own variables."""
    word = re.sub(r"[^a-z]+", "_", name.lower()).strip("_")
    return f"{word or 'buffer'}_" if word in OWN_WORDS else word


_WRITERS: Mapping[type[Statement], Callable[[_MainWriter, Any, int], None]] = {
    Beside: _MainWriter._beside,
    Blocks: _MainWriter._blocks,
    If: _MainWriter._if,
    LapackCall: _MainWriter._lapack,
    Nest: _MainWriter._nest,
    Pack: _MainWriter._pack,
    TimeLoop: _MainWriter._loop,
}
"""What writes each kind of statement."""
