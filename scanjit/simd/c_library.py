"""Where the C library is. Compiled code calls it to copy memory, and to round numbers where the processor has no
instruction for that."""

import sys


def names() -> tuple[str | None, ...]:
    """The libraries to look in. None stands for everything that this process has loaded.

    Windows has the mathematical functions, copies of memory, and the test of a large stack (`__chkstk`) in three
    libraries. Other systems have one C library, which Python has loaded; Linux with glibc also has its mathematical
    functions in a second one.
    """
    if sys.platform == "win32":
        return "ucrtbase.dll", "vcruntime140.dll", "ntdll.dll"
    return (None, "libm.so.6") if sys.platform == "linux" else (None,)
