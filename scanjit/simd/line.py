"""The *line* of a thread: a structure of words in memory, through which generated code talks with Python."""

import ctypes


def words(names: str) -> list[tuple[str, type[ctypes.c_int64]]]:
    """The fields of a structure that are words, by their names."""
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

    The rest is what the thread shares with others just now: the operands of `sharing.first_piece` (`shares` in
    place of the number of threads), how far the thread is in its share, and where this share ends. A line ends where a
    line of the cache does.
    """

    _fields_ = [
        *words("number expected function loops total early done step element elements ended state team tick table met"),
        *words("place thread shares low high unit turns reached end"),
        ("empty", ctypes.c_int64 * 7),
    ]


LINE_BYTES = ctypes.sizeof(LineFields)
