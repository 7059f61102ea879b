"""Steps that read a row which they have just stored from one element further on: they load the vectors that were
stored, and move their lanes."""

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.fuzz.check import Config


def moved(dtype: str, mode: str) -> Any:
    """Each element takes its neighbour in; the last one stays."""
    x, start = sj.tensor(("T",), dtype, "x"), sj.tensor((None,), dtype, "start")
    step = lambda x, s: sj.concatenate([(s[:-1] ^ s[1:]) | x if dtype == "bool" else s[:-1] - s[1:] * x, s[-1:]])
    return sj.function([x, start], sj.scan(step, x, start)[-1], mode=mode)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex64", "int64", "int8", "bool"])
@pytest.mark.parametrize("mode", ["numba", "emulate"])
def test_rows_of_all_lengths(dtype: str, mode: str, rng: np.random.Generator) -> None:
    with Config(mode=mode, threads=2).active():
        f, reference = (moved(dtype, each) for each in (mode, "reference"))
        for size in (1, 2, 7, 9, 16, 17, 24, 25, 33, 64, 65, 100, 129):
            given = [rng.integers(-1, 2, length).astype(dtype) for length in (5, size)]
            np.testing.assert_array_equal(f(*given), reference(*given))


def test_vectors_are_those_that_were_stored() -> None:
    source = moved("float64", "emulate").source
    whole = [body for body in source.split("\ndef ") if "begin, full" in body and "store(" in body]
    assert any("slide_down1(load_" in body for body in whole)
    assert "store_masked" not in next(body for body in source.split("\ndef ") if body.startswith("slice_"))
