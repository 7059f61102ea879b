"""A function of vectors gives the same bits in one lane, in vectors of every width, and on older CPUs that have fma."""

import numpy as np
import pytest

from scanjit.kinds import KINDS
from scanjit.runtime import host
from scanjit.target import target_for
from tests.pairs import pairwise

from .support import FLOATS, NATIVE, compiled, same, source_of, special_values

FUNCTIONS = (
    *("exp", "exp2", "expm1", "tanh", "sigmoid", "sinh", "cosh", "erf", "erfc"),
    *("log", "log1p", "log2", "log10", "softplus", "log_sigmoid", "sin", "cos", "tan", "gammaln", "digamma"),
)


def points(kind: str) -> np.ndarray:
    """Values of all sizes, the edges of each function's short form, and special values."""
    rng = np.random.default_rng(11)
    with np.errstate(over="ignore"):
        parts = [
            rng.standard_normal(1024) * 10 ** rng.uniform(-6, 3, 1024),
            rng.uniform(-760, 760, 512),
            np.exp(rng.uniform(-740, 700, 512)),
            rng.uniform(-1.2, 1.2, 448),
            np.linspace(0.78, 0.79, 64),
            special_values(kind).astype(float),
        ]
        x = np.concatenate(parts).astype(KINDS[kind].dtype)
    return x[: len(x) // 64 * 64]


def results(kind: str, lanes: int, x: np.ndarray) -> list[np.ndarray]:
    """Each function of x, in vectors of so many lanes."""
    size = KINDS[kind].size
    body = [f"for i in range(0, n * {size}, {lanes * size}):", f"    v = load_{kind}x{lanes}(x + i)"]
    body += [f"    store(y + {k} * n * {size} + i, {name}(v))" for k, name in enumerate(FUNCTIONS)]
    kernel = compiled(source_of([f"load_{kind}x{lanes}", "store", *FUNCTIONS], ["x", "y", "n"], body))
    y = np.empty((len(FUNCTIONS), len(x)), x.dtype)
    kernel(x.ctypes.data, y.ctypes.data, len(x))
    return [*y]


@pytest.mark.parametrize("kind", FLOATS)
def test_one_lane_and_vectors_agree(kind: str) -> None:
    x = points(kind)
    expected = results(kind, NATIVE[kind], x)
    for lanes in {1, 2, NATIVE[kind] // 2, 2 * NATIVE[kind]} - {0}:
        for name, want, got in zip(FUNCTIONS, expected, results(kind, lanes, x), strict=True):
            agree = same(got, want)
            assert agree.all(), (name, lanes, x[~agree][:3], got[~agree][:3], want[~agree][:3])


@pytest.mark.quick(2)
@pytest.mark.skipif(not (host.target().is_x86 and host.target().has("avx2", "fma")), reason="for CPUs with AVX2")
@pytest.mark.parametrize("features", ["+avx2,+fma", "+avx,+fma"])
@pytest.mark.parametrize("kind", FLOATS)
def test_older_processors_agree_with_this_one(kind: str, features: str) -> None:
    x = points(kind)
    expected = results(kind, NATIVE[kind], x)
    with host.using(target_for(host.target().triple, features=features)):
        found = results(kind, host.target().lanes(KINDS[kind].size), x)
    for name, want, got in zip(FUNCTIONS, expected, found, strict=True):
        agree = same(got, want)
        assert agree.all(), (name, x[~agree][:3], got[~agree][:3], want[~agree][:3])


@pairwise(older=[False, True], lanes=[1, 2, 4, 8, 16, 32], kind=[*FLOATS, "i8", "i16", "i32", "i64"])
def test_a_hidden_value_of_any_width(kind: str, lanes: int, older: bool) -> None:
    if older and not (host.target().is_x86 and host.target().has("avx2", "fma")):
        pytest.skip("for CPUs with AVX2")
    names = [f"load_{kind}x{lanes}", "store", "opaque"]
    source = source_of(names, ["x", "y"], [f"store(y, opaque(load_{kind}x{lanes}(x)))"])
    x = np.arange(1, lanes + 1).astype(KINDS[kind].dtype)
    with host.using(target_for(host.target().triple, features="+avx2,+fma") if older else host.target()):
        compiled(source)(x.ctypes.data, (y := np.zeros_like(x)).ctypes.data)
    np.testing.assert_array_equal(y, x)
