"""What depends on shared variables and constants alone: computed once a value, and kept between calls.

Right operands of products packed into panels are the reason for this: weights that do not change between calls are
packed once. Copies, transposes and whatever else is made of them come along, also where several statements write parts
of one buffer, as the parts of a concatenation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from scanjit import types
from scanjit.schedule.nests import (
    Buffer,
    Leaf,
    Program,
    Statement,
)
from scanjit.types import Atom, Dimension

Uses = Mapping[Buffer, Sequence[tuple[Statement, bool]]]
"""Of each buffer: the statements of a program that touch it, in order, and whether they write there."""


def prepared(program: Program) -> tuple[list[Leaf], list[Buffer]]:
    """The statements whose results stay the same as long as these inputs do, and the buffers in which the others find
    them."""
    uses = _uses(program.body)
    known = {atom for buffer in uses if _is_input(buffer) for atom in _atoms(buffer.shape)}
    found = dict.fromkeys(
        s for s in program.body if isinstance(s, Leaf) and s.repeatable and known.issuperset(_atoms(s.dims))
    )
    before = len(found) + 1
    while len(found) < before:
        before = len(found)
        for statement in list(found):  # in order: what reads of it goes in the same round
            if not _stays(statement, found, uses):
                del found[statement]
    made = dict.fromkeys(buffer for statement in found for buffer, writes in _touched(statement) if writes)
    return list(found), [buffer for buffer in made if any(statement not in found for statement, _ in uses[buffer])]


def _stays(statement: Leaf, found: Collection[Statement], uses: Uses) -> bool:
    """Whether a statement does the same in every call, if those do that were `found` to: it reads what is fixed and
    what they alone write, and so do all that write where it writes."""
    touched = list(_touched(statement))
    written = {buffer for buffer, writes in touched if writes}
    read = {buffer for buffer, writes in touched if not writes}
    beside = {other for buffer in written for other, writes in uses[buffer] if writes}
    reads = any(not writes for other in beside for _, writes in _touched(other))
    inputs = all(_is_input(buffer) or _is_made(buffer, found, uses) for buffer in read)
    return reads and inputs and all(_is_made(buffer, found, uses) for buffer in written)


def _atoms(dims: Iterable[Dimension]) -> set[Atom]:
    return {atom for dim in dims for atom in types.atoms(dim)}


def _is_input(buffer: Buffer) -> bool:
    return buffer.fixed and buffer.kind in ("input", "constant")


def _is_made(buffer: Buffer, found: Collection[Statement], uses: Uses) -> bool:
    """Whether these statements alone write a buffer, and nobody else reads it before they have."""
    last = max((i for i, (_, writes) in enumerate(uses[buffer]) if writes), default=-1)
    return buffer.kind == "temporary" and all(statement in found for statement, _ in uses[buffer][: last + 1])


def _uses(body: Sequence[Statement]) -> dict[Buffer, list[tuple[Statement, bool]]]:
    """Who touches which buffer."""
    found: dict[Buffer, list[tuple[Statement, bool]]] = {}
    for statement in body:
        for buffer, writes in _touched(statement):
            found.setdefault(buffer, []).append((statement, writes))
    return found


def _touched(statement: Statement) -> Iterator[tuple[Buffer, bool]]:
    """Every buffer that a statement touches, and whether it writes there; those inside a loop included."""
    yield from dict.fromkeys((buffer, writes) for buffer, _, writes in statement.all_refs())
