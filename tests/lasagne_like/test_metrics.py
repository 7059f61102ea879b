"""Metrics: beside scikit-learn's, the same for arrays and symbols, and with masks."""

from functools import partial
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import metrics

RNG = np.random.default_rng(3)
PROBABILITIES = RNG.dirichlet(np.ones(4), 300).round(2)  # some are equal
CLASSES = RNG.integers(0, 4, 300)
CHOSEN = PROBABILITIES.argmax(1)
WEIGHTS = RNG.integers(0, 3, 300).astype(float)
PREDICTED, TRUE = RNG.normal(size=(2, 300))
AVERAGES: list[Any] = ["macro", "micro", "weighted", None]

OWN: dict[str, Any] = {
    "accuracy": lambda mask: (metrics.accuracy, PROBABILITIES, CLASSES),
    "top_k": lambda mask: (lambda p, t, mask: metrics.top_k_accuracy(p, t, 2, mask), PROBABILITIES, CLASSES),
    "perplexity": lambda mask: (metrics.perplexity, PROBABILITIES + 0.01, CLASSES),
    "mse": lambda mask: (metrics.mean_squared_error, PREDICTED, TRUE),
    "mae": lambda mask: (metrics.mean_absolute_error, PREDICTED, TRUE),
    "r2": lambda mask: (metrics.r2, PREDICTED, TRUE),
    **{
        f"{name}-{average}": lambda mask, name=name, average=average: (
            lambda p, t, mask: getattr(metrics, name)(p, t, mask, average=average, classes=4),
            PROBABILITIES,
            CLASSES,
        )
        for name in ("precision", "recall", "f1")
        for average in AVERAGES
    },
}


def reference(name: str, weights: Any) -> Any:
    scores = pytest.importorskip("sklearn.metrics")
    if name in ("mse", "mae", "r2"):
        function = {"mse": "mean_squared_error", "mae": "mean_absolute_error", "r2": "r2_score"}[name]
        return getattr(scores, function)(TRUE, PREDICTED, sample_weight=weights)
    if name == "accuracy":
        return scores.accuracy_score(CLASSES, CHOSEN, sample_weight=weights)
    if name == "top_k":
        order = np.argsort(-PROBABILITIES, axis=1, kind="stable")[:, :2]  # scikit-learn's breaks ties otherwise
        return np.average((order == CLASSES[:, None]).any(1), weights=weights)
    if name == "perplexity":
        own = (PROBABILITIES + 0.01)[np.arange(300), CLASSES]
        return np.exp(np.average(-np.log(own), weights=weights))
    kind, average = name.split("-")
    average = None if average == "None" else average
    return getattr(scores, f"{kind}_score")(CLASSES, CHOSEN, average=average, sample_weight=weights, zero_division=0)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["all", "weighted"])
@pytest.mark.parametrize("name", OWN)
def test_like_scikit_learn_with_arrays_and_symbols(name: str, weights: Any) -> None:
    function, p, t = OWN[name](weights)
    wanted = reference(name, weights)
    np.testing.assert_allclose(function(p, t, weights), wanted, rtol=1e-12)
    symbols = [sj.tensor((None,) * p.ndim), sj.tensor((None,), t.dtype), sj.vector()]
    given = symbols[: 2 + (weights is not None)]
    expression = function(*symbols[:2], symbols[2] if weights is not None else None)
    found = sj.function(given, expression, mode="reference")(*[p, t, weights][: len(given)])
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_auc_like_scikit_learn() -> None:
    scores = pytest.importorskip("sklearn.metrics")
    labels, values = RNG.integers(0, 2, 300), RNG.normal(size=300).round(1)
    assert metrics.auc(values, labels) == pytest.approx(scores.roc_auc_score(labels, values))
    weighted = scores.roc_auc_score(labels, values, sample_weight=WEIGHTS)
    assert metrics.auc(values, labels, WEIGHTS) == pytest.approx(weighted)


def test_top_k_of_classes_that_do_not_exist() -> None:
    probabilities = np.eye(3)
    assert metrics.top_k_accuracy(probabilities, [-1, 1, 3], 1) == metrics.accuracy(probabilities, [-1, 1, 3]) == 1 / 3
    with pytest.raises(ValueError, match=r"k of top_k_accuracy must be .* at least 1 and at most 3, .*; got 0"):
        metrics.top_k_accuracy(probabilities, [0, 1, 2], 0)
    with pytest.raises(ValueError, match=r"k of top_k_accuracy must be .* at most 3, the number of classes; got 4"):
        metrics.top_k_accuracy(probabilities, [0, 1, 2], 4)


@pytest.mark.parametrize("wrong", [-1, 3])
def test_perplexity_of_a_class_that_does_not_exist(wrong: int) -> None:
    p, t, mask = np.full((2, 3), 1 / 3), np.array([0, wrong], "int8"), np.array([1.0, 0.0])
    x, y, weights = sj.matrix("x"), sj.vector("y", dtype="int8"), sj.vector("weights")
    f = sj.function([x, y], metrics.perplexity(x, y), mode="reference")
    masked = sj.function([x, y, weights], metrics.perplexity(x, y, weights), mode="reference")
    assert metrics.perplexity(p, t, mask) == pytest.approx(3) and masked(p, t, mask) == pytest.approx(3)
    with pytest.raises(IndexError, match=f"classes from 0 to 2, got {wrong}"):
        metrics.perplexity(p, t)
    with pytest.raises(IndexError, match="out of bounds for axis 1 with size 3"):
        f(p, t)


