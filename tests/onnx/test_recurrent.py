"""RNN, LSTM and GRU with random attributes, against ONNX Runtime."""

import numpy as np
import onnx
import pytest

import scanjit as sj
import scanjit.onnx as sjo
from tests.onnx.support import by_runtime, model_of, value

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
NUMBERS = {
    "Affine": 2, "Elu": 1, "HardSigmoid": 2, "LeakyRelu": 1, "Relu": 0, "ScaledTanh": 2,
    "Sigmoid": 0, "Softplus": 0, "Softsign": 0, "Tanh": 0, "ThresholdedRelu": 1,
}  # fmt: skip
"""The activations, and how many numbers each takes."""


def cell_model(op, inputs, outputs, feeds, weights, attributes):
    node = onnx.helper.make_node(op, inputs, outputs, name="cell", **attributes)
    return model_of([node], [value(name, a.dtype, a.shape) for name, a in feeds.items()], outputs, weights, 14)


def random_attributes(rng, op, directions):
    """Attributes that ONNX Runtime knows too (it has no batch-first layout; the ONNX project's cases have)."""
    found = {}
    if rng.random() < 0.3:
        found["clip"] = float(rng.uniform(0.1, 1.0))
    if rng.random() < 0.5:
        names = [str(rng.choice(list(NUMBERS))) for _ in range(ACTIVATIONS[op] * directions)]
        found["activations"] = names
        for count, key in ((1, "activation_alpha"), (2, "activation_beta")):
            values = [float(rng.uniform(0.2, 1.0)) for name in names if NUMBERS[name] >= count]
            found |= {key: values} if values else {}
    if op == "LSTM" and rng.random() < 0.3:
        found["input_forget"] = 1
    if op == "GRU" and rng.random() < 0.5:
        found["linear_before_reset"] = 1
    return found


def random_case(rng):
    op, direction = str(rng.choice(list(GATES))), str(rng.choice(["forward", "reverse", "bidirectional"]))
    count, (steps, batch, size, hidden) = 1 + (direction == "bidirectional"), rng.integers(1, 6, 4)
    normal = lambda *shape: (0.5 * rng.normal(size=shape)).astype("float32")
    inputs, feeds = ["X", "W", "R", "", "", "", "", ""], {"X": normal(steps, batch, size)}
    weights = {"W": normal(count, GATES[op] * hidden, size), "R": normal(count, GATES[op] * hidden, hidden)}
    optional = [(3, "B", weights, lambda: normal(count, 2 * GATES[op] * hidden))]
    optional += [(4, "L", feeds, lambda: rng.integers(1, steps + 1, batch).astype("int32"))]
    optional += [(5, "h0", feeds, lambda: normal(count, batch, hidden))]
    if op == "LSTM":
        optional += [(6, "c0", feeds, lambda: normal(count, batch, hidden))]
        optional += [(7, "P", weights, lambda: normal(count, 3 * hidden))]
    for place, name, where, make in optional:
        if rng.random() < 0.5:
            inputs[place], where[name] = name, make()
    while not inputs[-1]:
        inputs.pop()
    outputs = ["Y", "Y_h", "Y_c"][: 3 if op == "LSTM" else 2]
    attributes = {"hidden_size": int(hidden), "direction": direction, **random_attributes(rng, op, count)}
    return cell_model(op, inputs, outputs, feeds, weights, attributes), list(feeds.values())


@pytest.mark.quick(15)
@pytest.mark.parametrize("seed", range(60))
def test_what_onnx_runtime_computes(seed):
    model, arrays = random_case(np.random.default_rng(seed))
    got = sjo.load(model).function(mode="reference")(*arrays)
    for found, wanted in zip(got, by_runtime(model, *arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, strict=True)


def lstm(**changed):
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=shape).astype("float32")
    weights = {"W": normal(1, 12, 2), "R": normal(1, 12, 3), "B": normal(1, 24)} | changed
    return cell_model("LSTM", ["X", *weights], ["Y"], {"X": normal(4, 2, 2)}, weights, {"hidden_size": 3})


def test_the_step_of_an_lstm_has_the_fast_path():
    """Compiled, the product with the inputs has left the loop, as in any scan."""
    model = sjo.load(lstm())
    x = np.random.default_rng(1).normal(size=(4, 2, 2)).astype("float32")
    f = model.function()
    np.testing.assert_allclose(f(x), model.function(mode="reference")(x), rtol=1e-5, atol=1e-6)
    assert "hoist_pre" in f.explain() and "push_slices" in f.explain()


def test_weights_are_shared_variables_that_can_be_trained():
    model = sjo.load(lstm())
    assert sorted(model.initializers) == ["B", "R", "W"]
    cost = (model.outputs[0] ** 2).sum()
    gradient = sj.grad(cost, model.initializers["W"])
    x = np.ones((4, 2, 2), "float32")
    f = sj.function(list(model.inputs), [cost, gradient], mode="reference")
    before, slope = f(x)
    step = np.zeros((1, 12, 2), "float32")
    step[0, 5, 1] = 1e-2
    model.initializers["W"].set_value(model.initializers["W"].get_value() + step)
    assert f(x)[0] - before == pytest.approx(1e-2 * slope[0, 5, 1], rel=5e-2)


@pytest.mark.parametrize("name, shape", [("W", (1, 12, 5)), ("R", (1, 12, 4)), ("B", (1, 20)), ("W", (12, 2))])
def test_weights_of_other_shapes_are_errors_that_name_the_node(name, shape):
    with pytest.raises(sj.ShapeError, match=r"(?s)LSTM.*the node 'cell' \(LSTM\)"):
        sjo.load(lstm(**{name: np.zeros(shape, "float32")}))
