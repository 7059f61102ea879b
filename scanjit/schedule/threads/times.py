"""How long threads take for statements, about: in operations of one thread."""

from collections.abc import Sequence
from dataclasses import dataclass

from scanjit.schedule.cost import rates
from scanjit.schedule.cost.statements import Cost
from scanjit.schedule.nests import OwnRows
from scanjit.types import Numbers


@dataclass(frozen=True)
class Work:
    """The cost of some statements in a call with these sizes, and the bytes of a core's second-level cache."""

    costs: Sequence[Cost]
    number: Numbers
    near_bytes: int

    @property
    def rows(self) -> list[OwnRows | None]:
        """The rows of each loop whose rows never meet. None stands for the statements outside of such loops, if there
        are any."""
        return list(dict.fromkeys(cost.rows for cost in self.costs))

    @property
    def operations(self) -> float:
        """How many operations there are in all runs."""
        return sum(cost.runs * cost.operations for cost in self.costs)

    def time(self, threads: int) -> float:
        """How long so many threads take for all of it."""
        return sum(min(self.times(rows, threads)) for rows in self.rows)

    def times(self, rows: OwnRows | None, threads: int) -> tuple[float, float]:
        """Two ways to run the steps of the loop with these rows, and how long so many threads take for each. In the
        first, they share each nest and meet after it. In the second, each computes its own rows through all steps.

        For None, these are the statements outside of such loops, for which there is no second way: it takes forever."""
        found = [cost for cost in self.costs if cost.rows == rows]
        meeting = rates.MEETING if threads > 1 else 0.0
        together = 0.0
        for cost in found:
            share = -(-cost.pieces // threads) / cost.pieces
            together += cost.runs * (self._time(cost.operations * share, cost.nbytes * share) + meeting)
        if rows is None or threads == 1:
            return together, float("inf")
        size, unit = self.number(rows.size), rows.unit
        pieces = -(-size // unit)
        share = min(1.0, -(-pieces // threads) * unit / max(size, 1))
        apart = meeting
        for cost in found:
            nbytes = cost.shared + (cost.nbytes - cost.shared) * share
            apart += cost.runs * self._time(cost.operations * share, nbytes)
        return together, apart

    def _time(self, operations: float, nbytes: float) -> float:
        """How long a thread takes: for its operations, or for its bytes, whichever takes longer."""
        return max(operations, nbytes * (rates.NEAR_BYTE if nbytes <= self.near_bytes else rates.FAR_BYTE))
