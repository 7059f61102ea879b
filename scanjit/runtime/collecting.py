"""Python's collector of cycles, while something is compiled.

It looks through the new objects after every 2,000 of them, and now and then through all. The compiler makes hundreds of
thousands, keeps nearly all, and would wait for it a tenth of its time.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = 50_021
"""So many new objects are not looked at. (No round number: it tells our setting from a user's.)"""
_usual: tuple[int, ...] = ()
"""The thresholds that hold otherwise."""


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Let Python look for cycles less often within a `with` block. Who has turned it off, or down to less than that, is
    left alone.

    The setting belongs to the process. Where blocks of several threads overlap, the first that ends restores it."""
    global _usual
    now = gc.get_threshold()
    if 0 < now[0] < SELDOM:
        _usual = now
        gc.set_threshold(SELDOM, *now[1:])
    try:
        yield
    finally:
        if gc.get_threshold()[0] == SELDOM:
            gc.set_threshold(*_usual)
