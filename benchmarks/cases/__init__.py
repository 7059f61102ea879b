"""The recurrences, one file each: the step for scanjit, and the loops that people write by hand."""

from __future__ import annotations

from benchmarks.cases import garch, lstm, rnn

CASES = {"lstm": lstm.case, "garch": garch.case, "rnn": rnn.case}
"""For each case what makes it; takes whether sizes are small."""
