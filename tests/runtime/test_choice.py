"""The number of threads follows what calls have shown: with an invented machine in place of a clock."""

from __future__ import annotations

import random

import pytest

from scanjit.runtime.choice import BUDGET, Choice, numbers
from scanjit.schedule.threads.teams import Way

QUIET = {1: 1.0, 2: 0.55, 4: 0.3, 8: 0.2, 3: 0.38, 6: 0.25}
BUSY = {1: 1.0, 2: 2.5, 4: 5.0, 8: 9.0, 3: 4.0, 6: 7.0}

Waits = tuple[float, float, float]
"""Calls that take so many milliseconds, and a part of them that waits for so many more, on average."""


class Machine:
    """Calls that take so many milliseconds, by the number of threads; `spread` is how much they vary."""

    def __init__(self, most: int, spread: float = 0.0) -> None:
        self.choice, self.spread = Choice(numbers(most)), spread
        self.random = random.Random(0)

    def run(self, calls: int, times: dict[int, float], others: int = 0, size: float = 1.0) -> tuple[float, float]:
        """How long calls take on average, and how long they would with the best number."""
        total = 0.0
        for _ in range(calls):
            count = self.choice.way().threads
            passed = times[count] * size * self.random.lognormvariate(0, self.spread)
            self.choice.note(Way(count), others, 1e6 * size, passed * 1e-3)
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
    assert machine.choice.way().threads == 1


def test_one_long_interruption_changes_nothing() -> None:
    machine = Machine(2)
    machine.run(100, {1: 1.0, 2: 0.55})
    assert machine.choice.way().threads == 2
    machine.choice.note(Way(2), 0, 1e6, 1.0)
    assert machine.choice.way().threads == 2


def test_interruptions_that_come_again_and_again_count() -> None:
    """One thread takes 0.85 ms, but every eighth of its calls waits for a processor: two threads are faster."""
    choice, counts = Choice([1, 2]), []
    for i in range(1000):
        counts.append(choice.way().threads)
        alone = 9.0 if i % 8 == 0 else 0.85
        choice.note(Way(counts[-1]), 0, 1e6, 1e-3 * {1: alone, 2: 1.65}[counts[-1]])
    assert counts[500:].count(2) > 400


@pytest.mark.parametrize("alone, together", [((2, 0.25, 32), (1.2, 0.2, 25)), ((3, 0.02, 30), (1, 0.1, 50))])
def test_a_few_calls_decide_nothing_where_some_wait_for_long(alone: Waits, together: Waits) -> None:
    """On a busy machine most calls are fast, and some wait for a processor, ten times as long and more."""
    found = []
    for seed in range(10):
        choice, draw, total = Choice([1, 2]), random.Random(seed), 0.0
        for i in range(2400):
            count = choice.way().threads
            usual, part, wait = (alone, together)[count - 1]
            passed = usual + (wait * draw.expovariate(1) if draw.random() < part else 0.0)
            choice.note(Way(count), 0, 1e6, 1e-3 * passed)
            total += passed if i >= 400 else 0.0
        found.append(total / 2000)
    assert sum(found) / 10 < 1.2 * min(usual + part * wait for usual, part, wait in (alone, together))


def test_sizes_of_one_magnitude_share_what_is_known() -> None:
    machine = Machine(2)
    for size in (1.0, 1.9, 1.2) * 20:
        machine.run(1, {1: 1.0, 2: 2.5}, size=size)
    assert machine.choice.way().threads == 1


def test_long_calls_try_nothing_at_once() -> None:
    """A trial of one thread would take 20 s instead of 11, on a machine of which nothing says that it is busy."""
    machine = Machine(2)
    counts = []
    for _ in range(30):
        counts.append(machine.choice.way().threads)
        machine.run(1, {1: 20000.0, 2: 11000.0})
    assert counts[:20] == [2] * 20 and counts.count(1) == 2


def test_on_a_quiet_machine_one_call_is_enough_to_see_that_a_number_is_much_slower() -> None:
    """It is the second call of the trial: the first with any number of threads does not count."""
    machine = Machine(2, 0.05)
    counts = []
    for _ in range(40):
        counts.append(machine.choice.way().threads)
        machine.run(1, {1: 22.0, 2: 13.0})
    assert counts.count(1) == 2


def test_calls_of_some_milliseconds_are_tried_soon() -> None:
    """On a busy machine, the first trial does not wait for a hundred calls."""
    machine = Machine(2)
    machine.run(25, {1: 20.0, 2: 32.0})
    assert machine.choice.way().threads == 1


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
    assert machine.choice.way().threads <= 5
    machine.run(50, times, others=20)
    assert machine.choice.way().threads == 1
    machine.run(50, times)
    assert machine.choice.way().threads == 8


def test_a_call_that_another_call_left_no_workers_counts_as_one_thread() -> None:
    """While a trial waits for workers, it ends nevertheless."""
    choice = Choice([1, 2])
    for _ in range(200):
        choice.way()
        choice.note(Way(1), 0, 1e6, 1e-3)
    assert choice.estimates[Way(2)].mean is None and choice.estimates[Way(1)].mean == pytest.approx(1e-9)


@pytest.mark.parametrize(
    "most, wanted", [(1, [1]), (2, [1, 2]), (5, [1, 2, 3, 4, 5]), (64, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])]
)
def test_the_numbers_that_are_tried(most: int, wanted: list[int]) -> None:
    assert numbers(most) == wanted


@pytest.mark.parametrize("counts", [[1, 2, 3, 4], [4]])
@pytest.mark.parametrize("other", [True, False])
def test_loops_side_by_side_are_a_choice_for_each_number_of_threads(counts: list[int], other: bool) -> None:
    """A number of threads that the user has fixed is kept."""
    choice, most = Choice(counts, other), max(counts)
    times = {
        Way(count, beside): QUIET[count] * (2 if beside is None else 1) for count in counts for beside in (None, other)
    }
    times[Way(1)] = QUIET[1]
    assert choice.way() == Way(most)
    assert {way.threads for way in choice.estimates} == set(counts)
    for _ in range(200):
        choice.note(way := choice.way(), 0, 1e6, 1e-3 * times[way])
    assert choice.way() == Way(most, other)
    for _ in range(50):
        choice.note(choice.way(), most, 1e6, 1e-3)
    assert choice.way().threads == min(counts)


def test_a_call_that_gets_fewer_threads_counts_for_these() -> None:
    choice = Choice([1, 2, 3], True)
    assert Way(3, True).on(2) == Way(2, True)
    assert Way(3, True).on(1) == Way(1)
    choice.note(Way(3, True).on(2), 0, 1.0, 1.0)
    assert [way for way, estimate in choice.estimates.items() if estimate.mean is not None] == [Way(2, True)]
