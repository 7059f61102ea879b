"""Races of threads in the emulation: what nothing orders is a fault, in whatever order the threads run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import scanjit as sj
from scanjit.kinds import KINDS
from scanjit.schedule.cost import rates
from scanjit.simd.emulated_memory import Allocations, MemoryFault
from scanjit.simd.emulated_races import Races
from tests.fuzz.check import Config

F32, F64 = KINDS["f32"], KINDS["f64"]
PAIR = np.zeros(2, np.float32)
MASK, OFFSETS = np.array([False, True]), np.array([0, 4])
READS: dict[str, Callable[[Allocations, int], object]] = {
    "load": lambda memory, at: memory.load(F32, 2, at),
    "load_masked": lambda memory, at: memory.load_masked(F32, 2, at, MASK),
    "gather": lambda memory, at: memory.gather(F32, 2, at, OFFSETS, MASK),
    "load_i64": lambda memory, at: memory.load_i64(at),
}
WRITES: dict[str, Callable[[Allocations, int], object]] = {
    "store": lambda memory, at: memory.store(F32, at, PAIR),
    "store_masked": lambda memory, at: memory.store_masked(F32, at, PAIR, MASK),
    "scatter": lambda memory, at: memory.scatter(F32, at, OFFSETS, PAIR, MASK),
    "store_i64": lambda memory, at: memory.store_i64(at, 5),
}


class Shared(Allocations):
    """Memory of three threads, with an array in it."""

    def __init__(self, raced: bool = False) -> None:
        super().__init__()
        self.races: Races = Races(3)
        self.at = self.add(np.zeros(8), name="x", raced=raced)

    def by(self, thread: int) -> Shared:
        """The same memory, for what a thread does."""
        self.races.running = thread
        return self


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("other", [*READS.values(), *WRITES.values()], ids=[*READS, *WRITES])
def test_what_nothing_orders(
    write: Callable[[Allocations, int], object], other: Callable[[Allocations, int], object]
) -> None:
    for first, second in ((write, other), (other, write)):
        if first is second is WRITES["store_i64"]:
            continue
        memory = Shared()
        first(memory.by(1), memory.at)
        with pytest.raises(
            MemoryFault, match=r"byte [04] of x \(64 bytes\): thread 2 has not met thread 1, which wrote"
        ):
            second(memory.by(2), memory.at)
        memory = Shared()
        first(memory.by(1), memory.at)
        memory.races.meet([2, 1])
        second(memory.by(2), memory.at)
        second(memory.by(2), memory.at)
        second(memory.by(1), memory.at + 16)


def test_reading_is_no_race_and_neither_are_neighbours() -> None:
    memory = Shared()
    for thread in range(3):
        memory.by(thread).load(F64, 8, memory.at)
    memory.races.meet(range(3))
    for thread in range(3):
        memory.by(thread).store(F32, memory.at + 8 * thread, PAIR)
        memory.by(thread).load(F32, 2, memory.at + 8 * thread)


def test_threads_hear_of_each_other_through_others_but_not_of_what_comes_later() -> None:
    memory = Shared()
    memory.by(0).store(F32, memory.at, PAIR)
    memory.races.meet([0, 1])
    memory.by(0).store(F32, memory.at + 8, PAIR)
    memory.races.meet([1, 2])
    memory.by(2).load(F32, 2, memory.at)
    with pytest.raises(MemoryFault, match="thread 2 has not met thread 0"):
        memory.load(F32, 2, memory.at + 8)


def test_who_peeks_expects_that_others_write() -> None:
    memory = Shared()
    memory.by(1).store_i64(memory.at, 5)
    assert memory.by(2).peek_i64(memory.at) == 5
    memory.by(1).store_i64(memory.at, 6)
    assert memory.by(0).peek_i64(memory.at) == 6


def test_what_any_thread_may_write() -> None:
    """Words that all set to the same, and memory that is said to be so."""
    memory = Shared()
    memory.by(0).store_i64(memory.at, 7)
    memory.by(1).store_i64(memory.at, 7)
    with pytest.raises(MemoryFault, match="thread 1 has not met thread 0"):
        memory.store_i64(memory.at, 8)
    memory = Shared(raced=True)
    for thread in range(3):
        memory.by(thread).store_i64(memory.at, thread)


def test_a_program_whose_threads_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WAKING", "LEAST_GAIN"):
        monkeypatch.setattr(rates, name, 0.0)
    x = sj.matrix("x", "float32")
    y = np.tanh(x) @ np.tanh(x).T

    def run() -> None:
        with Config(threads=3, shared=True).active():
            sj.function([x], y, mode="emulate")(np.ones((7, 5), "float32"))

    run()
    monkeypatch.setattr(Races, "hear", lambda *arguments: None)
    with pytest.raises(MemoryFault, match="has not met"):
        run()