@pytest.mark.parametrize("name", ["accuracy", "perplexity", "top_k_accuracy", "f1", "precision", "recall"])
def test_masks_of_padded_batches(name: str) -> None:
    """What is masked does not matter, even if it is NaN."""
    p, t = PROBABILITIES.reshape(30, 10, 4) + 0.01, CLASSES.reshape(30, 10)
    mask = np.arange(10) < RNG.integers(1, 11, 30)[:, None]
    there = mask.astype(bool)
    function = partial(metrics.top_k_accuracy, k=2) if name == "top_k_accuracy" else getattr(metrics, name)
    wanted = function(p[there], t[there])
    p[~there] = RNG.choice([np.nan, 0.0], (~there).sum())[:, None]
    np.testing.assert_allclose(function(p, t, mask=mask.astype("float32")), wanted)


def test_masks_that_lack_the_last_axis() -> None:
    p, t = RNG.normal(size=(2, 5, 6, 3))
    mask = RNG.integers(0, 2, (5, 6))
    for function in (metrics.mean_squared_error, metrics.mean_absolute_error, metrics.r2):
        np.testing.assert_allclose(function(p, t, mask), function(p[mask > 0], t[mask > 0]))


def test_integers_and_small_floats_do_not_overflow() -> None:
    assert metrics.mean_squared_error(np.array([200], "uint8"), np.array([0], "uint8")) == 40000
    assert metrics.mean_absolute_error(np.array([0], "uint8"), np.array([200], "uint8")) == 200
    assert metrics.mean_squared_error(np.full(9, 300, "float16"), np.zeros(9, "float16")) == 90000


def test_what_metrics_refuse() -> None:
    with pytest.raises(ValueError, match="the axes of the targets, or one more for classes; got 1 and 2 axes"):
        metrics.accuracy([1, 2], [[1], [2]])
    with pytest.raises(ValueError, match="must have the same axes, got 2 and 1 of them"):
        metrics.mean_squared_error([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(ValueError, match="average must be 'macro', 'micro', 'weighted' or None, got 'mean'"):
        metrics.f1([1], [1], average="mean")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="with symbols the number of classes must be given: classes=2"):
        metrics.recall(sj.lvector(), sj.lvector())
    with pytest.raises(TypeError, match="auc sorts all scores of a data set: it takes arrays, not symbols"):
        metrics.auc(sj.vector(), [0, 1])
    with pytest.raises(ValueError, match="auc needs items of both classes, got 2 of class 1 of 2"):
        metrics.auc([0.5, 0.5], [1, 1])


def test_shapes_that_do_not_fit_are_not_broadcast() -> None:
    three, column = np.array([0, 1, 1]), np.array([[1], [0], [0]])
    for function in (metrics.accuracy, partial(metrics.f1, classes=2), metrics.mean_squared_error, metrics.r2):
        with pytest.raises(ValueError, match=r"predictions of shape \(3,\) do not fit targets of shape \(1,\)"):
            function(three, [1])
        with pytest.raises(ValueError, match=r"predictions of shape \(3,\) do not fit targets of shape \(1,\)"):
            function(sj.tensor((3,), "int64"), sj.tensor((1,), "int64"))
        with pytest.raises(
            ValueError, match=r"mask must have the shape \(3,\) of the targets, or lack .*; got \(3, 1\)"
        ):
            function(three, three, column)
    for of_classes in (partial(metrics.top_k_accuracy, k=1), metrics.perplexity):
        with pytest.raises(ValueError, match=r"predictions of shape \(3, 2\) do not fit targets of shape \(1,\)"):
            of_classes(np.full((3, 2), 0.5), [1])
    both = RNG.integers(0, 3, (2, 4, 4))
    mask = np.array([1, 1, 0, 0])
    np.testing.assert_allclose(metrics.f1(*both, mask), metrics.f1(*both[:, :2], classes=3))
    steps = np.array([[1, 1, 0, 0]])
    np.testing.assert_allclose(metrics.recall(*both, steps), metrics.recall(*both[:, :, :2], classes=3))


def test_auc_of_scores_that_cannot_be_sorted() -> None:
    with pytest.raises(ValueError, match="got 4 scores, 2 targets"):
        metrics.auc(np.eye(2), [0, 1])
    with pytest.raises(ValueError, match="got 2 scores, 2 targets and 1 entries of mask"):
        metrics.auc([0.1, 0.2], [0, 1], [1])
    with pytest.raises(ValueError, match="a score that is NaN has no rank"):
        metrics.auc([0.1, np.nan, 0.3], [0, 1, 0])
    assert metrics.auc([0.1, np.nan, 0.3], [0, 1, 1], mask=[1, 0, 1]) == 1.0
