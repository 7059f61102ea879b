"""`RecurrentClassifier`: a class for each sequence."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from lasagne_like.descriptions import completed
from lasagne_like.estimators.base import Recurrent
from lasagne_like.estimators.labels import Labelling, distinct, known_classes, numbers_of

__all__ = ["RecurrentClassifier"]


class RecurrentClassifier(ClassifierMixin, Labelling):
    """A recurrent network that gives each sequence a class, with the interface of scikit-learn.

    The output of the last step (for `bidirectional`, of both ends) goes through a softmax.

    Parameters
    ----------
    COMMON 1
    class_weight : dict, "balanced" or None
        Factors of the losses of classes. "balanced": classes count the same, however many sequences each has.

    COMMON 2
    classes_ : the labels.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.estimators import RecurrentClassifier
    >>> X = np.random.default_rng(0).normal(size=(40, 5, 1))
    >>> y = X.sum((1, 2)) > 0
    >>> model = RecurrentClassifier("rnn", units=8, epochs=30, learning_rate=0.03, random_state=0).fit(X, y)
    >>> model.predict(X[:3]).dtype, model.predict_proba(X[:3]).shape, model.score(X, y) > 0.8
    (dtype('bool'), (3, 2), True)
    """

    def _learned(self, y: Any, lengths: Sequence[int]) -> dict[str, Any]:
        return {"classes_": known_classes(distinct([_labels(y)]), type(self).__name__)}

    def _encoded(self, y: Any, lengths: Sequence[int], learned: dict[str, Any]) -> list[np.ndarray]:
        return list(numbers_of(_labels(y), learned["classes_"]))

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of the classes, in the order of `classes_`: an array (samples, classes)."""
        return np.array(self._predicted(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each sequence."""
        places = self.predict_proba(X).argmax(axis=1)
        return self.classes_[places]


RecurrentClassifier.__doc__ = completed(RecurrentClassifier.__doc__, Recurrent)


def _labels(y: Any) -> np.ndarray:
    labels = column_or_1d(y, warn=True)
    distinct([labels])  # an error that names labels of several types
    check_classification_targets(labels)
    return labels
