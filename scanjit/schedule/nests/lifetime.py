"""When a temporary is in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from scanjit.records import record
from scanjit.schedule.nests.buffers import Buffer
from scanjit.types import Dimension


@record(eq=True)
class Lifetime:
    """A temporary, and the first and the last moment at which it is in use.

    A moment is the number of a statement, in the order of the program. Branches of a `Beside` may run at the same time,
    so their moments do not say which comes first. `branches` therefore maps the `apart` of each `Beside` to the numbers
    of its branches that use the temporary. If threads have copies of the temporary, `copies` says how many; they lie
    one behind the other.
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
        """Whether both are in use at one moment."""
        return self.first <= other.last and other.first <= self.last
