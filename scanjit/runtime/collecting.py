"""Python's collector of cycles, while something is compiled.

The collector looks through the new objects after every 2,000 of them, and now and then through all objects. The
compiler makes hundreds of thousands and keeps nearly all; without this module, it would wait a tenth of its time for
the collector.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = 500_021
"""The collector waits for this many new objects. (The number is not round, to tell our setting from a user's.)"""
MOST_UNSEEN = 100_000
"""After blocks that left so many new objects, or a quarter as many as there are, the collector looks through all before
the next block."""
_usual: tuple[int, ...] = ()
"""The thresholds outside of such blocks."""
_unseen = 0
"""How many new objects such blocks have left since the collector looked through all."""
_allowed = MOST_UNSEEN
"""How many they may leave until it does so again."""


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Let Python look for cycles less often within a `with` block. If somebody has turned the collector off, or set it
    to look even less often, nothing changes.

    What was made within the block then counts as old. Else the collector would look through all of it at once, and find
    next to nothing.

    Python does not count objects that are made old in this way, and would never look for cycles among them. Emulated
    code and llvmlite leave such cycles. So this module counts the objects, and lets the collector look through all of
    them now and then: at the beginning of a block, so that a process that compiles one function does not wait for it.

    The setting belongs to the process. If blocks of several threads overlap, the first that ends restores it.
    """
    global _usual, _unseen
    now = gc.get_threshold()
    if 0 < now[0] < SELDOM:
        if _unseen > _allowed and gc.isenabled():
            _look_through_all()
        _usual = now
        gc.set_threshold(SELDOM, *now[1:])
    try:
        yield
    finally:
        if gc.get_threshold()[0] == SELDOM:
            _unseen += gc.get_count()[0]
            if not gc.get_freeze_count():  # else `unfreeze` would undo what a user has frozen
                gc.freeze()
                gc.unfreeze()
            gc.set_threshold(*_usual)


def _look_through_all() -> None:
    global _unseen, _allowed
    gc.collect()
    _unseen, _allowed = 0, max(MOST_UNSEEN, len(gc.get_objects()) // 4)
