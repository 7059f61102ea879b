"""Finds LAPACK. Compiled code calls the LAPACK that NumPy was installed with.

NumPy's wheels carry an OpenBLAS, whose names begin with `scipy_` and end with `64_`; distributions and Accelerate have
others. Whether integers have 32 or 64 bits makes no difference to generated code (`scanjit.simd.lapack`). Addresses are
looked up when a kernel that needs them is loaded, so kernels in the cache stay right whatever NumPy is installed.
"""

import contextlib
import ctypes
import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scanjit.errors import NotSupportedError, suppressed
from scanjit.simd.lapack import PREFIX

_NAMES = ("scipy_{}_64_", "{}_64_", "{}$NEWLAPACK$ILP64", "{}_", "{}$NEWLAPACK")
_THREADS = tuple(
    (start.format("get") + end, start.format("set") + end)
    for start in ("scipy_openblas_{}_num_threads", "openblas_{}_num_threads")
    for end in ("64_", "_64_", "")
)


def provide(symbols: Sequence[str]) -> None:
    """Tell LLVM the addresses of the LAPACK routines among these symbols.

    Raises
    ------
    NotSupportedError : there is no LAPACK.
    """
    from llvmlite import binding as llvm

    for symbol in symbols:
        if symbol.startswith(PREFIX):
            llvm.add_symbol(symbol, address(symbol.removeprefix(PREFIX)))


@functools.cache
def address(name: str) -> int:
    """The address of a routine, such as `dpotrf`."""
    for library in _libraries():
        for pattern in _NAMES:
            with contextlib.suppress(AttributeError):
                return ctypes.cast(getattr(library, pattern.format(name)), ctypes.c_void_p).value or 0
    found = _in_scipy(name)
    if found is None:
        raise NotSupportedError(
            "matrices of this size need LAPACK, and there is none that compiled code could call",
            got=f"a NumPy without {name}, and no SciPy",
            fix="install SciPy, or a NumPy that was built with OpenBLAS, MKL or Accelerate; or use mode='reference'",
        )
    return found


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """The libraries to look in: NumPy's module for linear algebra, through which the system finds the symbols of the
    libraries that it needs (Accelerate is one; not on Windows); and the libraries in NumPy's wheel, which are beside
    the package on Linux and Windows, and inside it on macOS."""
    module, package = np.linalg._umath_linalg.__file__, Path(np.__file__).resolve().parent
    folders = package.parent / "numpy.libs", package / ".dylibs"
    found = []
    for path in (module, *(str(path) for folder in folders for path in sorted(folder.glob("*openblas*")))):
        with suppressed(OSError):
            found.append(ctypes.CDLL(path))
    return tuple(found)


def _of_scipy() -> tuple[Any, ...]:
    """SciPy's modules that offer LAPACK and BLAS to Cython."""
    try:
        from scipy.linalg import cython_blas, cython_lapack
    except ImportError:
        return ()
    return cython_lapack, cython_blas


def _in_scipy(name: str) -> int | None:
    """The address of a routine from SciPy's Cython modules."""
    for module in _of_scipy():
        capsule = module.__pyx_capi__.get(name)
        if capsule is not None:
            describe, get = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
            describe.restype, describe.argtypes = ctypes.c_char_p, [ctypes.py_object]
            get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            return get(capsule, describe(capsule))
    return None


# ---- threads ---------------------------------------------------------------------------------------------------------


@functools.cache
def controls() -> tuple[Any, Any] | None:
    """OpenBLAS's functions that get and set its number of threads.

    While one of our programs calls it, it uses one thread: its results depend on the number of its threads, and its
    threads would take processors from ours."""
    for library in itertools.chain(_libraries(), (ctypes.CDLL(module.__file__) for module in _of_scipy())):
        for get, set_ in _THREADS:
            with contextlib.suppress(AttributeError):
                return getattr(library, get), getattr(library, set_)
    return None
