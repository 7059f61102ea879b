"""Scores of predictions: numbers from arrays, scalar expressions from symbols.

Predictions come first, then targets, as in `lasagne_like.objectives` (scikit-learn has the targets first). Each takes a
`mask` with ones where an item counts: for sequences that are padded, pass the mask of the batch.

Examples
--------
>>> import numpy as np, scanjit as sj
>>> from lasagne_like import metrics
>>> probabilities = np.array([[0.7, 0.3], [0.4, 0.6], [0.9, 0.1]])
>>> float(metrics.accuracy(probabilities, [0, 1, 1], mask=[1, 1, 0]))
1.0
>>> p, t = sj.matrix("p"), sj.lvector("t")
>>> sj.function([p, t], metrics.accuracy(p, t), mode="reference")(probabilities, [0, 1, 0])
array(1.)
"""

from typing import Any, Literal

import numpy as np

import scanjit as sj
from lasagne_like.checks import check_top_k
from lasagne_like.places import among_largest, not_from_the_end
from lasagne_like.shapes import fits, known_sizes
from lasagne_like.utils import is_expression

__all__ = [
    "accuracy",
    "auc",
    "f1",
    "mean_absolute_error",
    "mean_squared_error",
    "perplexity",
    "precision",
    "r2",
    "recall",
    "top_k_accuracy",
]

Average = Literal["macro", "micro", "weighted"] | None


def _namespace(*values: Any) -> Any:
    """The module to compute with: `scanjit` if one of the values is an expression, otherwise NumPy."""
    return sj if any(map(is_expression, values)) else np


def _read(predictions: Any, targets: Any, mask: Any) -> tuple[Any, Any, Any, Any]:
    """Predictions, targets and weights, as arrays or as expressions, with the module that computes with them. The axes
    that they have in common must have the same sizes: none is broadcast, but for axes of size 1 of the weights."""
    x = _namespace(predictions, targets, mask)
    read = sj.as_tensor if x is sj else np.asarray
    p, t = read(predictions), read(targets)
    sizes = known_sizes(t.shape)
    if p.ndim >= t.ndim and not fits(known_sizes(p.shape)[: t.ndim], sizes):
        raise ValueError(f"predictions of shape {known_sizes(p.shape)} do not fit targets of shape {sizes}")
    if mask is not None:
        mask = read(mask)
        found = known_sizes(mask.shape)
        if not fits([None if m == 1 else m for m in found], sizes[: mask.ndim]):
            raise ValueError(f"mask must have the shape {sizes} of the targets, or lack the last axes; got {found}")
    return x, p, t, mask


def _mean(x: Any, values: Any, mask: Any) -> Any:
    """The mean of the items that count, in float64."""
    values = _float(x, values)
    if mask is None:
        return x.mean(values)
    weights = _with_axes(_float(x, mask), values.ndim) + x.zeros_like(values)
    counted = x.where(weights != 0, values, 0.0)  # an item that does not count may be NaN or infinite
    return x.sum(counted * weights) / x.sum(weights)


def _with_axes(weights: Any, ndim: int) -> Any:
    """Weights with `ndim` axes: new ones of size 1 come last."""
    return weights[(..., *[None] * (ndim - weights.ndim))]


def _float(x: Any, values: Any) -> Any:
    return sj.cast(values, "float64") if x is sj else np.asarray(values, "float64")


def _chosen(p: Any, t: Any, x: Any) -> Any:
    """The class that is predicted for each item. Predictions may be numbers of classes already."""
    if p.ndim == t.ndim + 1:
        return x.argmax(p, axis=-1)
    if p.ndim != t.ndim:
        raise ValueError(
            f"predictions must have the axes of the targets, or one more for classes; got {p.ndim} and {t.ndim} axes"
        )
    return p


def accuracy(predictions: Any, targets: Any, mask: Any = None) -> Any:
    """The share of items whose class is predicted.

    Parameters
    ----------
    predictions : array or expression
        Numbers of classes; or probabilities, with the classes along a last axis.
    targets : array or expression
        Numbers of classes.
    mask : array or expression, optional
        Of the shape of the targets: how much each item counts.

    Examples
    --------
    >>> from lasagne_like.metrics import accuracy
    >>> float(accuracy([[0.9, 0.1], [0.6, 0.4]], [0, 1]))
    0.5
    """
    x, p, t, mask = _read(predictions, targets, mask)
    return _mean(x, _chosen(p, t, x) == t, mask)


def top_k_accuracy(predictions: Any, targets: Any, k: int = 5, mask: Any = None) -> Any:
    """The share of items whose class is among the `k` most probable ones. Of equally probable classes, the first one
    counts as the most probable.

    Parameters
    ----------
    predictions : array or expression
        Probabilities, classes along the last axis.
    targets : array or expression
        Numbers of classes.
    k : int
        From 1 to the number of classes.
    mask : array or expression, optional
        Of the shape of the targets: how much each item counts.

    Examples
    --------
    >>> from lasagne_like.metrics import top_k_accuracy
    >>> float(top_k_accuracy([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]], [1, 0], k=2))
    0.5
    """
    x, p, t, mask = _read(predictions, targets, mask)
    check_top_k(k, "k of top_k_accuracy", p.shape[-1] if p.ndim else None)
    return _mean(x, among_largest(x, p, t, k), mask)


