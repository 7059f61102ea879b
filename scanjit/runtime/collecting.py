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
_usual: tuple[int, ...] = ()
"""The thresholds outside of such blocks."""


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Let Python look for cycles less often within a `with` block. If somebody has turned the collector off, or set it
    to look even less often, nothing changes.

    What was made within the block then counts as old. Else the collector would look through all of it at once, and find
    next to nothing.

    The setting belongs to the process. If blocks of several threads overlap, the first that ends restores it.
    """
    global _usual
    now = gc.get_threshold()
    if 0 < now[0] < SELDOM:
        _usual = now
        gc.set_threshold(SELDOM, *now[1:])
    try:
        yield
    finally:
        if gc.get_threshold()[0] == SELDOM:
            if not gc.get_freeze_count():  # else `unfreeze` would undo what a user has frozen
                gc.freeze()
                gc.unfreeze()
            gc.set_threshold(*_usual)
