"""`fit`: the loop over epochs and batches, with validation, early stopping, schedules and a history."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.checks import is_count
from lasagne_like.history import History
from lasagne_like.schedules import Schedule
from lasagne_like.stopping import EarlyStopping

__all__ = ["fit"]


def fit(
    train: Callable[..., Any],
    batches: Callable[[], Iterable[Sequence[Any]]] | Sequence[Sequence[Any]],
    epochs: int,
    *,
    validate: Callable[[], Any] | None = None,
    stopping: EarlyStopping | None = None,
    restore: Iterable[sj.SharedVariable] = (),
    schedule: Schedule | None = None,
    schedule_batches: bool = False,
    history: History | None = None,
    after_epoch: Callable[[History], Any] | None = None,
    verbose: bool = False,
) -> History:
    """Train for some epochs: call a function with each batch, and note the mean of the losses that it returns.

    Parameters
    ----------
    train : callable
        It takes the arrays of a batch, and returns the loss of the batch, or a list that begins with this loss: for
        example, a compiled function with `updates`.
    batches : callable or list
        A function without arguments that returns the batches of one epoch: `lambda: minibatches(x, y, 32)`. Or a list
        of batches, which every epoch goes through. A batch is a tuple of arrays. In the mean loss, the weight
        of a batch is the length of its first array.
    epochs : int
        The most epochs to train.
    validate : callable, optional
        Called without arguments after each epoch. It returns a number, "validation" in the history; or a dictionary of
        several scores.
    stopping : EarlyStopping, optional
        Called after each epoch with the first score of `validate`; without `validate`, with the loss.
    restore : iterable of shared variables
        With `stopping`: they have the values of the best epoch at the end. Pass
        `get_all_params(network)`.
    schedule : lasagne_like.schedules.Schedule, optional
        The learning rate: `updates.adam(loss, params, schedule.rate)`. It goes a step after each epoch.
    schedule_batches : bool
        Whether the schedule goes a step after each batch instead.
    history : History, optional
        The history of an earlier run, to which the epochs are added. By default a new one.
    after_epoch : callable, optional
        Called with the history after each epoch: to save a checkpoint, for example.
    verbose : bool
        Print a line after each epoch.

    Returns
    -------
    History
        One row an epoch: "loss", and the scores of `validate`.

    Raises
    ------
    ValueError
        If an epoch has no batch.
    FloatingPointError
        If the loss of an epoch is NaN or infinite, and there is no `stopping` that could restore a better epoch.

    Notes
    -----
    If Ctrl-C or another exception ends the training, the variables in `restore` get the values of the best epoch (if
    one has ended), and the exception goes on to the caller. A history that you pass has all epochs until then.

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> import lasagne_like as lasagne
    >>> from lasagne_like.training import fit, minibatches
    >>> x, y, w = sj.vector("x"), sj.vector("y"), sj.shared(0.0, "w")
    >>> loss = lasagne.objectives.squared_error(w * x, y).mean()
    >>> train = sj.function([x, y], loss, updates=lasagne.updates.sgd(loss, [w], 0.1), mode="reference")
    >>> data = np.array([1.0, 2.0]), np.array([3.0, 6.0])
    >>> history = fit(train, [data], epochs=20)
    >>> history["loss"][0], round(float(w.get_value()), 4)
    (22.5, 3.0)
    """
    if epochs != 0 and not is_count(epochs):
        raise ValueError(f"epochs must not be negative, and a whole number, got {epochs!r}")
    _check_functions(train=train, validate=validate, after_epoch=after_epoch)
    _check_classes(stopping=(stopping, EarlyStopping), schedule=(schedule, Schedule), history=(history, History))
    if schedule_batches and schedule is None:
        raise ValueError("schedule_batches=True needs a schedule")
    given: Any = restore
    kept = _Best(list(given) if isinstance(given, Iterable) else [given])
    if kept.variables and stopping is None:
        raise ValueError("restore needs stopping, which says which epoch is the best")
    history = History() if history is None else history
    try:
        for epoch in range(epochs):
            loss = _epoch(train, batches() if callable(batches) else batches, schedule if schedule_batches else None)
            scores = _scores(validate)
            history.add(loss=loss, **scores)
            score = next(iter(scores.values()), loss)
            if verbose:
                shown = ", ".join(f"{name} {value:.4g}" for name, value in {"loss": loss, **scores}.items())
                print(f"epoch {epoch + 1} of {epochs}: {shown}", flush=True)
            if schedule is not None and not schedule_batches:
                schedule.step(score)
            if after_epoch is not None:
                after_epoch(history)
            if stopping is None:
                if not math.isfinite(loss):
                    raise FloatingPointError(
                        f"the loss of epoch {epoch + 1} is {loss}: try a smaller learning rate, clip the gradients "
                        "(updates.total_norm_constraint), or scale the inputs"
                    )
                continue
            stop = stopping(score)
            if stopping.improved:
                kept.keep()
            if stop:
                break
    finally:
        kept.restore()
    return history


def _check_functions(**given: Any) -> None:
    for name, value in given.items():
        if not (callable(value) or (value is None and name != "train")):
            raise TypeError(f"{name} must be a function, got {value!r}")


def _check_classes(**given: tuple[Any, type]) -> None:
    for name, (value, kind) in given.items():
        if not (value is None or isinstance(value, kind)):
            raise TypeError(f"{name} must be of the class {kind.__name__}, got {value!r}")


def _epoch(train: Callable[..., Any], batches: Iterable[Sequence[Any]], schedule: Schedule | None) -> float:
    """Train with each batch once. Returns the mean loss of the items."""
    total, items = 0.0, 0
    for batch in batches:
        try:
            count = len(batch[0])
        except (TypeError, IndexError, KeyError):
            raise TypeError(
                f"a batch is a tuple of arrays, of which the first has a row for each item, got {batch!r:.80}"
            ) from None
        found = train(*batch)
        try:
            loss = float(np.asarray(found[0] if isinstance(found, list | tuple) else found))
        except (TypeError, ValueError, IndexError):
            raise TypeError(f"train must return the loss, a number, alone or first, got {found!r:.80}") from None
        total, items = total + loss * count, items + count
        if schedule is not None:
            schedule.step(loss)
    if not items:
        raise ValueError(
            "there was no batch in this epoch: pass a function that returns new batches for each epoch "
            "(lambda: minibatches(...)); an iterator is empty after the first one"
        )
    return total / items


def _scores(validate: Callable[[], Any] | None) -> dict[str, float]:
    if validate is None:
        return {}
    found = validate()
    named = found if isinstance(found, Mapping) else {"validation": found}
    try:
        return {str(name): float(value) for name, value in named.items()}
    except (TypeError, ValueError):
        raise TypeError(f"validate must return a number, or a dictionary of numbers, got {found!r:.80}") from None


class _Best:
    """The values that shared variables had at the end of the best epoch."""

    def __init__(self, variables: Sequence[sj.SharedVariable]) -> None:
        self.variables = variables
        for variable in self.variables:
            if not isinstance(variable, sj.SharedVariable):
                raise TypeError(
                    f"restore must be a list of shared variables, such as get_all_params(network); got {variable!r}"
                )
        self._values: dict[sj.SharedVariable, np.ndarray] = {}

    def keep(self) -> None:
        self._values = {variable: variable.get_value() for variable in self.variables}

    def restore(self) -> None:
        sj.set_values(self._values)
