"""The base of the estimators of classes: labels and their numbers, and the weights of classes."""

from __future__ import annotations

import numbers
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from lasagne_like.estimators.base import Recurrent

_NAMES = {"b": "numbers", "i": "numbers", "u": "numbers", "f": "numbers", "U": "str", "S": "bytes"}
"""For each kind of dtype, what its labels are called in errors."""


@dataclass(eq=False, repr=False)
class Labelling(Recurrent, ABC):
    """The base of estimators whose targets are labels."""

    _classes = True
    _kept = ("classes_",)

    class_weight: Any = None

    def _outputs(self, learned: dict[str, Any]) -> int:
        return len(learned["classes_"])

    def _balanced(self, targets: list[np.ndarray], learned: dict[str, Any]) -> list[Any]:
        if self.class_weight is None:
            return [1.0] * len(targets)
        self._check_class_weight()
        classes = learned["classes_"]
        if isinstance(self.class_weight, Mapping) and (unknown := set(self.class_weight) - set(classes.tolist())):
            raise ValueError(f"class_weight names {sorted(unknown, key=str)}, but the classes are {classes.tolist()}")
        present, places = np.unique(np.concatenate([np.atleast_1d(t) for t in targets]), return_inverse=True)
        factors = np.ones(len(classes))
        factors[present] = compute_class_weight(self.class_weight, classes=classes[present], y=classes[present][places])
        return [factors[target] for target in targets]

    def _check_class_weight(self) -> None:
        given = self.class_weight
        if not isinstance(given, Mapping) and not (isinstance(given, str) and given == "balanced"):
            raise ValueError(f"class_weight must be a dictionary, 'balanced' or None, got {given!r}")
        for name, weight in given.items() if isinstance(given, Mapping) else ():
            if not isinstance(weight, numbers.Real) or not 0 <= float(weight) < np.inf:
                raise ValueError(f"class_weight of {name!r} must be a number of at least 0, got {weight!r}")

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go through the data once, from the weights of the last call on.

        Parameters
        ----------
        X, y : see `fit`
        classes : array, optional
            All labels that any call will see. Needed in the first call if its `y` has not all of them.
        sample_weight : array, optional
            A factor of the loss of each sequence. For a tagger, also a list of arrays with a factor for each step.

        Returns
        -------
        The estimator.
        """
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all data at once: pass partial_fit a dictionary of weights"
            )
        if classes is not None:
            classes = known_classes(np.unique(classes), type(self).__name__)
            if hasattr(self, "classes_") and not np.array_equal(classes, self.classes_):
                raise ValueError(
                    f"classes={classes.tolist()} are not those of the first call: {self.classes_.tolist()}"
                )
        return self._partial_fit(
            X, y, lambda lengths: self._learned(y, lengths) if classes is None else {"classes_": classes}, sample_weight
        )


def distinct(labels: Sequence[np.ndarray]) -> np.ndarray:
    """The labels in several arrays, sorted, each once.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.estimators.labels import distinct
    >>> distinct([np.array(["b", "a"]), np.array(["b"])])
    array(['a', 'b'], dtype='<U1')
    """
    kinds = {_NAMES.get(one.dtype.kind, one.dtype.name) for one in labels if one.dtype.kind != "O"}
    for label in (label for one in labels if one.dtype.kind == "O" for label in one.tolist()):
        kinds.add("numbers" if isinstance(label, numbers.Real | np.bool_) else type(label).__name__)
    if len(kinds) > 1 or kinds & {"NoneType", "NAType", "NaTType"}:
        raise ValueError(f"labels must be of one type, such as all str or all int, got {', '.join(sorted(kinds))}")
    return np.unique(np.concatenate(labels))


def known_classes(classes: np.ndarray, owner: str) -> np.ndarray:
    """The classes, if there are at least two."""
    if len(classes) < 2:
        raise ValueError(
            f"{owner} needs at least two classes, but y has only one class: {classes.tolist()}. To begin partial_fit "
            "with a part of the data, name all of them: classes=[...]"
        )
    return classes


def numbers_of(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The place of each label among the sorted classes.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.estimators.labels import numbers_of
    >>> numbers_of(np.array(["b", "a"]), np.array(["a", "b"]))
    array([1, 0])
    """
    unseen = ~np.isin(labels, classes)
    if unseen.any():
        raise ValueError(
            f"y has the label {labels[unseen][0]!r}, which is none of the classes {classes.tolist()}: name all of them "
            "in the first call of partial_fit (classes=[...])"
        )
    return np.searchsorted(classes, labels)
