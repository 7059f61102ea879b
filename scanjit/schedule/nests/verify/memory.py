"""Rules about buffers: what may be written, and that nothing is read before it is written."""

from collections.abc import Iterator, Sequence, Set as AbstractSet

from scanjit import types
from scanjit.schedule.nests.branches import Beside, If
from scanjit.schedule.nests.buffers import Buffer
from scanjit.schedule.nests.nest import Nest, nests_of
from scanjit.schedule.nests.program import Program
from scanjit.schedule.nests.statement import Statement, every_in
from scanjit.schedule.nests.values import Load
from scanjit.schedule.nests.verify.problem import Problem

KINDS = ("input", "output", "constant", "temporary")


def kinds_of_buffers(program: Program) -> Iterator[Problem]:
    """Inputs and constants are only read; a constant has data; results lie in outputs; inputs are the program's."""
    for statement in every_in(program.suite):
        for buffer, _, written in statement.refs():
            if buffer.kind not in KINDS:
                yield statement, f"buffer {buffer.name!r} is of no kind: {buffer.kind!r}"
            elif written and buffer.kind in ("input", "constant"):
                yield statement, f"it writes to {buffer.name!r}, which is {buffer.kind}"
            elif (buffer.kind == "constant") != (buffer.data is not None):
                yield statement, f"buffer {buffer.name!r} is {buffer.kind}, and has {buffer.data!r} as its data"
            elif buffer.kind == "input" and not any(buffer is known for known in program.inputs):
                yield statement, f"buffer {buffer.name!r} is none of the program's inputs"


def reads_follow_writes(program: Program) -> Iterator[Problem]:
    """A statement reads a temporary or an output only if statements before it have written it on every path. In a loop,
    they have written it before the loop, or earlier in the same turn. In a wave, earlier branches are before it."""
    written: set[Buffer] = set()
    for statement, buffer in _unwritten(program.suite, written):
        yield statement, f"it reads {buffer.name!r}, which nothing before it writes"
    for ref in program.outputs:
        if ref.buffer.kind != "output" or (ref.buffer not in written and 0 not in ref.shape):
            last = program.suite[-1] if program.suite else None
            if last is not None:
                yield last, f"the result in {ref.buffer.name!r} is not written, or lies in no output"


def read_before_written(loop: Statement) -> set[Buffer]:
    """The memory that a turn of a loop reads before it writes it: it holds something from before the loop, or from
    earlier turns. The buffer of a sum over time is among it: every turn but the first loads the sum."""
    counted = set(types.atoms(*loop.counters))
    begun = {
        value.access.buffer
        for nest in nests_of([loop])
        for value in nest.values
        if isinstance(value, Load) and not counted.isdisjoint(types.atoms(value.when))
    }
    return begun | {buffer for suite in loop.suites for _, buffer in _unwritten(suite, set())}


def _unwritten(suite: Sequence[Statement], written: set[Buffer]) -> Iterator[tuple[Statement, Buffer]]:
    """Each read of a buffer that is not in `written`. Afterwards, `written` also has the buffers that these statements
    certainly write."""
    for statement in suite:
        if not statement.repeats:
            yield from _missing(statement, written)
        after: list[set[Buffer]] = []
        for inner in statement.suites:
            found = set(written).union(*after) if isinstance(statement, Beside) and statement.wave else set(written)
            yield from _unwritten(inner, found)
            after.append(found)
        if isinstance(statement, If):
            written |= set.intersection(*after)
        else:
            written |= set().union(*after)
        if statement.repeats:  # after each turn, it reads whether to go on
            yield from _missing(statement, written)
        written |= {buffer for buffer, _, writes in statement.refs() if writes}


def _missing(statement: Statement, written: AbstractSet[Buffer]) -> Iterator[tuple[Statement, Buffer]]:
    for buffer in _read(statement):
        if buffer.kind in ("temporary", "output") and buffer not in written:
            yield statement, buffer


def _read(statement: Statement) -> set[Buffer]:
    """The buffers that a statement reads in its first turn. A statement also reads a buffer if it adds to it, or if it
    writes only a part of it."""
    read = {buffer for buffer, _, writes in statement.refs() if not writes}
    if isinstance(statement, Nest):
        loads = [value for value in statement.values if isinstance(value, Load)]
        always = {access.buffer for value in statement.values for access in value.accesses}
        always -= {load.access.buffer for load in loads if load.when != 1}
        always |= {load.access.buffer for load in loads if load.when == 1}
        always |= {access.buffer for access in statement.carried}
        always |= {store.access.buffer for store in statement.stores if store.add or store.indices}
        own = {store.access.buffer for store in statement.stores}
        return always | (read - own)
    return read
