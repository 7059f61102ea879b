"""Nests that copy rows to where columns lie, in square blocks."""

import numpy as np
import pytest

import scanjit as sj

A = sj.vector("a")
XS = sj.matrix("xs")


def _series():
    """A recurrence of each row of `xs`, whose steps lie side by side in memory."""
    return sj.vmap(lambda a, x: sj.scan(lambda x, h: a * h + x, x, 0.0))(A, XS)


@pytest.fixture(scope="module")
def series():
    return sj.function([A, XS], _series())


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (8, 8), (9, 7), (16, 40), (17, 33), (300, 261), (5, 0), (0, 5)])
def test_sequences_along_rows(series, shape):
    rng = np.random.default_rng(1)
    a, xs = rng.uniform(-1, 1, shape[0]), rng.standard_normal(shape)
    wanted, h = [], np.zeros(shape[0])
    for x in xs.T:
        h = a * h + x
        wanted.append(h)
    assert " rows (" in series.explain()
    np.testing.assert_allclose(series(a, xs), np.array(wanted).T.reshape(shape), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(19, 35), (16, 16), (33, 20)])
def test_blocks_stay_inside(dtype, shape):
    """Every load and store is inside of its array, for whole blocks and for others, with several threads too."""
    rng = np.random.default_rng(2)
    a, xs = rng.uniform(-1, 1, shape[0]).astype(dtype), rng.standard_normal(shape).astype(dtype)
    x, y = sj.vector("a", dtype), sj.matrix("xs", dtype)
    result = sj.vmap(lambda a, x: sj.scan(lambda x, h: a * h + x, x, np.zeros((), dtype)))(x, y)
    wanted = sj.function([x, y], result, mode="reference")(a, xs)
    np.testing.assert_allclose(sj.function([x, y], result, mode="emulate")(a, xs), wanted, rtol=1e-5)
