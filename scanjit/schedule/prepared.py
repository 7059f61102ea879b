"""What depends on shared variables and constants alone: computed once a value, and kept between calls.

Right operands of products packed into panels are the reason for this: weights that do not change between calls are
packed once. Copies, transposes and whatever else is made of them come along.
"""

from __future__ import annotations

from collections.abc import Iterable

from scanjit.schedule.program import (
    Beside,
    Blocks,
    Buffer,
    Fetch,
    Nest,
    Pack,
    Program,
    Statement,
    TimeLoop,
    inner,
    statement_refs,
    walk_values,
)


def prepared(program: Program, shared: Iterable[Buffer]) -> tuple[list[Nest | Pack], list[Buffer]]:
    """The statements whose results stay the same as long as these inputs do, and the buffers in which the others find
    them."""
    writers = _writers(program.body)
    fixed = {*shared, *(buffer for buffer in _buffers(program.body) if buffer.kind == "constant")}
    found: list[Nest | Pack] = []
    for statement in program.body:
        if isinstance(statement, Nest | Pack) and not _reports(statement):
            refs = list(statement_refs(statement))
            written = {buffer for buffer, _, writes in refs if writes}
            read = {buffer for buffer, _, writes in refs if not writes}
            alone = all(b.kind == "temporary" and writers[b] == [statement] for b in written)
            if alone and read and read <= fixed:
                found.append(statement)
                fixed |= written
    made = {buffer for statement in found for buffer, _, writes in statement_refs(statement) if writes}
    others = _buffers([statement for statement in program.body if statement not in found])
    return found, [buffer for buffer in made if buffer in others]


def _reports(statement: Nest | Pack) -> bool:
    """Whether it may report an index out of bounds: every call has to do that."""
    if isinstance(statement, Pack):
        return False
    indexed = any(store.indices for store in (*statement.stores, *statement.finals))
    return indexed or any(isinstance(value, Fetch) for value in walk_values(statement.roots))


def _writers(body: Iterable[Statement]) -> dict[Buffer, list[Statement]]:
    found: dict[Buffer, list[Statement]] = {}
    for statement in body:
        if isinstance(statement, TimeLoop | Blocks | Beside):
            for buffer, others in _writers(inner(statement)).items():
                found.setdefault(buffer, []).extend(others)
            flags = (statement.stop, statement.count) if isinstance(statement, TimeLoop) else ()
            for ref in flags:
                if ref is not None:
                    found.setdefault(ref.buffer, []).append(statement)
        else:
            for buffer in {buffer for buffer, _, writes in statement_refs(statement) if writes}:
                found.setdefault(buffer, []).append(statement)
    return found


def _buffers(body: Iterable[Statement]) -> dict[Buffer, None]:
    """Every buffer that statements touch."""
    found: dict[Buffer, None] = {}
    for statement in body:
        found |= _buffers(inner(statement))
        found |= dict.fromkeys(buffer for buffer, _, _ in statement_refs(statement))
    return found
