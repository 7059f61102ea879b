"""When each temporary of a program is in use. Two temporaries that are never in use at the same time may share
memory."""

import sys
from collections.abc import Sequence

from scanjit.records import replace
from scanjit.schedule.nests import Beside, Blocks, Buffer, Job, Lifetime, Program, RowsApart, Statement
from scanjit.types import Dimension


def find_lifetimes(program: Program) -> Program:
    """The program with the lifetimes of its temporaries.

    A temporary that is used inside a loop and also outside of it is in use through the whole loop. A buffer that keeps
    its contents between calls is always in use. The condition of a branch, or of a loop that runs once, is in use to
    the end of the program: a thread that is late reads it when others have gone on.
    """
    walk = _Walk()
    walk.visit(program.suite)
    first, last = walk.first, walk.last | dict.fromkeys(walk.steering & walk.first.keys(), sys.maxsize)
    for begin, end in walk.loops:  # a buffer of a loop that is used again after it must survive the other steps
        for buffer in first:
            if begin <= first[buffer] <= end < last[buffer]:
                first[buffer] = begin
    found = [Lifetime(buffer, -1, sys.maxsize) for buffer in program.lasting]
    found += [
        Lifetime(b, first[b], last[b], walk.branches[b], walk.copies.get(b, 1))
        for b in first
        if b not in program.lasting
    ]
    return replace(program, lifetimes=tuple(found))


class _Walk:
    """A walk over the statements of a program. Each of them ends at a moment of its own."""

    def __init__(self) -> None:
        self.first: dict[Buffer, int] = {}
        self.last: dict[Buffer, int] = {}
        """The first and the last moment at which each temporary is used."""
        self.branches: dict[Buffer, dict[Dimension, frozenset[int]]] = {}
        """For each temporary, the branches that use it, by the `apart` of their `Beside`."""
        self.copies: dict[Buffer, Dimension] = {}
        self.loops: list[tuple[int, int]] = []
        """The first and the last moment of each loop."""
        self.steering: set[Buffer] = set()
        """The buffers of conditions of branches and loops that run once."""
        self._inside: list[tuple[Dimension, int]] = []
        """The branches around the statement that is visited."""
        self._moment = 0

    def visit(self, suite: Sequence[Statement], repeated: bool = False) -> None:
        """Walk over statements, and over those inside them."""
        for statement in suite:
            begin, lasts = self._moment, statement.repeats or bool(statement.lasting)
            known = set(self.first) if lasts else set()
            for buffer, _, _ in statement.refs():
                self._touch(buffer, begin)
                if not isinstance(statement, Job) and not repeated:
                    self.steering.add(buffer)
            again = repeated or statement.repeats
            for branch, inner in enumerate(statement.suites):
                if isinstance(statement, Beside):
                    self._inside.append((statement.apart, branch))
                    self.visit(inner, again)
                    self._inside.pop()
                else:
                    self.visit(inner, again)
            if isinstance(statement, Blocks | RowsApart) and statement.own_rows is not None:
                self.copies.update(dict.fromkeys(statement.private, statement.own_rows.copies))
            if lasts:
                for buffer in {b for b in known if self.last[b] >= begin} | statement.lasting:
                    self._touch(buffer, begin)
                self.loops.append((begin, self._moment))
            self._moment += 1

    def _touch(self, buffer: Buffer, begin: int) -> None:
        """Note that a temporary is in use from moment `begin` until now."""
        if buffer.kind == "temporary":
            self.first[buffer] = min(self.first.get(buffer, begin), begin)
            self.last[buffer] = max(self.last.get(buffer, begin), self._moment)
            known = self.branches.setdefault(buffer, {})
            for apart, branch in self._inside:
                known[apart] = known.get(apart, frozenset()) | {branch}
