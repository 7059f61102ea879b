"""Models from ONNX files, called step by step: as ONNX Runtime computes them."""

import importlib.util
import pathlib

import numpy as np
import onnx
import pytest

import scanjit as sj
from tests.onnx.support import model_of, session_of, value


def numbers(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


def recurrent(kind, gates, **attributes):
    """Two recurrent nodes, one after the other, with a nonlinearity between them; and their last states."""
    helper = onnx.helper
    weights = {
        f"{name}{i}": 0.5 * numbers(1, gates * 5, size)
        for i, n in ((1, 3), (2, 5))
        for name, size in (("W", n), ("R", 5))
    }
    nodes = [
        helper.make_node(kind, ["x", "W1", "R1"], ["y1", "h1"], hidden_size=5, **attributes),
        helper.make_node("Squeeze", ["y1", "one"], ["s1"]),
        helper.make_node("Tanh", ["s1"], ["t1"]),
        helper.make_node(kind, ["t1", "W2", "R2"], ["y2", "h2"], hidden_size=5, **attributes),
    ]
    return model_of(nodes, [value("x", shape=["T", "B", 3])], ["y2", "h2"], {**weights, "one": np.array([1])}, 14)


@pytest.mark.parametrize("kind, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_nodes(kind, gates):
    model = recurrent(kind, gates)
    x = numbers(7, 2, 3)
    rows, last = session_of(model).run(None, {"x": x})
    step = sj.step_function(sj.onnx.load(model).function(mode="reference"))
    state = None
    for t in range(len(x)):
        (row, end), state = step(x[t], state)
        np.testing.assert_allclose(row, rows[t], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(end, last, rtol=1e-5, atol=1e-6)
    blocks = [step.block(x[:4])]
    blocks.append(step.block(x[4:], blocks[0][1]))
    np.testing.assert_allclose(np.concatenate([block[0][0] for block in blocks]), rows, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
def test_a_node_that_goes_backwards_is_refused(direction):
    count = 2 if direction == "bidirectional" else 1
    node = onnx.helper.make_node("GRU", ["x", "W", "R"], ["y"], hidden_size=4, direction=direction)
    weights = {name: numbers(count, 12, n) for name, n in (("W", 3), ("R", 4))}
    model = model_of([node], [value("x", shape=["T", "B", 3])], constants=weights, opset=14)
    with pytest.raises(sj.NotSupportedError, match=r"last step to the first|another order"):
        sj.step_function(sj.onnx.load(model).function(mode="reference"))


def test_silero_vad_carries_its_state_in_its_file():
    spec = importlib.util.find_spec("silero_vad")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("silero-vad is not installed")
    path = str(pathlib.Path(next(iter(spec.submodule_search_locations))) / "data" / "silero_vad.onnx")
    reference = session_of(path)
    model = sj.onnx.load(path, inputs={"sr": 16000}, sizes={"input": (1, 576), "state": (2, 1, 128)})
    step = sj.step_function(model.function(), time=None, feedback={"state": "stateN"})
    assert list(step.state_types) == ["state"]
    chunks = 0.3 * numbers(5, 1, 576)
    state, want = None, np.zeros((2, 1, 128), "float32")
    keep = step.stateful(step.initial_state(chunks[0]))
    for chunk in chunks:
        wanted, want = reference.run(None, {"input": chunk, "state": want, "sr": np.array(16000)})
        output, state = step(chunk, state)
        np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(state["state"], want, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(keep(chunk), output)
