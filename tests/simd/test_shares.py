"""Threads that share work: who is late loses its shares to the others, and catches up. Played with one real thread,
which takes the parts of all: what is compiled only counts."""

import ctypes
import threading
from collections.abc import Callable

import pytest

from scanjit.codegen.places import SYNC_WORDS
from scanjit.runtime.kernels import kernel
from scanjit.runtime.native import native

SOURCE = (
    "from scanjit.simd import barrier, first_share, next_share, store_i64\n\n\n"
    "def turns(log, sync, thread, threads, shares, line):\n"
    "    share = first_share(sync, thread, threads, shares, line)\n"
    "    store_i64(log, share)\n\n\n"
)
FOLLOWING = SOURCE.replace("first_share(sync", "next_share(sync").replace("def turns", "def following")


def function(source: str, name: str) -> Callable[..., None]:
    """A compiled function of six integers."""
    made = kernel(source, name)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)(made.address)
    call.kernel = made  # type: ignore[attr-defined]  # it owns the code
    return call


class Place:
    """Memory in which `threads` threads share work, and a line that nobody interrupts."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.first, self.following = function(SOURCE, "turns"), function(FOLLOWING, "following")
        self.sync, self.log = (ctypes.c_int64 * (SYNC_WORDS + 8))(), ctypes.c_int64()
        self.number = ctypes.c_int64(0)
        self.line = (ctypes.c_int64 * 16)(ctypes.addressof(self.number), 0)

    def begin(self, thread: int, shares: int | None = None) -> int:
        """What a thread is to begin with."""
        return self._call(self.first, thread, shares)

    def go_on(self, thread: int, shares: int | None = None) -> int:
        """What a thread is to do after that."""
        return self._call(self.following, thread, shares)

    def _call(self, call: Callable[..., None], thread: int, shares: int | None) -> int:
        places = [ctypes.addressof(memory) for memory in (self.log, self.sync, self.line)]
        call(places[0], places[1], thread, self.threads, shares or self.threads, places[2])
        return self.log.value


def test_a_thread_that_never_comes_loses_all_of_its_shares() -> None:
    place = Place(3)
    for _ in range(5):
        assert [place.begin(0), place.go_on(0), place.go_on(0), place.go_on(0)] == [0, 1, 2, -1]


def test_a_late_thread_catches_up_and_has_its_share_again() -> None:
    place = Place(2)
    for _ in range(4):
        assert [place.begin(0), place.go_on(0), place.go_on(0)] == [0, 1, -1]
    assert place.begin(0) == 0
    assert [place.begin(1) for _ in range(4)] == [-1] * 4  # the works that are done
    assert place.begin(1) == 1
    done = threading.Thread(target=place.go_on, args=(1,))
    done.start()  # it waits for thread 0
    assert place.go_on(0) == -1
    done.join()
    assert not done.is_alive()


def test_work_of_one_share_goes_to_whoever_comes() -> None:
    place = Place(2)
    assert [place.begin(1, 1), place.go_on(1, 1)] == [0, -1]  # thread 0 is late
    assert place.begin(0, 1) == -1
    assert [place.begin(0, 1), place.go_on(0, 1)] == [0, -1]
    assert place.begin(1, 1) == -1


def test_a_single_thread_counts_nothing() -> None:
    place = Place(1)
    assert [place.begin(0), place.go_on(0)] == [0, -1]
    assert not any(place.sync)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_each_share_is_computed_once(threads: int) -> None:
    """By real threads, more than there are processors."""
    native()  # (starts LLVM, in one thread)
    place, works = Place(threads), 300
    computed: list[list[int]] = [[] for _ in range(threads)]

    def work(thread: int) -> None:
        log, line = ctypes.c_int64(), (ctypes.c_int64 * 16)(ctypes.addressof(place.number), 0)
        operands = [ctypes.addressof(x) for x in (log, place.sync)], [thread, threads, threads, ctypes.addressof(line)]
        for number in range(works):
            place.first(*operands[0], *operands[1])
            while log.value >= 0:
                computed[thread].append(number * threads + log.value)
                place.following(*operands[0], *operands[1])

    everybody = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for each in everybody:
        each.start()
    for each in everybody:
        each.join()
    assert sorted(share for some in computed for share in some) == list(range(works * threads))
