"""About how long threads take for statements, in operations of one thread on numbers of 32 bits."""

from collections.abc import Sequence

import numpy as np

from scanjit.records import record
from scanjit.schedule.cost import rates
from scanjit.schedule.cost.statements import Cost
from scanjit.schedule.nests import OwnRows
from scanjit.types import Numbers


@record(eq=True)
class Work:
    """The costs of some statements, for the sizes of a call. `near_bytes` is the size of the second-level cache of a
    core."""

    costs: Sequence[Cost]
    number: Numbers
    near_bytes: int

    @property
    def rows(self) -> list[OwnRows | None]:
        """The rows of each loop whose rows never meet. None stands for all statements outside of such loops."""
        return list(dict.fromkeys(cost.rows for cost in self.costs))

    @property
    def operations(self) -> float:
        """How many operations there are in all runs."""
        return sum(cost.runs * cost.operations for cost in self.costs)

    def time(self, threads: int) -> float:
        """How long this many threads take for all statements, each loop run in the faster way."""
        return sum(min(self.times(rows, threads)) for rows in self.rows)

    def shared(self, threads: int) -> float:
        """How long this many threads take for all statements if they share each nest."""
        return sum(self.times(rows, threads)[0] for rows in self.rows)

    def times(self, rows: OwnRows | None, threads: int) -> tuple[float, float]:
        """How long the loop with these rows takes in two ways. In the first, threads share each nest and meet after it.
        In the second, each thread computes its own rows through all steps. Each thread then reads everything that
        belongs to no row, such as the weights. Panels of weights that the call itself has packed come from the caches
        of other cores.

        The second way takes forever where threads cannot or should not use it. They cannot outside of such loops
        (`rows` is None). They should not if a nest reads weights of more than twice the cache of a core: each step
        would fetch most of them from farther away.
        """
        found = [cost for cost in self.costs if cost.rows == rows]
        meeting = rates.MEETING if threads > 1 else 0.0
        together = 0.0
        for cost in found:
            share = -(-cost.pieces // threads) / max(cost.pieces, 1)
            together += cost.runs * (self._time(cost, share, cost.nbytes * share) + meeting)
        largest = max(cost.shared for cost in found)
        if rows is None or threads == 1 or largest > 2 * self.near_bytes:
            return together, float("inf")
        size, unit = self.number(rows.size), rows.unit
        pieces = -(-size // unit)
        share = min(1.0, -(-pieces // threads) * unit / max(size, 1))
        apart = meeting + sum(cost.new for cost in found) * (threads - 1) / threads * rates.FOREIGN_BYTE
        for cost in found:
            nbytes = cost.shared + (cost.nbytes - cost.shared) * share
            apart += cost.runs * self._time(cost, share, nbytes)
        return together, apart

    def _time(self, cost: Cost, share: float, nbytes: float) -> float:
        """How long a thread takes for its share of the operations, or for its bytes if that is longer. A vector has
        half as many numbers of 64 bits."""
        operations = cost.operations * share * max(np.dtype(cost.dtype).itemsize / 4, 1)
        return max(operations, nbytes * (rates.NEAR_BYTE if nbytes <= self.near_bytes else rates.FAR_BYTE))
