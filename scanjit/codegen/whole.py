"""Loops over time that are one function together with the functions of their nests.

To call a nest of a few operations takes as long as the nest. If the whole step is one function, LLVM sees all of it at
once. If one thread runs the loop (`alone`), it meets no others in it. The buffers that only the loop uses, or that it
carries from step to step, then lie on the stack (`Local`), and LLVM puts them into registers.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from scanjit import types
from scanjit.codegen.brief import Brief, HeldRow
from scanjit.codegen.looks import STRETCH
from scanjit.codegen.names import number, suffix
from scanjit.codegen.nest import NestSources
from scanjit.kinds import kind_of
from scanjit.records import record
from scanjit.schedule.nests import (
    LINE,
    Blocks,
    Buffer,
    GuestCall,
    If,
    LapackCall,
    Nest,
    Pack,
    Program,
    RowsApart,
    Statement,
    TimeLoop,
)
from scanjit.types import Atom

SHORT = 160
"""The nests of a step stand in the function of the loop only if all of them together have at most this many lines."""
LITTLE = 4096
"""And only if they have at most this many operations, as far as their number is known."""
SHORT_IN_BRIEF = 600
"""The variant for short rows may have so many lines: it has fewer instructions, as rows are single vectors."""
FEW = 16
"""A step counts as at least this many operations."""
SMALL = 512
"""A buffer on the stack has at most this many bytes."""
TRUTHS = 2
"""A buffer of truth values has at most this many: one in each slot. A step would wait longer for shuffles of parts of
vectors of bytes than for memory."""


@record(eq=True)
class Local:
    """A buffer that lies on the stack while a loop runs.

    A buffer that one or more `carriers`, the loop or loops in its step, carry from step to step may have two `slots`.
    In memory, steps use them in turn. On the stack, each step reads the first slot and writes the second, which is
    copied into the first at the end of the step. A carry that steps change in place has one slot, and so has a buffer
    that is not carried. A slot has `nbytes` bytes. What is `known` in the loop are numbers in the sizes of the buffer
    and in the places of its elements.
    """

    buffer: Buffer
    slots: int
    nbytes: int
    known: Mapping[Atom, int]
    carriers: tuple[TimeLoop, ...] = ()

    @property
    def stack_bytes(self) -> int:
        """The bytes that all slots take on the stack."""
        return -(-self.nbytes * self.slots // LINE) * LINE  # a vector that is not full may reach to the end of a line

    def copied(self, target: str, source: str, lanes: int) -> Iterator[str]:
        """Lines that copy a slot from one address to another, in vectors of `lanes` lanes as far as possible."""
        for more, name in self._vectors(self.nbytes, lanes):
            yield f"store({target}{more}, load_{name}({source}{more}))"

    def begun(self, target: str, source: str, size: str, lanes: int, most: int) -> Iterator[str]:
        """Lines that copy a row of `size` elements, at most `most`, from memory that has no room behind it. A number is
        copied as such: LLVM would keep it in a vector otherwise, and take it out again in each step."""
        if most == 1:
            yield f"store({target}, load_{suffix(self.buffer.dtype, 1)}({source}))"
            return
        name, itemsize = suffix(self.buffer.dtype, lanes), self.buffer.dtype.itemsize
        for place in range(0, most, lanes):
            more, left = (f" + {place * itemsize}", f" - {place}") if place else ("", "")
            yield f"store({target}{more}, load_masked_{name}({source}{more}, head_x{lanes}({size}{left})))"

    def cleared(self, target: str, lanes: int) -> Iterator[str]:
        """Lines that write zeros, if rows have room behind their elements. Nobody reads what is computed in that room;
        but an operation on a denormal number would take a processor 150 cycles."""
        if self.buffer.row is not None and self.buffer.row != self.buffer.shape[-1]:
            zero = number(self.buffer.dtype.type(0))
            for more, name in self._vectors(self.nbytes * self.slots, lanes):
                yield f"store({target}{more}, splat_{name}({zero}))"

    def _vectors(self, nbytes: int, lanes: int) -> Iterator[tuple[str, str]]:
        """The vectors that `nbytes` bytes consist of: the start of each, and the suffix of its type."""
        dtype, place = self.buffer.dtype, 0
        while place < nbytes:
            while lanes * dtype.itemsize > nbytes - place:
                lanes //= 2
            yield f" + {place}" if place else "", suffix(dtype, lanes)
            place += lanes * dtype.itemsize


def is_short(loop: TimeLoop, program: Program, sources: NestSources, short: Brief | None = None) -> bool:
    """Whether a step is a few short nests, none of which has many rows; it may be that of the variant of another loop
    for `short` rows. If steps may end the loop, one thread must run it: the others then read from memory how many
    steps ran."""
    lines = work = 0
    if short is None and loop.ends_early and not is_alone(loop):
        return False
    for statement in loop.every():
        if isinstance(statement, Nest):
            rows = None if statement.tile is None else statement.tile.rows
            if statement in program.single or (rows is not None and not isinstance(rows.size, int)):
                return False
            lines += sources.of(statement).text.count("\n")
            work += statement.operations if isinstance(statement.operations, int) else 0
        elif isinstance(statement, If):
            if not is_alone(loop):
                return False
        elif not isinstance(statement, Blocks | TimeLoop | RowsApart) or _copies(statement):
            return False
    return lines <= (SHORT if short is None or short.vectors > 1 else SHORT_IN_BRIEF) and work <= LITTLE


def steps_between_looks(loop: TimeLoop) -> int:
    """How many steps of a loop run between two looks whether to end: many, if all of a step is a few operations. A
    step that may be the last one, or of which it is not known how long it takes, is followed by a look."""
    work = 0
    for statement in loop.suite:
        if not isinstance(statement, Nest) or not isinstance(statement.operations, int):
            return 1
        work += statement.operations
    return 1 if loop.ends_early else 1 << (max(STRETCH // max(work, FEW), 1).bit_length() - 1)


def is_alone(loop: Statement) -> bool:
    """Whether one thread runs all of a loop: threads share nothing of a step."""
    return not any(_is_shared(statement) for statement in loop.every())


def _is_shared(statement: Statement) -> bool:
    """Whether threads may share a statement."""
    match statement:
        case Nest(tile=tile):
            return tile is None or tile.split is not None or tile.own is not None
        case Pack():
            columns = statement.sources[0].shape[-1]
            return not (isinstance(columns, int) and columns <= statement.width)
        case Blocks():
            return statement.own_rows is not None
        case _:
            return not isinstance(statement, TimeLoop | RowsApart | If | LapackCall | GuestCall)


def locals_of(loop: TimeLoop, program: Program, short: Brief | None = None) -> list[Local]:
    """The buffers that lie on the stack while one thread runs a loop, which may be the variant of another one for
    `short` rows. (The number of steps that ran stays in memory, as others read it.)"""
    found, refs = [], list(loop.all_refs())
    count = None if loop.count is None else loop.count.buffer
    own = Counter(buffer for buffer, _, _ in refs)
    (step,) = types.atoms(loop.step)
    inner = [each for each in loop.every() if isinstance(each, TimeLoop) and each is not loop]
    for buffer, mine in own.items():
        usual = buffer.kind == "temporary" and not buffer.fixed and buffer not in program.lasting
        rows = {} if short is None else short.known(buffer)
        nbytes = types.substitute(buffer.nbytes, rows)
        if not usual or not isinstance(nbytes, int) or not 0 < nbytes <= SMALL:
            continue
        if buffer is count or (kind_of(buffer.dtype).is_mask and nbytes > TRUTHS):
            continue
        carriers = tuple(each for each in inner if buffer in each.persistent)
        if program.uses[buffer] > mine and buffer in loop.persistent:
            carriers = (loop, *carriers)
        counted = {atom for each in carriers for dim in (each.step, each.ran) for atom in types.atoms(dim)}
        offsets = [types.substitute(offset, rows) for other, offset, _ in refs if other is buffer]
        first, third = ([types.substitute(each, dict.fromkeys(counted, n)) for each in offsets] for n in (0, 2))
        slots = buffer.shape[0] if carriers else 1
        if (
            (program.uses[buffer] == mine or loop in carriers)
            and all(each is loop or each.start == 0 for each in carriers)
            and isinstance(slots, int)
            and slots in (1, 2)
            and all(isinstance(offset, int) for offset in first)
            and first == third
        ):
            known = {**rows, **dict.fromkeys(counted, 0), step: 0}
            found.append(Local(buffer, slots, nbytes // slots, known, carriers))
    return found


def row_on_stack(row: HeldRow, short: Brief) -> Local:
    """The last row of a carry of which every step is stored, on the stack."""
    (step,) = types.atoms(short.loop.step)
    room, itemsize = row.buffer.shape[-1], row.buffer.dtype.itemsize
    nbytes = room * itemsize if isinstance(room, int) else -(-short.lanes * short.vectors * itemsize // LINE) * LINE
    return Local(row.buffer, 2, nbytes, {**short.known(row.buffer), step: 0}, (short.loop,))


def _copies(statement: Statement) -> bool:
    """Whether a loop writes several steps one after the other."""
    return isinstance(statement, TimeLoop) and (statement.unroll is True or statement.unroll > 1)
