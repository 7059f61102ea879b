"""A program for the sizes of a call: where everything lies, and what each thread does."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from scanjit import types
from scanjit.codegen import Generated
from scanjit.runtime.addresses import address
from scanjit.runtime.table import Table
from scanjit.schedule import Program
from scanjit.schedule.memory.addresses import assign
from scanjit.schedule.nests import Ref
from scanjit.schedule.threads.sharing import Sharing, sharing
from scanjit.schedule.threads.split import piece
from scanjit.types import Atom


class Result(NamedTuple):
    """Where a result lies: from `start` to `stop` (in elements) in buffer number `buffer`."""

    buffer: int
    start: int
    stop: int
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Sized:
    """What is known of a call from its sizes alone.

    Attributes
    ----------
    sizes : the sizes, and the numbers that were decided from them.
    entries : the table without addresses; its tail included.
    workspace : the bytes of the workspace, in which all temporaries lie.
    offsets, nbytes : where each temporary lies there, and how large it is.
    lasting : where the temporaries lie that keep their values between calls, and the sizes that these depend on. What a
        call with other sizes left in a workspace can be used if this is equal.
    shapes : the shapes of the buffers for results.
    results : where the results lie in these.
    sharing : how threads share the work.
    """

    sizes: Mapping[Atom, int]
    entries: array[int]
    workspace: int
    offsets: list[int]
    nbytes: list[int]
    lasting: list[tuple[int, int]]
    shapes: list[tuple[int, ...]]
    results: list[Result]
    sharing: Sharing


def sized(program: Program, code: Generated, table: Table, sizes: Mapping[Atom, int], threads: int) -> Sized:
    """A program for some sizes, and so many threads."""
    shared = sharing(program, sizes, threads)
    known = {**sizes, **shared.numbers()}
    for nest, turns in code.pieces:
        atom = types.as_atom(turns)
        assert atom is not None
        known[atom] = piece(nest, known)
    entries = array("q", bytes(8 * (len(code.table) + table.tail)))
    for dim, places in table.numbers:
        value = types.evaluate(dim, known)
        for i in places:
            entries[i] = value
    for i, data in table.constants:
        entries[i] = address(data)
    offsets, total = assign(table.lives, known)
    nbytes = [types.evaluate(life.buffer.nbytes, known) for life in table.lives]
    lasting = list(zip(offsets, nbytes, strict=True))[: table.lasting]
    lasting += [(-1, types.evaluate(dim, known)) for dim in code.kept_sizes]
    shapes = [tuple(types.evaluate(d, known) for d in buffer.shape) for buffer in table.out_buffers]
    results = [_result(ref, table, known) for ref in program.outputs]
    return Sized(known, entries, total, offsets, nbytes, lasting, shapes, results, shared)


def _result(ref: Ref, table: Table, sizes: Mapping[Atom, int]) -> Result:
    shape = tuple(types.evaluate(d, sizes) for d in ref.shape)
    start = types.evaluate(ref.offset, sizes)
    return Result(table.out_buffers.index(ref.buffer), start, start + math.prod(shape), shape)
