"""Threads that share work: who is late loses its shares to the others, and catches up. Played with one real thread,
which takes the parts of all: what is compiled only counts."""

import ctypes
import sys
import threading
import time
from collections.abc import Callable

import pytest

from scanjit.codegen.places import SYNC_WORDS
from scanjit.runtime import compiler, host
from scanjit.runtime.kernels import kernel, units
from scanjit.runtime.native import native
from scanjit.simd import emulate
from scanjit.simd.sharing import TOGETHER
from tests.at_once import at_once

SOURCE = (
    "from scanjit.simd import first_piece, next_piece, piece_end, store_i64\n\n\n"
    "def turns(log, sync, thread, threads, shares, line):\n"
    "    share = first_piece(sync, thread, threads, 0, shares, 1, 0, line)\n"
    "    store_i64(log, share)\n\n\n"
)
FOLLOWING = SOURCE.replace("first_piece(sync, thread, threads, 0, shares, 1, 0,", "next_piece(").replace(
    "turns", "following"
)


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
        self.line = (ctypes.c_int64 * 32)(ctypes.addressof(self.number), 0)

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


def test_kernels_have_the_functions_that_share_work_together() -> None:
    """A kernel that is loaded calls those of the process; code for a linker brings its own."""
    made, target = kernel(SOURCE, "turns"), host.target()
    assert f"{TOGETHER}share:" not in made.asm() and f"{TOGETHER}first" in made.asm()
    assert f"{TOGETHER}share:" in compiler.to_text([*units([(SOURCE, "turns", {})], target).values()], target)


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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere who waits offers its processor to others")
def test_who_waits_for_long_sleeps() -> None:
    """It gives its processor back again and again, on its own account: whom it waits for may need one."""
    import resource

    place, slept = Place(2), []

    def wait() -> None:
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        place.go_on(1)
        slept.append(resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before)

    assert [place.begin(0), place.begin(1)] == [0, 1]
    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.3)
    assert place.go_on(0) == -1
    waiting.join()
    assert slept[0] >= 5  # each sleep takes a hundredth of a second at most


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

    def work(thread: int) -> list[int]:
        computed = list[int]()
        log, line = ctypes.c_int64(), (ctypes.c_int64 * 32)(ctypes.addressof(place.number), 0)
        operands = [ctypes.addressof(x) for x in (log, place.sync)], [thread, threads, threads, ctypes.addressof(line)]
        for number in range(works):
            place.first(*operands[0], *operands[1])
            while log.value >= 0:
                computed.append(number * threads + log.value)
                place.following(*operands[0], *operands[1])
        return computed

    computed = at_once(threads, work)
    assert sorted(share for some in computed for share in some) == list(range(works * threads))


PIECES = (
    "from scanjit.simd import first_piece, load_i64, next_piece, piece_end, store_i64\n\n\n"
    "def pieces(log, sync, thread, threads, bounds, line):\n"
    "    unit = load_i64(bounds + 16)\n"
    "    piece = first_piece(sync, thread, threads, load_i64(bounds), load_i64(bounds + 8), unit,"
    " load_i64(bounds + 24), line)\n"
    "    while piece >= 0:\n"
    "        count = load_i64(log) + 1\n"
    "        store_i64(log, count)\n"
    "        store_i64(log + 16*count - 8, piece)\n"
    "        store_i64(log + 16*count, piece_end(line))\n"
    "        piece = next_piece(line)\n\n\n"
)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("low", "high", "unit", "turns"),
    [(0, 100, 16, 0), (0, 100, 16, 32), (5, 47, 4, 8), (0, 3, 16, 16), (0, 0, 16, 0), (7, 7, 1, 1), (9, 3, 4, 0)],
)
def test_pieces_are_all_of_a_loop(threads: int, low: int, high: int, unit: int, turns: int) -> None:
    """One thread that never meets the others takes them all; the emulation computes the same pieces."""
    call = function(PIECES, "pieces")
    number, sync, log = ctypes.c_int64(), (ctypes.c_int64 * (SYNC_WORDS + 8))(), (ctypes.c_int64 * 200)()
    line, bounds = (ctypes.c_int64 * 32)(ctypes.addressof(number), 0), (ctypes.c_int64 * 4)(low, high, unit, turns)
    memory = [ctypes.addressof(each) for each in (log, sync, bounds, line)]
    call(memory[0], memory[1], 0, threads, memory[2], memory[3])
    found = [(log[2 * i + 1], log[2 * i + 2]) for i in range(log[0])]
    assert [i for begin, end in found for i in range(begin, end)] == list(range(low, high))
    assert all((begin - low) % unit == 0 for begin, _ in found)
    if turns:
        assert all(end - begin <= turns for begin, end in found)
    else:
        assert len(found) == min(threads, len(range(low, high, unit)))
    if threads == 1:
        emulated: list[tuple[int, int]] = []
        begin = emulate._first_piece(0, 0, 1, low, high, unit, turns, 0)
        while begin >= 0:
            emulated.append((begin, emulate._piece_end(0)))
            begin = emulate._next_piece(0)
        assert emulated == found


def test_who_is_interrupted_gets_no_more_pieces() -> None:
    call = function(PIECES, "pieces")
    ends = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(lambda *_: 1)
    number, log = ctypes.c_int64(1), (ctypes.c_int64 * 200)()
    line = (ctypes.c_int64 * 32)(ctypes.addressof(number), 0, ctypes.cast(ends, ctypes.c_void_p).value)
    for turns, expected in ((1, 0), (0, 1)):
        bounds = (ctypes.c_int64 * 4)(0, 10, 1, turns)
        log[0] = 0
        call(ctypes.addressof(log), 0, 0, 1, ctypes.addressof(bounds), ctypes.addressof(line))
        assert log[0] == expected
