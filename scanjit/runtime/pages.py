"""Memory in large pages, where the system has them.

A processor remembers where some thousand pages lie. In pages of 2 MB, these hold all weights of a layer; in pages of
4 KB, a part of them. Two addresses of a large page also fall less often into the same set of a cache.
"""

import mmap

import numpy as np

from scanjit.runtime.addresses import address
from scanjit.schedule.memory.addresses import ALIGNMENT

PAGE = 2**21
"""The size of a large page, on most processors."""
_ADVICE: int | None = getattr(mmap, "MADV_HUGEPAGE", None)
"""How Linux is asked for large pages; None on other systems."""


def zeros(nbytes: int) -> np.ndarray:
    """So many zeros, the first of which is aligned. They lie in as many large pages as they fill, the last one at least
    by half."""
    pages = (nbytes + PAGE // 2) // PAGE
    found = None if pages == 0 or _ADVICE is None else _in_pages(nbytes, pages, _ADVICE)
    return _usual(nbytes) if found is None else found


def _in_pages(nbytes: int, pages: int, advice: int) -> np.ndarray | None:
    """Memory of its own from Linux; None if it gives none of this kind."""
    try:
        whole = mmap.mmap(-1, nbytes + 2 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory = np.frombuffer(whole, np.uint8)
        first = -address(memory) % PAGE
        whole.madvise(advice, first, pages * PAGE)
    except (OSError, OverflowError):
        return None
    return memory[first : first + nbytes]


def _usual(nbytes: int) -> np.ndarray:
    memory = np.zeros(nbytes + ALIGNMENT, np.uint8)
    first = -address(memory) % ALIGNMENT
    return memory[first : first + nbytes]
