"""The number of threads follows what calls have shown: with an invented machine in place of a clock."""

from __future__ import annotations

import random

import pytest

from scanjit.runtime.choice import BUDGET, Choice, numbers

QUIET = {1: 1.0, 2: 0.55, 4: 0.3, 8: 0.2, 3: 0.38, 6: 0.25}
BUSY = {1: 1.0, 2: 2.5, 4: 5.0, 8: 9.0, 3: 4.0, 6: 7.0}

Waits = tuple[float, float, float]
"""Calls that take so many milliseconds, and a part of them that waits for so many more, on average."""


class Machine:
    """Calls that take so many milliseconds, by the number of threads; `spread` is how much they vary."""

    def __init__(self, most: int, spread: float = 0.0) -> None:
        self.choice, self.spread = Choice(most), spread
        self.random = random.Random(0)

    def run(self, calls: int, times: dict[int, float], others: int = 0, size: float = 1.0) -> tuple[float, float]:
        """How long calls take on average, and how long they would with the best number."""
        total = 0.0
        for _ in range(calls):
            count = self.choice.threads()
            passed = times[count] * size * self.random.lognormvariate(0, self.spread)
            self.choice.note(count, others, 1e6 * size, passed * 1e-3)
            total += passed
        return total / calls, min(times.values()) * size


@pytest.mark.parametrize("most", [2, 8])
@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_it_finds_the_fastest_and_loses_little(most: int, spread: float) -> None:
    for times in (QUIET, BUSY):
        times = {count: times[count] for count in numbers(most)}
        machine = Machine(most, spread)
        machine.run(100, times)
        passed, best = machine.run(3000, times)
        assert passed < best * (1.03 if spread == 0 else 1.15)


def test_it_follows_a_machine_that_becomes_busy_or_quiet() -> None:
    machine = Machine(2, 0.1)
    for times in (QUIET, BUSY, QUIET, BUSY):
        times = {count: times[count] for count in (1, 2)}
        machine.run(1500, times)
        passed, best = machine.run(300, times)
        assert passed < 1.1 * best


def test_a_busy_machine_is_noticed_within_few_calls() -> None:
    machine = Machine(2)
    machine.run(500, {1: 1.0, 2: 0.55})
    machine.run(20, {1: 1.0, 2: 2.5})
    assert machine.choice.threads() == 1


def test_one_long_interruption_changes_nothing() -> None:
    machine = Machine(2)
    machine.run(100, {1: 1.0, 2: 0.55})
    assert machine.choice.threads() == 2
    machine.choice.note(2, 0, 1e6, 1.0)
    assert machine.choice.threads() == 2


def test_interruptions_that_come_again_and_again_count() -> None:
    """One thread takes 0.85 ms, but every eighth of its calls waits for a processor: two threads are faster."""
    choice, counts = Choice(2), []
    for i in range(1000):
        counts.append(choice.threads())
        alone = 9.0 if i % 8 == 0 else 0.85
        choice.note(counts[-1], 0, 1e6, 1e-3 * {1: alone, 2: 1.65}[counts[-1]])
    assert counts[500:].count(2) > 400


@pytest.mark.parametrize("alone, together", [((2, 0.25, 32), (1.2, 0.2, 25)), ((3, 0.02, 30), (1, 0.1, 50))])
def test_a_few_calls_decide_nothing_where_some_wait_for_long(alone: Waits, together: Waits) -> None:
    """On a busy machine most calls are fast, and some wait for a processor, ten times as long and more."""
    found = []
    for seed in range(10):
        choice, draw, total = Choice(2), random.Random(seed), 0.0
        for i in range(2400):
            count = choice.threads()
            usual, part, wait = (alone, together)[count - 1]
            passed = usual + (wait * draw.expovariate(1) if draw.random() < part else 0.0)
            choice.note(count, 0, 1e6, 1e-3 * passed)
            total += passed if i >= 400 else 0.0
        found.append(total / 2000)
    assert sum(found) / 10 < 1.2 * min(usual + part * wait for usual, part, wait in (alone, together))


def test_sizes_of_one_magnitude_share_what_is_known() -> None:
    machine = Machine(2)
    for size in (1.0, 1.9, 1.2) * 20:
        machine.run(1, {1: 1.0, 2: 2.5}, size=size)
    assert machine.choice.threads() == 1


def test_long_calls_try_nothing_at_once() -> None:
    """A trial of one thread would take 20 s instead of 11, on a machine of which nothing says that it is busy."""
    machine = Machine(2)
    counts = []
    for _ in range(30):
        counts.append(machine.choice.threads())
        machine.run(1, {1: 20000.0, 2: 11000.0})
    assert counts == [2] * 30


def test_calls_of_some_milliseconds_are_tried_soon() -> None:
    """On a busy machine, the first trial does not wait for a hundred calls."""
    machine = Machine(2)
    machine.run(25, {1: 20.0, 2: 32.0})
    assert machine.choice.threads() == 1


def test_trials_lose_no_more_than_their_budget() -> None:
    machine = Machine(8)
    times = {count: QUIET[count] for count in numbers(8)}
    machine.run(100, times)
    passed, best = machine.run(20000, times)
    assert best < passed < best * (1 + 5 * BUDGET * 1.05)  # five other numbers


def test_other_calls_of_the_process_have_processors_of_their_own() -> None:
    machine = Machine(8)
    times = {count: QUIET[count] for count in numbers(8)}
    machine.run(100, times)
    machine.run(50, times, others=3)
    assert machine.choice.threads() <= 5
    machine.run(50, times, others=20)
    assert machine.choice.threads() == 1
    machine.run(50, times)
    assert machine.choice.threads() == 8


def test_a_call_that_another_call_left_no_workers_counts_as_one_thread() -> None:
    """While a trial waits for workers, it ends nevertheless."""
    choice = Choice(2)
    for _ in range(200):
        choice.threads()
        choice.note(1, 0, 1e6, 1e-3)
    assert choice.estimates[2].mean is None and choice.estimates[1].mean == pytest.approx(1e-9)


@pytest.mark.parametrize(
    "most, wanted", [(1, [1]), (2, [1, 2]), (5, [1, 2, 3, 4, 5]), (64, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])]
)
def test_the_numbers_that_are_tried(most: int, wanted: list[int]) -> None:
    assert numbers(most) == wanted
