"""Losses and accuracies of predictions, for each element or each item; and `aggregate`, which makes a scalar of them.

Predictions and targets are expressions (or arrays). If one of them has a last axis of size 1 that the other lacks, the
other gets this axis: a vector is read as a column. So a loss has one entry for each target, not for each pair.
"""

from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like import stable
from lasagne_like.checks import check_choice, check_top_k
from lasagne_like.ctc import ctc_loss
from lasagne_like.places import among_largest, not_from_the_end
from lasagne_like.shapes import known_sizes
from lasagne_like.utils import number

__all__ = [
    "aggregate",
    "align_targets",
    "binary_accuracy",
    "binary_crossentropy",
    "binary_hinge_loss",
    "categorical_accuracy",
    "categorical_crossentropy",
    "ctc_loss",
    "huber_loss",
    "multiclass_hinge_loss",
    "squared_error",
]


def align_targets(predictions: Any, targets: Any) -> tuple[sj.Node, sj.Node]:
    """Both as expressions. If one of them has a last axis of size 1 that the other lacks, the other gets this axis.

    Parameters
    ----------
    predictions, targets : expressions or arrays

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.objectives import align_targets
    >>> p, t = align_targets(sj.tensor(("B", 1)), sj.tensor(("B",)))
    >>> t
    <dimshuffle: float64(B, 1)>
    """
    p, t = sj.as_tensor(predictions), sj.as_tensor(targets)
    return _like_a_column(p, t), _like_a_column(t, p)


def _like_a_column(x: sj.Node, other: sj.Node) -> sj.Node:
    """`x` with a last axis of size 1, if this is the only axis of `other` that it lacks."""
    lacking = 0 < x.ndim == other.ndim - 1 and known_sizes(other.shape)[-1] == 1
    return sj.expand_dims(x, -1) if lacking else x


def _classes(predictions: Any, targets: Any) -> tuple[sj.Node, sj.Node, bool]:
    """Both as expressions, and whether the targets are numbers of classes. If not, they have the shape of the
    predictions."""
    p, t = sj.as_tensor(predictions), sj.as_tensor(targets)
    if t.ndim not in (p.ndim, p.ndim - 1):
        raise TypeError(
            f"rank mismatch between targets and predictions: {t.ndim} and {p.ndim} dimensions; targets have the shape "
            "of the predictions, or one dimension less and hold the numbers of classes"
        )
    if t.ndim < p.ndim and not t.type.kind.integral:
        raise TypeError(f"the numbers of classes must be integers, got targets of {t.dtype}")
    return p, t, t.ndim < p.ndim


def _entry(x: sj.Node, classes: sj.Node) -> sj.Node:
    """The entry of each class along the last axis."""
    classes = not_from_the_end(classes, x.shape[-1])
    return sj.take_along_axis(x, sj.expand_dims(classes, -1), axis=-1)[..., 0]


def binary_crossentropy(predictions: Any, targets: Any) -> sj.Node:
    """`-t * log(p) - (1 - t) * log(1 - p)`, element by element.

    If the predictions are the output of a sigmoid, the loss is computed from its input, so no probability is rounded to
    0.

    Parameters
    ----------
    predictions : expression
        Probabilities.
    targets : expression
        Within 0 and 1.

    Returns
    -------
    expression

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.objectives import binary_crossentropy
    >>> sj.function([], binary_crossentropy([0.5, 0.25], [1, 0]), mode="reference")().round(3)
    array([0.693, 0.288])
    """
    p, t = align_targets(predictions, targets)
    if p.type.kind.floating:
        t = sj.cast(t, p.dtype)
    return -t * stable.log(p) - (1 - t) * stable.log1m(p)


def categorical_crossentropy(predictions: Any, targets: Any) -> sj.Node:
    """`-sum(t * log(p))` over the last axis; for the number of a class, minus the logarithm of its probability.

    If the predictions are the output of a softmax, the loss is computed from its input, so no probability is rounded to
    0.

    Parameters
    ----------
    predictions : expression
        Probabilities, classes along the last axis.
    targets : expression
        Of the same shape; or integers, of one dimension less.

    Returns
    -------
    expression
        Of one dimension less than the predictions.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.objectives import categorical_crossentropy
    >>> p = [[0.5, 0.5], [0.25, 0.75]]
    >>> sj.function([], categorical_crossentropy(p, [1, 0]), mode="reference")().round(3)
    array([0.693, 1.386])
    """
    p, t, numbered = _classes(predictions, targets)
    if numbered:
        return -_entry(stable.log(p), t)
    return -sj.sum(sj.cast(t, p.dtype) * stable.log(p), axis=-1)


def squared_error(a: Any, b: Any) -> sj.Node:
    """`(a - b)**2`, element by element.

    Parameters
    ----------
    a, b : expressions or arrays

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.objectives import squared_error
    >>> sj.function([], squared_error([1.0, 2.0], [1.0, 4.0]), mode="reference")()
    array([0., 4.])
    """
    a, b = align_targets(a, b)
    return sj.square(a - b)


