"""The surroundings of the computation of one part, in any process."""

from __future__ import annotations

import contextlib
import functools
import importlib
import pickle
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from scanjit.runtime import processors, shared
from scanjit.scoped import scoped

_running: ContextVar[bool] = ContextVar("running", default=False)


def running() -> bool:
    """Whether this thread computes a part."""
    return _running.get()


def compute(function: Callable[..., Any], part: Any, common: Sequence[Any], threads: int | None = None) -> Any:
    """The result of a part. Shared variables that were made before cannot change meanwhile.

    `threads` says how many threads of this machine compute parts at the same time; None if that is known by other
    means."""
    share = contextlib.nullcontext() if threads is None else processors.sharing(threads)
    with scoped(_running, True), shared.unchanged(), share:
        return function(part, *common)


def sent(value: Any) -> bytes:
    """Functions as bytes, for another process. Those of a script or a notebook go as code."""
    for name in ("cloudpickle", "joblib.externals.cloudpickle"):
        with contextlib.suppress(ImportError):
            return bytes(importlib.import_module(name).dumps(value))
    return pickle.dumps(value)


@functools.lru_cache(maxsize=4)
def received(data: bytes) -> Any:
    """The functions that `sent` made bytes of. A process makes them once, and so traces and loads them once."""
    return pickle.loads(data)
