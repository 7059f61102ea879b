"""Memory in large pages."""

from __future__ import annotations

import errno
import mmap

import numpy as np
import pytest

from scanjit.runtime import pages
from scanjit.runtime.addresses import address
from scanjit.schedule.memory.addresses import ALIGNMENT

SIZES = (1, ALIGNMENT + 3, pages.PAGE // 2 - 1, pages.PAGE // 2, pages.PAGE, 3 * pages.PAGE // 2 + 5, 5 * pages.PAGE)


def in_use(nbytes: int) -> np.ndarray:
    """Memory of so many bytes, all of which are written."""
    memory = pages.zeros(nbytes)
    assert memory.size >= nbytes
    assert memory.dtype == np.uint8
    assert not memory.any()
    assert address(memory) % ALIGNMENT == 0
    memory[:] = 7
    return memory


@pytest.mark.parametrize("nbytes", SIZES)
def test_zeros(nbytes: int) -> None:
    first, second = in_use(nbytes), in_use(nbytes)
    assert not np.shares_memory(first, second)
    first[:] = 1
    assert (second == 7).all()


@pytest.mark.skipif(pages._ADVICE is None, reason="only Linux is asked for large pages")
def test_large_memory_begins_at_a_page() -> None:
    assert address(in_use(pages.PAGE // 2)) % pages.PAGE == 0


@pytest.mark.parametrize("nbytes", SIZES)
def test_systems_without_large_pages(nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_ADVICE", None)
    in_use(nbytes)


@pytest.mark.skipif(pages._ADVICE is None, reason="only Linux is asked for large pages")
@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOMEM])
def test_a_system_that_refuses(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels without large pages refuse the advice; a limit of memory may refuse the place for whole pages."""

    class Refusing(mmap.mmap):
        def madvise(self, *args: int) -> None:
            raise OSError(number, "refused")

    monkeypatch.setattr(mmap, "mmap", Refusing)
    in_use(pages.PAGE)


def test_no_memory_at_all() -> None:
    with pytest.raises(MemoryError):
        pages.zeros(2**60)
