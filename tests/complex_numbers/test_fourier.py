"""Fourier transforms beside NumPy's, their derivatives, and in loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import COMPLEX, walk_inside
from scanjit.ops.fourier import FOURIER
from scanjit.runtime import host
from tests.compare import all_close
from tests.complex_numbers.support import sampled, slope
from tests.targets import with_vectors

LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 24, 27, 30, 49, 64, 67, 77, 97, 121, 134, 210, 256, 262]


@pytest.mark.parametrize("n", LENGTHS)
def test_lengths_with_all_kinds_of_factors(n: int) -> None:
    rng = np.random.default_rng(n)
    z, x = sampled(rng, (2, n)), rng.normal(size=(2, n))
    a, b = sj.tensor((2, n), "complex128"), sj.tensor((2, n))
    f = sj.function([a, b], [sj.fft(a), sj.ifft(a), sj.fft(b), sj.rfft(b), sj.irfft(a, n)], mode="reference")
    expected = [np.fft.fft(z), np.fft.ifft(z), np.fft.fft(x), np.fft.rfft(x), np.fft.irfft(z, n)]
    all_close(f(z, x), expected, 1e-10, 1e-10)


@pytest.mark.quick(3)
@pytest.mark.parametrize("dtype, close", [("complex128", 1e-10), ("complex64", 1e-4)])
@pytest.mark.parametrize("n", [9, 60, 68, 512, 551, 600])
def test_compiled(n: int, dtype: str, close: float) -> None:
    rng = np.random.default_rng(n)
    z = sampled(rng, (3, n), dtype)
    given = sj.tensor(("b", n), dtype)
    f = sj.function([given], [sj.fft(given), sj.ifft(given), sj.rfft(given.real), sj.irfft(given)])
    expected = [np.fft.fft(z), np.fft.ifft(z), np.fft.rfft(z.real), np.fft.irfft(z)]
    for found, wanted in zip(f(z), expected, strict=True):
        assert found.dtype == wanted.astype(found.dtype).dtype and found.dtype.itemsize in (z.itemsize, z.itemsize // 2)
        np.testing.assert_allclose(found, wanted, close, close)


@pytest.mark.quick(2)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("dtype, close", [("complex128", 2e-15), ("complex64", 1e-6)])
def test_long_rows(dtype: str, close: float, known: bool, rng: np.random.Generator) -> None:
    """Single rows and rows side by side, of lengths whose factors are small, large, and powers of 2."""
    for n in (1001, 1024, 1364, 4199) if known else (572, 1001, 1024, 4096, 4199):
        z = sj.tensor(("b", n if known else "n"), dtype, "z")
        f = sj.function([z], [sj.fft(z), sj.ifft(z), sj.rfft(z.real)])
        for rows in (1, 19):
            a = sampled(rng, (rows, n), dtype)
            wide = a.astype("complex128")
            for one, wanted in zip(f(a), [np.fft.fft(wide), np.fft.ifft(wide), np.fft.rfft(wide.real)], strict=True):
                np.testing.assert_allclose(one, wanted, 0, close * abs(wanted).max())


@pytest.mark.parametrize("mode", ["reference", "emulate"])
@pytest.mark.parametrize("n", [1, 2, 6, 9, 12, 32, 46])
def test_ends_of_half_spectra_are_real(n: int, mode: Any) -> None:
    """Their imaginary parts are 0.0, not -0.0: otherwise the angle of a negative sum would be -pi."""
    for size in (n, "n"):
        x = sj.tensor((2, size), "float32", "x")
        given = np.random.default_rng(0).normal(size=(2, n)).astype("float32")
        given[0] = -abs(given[0])
        found = sj.function([x], sj.rfft(x), mode=mode)(given)
        ends = found.imag[:, [0, -1] if n % 2 == 0 else [0]]
        assert not ends.any() and not np.signbit(ends).any()
        assert np.angle(found[0, 0]) > 3


def test_arguments(rng: np.random.Generator) -> None:
    """NumPy's own functions, with a length, an axis and a norm; sizes that `jit` finds."""
    z, x = sampled(rng, (4, 6, 3)), rng.normal(size=(4, 6, 3))

    def all_of(z: Any, x: Any) -> list[Any]:
        found = [np.fft.fft(z, axis=1), np.fft.fft(z, 9, 0), np.fft.ifft(z, 2, 1, "ortho"), np.fft.rfft(x, axis=0)]
        found += [np.fft.rfft(x, 5, -2, "forward"), np.fft.irfft(z, axis=1), np.fft.irfft(z, 8, 1, norm="ortho")]
        return [*found, np.fft.fft(x[0, :, 0].astype("float32"), norm="forward"), np.fft.irfft(x, 3, 1)]

    all_close(sj.jit(all_of, mode="reference")(z, x), all_of(z, x), 1e-6, 1e-6)
    assert sj.fft(np.arange(4)).dtype == np.complex128 and sj.fft(np.zeros(4, np.float32)).dtype == np.complex64


