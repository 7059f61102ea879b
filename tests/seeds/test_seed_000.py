"""An acoustic model of TensorFlow's cuDNN LSTM without TensorFlow: its variables by their names, the document's NumPy
inference as the oracle, and a package that needs nothing but NumPy."""

import importlib.util
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like.importers import tf_cudnn, write_npz

INPUTS, HIDDEN, LAYERS = 12, 8, 5
NAME = "layer/stack_bidirectional_rnn/cell_{}/bidirectional_rnn/{}/cudnn_compatible_lstm_cell/{}"


@pytest.fixture(autouse=True)
def float32() -> None:
    sj.config.floatX = "float32"


def variables(layers: int = LAYERS, inputs: int = INPUTS, hidden: int = HIDDEN) -> dict[str, np.ndarray]:
    """A checkpoint's variables, in no particular order, among others."""
    rng = np.random.default_rng(0)
    found = {"layer/dense/kernel": np.zeros((2 * hidden, 3), np.float32), "global_step": np.int64(7)}
    for cell in reversed(range(layers)):
        for way in ("bw", "fw"):
            rows = (inputs if cell == 0 else 2 * hidden) + hidden
            found[NAME.format(cell, way, "kernel")] = rng.normal(0, rows**-0.5, (rows, 4 * hidden)).astype(np.float32)
            found[NAME.format(cell, way, "bias")] = rng.normal(0, 0.5, 4 * hidden).astype(np.float32)
            found[NAME.format(cell, way, "kernel") + "/Adam"] = np.zeros((rows, 4 * hidden), np.float32)
    return found


def lstm_cell(x: Any, prev_hidden: Any, prev_state: Any, kernel: Any, bias: Any) -> Any:
    """One step as the document writes it."""
    z = np.dot(np.concatenate([x, prev_hidden]), kernel) + bias
    i, ci, f, o = np.split(z, 4)
    i, f, o = (1.0 / (1.0 + np.exp(-gate)) for gate in (i, f, o))
    state = np.tanh(ci) * i + prev_state * f
    return np.tanh(state) * o, state


def inference(given: dict[str, np.ndarray], x: np.ndarray, layers: int = LAYERS) -> np.ndarray:
    """The stack for one sequence, (time, features), in doubles."""
    for cell in range(layers):
        ways = []
        for way in ("fw", "bw"):
            kernel, bias = (given[NAME.format(cell, way, what)].astype(np.float64) for what in ("kernel", "bias"))
            h = c = np.zeros(len(bias) // 4)
            rows = []
            for row in x if way == "fw" else x[::-1]:
                h, c = lstm_cell(row, h, c, kernel, bias)
                rows.append(h)
            ways.append(np.array(rows if way == "fw" else rows[::-1]))
        x = np.concatenate(ways, axis=1)
    return x


def rows(*sizes: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=sizes).astype(np.float32)


def function(network: Any, mode: str = "reference") -> Any:
    (l_in,) = (layer for layer in lasagne.layers.get_all_layers(network) if hasattr(layer, "input_var"))
    return sj.function([l_in.input_var], lasagne.layers.get_output(network), mode=mode)


@pytest.mark.parametrize(("layers", "mode"), [(5, "reference"), (6, "reference"), (2, "numba")])
def test_the_network_is_the_documents_inference(layers: int, mode: str) -> None:
    given, x = variables(layers), rows(3, 9, INPUTS)
    found = function(tf_cudnn.from_variables(given), mode)(x)
    assert found.dtype == np.float32 and found.shape == (3, 9, 2 * HIDDEN)
    np.testing.assert_allclose(found, [inference(given, row, layers) for row in x], rtol=0, atol=3e-6)


def test_the_shapes_of_the_document() -> None:
    """Input 120, 320 units: kernels of (440, 1280), then (960, 1280)."""
    given = {name: value for name, value in variables(2, 120, 320).items() if name.startswith("layer/stack")}
    assert {value.shape for value in given.values()} == {(440, 1280), (960, 1280), (1280,)}
    network = tf_cudnn.from_variables(given)
    x = rows(1, 3, 120)
    np.testing.assert_allclose(function(network)(x)[0], inference(given, x[0], 2), rtol=0, atol=3e-6)


def test_back_to_variables_is_exact() -> None:
    given = variables()
    back = tf_cudnn.to_variables(tf_cudnn.from_variables(given), "layer/stack_bidirectional_rnn")
    assert back.keys() == {name for name in given if name.endswith(("kernel", "bias")) and "dense" not in name}
    for name, value in back.items():
        assert value.dtype == np.float32 and (value == given[name]).all(), name


def test_from_a_file_and_with_names_as_a_graph_has_them(tmp_path: Any) -> None:
    given = variables(2)
    write_npz(tmp_path / "model.npz", given)
    x, expected = rows(2, 4, INPUTS), function(tf_cudnn.from_variables(given))
    assert (function(tf_cudnn.from_variables(tmp_path / "model.npz"))(x) == expected(x)).all()
    with_outputs = {f"{name}:0": value for name, value in given.items()}
    assert (function(tf_cudnn.from_variables(with_outputs))(x) == expected(x)).all()


def test_one_direction() -> None:
    given = {name.replace("bidirectional_rnn/fw/", ""): v for name, v in variables(1).items() if "/bw/" not in name}
    found = tf_cudnn.from_variables(given)
    assert found.output_shape == (None, None, HIDDEN)
    x = rows(1, 5, INPUTS)
    np.testing.assert_allclose(function(found)(x)[0], inference(variables(1), x[0], 1)[:, :HIDDEN], rtol=0, atol=3e-6)


def test_sequences_of_different_lengths() -> None:
    """Each is as if it were alone; so are both directions."""
    given, x = variables(2), rows(2, 6, INPUTS)
    network = tf_cudnn.from_variables(given, seq_lengths=np.array([6, 4]), zero_output_for_mask=True)
    found = function(network)(x)
    np.testing.assert_allclose(found[1, :4], inference(given, x[1, :4], 2), rtol=0, atol=3e-6)


KERNEL, BIAS = NAME.format(1, "bw", "kernel"), NAME.format(1, "bw", "bias")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda v: v.pop(KERNEL), KeyError, KERNEL),
        (lambda v: v.pop(BIAS), KeyError, BIAS),
        (lambda v: v.update({KERNEL: v[KERNEL][:-1]}), ValueError, rf"{KERNEL} has shape \(23, 32\), .* \(24, 32\)"),
        (lambda v: v.update({BIAS: v[BIAS][:-4]}), ValueError, r"kernel has shape \(24, 32\), should be \(23, 28\)"),
        (lambda v: v.update({BIAS: v[BIAS][:-1]}), ValueError, rf"{BIAS} has shape \(31,\), should be \(4 \* units,\)"),
        (lambda v: v.update({KERNEL: np.array("x")}), ValueError, KERNEL),
        (lambda v: [v.pop(n) for n in list(v) if "cell_1/" in n], KeyError, "cell_4, but no cell_1"),
        (lambda v: v.update({n.replace("layer", "other"): v[n] for n in list(v)}), ValueError, "other/stack"),
        (lambda v: v.clear(), KeyError, "there are none"),
    ],
)
def test_variables_that_do_not_fit(change: Any, error: Any, message: str) -> None:
    given = variables()
    change(given)
    with pytest.raises(error, match=message):
        tf_cudnn.from_variables(given)


