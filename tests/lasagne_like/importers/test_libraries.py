"""The libraries themselves, where they are installed: their layers, with the weights that went through ours."""

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like.importers import keras, onnx, torch
from lasagne_like.layers import InputLayer, get_all_layers, get_output

X = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def float32() -> None:
    sj.config.floatX = "float32"


def output(layer: Any) -> np.ndarray:
    (l_in,) = (one for one in get_all_layers(layer) if isinstance(one, InputLayer))
    return sj.function([l_in.input_var], get_output(layer), mode="reference")(X)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("LSTM", {"num_layers": 2, "bidirectional": True}),
        ("LSTM", {"proj_size": 2, "num_layers": 2, "bias": False}),
        ("GRU", {"num_layers": 2, "bidirectional": True}),
        ("RNN", {"nonlinearity": "relu"}),
    ],
)
def test_pytorch(kind: str, options: dict[str, Any]) -> None:
    library = pytest.importorskip("torch")
    library.manual_seed(0)
    module = getattr(library.nn, kind)(3, 4, batch_first=True, **options)
    layer = torch.from_state_dict(module.state_dict(), nonlinearity=options.get("nonlinearity", "tanh"))
    with library.no_grad():
        expected = module(library.from_numpy(X))[0].numpy()
    np.testing.assert_allclose(output(layer), expected, rtol=0, atol=1e-6)
    back = {name: library.from_numpy(value) for name, value in torch.to_state_dict(layer).items()}
    again = getattr(library.nn, kind)(3, 4, batch_first=True, **{**options, "bias": True})
    again.load_state_dict(back)
    with library.no_grad():
        np.testing.assert_allclose(again(library.from_numpy(X))[0].numpy(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("LSTM", {}),
        ("GRU", {"reset_after": True}),
        ("GRU", {"reset_after": False, "use_bias": False}),
        ("SimpleRNN", {}),
    ],
)
@pytest.mark.parametrize("both", [False, True])
def test_keras(kind: str, options: dict[str, Any], both: bool) -> None:
    library = pytest.importorskip("keras")
    library.utils.set_random_seed(0)
    theirs = getattr(library.layers, kind)(4, return_sequences=True, bias_initializer="random_normal", **options)
    theirs = library.layers.Bidirectional(theirs) if both else theirs
    expected = library.ops.convert_to_numpy(theirs(X))
    layer = keras.from_weights(theirs.get_weights(), bidirectional=both, reset_after=options.get("reset_after"))
    np.testing.assert_allclose(output(layer), expected, rtol=0, atol=1e-6)
    if options.get("use_bias", True):
        theirs.set_weights(keras.to_weights(layer)[0])
        np.testing.assert_allclose(library.ops.convert_to_numpy(theirs(X)), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("kind", "lbr"), [("LSTM", 0), ("GRU", 0), ("GRU", 1), ("RNN", 0)])
def test_onnx_runtime(kind: str, lbr: int) -> None:
    library, _ = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    from tests.onnx import support

    rng, gates = np.random.default_rng(1), {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    shapes = {"W": (2, 4 * gates, 3), "R": (2, 4 * gates, 4), "B": (2, 8 * gates)}
    shapes |= {"P": (2, 12)} if kind == "LSTM" else {}
    arrays = {name: rng.normal(0, 0.6, shape).astype(np.float32) for name, shape in shapes.items()}
    extra = {"linear_before_reset": lbr} if kind == "GRU" else {}
    names = ["x", "W", "R", "B", *(["", "", "", "P"] if kind == "LSTM" else [])]
    node = library.helper.make_node(kind, names, ["y"], hidden_size=4, direction="bidirectional", **extra)
    model = support.model_of([node], [support.value("x", shape=[5, 2, 3])], constants=arrays)
    (y,) = support.by_runtime(model, X.transpose(1, 0, 2))
    expected = y.transpose(2, 0, 1, 3).reshape(2, 5, 8)
    found = output(onnx.from_arrays(arrays, linear_before_reset=bool(lbr)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
