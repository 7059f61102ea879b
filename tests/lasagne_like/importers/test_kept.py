"""What importers keep: float32 whatever `floatX` says, and two biases where they are asked to."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import updates
from lasagne_like.importers import keras, onednn, onnx, tensorflow, torch
from lasagne_like.layers import InputLayer, get_all_layers, get_all_params, get_output
from tests.lasagne_like.importers.test_formats import (
    INPUTS,
    UNITS,
    X,
    keras_weights,
    lstm_variables,
    same,
    some,
    torch_state,
)

Load = Callable[..., Any]


def in_float32(arrays: Any) -> Any:
    if isinstance(arrays, dict):
        return {name: in_float32(value) for name, value in arrays.items()}
    return [in_float32(one) for one in arrays] if isinstance(arrays, list) else arrays.astype("float32")


def onnx_arrays(kind: str) -> dict[str, np.ndarray]:
    gates = {"lstm": 4, "gru": 3}[kind]
    return {"W": some(2, gates * UNITS, INPUTS), "R": some(2, gates * UNITS, UNITS), "B": some(2, 2 * gates * UNITS)}


LOADED: dict[str, tuple[Any, Load]] = {
    "torch": (torch_state("lstm", 2, 2, projected=True), torch.from_state_dict),
    "keras": (keras_weights("gru", INPUTS), keras.from_weights),
    "onnx": (onnx_arrays("gru"), onnx.from_arrays),
    "onednn": (
        {"weights_layer": some(2, 2, UNITS, 4, UNITS), "weights_iter": some(2, 2, UNITS, 4, UNITS)},
        onednn.from_arrays,
    ),
    "tensorflow": (lstm_variables(True, True), tensorflow.from_variables),
}


@pytest.mark.quick(8)
@pytest.mark.parametrize("floatX", ["float32", "float64"])
@pytest.mark.parametrize("options", [{}, {"learn_init": True}, {"stateful": True}], ids=str)
@pytest.mark.parametrize("library", LOADED)
def test_float32_stays(library: str, options: dict[str, Any], floatX: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parameters, the input, the states and the output."""
    given, load = LOADED[library]
    with monkeypatch.context() as patched:
        patched.setattr(sj.config, "floatX", floatX)
        layer = load(in_float32(given), **options)
        y = get_output(layer)
    assert {str(p.dtype) for p in get_all_params(layer)} == {"float32"} == {str(y.dtype)}
    (l_in,) = (one for one in get_all_layers(layer) if isinstance(one, InputLayer))
    updated = {v: new for one in get_all_layers(layer) for v, new in one.updates.items()}
    f = sj.function([l_in.input_var], y, updates=updated, mode="reference")
    assert f(np.ones((1, 5, l_in.output_shape[2]), "float32")).dtype == np.float32


@pytest.mark.parametrize("library", LOADED)
def test_numbers_that_are_not_finite_are_a_warning_at_the_line_of_the_user(library: str) -> None:
    given, load = LOADED[library]
    nans = {k: v * np.nan for k, v in given.items()} if isinstance(given, dict) else [v * np.nan for v in given]
    with pytest.warns(RuntimeWarning, match="values that are NaN or infinite") as caught:
        load(nans)
    assert {warning.filename for warning in caught} == {__file__}


def test_float32_weights_in_a_network_of_float64() -> None:
    """An input of float64 makes float64 of all that follows; the weights stay."""
    l_in = InputLayer((None, None, INPUTS))
    layer = torch.from_state_dict(in_float32(torch_state("gru", 1, 1)), l_in)
    assert {str(p.dtype) for p in get_all_params(layer)} == {"float32"}
    assert sj.function([l_in.input_var], get_output(layer), mode="reference")(X).dtype == np.float64


def test_what_is_not_float32_becomes_floatX(monkeypatch: pytest.MonkeyPatch) -> None:
    for floatX in ("float32", "float64"):
        monkeypatch.setattr(sj.config, "floatX", floatX)
        for dtype in ("float64", "float16"):
            state = {name: value.astype(dtype) for name, value in torch_state("lstm", 1, 1).items()}
            assert {str(p.dtype) for p in torch.from_state_dict(state).get_params()} == {floatX}


# ---- two biases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "depth", "ways"), [("lstm", 2, 2), ("gru", 2, 2), ("rnn", 1, 2)])
def test_two_biases_go_there_and_back(kind: str, depth: int, ways: int) -> None:
    state = torch_state(kind, depth, ways)
    layer, single = torch.from_state_dict(state, double_bias=True), torch.from_state_dict(state)
    same(torch.to_state_dict(layer), state)
    gates = {"lstm": 4, "gru": 2, "rnn": 1}[kind]
    assert len(get_all_params(layer)) == len(get_all_params(single)) + depth * ways * gates
    names = [p.name for p in get_all_params(layer)]
    assert len(set(names)) == len(names)
    x = sj.tensor3("x")
    a, b = sj.function([x], [get_output(layer, x), get_output(single, x)], mode="reference")(X)
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_two_biases_of_other_formats() -> None:
    arrays = onnx_arrays("lstm")
    same(onnx.to_arrays(onnx.from_arrays(arrays, double_bias=True)), [arrays])
    weights = keras_weights("gru", INPUTS)
    same(keras.to_weights(keras.from_weights(weights, double_bias=True)), [weights])


@pytest.mark.parametrize(("kind", "options"), [("LSTM", {}), ("GRU", {}), ("RNN", {"nonlinearity": "relu"})])
def test_training_goes_the_way_of_pytorch(kind: str, options: dict[str, Any]) -> None:
    """Two layers in both directions, five steps; with one bias in place of two it goes another way."""
    library = pytest.importorskip("torch")
    library.manual_seed(0)
    module = getattr(library.nn, kind)(
        INPUTS, UNITS, num_layers=2, bidirectional=True, batch_first=True, dtype=library.float64, **options
    )
    target = np.random.default_rng(1).normal(size=(2, 5, 2 * UNITS))
    layers = [torch.from_state_dict(module.state_dict(), double_bias=two, **options) for two in (True, False)]
    for layer in layers:
        (l_in,) = (one for one in get_all_layers(layer) if isinstance(one, InputLayer))
        cost = ((get_output(layer) - target) ** 2).mean()
        step = updates.momentum(cost, get_all_params(layer, trainable=True), 0.3)
        f = sj.function([l_in.input_var], cost, updates=step, mode="reference")
        for _ in range(5):
            f(X)
    optimizer = library.optim.SGD(module.parameters(), lr=0.3, momentum=0.9)
    for _ in range(5):
        optimizer.zero_grad()
        ((module(library.from_numpy(X))[0] - library.from_numpy(target)) ** 2).mean().backward()
        optimizer.step()
    wanted = {name: value.detach().numpy() for name, value in module.state_dict().items()}
    two, one = (torch.to_state_dict(layer) for layer in layers)
    assert two.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-9, atol=1e-11, err_msg=name)
    assert not np.allclose(one["weight_ih_l0"], wanted["weight_ih_l0"], rtol=1e-4)