def test_values_that_are_not_finite_are_told() -> None:
    given = variables(1)
    given[NAME.format(0, "fw", "bias")][3] = np.nan
    with pytest.warns(RuntimeWarning, match=r"fw/cudnn_compatible_lstm_cell/bias has 1 of 32"):
        tf_cudnn.from_variables(given)


def test_a_checkpoint_takes_tensorflow(tmp_path: Any) -> None:
    try:
        import tensorflow as tf
    except ImportError:
        with pytest.raises(ImportError, match="pip install tensorflow-cpu"):
            tf_cudnn.from_variables(str(tmp_path / "model.ckpt"))
        return
    given = variables(1)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, value in given.items():
            tf.compat.v1.get_variable(name, initializer=value)
        session.run(tf.compat.v1.global_variables_initializer())
        path = tf.compat.v1.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    x = rows(1, 3, INPUTS)
    assert (function(tf_cudnn.from_variables(path))(x) == function(tf_cudnn.from_variables(given))(x)).all()


def test_saved_for_who_has_scanjit(tmp_path: Any) -> None:
    """One file, loaded without the layers that it was made of."""
    f, x = function(tf_cudnn.from_variables(variables(2))), rows(2, 4, INPUTS)
    f.save(tmp_path / "acoustic.sj")
    assert (sj.load(tmp_path / "acoustic.sj", mode="reference")(x) == f(x)).all()


def test_a_package_that_needs_only_numpy(tmp_path: Any) -> None:
    """Exported, installed with pip into a folder, and run where scanjit is not."""
    given, x = variables(2), rows(2, 6, INPUTS)
    path = lasagne.exporters.export_numpy(tf_cudnn.from_variables(given), tmp_path / "package", "acoustic")
    place = installed(path, tmp_path / "site")
    np.save(tmp_path / "x.npy", x)
    program = (
        "import sys; sys.path[:0] = [sys.argv[1]]; import numpy as np; before = set(sys.modules)\n"
        "from acoustic import acoustic\n"
        "assert not {'scanjit', 'numba', 'lasagne_like'} & {name.split('.')[0] for name in sys.modules}\n"
        "np.save(sys.argv[3], acoustic(np.load(sys.argv[2])))\n"
    )
    arguments = [place, tmp_path / "x.npy", tmp_path / "y.npy"]
    subprocess.run([sys.executable, "-I", "-c", program, *map(str, arguments)], check=True, cwd=tmp_path)
    found = np.load(tmp_path / "y.npy")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [inference(given, row, 2) for row in x], rtol=0, atol=3e-6)


def installed(path: Any, place: Any) -> Any:
    """Where the package is importable from: installed by pip, or its own folder where pip cannot build it."""
    found = {name for name in ("pip", "setuptools", "wheel") if importlib.util.find_spec(name)}
    if not found >= {"pip", "setuptools"} or ("wheel" not in found and version("setuptools") < "70.1"):
        return path
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--target", str(place), str(path)], check=True)
    assert sorted(file.name for file in (place / "acoustic").glob("*.*")) == ["__init__.py", "weights.npz"]
    return place
