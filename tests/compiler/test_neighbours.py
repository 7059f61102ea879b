"""Both parts of complex numbers are loaded and stored by whole vectors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import host
from tests.pairs import pairwise
from tests.targets import with_vectors

CASES: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda z, w: z * w,
    "same for both parts": lambda z, w: 2.0 * z,
    "sum": lambda z, w: z + w,
    "conjugate": lambda z, w: sj.conj(z),
    "zeros beside numbers": lambda z, w: sj.real(z) + 0j,
    "numbers beside zeros": lambda z, w: 1j * sj.real(z),
    "parts alone": lambda z, w: [sj.real(z) * 2.0, sj.imag(w) + 1.0],
    "mixed parts": lambda z, w: sj.real(z) * sj.imag(z) + sj.real(w),
    "several": lambda z, w: [z * w, z - w, sj.exp(z)],
    "sums": lambda z, w: [(z * w).sum(-1), z.sum(0), abs(z).max()],
    "running sum": lambda z, w: sj.cumsum(z * w, -1),
    "stacked": lambda z, w: sj.stack([sj.real(z), sj.imag(w)], -1),
    "every second and its neighbour": lambda z, w: sj.real(z)[:, : z.shape[1] // 2 * 2 : 2] * sj.real(z)[:, 1::2],
    "transposed": lambda z, w: z.T * 2.0,
    "turned": lambda z, w: z[:, ::-1] * w,
    "shifted": lambda z, w: z[:, 1:] * w[:, :-1],
    "state": lambda z, w: sj.scan(lambda a, b, h: 0.5 * h * a + b, [z, w], z[0]),
    "state of rows": lambda z, w: sj.scan(lambda a, h: 0.5j * h + a, z.T, z[:, 0])[-1],
    "masked": lambda z, w: sj.where(abs(z) > 1.0, z, w),
    "set": lambda z, w: z[:, 1:].set(2.0 * w[:, 1:]),
    "integers": lambda z, w: sj.stack([sj.cast(sj.real(z), "int8"), sj.cast(sj.imag(z), "int8") * 2], -1),
}  # fmt: skip


def arguments(shape: tuple[int, int], dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [(rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype) for _ in range(2)]


@pairwise(case=CASES, nbytes=[16, 32, 64], dtype=["complex64", "complex128"])
def test_parts_of_numbers(case: str, nbytes: int, dtype: str) -> None:
    """Every load and store is inside of its array, also where vectors are not full."""
    z, w = sj.matrix("z", dtype), sj.matrix("w", dtype)
    outputs = CASES[case](z, w)
    reference = sj.function([z, w], outputs, mode="reference")
    with host.using(with_vectors(nbytes)):
        emulated = sj.function([z, w], outputs, mode="emulate")
        for shape in ((1, 1), (2, 3), (3, 16), (2, 41)):
            given = arguments(shape, dtype)
            for got, want in zip(listed(emulated(*given)), listed(reference(*given)), strict=True):
                np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5, strict=True)


def listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize(
    "case", ["product", "same for both parts", "sum", "conjugate", "zeros beside numbers", "state"]
)
def test_vectors_are_whole(case: str) -> None:
    z, w = sj.matrix("z", "complex64"), sj.matrix("w", "complex64")
    f = sj.function([z, w], CASES[case](z, w))
    assert "paired_low(" in f.source and "strided" not in f.source
    assert "every_second" not in f.source or case == "zeros beside numbers"
    given = arguments((3, 300), "complex64")
    np.testing.assert_allclose(f(*given), sj.function([z, w], CASES[case](z, w), mode="reference")(*given), rtol=1e-5)


def test_what_a_step_stores_is_loaded_behind_it() -> None:
    """A step reads one part of what it has stored one step before, and the part beside it of two steps before."""
    x = sj.vector("x")
    pairs = sj.scan(lambda a, p, q: sj.stack([a + p[1], p[0] * q[1]]), x, dict(initial=sj.ones((2, 2)), taps=[-1, -2]))
    f, reference = (sj.function([x], pairs, mode=mode) for mode in ("emulate", "reference"))
    np.testing.assert_array_equal(f(np.arange(9.0)), reference(np.arange(9.0)))
