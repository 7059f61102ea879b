"""The sizes of caches, as systems tell them: read where they are told, and known where they are not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import scanjit as sj
from scanjit.runtime import caches, host
from scanjit.runtime.caches import cache_sizes
from scanjit.target import target_for
from scanjit.target.value import LEVEL1_BYTES, LEVEL2_BYTES

KIB = 1024
"""Bytes."""
CACHES = {
    "two threads a core": ("0,64", ["1 Data 48K 0,64", "2 Unified 2048K 0,64"], (48 * KIB, 2048 * KIB)),
    "no threads": ("0", ["1 Data 32K 0", "2 Unified 512K 0", "3 Unified 32M 0-7"], (32 * KIB, 512 * KIB)),
    "four cores share the second": ("2", ["1 Data 64K 2", "2 Unified 4M 0-3"], (64 * KIB, 1024 * KIB)),
    "an instruction cache is none": ("0", ["1 Instruction 64K 0", "1 Data 32K 0"], (32 * KIB, None)),
    "a machine that says 0": ("0", ["1 Data 0K 0", "2 Unified 1M 0"], (None, 1024 * KIB)),
    "a machine that says too much": ("0", ["1 Data 32K 0", "2 Unified 480M 0"], (32 * KIB, None)),
    "no list of who shares": ("", ["1 Data 32K", "2 Unified 1M"], (32 * KIB, 1024 * KIB)),
    "words that are no sizes": ("?", ["one Data 32K 0", "2 Unified large 0", "3"], (None, None)),
    "nothing": ("", [], (None, None)),
}


@pytest.mark.skipif(sys.platform == "darwin", reason="these are the files of Linux")
@pytest.mark.parametrize("siblings, listed, wanted", CACHES.values(), ids=CACHES)
def test_sizes_are_read_from_the_files_of_linux(siblings, listed, wanted, tmp_path: Path) -> None:
    processor = tmp_path / "sys/devices/system/cpu/cpu0"
    (processor / "topology").mkdir(parents=True)
    (processor / "topology/thread_siblings_list").write_text(f"{siblings}\n")
    for i, words in enumerate(listed):
        folder = processor / f"cache/index{i}"
        folder.mkdir(parents=True)
        for name, text in zip(("level", "type", "size", "shared_cpu_list"), words.split(), strict=False):
            (folder / name).write_text(f"{text}\n")
    found = cache_sizes(tmp_path)
    assert (found.get(1), found.get(2)) == wanted
    assert set(found) <= {1, 2}


class Library:
    """The part of macOS's C library that tells about caches, of a machine where four cores share the second."""

    known = {b"hw.l1dcachesize": [65536], b"hw.l2cachesize": [4 << 20], b"hw.cacheconfig": [8, 1, 4, 0]}  # noqa: RUF012

    def sysctlbyname(self, name, buffer, length, *new) -> int:
        if name not in self.known:
            return -1
        words = buffer if hasattr(buffer, "__setitem__") else None
        for i, value in enumerate(self.known[name]):
            if words is None:
                buffer._obj.value = value
            else:
                words[i] = value
        return 0


def test_sizes_are_asked_of_the_kernel_of_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(caches.ctypes, "CDLL", lambda name: Library())
    assert cache_sizes() == {1: 65536, 2: 1 << 20}
    monkeypatch.setattr(Library, "known", {b"hw.l1dcachesize": [32768]})
    assert cache_sizes() == {1: 32768}


def test_the_host_is_what_the_system_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    for sizes in (cache_sizes(), {}, {1: 2**14}, {1: 2**14, 2: 2**19}):
        monkeypatch.setattr(host, "cache_sizes", lambda sizes=sizes: sizes)
        host._host.cache_clear()
        try:
            found = host.target()
        finally:
            host._host.cache_clear()
        assert (found.level1_bytes, found.level2_bytes) == (sizes.get(1, LEVEL1_BYTES), sizes.get(2, LEVEL2_BYTES))


@pytest.mark.skipif(not os.path.exists("/sys/devices/system/cpu/cpu0/cache/index0/size"), reason="nothing is told here")
def test_this_machine_tells_its_caches() -> None:
    assert set(cache_sizes()) == {1, 2}


def test_a_larger_cache_makes_larger_blocks() -> None:
    x, w = sj.tensor(("T", "B", 16), "float32"), sj.tensor((16, 16), "float32")
    start = sj.tensor(("B", 16), "float32")
    h = sj.scan(lambda row, h, w: sj.tanh(row @ w + h), x, start, w)
    for nbytes in (2**18, 2**22):
        with host.using(target_for("x86_64-linux-gnu", features="+avx2,+fma", level2_bytes=nbytes)):
            f = sj.function([x, w, start], h, mode="emulate")
        blocks = sj.dprint(f, "str", stage="blocks")
        assert f"min(T, max(({nbytes // 4} // " in blocks, "a block of time takes a quarter of the second cache"
