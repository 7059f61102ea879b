"""Every op is exported to NumPy: for all samples and dtypes, it gives what the reference gives.

With sizes that are symbols; with known ones, which are written in other words, for the first dtype.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import OPS, Op
from tests.compiler.test_op_table import outputs_of
from tests.export.support import exported

SAMPLED = [op for op in OPS.values() if op.samples is not None]


@pytest.mark.quick(32)
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("op", SAMPLED, ids=str)
def test_op(op: Op, symbolic: bool, tmp_path: Path) -> None:
    for dtype in op.dtypes if symbolic else op.dtypes[:1]:
        with np.errstate(all="ignore"):
            nodes, made, arrays = outputs_of(op, dtype, symbolic)
            f = sj.function(nodes, made, mode="reference")
            expected = f(*arrays)
            found = exported(f, tmp_path).model(*arrays)
        for node, a, b in zip(made, found, expected, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape, f"{node!r}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
            assert close(a, b), f"{node!r}: {a}, not {b}"


def close(a: np.ndarray, b: np.ndarray) -> Any:
    """Equal, but for the order of sums in products."""
    if a.dtype.kind != "f":
        return (a == b).all()
    tolerance = 64 * np.finfo(a.dtype).eps
    return np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
