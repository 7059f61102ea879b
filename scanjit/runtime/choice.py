"""How many threads the calls of a function use: what earlier calls have shown to be fastest.

Results are the same bits for any number of threads, so each call may use another number. On a quiet machine all
processors are best. Beside another program that computes, threads that wait for each other in every step may take
several times as long as one thread alone.

Calls use the number with the shortest mean time. Now and then a few calls in a row try another number: the more time
such a trial is expected to lose, the seldomer.
"""

from scanjit.config import MOST_THREADS

BUDGET = 0.01
"""Trials may lose this part of the time of all calls."""
FREE = 0.01
"""The first trial of a number comes at once if it is expected to lose at most so many seconds."""
TRIAL_CALLS = 3
"""A trial lasts so many calls; in the first one, a worker wakes from a long sleep, and its caches are cold."""
TRIAL_SECONDS = 0.02
"""A trial ends after so many seconds."""
MEMORY = 32
"""A mean follows about the last so many calls."""
SETTLED = 4
"""The current number has so many calls before another one is tried."""
OUTLIER = 8.0
"""A call counts as at most so many times the mean: one long interruption says nothing about the next calls. On a busy
machine each tenth call may take ten times as long: such interruptions count."""
GAIN = 0.95
"""Another number is used from then on if its time is less than this part of the current one's."""
CHANGED = 1.25
"""A mean that grows or shrinks by this factor shows that the machine has become busy or quiet."""
HURRY = 5.0
"""After such a change, trials may lose so many times the budget."""
PATIENCE = 4.0
"""While the trials of a number find the same, they become seldomer, down to this part."""


class Estimate:
    """The mean time of calls with one number of threads.

    Attributes
    ----------
    mean : seconds for each operation; None if there was no call.
    weight : how many calls the mean stands for.
    seen : the mean when the last trial ended.
    patience : how many times longer than the budget asks the next trial waits.
    tried : how many seconds all calls had taken when the last trial ended.
    """

    __slots__ = ("mean", "patience", "seen", "tried", "weight")

    def __init__(self) -> None:
        self.mean: float | None = None
        self.seen: float | None = None
        self.weight, self.patience, self.tried = 0, 1.0, 0.0

    def add(self, rate: float) -> float:
        """Add a call; returns what it counts as. The second call replaces the first, which also made memory ready."""
        if self.mean is None:
            self.mean = rate
            return rate
        if self.weight:
            rate = min(rate, OUTLIER * self.mean)
        self.weight = min(self.weight + 1, MEMORY)
        self.mean += (rate - self.mean) / self.weight
        return rate

    def renew(self) -> None:
        """What was measured long ago counts like one call."""
        self.weight = min(self.weight, 1)


class Choice:
    """Chooses for calls of one function with similar sizes.

    Parameters
    ----------
    most : the largest number of threads that the limits of this process allow.

    Examples
    --------
    A machine on which two threads are slower than one:

    >>> choice = Choice(2)
    >>> for _ in range(20):
    ...     count = choice.threads()
    ...     choice.note(count, 0, 1.0, {1: 0.001, 2: 0.003}[count])
    >>> choice.threads()
    1
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.estimates = {count: Estimate() for count in numbers(most)}
        self._current = most
        self._trial: int | None = None
        self._calls, self._seconds = 0, 0.0
        """Of the trial that runs."""
        self._spent = 0.0
        """The seconds of all calls."""
        self._others = 0.0
        """How many other calls run in this process when one begins, on average."""

    def threads(self) -> int:
        """The number of threads for the next call. Processors on which other calls of this process compute are not
        counted."""
        wanted, free = self._trial or self._current, max(self.most - round(self._others), 1)
        return wanted if wanted <= free else max(count for count in self.estimates if count <= free)

    def note(self, threads: int, others: int, operations: float, seconds: float) -> None:
        """Note that a call with so many operations took so many seconds on so many threads. When it began, so many
        others ran."""
        self._others += (others - self._others) / 8
        estimate = self.estimates.get(threads)
        if estimate is None:  # there were too few workers
            return
        self._spent += estimate.add(seconds / operations) * operations
        if self._trial is None:
            if threads == self._current:
                self._settle(estimate, operations)
        elif threads == self._trial or self._calls >= TRIAL_CALLS:
            self._calls, self._seconds = self._calls + 1, self._seconds + seconds
            lost = seconds / operations > 1.5 * self._mean(self._current)
            if self._calls >= TRIAL_CALLS or self._seconds >= TRIAL_SECONDS or lost:
                self._end_trial(self._trial)
        else:
            self._calls += 1  # other calls of this process use the workers

    def _settle(self, current: Estimate, operations: float) -> None:
        """After a call with the current number: use another one, or try one that is due."""
        self._use_best()
        if current.weight < SETTLED or self._trial is not None or current is not self.estimates[self._current]:
            return
        change = self._change(current)
        for count, estimate in self.estimates.items():
            if count != self._current and self._spent >= self._due(count, estimate, change, operations):
                self._trial, self._calls, self._seconds = count, 0, 0.0
                estimate.renew()
                return

    def _use_best(self) -> None:
        """Use the number with the shortest mean from now on, if it is clearly shorter than that of the current one."""
        known = [count for count, estimate in self.estimates.items() if estimate.mean is not None]
        best = min(known, key=self._mean)
        if self._mean(best) < GAIN * self._mean(self._current):
            self._current = best
            self.estimates[best].renew()

    def _end_trial(self, count: int) -> None:
        estimate, self._trial = self.estimates[count], None
        same = estimate.seen is not None and 1 / CHANGED < self._mean(count) / estimate.seen < CHANGED
        estimate.patience = min(2 * estimate.patience, PATIENCE) if same else 1.0
        estimate.seen, estimate.tried = estimate.mean, self._spent
        current = self.estimates[self._current]
        current.seen = current.mean
        self._use_best()

    def _change(self, current: Estimate) -> bool:
        """Whether calls with the current number take another time than when something was tried last."""
        return current.seen is not None and not 1 / CHANGED < self._mean(self._current) / current.seen < CHANGED

    def _due(self, count: int, estimate: Estimate, change: bool, operations: float) -> float:
        """After how many seconds of calls a number is to be tried."""
        expected, current = self._mean(count) * operations, self._mean(self._current) * operations
        calls = min(TRIAL_CALLS, int(TRIAL_SECONDS / max(expected, 1e-9)) + 1)
        loss = calls * max(expected - current, 0.02 * current)
        if estimate.seen is None:
            return max(loss - FREE, 0.0) / BUDGET
        return estimate.tried + loss / BUDGET * (1 / HURRY if change else estimate.patience)

    def _mean(self, count: int) -> float:
        """The mean of a number; if it was never used, what is expected of it: work that threads share evenly."""
        mean = self.estimates[count].mean
        if mean is not None:
            return mean
        current = self.estimates[self._current].mean
        return (current or 0.0) * max(self._current / count, 1.0)


def numbers(most: int) -> list[int]:
    """The numbers of threads that are tried: 1, 2, 3, 4, 6, 8, 12, 16... and the largest."""
    steps = (number << shift for shift in range(MOST_THREADS.bit_length()) for number in (2, 3))
    return sorted({1, most, *(count for count in steps if count < most)})
