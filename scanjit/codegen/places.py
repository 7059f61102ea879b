"""The buffers that generated code needs for itself. Its caller passes them in the table, like those of the program."""

import numpy as np

from scanjit.config import MOST_THREADS
from scanjit.schedule.nests import SCRATCH_BYTES, Buffer
from scanjit.schedule.threads.teams import MOST_TEAMS

STATUS = Buffer(np.dtype("int64"), (), "temporary", "status")
"""Where a nest reports an index out of bounds."""
SCRATCH = Buffer(np.dtype("int8"), (SCRATCH_BYTES,), "temporary", "scratch")
"""Where a register tile is put before the rows of its epilogue are computed one after the other, and where the sums of
columns lie between two terms. Each thread has a copy."""
SYNC_WORDS = 32 + 8 * MOST_THREADS
SYNC = Buffer(np.dtype("int64"), ((1 + MOST_TEAMS) * SYNC_WORDS,), "temporary", "sync")
"""Where threads meet: all of them, and those of each team that runs loops of its own."""
PREPARED = Buffer(np.dtype("int64"), (), "temporary", "prepared")
"""A number in the table, not memory: 1 if statements that run once have run in an earlier call, else 0."""
PROFILE = Buffer(np.dtype("int64"), (), "temporary", "profile")
"""Where the ticks and runs of statements are added up."""
