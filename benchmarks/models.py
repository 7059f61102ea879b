"""Models that others made, beside ONNX Runtime or PyTorch, each on one thread.

    python -m benchmarks models

The models are in the wheels silero-vad, ddddocr, rapidocr-onnxruntime, Resemblyzer and g2p_en; those that are not
installed are left out. Two engines take turns in blocks with rests between. What counts is the time that the
processor spent on the thread, which says less about a machine that is busy with something else than a clock would.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

BLOCKS = 9
SECONDS = 0.15
"""Of a block."""
REST = 0.1
"""Seconds between two blocks."""

Call = Callable[[], Any]


class Model(NamedTuple):
    """A model: its name, the engine beside us, and what makes a call of either."""

    name: str
    peer: str
    make: Callable[[], tuple[Call, Call]]


class Row(NamedTuple):
    """What was measured: the largest difference of results, and milliseconds a call, ours and theirs."""

    model: str
    peer: str
    difference: float
    ours: float
    theirs: float


def measure() -> Iterator[Row]:
    """All models that are installed."""
    import scanjit as sj

    sj.config.threads = 1
    for model in models():
        ours, theirs = model.make()
        difference = max(np.abs(a - b).max() for a, b in zip(_arrays(ours()), _arrays(theirs()), strict=True))
        times: dict[Call, list[float]] = {ours: [], theirs: []}
        for _ in range(BLOCKS):
            for call, found in times.items():
                time.sleep(REST)
                found.append(_block(call))
        yield Row(model.name, model.peer, float(difference), *(1e3 * median(found) for found in times.values()))


def _arrays(found: Any) -> list[np.ndarray]:
    return list(found) if isinstance(found, list | tuple) else [found]


def _block(call: Call) -> float:
    """Seconds a call."""
    call()
    begin, start, count = time.perf_counter(), time.thread_time(), 0
    while count < 3 or time.perf_counter() - begin < SECONDS:
        call()
        count += 1
    return (time.thread_time() - start) / count


def models() -> list[Model]:
    """Those whose wheels are installed."""
    rng = np.random.default_rng(0)
    uniform = lambda *shape: rng.uniform(-1, 1, shape).astype("float32")
    sound = lambda length: {"input": 0.3 * uniform(1, length), "state": np.zeros((2, 1, 128), "float32")}
    rapid = "rapidocr_onnxruntime/models/ch_"
    files: list[tuple[str, dict[str, np.ndarray], dict[str, Any]]] = [
        ("silero_vad/data/silero_vad.onnx", sound(576), {"sr": 16000}),
        ("silero_vad/data/silero_vad.onnx", sound(288), {"sr": 8000}),
        ("silero_vad/data/silero_vad_half.onnx", sound(576), {}),
        ("ddddocr/common.onnx", {"input1": uniform(1, 1, 64, 160)}, {}),
        ("ddddocr/common_old.onnx", {"input1": uniform(1, 1, 64, 160)}, {}),
        ("ddddocr/common_det.onnx", {"images": 255 * np.abs(uniform(1, 3, 416, 416))}, {}),
        (f"{rapid}PP-OCRv3_det_infer.onnx", {"x": uniform(1, 3, 320, 320)}, {}),
        (f"{rapid}PP-OCRv3_rec_infer.onnx", {"x": uniform(1, 3, 48, 320)}, {}),
        (f"{rapid}ppocr_mobile_v2.0_cls_infer.onnx", {"x": uniform(1, 3, 48, 192)}, {}),
    ]
    found = []
    for name, feeds, fixed in files:
        path = packaged(name)
        if path is not None and importlib.util.find_spec("onnxruntime") is not None:
            label = f"{Path(name).name}{''.join(f', {key}={value}' for key, value in fixed.items())}"
            found.append(Model(label, "ONNX Runtime", _of_file(path, feeds, fixed)))
    if importlib.util.find_spec("torch") is not None:
        voice, letters = packaged("resemblyzer/pretrained.pt"), packaged("g2p_en/checkpoint20.npz")
        found += [] if voice is None else [Model("Resemblyzer, 160 steps", "PyTorch", lambda: _voice(voice))]
        found += [] if letters is None else [Model("g2p_en encoder, 12 letters", "PyTorch", lambda: _letters(letters))]
    return found


def packaged(name: str) -> Path | None:
    """A file of a package, which is not imported: most want more than their models."""
    package, _, rest = name.partition("/")
    spec = importlib.util.find_spec(package)
    places = [Path(folder) / rest for folder in (spec.submodule_search_locations or [])] if spec is not None else []
    return next((path for path in places if path.exists()), None)


def _of_file(path: Path, feeds: dict[str, np.ndarray], fixed: dict[str, Any]) -> Callable[[], tuple[Call, Call]]:
    def make() -> tuple[Call, Call]:
        f, theirs = loaded(path, feeds, fixed), session(path, 1)
        given = {**feeds, **{name: np.asarray(value, np.int64) for name, value in fixed.items()}}
        return lambda: f(**feeds), lambda: theirs.run(None, given)

    return make


def loaded(path: Path, feeds: dict[str, np.ndarray], fixed: dict[str, Any], mode: str = "numba") -> Any:
    """Our function of a file, for inputs of these shapes; `fixed` inputs are constants."""
    import scanjit as sj

    sizes = {name: array.shape for name, array in feeds.items()}
    return sj.onnx.load(path, inputs=fixed, sizes=sizes).function(mode=mode)


def session(path: Path, threads: int) -> Any:
    """ONNX Runtime's session of a file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _voice(path: Path) -> tuple[Call, Call]:
    """Three layers of an LSTM, 160 rows of 40 numbers."""
    import torch

    state = torch.load(path, map_location="cpu", weights_only=False)["model_state"]
    given = {name[5:]: value for name, value in state.items() if name.startswith("lstm.")}
    return _beside_torch(torch.nn.LSTM(40, 256, 3, batch_first=True), given, 160)


