"""Every op that can be exported, on the samples of the op table: by ONNX Runtime, and read again."""

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import OPS
from scanjit.onnx.exporting.table import TABLE
from tests.onnx.support import check_export

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
    check_export(*sampled(op, dtype), tolerances=(2e-5, 2e-6))
