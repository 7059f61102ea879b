"""The threads of a process that run large programs, together with the thread that calls one. See `native`."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from scanjit.runtime import lapack
from scanjit.runtime.native import Run, native

_BUSY, _WORKERS, _SLOTS, _SLOT, _TABLE = 16, 18, 24, 16, 9
"""Places of words in the memory of a team and, the last one, in a slot."""


def running(with_lapack: bool = False) -> Run:
    """What runs programs: `run(program, table, threads)` calls the main function of a program, at that address, on so
    many threads; on the caller's alone if another program uses the others. It raises nothing but what Python wants to
    raise meanwhile (Ctrl-C), when all threads have ended. OpenBLAS uses one thread while programs with LAPACK run."""
    controls = lapack.controls() if with_lapack else None
    if controls is None:
        return native().run
    native().set_blas(*(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in controls))
    return native().run_with_blas


class _Worker(NamedTuple):
    """A worker thread. `job` is the table of the program that it runs, or None."""

    name: str
    job: int | None


class _Busy:
    """Tells whether a program uses the workers."""

    def locked(self) -> bool:
        """Whether a program uses the workers now."""
        return native().word(_BUSY) != 0


class _Team:
    """The worker threads of this process, for tests."""

    busy = _Busy()

    @property
    def workers(self) -> list[_Worker]:
        """The workers that have been started."""
        words = [_SLOTS + _SLOT * i for i in range(native().word(_WORKERS))]
        return [_Worker(f"scanjit-{i}", native().word(w + _TABLE) or None) for i, w in enumerate(words, start=1)]


_team = _Team()
