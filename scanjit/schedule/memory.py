"""Where temporaries lie in the workspace: lifetimes now, addresses once the sizes are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scanjit import types
from scanjit.schedule.program import Blocks, Buffer, Program, Statement, TimeLoop, statement_refs
from scanjit.types import Atom

ALIGNMENT = 64


@dataclass(frozen=True)
class Lifetime:
    """A temporary, and the first and last moment at which it is used."""

    buffer: Buffer
    first: int
    last: int


def lifetimes(program: Program) -> list[Lifetime]:
    """The lifetimes of all temporaries. What a loop uses and something outside it too lives through the whole loop."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    moment = 0

    def touch(buffer: Buffer, begin: int, end: int) -> None:
        if buffer.kind == "temporary":
            first[buffer] = min(first.get(buffer, begin), begin)
            last[buffer] = max(last.get(buffer, end), end)

    def visit(body: Sequence[Statement]) -> None:
        nonlocal moment
        for statement in body:
            begin = moment
            if isinstance(statement, TimeLoop | Blocks):
                known = set(first)
                visit(statement.body)
                through = {b for b in first if b in known and last[b] >= begin}
                through |= _kept(statement) if isinstance(statement, TimeLoop) else set()
                for buffer in through:
                    touch(buffer, begin, moment)
                loops.append((begin, moment))
            else:
                for buffer, _, _ in statement_refs(statement):
                    touch(buffer, moment, moment)
            moment += 1

    loops: list[tuple[int, int]] = []
    visit(program.body)
    for begin, end in loops:  # used inside a loop, and again after it: it must survive the other steps
        for buffer in first:
            if begin <= first[buffer] <= end < last[buffer]:
                first[buffer] = begin
    return [Lifetime(buffer, first[buffer], last[buffer]) for buffer in first]


def _kept(loop: TimeLoop) -> set[Buffer]:
    """What a loop over time hands from step to step, or needs to begin."""
    flags = {ref.buffer for ref in (loop.stop, loop.count, loop.when) if ref is not None}
    return flags | set(loop.persistent)


def assign(lives: Sequence[Lifetime], sizes: Mapping[Atom, int]) -> tuple[list[int], int]:
    """Offsets of the temporaries in the workspace, and its size: first fit among those that live at the same time."""
    offsets: list[int] = []
    placed: list[tuple[int, int, Lifetime]] = []
    total = 0
    for life in lives:
        nbytes = -(-max(types.evaluate(life.buffer.nbytes, sizes), 1) // ALIGNMENT) * ALIGNMENT
        at = 0
        for start, end, other in sorted(placed, key=lambda entry: entry[0]):
            if other.last < life.first or life.last < other.first:
                continue
            if at + nbytes <= start:
                break
            at = max(at, end)
        offsets.append(at)
        placed.append((at, at + nbytes, life))
        total = max(total, at + nbytes)
    return offsets, total
