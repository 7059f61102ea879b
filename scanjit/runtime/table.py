"""The table that generated code reads: the addresses of buffers and the values of sizes. Each program has its own
order."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scanjit import types
from scanjit.codegen.places import PREPARED, SCRATCH, STATUS, SYNC
from scanjit.config import MOST_THREADS
from scanjit.records import record, replace
from scanjit.schedule.nests import Buffer, Lifetime, Program
from scanjit.schedule.threads.sharing import StatementCosts, decided
from scanjit.types import Atom, Dim, Dimension

if TYPE_CHECKING:
    # the front end, which is not imported at run time: a recipe from the cache does not need it
    from scanjit.codegen.generate import Generated

STATUS_WORDS = 8
"""The number of words of the status, which has a cache line of its own behind the entries of a table."""


@record
class EntryTable:
    """The meaning of the entries of a program's table. An entry is there once for each function that reads it.

    Attributes
    ----------
    size : how many entries there are.
    inputs : the entries for arguments, each with the number of the argument.
    out_buffers, outputs : the buffers that hold results; and their entries, each with the number of such a buffer.
    lives, temporaries : the lifetimes of the temporaries that the code uses; and their entries, each with the number of
        a temporary.
    scratch : whether the last temporary is the scratch memory of threads.
    lasting : how many temporaries keep their values between calls. They are the first ones.
    constants : the entries for constants, each with its array.
    status : the entry for the address of the status, in which code reports an index out of bounds.
    sync : the entry for the address of the words where threads meet.
    ready : the entry for a number that says whether the lasting values are there already: 0 or 1.
    numbers : the sizes, each with the entries that hold its value.
    atoms : the sizes of a call that the table and all places depend on.
    """

    size: int
    inputs: list[tuple[int, int]]
    out_buffers: list[Buffer]
    outputs: list[tuple[int, int]]
    lives: list[Lifetime]
    scratch: bool
    temporaries: list[tuple[int, int]]
    lasting: int
    constants: list[tuple[int, np.ndarray]]
    status: list[int]
    sync: list[int]
    ready: list[int]
    numbers: list[tuple[Dimension, list[int]]]
    atoms: list[Atom]

    @classmethod
    def of(cls, program: Program, code: Generated, costs: Sequence[StatementCosts]) -> EntryTable:
        """The table of a program's code. `costs` are those of its statements."""
        places: dict[Buffer, list[int]] = {}
        numbers: dict[Dimension, list[int]] = {}
        for i, entry in enumerate(code.table):
            if isinstance(entry, Buffer):
                places.setdefault(entry, []).append(i)
            else:
                numbers.setdefault(entry, []).append(i)

        def entries(buffers: Iterable[Buffer]) -> list[tuple[int, int]]:
            return [(i, which) for which, buffer in enumerate(buffers) for i in places.get(buffer, ())]

        out_buffers = list(dict.fromkeys(ref.buffer for ref in program.outputs))
        lives = [life for life in program.lifetimes if life.buffer in places]
        if SCRATCH in places:  # the last one, which `lives_for` knows
            lives.append(Lifetime(SCRATCH, 0, sys.maxsize, copies=MOST_THREADS))
        return cls(
            size=len(code.table),
            inputs=entries(program.inputs),
            out_buffers=out_buffers,
            outputs=entries(out_buffers),
            lives=lives,
            scratch=SCRATCH in places,
            temporaries=entries(life.buffer for life in lives),
            lasting=sum(buffer in places for buffer in program.lasting),
            constants=[(i, buffer.data) for buffer in places if buffer.data is not None for i in places[buffer]],
            status=places.get(STATUS, []),
            sync=places.get(SYNC, []),
            ready=places.get(PREPARED, []),
            numbers=list(numbers.items()),
            atoms=_atoms(program, code, costs, [*out_buffers, *(life.buffer for life in lives)]),
        )

    def lives_for(self, threads: int) -> list[Lifetime]:
        """The lifetimes of temporaries, with scratch memory for this many threads."""
        return [*self.lives[:-1], replace(self.lives[-1], copies=threads)] if self.scratch else self.lives


def _atoms(program: Program, code: Generated, costs: Sequence[StatementCosts], buffers: Sequence[Buffer]) -> list[Atom]:
    """The sizes of a call, without the numbers that are decided from these."""
    dims: list[Dimension] = [entry for entry in dict.fromkeys(code.table) if isinstance(entry, Dim)]
    dims += [dim for buffer in buffers for dim in buffer.shape]
    dims += [dim for ref in program.outputs for dim in (*ref.shape, ref.offset)]
    ours = set(types.atoms(*decided(costs), *(piece.turns for piece in code.pieces)))
    return [atom for atom in dict.fromkeys(types.atoms(*dims)) if atom not in ours]
