"""Interrupts at a chosen moment: the handler of a timer raises."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest


class Stop(Exception):
    """What `raising` raises."""


def raising(*_: object) -> NoReturn:
    """A handler."""
    raise Stop


@contextlib.contextmanager
def alarms(handler: Callable[..., Any], *times: float) -> Iterator[None]:
    """A handler for SIGALRM, which comes so many seconds from now, and again."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("there are no timers")
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, *times)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
