"""Long frames of pandas, polars and others (a row for each series and time): as padded arrays, and results put back.

Frames are read with the package `narwhals` (`pip install "scanjit[frames]"`), which is imported at the first call."""

from scanjit.frames.column import scan
from scanjit.frames.series import Batch, batch

__all__ = ["Batch", "batch", "scan"]
