"""How long threads take for statements, about: in operations of one thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scanjit import types
from scanjit.schedule.cost import rates
from scanjit.schedule.cost.statements import Cost, costs
from scanjit.schedule.nests import Statement, TimeLoop
from scanjit.target import Target
from scanjit.types import Atom


@dataclass(frozen=True)
class Work:
    """What some statements cost, for the sizes of a call and the bytes of a core's second-level cache."""

    costs: Sequence[Cost]
    sizes: Mapping[Atom, int]
    near_bytes: int

    @classmethod
    def of(cls, suite: Sequence[Statement], sizes: Mapping[Atom, int], target: Target) -> Work:
        """The work of statements."""
        return cls(costs(suite, sizes), sizes, target.level2_bytes)

    @property
    def loops(self) -> list[TimeLoop | None]:
        """The loops whose rows never meet; and None, if there are statements in none."""
        return list(dict.fromkeys(cost.loop for cost in self.costs))

    def time(self, threads: int) -> float:
        """How long so many threads take for all of it."""
        return sum(min(self.times(loop, threads)) for loop in self.loops)

    def times(self, loop: TimeLoop | None, threads: int) -> tuple[float, float]:
        """How long so many threads take for the steps of a loop (for None: for the statements in none): where they
        share each nest and meet after it, and where each computes its own rows through all steps."""
        found = [cost for cost in self.costs if cost.loop is loop]
        meeting = rates.MEETING if threads > 1 else 0.0
        together = 0.0
        for cost in found:
            share = -(-cost.pieces // threads) / cost.pieces
            together += cost.runs * (self._time(cost.operations * share, cost.nbytes * share) + meeting)
        if loop is None or loop.own_rows is None or threads == 1:
            return together, float("inf")
        size, unit = types.evaluate(loop.own_rows.size, self.sizes), loop.own_rows.unit
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