def aggregate(loss: Any, weights: Any = None, mode: str = "mean") -> sj.Node:
    """A scalar from the losses of elements or items.

    Parameters
    ----------
    loss : expression
    weights : expression, optional
        Factors of the losses; they are broadcast. For a column of losses, they may be a vector. A zero masks a loss,
        which must be finite all the same.
    mode : "mean", "sum" or "normalized_sum"
        "normalized_sum" divides the sum by the sum of the weights.

    Returns
    -------
    scalar expression

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.objectives import aggregate
    >>> sj.function([], aggregate([1.0, 3.0, 9.0], [1, 1, 0], mode="normalized_sum"), mode="reference")()
    array(2.)
    """
    check_choice(mode, "mode", ("mean", "sum", "normalized_sum"))
    if mode == "normalized_sum" and weights is None:
        raise ValueError("mode='normalized_sum' needs weights")
    loss = sj.as_tensor(loss)
    if weights is not None:
        loss, weights = align_targets(loss, weights)
        if loss.type.kind.floating:
            weights = sj.cast(weights, loss.dtype)
        loss = loss * weights
    if mode == "mean":
        return sj.mean(loss)
    return sj.sum(loss) if mode == "sum" else sj.sum(loss) / sj.sum(weights)


def binary_hinge_loss(
    predictions: Any, targets: Any, delta: Any = 1, log_odds: bool | None = None, binary: bool = True
) -> sj.Node:
    """`max(0, delta - t * p)`, element by element.

    Parameters
    ----------
    predictions : expression
        Log-odds, that is, inputs of a sigmoid; with `log_odds=False` probabilities.
    targets : expression
        0 or 1; with `binary=False`, -1 or 1.
    delta : float
        The margin.
    log_odds : bool, optional
        True if it is not given.
    binary : bool

    Returns
    -------
    expression

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.objectives import binary_hinge_loss
    >>> sj.function([], binary_hinge_loss([2.0, 0.5], [1, 0], log_odds=True), mode="reference")()
    array([0. , 1.5])
    """
    p, t = align_targets(predictions, targets)
    if log_odds is not None and not log_odds:
        p = stable.log_odds(p)
    t = sj.cast(t, p.dtype if p.type.kind.floating else "float64")
    return sj.relu(number(delta, p.dtype) - p * (2 * t - 1 if binary else t))


def multiclass_hinge_loss(predictions: Any, targets: Any, delta: Any = 1) -> sj.Node:
    """`max(0, delta + p_j - p_t)` for the class t of each item and the best other class j.

    Parameters
    ----------
    predictions : expression
        Classes along the last axis.
    targets : expression
        Numbers of classes; or of the shape of the predictions, with a one for the class and zeros.
    delta : float
        The margin.

    Returns
    -------
    expression
        Of one dimension less than the predictions.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.objectives import multiclass_hinge_loss
    >>> sj.function([], multiclass_hinge_loss([[0.5, 0.3, 0.2]], [1]), mode="reference")()
    array([1.2])
    """
    p, t, numbered = _classes(predictions, targets)
    own = sj.one_hot(t, p.shape[-1], "bool") if numbered else t != 0
    correct = _entry(p, t) if numbered else sj.sum(sj.where(own, p, 0), axis=-1)
    other = sj.max(sj.where(own, -np.inf, p), axis=-1)
    return sj.relu(other - correct + number(delta, p.dtype))


def huber_loss(predictions: Any, targets: Any, delta: Any = 1) -> sj.Node:
    """`(p - t)**2 / 2` where `|p - t| <= delta`, `delta * (|p - t| - delta / 2)` elsewhere; element by element.

    Parameters
    ----------
    predictions, targets : expressions
    delta : float

    Returns
    -------
    expression

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.objectives import huber_loss
    >>> sj.function([], huber_loss([0.5, 3.0], [0.0, 0.0]), mode="reference")()
    array([0.125, 2.5  ])
    """
    p, t = align_targets(predictions, targets)
    return sj.huber(number(delta, p.dtype), t - p)


def binary_accuracy(predictions: Any, targets: Any, threshold: Any = 0.5) -> sj.Node:
    """Whether `p >= threshold` agrees with the targets (0 or 1), for each element. It has no gradient.

    Parameters
    ----------
    predictions : expression
        Probabilities.
    targets : expression
        0 or 1, of the same shape.
    threshold : float

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.objectives import binary_accuracy
    >>> sj.function([], binary_accuracy([0.9, 0.4, 0.5], [1, 1, 1]), mode="reference")()
    array([ True, False,  True])
    """
    p, t = align_targets(predictions, targets)
    return sj.cast(p >= threshold, "int8") == t


def categorical_accuracy(predictions: Any, targets: Any, top_k: int = 1) -> sj.Node:
    """Whether the class of each item is among its `top_k` most probable ones. It has no gradient.

    Among equally probable classes, the first one counts as the most probable.

    Parameters
    ----------
    predictions : expression
        Classes along the last axis.
    targets : expression
        Numbers of classes; or of the shape of the predictions, where the largest marks the class.
    top_k : int
        From 1 to the number of classes.

    Returns
    -------
    expression of bools
        Of one dimension less than the predictions.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.objectives import categorical_accuracy
    >>> p = [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]
    >>> sj.function([], [categorical_accuracy(p, [1, 2], k) for k in (1, 2)], mode="reference")()
    [array([False,  True]), array([ True,  True])]
    """
    p, t, numbered = _classes(predictions, targets)
    check_top_k(top_k, "top_k of categorical_accuracy", p.shape[-1])
    if not numbered:
        t = sj.argmax(t, axis=-1)
    return sj.argmax(p, axis=-1) == t if top_k == 1 else among_largest(sj, p, t, top_k)
