"""Arguments as users have them: strided, in Fortran's order, read-only, of no elements; and sizes that change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime.kernels import compile_count
from tests.fuzz.check import Config

LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "fortran": np.asfortranarray,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "every other": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    "backwards": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    "read-only": lambda x: _locked(x),
    "unaligned": lambda x: _unaligned(x),
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
}


def _locked(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.setflags(write=False)
    return x


def _unaligned(x: np.ndarray) -> np.ndarray:
    memory = np.zeros(x.nbytes + 1, np.uint8)
    view = memory[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


@pytest.fixture(scope="module", params=["emulate", "numba"])
def compiled(request: pytest.FixtureRequest) -> Any:
    """A loop with a product, its gradient, and views of its inputs."""
    xs, w = sj.tensor(("T", "N"), "float64", "xs"), sj.tensor(("N", "N"), "float32", "w")
    h = sj.scan(lambda x, s: sj.tanh(x + s @ w), xs, sj.zeros(xs.shape[1]))
    outputs = [h, *sj.grad(h.sum(), [xs, w]), xs[::-1].T, w + 1, xs.sum(0)]
    with Config(request.param).active():
        function = sj.function([xs, w], outputs, mode=request.param)
        yield function, sj.function([xs, w], outputs, mode="reference")


@pytest.mark.quick(4)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(compiled: Any, layout: str, rng: np.random.Generator) -> None:
    function, reference = compiled
    for shape in ((4, 3), (1, 1), (5, 17)):
        x, w = rng.normal(size=shape), rng.normal(size=(shape[1], shape[1])).astype("float32")
        x, w = LAYOUTS[layout](x), LAYOUTS[layout](w)
        kept = x.copy(), w.copy()
        for a, b in zip(function(x, w), reference(x.astype("float64"), w.astype("float32")), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)
        assert np.array_equal(x, kept[0]) and np.array_equal(w, kept[1]), "arguments are never changed"


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 0), (0, 1)])
def test_no_elements(compiled: Any, shape: tuple[int, int]) -> None:
    function, reference = compiled
    x, w = np.zeros(shape), np.zeros((shape[1], shape[1]), "float32")
    for a, b in zip(function(x, w), reference(x, w), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a, b)


def test_results_are_new_memory(compiled: Any) -> None:
    function, _ = compiled
    x, w = np.ones((3, 2)), np.ones((2, 2), "float32")
    first = function(x, w)
    kept = [a.copy() for a in first]
    second = function(2 * x, w)
    for a, b, c in zip(first, kept, second, strict=True):
        assert np.array_equal(a, b) and not np.shares_memory(a, c)
        a[...] = 0
    assert np.all(x == 1) and np.all(w == 1)


def test_no_compilation_for_new_sizes() -> None:
    """One program for every length, batch and width, of an odd many lanes too."""
    xs, w = sj.tensor(("T", "B", "N"), "float32", "xs"), sj.tensor(("N", "N"), "float32", "w")
    h = sj.scan(lambda x, s: sj.tanh(x + s @ w), xs, sj.zeros(xs.shape[1:], "float32"))
    outputs = [h[-1], *sj.grad((h * h).sum(), [xs, w]), sj.softmax(h, -1)]
    function = sj.function([xs, w], outputs)
    reference = sj.function([xs, w], outputs, mode="reference")
    rng, before = np.random.default_rng(1), compile_count()
    for t, b, n in ((3, 2, 4), (1, 1, 1), (7, 5, 17), (2, 16, 33), (4, 3, 16), (5, 0, 3)):
        x, m = rng.normal(size=(t, b, n)).astype("float32"), rng.normal(size=(n, n)).astype("float32") / max(n, 1)
        for got, expected in zip(function(x, m), reference(x, m), strict=True):
            np.testing.assert_allclose(got, expected, rtol=3e-4, atol=3e-5)
    assert compile_count() == before


def test_equal_nests_compile_once() -> None:
    """Two programs that share a nest share its kernel."""
    x = sj.matrix("x")
    sj.function([x], sj.exp(x) * 3)(np.ones((2, 2)))
    before = compile_count()
    y, z = sj.matrix("y"), sj.matrix("z")
    function = sj.function([y, z], sj.exp(y) * 3)
    assert function(np.zeros((1, 3)), np.ones((2, 2))).tolist() == [[3.0] * 3]
    assert compile_count() - before <= 1, "its main function only"
