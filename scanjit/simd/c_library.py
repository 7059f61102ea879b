"""Where the C library is. Compiled code calls its mathematical functions; so does the emulator, to compute the same
bits."""

import ctypes
import functools
import sys
from collections.abc import Callable

from scanjit.errors import InternalError, suppressed


def names() -> tuple[str | None, ...]:
    """The libraries to look in. None stands for everything that this process has loaded.

    Windows has the mathematical functions, copies of memory, and the test of a large stack (`__chkstk`) in three
    libraries. Other systems have one C library, which Python has loaded; Linux with glibc also has its mathematical
    functions in a second one.
    """
    if sys.platform == "win32":
        return "ucrtbase.dll", "vcruntime140.dll", "ntdll.dll"
    return (None, "libm.so.6") if sys.platform == "linux" else (None,)


@functools.cache
def function(symbol: str, arity: int) -> Callable[..., float]:
    """A function of doubles, such as `tan`, to be called from Python.

    Raises
    ------
    InternalError : no library has it.
    """
    for name in names():
        with suppressed(AttributeError, OSError):
            found = getattr(ctypes.CDLL(name), symbol)
            found.restype, found.argtypes = ctypes.c_double, [ctypes.c_double] * arity
            return found
    raise InternalError(f"the C library has no {symbol}", got=f"none of {names()}", where="")
