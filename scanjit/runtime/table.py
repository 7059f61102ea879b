"""The table that generated code reads: the addresses of buffers and the values of sizes, in an order of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scanjit import types
from scanjit.codegen import Generated
from scanjit.codegen.places import PREPARED, SCRATCH, STATUS, SYNC, SYNC_WORDS
from scanjit.schedule import Program
from scanjit.schedule.nests import Beside, Buffer, Lifetime
from scanjit.schedule.threads.sharing import decided
from scanjit.types import Atom, Dim, Dimension

STATUS_WORDS = 8
"""The words of the status, which has a cache line of its own. It lies between the entries of a table and the words
where threads meet."""


@dataclass(frozen=True, eq=False)
class Table:
    """Which entry of a program's table is what. An entry that the code does not read is None.

    Attributes
    ----------
    inputs : of each argument.
    out_buffers, outputs : the buffers that hold results, and their entries.
    lives, temporaries : the lifetimes of the temporaries that the code uses, and their entries.
    lasting : how many temporaries keep their values between calls. They are the first ones.
    constants : entries, each with its array.
    status : the address of the status, in which code reports an index out of bounds.
    sync : the address of the words where threads meet.
    ready : the entry that says whether these values are there already: 0 or 1.
    numbers : entries, each with the size whose value it holds.
    tail : how many words lie behind the entries.
    atoms : the sizes of a call that the table and all places depend on.
    """

    inputs: list[int | None]
    out_buffers: list[Buffer]
    outputs: list[int | None]
    lives: list[Lifetime]
    temporaries: list[int]
    lasting: int
    constants: list[tuple[int, np.ndarray]]
    status: int | None
    sync: int | None
    ready: int | None
    numbers: list[tuple[int, Dimension]]
    tail: int
    atoms: list[Atom]

    @classmethod
    def of(cls, program: Program, code: Generated) -> Table:
        """The table of a program's code."""
        place = {entry: i for i, entry in enumerate(code.table) if isinstance(entry, Buffer)}
        out_buffers = list(dict.fromkeys(ref.buffer for ref in program.outputs))
        lives = [life for life in program.lifetimes if life.buffer in place]
        if SCRATCH in place:
            lives.append(Lifetime(SCRATCH, 0, sys.maxsize))
        branches = max((len(s.branches) for s in program.suite if isinstance(s, Beside)), default=0)
        numbers = [(i, entry) for i, entry in enumerate(code.table) if not isinstance(entry, Buffer)]
        return cls(
            inputs=[place.get(buffer) for buffer in program.inputs],
            out_buffers=out_buffers,
            outputs=[place.get(buffer) for buffer in out_buffers],
            lives=lives,
            temporaries=[place[life.buffer] for life in lives],
            lasting=sum(buffer in place for buffer in program.lasting),
            constants=[(i, buffer.data) for buffer, i in place.items() if buffer.data is not None],
            status=place.get(STATUS),
            sync=place.get(SYNC),
            ready=place.get(PREPARED),
            numbers=numbers,
            tail=STATUS_WORDS + SYNC_WORDS * (1 + branches),
            atoms=_atoms(program, code, [*out_buffers, *(life.buffer for life in lives)]),
        )


def _atoms(program: Program, code: Generated, buffers: Sequence[Buffer]) -> list[Atom]:
    """The sizes of a call; without the numbers that are decided when these are known."""
    dims: list[Dimension] = [entry for entry in code.table if isinstance(entry, Dim)]
    dims += [dim for buffer in buffers for dim in buffer.shape]
    dims += [dim for ref in program.outputs for dim in (*ref.shape, ref.offset)]
    ours = {atom for dim in (*decided(program), *(turns for _, turns in code.pieces)) for atom in types.atoms(dim)}
    return [atom for atom in dict.fromkeys(atom for dim in dims for atom in types.atoms(dim)) if atom not in ours]
