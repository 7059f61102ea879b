"""The history of a training run: losses and other scores, one row an epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import scanjit as sj

__all__ = ["History"]

_SHOWN = 20
"""The most epochs that are shown, approximately. Of longer histories, the last epoch and others at equal distances are
shown."""


class History(Mapping[str, list[float]]):
    """The losses and other scores of a training run. It is a mapping from the name of each score to its values, one an
    epoch. Notebooks show it as a table; `plot` draws it.

    Parameters
    ----------
    scores : mapping of str to lists of numbers, optional
        The scores of an earlier run, such as `Checkpoint.load()["history"]` after `Checkpoint.save(history=history)`.

    Examples
    --------
    >>> from lasagne_like.training import History
    >>> history = History()
    >>> for loss in (0.9, 0.5):
    ...     history.add(training=loss)
    >>> history.add(training=0.4, tested=0.6)
    >>> history["training"], history["tested"], history.epochs
    ([0.9, 0.5, 0.4], [nan, nan, 0.6], 3)
    >>> history
    history of 3 epochs:
      epoch  training  tested
          1       0.9
          2       0.5
          3       0.4     0.6
    """

    def __init__(self, scores: Mapping[str, Any] | None = None) -> None:
        self._scores = {name: [float(value) for value in values] for name, values in (scores or {}).items()}
        lengths = {name: len(values) for name, values in self._scores.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the scores of a history have one value an epoch, and so one length; got {lengths}")

    def add(self, **scores: Any) -> None:
        """Add an epoch.

        Parameters
        ----------
        **scores : numbers
            The scores of this epoch by their names. A score that earlier epochs have and that is missing here is NaN.

        Examples
        --------
        >>> from lasagne_like.training import History
        >>> history = History()
        >>> history.add(loss=0.5)
        >>> dict(history)
        {'loss': [0.5]}
        """
        new, before = {name: float(value) for name, value in scores.items()}, self.epochs
        for name in {**self._scores, **new}:
            self._scores.setdefault(name, [math.nan] * before).append(new.get(name, math.nan))

    @property
    def epochs(self) -> int:
        """The number of epochs."""
        return len(next(iter(self._scores.values()), ()))

    def plot(self, ax: Any = None) -> Any:
        """Draw the history with matplotlib: `scanjit.plot.history(self, ax)`.

        Examples
        --------
        >>> from lasagne_like.training import History
        >>> ax = History({"loss": [0.9, 0.5]}).plot()  # doctest: +SKIP
        """
        return sj.plot.history(self, ax)

    def __getitem__(self, name: str) -> list[float]:
        return self._scores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._scores)

    def __len__(self) -> int:
        return len(self._scores)

    def __repr__(self) -> str:
        return self._document()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self._document().forms(include, exclude)

    def _document(self) -> sj.show.Document:
        last, every = self.epochs - 1, -(-self.epochs // _SHOWN)
        epochs = [i for i in range(self.epochs) if (last - i) % every == 0]
        rows = [(str(i + 1), *(_shown(values[i]) for values in self.values())) for i in epochs]
        table = [sj.show.Table(("epoch", *self), rows)] if rows else []
        return sj.show.Document(f"history of {self.epochs} epoch{'s' * (self.epochs != 1)}", *table)


def _shown(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4g}"
