"""Fourier transforms and complex numbers in ONNX: by ONNX Runtime, and read again."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import scanjit as sj
import scanjit.onnx as sjo
from tests.onnx.support import by_runtime


@pytest.mark.parametrize("opset", [18, 20])
@pytest.mark.parametrize("dtype, theirs, ours", [("float64", 1e-6, 1e-10), ("float32", 1e-3, 1e-4)])
def test_transforms(opset: int, dtype: str, theirs: float, ours: float, rng: np.random.Generator) -> None:
    """ONNX Runtime's transforms are less exact, by much in float64."""
    z = sj.tensor(("b", 12), "complex64" if dtype == "float32" else "complex128", "z")
    x, long, row = sj.tensor(("b", 16), dtype, "x"), sj.tensor(("b", "n"), dtype, "long"), sj.tensor(24, dtype, "row")
    outputs = [
        sj.fft(z),
        sj.ifft(z * z),
        sj.rfft(x),
        sj.irfft(sj.rfft(x) * (1 + 2j), 16),
        abs(sj.fft(long)),
        sj.rfft(row),
    ]
    arrays = [rng.normal(size=shape).astype(dtype) for shape in ((3, 12, 2), (3, 16), (3, 22), (24,))]
    model = sjo.export(([z, x, long, row], outputs), opset=opset)
    onnx.checker.check_model(model, full_check=True)
    given = [arrays[0].view(z.dtype)[..., 0], *arrays[1:]]
    expected = sj.function([z, x, long, row], outputs, mode="reference")(*given)
    again = sjo.load(model).function(mode="reference")(*arrays)
    for got, back, wanted in zip(by_runtime(model, *arrays), again, expected, strict=True):
        pairs = np.stack([wanted.real, wanted.imag], axis=-1) if np.iscomplexobj(wanted) else wanted
        np.testing.assert_allclose(got, pairs, theirs, theirs)
        np.testing.assert_allclose(back, pairs, ours, ours)


def test_what_onnx_lacks() -> None:
    z = sj.tensor(("b", 12), "complex128", "z")
    with pytest.raises(sj.NotSupportedError, match="since op set 17"):
        sjo.export(([z], [sj.fft(z)]), opset=16)
    model = sjo.export(([z], [sj.fft(z)]))
    (node,) = [node for node in model.graph.node if node.op_type == "DFT"]
    next(given for given in node.attribute if given.name == "axis").i = 2
    with pytest.raises(sj.NotSupportedError, match="or back"):
        sjo.load(model)
