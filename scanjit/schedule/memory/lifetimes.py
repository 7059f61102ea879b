"""When each temporary of a program is in use: two that never are at one time may share memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from scanjit.schedule.nests import Beside, Blocks, Buffer, Job, Lifetime, Program, Statement
from scanjit.types import Dimension


def find_lifetimes(program: Program) -> Program:
    """The program with the lifetimes of its temporaries. What a loop uses, and a statement outside of it too, is in use
    through the whole loop; buffers that keep what is in them between calls are always in use. The condition of a branch
    or a loop that runs once is in use to the end: a thread that is late reads it when others have gone on."""
    walk = _Walk()
    walk.visit(program.suite)
    first, last = walk.first, walk.last | dict.fromkeys(walk.steering & walk.first.keys(), sys.maxsize)
    for begin, end in walk.loops:  # used inside a loop, and again after it: it must survive the other steps
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
        """The moments at which a temporary is used."""
        self.branches: dict[Buffer, dict[Dimension, frozenset[int]]] = {}
        """In which branches of which `Beside` (known by its `apart`) a temporary is used."""
        self.copies: dict[Buffer, Dimension] = {}
        self.loops: list[tuple[int, int]] = []
        """The first and the last moment of each loop."""
        self.steering: set[Buffer] = set()
        """The conditions of branches and loops that run once."""
        self._inside: list[tuple[Dimension, int]] = []
        """The branches around what is visited."""
        self._moment = 0

    def visit(self, suite: Sequence[Statement], repeated: bool = False) -> None:
        """Walk over some statements, and over those in them."""
        for statement in suite:
            begin, known = self._moment, set(self.first)
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
            if isinstance(statement, Blocks) and statement.own_rows is not None:
                self.copies.update(dict.fromkeys(statement.private, statement.own_rows.copies))
            if statement.repeats:
                for buffer in {b for b in known if self.last[b] >= begin} | statement.lasting:
                    self._touch(buffer, begin)
                self.loops.append((begin, self._moment))
            self._moment += 1

    def _touch(self, buffer: Buffer, begin: int) -> None:
        """Note that a temporary is in use from a moment until now."""
        if buffer.kind == "temporary":
            self.first[buffer] = min(self.first.get(buffer, begin), begin)
            self.last[buffer] = max(self.last.get(buffer, begin), self._moment)
            known = self.branches.setdefault(buffer, {})
            for apart, branch in self._inside:
                known[apart] = known.get(apart, frozenset()) | {branch}
