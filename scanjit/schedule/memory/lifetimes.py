"""When each temporary of a program is in use: two that never are at one time may share memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from scanjit.schedule.nests import Beside, Blocks, Buffer, Lifetime, Program, Statement
from scanjit.types import Dimension


def find_lifetimes(program: Program) -> Program:
    """The program with the lifetimes of its temporaries. What a loop uses, and a statement outside of it too, is in use
    through the whole loop; buffers that keep what is in them between calls are always in use."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    branches: dict[Buffer, dict[Dimension, frozenset[int]]] = {}
    copies: dict[Buffer, Dimension] = {}
    places: list[tuple[Dimension, int]] = []
    moment = 0

    def touch(buffer: Buffer, begin: int, end: int) -> None:
        if buffer.kind == "temporary":
            first[buffer] = min(first.get(buffer, begin), begin)
            last[buffer] = max(last.get(buffer, end), end)
            known = branches.setdefault(buffer, {})
            for apart, branch in places:
                known[apart] = known.get(apart, frozenset()) | {branch}

    def visit(suite: Sequence[Statement]) -> None:
        nonlocal moment
        for statement in suite:
            begin = moment
            known = set(first)
            for buffer, _, _ in statement.refs():
                touch(buffer, moment, moment)
            for branch, inside in enumerate(statement.suites):
                within = [(statement.apart, branch)] if isinstance(statement, Beside) else []
                places.extend(within)
                visit(inside)
                del places[len(places) - len(within) :]
            if isinstance(statement, Blocks) and statement.own_rows is not None:
                copies.update(dict.fromkeys(statement.private, statement.own_rows.copies))
            if statement.repeats:
                through = {b for b in first if b in known and last[b] >= begin} | statement.lasting
                for buffer in through:
                    touch(buffer, begin, moment)
                loops.append((begin, moment))
            moment += 1

    loops: list[tuple[int, int]] = []
    visit(program.suite)
    for begin, end in loops:  # used inside a loop, and again after it: it must survive the other steps
        for buffer in first:
            if begin <= first[buffer] <= end < last[buffer]:
                first[buffer] = begin
    found = [Lifetime(buffer, -1, sys.maxsize) for buffer in program.lasting]
    found += [Lifetime(b, first[b], last[b], branches[b], copies.get(b, 1)) for b in first if b not in program.lasting]
    return replace(program, lifetimes=tuple(found))
