"""A program with the sizes of a call: where everything lies, and what each thread does."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from scanjit import errors, types
from scanjit.records import record
from scanjit.runtime.addresses import address
from scanjit.runtime.layout import Layout
from scanjit.runtime.spare import maker
from scanjit.runtime.table import STATUS_WORDS
from scanjit.schedule.memory.addresses import assign
from scanjit.schedule.threads.sharing import Sharing
from scanjit.types import Numbers


class ResultView(NamedTuple):
    """Where a result lies: in buffer number `buffer`, of which `cut` makes a view. None if it is the whole buffer."""

    buffer: int
    cut: Callable[[np.ndarray], np.ndarray] | None


def _cut(whole: tuple[int, ...], shape: tuple[int, ...], start: int) -> Callable[[np.ndarray], np.ndarray] | None:
    """What makes a view of a `shape` of a whole array, `start` elements behind its own start."""
    if start == 0 and shape == whole:
        return None
    row = math.prod(whole[1:])
    if shape and shape[1:] == whole[1:] and row and start % row == 0:
        return itemgetter(slice(start // row, start // row + shape[0]))  # three times as fast as what follows
    return lambda array: np.ndarray(shape, array.dtype, array, start * array.itemsize)


@record
class Sized:
    """Facts about a call that follow from its sizes alone.

    Attributes
    ----------
    number : the values of dimensions, also of those that are decided from sizes.
    entries : the table without addresses, the status included.
    workspace : the bytes of the workspace, in which all temporaries lie.
    offsets, nbytes : where each temporary lies there, and how large it is.
    lasting : where the temporaries lie that keep their values between calls, and the sizes that these depend on. If
        this is equal for two calls, the second can use the values that the first left in a workspace.
    buffers : make the buffers for results.
    results : where the results lie in these buffers; None if each result is a whole buffer.
    sharing : how threads share the work.
    """

    number: Numbers
    entries: array[int]
    workspace: int
    offsets: list[int]
    nbytes: list[int]
    lasting: list[tuple[int, int]]
    buffers: Sequence[Callable[[], np.ndarray]]
    results: list[ResultView] | None
    sharing: Sharing


def sized(layout: Layout, number: Numbers, shared: Sharing) -> Sized:
    """A program with the sizes of a call, whose threads share it like this."""
    table = layout.table
    number = number.with_more(shared.numbers)
    turns: dict[types.Atom, int] = {}
    for piece in layout.pieces:
        (atom,) = types.atoms(piece.turns)
        turns[atom] = piece.value(number)
    number = number.with_more(turns)
    entries = array("q", bytes(8 * (table.size + STATUS_WORDS)))
    for dim, places in table.numbers:
        value = number(dim)
        if not -(2**63) <= value < 2**63:
            raise errors.ShapeError("a size or a place in memory has more than 64 bits", got=f"{dim}, which is {value}")
        for i in places:
            entries[i] = value
    for i, data in table.constants:
        entries[i] = address(data)
    lives = table.lives_for(1) if shared.small else table.lives
    offsets, total = assign(lives, number)
    nbytes = [max(number(life.nbytes), 0) for life in lives]  # of a branch that must not run
    lasting = list(zip(offsets, nbytes, strict=True))[: table.lasting]
    lasting += [(-1, number(dim)) for dim in layout.kept_sizes]
    shapes = [tuple(map(number, buffer.shape)) for buffer in table.out_buffers]
    results: list[ResultView] = []
    for which, offset, dims in layout.results:
        shape = tuple(map(number, dims))
        start = number(offset) if all(shape) else 0  # nothing lies anywhere
        results.append(ResultView(which, _cut(shapes[which], shape, start)))
    same = all(result.cut is None for result in results) and [result.buffer for result in results] == [
        *range(len(shapes))
    ]
    buffers = [maker(*pair) for pair in zip(shapes, (b.dtype for b in table.out_buffers), strict=True)]
    return Sized(number, entries, total, offsets, nbytes, lasting, buffers, None if same else results, shared)
