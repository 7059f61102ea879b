"""Models that others made, exported: Silero VAD from its ONNX file, whose state becomes a struct."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

import scanjit as sj
from tests.library.support import Built, same


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_silero_vad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    spec = importlib.util.find_spec("silero_vad")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("silero-vad is not installed")
    monkeypatch.setattr(sj.config, "threads", 1)
    path = Path(next(iter(spec.submodule_search_locations))) / "data" / "silero_vad.onnx"
    model = sj.onnx.load(path, inputs={"sr": 16000}, sizes={"input": (1, 576), "state": (2, 1, 128)})
    step = sj.step_function(model.function(), time=None, feedback={"state": "stateN"})
    f = step.for_sizes({}).function
    chunk = (0.3 * np.random.default_rng(0).normal(size=(1, 576))).astype("float32")
    built = Built(f, tmp_path)
    (found,), (state,) = built.call(chunk, calls=3)
    assert built.status == 0
    for _ in range(3):
        wanted = f(chunk)
    same(found, wanted)
    same(state, f.shared[[variable.name for variable in f.shared].index("state")].get_value())
