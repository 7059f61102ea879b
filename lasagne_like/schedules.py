"""Learning rates that change while a network is trained.

A schedule has a shared variable, `rate`, for an update rule. `lasagne_like.training.fit` changes it after each epoch or
each batch; in a loop of your own, call `step`.

Examples
--------
>>> import scanjit as sj
>>> import lasagne_like as lasagne
>>> from lasagne_like.schedules import cosine, warm_up
>>> schedule = warm_up(cosine(0.1, steps=4), steps=2)
>>> w = sj.shared(1.0, "w")
>>> train = sj.function([], w * w, updates=lasagne.updates.sgd(w * w, [w], schedule.rate), mode="reference")
>>> rates = []
>>> for _ in range(7):
...     rates.append(round(float(schedule.rate.get_value()), 3))
...     loss = train()
...     schedule.step()
>>> rates
[0.0, 0.05, 0.1, 0.085, 0.05, 0.015, 0.0]
"""

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import scanjit as sj
from lasagne_like.checks import checked_count
from lasagne_like.stopping import EarlyStopping

__all__ = ["Schedule", "constant", "cosine", "exponential", "reduce_on_plateau", "staircase", "warm_up"]


class Schedule:
    """A learning rate that changes from step to step.

    Parameters
    ----------
    formula : callable
        Takes the number of steps that were made, and returns the rate.
    plateau : EarlyStopping, optional
        Called with the score of each step. Where it says to stop, the rate is multiplied by `factor` from then on.
    factor : float
        Between 0 and 1.
    least : float
        The rate below which `plateau` does not reduce it.

    Attributes
    ----------
    rate : the shared variable that holds the current rate, for update rules.
    steps : the number of calls of `step`.

    Examples
    --------
    >>> from lasagne_like.schedules import Schedule
    >>> schedule = Schedule(lambda steps: 0.5 / (1 + steps))
    >>> schedule.step()
    >>> float(schedule.rate.get_value())
    0.25
    """

    def __init__(
        self,
        formula: Callable[[int], float],
        plateau: EarlyStopping | None = None,
        factor: float = 0.1,
        least: float = 0.0,
    ) -> None:
        if not callable(formula):
            raise TypeError(f"formula of Schedule must be a function of the number of steps, got {formula!r}")
        self.formula, self.plateau, self.factor, self.least = formula, plateau, _factor(factor), _bound(least, "least")
        self.steps, self._scale = 0, 1.0
        self.rate: sj.SharedVariable = sj.shared(float(formula(0)), "learning_rate")

    def step(self, score: Any = None) -> None:
        """Go to the next step.

        Parameters
        ----------
        score : number, optional
            The loss of this step. Only `reduce_on_plateau` needs it.
        """
        self.steps += 1
        if self.plateau is not None:
            if score is None:
                raise TypeError("a schedule that reduces the rate on a plateau needs the loss of each step: step(loss)")
            if self.plateau(score):
                self.plateau.waited = 0
                self._scale *= self.factor
        self._assign()

    def _assign(self) -> None:
        rate = float(self.formula(self.steps))
        self.rate.set_value(max(rate * self._scale, min(rate, self.least)))

    def get_state(self) -> dict[str, Any]:
        """Its state, for `Checkpoint.save(schedule=schedule.get_state())`."""
        plateau = None if self.plateau is None else self.plateau.get_state()
        return {"steps": self.steps, "scale": self._scale, "plateau": plateau}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Set the state that `get_state` returned."""
        self.steps, self._scale = int(state["steps"]), float(state["scale"])
        if self.plateau is not None:
            self.plateau.set_state(state["plateau"])
        self._assign()


def constant(rate: float) -> Schedule:
    """The same rate in all steps, to be warmed up or reduced on a plateau.

    Examples
    --------
    >>> from lasagne_like.schedules import constant
    >>> float(constant(0.1).rate.get_value())
    0.1
    """
    rate = _rate(rate)
    return Schedule(lambda steps: rate)


def staircase(rate: float, every: int, factor: float = 0.1) -> Schedule:
    """The rate is multiplied by a factor after each `every` steps (torch: `StepLR`).

    Parameters
    ----------
    rate : float
        The rate at first.
    every : int
        The number of steps with the same rate.
    factor : float

    Examples
    --------
    >>> from lasagne_like.schedules import staircase
    >>> [staircase(1.0, every=2, factor=0.5).formula(steps) for steps in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """
    rate, every, factor = _rate(rate), checked_count(every, "every"), _factor(factor)
    return Schedule(lambda steps: rate * factor ** (steps // every))


def exponential(rate: float, factor: float) -> Schedule:
    """The rate is multiplied by a factor after each step (torch: `ExponentialLR`).

    Parameters
    ----------
    rate : float
        The rate at first.
    factor : float

    Examples
    --------
    >>> from lasagne_like.schedules import exponential
    >>> [exponential(1.0, 0.5).formula(steps) for steps in range(4)]
    [1.0, 0.5, 0.25, 0.125]
    """
    return staircase(rate, 1, factor)


def cosine(rate: float, steps: int, least: float = 0.0) -> Schedule:
    """The rate falls along half a cosine, and then stays (torch: `CosineAnnealingLR`).

    Parameters
    ----------
    rate : float
        The rate at first.
    steps : int
        The number of steps after which it has the value `least`.
    least : float
        The rate at the end.

    Examples
    --------
    >>> from lasagne_like.schedules import cosine
    >>> [round(cosine(1.0, steps=4).formula(steps), 3) for steps in range(6)]
    [1.0, 0.854, 0.5, 0.146, 0.0, 0.0]
    """
    rate, whole, least = _rate(rate), checked_count(steps, "steps"), _bound(least, "least")
    return Schedule(lambda steps: least + (rate - least) * (1 + math.cos(math.pi * min(steps / whole, 1))) / 2)


def warm_up(schedule: Schedule | float, steps: int, start: float = 0.0) -> Schedule:
    """The rate rises linearly to the first rate of a schedule, which begins after that.

    Parameters
    ----------
    schedule : Schedule or float
        A number is a constant rate.
    steps : int
        The number of steps during which it rises.
    start : float
        The rate at first.

    Examples
    --------
    >>> from lasagne_like.schedules import warm_up
    >>> [warm_up(1.0, steps=4).formula(steps) for steps in range(6)]
    [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    """
    then, rising, start = _schedule(schedule), checked_count(steps, "steps"), _bound(start, "start")

    def formula(steps: int) -> float:
        if steps >= rising:
            return then.formula(steps - rising)
        return start + (then.formula(0) - start) * steps / rising

    return Schedule(formula, then.plateau, then.factor, then.least)


def reduce_on_plateau(
    schedule: Schedule | float, factor: float = 0.1, patience: int = 10, min_delta: float = 0.0, least: float = 0.0
) -> Schedule:
    """The rate is multiplied by a factor each time that the loss has not become smaller for some steps (Keras:
    `ReduceLROnPlateau`).

    Parameters
    ----------
    schedule : Schedule or float
        A number is a constant rate.
    factor : float
    patience : int
        The number of steps in a row without improvement after which the rate is reduced.
    min_delta : float
        Only a change of more than this is an improvement.
    least : float
        The rate does not become smaller than this.

    Examples
    --------
    >>> from lasagne_like.schedules import reduce_on_plateau
    >>> schedule, rates = reduce_on_plateau(0.5, factor=0.5, patience=2), []
    >>> for loss in (1.0, 0.9, 0.9, 0.9, 0.9, 0.9):
    ...     schedule.step(loss)
    ...     rates.append(float(schedule.rate.get_value()))
    >>> rates
    [0.5, 0.5, 0.5, 0.25, 0.25, 0.125]
    """
    inner = _schedule(schedule)
    if inner.plateau is not None:
        raise ValueError("the schedule reduces its rate on a plateau already")
    return Schedule(inner.formula, EarlyStopping(patience, min_delta), factor, least)


def _schedule(given: Schedule | float) -> Schedule:
    return given if isinstance(given, Schedule) else constant(given)


def _rate(value: float) -> float:
    return _checked(value, lambda v: 0 < v < math.inf, "a learning rate must be a positive number")


def _bound(value: float, what: str) -> float:
    return _checked(value, lambda v: 0 <= v < math.inf, f"{what} of a schedule must be a number of at least 0")


def _factor(value: float) -> float:
    return _checked(value, lambda v: 0 < v <= 1, "factor must be a number up to 1 and more than 0")


def _checked(value: Any, inside: Callable[[Any], bool], must: str) -> float:
    if not (isinstance(value, Real) and inside(value)):
        raise ValueError(f"{must}, got {value!r}")
    return float(value)
