"""The places of what is true in rows."""

from __future__ import annotations

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.array_job import ArrayJob
from scanjit.schedule.nests.buffers import Ref
from scanjit.types import Dimension


@record
class WhereTrue(ArrayJob):
    """Store the places of what is true in each row, in order, and then -1. Both arrays lie without gaps."""

    truths: Ref
    result: Ref

    @property
    def title(self) -> str:
        """The name of its op."""
        return "where_true"

    @property
    def operations(self) -> Dimension:
        """About one operation for each element."""
        return types.product(self.truths.shape)

    @property
    def pieces(self) -> Dimension:
        """Rows are independent."""
        return types.product(self.truths.shape[:-1])
