"""oneDNN's LSTM with a projection: peepholes or not, layers and directions, inference, training and all gradients.

The oracle is a NumPy loop in oneDNN's layouts, and for gradients its differences along random directions.
"""

from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like import cells
from lasagne_like.importers import onednn
from lasagne_like.layers import InputLayer, get_output
from tests.lasagne_like.recurrent_support import check_slope, close

T, N, SLC, DHC, DIC = 5, 3, 4, 6, 4
DIRECTIONS = {
    "unidirectional_left2right": 1,
    "unidirectional_right2left": 1,
    "bidirectional_concat": 2,
    "bidirectional_sum": 2,
}
KINDS = {"plain": (), "peephole": ("peephole",), "projection": ("projection",), "both": ("peephole", "projection")}
Arrays = dict[str, np.ndarray]


def arrays(kind: str, layers: int, directions: int, units: int = DHC) -> Arrays:
    """All arguments of the primitive."""
    rng = np.random.default_rng(7)
    out = DIC if "projection" in KINDS[kind] else units
    inputs = SLC if layers == 1 else out
    lead = (layers, directions)
    shapes = {
        "src_layer": (T, N, inputs),
        "weights_layer": (*lead, inputs, 4, units),
        "weights_iter": (*lead, out, 4, units),
        "bias": (*lead, 4, units),
        "src_iter": (*lead, N, out),
        "src_iter_c": (*lead, N, units),
    }
    if "peephole" in KINDS[kind]:
        shapes["weights_peephole"] = (*lead, 3, units)
    if "projection" in KINDS[kind]:
        shapes["weights_projection"] = (*lead, units, out)
    return {name: rng.normal(0, 0.6, shape) for name, shape in shapes.items()}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstmp(given: Arrays, direction: str) -> list[np.ndarray]:
    """dst_layer, dst_iter, dst_iter_c."""
    W, R, b = (given[name] for name in ("weights_layer", "weights_iter", "bias"))
    layers, directions = W.shape[:2]
    hids, memories = given["src_iter"].copy(), given["src_iter_c"].copy()
    outputs = []
    for d in range(directions):
        rows = given["src_layer"]
        backwards = d == 1 or direction == "unidirectional_right2left"
        for k in range(layers):
            h, c, found = hids[k, d], memories[k, d], {}
            Pi, Pf, Po = given["weights_peephole"][k, d] if "weights_peephole" in given else (0, 0, 0)
            for t in reversed(range(len(rows))) if backwards else range(len(rows)):
                gate = lambda g: rows[t] @ W[k, d, :, g] + h @ R[k, d, :, g] + b[k, d, g]  # noqa: B023
                i, f, a, o = (gate(g) for g in range(4))
                c_new = sigmoid(f + Pf * c) * c + sigmoid(i + Pi * c) * np.tanh(a)
                h = sigmoid(o + Po * c_new) * np.tanh(c_new)
                if "weights_projection" in given:
                    h = h @ given["weights_projection"][k, d]
                c = c_new
                found[t] = h
            hids[k, d], memories[k, d] = h, c
            rows = np.stack([found[t] for t in range(len(rows))])
        outputs.append(rows)
    joined = outputs[0] + outputs[1] if direction == "bidirectional_sum" else np.concatenate(outputs, axis=2)
    return [joined, hids, memories]


def primitive(given: Arrays, direction: str, **options: Any) -> tuple[dict[str, Any], Any]:
    """The symbols of the arguments, and the results. Time and batch may have any size."""
    sizes: dict[str, Any] = {"src_layer": ("T", "N"), "src_iter": (None, None, "N"), "src_iter_c": (None, None, "N")}
    symbols = {}
    for name, value in given.items():
        shape = list(value.shape)
        for axis, size in enumerate(sizes.get(name, ())):
            shape[axis] = size or shape[axis]
        symbols[name] = sj.tensor(tuple(shape), name=name)
    return symbols, cells.onednn_lstm(**symbols, direction=direction, **options)


def cost(results: Any) -> Any:
    """A sum of all results with weights that tell their places apart."""
    total = sj.constant(0.0)
    for result in results:
        total = total + sj.sum(result * sj.sin(sj.reshape(sj.arange(result.size), result.shape) + 1.0))
    return total


@pytest.mark.quick(8)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_forward(kind: str, layers: int, direction: str) -> None:
    """Inference and training forward: all results, for two lengths and batches."""
    given = arrays(kind, layers, DIRECTIONS[direction])
    symbols, results = primitive(given, direction)
    f = sj.function(list(symbols.values()), list(results), mode="reference")
    for found, expected in zip(f(*given.values()), lstmp(given, direction), strict=True):
        close(found, expected, 1e-12)
    short = given | {name: given[name][:, :, :2] for name in ("src_iter", "src_iter_c")}
    short["src_layer"] = given["src_layer"][:3, :2]
    for found, expected in zip(f(*short.values()), lstmp(short, direction), strict=True):
        close(found, expected, 1e-12)


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("kind", "layers", "direction"),
    [
        ("both", 1, "unidirectional_left2right"),
        ("both", 2, "bidirectional_concat"),
        ("plain", 2, "bidirectional_sum"),
        ("peephole", 1, "unidirectional_right2left"),
        ("projection", 2, "unidirectional_left2right"),
    ],
)
def test_all_gradients(kind: str, layers: int, direction: str) -> None:
    """diff_src_layer, diff_src_iter, diff_src_iter_c and those of all weights, in their layouts."""
    given = arrays(kind, layers, DIRECTIONS[direction])
    symbols, results = primitive(given, direction)
    slopes = sj.grad(cost(results), list(symbols.values()))
    found = sj.function(list(symbols.values()), slopes, mode="emulate")(*given.values())
    weights = [np.sin(np.arange(y.size) + 1.0).reshape(y.shape) for y in lstmp(given, direction)]
    named = dict(zip(given, found, strict=True))
    assert {name: value.shape for name, value in named.items()} == {name: v.shape for name, v in given.items()}
    check_slope(lambda point: lstmp(point, direction), given, weights, named)


