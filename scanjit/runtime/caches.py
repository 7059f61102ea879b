"""The sizes of this machine's caches, as the system tells them.

Linux lists the caches of each processor in files; macOS answers `sysctlbyname`. Other systems and some virtual machines
tell nothing.
"""

import ctypes
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from scanjit.errors import suppressed

SENSIBLE = {1: (2**12, 2**20), 2: (2**16, 2**26)}
"""The least and the most bytes that are believed, by level. Some virtual machines say 0, or the size for the whole
machine."""
_UNITS = {"": 1, "K": 2**10, "M": 2**20}
_SYSCTL = {1: b"hw.l1dcachesize", 2: b"hw.l2cachesize"}
_SHARING = b"hw.cacheconfig"


def cache_sizes(root: Path = Path("/")) -> dict[int, int]:
    """The bytes that one core has of each level of cache for data: `{1: 49152, 2: 2097152}`. A level is missing if the
    system does not tell it.

    A cache that several cores share counts with one core's part. Of processors with cores of several kinds, the first
    core counts, so that the same code is made whichever core asks.

    Parameters
    ----------
    root : the folder that has `sys` (another one in tests).
    """
    found = dict(_from_sysctl() if sys.platform == "darwin" else _from_files(root / "sys/devices/system/cpu/cpu0"))
    return {
        level: size
        for level, size in found.items()
        if level in SENSIBLE and SENSIBLE[level][0] <= size <= SENSIBLE[level][1]
    }


def _from_files(processor: Path) -> Iterator[tuple[int, int]]:
    """Level and bytes of each cache for data, from the files of one of Linux's processors."""
    threads = _count(text_of(processor / "topology/thread_siblings_list"))
    for folder in sorted(processor.glob("cache/index[0-9]*")):
        size = re.fullmatch(r"(\d+)([KM]?)", text_of(folder / "size"))
        level = text_of(folder / "level")
        if size and level.isdecimal() and text_of(folder / "type") in ("Data", "Unified"):
            cores = max(_count(text_of(folder / "shared_cpu_list")) // threads, 1)
            yield int(level), int(size[1]) * _UNITS[size[2]] // cores


def text_of(path: Path) -> str:
    """What one of the system's files says; nothing if there is no such file."""
    with suppressed(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip()
    return ""


def _count(listed: str) -> int:
    """How many processors a list such as "0-3,8" names; 1 if it is empty."""
    ranges = re.findall(r"(\d+)(?:-(\d+))?", listed)
    return sum(int(last or first) - int(first) + 1 for first, last in ranges) or 1


def _from_sysctl() -> Iterator[tuple[int, int]]:
    """Level and bytes of each cache for data, from the kernel of macOS."""
    library = ctypes.CDLL(None)
    shared = (ctypes.c_uint64 * 8)()  # by level: how many processors share a cache; of the first level, one core's
    library.sysctlbyname(_SHARING, shared, ctypes.byref(ctypes.c_size_t(ctypes.sizeof(shared))), None, 0)
    for level, name in _SYSCTL.items():
        size = ctypes.c_uint64()
        failed = library.sysctlbyname(name, ctypes.byref(size), ctypes.byref(ctypes.c_size_t(8)), None, 0)
        if not failed:
            yield level, size.value // max(shared[level] // max(shared[1], 1), 1)
