"""`SequenceTagger`: a label for each step."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lasagne_like.descriptions import completed
from lasagne_like.estimators.base import Recurrent
from lasagne_like.estimators.inputs import check_counts, read_weights
from lasagne_like.estimators.labels import Labelling, distinct, known_classes, numbers_of

__all__ = ["SequenceTagger"]


class SequenceTagger(Labelling):
    """A recurrent network that gives each step of a sequence a label, with the interface of scikit-learn.

    `y` is a list with the labels of each sequence, one a step; or an array (samples, steps).

    Parameters
    ----------
    COMMON 1
    class_weight : dict, "balanced" or None
        Factors of the losses of labels. "balanced": labels count the same, however often each is.

    COMMON 2
    classes_ : the labels.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.estimators import SequenceTagger
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=length) for length in rng.integers(3, 9, 40)]
    >>> y = [np.where(x > 0, "up", "down") for x in X]
    >>> model = SequenceTagger("rnn", units=8, epochs=20, learning_rate=0.03, random_state=0).fit(X, y)
    >>> [len(tags) for tags in model.predict(X[:3])] == [len(x) for x in X[:3]], model.score(X, y) > 0.8
    (True, True)
    """

    _each_step = True

    def _learned(self, y: Any, lengths: Sequence[int]) -> dict[str, Any]:
        return {"classes_": known_classes(distinct(_tags(y, lengths)), type(self).__name__)}

    def _encoded(self, y: Any, lengths: Sequence[int], learned: dict[str, Any]) -> list[np.ndarray]:
        return [numbers_of(tags, learned["classes_"]) for tags in _tags(y, lengths)]

    def predict_proba(self, X: Any) -> Any:
        """The probabilities of the labels of each step, in the order of `classes_`: a list of arrays (steps, classes);
        for an array `X`, an array (samples, steps, classes)."""
        found = self._predicted(X)
        return np.array(found) if isinstance(X, np.ndarray) and X.dtype.kind != "O" else found

    def predict(self, X: Any) -> Any:
        """The most probable label of each step: a list of arrays; for an array `X`, an array (samples, steps)."""
        found = self.predict_proba(X)
        labels = [self.classes_[probabilities.argmax(axis=-1)] for probabilities in found]
        return np.array(labels) if isinstance(found, np.ndarray) else labels

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of steps that get their label.

        Parameters
        ----------
        X, y : see `fit`
        sample_weight : array or list of arrays, optional
            How much each sequence, or each step, counts.
        """
        predicted = self.predict(X)
        lengths = [len(tags) for tags in predicted]
        check_counts(lengths, y)
        right = np.concatenate([a == b for a, b in zip(predicted, _tags(y, lengths), strict=True)])
        return float(np.average(right, weights=np.concatenate(read_weights(sample_weight, lengths, by_step=True))))


SequenceTagger.__doc__ = completed(SequenceTagger.__doc__, Recurrent)


def _tags(y: Any, lengths: Sequence[int]) -> list[np.ndarray]:
    found = [np.asarray(tags) for tags in y]
    for i, (tags, length) in enumerate(zip(found, lengths, strict=True)):
        if tags.shape != (length,):
            raise ValueError(
                f"a tagger needs a label for each step: sequence {i} has {length} steps, its labels have the shape "
                f"{tags.shape}"
            )
        if tags.dtype.kind == "f" and not (np.isfinite(tags).all() and (tags == np.round(tags)).all()):
            raise ValueError(f"Unknown label type: the labels of sequence {i} are numbers with fractions, or NaN")
    return found
