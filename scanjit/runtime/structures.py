"""What lies in the memory that the threads of this process share with Python: structures of words.

The machine code of `native` reads and writes their fields by name: `slot.given` is a field of the slot at the address
`slot`.
"""

import ctypes

from scanjit.config import MOST_THREADS
from scanjit.runtime.addresses import CLASS_FIELD
from scanjit.runtime.table import STATUS_WORDS

MOST_BLOCKS = 16
"""So many blocks are spare at most."""


def _words(names: str) -> list[tuple[str, type[ctypes.c_int64]]]:
    return [(name, ctypes.c_int64) for name in names.split()]


class LineFields(ctypes.Structure):
    """A *line* connects a thread with Python. Its address is the last argument of a program, and of its nests.

    It holds the address of a `number`, and the value that is `expected` there. When the number has another value, the
    thread calls the `function`, which says whether to end. The number of the calling thread is the clock's `ticks`;
    that of a worker is `stop`. `ended` says whether a signal handler raised something, `state` is what Python gave for
    its lock, and `team` is where `stop` is (0 if there are no workers).

    A line also says how far its thread is. The main function writes how many `loops` over time have begun. Of the one
    that runs it writes how many steps it has in `total` (0 if none runs), whether it may end `early`, and how many
    steps are `done` (-1 if a nest makes them all). Such a nest tells the `function` at which `step` it is, and for
    which `element` of so many `elements`. `tick` is what Python calls with the address of the line when the clock has
    ticked, `table` that of the call. Where threads meet, they note in `met` when that was.

    The rest is what the thread shares with others just now: the operands of `simd.sharing.first_piece` (`shares` in
    place of the number of threads), how far the thread is in its share, and where this share ends. A line ends where a
    line of the cache does.
    """

    _fields_ = [
        *_words(
            "number expected function loops total early done step element elements ended state team tick table met"
        ),
        *_words("place thread shares low high unit turns reached end"),
        ("empty", ctypes.c_int64 * 7),
    ]


class SlotFields(ctypes.Structure):
    """A *slot* is a worker: its line, the lock `wake` that it waits for, the lock `done` that it opens when it has run
    a program, and what to run. `given` is 1 if there is something to run, 2 while it runs, 3 if the call has ended
    before the worker woke, 0 else."""

    _fields_ = [("line", LineFields), *_words("wake done program table number threads given empty")]


class TeamFields(ctypes.Structure):
    """A *team* is what the threads of a process share: the clock (its `ticks`, how many calls are `running`, whether it
    is `asleep` and was `started`, the lock `alarm` that wakes it and the lock `nap` that it waits for between ticks),
    and the workers (whether a call uses them, whether they are to `stop`, how many there are, and the `place` in memory
    where they and the calling thread share work). What several threads write has cache lines of its own."""

    _fields_ = [
        *_words("ticks"),
        ("behind_ticks", ctypes.c_int64 * 7),
        *_words("running asleep started alarm nap"),
        ("behind_clock", ctypes.c_int64 * 3),
        *_words("busy stop workers place"),
        ("behind_workers", ctypes.c_int64 * 4),
        ("slots", SlotFields * MOST_THREADS),
    ]


class PlaceFields(ctypes.Structure):
    """A *place* is where threads share work: how many shares are `computed`, in all works so far; the same count for
    the works that are `complete`, and how many threads are `asleep` until it grows; and a cache line for each of the
    `threads`."""

    _fields_ = [
        *_words("computed"),
        ("behind_computed", ctypes.c_int64 * 15),
        *_words("complete asleep"),
        ("behind_asleep", ctypes.c_int64 * 14),
        ("threads", ctypes.c_int64 * (8 * MOST_THREADS)),
    ]


class HomeFields(ctypes.Structure):
    """The machine code's own variables: the present `team`; and OpenBLAS's functions that `get` and `set` its number of
    threads, how many `calls` with LAPACK run, and how many threads it had `before`."""

    _fields_ = _words("team get set calls before")


class ArrayFields(ctypes.Structure):
    """An array: its class is its `kind`; then comes what NumPy keeps of it."""

    _fields_ = [
        ("head", ctypes.c_byte * CLASS_FIELD),
        *_words("kind data"),
        ("axes", ctypes.c_int32),
        *_words("sizes steps base dtype"),
        ("flags", ctypes.c_int32),
    ]


class StatusFields(ctypes.Structure):
    """The words behind the table of a program: what code reports if it `failed`, and whether a call made by
    `scanjit_call` is `running` with that table."""

    _fields_ = [*_words("failed running"), ("empty", ctypes.c_int64 * (STATUS_WORDS - 2))]


class SpareFields(ctypes.Structure):
    """All memory that is spare: NumPy's functions that `take` memory from the system and `give` it back, and their
    `context`; whether a thread is `busy` with what follows; where in its page the last new block began (its `turn`);
    how many `bytes` are spare, in how many blocks; and their addresses, the oldest first."""

    _fields_ = [*_words("context take give busy turn bytes count"), ("blocks", ctypes.c_int64 * MOST_BLOCKS)]


class HeaderFields(ctypes.Structure):
    """What is before each block of spare memory: where the `memory` begins that NumPy's function gave, and the `size`
    of the block."""

    _fields_ = _words("memory size")


_ALL = (
    LineFields,
    SlotFields,
    TeamFields,
    PlaceFields,
    HomeFields,
    ArrayFields,
    StatusFields,
    SpareFields,
    HeaderFields,
)
STRUCTURES = {each.__name__.removesuffix("Fields").lower(): each for each in _ALL}
"""The structures by the names that variables have which hold their addresses."""
