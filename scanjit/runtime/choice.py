"""The way in which the calls of a function use threads: the way that was fastest in earlier calls.

A way is a number of threads, and whether loops that can stand side by side have threads of their own (`Way`). Results
are the same bits in all ways, so each call may use another one. On a quiet machine all processors are best. Beside
another program that computes, threads that wait for each other in every step may take several times as long as one
thread alone.

Calls use one way, the current one. Now and then some calls in a row try another way. Such a trial goes on until it has
saved or lost enough time beside calls in the current way: on a busy machine each fifth call may take ten times as long,
so that a few calls say little. The more time a trial may lose, the rarer it is.
"""

from collections.abc import Iterable

from scanjit.config import MOST_THREADS
from scanjit.schedule.threads.teams import Way

BUDGET = 0.01
"""Trials may lose this part of the time of all calls."""
FREE = 0.02
"""The first trial of a way comes at once if it is expected to lose at most this many seconds."""
FIRST_BUDGET = 0.05
"""Otherwise it comes when it is expected to lose this part of the time of all calls so far. Nothing is known of the
way yet, and on a busy machine each call may take twice as long as necessary."""
SHORTEST_TRIAL, LONGEST_TRIAL = 0.5, 8.0
"""A trial ends when it has lost or saved the time of this many calls in the current way; of more calls, the more
their times differ. If all take the same time, one call that takes half as long again is enough."""
TRIAL_CALLS = 24
"""A trial ends at the latest after this many calls."""
MEMORY = 64
"""A mean follows about this many last calls."""
OLD = 4
"""Measurements from before a trial count as much as this many calls."""
SETTLED = 4
"""The current way is used for this many calls before another one is tried."""
OUTLIER = 30.0
"""A call counts as at most this many times the mean: one long interruption says nothing about the next calls. On a busy
machine each tenth call may take ten times as long; such interruptions count."""
GAIN = 0.95
"""Another way becomes the current one if its time is less than this part of the current one's."""
CHANGED = 1.25
"""A mean that grows or shrinks by this factor shows that the machine has become busy or quiet."""
HURRY = 5.0
"""After such a change, trials may lose this many times the budget."""
PATIENCE = 4.0
"""As long as the trials of a way have the same result, they become rarer, down to this part."""


class Estimate:
    """The mean time of calls in one way.

    Attributes
    ----------
    mean : seconds for each operation; None if there was no call.
    square : the mean of the squares of these times.
    weight : how many calls the mean stands for.
    seen : the mean when the last trial ended.
    patience : how many times as long as `BUDGET` alone would ask the next trial waits.
    tried : how many seconds all calls had taken when the last trial ended.
    """

    __slots__ = ("mean", "patience", "seen", "square", "tried", "weight")

    def __init__(self) -> None:
        self.mean: float | None = None
        self.seen: float | None = None
        self.weight, self.patience, self.square, self.tried = 0, 1.0, 0.0, 0.0

    def add(self, rate: float) -> float:
        """Add a call. Returns how much it counts. The second call replaces the first, which also made memory ready."""
        if self.mean is None:
            self.mean, self.square = rate, rate * rate
            return rate
        if self.weight:
            rate = min(rate, OUTLIER * self.mean)
        self.weight = min(self.weight + 1, MEMORY)
        self.mean += (rate - self.mean) / self.weight
        self.square += (rate * rate - self.square) / self.weight
        return rate

    def spread(self) -> float:
        """How much the times of calls differ: their variance, in squares of the mean."""
        return max(self.square / (self.mean * self.mean) - 1, 0.0) if self.mean else 0.0


class Trial:
    """Calls in a row in a way that is not the current one.

    Attributes
    ----------
    way : the way.
    calls : how many calls there were.
    total : the sum of their seconds for each operation.
    balance : how much longer they took than calls in the current way, in units of such calls.
    """

    __slots__ = ("balance", "calls", "total", "way")

    def __init__(self, way: Way) -> None:
        self.way, self.calls, self.total, self.balance = way, 0, 0.0, 0.0

    def add(self, rate: float, current: float) -> None:
        """Add a call, beside the mean of the current way."""
        self.calls += 1
        self.total += rate
        self.balance += rate / current - 1


