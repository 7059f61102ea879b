"""Connectionist temporal classification: the probability of a sequence of labels, whatever the steps at which they
lie."""

from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like import stable
from lasagne_like.checks import checked_lengths
from lasagne_like.places import not_from_the_end
from lasagne_like.utils import as_expression

__all__ = ["ctc_loss"]


def ctc_loss(
    predictions: Any, targets: Any, input_lengths: Any = None, target_lengths: Any = None, blank: int = 0
) -> sj.Node:
    """Minus the logarithm of the probability that the predictions, read in order, give the labels.

    Each step gives one class. Reading leaves out repetitions, and then blanks: both `aab_b` and `ab_bb` are read as
    `abb` if `_` is the blank. The loss sums over all ways to read the labels (the forward algorithm, over logarithms).

    If the predictions are the output of a softmax, the loss is computed from its input, so no probability is rounded to
    0.

    Parameters
    ----------
    predictions : expression (batch, time, classes)
        Probabilities.
    targets : integers (batch, labels)
        The classes that should be read, without blanks. Entries behind the end of a row have no effect.
    input_lengths, target_lengths : integers (batch,), optional
        The number of steps and the number of labels of each row; by default all.
    blank : int
        The class that reading leaves out.

    Returns
    -------
    expression (batch,)
        Infinite, with a gradient of 0, where no way gives the labels: there are too few steps.

    References
    ----------
    Graves et al., "Connectionist temporal classification", ICML 2006.

    Examples
    --------
    Two steps of probability 1/2 give the label 1 in three of four ways:

    >>> import numpy as np
    >>> import scanjit as sj
    >>> from lasagne_like.objectives import ctc_loss
    >>> loss = ctc_loss(np.full((1, 2, 2), 0.5), [[1]])
    >>> np.exp(-sj.function([], loss, mode="reference")())
    array([0.75])
    """
    p, labels = as_expression(predictions), as_expression(targets)
    _check(p, labels, blank)
    batch, length, count = p.shape[0], p.shape[1], labels.shape[1]
    labels = sj.specify_shape(labels, (batch, None), "targets of ctc_loss")
    given = None if target_lengths is None else _lengths(target_lengths, batch, count, "target_lengths", "labels")
    if given is not None:
        labels = sj.where(sj.arange(count) < given[:, None], labels, blank)
    path = _path(labels, blank)
    places = not_from_the_end(path, p.shape[2])
    seen = sj.swapaxes(stable.log(p), 0, 1)[:, sj.arange(batch)[:, None], places]
    skips = sj.where((path != blank) & (path != _moved(path, 2, blank)), 0.0, -np.inf)
    never = sj.constant(-np.inf, dtype=p.dtype)

    def step(now: Any, *rest: Any) -> Any:
        *running, before = rest
        ways = sj.logaddexp(before, _moved(before, 1, never))
        after = sj.logaddexp(ways, _moved(before, 2, never) + sj.cast(skips, p.dtype)) + now
        return sj.where(running[0][:, None], after, before) if running else after

    steps = [seen]
    if input_lengths is not None:
        steps.append(sj.arange(length)[:, None] < _lengths(input_lengths, batch, length, "input_lengths", "steps"))
    start = sj.broadcast_to(sj.where(sj.arange(path.shape[1]) == 0, 0, never), path.shape)
    last = sj.reduce(step, steps, start)
    ends = sj.broadcast_to(sj.as_tensor(count), (batch,)) if given is None else given
    on_blank = sj.take_along_axis(last, 2 * ends[:, None], axis=1)[:, 0]
    on_label = sj.take_along_axis(last, sj.maximum(2 * ends - 1, 0)[:, None], axis=1)[:, 0]
    return -sj.logaddexp(on_blank, sj.where(ends > 0, on_label, never))


def _check(p: sj.Node, labels: sj.Node, blank: Any) -> None:
    if p.ndim != 3 or not p.type.kind.floating:
        raise TypeError(f"predictions of ctc_loss are floats (batch, time, classes), got {p!r}")
    if labels.ndim != 2 or not labels.type.kind.integral:
        raise TypeError(f"targets of ctc_loss are integers (batch, labels), got {labels!r}")
    classes = p.shape[2]
    if not isinstance(blank, int | np.integer) or blank < 0 or (isinstance(classes, int) and blank >= classes):
        raise ValueError(f"blank of ctc_loss is one of {classes} classes, got {blank!r}")


def _lengths(given: Any, batch: Any, most: Any, what: str, counted: str) -> sj.Node:
    checked = checked_lengths(given, batch, most, f"{what} of ctc_loss", counted)
    return sj.cast(checked, "int64")  # a path is twice as long, and may not fit their type


def _path(labels: sj.Node, blank: int) -> sj.Node:
    """The labels with a blank before, between and behind them."""
    batch, count = labels.shape
    blanks = sj.full_like(labels, blank)
    pairs = sj.reshape(sj.stack([labels, blanks], axis=2), (batch, 2 * count))
    return sj.concatenate([sj.full((batch, 1), blank, labels.dtype), pairs], axis=1)


def _moved(x: sj.Node, by: int, value: Any) -> sj.Node:
    """Rows moved to the right."""
    return sj.concatenate([sj.full((x.shape[0], by), value, x.dtype), x], axis=1)[:, : x.shape[1]]
