"""`EarlyStopping`: when to stop training."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lasagne_like.checks import is_count

__all__ = ["EarlyStopping"]


class EarlyStopping:
    """Decides when to stop training: after a number of scores without improvement. Call it with each new score.

    Parameters
    ----------
    patience : int
        The number of scores in a row without improvement after which to stop.
    min_delta : float
        Only a change of more than this is an improvement.
    larger_is_better : bool
        True for accuracies, False for losses. NaN is never better.

    Attributes
    ----------
    best : the best score so far.
    improved : whether the last score was the best: the time to save the parameters.
    waited : the number of scores since the best one.

    Examples
    --------
    >>> from lasagne_like.training import EarlyStopping
    >>> stopping = EarlyStopping(patience=2)
    >>> [stopping(loss) for loss in (3.0, 2.0, 2.5, 2.1)], stopping.best
    ([False, False, False, True], 2.0)
    """

    def __init__(self, patience: int, min_delta: float = 0.0, larger_is_better: bool = False) -> None:
        least: Any = min_delta
        if not (is_count(patience) and isinstance(least, int | float | np.number) and least >= 0):
            raise ValueError(
                f"patience must be at least 1 and min_delta not negative, got {patience!r} and {min_delta!r}"
            )
        self.patience, self.min_delta, self.larger_is_better = patience, min_delta, larger_is_better
        self.best = -math.inf if larger_is_better else math.inf
        self.improved, self.waited = False, 0

    def __call__(self, score: Any) -> bool:
        score = float(score)
        gain = score - self.best if self.larger_is_better else self.best - score
        self.improved = gain > self.min_delta
        if self.improved:
            self.best, self.waited = score, 0
        else:
            self.waited += 1
        return self.waited >= self.patience

    def get_state(self) -> dict[str, Any]:
        """Its state, for `Checkpoint.save(stopping=stopping.get_state())`."""
        return {"best": self.best, "improved": self.improved, "waited": self.waited}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Set the state that `get_state` returned."""
        self.best, self.improved, self.waited = state["best"], state["improved"], state["waited"]
