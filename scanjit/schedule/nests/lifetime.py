"""When a temporary is in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scanjit.schedule.nests.buffers import Buffer
from scanjit.types import Dimension


@dataclass(frozen=True)
class Lifetime:
    """A temporary, and the first and the last moment at which it is used.

    A moment is the number of a statement. Moments of one branch of a `Beside` are neither before nor after those of
    another branch: `branches` says which branches use the temporary, by the `apart` of the `Beside`. Of a temporary
    that is private to threads there are `copies`, one behind the other.
    """

    buffer: Buffer
    first: int
    last: int
    branches: Mapping[Dimension, frozenset[int]] = field(default_factory=dict)
    copies: Dimension = 1

    @property
    def nbytes(self) -> Dimension:
        """The bytes of all copies."""
        return self.buffer.nbytes * self.copies

    def meets(self, other: Lifetime) -> bool:
        """Whether both may be in use at one time."""
        if self.first <= other.last and other.first <= self.last:
            return True
        both = ((own, other.branches[beside]) for beside, own in self.branches.items() if beside in other.branches)
        return any(len(own | others) > 1 for own, others in both)
