"""The CTC loss beside PyTorch's, beside a sum over all ways to read the labels, and at its limits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import layers, nonlinearities, objectives
from tests.optional import optional

torch, needs_torch = optional("torch")


def problem(batch: int, length: int, classes: int, labels: int, dtype: str, blank: int) -> tuple[np.ndarray, ...]:
    """Scores, labels (with repetitions), and how many steps and labels each row has."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(batch, length, classes)).astype(dtype) * 3
    known = np.setdiff1d(np.arange(classes), [blank])
    targets = known[rng.integers(0, 2, (batch, labels))]
    target_lengths = rng.integers(0, labels + 1, batch)
    target_lengths[0] = labels
    return x, targets, rng.integers(2 * labels, length + 1, batch), target_lengths


@needs_torch
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("blank", [0, 3])
def test_value_and_gradient_beside_torch(dtype: str, blank: int) -> None:
    given = problem(5, 20, 6, 4, dtype, blank)
    x = sj.tensor(("B", "T", 6), dtype)
    targets, steps, counts = sj.lmatrix(), sj.lvector(), sj.lvector()
    loss = objectives.ctc_loss(sj.softmax(x), targets, steps, counts, blank)
    weights = np.arange(1.0, 6.0, dtype=dtype)
    outputs = [loss, sj.grad((loss * weights).sum(), x)]
    scores = torch.from_numpy(given[0]).requires_grad_()
    rest = [torch.from_numpy(a) for a in given[1:]]
    log_probs = scores.log_softmax(2).swapaxes(0, 1)
    wanted = torch.nn.functional.ctc_loss(log_probs, *rest, blank=blank, reduction="none")
    (wanted * torch.from_numpy(weights)).sum().backward()
    close = {"rtol": 1e-9, "atol": 1e-11} if dtype == "float64" else {"rtol": 1e-4, "atol": 1e-4}
    for mode in ("reference", "numba") if blank else ("emulate",):
        value, slope = sj.function([x, targets, steps, counts], outputs, mode=mode)(*given)
        assert value.dtype == slope.dtype == dtype
        np.testing.assert_allclose(value, wanted.detach(), **close)
        np.testing.assert_allclose(slope, scores.grad, **close)


def read(path: tuple[int, ...]) -> tuple[int, ...]:
    """The labels of a way: without repetitions, then without blanks."""
    return tuple(label for label, _ in itertools.groupby(path) if label != 0)


@pytest.mark.parametrize("labels", [(), (1,), (1, 2), (2, 2), (1, 2, 1)])
def test_a_sum_over_all_ways(labels: tuple[int, ...]) -> None:
    p = np.random.default_rng(2).dirichlet(np.ones(3), 4)
    ways = [way for way in itertools.product(range(3), repeat=4) if read(way) == labels]
    wanted = sum(np.prod([p[t, label] for t, label in enumerate(way)]) for way in ways)
    loss = objectives.ctc_loss(p[None], np.array([labels], int).reshape(1, -1))
    np.testing.assert_allclose(np.exp(-sj.function([], loss, mode="reference")()), [wanted])


def test_labels_that_do_not_fit_into_the_steps() -> None:
    x = sj.tensor3("x")
    loss = objectives.ctc_loss(sj.softmax(x), [[1, 1, 2], [1, 2, 1]])
    value, slope = sj.function([x], [loss, sj.grad(loss.sum(), x)], mode="reference")(np.zeros((2, 3, 3)))
    np.testing.assert_allclose(value, [np.inf, 3 * np.log(3)])
    assert (slope[0] == 0).all() and np.isfinite(slope).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_lengths_of_small_integers(dtype: str, rng: np.random.Generator) -> None:
    """A path is twice as long as its labels, and begins before the first of none."""
    x, y = sj.tensor3("x"), sj.lmatrix("y")
    given = rng.dirichlet(np.ones(5), (2, 180)), rng.integers(1, 5, (2, 80))
    values = []
    for each in ("int64", dtype):
        n = sj.vector("n", dtype=each)
        f = sj.function([x, y, n], objectives.ctc_loss(x, y, target_lengths=n), mode="reference")
        values.append(f(*given, np.array([70, 0], each)))
    np.testing.assert_array_equal(*values)


def test_long_rows_do_not_underflow() -> None:
    x = sj.matrix("x")
    loss = objectives.ctc_loss(sj.softmax(x)[None], np.ones((1, 300), int) + np.arange(300) % 2)
    scores = np.zeros((2000, 3))
    scores[:, 0] = 300.0
    value, slope = sj.function([x], [loss[0], sj.grad(loss[0], x)], mode="reference")(scores)
    assert np.isfinite(value) and 80_000 < value < 90_000
    assert np.isfinite(slope).all()


def test_a_network_is_trained_with_it() -> None:
    l_in = layers.InputLayer((None, None, 3))
    l_out = layers.DenseLayer(l_in, 4, nonlinearity=nonlinearities.softmax, num_leading_axes=2)
    targets = sj.lmatrix("targets")
    loss = objectives.aggregate(objectives.ctc_loss(layers.get_output(l_out), targets))
    slopes = sj.grad(loss, layers.get_all_params(l_out))
    f = sj.function([l_in.input_var, targets], [loss, *slopes], mode="reference")
    values = f(np.random.default_rng(0).normal(size=(2, 7, 3)) * 1000, [[1, 2], [3, 3]])
    assert all(np.isfinite(value).all() for value in values)


def test_targets_are_aligned() -> None:
    column, vector = sj.tensor(("B", 1)), sj.vector()
    assert objectives.align_targets(column, vector)[1].type.shape[1] == 1
    assert [x.ndim for x in objectives.align_targets(sj.matrix(), vector)] == [2, 1]
    assert [x.ndim for x in objectives.align_targets(column, column)] == [2, 2]


@pytest.mark.parametrize(
    "given, text",
    [
        ((np.ones((2, 3)), [[1]]), r"predictions of ctc_loss are floats \(batch, time, classes\)"),
        ((np.ones((2, 3, 4), int), [[1]]), "predictions of ctc_loss are floats"),
        ((np.ones((2, 3, 4)), [1, 2]), r"targets of ctc_loss are integers \(batch, labels\)"),
        ((np.ones((2, 3, 4)), [[1.0], [2.0]]), "targets of ctc_loss are integers"),
        ((np.ones((2, 3, 4)), [[1], [2]], [[3]]), r"input_lengths of ctc_loss must be integers \(batch,\)"),
        ((np.ones((2, 3, 4)), [[1], [2]], None, [1, 1, 1]), "target_lengths of ctc_loss"),
        ((np.ones((2, 3, 4)), [[1], [2]], None, None, 4), "blank of ctc_loss is one of 4 classes, got 4"),
        ((np.ones((2, 3, 4)), [[1], [2], [3]]), "targets of ctc_loss"),
        ((np.ones((1, 3, 4)), [[4]]), "out of bounds"),
        ((np.ones((1, 3, 4)), [[1, -1]]), "out of bounds"),
    ],
)
def test_wrong_arguments(given: tuple[Any, ...], text: str) -> None:
    with pytest.raises((TypeError, ValueError, sj.ScanjitError), match=text):
        sj.function([], objectives.ctc_loss(*given), mode="reference")()
