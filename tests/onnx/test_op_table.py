"""Every op that can be exported, on the samples of the op table: by ONNX Runtime, and read again."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

import scanjit as sj  # noqa: E402
import scanjit.onnx as sjo  # noqa: E402
from scanjit.ir import OPS  # noqa: E402
from scanjit.onnx.exporting.table import TABLE  # noqa: E402

WITHOUT_SAMPLES = {"constant", "custom", "ifelse", "scan", "size", "via"}
WITHOUT_SAMPLES |= {"fourier", "from_half_spectrum", "half_spectrum"}
"""What the other tests export."""
DTYPES = ("float32", "int64", "bool")


def sampled(op, dtype):
    """A function of the samples of an op, and its arguments."""
    inputs, outputs, arrays = [], [], []
    for args, params in op.samples(np.random.default_rng(0), dtype):
        given = [np.asarray(arg) for arg in args]
        symbols = [sj.tensor(array.shape, array.dtype, f"x{len(inputs) + i}") for i, array in enumerate(given)]
        inputs += symbols
        arrays += given
        outputs.append(op(*symbols, **params))
    return inputs, outputs, arrays


@pytest.mark.quick(73)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(TABLE.keys() - WITHOUT_SAMPLES))
def test_an_op_on_its_samples(name, dtype):
    op = OPS[name]
    if dtype not in op.dtypes:
        pytest.skip(f"{name} is not defined for {dtype}")
    inputs, outputs, arrays = sampled(op, dtype)
    model = sjo.export((inputs, outputs))
    onnx.checker.check_model(model, full_check=True)
    with np.errstate(all="ignore"):
        expected = sj.function(inputs, outputs, mode="reference")(*arrays)
        again = sjo.load(model).function(mode="reference")(*arrays)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {node.name: array for node, array in zip(inputs, arrays, strict=True)})
    again = again if isinstance(again, list) else [again]
    for got, back, wanted in zip(found, again, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6, strict=True)
        np.testing.assert_allclose(back, wanted, rtol=2e-5, atol=2e-6, strict=True)
