"""`RecurrentRegressor`: a number, or several, for each sequence."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from lasagne_like.descriptions import completed
from lasagne_like.estimators.base import Recurrent

__all__ = ["RecurrentRegressor"]


class RecurrentRegressor(RegressorMixin, Recurrent):
    """A recurrent network that gives each sequence a number or several, with the interface of scikit-learn.

    A dense layer reads the output of the last step (for `bidirectional`, of both ends). The loss is the squared error.
    Targets should be about as large as 1; `sklearn.compose.TransformedTargetRegressor` scales others.

    Parameters
    ----------
    COMMON 1

    COMMON 2
    n_outputs_ : the number of targets of a sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.estimators import RecurrentRegressor
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> y = X.mean(axis=1)
    >>> model = RecurrentRegressor("gru", units=8, epochs=40, learning_rate=0.03, random_state=0).fit(X, y)
    >>> model.predict(X[:3]).shape, model.score(X, y) > 0.8
    ((3,), True)
    """

    _kept = ("n_outputs_", "_single")

    def _learned(self, y: Any, lengths: Sequence[int]) -> dict[str, Any]:
        values = _values(y)
        return {"n_outputs_": 1 if values.ndim == 1 else values.shape[1], "_single": values.ndim == 1}

    def _encoded(self, y: Any, lengths: Sequence[int], learned: dict[str, Any]) -> list[np.ndarray]:
        values = _values(y)
        values = values[:, None] if values.ndim == 1 else values
        if values.shape[1] != learned["n_outputs_"]:
            raise ValueError(f"y has {values.shape[1]} targets a sequence, not {learned['n_outputs_']} as before")
        return list(values)

    def _outputs(self, learned: dict[str, Any]) -> int:
        return int(learned["n_outputs_"])

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Go through the data once, from the weights of the last call on.

        Parameters
        ----------
        X, y : see `fit`
        sample_weight : array, optional
            A factor of the loss of each sequence.

        Returns
        -------
        The estimator.
        """
        return self._partial_fit(X, y, lambda lengths: self._learned(y, lengths), sample_weight)

    def predict(self, X: Any) -> np.ndarray:
        """The targets of each sequence: an array (samples,) or (samples, targets), as `y` was."""
        found = np.array(self._predicted(X))
        return found[:, 0] if self._single else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


RecurrentRegressor.__doc__ = completed(RecurrentRegressor.__doc__, Recurrent)


def _values(y: Any) -> np.ndarray:
    """The targets as numbers."""
    try:
        values = np.asarray(y)
        if values.dtype.kind in "cmM":
            raise TypeError(f"{values.dtype}")
        values = values if values.dtype.kind in "biuf" else values.astype("float64")
    except (TypeError, ValueError) as error:
        raise ValueError("y must hold numbers, one a sequence or the same number of them for each") from error
    if values.ndim not in (1, 2) or not values.size:
        raise ValueError(f"y must have the axes (samples,) or (samples, targets), got {values.shape}")
    if not np.isfinite(values).all():
        kind = "NaN" if np.isnan(values).any() else "infinity"
        raise ValueError(f"Input y contains {kind}: target {int(np.argwhere(~np.isfinite(values))[0, 0])}")
    return values
