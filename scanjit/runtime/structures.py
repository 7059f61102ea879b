"""What lies in the memory that the threads of this process share with Python: structures of words.

The machine code of `native` reads and writes their fields by name: `slot.given` is a field of the slot at the address
`slot`.
"""

import ctypes

from scanjit.config import MOST_THREADS
from scanjit.runtime.addresses import CLASS_FIELD
from scanjit.runtime.table import STATUS_WORDS
from scanjit.simd.line import LineFields, words

MOST_BLOCKS = 16
"""So many blocks are spare at most."""


class SlotFields(ctypes.Structure):
    """A *slot* is a worker: its line, the lock `wake` that it waits for, the lock `done` that it opens when it has run
    a program, and what to run. `given` is 1 if there is something to run, 2 while it runs, 3 while it looks for
    something to run, 0 while it sleeps. The system knows the worker as `thread`."""

    _fields_ = [("line", LineFields), *words("wake done program table number threads given thread")]


class TeamFields(ctypes.Structure):
    """A *team* is what the threads of a process share: the clock (its `ticks`, how many calls are `running`, whether it
    is `asleep` and was `started`, the lock `alarm` that wakes it and the lock `nap` that it waits for between ticks),
    and the workers (whether a call uses them, whether they are to `stop`, how many there are, the `place` in memory
    where they and the calling thread share work, the `core` that is left to the calling thread, and the tick until
    which none is, because the machine is `crowded`). What several threads write has cache lines of its own."""

    _fields_ = [
        *words("ticks"),
        ("behind_ticks", ctypes.c_int64 * 7),
        *words("running asleep started alarm nap"),
        ("behind_clock", ctypes.c_int64 * 3),
        *words("busy stop workers place core crowded"),
        ("behind_workers", ctypes.c_int64 * 2),
        ("slots", SlotFields * MOST_THREADS),
    ]


class PlaceFields(ctypes.Structure):
    """A *place* is where threads share work: how many shares are `computed`, in all works so far; the same count for
    the works that are `complete`, and how many threads are `asleep` until it grows; and a cache line for each of the
    `threads`."""

    _fields_ = [
        *words("computed"),
        ("behind_computed", ctypes.c_int64 * 15),
        *words("complete asleep"),
        ("behind_asleep", ctypes.c_int64 * 14),
        ("threads", ctypes.c_int64 * (8 * MOST_THREADS)),
    ]


class HomeFields(ctypes.Structure):
    """The machine code's own variables: the present `team`; and OpenBLAS's functions that `get` and `set` its number of
    threads, how many `calls` with LAPACK run, and how many threads it had `before`; and what `scanjit_called` uses: the
    name of the attribute `at_once`, the method `otherwise`, Python's False (`no`), and the word `watched`."""

    _fields_ = words("team get set calls before at_once otherwise no watched")


class ArrayFields(ctypes.Structure):
    """An array: its class is its `kind`; then comes what NumPy keeps of it."""

    _fields_ = [
        ("head", ctypes.c_byte * CLASS_FIELD),
        *words("kind data"),
        ("axes", ctypes.c_int32),
        *words("sizes steps base dtype"),
        ("flags", ctypes.c_int32),
    ]


class StatusFields(ctypes.Structure):
    """The words behind the table of a program: what code reports if it `failed`, and whether a call made by
    `scanjit_call` is `running` with that table."""

    _fields_ = [*words("failed running"), ("empty", ctypes.c_int64 * (STATUS_WORDS - 2))]


class SpareFields(ctypes.Structure):
    """All memory that is spare: NumPy's functions that `take` memory from the system and `give` it back, and their
    `context`; whether a thread is `busy` with what follows; where in its page the last new block began (its `turn`);
    how many `bytes` are spare, in how many blocks; and their addresses, the oldest first."""

    _fields_ = [*words("context take give busy turn bytes count"), ("blocks", ctypes.c_int64 * MOST_BLOCKS)]


class HeaderFields(ctypes.Structure):
    """What is before each block of spare memory: where the `memory` begins that NumPy's function gave, and the `size`
    of the block."""

    _fields_ = words("memory size")


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
