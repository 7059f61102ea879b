"""Functions that people export: for the tests of compilers and processors."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like.layers import DenseLayer, GRULayer, InputLayer, LSTMLayer, get_output
from tests.library.support import Built, same
from tests.lstm import lstm_outputs


class Case(NamedTuple):
    """A function, the arguments of a call, and how many calls there are."""

    f: Any
    args: list[Any]
    calls: int = 1


def numbers(*shape: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(7).normal(size=shape).astype(dtype)


def garch() -> Case:
    """The likelihood of a GARCH(1, 1), and its gradient."""
    r, p = sj.vector("r"), sj.tensor((3,), name="parameters")
    before = sj.concatenate([np.zeros(1), r[:-1]])
    variance = sj.scan(lambda last, v: sj.exp(p[0]) + p[1] * last**2 + p[2] * v, before, sj.constant(1.0))
    loss = (sj.log(variance) + r**2 / variance).sum()
    return Case(sj.function([r, p], [loss, sj.grad(loss, p)]), [numbers(300), np.array([-2.0, 0.1, 0.8])])


def biquads() -> Case:
    """A bank of filters of second order."""
    x, b, a = sj.vector("x"), sj.tensor((3, "N"), name="b"), sj.tensor((2, "N"), name="a")
    zero = sj.zeros((b.shape[1],))

    def step(row, s1, s2):
        y = b[0] * row + s1
        return y, b[1] * row - a[0] * y + s2, b[2] * row - a[1] * y

    y, _, _ = sj.scan(step, x, [None, zero, zero])
    return Case(sj.function([x, b, a], y), [numbers(300), 0.3 * numbers(3, 10), 0.2 * numbers(2, 10)])


def kalman() -> Case:
    """A filter of four states and two measurements."""
    ys, F, H = sj.tensor(("T", 2), name="y"), sj.tensor((4, 4), name="F"), sj.tensor((2, 4), name="H")

    def step(y, m, P):
        m, P = F @ m, F @ P @ F.T + 0.1 * np.eye(4)
        S = H @ P @ H.T + 0.5 * np.eye(2)
        K = sj.solve(S, H @ P).T
        return m + K @ (y - H @ m), P - K @ H @ P

    m, P = sj.scan(step, ys, [np.zeros(4), np.eye(4)])
    return Case(sj.function([ys, F, H], [m, P[-1]]), [numbers(50, 2), 0.4 * numbers(4, 4), numbers(2, 4)])


def stack() -> Case:
    """An LSTM and a GRU with a mask."""
    lasagne.random.set_rng(np.random.RandomState(1))
    x, m = sj.tensor3("x", "float32"), sj.matrix("mask", "float32")
    l_x, l_m = InputLayer((None, None, 4), x), InputLayer((None, None), m)
    network = GRULayer(LSTMLayer(l_x, 10, mask_input=l_m), 9, mask_input=l_m)
    with_floats = get_output(DenseLayer(network, 3, num_leading_axes=2))
    mask = (numbers(3, 20) > -1).astype("float32")
    return Case(sj.function([x, m], with_floats), [numbers(3, 20, 4, dtype="float32"), mask])


def characters() -> Case:
    """A training step of a model of characters."""
    ids, targets = sj.tensor(("B", "T"), "int32", "ids"), sj.tensor(("B", "T"), "int32", "targets")
    lasagne.random.set_rng(np.random.RandomState(2))
    l_in = InputLayer((None, None), ids)
    hidden = GRULayer(lasagne.layers.EmbeddingLayer(l_in, 12, 6), 16)
    scores = get_output(DenseLayer(hidden, 12, num_leading_axes=2, nonlinearity=None))
    rows = sj.log_softmax(scores.reshape((-1, 12)))
    loss = -rows[sj.arange(rows.shape[0]), targets.reshape((-1,))].mean()
    updates = lasagne.updates.adam(loss, lasagne.layers.get_all_params(hidden, trainable=True), 0.01)
    text = np.random.default_rng(3).integers(0, 12, (4, 21)).astype("int32")
    return Case(sj.function([ids, targets], loss, updates=updates), [text[:, :-1], text[:, 1:]], calls=4)


def amplifier(units: int = 40) -> Case:
    """One sample of a model of an amplifier: an LSTM, and a dense layer."""
    lasagne.random.set_rng(np.random.RandomState(4))
    x = sj.tensor((1, "T", 1), "float32", "x")
    shapes = {"W": (1, 4 * units), "R": (units, 4 * units), "out": (units, 1)}
    w, r, out = (sj.shared(0.3 * numbers(*shape, dtype="float32"), name) for name, shape in shapes.items())
    h = lstm_outputs(x.transpose(1, 0, 2), w, r, name="lstm")
    y = x + (h @ out).transpose(1, 0, 2)
    return Case(sj.step_function(([x], y), time=1).for_sizes({}).function, [numbers(1, 1, dtype="float32")], calls=50)


def silero() -> Case:
    """A detector of speech that others trained, from its ONNX file: a step of a stream."""
    pytest.importorskip("onnx")
    spec = importlib.util.find_spec("silero_vad")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("silero-vad is not installed")
    path = Path(next(iter(spec.submodule_search_locations))) / "data" / "silero_vad.onnx"
    model = sj.onnx.load(path, inputs={"sr": 16000}, sizes={"input": (1, 576), "state": (2, 1, 128)})
    step = sj.step_function(model.function(), time=None, feedback={"state": "stateN"})
    return Case(step.for_sizes({}).function, [0.3 * numbers(1, 576, dtype="float32")], calls=3)


CASES: dict[str, Callable[[], Case]] = {
    made.__name__: made for made in (garch, biquads, kalman, stack, characters, amplifier, silero)
}

BOUND = 64
"""How far results may be from those of Python, in units in the last place of the largest entry of each array. What is
measured is in docs/reference/c_library.md."""


def compare(case: Case, built: Built, exactly: bool) -> None:
    """The results of some calls, and the variables after them, beside Python's."""
    before = {variable: variable.get_value() for variable in case.f.graph.variables}
    found, state = built.call(*case.args, calls=case.calls)
    assert built.status == 0, built.said
    wanted = None
    for _ in range(case.calls):
        wanted = case.f(*case.args)
    results = wanted if isinstance(wanted, list) else [wanted]
    after = [variable.get_value() for _, variable in built.face.state]
    sj.set_values(before)
    for one, other in zip([*found, *state], [*results, *after], strict=True):
        if exactly:
            same(one, other)
        else:
            bound = BOUND * np.finfo(one.dtype).eps * abs(other).max() if one.dtype.kind == "f" else 0
            np.testing.assert_allclose(one, other, rtol=0, atol=bound)
