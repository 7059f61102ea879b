"""Complex numbers in loops, branches, batches, and derivatives of these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.complex_numbers.support import sampled, slope

MODES: Any = pytest.mark.parametrize("mode", ["reference", "numba"])


def rotation(lam: np.ndarray, xs: np.ndarray) -> np.ndarray:
    """`h = lam * h + x`, in NumPy."""
    state, found = np.zeros(lam.shape, np.result_type(lam, xs)), []
    for x in xs:
        state = lam * state + x
        found.append(state)
    return np.array(found)


@MODES
@pytest.mark.parametrize("dtype, close", [("complex128", 1e-12), ("complex64", 1e-4)])
@pytest.mark.parametrize("width", [3, 300])
def test_a_complex_carry(mode: Any, dtype: str, close: float, width: int, rng: np.random.Generator) -> None:
    lam = (0.9 * np.exp(1j * rng.normal(size=width))).astype(dtype)
    xs = rng.normal(size=(40, width)).astype(lam.real.dtype)

    @lambda fn: sj.jit(fn, mode=mode)
    def states(lam: Any, xs: Any) -> Any:
        return sj.scan(lambda x, h: lam * h + x, xs, sj.zeros_like(lam))

    found = states(lam, xs)
    assert found.dtype == lam.dtype
    np.testing.assert_allclose(found, rotation(lam, xs), close, close)


@MODES
def test_gradients_through_a_complex_carry(mode: Any, rng: np.random.Generator) -> None:
    lam, xs, wanted = 0.8 * np.exp(1j * rng.normal(size=4)), sampled(rng, (9, 4)), rng.normal(size=(9, 4))

    def cost(lam: Any, xs: Any, scan: Any) -> Any:
        return (np.real(scan(lam, xs) * np.array([1, 1j, 2, 1 - 1j])) - wanted).__pow__(2).sum()

    def by_scan(lam: Any, xs: Any) -> Any:
        return sj.scan(lambda x, h: np.tanh(lam * h) + x, xs, np.zeros(4, complex))

    def by_numpy(lam: Any, xs: Any) -> Any:
        state, found = np.zeros(4, complex), []
        for x in xs:
            state = np.tanh(lam * state) + x
            found.append(state)
        return np.array(found)

    value, (by_lam, by_xs) = sj.value_and_grad(lambda a, b: cost(a, b, by_scan), (0, 1), mode=mode)(lam, xs)
    np.testing.assert_allclose(value, cost(lam, xs, by_numpy), 1e-12)
    np.testing.assert_allclose(by_lam, slope(lambda a: cost(a, xs, by_numpy), lam), 1e-5, 1e-5)
    np.testing.assert_allclose(by_xs, slope(lambda b: cost(lam, b, by_numpy), xs), 1e-5, 1e-5)


def test_all_orders_and_both_modes_of_derivatives(rng: np.random.Generator) -> None:

    def states(lam: Any, xs: Any) -> Any:
        return sj.scan(lambda x, h: lam * h * abs(h) + x, xs, 0.5j * lam)

    sj.check_grad(states, [sampled(rng, (2,), size=0.4), sampled(rng, (3, 2), size=0.4)], order=2)


def test_numbers_as_initial_values() -> None:
    """A Python number is weak: the state takes the dtype of what the step returns, in both parts."""
    for dtype, expected in (("float32", "complex64"), ("float64", "complex128"), ("complex64", "complex64")):
        x = sj.vector("x", dtype=dtype)
        found = sj.scan(lambda x, h: 0.5j * h + x, x, 0j)
        assert found.dtype == expected, dtype
        assert sj.scan(lambda x, h: x + 0.5 * h, x, 0j).dtype == expected, dtype
    assert sj.scan(lambda h: h * 1j, outputs_info=1j, n_steps=3).dtype == np.complex128


def test_taps_lags_until_and_nested_states() -> None:
    xs = sampled(np.random.default_rng(3), (12,))
    x = sj.vector("x", dtype="complex128")
    taps = sj.scan(
        lambda a, b, near, far: a * 0.5 + b * near + 1j * far,
        dict(input=x, taps=[-1, 0]),
        dict(initial=np.zeros(10, complex), taps=[-1, -10]),
    )
    nested = sj.scan(
        lambda x, s: {"z": s["z"] * x, "n": (s["n"][0] + 1, abs(s["z"]))}, x, dict(initial={"z": 1j, "n": (0, 0.0)})
    )
    halting = sj.scan(lambda x, h: (h + x, sj.until(abs(h + x) > 2)), x, 0j)
    last = sj.while_loop(lambda z: abs(z) < 10, lambda z: z * (1 + 1j), 1j)
    total = sj.reduce(lambda x, total: total * x, x, 1 + 0j)
    found = sj.function([x], [taps, nested["z"], nested["n"][1], halting, last, total], mode="reference")(xs)
    line = [0j] * 10
    for t in range(1, 12):
        line.append(xs[t - 1] * 0.5 + xs[t] * line[-1] + 1j * line[-10])
    np.testing.assert_allclose(found[0], line[10:], 1e-10)
    np.testing.assert_allclose(found[1], 1j * np.cumprod(xs), 1e-10)
    np.testing.assert_allclose(found[2], abs(1j * np.concatenate([[1], np.cumprod(xs)[:-1]])), 1e-10)
    sums = np.cumsum(xs)
    count = int(np.argmax(abs(sums) > 2)) + 1 if (abs(sums) > 2).any() else 12
    np.testing.assert_allclose(found[3], sums[:count], 1e-10)
    np.testing.assert_allclose(found[4], 1j * (1 + 1j) ** 7)
    np.testing.assert_allclose(found[5], xs.prod(), 1e-10)


@MODES
def test_branches_and_batches(mode: Any, rng: np.random.Generator) -> None:
    zs, w, flags = sampled(rng, (5, 3)), sampled(rng, (3,)), np.array([True, False, True, True, False])

    def example(z: Any, w: Any, flag: Any) -> Any:
        chosen = sj.ifelse(flag, lambda: z * w, lambda: np.exp(z))
        return chosen, sj.grad(abs(chosen).sum(), w, disconnected="zero"), np.vdot(z, w)

    symbols = [sj.matrix("z", dtype="complex128"), sj.vector("w", dtype="complex128"), sj.vector("flag", dtype="bool")]
    f = sj.function(symbols, sj.vmap(example, in_axes=(0, None, 0))(*symbols), mode=mode)
    values, slopes, products = f(zs, w, flags)
    expected = np.where(flags[:, None], zs * w, np.exp(zs))
    np.testing.assert_allclose(values, expected, 1e-12)
    np.testing.assert_allclose(products, zs.conj() @ w, 1e-12)
    by_w = [slope(lambda w, z=z: abs(z * w).sum(), w) if flag else 0 * w for z, flag in zip(zs, flags, strict=True)]
    np.testing.assert_allclose(slopes, by_w, 1e-6, 1e-6)


def test_derivatives_by_both_parts() -> None:
    """`grad` gives `dL/dRe + i dL/dIm`; a cost may depend on one part alone."""
    z = sj.vector("z", dtype="complex128")
    value = np.array([1 + 2j, 3 - 1j])
    run = lambda node: sj.function([z], node, mode="reference")(value)
    np.testing.assert_allclose(run(sj.grad((abs(z) ** 2).sum(), z)), 2 * value)
    np.testing.assert_allclose(run(sj.grad(z.real.sum(), z)), [1, 1])
    np.testing.assert_allclose(run(sj.grad(abs(z - sj.stop_gradient(z)).sum(), z)), [0, 0])
    np.testing.assert_allclose(run(sj.grad((z * sj.stop_gradient(z)).real.sum(), z)), value.conj())
    np.testing.assert_allclose(run(sj.grad((z**2).real.sum(), z, consider_constant=[z * 1])), 2 * value.conj())
    np.testing.assert_allclose(run(sj.jvp(z * z, z, np.array([1j, 2]))), 2 * value * [1j, 2])
    np.testing.assert_allclose(run(sj.vjp(z * z, z, np.array([1j, 2]))), np.conj(2 * value) * [1j, 2])
    np.testing.assert_allclose(run(sj.hvp((abs(z) ** 2).sum(), z, np.array([1j, 2]))), [2j, 4])
    jacobian = run(sj.jacobian(abs(z) ** 2, z))
    np.testing.assert_allclose(jacobian, np.diag(2 * value))
    square = sj.custom_vjp(lambda z: z * z)
    square.defvjp(lambda cotangent, output, z: cotangent * 100j)
    np.testing.assert_allclose(run(sj.grad(square(z).real.sum(), z)), [100j, 100j])


def test_wrong_derivatives() -> None:
    z, x = sj.vector("z", dtype="complex128"), sj.vector("x")
    with pytest.raises(sj.GradientError, match="the cost must be real") as found:
        sj.grad(z.sum(), z)
    assert "sj.abs" in str(found.value)
    with pytest.raises(sj.GradientError, match="the cost does not depend on it"):
        sj.grad(x.sum(), z)
    with pytest.raises(sj.GradientError, match="the second derivatives by complex numbers"):
        sj.hessian((abs(z) ** 2).sum(), z)
    with pytest.raises(sj.GradientError, match="the output must be real"):
        sj.jacobian(z * 2, z)
    with pytest.raises(sj.GradientError, match="structure"):
        sj.jvp(z, z, np.zeros(3))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_real_python_numbers_become_complex_where_the_step_is(dtype: str) -> None:
    """As they take the dtype that the step returns: also one of several, in structures, and in `while_loop`."""
    x, z = sj.vector("x", dtype=dtype), np.array([1 + 2j, -1j, 0.5], dtype)
    sums, counts = sj.scan(lambda x, h, n: (h * 1j + x, n + 1), x, [0.0, 0])
    nested = sj.scan(lambda x, h: {"n": h["n"] + 1, "c": (h["c"][0] * 1j + x,)}, x, {"c": (0,), "n": 0})
    folded = sj.foldl(lambda x, h: h * 1j + x, x, False)
    last = sj.while_loop(lambda s: abs(s[0]) < 9, lambda s: (2 * s[0] + x[0], s[1] + 1), (1, 0))
    f = sj.function([x], [sums, counts, nested, folded, last, sj.grad(abs(folded), x)], mode="reference")
    got, steps, inner, end, (ended, n), slopes = f(z)
    wanted = [z[0], z[0] * 1j + z[1], (z[0] * 1j + z[1]) * 1j + z[2]]
    for found in (got, inner["c"][0]):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted)
    assert (steps == [1, 2, 3]).all() and (inner["n"] == steps).all() and n == 2
    np.testing.assert_allclose([end, ended], [wanted[-1], 7 + 6j])
    np.testing.assert_allclose(abs(slopes), 1, rtol=1e-6)


def test_wrong_states() -> None:
    x, z = sj.vector("x"), sj.vector("z", dtype="complex128")
    with pytest.raises(sj.ScanError, match="another structure than its initial value") as found:
        sj.scan(lambda x, h: h * 1j + x, x, np.zeros(()))
    assert "expected: a tensor of real numbers" in str(found.value)
    assert "begin with complex numbers" in str(found.value)
    with pytest.raises(sj.ScanError, match="another structure") as found:
        sj.scan(lambda x, h: abs(h) + x, x, 0j)
    assert "expected: a tensor of complex numbers" in str(found.value)
    with pytest.raises(sj.ScanError, match="changes its dtype"):
        sj.scan(lambda h: h * np.complex128(1j), outputs_info=sj.constant(np.complex64(1j)), n_steps=2)
    with pytest.raises(sj.ScanError, match="must be a boolean scalar"):
        sj.scan(lambda z: (z, sj.until(z)), z)
    with pytest.raises(sj.ScanError, match="n_steps must be an integer"):
        sj.scan(lambda: z, n_steps=z[0])
    with pytest.raises(sj.ArgumentError, match="different structures"):
        sj.ifelse(x[0] > 0, z, x)


def test_prints_and_assertions(capsys: pytest.CaptureFixture[str]) -> None:
    z = sj.vector("z", dtype="complex128")
    f = sj.function([z], sj.print_(sj.assert_(abs(z) > 0, z, "no zeros"), "z") * 2, mode="reference")
    np.testing.assert_array_equal(f([1j]), [2j])
    printed = capsys.readouterr().out
    assert "z.real: [0.]" in printed and "z.imag: [1.]" in printed
    with pytest.raises(sj.AssertError, match="no zeros"):
        f([0])


@MODES
def test_tbptt_and_associative_scans(mode: Any) -> None:
    xs = sampled(np.random.default_rng(5), (9,), size=0.7)
    x = sj.vector("x", dtype="complex128")
    found = sj.associative_scan(lambda a, b: a * b, x)
    np.testing.assert_allclose(sj.function([x], found, mode=mode)(xs), np.cumprod(xs), 1e-12)
