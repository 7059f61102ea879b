"""Losses and accuracies against NumPy, at every shape that they take."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import nonlinearities, objectives as o, stable

Run = Callable[..., Any]
rng = np.random.default_rng(4)


def probabilities(*shape: int) -> np.ndarray:
    x = np.exp(rng.normal(size=shape))
    return x / x.sum(-1, keepdims=True)


def test_binary_crossentropy(run: Run) -> None:
    p, t = rng.uniform(0.1, 0.9, (3, 4)), rng.integers(0, 2, (3, 4))
    expected = -np.where(t, np.log(p), np.log(1 - p))
    np.testing.assert_allclose(run(o.binary_crossentropy(p, t)), expected)
    soft = rng.uniform(size=(3, 4))
    np.testing.assert_allclose(run(o.binary_crossentropy(p, soft)), -soft * np.log(p) - (1 - soft) * np.log(1 - p))
    assert run(o.binary_crossentropy(p.astype("float32"), t)).dtype == np.float32


def test_crossentropies_of_saturated_units_are_exact(run: Run) -> None:
    z = np.array([[-1000.0, 1000.0, -30.0, 0.5]])
    loss = o.binary_crossentropy(nonlinearities.sigmoid(sj.constant(z)), np.array([[1, 0, 1, 1]]))
    np.testing.assert_allclose(run(loss), [[1000, 1000, 30 + np.log1p(np.exp(-30)), np.log1p(np.exp(-0.5))]])
    x = sj.matrix("x")
    shaped = sj.reshape(nonlinearities.softmax(x), (2, 2, 2))
    loss = o.categorical_crossentropy(shaped, np.array([[0, 1], [0, 1]]))
    values = np.array([[0.0, 900.0], [0.0, 900.0], [1.0, 1.0], [-900.0, 0.0]])
    result, gradient = run([loss, sj.grad(loss.sum(), x)], {x: values})
    np.testing.assert_allclose(result, [[900, 0], [np.log(2), 0]], atol=1e-12)
    np.testing.assert_allclose(gradient, [[-1, 1], [0, 0], [-0.5, 0.5], [0, 0]], atol=1e-12)
    hinge = o.binary_hinge_loss(nonlinearities.sigmoid(sj.constant([800.0, -800.0])), [0, 0], log_odds=False)
    np.testing.assert_allclose(run(hinge), [801, 0])


def test_logarithms_look_through_what_moves_elements(run: Run) -> None:
    x = np.array([[1000.0, -1000.0, 0.0], [-30.0, 30.0, 1.0]])
    p = sj.sigmoid(sj.constant(x))
    small = np.log1p(np.exp(-np.abs(x)))
    log, log1m = np.minimum(x, 0) - small, np.minimum(-x, 0) - small
    for move in (lambda v: v.T, lambda v: v[1:, ::-1], lambda v: v.reshape(-1), lambda v: v[0]):
        found = run([stable.log(move(p)), stable.log1m(move(p)), stable.log_odds(move(p))])
        for result, expected in zip(found, (log, log1m, x), strict=True):
            np.testing.assert_allclose(result, move(expected), atol=1e-15)
    rest = sj.softmax(sj.constant(x))[:, 1:].T
    np.testing.assert_allclose(run(stable.log(rest))[:, 0], [-2000, -1000])


def test_other_expressions_than_probabilities_get_plain_logarithms(run: Run) -> None:
    x, w = sj.constant(np.array([[0.5, 1.0]])), sj.constant(np.array([[1.0], [2.0]]))
    for node in (sj.exp(x) @ w, sj.exp(x) * 2.0, 2.0 / sj.exp(x), sj.sigmoid(x) + 0.0, sj.concatenate([x, x])):
        np.testing.assert_allclose(run(stable.log(node)), np.log(run(node)))


@pytest.mark.parametrize("shape", [(5, 3), (2, 4, 3)])
def test_categorical_crossentropy(run: Run, shape: tuple[int, ...]) -> None:
    p, classes = probabilities(*shape), rng.integers(0, 3, shape[:-1])
    expected = -np.log(np.take_along_axis(p, classes[..., None], -1)[..., 0])
    np.testing.assert_allclose(run(o.categorical_crossentropy(p, classes)), expected)
    np.testing.assert_allclose(run(o.categorical_crossentropy(p, np.eye(3)[classes])), expected)
    soft = probabilities(*shape)
    np.testing.assert_allclose(run(o.categorical_crossentropy(p, soft)), -(soft * np.log(p)).sum(-1))
    x, t = sj.tensor((None,) * len(shape)), sj.tensor((None,) * (len(shape) - 1), "int32")
    given = {x: p, t: classes.astype("int32")}
    np.testing.assert_allclose(run(o.categorical_crossentropy(x, t), given), expected)


def test_errors_of_targets() -> None:
    for function in (o.categorical_crossentropy, o.multiclass_hinge_loss, o.categorical_accuracy):
        with pytest.raises(TypeError, match="0 and 2 dimensions"):
            function(sj.matrix(), sj.iscalar())
        with pytest.raises(TypeError, match="float64"):
            function(sj.matrix(), sj.vector())


@pytest.mark.parametrize("mode", ["reference", "emulate"])
@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_a_class_that_does_not_exist_is_an_error(dtype: str, mode: Any) -> None:
    """A negative one, too: it does not count from the end."""
    p, t = sj.matrix("p"), sj.vector("t", dtype=dtype)
    given = probabilities(2, 3)
    for function in (o.categorical_crossentropy, o.multiclass_hinge_loss):
        f = sj.function([p, t], function(p, t), mode=mode)
        assert f(given, [0, 2]).shape == (2,)
        for wrong in (-1, 3):
            with pytest.raises(sj.OutOfBoundsError, match=f"index {wrong} is out of bounds for axis 1 with size 3"):
                f(given, [0, wrong])


@pytest.mark.parametrize("count", [100, 128, 200, None])
def test_classes_of_a_narrow_dtype(count: int | None) -> None:
    """There may be more classes than it has numbers."""
    p, t = sj.tensor((None, count), name="p"), sj.vector("t", dtype="int8")
    given = probabilities(1, count or 150)
    for function in (o.categorical_crossentropy, o.multiclass_hinge_loss):
        f = sj.function([p, t], function(p, t), mode="reference")
        np.testing.assert_array_equal(f(given, [99]), sj.function([p], function(p, [99]), mode="reference")(given))
        for wrong in (-1, -100, -128):
            with pytest.raises(sj.OutOfBoundsError):
                f(given, [wrong])


@pytest.mark.parametrize("k", [0, -1, 4, 1.5, "one"])
def test_top_k_is_a_number_of_classes(k: Any) -> None:
    with pytest.raises(ValueError, match=f"top_k of categorical_accuracy .* at least 1 and at most 3, .*; got {k!r}"):
        o.categorical_accuracy(sj.tensor((None, 3)), sj.lvector(), k)
    if k != 4:
        with pytest.raises(ValueError, match=f"top_k of categorical_accuracy must be .* at least 1; got {k!r}"):
            o.categorical_accuracy(sj.matrix(), sj.lvector(), k)


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_a_class_that_does_not_exist_is_never_right(top_k: int, run: Run) -> None:
    found = run(o.categorical_accuracy(probabilities(4, 3), np.array([-1, -3, 3, 100]), top_k))
    np.testing.assert_array_equal(found, np.zeros(4, bool))


def test_squared_error_and_columns(run: Run) -> None:
    a, b = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    np.testing.assert_allclose(run(o.squared_error(a, b)), (a - b) ** 2)
    column = rng.normal(size=(4, 1))
    for function in (o.squared_error, o.binary_crossentropy, o.binary_accuracy, o.huber_loss):
        assert run(function(sj.constant(abs(column) / 9), np.ones(4))).shape == (4, 1)
    x = sj.matrix("x")
    assert run(o.squared_error(x, np.ones(3)), {x: a}).shape == (4, 3)  # no column: broadcast as NumPy does


def test_aggregate(run: Run) -> None:
    loss, weights = rng.normal(size=(3, 4)), rng.integers(0, 2, (3, 4))
    np.testing.assert_allclose(run(o.aggregate(loss)), loss.mean())
    np.testing.assert_allclose(run(o.aggregate(loss, mode="sum")), loss.sum())
    np.testing.assert_allclose(run(o.aggregate(loss, weights)), (loss * weights).mean())
    np.testing.assert_allclose(run(o.aggregate(loss, weights, "sum")), (loss * weights).sum())
    expected = (loss * weights).sum() / weights.sum()
    np.testing.assert_allclose(run(o.aggregate(loss, weights, mode="normalized_sum")), expected)
    assert run(o.aggregate(loss.astype("float32"), weights, "normalized_sum")).dtype == np.float32
    with pytest.raises(ValueError, match="weights"):
        o.aggregate(loss, mode="normalized_sum")
    with pytest.raises(ValueError, match="'median'"):
        o.aggregate(loss, mode="median")


def test_binary_hinge_loss(run: Run) -> None:
    z, t = rng.normal(size=(3, 4)), rng.integers(0, 2, (3, 4))
    signs = 2 * t - 1
    expected = np.maximum(0, 1 - z * signs)
    np.testing.assert_allclose(run(o.binary_hinge_loss(z, t)), expected)
    np.testing.assert_allclose(run(o.binary_hinge_loss(z, t, log_odds=True, delta=0.5)), np.maximum(0, 0.5 - z * signs))
    np.testing.assert_allclose(run(o.binary_hinge_loss(z, signs, binary=False)), expected)
    p = 1 / (1 + np.exp(-z))
    np.testing.assert_allclose(run(o.binary_hinge_loss(p, t, log_odds=False)), expected)


def test_multiclass_hinge_loss(run: Run) -> None:
    p, classes = probabilities(6, 4), rng.integers(0, 4, 6)
    expected = [max(0, max(p[i, j] for j in range(4) if j != c) - p[i, c] + 0.25) for i, c in enumerate(classes)]
    np.testing.assert_allclose(run(o.multiclass_hinge_loss(p, classes, delta=0.25)), expected)
    np.testing.assert_allclose(run(o.multiclass_hinge_loss(p, np.eye(4)[classes], delta=0.25)), expected)
    x = sj.matrix()
    loss = o.multiclass_hinge_loss(x, classes, delta=0.25).sum()
    assert sj.check_grad(lambda v: o.multiclass_hinge_loss(v, classes, 0.25).sum(), [p], order=1) is None
    assert np.isfinite(run(sj.grad(loss, x), {x: p})).all()


def test_huber_loss(run: Run) -> None:
    p, t = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    d = abs(p - t)
    for delta in (1, 0.3):
        expected = np.where(d <= delta, d**2 / 2, delta * (d - delta / 2))
        np.testing.assert_allclose(run(o.huber_loss(p, t, delta)), expected)


def test_binary_accuracy(run: Run) -> None:
    p, t = rng.uniform(size=(3, 4)), rng.integers(0, 2, (3, 4))
    np.testing.assert_array_equal(run(o.binary_accuracy(p, t)), (p >= 0.5) == t)
    np.testing.assert_array_equal(run(o.binary_accuracy(p, t.astype(float), threshold=0.8)), (p >= 0.8) == t)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_categorical_accuracy(run: Run, k: int) -> None:
    p, classes = probabilities(3, 20, 4), rng.integers(0, 4, (3, 20))
    p[0, :8] = np.round(p[0, :8], 1)  # some equal ones
    best = np.argsort(-p, axis=-1, kind="stable")[..., :k]
    expected = (best == classes[..., None]).any(-1)
    result = run(o.categorical_accuracy(p, classes, top_k=k))
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(run(o.categorical_accuracy(p, np.eye(4)[classes], top_k=k)), expected)
    np.testing.assert_allclose(run(sj.mean(o.categorical_accuracy(p, classes, top_k=k))), expected.mean())


@pytest.mark.parametrize("shapes", [((3, 1), (3,)), ((3,), (3, 1)), ((3, 2, 1), (3, 2)), ((3, 2), (3, 2, 1))], ids=str)
def test_a_missing_last_axis_of_size_one(shapes: Any, run: Run) -> None:
    """It is no reason to pair each prediction with each target, or each loss with each weight."""
    p, t = (np.random.default_rng(i).normal(size=shape) for i, shape in enumerate(shapes))
    expected = (p.ravel() - t.ravel()) ** 2
    np.testing.assert_allclose(run(o.squared_error(p, t)).ravel(), expected)
    np.testing.assert_allclose(run(o.aggregate(p, t)), (p.ravel() * t.ravel()).mean())
    weighted = o.aggregate(p, np.abs(t), mode="normalized_sum")
    np.testing.assert_allclose(run(weighted), np.average(p.ravel(), weights=np.abs(t).ravel()))
