"""Locks that are always released, even if an exception comes at an unlucky moment.

A signal handler (Ctrl-C, a timeout) or `PyThreadState_SetAsyncExc` may raise an exception in Python code after any call
and in any turn of a loop, also in `__enter__` and in `finally`. But nothing interrupts the work of one call of a C
function. So a lock itself knows who holds it, and one such call releases all locks that are held.
"""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import filterfalse, takewhile
from typing import Any, TypeVar, TypeVarTuple

A = TypeVarTuple("A")
R = TypeVar("R")


_kind: Any = type(threading.RLock())  # written in C
_is_owned, _acquire, _release = _kind._is_owned, _kind.acquire, _kind.release
_all: weakref.WeakSet[threading.RLock] = weakref.WeakSet()


def new_lock() -> threading.RLock:
    """A lock that nobody holds in the child of a fork: a thread that held it does not exist there."""
    lock = threading.RLock()
    _all.add(lock)
    return lock


def _after_fork() -> None:
    drain(map(_kind._at_fork_reinit, list(_all)))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

drain: Callable[[Iterable[object]], None] = deque[object](maxlen=0).extend
"""Consume an iterable. Over a `map` of C functions this is one step of the interpreter: no signal handler, no other
thread and no fork can come in between."""


def holding(locks: Sequence[threading.RLock], run: Callable[[*A], R], *args: *A) -> R:
    """`run(*args)` while this thread holds locks. Those that it holds already it keeps.

    Everybody who takes several locks must take them in the same order.
    """
    ours = list(filterfalse(_is_owned, locks))
    releases = map(_release, takewhile(_is_owned, ours))
    try:
        drain(map(_acquire, ours))
        return run(*args)
    finally:
        drain(releases)