def test_compiled_and_with_checkpoints() -> None:
    """Training forward and all gradients, compiled, in float32; what is made again is the same to the last bit."""
    given = {name: value.astype(np.float32) for name, value in arrays("both", 1, 1).items()}
    found = []
    for checkpoint in (None, 2):
        symbols = {name: sj.tensor(value.shape, "float32", name) for name, value in given.items()}
        results = cells.onednn_lstm(**symbols, checkpoint=checkpoint)
        slopes = sj.grad(cost(results), list(symbols.values()))
        mode = "numba" if checkpoint is None else "emulate"
        found.append(sj.function(list(symbols.values()), [*results, *slopes], mode=mode)(*given.values()))
    for a, b in zip(*found, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
    for a, b in zip(found[0], lstmp({k: v.astype(float) for k, v in given.items()}, "left2right"), strict=False):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("kind", ["plain", "both"])
def test_layers_with_the_same_weights(kind: str) -> None:
    """The layers that the importer makes of the arrays give what the primitive gives, without initial states."""
    direction = "bidirectional_concat"
    given = arrays(kind, 2, 2)
    for name in ("src_iter", "src_iter_c"):
        given[name][:] = 0
    weights = {name: value for name, value in given.items() if not name.startswith("src")}
    l_in = InputLayer((None, None, given["src_layer"].shape[2]))
    network = onednn.from_arrays(weights, l_in, direction=direction)
    f = sj.function([l_in.input_var], get_output(network), mode="reference")
    close(f(given["src_layer"].swapaxes(0, 1)).swapaxes(0, 1), lstmp(given, direction)[0], 1e-12)
    back = onednn.to_arrays(network)
    assert all((back[name] == weights[name]).all() for name in weights)


def test_no_projection_is_a_plain_lstm() -> None:
    """The identity as a projection changes nothing; without states they are zeros, without biases there are none."""
    given = arrays("plain", 1, 1)
    for name in ("src_iter", "src_iter_c", "bias"):
        given[name][:] = 0
    few = {name: given[name] for name in ("src_layer", "weights_layer", "weights_iter")}
    symbols, results = primitive(few, "unidirectional_left2right")
    projected = cells.onednn_lstm(**symbols, weights_projection=np.eye(DHC)[None, None])
    found = sj.function(list(symbols.values()), [*results, *projected], mode="reference")(*few.values())
    for a, b, expected in zip(found[:3], found[3:], lstmp(given, "unidirectional_left2right"), strict=True):
        close(a, b, 1e-14)
        close(a, expected, 1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"direction": "both"}, "direction must be one of"),
        (
            {"weights_layer": np.zeros((1, 2, SLC, 4, DHC))},
            r"weights_layer must have the shape \(\?, 1, \?, 4, \?\)",
        ),
        ({"weights_layer": np.zeros((1, 1, SLC, 3, DHC))}, r"the shape \(\?, 1, \?, 4, \?\).* got \(1, 1, 4, 3, 6\)"),
        (
            {"weights_iter": np.zeros((1, 1, DHC, 4, DHC))},
            rf"weights_iter must have the shape \(1, 1, {DIC}, 4, {DHC}\)",
        ),
        ({"bias": np.zeros((1, 1, 3, DHC))}, "bias must have the shape"),
        ({"weights_peephole": np.zeros((1, 1, 4, DHC))}, "weights_peephole must have the shape"),
        ({"weights_projection": np.zeros((1, 1, DIC, DHC))}, "weights_projection must have the shape"),
        ({"src_layer": np.zeros((3, 4))}, "src_layer must have 3 dimensions"),
        ({"src_layer": np.zeros((T, N, SLC + 1))}, "src_layer"),
        ({"src_iter": np.zeros((1, 1, N + 1, DIC))}, "src_iter"),
    ],
)
def test_arguments_that_do_not_fit(change: Any, message: str) -> None:
    given: Any = arrays("both", 1, 1)
    with pytest.raises((ValueError, sj.ShapeError), match=f"(?s){message}"):
        cells.onednn_lstm(**(given | change))


def test_layers_must_fit_on_each_other() -> None:
    given = arrays("plain", 2, 1)
    given["weights_layer"] = given["weights_layer"][:, :, :SLC]
    given["src_layer"] = given["src_layer"][:, :, :SLC]
    with pytest.raises(ValueError, match=f"must have {DHC} inputs"):
        cells.onednn_lstm(**given)
    assert lasagne.cells.onednn_lstm is cells.onednn_lstm