def _counts(predictions: Any, targets: Any, mask: Any, classes: int | None) -> tuple[Any, Any, Any, Any]:
    """The module that computes with the counts; and for each class three counts of items: those of this class for which
    it is predicted, those for which it is predicted, and those of this class."""
    x, p, t, mask = _read(predictions, targets, mask)
    chosen = _chosen(p, t, x)
    if classes is None:
        if p.ndim == t.ndim + 1:
            classes = p.shape[-1]
        elif x is sj:
            raise TypeError("with symbols the number of classes must be given: classes=2")
        else:
            classes = int(max(chosen.max(initial=1), t.max(initial=1))) + 1
    places = x.arange(classes)
    predicted, there = (_float(x, part[..., None] == places) for part in (chosen, t))
    weights = 1.0 if mask is None else _with_axes(_float(x, mask), t.ndim + 1)
    axes = tuple(range(t.ndim))
    return x, *(x.sum(part * weights, axis=axes) for part in (predicted * there, predicted, there))


def _ratio(x: Any, above: Any, below: Any) -> Any:
    """A quotient; 0 where the divisor is."""
    return x.where(below > 0, above / x.where(below > 0, below, 1.0), 0.0)


def _averaged(x: Any, above: Any, below: Any, there: Any, average: Any) -> Any:
    """The quotient of each class, or their average (see `precision`). `there` is the number of items of each class."""
    if average == "micro":
        return _ratio(x, x.sum(above), x.sum(below))
    each = _ratio(x, above, below)
    if average is None:
        return each
    if average == "macro":
        return x.mean(each)
    if average == "weighted":
        return x.sum(each * there) / x.sum(there)
    raise ValueError(f"average must be 'macro', 'micro', 'weighted' or None, got {average!r}")


def precision(
    predictions: Any, targets: Any, mask: Any = None, *, average: Average = "macro", classes: int | None = None
) -> Any:
    """Of the items for which a class is predicted, the share that has it; 0 for a class that is never predicted.

    Parameters
    ----------
    predictions : array or expression
        Numbers of classes; or probabilities, with the classes along a last axis.
    targets : array or expression
        Numbers of classes.
    mask : array or expression, optional
        Of the shape of the targets: how much each item counts.
    average : "macro", "micro", "weighted" or None
        "macro" is the mean over classes. "micro" counts the items of all classes together. "weighted" is the mean over
        classes, weighted by their numbers of items. None gives an array with the value of each class.
    classes : int, optional
        The number of classes. By default the length of the last axis of probabilities, or the largest number plus 1.

    Examples
    --------
    >>> from lasagne_like.metrics import precision
    >>> precision([1, 1, 0, 0], [1, 0, 0, 0], average=None)
    array([1. , 0.5])
    """
    x, found, predicted, there = _counts(predictions, targets, mask, classes)
    return _averaged(x, found, predicted, there, average)


def recall(
    predictions: Any, targets: Any, mask: Any = None, *, average: Average = "macro", classes: int | None = None
) -> Any:
    """Of the items that have a class, the share for which it is predicted; 0 for a class that no item has.

    Parameters
    ----------
    predictions, targets, mask, average, classes : see `precision`

    Examples
    --------
    >>> from lasagne_like.metrics import recall
    >>> recall([1, 1, 0, 0], [1, 0, 0, 0], average=None).round(3)
    array([0.667, 1.   ])
    """
    x, found, _, there = _counts(predictions, targets, mask, classes)
    return _averaged(x, found, there, there, average)


def f1(
    predictions: Any, targets: Any, mask: Any = None, *, average: Average = "macro", classes: int | None = None
) -> Any:
    """The harmonic mean of precision and recall.

    Parameters
    ----------
    predictions, targets, mask, average, classes : see `precision`

    Examples
    --------
    >>> from lasagne_like.metrics import f1
    >>> f1([1, 1, 0, 0], [1, 0, 0, 0], average=None).round(3)
    array([0.8  , 0.667])
    """
    x, found, predicted, there = _counts(predictions, targets, mask, classes)
    return _averaged(x, 2 * found, predicted + there, there, average)


