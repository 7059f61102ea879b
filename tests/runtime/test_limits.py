"""What the machine can do: the kernels that measure it, and how much they say that they do."""

from __future__ import annotations

import pytest

from scanjit.runtime import host, limits
from scanjit.runtime.addresses import address


def test_memory_begins_with_a_line_and_is_written() -> None:
    for nbytes in (4096, 5000 * 8):
        memory = limits._memory("float64", nbytes, 0.5)
        assert address(memory) % 64 == 0 and memory.nbytes == nbytes and (memory == 0.5).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_how_much_they_do(threads: int) -> None:
    measured = limits.throughput("float32", threads, 3)
    assert measured.amount == 2 * host.target().lanes(4) * limits.SIDE_BY_SIDE * 3 * threads
    measured.call()
    vectors = limits.SIDE_BY_SIDE * host.target().vector_bytes
    measured = limits.stream("float32", threads, 5 * vectors * threads + 1, 20 * vectors * threads)
    assert measured.amount == 20 * vectors * threads
    measured.call()


def test_paces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The amount of a call by the shortest time, although the system stops the first for 20 ms; the footprint of memory
    is a power of two."""
    clock = iter([0.0, 20e-3, 1.0, 1.0003, *(i + end for i in range(2, 8) for end in (0.0, 5e-4))])
    monkeypatch.setattr(limits.time, "perf_counter", lambda: next(clock))
    calls: list[None] = []
    assert limits._pace(limits.MeasuredCall(lambda: calls.append(None), 6.0)) == pytest.approx(6.0 / 3e-4)
    assert len(calls) == 1 + limits.LEAST_CALLS
    asked: list[int] = []
    monkeypatch.setattr(limits, "_bandwidth", lambda nbytes: asked.append(nbytes) or 1.0)
    for nbytes in (1, 4097, 1 << 20, 1e12):
        limits.bandwidth(nbytes)
    assert asked == [1 << 12, 1 << 13, 1 << 20, 1 << 26]