@pytest.mark.quick(2)
@pytest.mark.parametrize("n", [6, 7, 11, 67])
def test_derivatives(n: int) -> None:
    rng = np.random.default_rng(n)
    z, x = sampled(rng, (n,)), rng.normal(size=n)
    w = sampled(rng, (n,))

    def cost(z: Any) -> Any:
        return (abs(np.fft.fft(z) * w) ** 2).sum() + np.real(np.fft.ifft(z * z) * w).sum()

    def of_real(x: Any) -> Any:
        return (abs(np.fft.rfft(x)) ** 3).sum() + (np.fft.irfft(np.fft.rfft(x) * w[: n // 2 + 1], n) ** 2).sum()

    value, found = sj.value_and_grad(cost, mode="reference")(z)
    np.testing.assert_allclose(value, cost(z), 1e-10)
    np.testing.assert_allclose(found, slope(cost, z), 1e-4, 1e-4)
    np.testing.assert_allclose(sj.value_and_grad(of_real, mode="reference")(x)[0], of_real(x), 1e-9)
    if n < 10:
        sj.check_grad(lambda z: [abs(np.fft.fft(z)), np.fft.ifft(z) ** 2], z, order=2)
        sj.check_grad(lambda x: [np.fft.rfft(x) ** 2, np.fft.irfft(np.fft.rfft(x) * 1j, n)], x, order=2)


def test_in_steps_and_batches(rng: np.random.Generator) -> None:
    """A convolution of each state with a filter, by transforms; the same of all examples of a batch."""
    kernel, rows = rng.normal(size=16) / 4, rng.normal(size=(5, 16))

    def states(kernel: Any, rows: Any) -> Any:
        spectrum = np.fft.rfft(kernel)
        return sj.scan(lambda row, h: np.tanh(np.fft.irfft(np.fft.rfft(h) * spectrum, 16)) + row, rows, np.zeros(16))

    symbols = [sj.tensor((16,), name="kernel"), sj.tensor(("steps", 16), name="rows")]
    found = sj.function(symbols, [states(*symbols), sj.grad(states(*symbols).sum(), symbols[0])])(kernel, rows)
    state, expected = np.zeros(16), []
    for row in rows:
        state = np.tanh(np.fft.irfft(np.fft.rfft(state) * np.fft.rfft(kernel), 16)) + row
        expected.append(state)
    np.testing.assert_allclose(found[0], expected, 1e-10, 1e-10)
    run = sj.function(symbols, states(*symbols).sum(), mode="reference")
    for i in (0, 7):
        step = 1e-6 * np.eye(16)[i]
        np.testing.assert_allclose(found[1][i], (run(kernel + step, rows) - run(kernel - step, rows)) / 2e-6, 1e-5)
    many = sj.vmap(lambda row: sj.grad(abs(sj.fft(row) ** 2).sum(), row))(symbols[1])
    each = sj.function([symbols[1]], many, mode="reference")(rows)
    np.testing.assert_allclose(each, 2 * 16 * rows, 1e-10)


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_lengths_that_are_found_when_a_function_runs(mode: str) -> None:
    """All of one function; a length that is another axis's size; scales."""
    z, x = sj.tensor(("b", "n"), "complex128"), sj.tensor(("b", "n"))
    m = z.shape[1]
    results = [sj.fft(z), sj.ifft(z), sj.fft(x, norm="ortho"), sj.rfft(x, norm="forward"), sj.irfft(z), sj.irfft(z, m)]
    f = sj.function([z, x], [*results, sj.fft(x, x.shape[0]), sj.ifft(z, 7), sj.fft(z, axis=0)], mode=mode)
    for n in (2, 3, 4, 5, 8, 12, 13, 30, 49, 67, 101):
        rng, rows = np.random.default_rng(n), 1 + n % 3
        a, b = sampled(rng, (rows, n)), rng.normal(size=(rows, n))
        expected = [np.fft.fft(a), np.fft.ifft(a), np.fft.fft(b, norm="ortho"), np.fft.rfft(b, norm="forward")]
        expected += [np.fft.irfft(a), np.fft.irfft(a, n), np.fft.fft(b, rows), np.fft.ifft(a, 7), np.fft.fft(a, axis=0)]
        all_close(f(a, b), expected, 1e-10, 1e-10)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("dtype, close", [("complex64", 2e-6), ("complex128", 1e-14)])
def test_rows_side_by_side(dtype: str, close: float, known: bool) -> None:
    """A vector of rows and one more, of lengths with factors of all kinds."""
    for n in (9, 10, 15, 16, 22, 23, 33, 60) if known else (1, 2, 3, 4, 5, 9, 10, 16, 21, 22, 23, 30, 33, 64, 67):
        rng = np.random.default_rng(n)
        a, b = sampled(rng, (17, n), dtype), sampled(rng, (17, n // 2 + 1), dtype)
        z, y = (sj.tensor(("b", size), dtype) for size in ((n, n // 2 + 1) if known else ("n", "m")))
        x = sj.tensor(("b", n if known else "n"), a.real.dtype)
        results = [sj.fft(z), sj.ifft(z), sj.irfft(y, z.shape[1]), sj.rfft(x), sj.fft(x), sj.ifft(x)]
        found = sj.function([z, y, x], results, mode="emulate")(a, b, a.real)
        expected = [np.fft.fft(a), np.fft.ifft(a), np.fft.irfft(b, n), np.fft.rfft(a.real)]
        expected += [np.fft.fft(a.real), np.fft.ifft(a.real)]
        for one, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, wanted, 0, close * abs(wanted).max())


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("nbytes", [8, 16, 64])
def test_columns_of_rows_of_unknown_length(nbytes: int, dtype: str) -> None:
    """With few and many lanes: lengths that fill vectors or not, with large factors, and convolutions."""
    z = sj.tensor(("b", "n"), dtype)
    with host.using(with_vectors(nbytes)):
        f = sj.function([z], sj.fft(z), mode="emulate")
        for n in (1, 2, 16, 22, 24, 67, 17 * nbytes // 4):
            a = sampled(np.random.default_rng(n), (17, n), dtype)
            for rows in (a, a[:2]):
                wanted = np.fft.fft(rows.astype("complex128"))
                close = 1e-14 if dtype == "complex128" else 1e-6
                np.testing.assert_allclose(f(rows), wanted, 0, close * abs(wanted).max())


@pytest.mark.parametrize("dtype, close", [("complex64", 1e-6), ("complex128", 1e-14), ("float64", 1e-14)])
def test_short_rows_behind_each_other_are_transposed(dtype: str, close: float, rng: np.random.Generator) -> None:
    """Few rows, rows of few numbers, and transforms along other axes are arithmetic on entries."""
    turned = [((None, 8, 8), -1), ((None, 2, 7), 2), ((4, 8), 1)]
    others = [((None, 8, 5), -1), ((None, 8, 8), 1), ((8, None, 8), 0), ((3, 8), 1), ((8,), 0)]
    for shape, axis in (*turned, *others):
        x: Any = sj.tensor(shape, dtype, "x")
        y, back = sj.fft(x, axis=axis), sj.ifft(x, axis=axis)
        for found in (y, back):
            assert (FOURIER in [node.op for node in walk_inside([found])]) == ((shape, axis) in turned)
        for rows in (3, 21):
            value = rng.normal(size=[size or rows for size in shape]).astype(dtype)
            value = value if dtype == "float64" else value + 1j * rng.normal(size=value.shape).astype(value.real.dtype)
            for result, wanted in zip(sj.function([x], [y, back])(value), (np.fft.fft, np.fft.ifft), strict=True):
                np.testing.assert_allclose(result, wanted(value, axis=axis), close, 10 * close)


def test_roots_of_unity_are_computed_once_in_front_of_loops() -> None:
    x = sj.tensor(("steps", "n"))
    states = sj.scan(lambda row, h: sj.irfft(sj.rfft(h) * sj.rfft(row), x.shape[1]), x, x[0])
    f = sj.function([x], [states[-1], sj.rfft(x)], mode="emulate")
    text = sj.dprint(f, "str", stage="blocks")
    assert text.count("= roots()") == 1 and text.index("= roots()") < text.index("for step")
    rows = np.random.default_rng(0).normal(size=(3, 10))
    state = rows[0]
    for row in rows:
        state = np.fft.irfft(np.fft.rfft(state) * np.fft.rfft(row))
    np.testing.assert_allclose(f(rows)[0], state, 1e-10)


@pytest.mark.parametrize("n", [6, 7])
def test_derivatives_of_half_spectra_of_any_length(n: int) -> None:
    x, y = sj.tensor(("n",), "float64"), np.random.default_rng(n).normal(size=n)
    spectrum = sj.rfft(x)
    cost = (abs(spectrum) ** 3).sum() + (sj.irfft(spectrum * (1 + 2j), x.shape[0]) ** 3).sum()
    slopes = sj.function([x], sj.grad(cost, x), mode="emulate")(y)
    f = sj.function([x], cost, mode="reference")
    steps = 1e-6 * np.eye(n)
    np.testing.assert_allclose(slopes, [(f(y + step) - f(y - step)) / 2e-6 for step in steps], 1e-6)


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_both_parts_may_lie_anywhere_in_one_array(mode: str) -> None:
    """Pairs without gaps are read where they are; others are copied."""
    x, values = sj.tensor((3, 60, 2)), np.random.default_rng(0).normal(size=(3, 60, 2))

    def pairs(x: Any) -> list[tuple[Any, Any]]:
        a, b = x[..., 0], x[..., 1]
        return [(a, b), (b, a), (a, a), (a[1:], b[:-1]), (a[:, ::-1], b[:, ::-1]), (x[0], x[1])]

    f = sj.function([x], [sj.fft(COMPLEX(*pair)) for pair in pairs(x)], mode=mode)
    for found, (real, imaginary) in zip(f(values), pairs(values), strict=True):
        np.testing.assert_allclose(found, np.fft.fft(real + 1j * imaginary), 1e-12, 1e-12)


@pytest.mark.parametrize(
    "dtype, close", [("complex64", 1e-4), pytest.param("complex128", 1e-10, marks=pytest.mark.slow)]
)
def test_lengths_that_are_found_compiled(dtype: str, close: float) -> None:
    """In steps too, with gradients; lengths that fill no vectors, and large ones."""
    z = sj.tensor(("b", "n"), dtype)
    states = sj.scan(lambda row, h: sj.ifft(sj.fft(h) * sj.fft(row)) + row, z, sj.zeros_like(z[0]))
    cost = (abs(sj.fft(z)) ** 2).sum() + (abs(states[-1]) ** 2).sum()
    f = sj.function([z], [sj.fft(z), states, sj.grad(cost, z)])
    for n in (1, 6, 31, 300, 997, 1024, 2 * 509):
        rows = sampled(np.random.default_rng(n), (4, n), dtype) / n**0.5
        state, expected = np.zeros(n), []
        for row in rows:
            state = np.fft.ifft(np.fft.fft(state) * np.fft.fft(row)) + row
            expected.append(state)
        found = f(rows)
        np.testing.assert_allclose(found[0], np.fft.fft(rows), close, close)
        np.testing.assert_allclose(found[1], expected, close, close)
        known = sj.tensor((4, n), dtype)
        states_known = sj.scan(lambda row, h: sj.ifft(sj.fft(h) * sj.fft(row)) + row, known, sj.zeros_like(known[0]))
        same = (abs(sj.fft(known)) ** 2).sum() + (abs(states_known[-1]) ** 2).sum()
        wanted = sj.function([known], sj.grad(same, known), mode="reference")(rows)
        np.testing.assert_allclose(found[2], wanted, 10 * close, 10 * close)


def test_lengths_with_large_prime_factors(rng: np.random.Generator) -> None:
    """The same bits for any number of threads; many rows, which threads share in bands; long ones; a vector."""
    z, x = sj.tensor(("b", "n"), "complex128"), sj.tensor(("n",), "float32")
    f, g = sj.function([z], [sj.fft(z), sj.ifft(z)]), sj.function([x], [sj.rfft(x), sj.irfft(sj.rfft(x), x.shape[0])])
    for shape in ((1, 67), (15, 134), (16, 71), (40, 997), (3, 10007), (0, 997)):
        a = sampled(rng, shape)
        found = []
        for sj.config.threads in (1, 2):
            found.append(f(a))
        for one, two, wanted in zip(*found, (np.fft.fft(a), np.fft.ifft(a)), strict=True):
            assert (one == two).all()
            np.testing.assert_allclose(one, wanted, 1e-10, 1e-10)
    row = rng.normal(size=10007).astype("float32")
    spectrum, back = g(row)
    np.testing.assert_allclose(spectrum, np.fft.rfft(row), 1e-4, 1e-3)
    np.testing.assert_allclose(back, row, 1e-4, 1e-5)


def test_known_lengths_with_large_prime_factors(rng: np.random.Generator) -> None:
    """One statement transforms all rows; only the factor of the inverse has a nest. The same bits for any number of
    threads."""
    for n in (67, 997, 2 * 997):
        a, reals = sampled(rng, (40, n)), rng.normal(size=(40, n))
        z, x = sj.tensor(("b", n), "complex128"), sj.tensor(("b", n), "float64")
        transforms = [sj.fft(z), sj.rfft(x), sj.irfft(sj.rfft(x), n)]
        wanted = [np.fft.fft(a), np.fft.rfft(reals), reals]
        f = sj.function([z, x], transforms)
        text = sj.dprint(f, "str", stage="blocks")
        assert text is not None and text.count("nest ") == 1, text
        found = []
        for sj.config.threads in (1, 2):
            found.append(f(a, reals))
        for one, two, right in zip(*found, wanted, strict=True):
            assert (one == two).all()
            np.testing.assert_allclose(one, right, 1e-10, 1e-10)


def test_wrong_transforms() -> None:
    x = sj.tensor(4, name="x")
    with pytest.raises(sj.ArgumentError, match="norm of a Fourier transform is unknown"):
        sj.fft(x, norm="none")  # type: ignore[arg-type]
    for n in (0, -1, 2.5, True):
        with pytest.raises(sj.ArgumentError, match="at least 1"):
            sj.fft(x, n)  # type: ignore[arg-type]
    with pytest.raises(sj.DtypeError, match="rfft takes real numbers"):
        sj.rfft(x * 1j)
    with pytest.raises(sj.ShapeError, match="axis 1 is out of bounds"):
        sj.fft(x, axis=1)
    with pytest.raises(sj.ArgumentError, match="a length for each axis"):
        np.fft.fftn(x, axes=())


def test_a_known_axis_that_is_too_short_is_an_error() -> None:
    """As in NumPy. (Factors of the length 0 were looked for without end.)"""
    for function, size in ((sj.fft, 0), (sj.ifft, 0), (sj.rfft, 0), (sj.irfft, 1), (sj.irfft, 0)):
        with pytest.raises(sj.errors.ShapeError, match="at least 1 number"):
            function(sj.tensor((3, size), "float64"))
    assert sj.irfft(sj.tensor((3, 1), "float64"), 2).type.shape == (3, 2)


@pytest.mark.parametrize("mode", ["reference", "emulate"])
@pytest.mark.parametrize("name, size", [("fft", 0), ("ifft", 0), ("rfft", 0), ("irfft", 1), ("fftn", 0), ("hfft", 1)])
def test_a_found_axis_that_is_too_short_is_an_error(mode: Any, name: str, size: int) -> None:
    x = sj.matrix("x")
    f = sj.function([x], getattr(sj, name)(x), mode=mode)
    f(np.ones((2, 3)))
    with pytest.raises(sj.errors.ShapeError, match="at least 1 number, not of 0"):
        f(np.ones((2, size)))