def auc(scores: Any, targets: Any, mask: Any = None) -> float:
    """The area under the ROC curve: how probable it is that an item of class 1 has a larger score than one of class 0.

    Parameters
    ----------
    scores : array
        Larger ones for class 1. They need no particular scale.
    targets : array
        0 or 1.
    mask : array, optional
        How much each item counts.

    Examples
    --------
    >>> from lasagne_like.metrics import auc
    >>> auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    0.75
    """
    if _namespace(scores, targets, mask) is sj:
        raise TypeError("auc sorts all scores of a data set: it takes arrays, not symbols")
    values, labels = np.asarray(scores, "float64").ravel(), np.asarray(targets).ravel() > 0
    weights = np.ones(len(values)) if mask is None else np.asarray(mask, "float64").ravel()
    if not len(values) == len(labels) == len(weights):
        raise ValueError(
            f"auc needs a score and a target for each item, got {len(values)} scores, {len(labels)} targets"
            + ("" if mask is None else f" and {len(weights)} entries of mask")
        )
    counting = weights > 0
    if np.isnan(values[counting]).any():
        raise ValueError("a score that is NaN has no rank: auc needs scores that are numbers")
    values, labels, weights = values[counting], labels[counting], weights[counting]
    ones, zeros = weights[labels].sum(), weights[~labels].sum()
    if not ones or not zeros:
        raise ValueError(f"auc needs items of both classes, got {int(labels.sum())} of class 1 of {len(labels)}")
    found, places = np.unique(values, return_inverse=True)
    below = np.bincount(places[~labels], weights[~labels], len(found))
    smaller = np.cumsum(below) - below / 2  # of equal scores, half count
    return float((smaller[places[labels]] * weights[labels]).sum() / (ones * zeros))


def perplexity(predictions: Any, targets: Any, mask: Any = None) -> Any:
    """`exp` of the mean of `-log(p)`, where p is the probability of the class of an item.

    Parameters
    ----------
    predictions : array or expression
        Probabilities, classes along the last axis.
    targets : array or expression
        Numbers of classes. Of an item that does not count, it may be any integer.
    mask : array or expression, optional
        Of the shape of the targets: how much each item counts.

    Raises
    ------
    IndexError
        If there is no such class. If the targets are an expression, the function that computes it raises the error.

    Examples
    --------
    >>> from lasagne_like.metrics import perplexity
    >>> float(perplexity([[0.5, 0.5], [0.5, 0.5]], [0, 1]))
    2.0
    """
    x, p, t, mask = _read(predictions, targets, mask)
    count = p.shape[-1]
    if mask is not None:
        t = x.where(mask != 0, t, 0)
    if x is sj:
        t = not_from_the_end(t, count)
    elif (wrong := t[(t < 0) | (t >= count)]).size:
        raise IndexError(f"targets of perplexity are classes from 0 to {count - 1}, got {wrong[0]}")
    own = x.take_along_axis(p, t[..., None], axis=-1)[..., 0]
    with np.errstate(divide="ignore"):  # an item of probability 0 may be masked
        losses = -x.log(_float(x, own))
    return x.exp(_mean(x, losses, mask))


def _of_one_shape(predictions: Any, targets: Any, mask: Any) -> tuple[Any, Any, Any, Any]:
    x, p, t, mask = _read(predictions, targets, mask)
    if p.ndim != t.ndim:
        raise ValueError(f"predictions and targets must have the same axes, got {p.ndim} and {t.ndim} of them")
    return x, p, t, mask


def mean_squared_error(predictions: Any, targets: Any, mask: Any = None) -> Any:
    """The mean of `(p - t)**2`.

    Parameters
    ----------
    predictions, targets : arrays or expressions
        Of one shape.
    mask : array or expression, optional
        How much each item counts; it may lack the last axes.

    Examples
    --------
    >>> from lasagne_like.metrics import mean_squared_error
    >>> float(mean_squared_error([1.0, 5.0], [1.0, 2.0]))
    4.5
    """
    x, p, t, mask = _of_one_shape(predictions, targets, mask)
    return _mean(x, x.square(_float(x, p) - t), mask)


def mean_absolute_error(predictions: Any, targets: Any, mask: Any = None) -> Any:
    """The mean of `|p - t|`.

    Parameters
    ----------
    predictions, targets, mask : see `mean_squared_error`

    Examples
    --------
    >>> from lasagne_like.metrics import mean_absolute_error
    >>> float(mean_absolute_error([1.0, 5.0], [1.0, 2.0]))
    1.5
    """
    x, p, t, mask = _of_one_shape(predictions, targets, mask)
    return _mean(x, abs(_float(x, p) - t), mask)


def r2(predictions: Any, targets: Any, mask: Any = None) -> Any:
    """The share of the variance of the targets that the predictions explain: 1 for perfect ones, 0 for the mean.

    Parameters
    ----------
    predictions, targets, mask : see `mean_squared_error`
        All items are taken together, also those of several targets.

    Examples
    --------
    >>> from lasagne_like.metrics import r2
    >>> float(r2([1.0, 2.0, 4.0], [1.0, 2.0, 3.0]))
    0.5
    """
    x, p, t, mask = _of_one_shape(predictions, targets, mask)
    t = _float(x, t)
    middle = _mean(x, t, mask)
    return 1 - _mean(x, x.square(p - t), mask) / _mean(x, x.square(t - middle), mask)
