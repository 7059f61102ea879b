"""How many threads the calls of a function use: the number that was fastest in earlier calls.

Results are the same bits for any number of threads, so each call may use another number. On a quiet machine all
processors are best. Beside another program that computes, threads that wait for each other in every step may take
several times as long as one thread alone.

Calls use one number, the current one. Now and then some calls in a row try another number. Such a trial goes on until
it has saved or lost enough time beside calls with the current number: on a busy machine each fifth call may take ten
times as long, so that a few calls say little. The more time a trial may lose, the rarer it is.
"""

from scanjit.config import MOST_THREADS

BUDGET = 0.01
"""Trials may lose this part of the time of all calls."""
FREE = 0.02
"""The first trial of a number comes at once if it is expected to lose at most this many seconds."""
FIRST_BUDGET = 0.05
"""Otherwise it comes when it is expected to lose this part of the time of all calls so far. Nothing is known of the
number yet, and on a busy machine each call may take twice as long as necessary."""
SHORTEST_TRIAL, LONGEST_TRIAL = 1.5, 8.0
"""A trial ends when it has lost or saved the time of this many calls with the current number; of more calls, the more
their times differ."""
TRIAL_CALLS = 24
"""A trial ends at the latest after this many calls."""
MEMORY = 64
"""A mean follows about this many last calls."""
OLD = 4
"""Measurements from before a trial count as much as this many calls."""
SETTLED = 4
"""The current number is used for this many calls before another one is tried."""
OUTLIER = 30.0
"""A call counts as at most this many times the mean: one long interruption says nothing about the next calls. On a busy
machine each tenth call may take ten times as long; such interruptions count."""
GAIN = 0.95
"""Another number becomes the current one if its time is less than this part of the current one's."""
CHANGED = 1.25
"""A mean that grows or shrinks by this factor shows that the machine has become busy or quiet."""
HURRY = 5.0
"""After such a change, trials may lose this many times the budget."""
PATIENCE = 4.0
"""As long as the trials of a number have the same result, they become rarer, down to this part."""


class Estimate:
    """The mean time of calls with one number of threads.

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
    """Calls in a row with a number of threads that is not the current one.

    Attributes
    ----------
    count : the number of threads.
    calls : how many calls there were.
    total : the sum of their seconds for each operation.
    balance : how much longer they took than calls with the current number, in units of such calls.
    """

    __slots__ = ("balance", "calls", "count", "total")

    def __init__(self, count: int) -> None:
        self.count, self.calls, self.total, self.balance = count, 0, 0.0, 0.0

    def add(self, rate: float, current: float) -> None:
        """Add a call, beside the mean of the current number."""
        self.calls += 1
        self.total += rate
        self.balance += rate / current - 1


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
        self._trial: Trial | None = None
        self._spent = 0.0
        """The seconds of all calls."""
        self._others = 0.0
        """How many other calls run in this process when one begins, on average."""

    def threads(self) -> int:
        """The number of threads for the next call. Processors on which other calls of this process compute are not
        counted."""
        wanted = self._current if self._trial is None else self._trial.count
        free = max(self.most - round(self._others), 1)
        return wanted if wanted <= free else max(count for count in self.estimates if count <= free)

    def note(self, threads: int, others: int, operations: float, seconds: float) -> None:
        """Note a call: its number of operations, its seconds and its threads. `others` is the number of other calls
        that ran when it began."""
        self._others += (others - self._others) / 8
        estimate = self.estimates.get(threads)
        if estimate is None:  # there were too few workers
            return
        rate = estimate.add(seconds / operations)
        self._spent += rate * operations
        trial = self._trial
        if trial is None:
            if threads == self._current:
                self._settle(estimate, operations)
        elif threads == trial.count:
            if estimate.weight:  # the first call of all made memory ready
                trial.add(rate, self._mean(self._current))
                self._judge(trial)
        else:  # other calls of this process use the workers
            trial.calls += 1
            if trial.calls >= TRIAL_CALLS:
                self._end_trial(trial, better=False)

    def _settle(self, current: Estimate, operations: float) -> None:
        """After a call with the current number: begin a trial that is due."""
        if current.weight < SETTLED:
            return
        change = self._change(current)
        for count, estimate in self.estimates.items():
            if count != self._current and self._spent >= self._due(count, estimate, change, operations):
                self._trial = Trial(count)
                estimate.weight = min(estimate.weight, OLD)
                return

    def _judge(self, trial: Trial) -> None:
        """End a trial that has shown enough."""
        current = self._mean(self._current)
        if abs(trial.balance) >= self._length() or trial.calls >= TRIAL_CALLS:
            self._end_trial(trial, better=trial.total < GAIN * current * trial.calls)

    def _end_trial(self, trial: Trial, better: bool) -> None:
        estimate, self._trial = self.estimates[trial.count], None
        if better:
            estimate.mean, estimate.weight = trial.total / trial.calls, trial.calls
        same = estimate.seen is not None and 1 / CHANGED < self._mean(trial.count) / estimate.seen < CHANGED
        estimate.patience = min(2 * estimate.patience, PATIENCE) if same else 1.0
        estimate.seen, estimate.tried = estimate.mean, self._spent
        current = self.estimates[self._current]
        current.seen = current.mean
        if better:
            current.tried, current.patience = self._spent, 1.0
            self._current = trial.count

    def _change(self, current: Estimate) -> bool:
        """Whether calls with the current number take another time than at the end of the last trial."""
        return current.seen is not None and not 1 / CHANGED < self._mean(self._current) / current.seen < CHANGED

    def _due(self, count: int, estimate: Estimate, change: bool, operations: float) -> float:
        """The seconds of calls after which a number is to be tried."""
        expected, current = self._mean(count) * operations, self._mean(self._current) * operations
        slower = max(expected / current - 1, 0.02) if current else 0.02
        loss = max(min(TRIAL_CALLS * slower, self._length()), slower) * current
        if estimate.seen is None:
            return max(loss - FREE, 0.0) / FIRST_BUDGET
        return estimate.tried + loss / BUDGET * (1 / HURRY if change else estimate.patience)

    def _length(self) -> float:
        """When a trial ends: see `SHORTEST_TRIAL`."""
        return min(SHORTEST_TRIAL + 2 * self.estimates[self._current].spread(), LONGEST_TRIAL)

    def _mean(self, count: int) -> float:
        """The mean of a number. For a number that was never used, the expected mean: as if threads shared the work
        evenly."""
        mean = self.estimates[count].mean
        if mean is not None:
            return mean
        current = self.estimates[self._current].mean
        return (current or 0.0) * max(self._current / count, 1.0)


def numbers(most: int) -> list[int]:
    """The numbers of threads that are tried: 1, 2, 3, 4, 6, 8, 12, 16... and the largest."""
    steps = (number << shift for shift in range(MOST_THREADS.bit_length()) for number in (2, 3))
    return sorted({1, most, *(count for count in steps if count < most)})
