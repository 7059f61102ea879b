"""Models that others made, from the wheels that ship them: the same values as from ONNX Runtime or PyTorch.

Each test skips where the wheel is not installed: silero-vad, ddddocr, rapidocr-onnxruntime, Resemblyzer, g2p_en (their
own dependencies are not needed).
"""

import importlib.util
import pathlib

import numpy as np
import pytest

import scanjit as sj
from tests.onnx.support import session_of


def folder(package):
    """Where a package is, which is not imported: most want more than their models."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    return pathlib.Path(next(iter(spec.submodule_search_locations)))


def expected(path, feeds):
    return session_of(path).run(None, feeds)


def check(found, wanted, tolerance):
    found = found if isinstance(found, list) else [found]
    for got, want in zip(found, wanted, strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


# ---- silero-vad ------------------------------------------------------------------------------------------------------

SILERO = [
    ("silero_vad", 16000),
    ("silero_vad", 8000),
    ("silero_vad_16k_op15", 16000),
    ("silero_vad_half", None),
    ("silero_vad_op18_ifless", 8000),
    ("silero_vad_openvino_16k", None),
]


@pytest.mark.quick(3)
@pytest.mark.parametrize("name, rate", SILERO)
def test_silero_vad(name, rate, rng):
    """As it is, with sizes and branches that are not known; and with all that never changes."""
    path = folder("silero_vad") / "data" / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"this version of silero-vad has no {path.name}")
    x = (0.3 * rng.normal(size=(1, 288 if rate == 8000 else 576))).astype("float32")
    feeds = {"input": x, "state": (0.3 * rng.normal(size=(2, 1, 128))).astype("float32")}
    rates = {} if rate is None else {"sr": np.array(rate)}
    wanted = expected(path, {**feeds, **rates})
    model = sj.onnx.load(path)
    check(model.function(mode="reference")(**feeds, **rates), wanted, 1e-5)
    sizes = {name: array.shape for name, array in feeds.items()}
    fixed = sj.onnx.load(path, inputs={} if rate is None else {"sr": rate}, sizes=sizes)
    assert [x.name for x in fixed.inputs] == list(feeds)
    check(fixed.function(mode="reference")(**feeds), wanted, 1e-5)


def test_silero_vad_compiled(rng):
    path = folder("silero_vad") / "data" / "silero_vad.onnx"
    feeds = {"input": (0.3 * rng.normal(size=(1, 576))).astype("float32"), "state": np.zeros((2, 1, 128), "float32")}
    wanted = expected(path, {**feeds, "sr": np.array(16000)})
    f = sj.onnx.load(path, inputs={"sr": 16000}, sizes={name: array.shape for name, array in feeds.items()}).function()
    check(f(**feeds), wanted, 1e-5)


# ---- characters in images --------------------------------------------------------------------------------------------


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "package, name, shape, tolerance",
    [
        ("ddddocr", "common.onnx", (1, 1, 64, 160), 1e-4),
        ("ddddocr", "common_det.onnx", (1, 3, 416, 416), 1e-4),
        ("rapidocr_onnxruntime", "models/ch_PP-OCRv3_det_infer.onnx", (1, 3, 64, 96), 1e-5),
        ("rapidocr_onnxruntime", "models/ch_PP-OCRv3_rec_infer.onnx", (1, 3, 48, 64), 1e-5),
        ("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", (2, 3, 48, 192), 1e-5),
    ],
)
def test_models_of_images(package, name, shape, tolerance):
    path = folder(package) / name
    x = np.random.default_rng(0).uniform(-1, 1, shape).astype("float32")
    (symbol,) = sj.onnx.load(path).inputs
    model = sj.onnx.load(path, sizes={symbol.name: shape})
    check(model.function(mode="reference")(x), expected(path, {symbol.name: x}), tolerance)


def test_a_quantized_model(rng):
    """Integers and scales are the same; sigmoids differ in their last bits, and one that moves a number to the next
    integer is seen in all layers after it. ONNX Runtime moves as much where its input does so in the last bits."""
    path = folder("ddddocr") / "common_old.onnx"
    x = rng.random((1, 1, 64, 160)).astype("float32")
    (wanted,) = expected(path, {"input1": x})
    moved = [expected(path, {"input1": (x * (1 + 1e-7 * rng.normal(size=x.shape))).astype("float32")})[0] for _ in "12"]
    own = max(np.abs(other - wanted).max() for other in moved)
    found = sj.onnx.load(path, sizes={"image_width": 160}).function(mode="reference")(x)
    assert found.shape == wanted.shape and np.abs(found - wanted).max() < 2 * own + 1e-4
    assert (found.argmax(-1) == wanted.argmax(-1)).mean() > 0.95


# ---- weights ---------------------------------------------------------------------------------------------------------


def test_resemblyzer():
    """Three layers of an LSTM, of which the last state is projected and normalized: an embedding of a voice."""
    torch = pytest.importorskip("torch")
    from lasagne_like.importers.torch import from_state_dict
    from lasagne_like.layers import get_output

    state = torch.load(folder("resemblyzer") / "pretrained.pt", map_location="cpu", weights_only=False)["model_state"]
    mels = np.random.default_rng(0).random((2, 40, 40)).astype("float32")
    module = torch.nn.LSTM(40, 256, 3, batch_first=True)
    module.load_state_dict({name[5:]: value for name, value in state.items() if name.startswith("lstm.")})
    weight, bias = (state[f"linear.{name}"].numpy() for name in ("weight", "bias"))
    with torch.no_grad():
        rows = module(torch.from_numpy(mels))[1][0][-1].numpy() @ weight.T + bias
    x = sj.tensor(("B", "T", 40), "float32", "mels")
    layer = from_state_dict(state, prefix="lstm.", only_return_final=False)
    y = sj.relu(get_output(layer, x)[:, -1] @ weight.T + bias)
    f = sj.function([x], y / sj.sqrt((y * y).sum(1, keepdims=True)), mode="reference")
    wanted = np.maximum(rows, 0)
    found = f(mels)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), rtol=1e-4, atol=1e-5)


def test_g2p_en():
    """The encoder and the decoder of letters to sounds: two GRUs."""
    torch = pytest.importorskip("torch")
    from lasagne_like.importers.torch import from_state_dict
    from lasagne_like.layers import get_output

    with np.load(folder("g2p_en") / "checkpoint20.npz") as file:
        arrays = {name: file[name] for name in file.files}
    for part in ("enc", "dec"):
        names = {"weight_ih": "w_ih", "weight_hh": "w_hh", "bias_ih": "b_ih", "bias_hh": "b_hh"}
        state = {f"{theirs}_l0": arrays[f"{part}_{own}"] for theirs, own in names.items()}
        letters = arrays[f"{part}_emb"][None, [7, 4, 11, 11, 14]]
        module = torch.nn.GRU(letters.shape[2], len(state["weight_hh_l0"]) // 3, batch_first=True)
        module.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
        with torch.no_grad():
            wanted = module(torch.from_numpy(letters))[0].numpy()
        x = sj.tensor(letters.shape, letters.dtype, "letters")
        found = sj.function([x], get_output(from_state_dict(state), x), mode="reference")(letters)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
