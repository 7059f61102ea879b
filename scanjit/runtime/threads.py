"""The threads of a process that run large programs, together with the thread that calls one. See `native`."""

from __future__ import annotations

import ctypes

from scanjit.runtime import lapack
from scanjit.runtime.native import Run, native


def running(with_lapack: bool = False) -> Run:
    """What runs programs: `run(program, table, threads)` calls the main function of a program, at that address, on so
    many threads; on the caller's alone if another program uses the others. It raises nothing but what Python wants to
    raise meanwhile (Ctrl-C), when all threads have ended. OpenBLAS uses one thread while programs with LAPACK run."""
    controls = lapack.controls() if with_lapack else None
    if controls is None:
        return native().run
    native().set_blas(*(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in controls))
    return native().run_with_blas
