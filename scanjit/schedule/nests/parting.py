"""Putting the elements of rows into the order of two groups."""

from __future__ import annotations

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.array_job import ArrayJob
from scanjit.schedule.nests.buffers import Ref
from scanjit.types import Dimension


@record
class Parting(ArrayJob):
    """Put the elements of each row of `values` into the order of their `groups`, int8: first those of 0, then those of
    1. Those of a group stay in order. All three arrays lie without gaps."""

    values: Ref
    groups: Ref
    result: Ref

    @property
    def title(self) -> str:
        """The name of its op."""
        return "parted"

    @property
    def operations(self) -> Dimension:
        """Each group takes about one operation for each element."""
        return 2 * types.product(self.values.shape)

    @property
    def pieces(self) -> Dimension:
        """Rows are independent."""
        return types.product(self.values.shape[:-1])