class Choice:
    """Chooses for calls of one function with similar sizes.

    Parameters
    ----------
    counts : the numbers of threads that calls may use.
    beside : another value of `Way.beside` that calls with several threads may use; None if there is none.

    Examples
    --------
    A machine on which two threads are slower than one:

    >>> choice = Choice([1, 2])
    >>> for _ in range(20):
    ...     way = choice.way()
    ...     choice.note(way, 0, 1.0, {1: 0.001, 2: 0.003}[way.threads])
    >>> choice.way().threads
    1
    """

    def __init__(self, counts: Iterable[int], beside: bool | None = None) -> None:
        every = dict.fromkeys(Way(count, own if count > 1 else None) for count in counts for own in (None, beside))
        self.estimates = {way: Estimate() for way in every}
        self._current = Way(max(counts))
        self._most = self._current.threads
        self._trial: Trial | None = None
        self._spent = 0.0
        """The seconds of all calls."""
        self._others = 0.0
        """How many other calls run in this process when one begins, on average."""

    def way(self) -> Way:
        """The way for the next call. Processors on which other calls of this process compute are not counted."""
        wanted = self._current if self._trial is None else self._trial.way
        free = max(self._most - round(self._others), 1)
        if wanted.threads <= free:
            return wanted
        fewer = [way for way in self.estimates if way.threads <= free]
        return max(fewer, key=lambda way: (way.threads, way.beside == wanted.beside), default=wanted)

    def note(self, way: Way, others: int, operations: float, seconds: float) -> None:
        """Note a call: its way, its number of operations and its seconds. `others` is the number of other calls
        that ran when it began."""
        self._others += (others - self._others) / 8
        estimate = self.estimates.get(way)
        if estimate is None:  # there were too few workers
            return
        rate = estimate.add(seconds / operations)
        self._spent += rate * operations
        trial = self._trial
        if trial is None:
            if way == self._current:
                self._settle(estimate, operations)
        elif way == trial.way:
            if estimate.weight:  # the first call of all made memory ready
                trial.add(rate, self._mean(self._current))
                if abs(trial.balance) >= self._length() or trial.calls >= TRIAL_CALLS:
                    better = trial.total < GAIN * self._mean(self._current) * trial.calls
                    self._end_trial(trial, better)
        else:  # other calls of this process use the workers
            trial.calls += 1
            if trial.calls >= TRIAL_CALLS:
                self._end_trial(trial, better=False)

    def _settle(self, current: Estimate, operations: float) -> None:
        """After a call in the current way: begin a trial that is due."""
        if current.weight < SETTLED:
            return
        change = self._change(current)
        for way, estimate in self.estimates.items():
            if way != self._current and self._spent >= self._due(way, estimate, change, operations):
                self._trial = Trial(way)
                estimate.weight = min(estimate.weight, OLD)
                return

    def _end_trial(self, trial: Trial, better: bool) -> None:
        estimate, self._trial = self.estimates[trial.way], None
        if better:
            estimate.mean, estimate.weight = trial.total / trial.calls, trial.calls
        same = estimate.seen is not None and 1 / CHANGED < self._mean(trial.way) / estimate.seen < CHANGED
        estimate.patience = min(2 * estimate.patience, PATIENCE) if same else 1.0
        estimate.seen, estimate.tried = estimate.mean, self._spent
        current = self.estimates[self._current]
        current.seen = current.mean
        if better:
            current.tried, current.patience = self._spent, 1.0
            self._current = trial.way

    def _change(self, current: Estimate) -> bool:
        """Whether calls in the current way take another time than at the end of the last trial."""
        return current.seen is not None and not 1 / CHANGED < self._mean(self._current) / current.seen < CHANGED

    def _due(self, way: Way, estimate: Estimate, change: bool, operations: float) -> float:
        """The seconds of calls after which a way is to be tried."""
        expected, current = self._mean(way) * operations, self._mean(self._current) * operations
        slower = max(expected / current - 1, 0.02) if current else 0.02
        loss = max(min(TRIAL_CALLS * slower, self._length()), slower) * current
        if estimate.seen is None:
            return max(loss - FREE, 0.0) / FIRST_BUDGET
        return estimate.tried + loss / BUDGET * (1 / HURRY if change else estimate.patience)

    def _length(self) -> float:
        """When a trial ends: see `SHORTEST_TRIAL`."""
        return min(SHORTEST_TRIAL + 3 * self.estimates[self._current].spread(), LONGEST_TRIAL)

    def _mean(self, way: Way) -> float:
        """The mean of a way. For a way that was never used, the expected mean: as if threads shared the work evenly."""
        mean = self.estimates[way].mean
        if mean is not None:
            return mean
        current = self.estimates[self._current].mean
        return (current or 0.0) * max(self._current.threads / way.threads, 1.0)


def numbers(most: int) -> list[int]:
    """The numbers of threads that are tried: 1, 2, 3, 4, 6, 8, 12, 16... and the largest."""
    steps = (number << shift for shift in range(MOST_THREADS.bit_length()) for number in (2, 3))
    return sorted({1, most, *(count for count in steps if count < most)})
