"""Statements that depend only on shared variables and constants: they run only when a shared variable has a new value.

An example are weights that do not change between calls: they are packed once. Whatever else is computed from them, such
as a transposed copy, also runs once. A variable that the function itself updates has another value in every call, so
statements that read it run in every call. Several statements may write parts of one buffer, as for a concatenation.

Roots of unity depend on a length alone. If nothing else runs once, they are computed when a call has another length
than the one before.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from scanjit import types
from scanjit.records import replace
from scanjit.schedule.nests import Buffer, Job, Program, RootsOfUnity, Statement

Uses = Mapping[Buffer, Sequence[tuple[Statement, bool]]]
"""For each buffer, the statements of a program that touch it, in order, and whether they write there."""


def find_once(program: Program) -> Program:
    """The program with its statements that run once (`Program.once`), and the buffers that they fill for other
    statements."""
    uses = _uses(program.suite)
    known = {atom for buffer in uses if _is_input(buffer) for atom in types.atoms(*buffer.shape)}
    jobs = [s for s in program.suite if isinstance(s, Job) and s.repeatable]
    found = _staying((s for s in jobs if known.issuperset(types.atoms(*s.dims))), uses)
    # Roots alone: otherwise weights would be packed again for each new length.
    found = found or _staying(filter(_of_length, jobs), uses)
    made = dict.fromkeys(buffer for statement in found for buffer, writes in statement.touched if writes)
    lasting = tuple(buffer for buffer in made if any(statement not in found for statement, _ in uses[buffer]))
    return replace(program, once=tuple(found), lasting=lasting)


def _staying(jobs: Iterable[Job], uses: Uses) -> dict[Job, None]:
    """Those of some jobs that do the same in every call."""
    found = dict.fromkeys(jobs)
    before = len(found) + 1
    while len(found) < before:
        before = len(found)
        for statement in list(found):  # in order: a statement that reads its result is removed in the same round
            if not _stays(statement, found, uses):
                del found[statement]
    return found


def _stays(statement: Job, found: Collection[Statement], uses: Uses) -> bool:
    """Whether a statement does the same in every call, if the statements in `found` do. It reads only fixed inputs and
    buffers that only they write, and no other statement writes where it writes."""
    written = statement.written_buffers
    read = {buffer for buffer, writes in statement.touched if not writes}
    beside = {other for buffer in written for other, writes in uses[buffer] if writes}
    reads = _of_length(statement) or any(not writes for other in beside for _, writes in other.touched)
    inputs = all(_is_input(buffer) or _is_made(buffer, found, uses) for buffer in read)
    return reads and inputs and all(_is_made(buffer, found, uses) for buffer in written)


def _of_length(statement: Statement) -> bool:
    """Whether it computes roots of unity for a length that is known before a call runs."""
    roots = isinstance(statement, RootsOfUnity)
    return roots and all(atom.kind not in ("value", "counter") for atom in types.atoms(*statement.dims))


def _is_input(buffer: Buffer) -> bool:
    return buffer.fixed and buffer.kind in ("input", "constant")


def _is_made(buffer: Buffer, found: Collection[Statement], uses: Uses) -> bool:
    """Whether only these statements write a buffer, and others read it only after them."""
    last = max((i for i, (_, writes) in enumerate(uses[buffer]) if writes), default=-1)
    return buffer.kind == "temporary" and all(statement in found for statement, _ in uses[buffer][: last + 1])


def _uses(suite: Sequence[Statement]) -> dict[Buffer, list[tuple[Statement, bool]]]:
    """For each buffer, the statements that touch it, and whether they write."""
    found: dict[Buffer, list[tuple[Statement, bool]]] = {}
    for statement in suite:
        for buffer, writes in statement.touched:
            found.setdefault(buffer, []).append((statement, writes))
    return found
