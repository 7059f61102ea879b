"""The memory of calls: a table and temporaries, which later calls use again, and new arrays for results."""

import operator
from array import array

import numpy as np

from scanjit.runtime.addresses import address
from scanjit.runtime.pages import zeros
from scanjit.runtime.sized import Sized
from scanjit.runtime.table import STATUS_WORDS, EntryTable


class Workspace:
    """The table of a call and the memory of its temporaries. After the call, the lasting temporaries keep their values.

    Attributes
    ----------
    entries, table : the table, and its address. It lacks the addresses of arguments and results.
    status : the number of the entry in which code reports an index out of bounds.
    filled_for : the sizes for which it was filled.
    values : the values of the shared variables from which the lasting temporaries come; None if there are none.
    """

    __slots__ = ("entries", "filled_for", "memory", "status", "table", "values")

    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)
        self.entries = array("q")
        self.table = self.status = 0
        self.filled_for: Sized | None = None
        self.values: list[np.ndarray] | None = None

    def fill(self, sized: Sized, table: EntryTable) -> None:
        """Fill it for a call with these sizes."""
        last, self.filled_for = self.filled_for, sized
        if last is None or last.lasting != sized.lasting:
            self.values = None
        if self.memory.size < sized.workspace:
            # Zeros: what was in memory could be denormal numbers, with which processors compute slowly in lanes without
            # an element.
            self.memory, self.values = zeros(sized.workspace), None
        entries = self.entries = sized.entries[:]
        self.table, self.status = entries.buffer_info()[0], len(entries) - STATUS_WORDS
        base = address(self.memory)
        for entry, which in table.temporaries:
            entries[entry] = base + sized.offsets[which]
        for entry in table.status:
            entries[entry] = self.table + 8 * self.status

    def holds(self, values: list[np.ndarray]) -> bool:
        """Whether it has the lasting temporaries that were computed from these values.

        Arrays are compared by identity. Nobody writes to the array of a shared variable: a new value is a new array. It
        cannot take the place of the old one in memory, since the workspace keeps that alive.
        """
        return self.values is not None and all(map(operator.is_, self.values, values))
