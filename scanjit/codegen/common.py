"""The state while a function is written: facts about the program, the table of the function, and its counters."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import field
from typing import NamedTuple

from scanjit import types
from scanjit.codegen.names import FreshNames
from scanjit.codegen.nest import NestSources
from scanjit.codegen.places import SCRATCH
from scanjit.codegen.source import Source
from scanjit.records import record, replace
from scanjit.schedule.nests import SCRATCH_BYTES, Buffer, Job, Likeness, OwnRows, Program, Statement
from scanjit.schedule.threads.split import Piece
from scanjit.types import Atom, Dimension

OWN_WORDS = frozenset(
    "begin block column columns copy end even first high left length line low n piece ran row rows runs share since "
    "step stopped tick turn until".split()
) | {""}
"""The beginnings of the variables that the generator makes for itself."""


@record(eq=True)
class StatementPlace:
    """Where a statement stands in a function.

    Attributes
    ----------
    depth : how deep its lines are indented.
    rows : the rows that threads may keep, in a step of a loop with such rows.
    team : whether it is in a branch of loops side by side. There, `thread` and `threads` count those of the team, and
        functions have two more parameters: the number of the thread among all, and where the team meets.
    counted : whether it is in a loop over time whose steps are counted, so that the waiting caller can show them.
    repeated : whether it is in a loop, so that memory may be overwritten in the next turn.
    """

    depth: int = 0
    rows: OwnRows | None = None
    team: bool = False
    counted: bool = False
    repeated: bool = False

    @property
    def inside(self) -> StatementPlace:
        """One indentation deeper."""
        return replace(self, depth=self.depth + 1)

    @property
    def parameters(self) -> list[str]:
        """The parameters that all functions have at this place."""
        return ["table", "thread", "threads", "line", *(("worker", "sync") if self.team else ())]


class Written(NamedTuple):
    """A function that runs statements, what the statements are, and the positions of the counters that it takes, among
    those of the loops around the statements."""

    statements: Likeness
    function: Source
    counters: list[int]


@record(frozen=False)
class Common:
    """What is known of a program while a function of it is written.

    Attributes
    ----------
    program : the program.
    timed : the statements whose time is taken, in the order of their numbers; None if no time is taken.
    functions : the functions, by the digest of their text. A function stands behind those that it calls.
    written : for the key of statements, the function that runs them (see `codegen.alike`).
    pieces : how nests are computed a piece at a time.
    nests : the sources of nests.
    kept_sizes : the sizes that the statements of `Program.once` depend on.
    done : for each loop over time whose steps are counted, the number of steps in earlier blocks of time.
    table : the name of each entry that this function loads.
    counters : the variables of this function that count the steps and blocks of the loops around the present line.
    ended : the variables of `counters` whose loops have ended. No later loop of the function uses them again: LLVM does
        not move a value out of an inner loop if it depends on a variable that is assigned twice.
    named : whether variables for entries are called like buffers. Otherwise the names are the same in all functions, so
        that functions that do the same with different buffers have the same text, and become one.
    turned : whether each buffer has entries of its own for where addresses start and how far they move in a turn of a
        loop, even if these are known. Then loops that go through time in both directions have the same text.
    private : for each buffer of which every thread has a copy, the counter that is the number of the copy.
    local : for each buffer on the stack, the variable that holds its address, and what is known of its places.
    """

    program: Program
    timed: list[Job] | None
    functions: dict[str, Source] = field(default_factory=dict)
    written: dict[object, Written] = field(default_factory=dict)
    pieces: list[Piece] = field(default_factory=list)
    nests: NestSources = field(default_factory=NestSources)
    kept_sizes: dict[Dimension, None] = field(default_factory=dict)
    done: dict[Statement, Dimension] = field(default_factory=dict)
    table: dict[tuple[Hashable, Buffer | Dimension], str] = field(default_factory=dict)
    counters: dict[Atom, str] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    named: bool = True
    turned: bool = False
    private: dict[Buffer, Dimension] = field(default_factory=dict)
    local: dict[Buffer, tuple[str, Mapping[Atom, int]]] = field(default_factory=dict)

    def inside(self, counters: Mapping[Atom, str], turned: bool) -> Common:
        """The same for another function of the program, which gets the values of some counters."""
        return replace(self, table={}, counters=dict(counters), ended=set(), named=False, turned=turned, local={})

    def known(self, function: Source) -> Source:
        """The function of the program with the same text, if there is one; else this function. Two nests may have equal
        text and different names."""
        first = self.functions.setdefault(function.digest, function)
        return function if function.name == first.name else replace(function, name=first.name, text=first.text)

    def entry(self, kind: Hashable, content: Buffer | Dimension) -> str:
        """The variable that holds an entry of the table: an address or a number."""
        found = self.table.get((kind, content))
        if found is None:
            name = "n"
            if isinstance(content, Buffer):
                name = _word(content.name) if self.named else "p"
            found = self.table[kind, content] = f"{name}{len(self.table)}"
        return found

    def address(self, buffer: Buffer, offset: Dimension, at: StatementPlace) -> str:
        """The address of a position in a buffer, as text."""
        if buffer in self.local:
            base, known = self.local[buffer]
            first = types.substitute(offset, known) * buffer.dtype.itemsize
            return base if first == 0 else f"{base} + {first}"
        base = self.entry("buffer", buffer)
        if buffer is SCRATCH:
            return f"{base} + {'worker' if at.team else 'thread'}*{SCRATCH_BYTES}"
        offset = offset * buffer.dtype.itemsize + self.private.get(buffer, 0) * buffer.nbytes
        return base if offset == 0 else f"{base} + {self.number(offset, buffer)}"

    def given(self, function: Source) -> list[str]:
        """The numbers that a function takes, as text."""
        if not self.turned:
            return [self.number(dim) for dim in function.numbers]
        owned = [((function.name, i) if isinstance(dim, int) else None, dim) for i, dim in enumerate(function.numbers)]
        return [self.number(dim) if owner is None else self.entry(owner, dim) for owner, dim in owned]

    def counter(self, dim: Dimension, name: str) -> str:
        """The variable of a dimension that changes while the program runs."""
        (atom,) = types.atoms(dim)
        if atom not in self.counters:
            self.counters[atom] = unused(name, {*self.counters.values(), *self.ended})
        return self.counters[atom]

    def end(self, counted: Iterable[Dimension]) -> None:
        """Note that the loop with these counters has ended."""
        atoms = self.counters.keys() & types.atoms(*counted)
        self.ended.update(map(self.counters.pop, atoms))

    def moves(self, dim: Dimension) -> bool:
        """Whether a dimension changes while the program runs."""
        return any(atom in self.counters for atom in types.atoms(dim))

    def number(self, dim: Dimension, buffer: Buffer | None = None) -> str:
        """A dimension as text: a literal, an entry of the table, or a polynomial in counters with such coefficients. It
        may be an offset in a buffer."""
        if isinstance(dim, int):
            return str(dim)
        if not self.moves(dim):
            return self.entry("number", dim)
        groups: dict[tuple[Atom, ...], Dimension] = {}
        for monomial, factor in dim.terms:
            moving = tuple(sorted([a for a in monomial if self.moves(types.monomial([a], 1))], key=self._word_of))
            still = types.monomial([atom for atom in monomial if atom not in moving], factor)
            groups[moving] = groups.get(moving, 0) + still
        # By name: the order of atoms depends on the programs that were made before this one.
        groups = dict(sorted(groups.items(), key=lambda group: [self._word_of(atom) for atom in group[0]]))
        owned: list[tuple[Atom, ...]] = []
        if self.turned and buffer is not None:
            owned += [moving for moving in groups if len(moving) == 1 and moving[0] in self.counters]
        if owned:
            owned.append(())
            groups = {(): groups.pop((), 0), **groups}
        terms = []
        for moving, coefficient in groups.items():
            factors = [self._atom(atom) for atom in moving]
            if moving in owned:
                factors.append(self.entry((buffer, moving), coefficient))
            elif coefficient != 1 or not factors:
                factors.append(self.number(coefficient))
            terms.append("*".join(factors))
        return terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"

    def _word_of(self, atom: Atom) -> str:
        """The variable of a counter; nothing for a function of counters."""
        return self.counters.get(atom, "")

    def _atom(self, atom: Atom) -> str:
        if atom in self.counters:
            return self.counters[atom]
        left, right = (self.number(arg) for arg in atom.args)
        return f"{atom.kind}({left}, {right})" if atom.kind in ("min", "max") else f"({left} {atom.kind} {right})"


class Draft:
    """The lines of one function.

    `fresh` makes new variables. `shares` are lines that come first: they compute the share of the thread. `tables` are
    the tables of the functions that it calls, one after the other; its own entries lie behind them. If it is a `whole`,
    the functions of jobs that stand in the same source are `inside`, by name. `alone` says that one thread runs it. It
    is then `unbroken` if none of the functions that it calls ends early.
    """

    def __init__(self, whole: bool = False, alone: bool = False) -> None:
        self.lines: list[str] = []
        self.shares: list[str] = []
        self.calls: dict[str, None] = {}
        self.whole, self.alone, self.unbroken = whole, alone, False
        self.inside: dict[str, Source] = {}
        self.tables: list[Buffer | Dimension] = []
        self.fresh = FreshNames()

    def add(self, at: StatementPlace, *lines: str) -> None:
        """Add lines at the depth of a place."""
        self.lines += ["    " * at.depth + line for line in lines]

    def table_of(self, function: Source) -> str:
        """The address in the table at which the entries of a called function begin, as text."""
        place = 8 * len(self.tables)
        self.tables += function.table
        return f"table + {place}" if place else "table"

    def words(self) -> set[str]:
        """Every name in the lines so far."""
        return set(re.findall(r"\w+", "\n".join((*self.shares, *self.lines))))

    def text(
        self, names: Mapping[tuple[Hashable, Buffer | Dimension], str]
    ) -> tuple[list[str], list[Buffer | Dimension]]:
        """All lines, and the whole table. Entries of its own that the lines use are loaded first."""
        words, table, loads = self.words(), self.tables[:], []
        for (_, entry), name in names.items():
            if name in words:
                loads.append(f"{name} = load_i64(table{f' + {8 * len(table)}' if table else ''})")
                table.append(entry)
        return ["    " + line for line in (*loads, *self.shares, *self.lines)], table


def unused(word: str, names: Collection[str]) -> str:
    """A variable that begins with a word and is not among these names."""
    return next(new for k in itertools.count() if (new := f"{word}{k}") not in names)


def _word(name: str) -> str:
    """The name of a buffer as the beginning of a variable. It is never one of the generator's own words."""
    word = re.sub(r"[^a-z]+", "_", name.lower()).strip("_")
    return f"{word or 'buffer'}_" if word in OWN_WORDS else word
