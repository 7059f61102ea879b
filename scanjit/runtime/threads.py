"""The threads that run large programs: workers of this process, and the thread that makes the call. See `native`."""

import ctypes

from scanjit.runtime.native import Run, native


def running(with_lapack: bool = False) -> Run:
    """The function that runs programs: `run(program, table, threads, tick)` calls the main function at the address
    `program` on this number of threads. While another program uses the workers, it calls it on the caller's thread
    alone.

    If Python wants to raise something meanwhile (Ctrl-C), all threads end, and `run` raises it; it raises nothing else.
    OpenBLAS uses one thread while programs with LAPACK run.
    """
    if not with_lapack:
        return native().run
    from scanjit.runtime import lapack  # imports simd

    controls = lapack.controls()
    if controls is None:
        return native().run
    native().set_blas(*(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in controls))
    return native().run_with_blas


def meeting_place() -> int:
    """The address at which the threads of a program share work and meet (see `simd.sharing.first_piece`)."""
    return native().place