def _letters(path: Path) -> tuple[Call, Call]:
    """A GRU over the letters of a word."""
    import torch

    names = {"weight_ih": "w_ih", "weight_hh": "w_hh", "bias_ih": "b_ih", "bias_hh": "b_hh"}
    with np.load(path) as file:
        given = {f"{theirs}_l0": torch.from_numpy(file[f"enc_{own}"]) for theirs, own in names.items()}
    rows, width = given["weight_ih_l0"].shape
    return _beside_torch(torch.nn.GRU(width, rows // 3, batch_first=True), given, 12)


def _beside_torch(module: Any, state: dict[str, Any], steps: int) -> tuple[Call, Call]:
    import torch

    import scanjit as sj
    from lasagne_like.importers.torch import from_state_dict
    from lasagne_like.layers import get_output

    torch.set_num_threads(1)
    module.load_state_dict(state)
    rows = np.random.default_rng(0).random((1, steps, module.input_size)).astype("float32")
    x = sj.tensor(rows.shape, "float32", "x")
    f, given = sj.function([x], get_output(from_state_dict(state), x)), torch.from_numpy(rows)

    def theirs() -> np.ndarray:
        with torch.no_grad():
            return module(given)[0].numpy()

    return lambda: f(rows), theirs


def main() -> int:
    """Print the table."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"ms a call of one thread, by the processor's clock; load of the machine at the start: {load:.1f}\n")
    print(f"{'':<44} {'peer':<13} {'difference':>10} {'scanjit':>9} {'peer':>9} {'ratio':>6}")
    for model, peer, difference, ours, theirs in measure():
        print(
            f"{model:<44} {peer:<13} {difference:>10.1e} {ours:>9.3f} {theirs:>9.3f} {theirs / ours:>6.2f}", flush=True
        )
    return 0
