"""Work that no exception of a signal handler can interrupt in the middle.

Python runs signal handlers in the main thread alone. Work that an exception would leave half done, such as a change of
the compiler's tables, therefore runs in a thread of its own, while the caller waits.
"""

import _thread
import os
import sys
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

from scanjit.errors import run_for

R = TypeVar("R")

_WAIT = 0.1
"""Seconds between two checks for signals. On Windows a signal does not end the wait for a lock."""


class Abandoned(Exception):
    """Raised inside the work if its caller does not wait for it any more."""


def undisturbed(run: Callable[[Callable[[], bool]], R]) -> R:
    """Run `run(abandoned)` in a thread of its own, with our context variables. An exception in it is raised here, as if
    `run` had been called here.

    An exception that comes while this waits (Ctrl-C) is raised at once. From then on `abandoned()` is true, and `run`
    must end at the next place where nothing is half done.
    """
    results: list[R] = []
    failures: list[BaseException] = []
    left: list[bool] = []
    done, process, context = _thread.allocate_lock(), os.getpid(), copy_context()
    caller = sys._getframe(1)
    done.acquire()

    def work() -> None:
        try:
            results.append(context.run(run_for, caller, run, lambda: bool(left)))
        except BaseException as error:
            failures.append(error)
        finally:
            done.release()

    try:
        _thread.start_new_thread(work, ())
    except RuntimeError:  # there are no more threads, or the interpreter is ending
        return run(lambda: False)
    try:
        while not done.acquire(timeout=_WAIT):
            if os.getpid() != process:  # a handler forked: the thread is the parent's
                return undisturbed(run)
    finally:
        left.append(True)
    if failures:
        _raise(failures)
    return results[0]


def _raise(failures: list[Any]) -> None:
    try:
        raise failures[0]
    finally:
        failures.clear()  # or the error would refer to itself
