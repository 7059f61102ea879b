"""The memory of calls: workspaces for temporaries, which later calls use again, and new arrays for results."""

import operator
from array import array

import numpy as np

from scanjit.runtime.addresses import address
from scanjit.runtime.sized import Sized
from scanjit.runtime.table import Table
from scanjit.schedule.memory.addresses import ALIGNMENT

MOST_KEPT = 4
"""How many workspaces are kept for the next calls. There are more only while more calls run at once."""


class Workspace:
    """Memory for the temporaries of a call; afterwards, it still holds what lasts between calls.

    `filled_for` says for which sizes that was computed (None: it holds nothing), and `values` from which values of the
    shared variables. `entries` is the table of the call, for the next one with the same sizes: only the addresses of
    arguments and results are missing.
    """

    __slots__ = ("entries", "filled_for", "memory", "values")

    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)
        self.filled_for: Sized | None = None
        self.values: list[np.ndarray] = []
        self.entries = array("q")

    @property
    def base(self) -> int:
        """The address at which the temporaries begin."""
        return -(-address(self.memory) // ALIGNMENT) * ALIGNMENT

    def holds(self, sized: Sized, values: list[np.ndarray]) -> bool:
        """Whether what lasts between calls is there, for these sizes and values.

        Arrays are compared by identity. Nobody writes to the array of a shared variable: a new value is a new array. It
        cannot take the place of the old one in memory, since the workspace keeps that alive.
        """
        last = self.filled_for
        same = last is not None and (last is sized or last.lasting == sized.lasting)
        return same and all(map(operator.is_, self.values, values))


class Workspaces:
    """The workspaces of a program: one for each call that runs."""

    def __init__(self) -> None:
        self.free: list[Workspace] = []

    def take(self, nbytes: int) -> Workspace:
        """A workspace of so many bytes: one that an earlier call left, or a new one."""
        try:
            workspace = self.free.pop()
        except IndexError:
            workspace = Workspace()
        if workspace.memory.size < nbytes + ALIGNMENT:
            workspace.memory, workspace.filled_for = np.empty(nbytes + ALIGNMENT, np.uint8), None
        return workspace

    def leave(self, workspace: Workspace) -> None:
        """Keep a workspace for the next call."""
        if len(self.free) < MOST_KEPT:
            self.free.append(workspace)


def new_results(sized: Sized, table: Table) -> list[np.ndarray]:
    """New arrays, one for each buffer that holds results."""
    return [np.empty(shape, buffer.dtype) for shape, buffer in zip(sized.shapes, table.out_buffers, strict=True)]
