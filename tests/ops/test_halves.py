"""bfloat16 and float16: kept in 16 bits, computed in float32, and rounded after each operation."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import scanjit as sj
from scanjit.arrays import named_dtype
from tests.compare import same_for_any_threads

MODES = ["reference", "emulate", "numba"]
HALVES = ["float16", "bfloat16"]


@pytest.fixture(params=HALVES)
def half(request: pytest.FixtureRequest) -> np.dtype:
    if request.param == "bfloat16":
        pytest.importorskip("ml_dtypes")
    return named_dtype(request.param)


def _some(half: np.dtype, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(half)


def _equal(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("mode", MODES)
def test_each_operation_rounds(half: np.dtype, mode: str) -> None:
    """What NumPy and `ml_dtypes` compute, which widen and round in the same places."""
    x, y = sj.vector("x", half), sj.vector("y", half)
    computed = [x + y, x - y, x * y * y, x / y, x * 2.5, -x, abs(x), sj.sqrt(abs(x)), sj.maximum(x, y), x.max()]
    f = sj.function([x, y], computed, mode=mode)
    a, b = _some(half, 300), _some(half, 300, seed=1)
    weak = half.type(2.5)
    expected = [a + b, a - b, a * b * b, a / b, a * weak, -a, abs(a), np.sqrt(abs(a)), np.maximum(a, b), a.max()]
    for found, wanted in zip(f(a, b), expected, strict=True):
        _equal(found, np.asarray(wanted))


@pytest.mark.quick(3)
@pytest.mark.parametrize("mode", MODES)
def test_sums_and_products_are_float32_inside(half: np.dtype, mode: str) -> None:
    x, w = sj.matrix("x", half), sj.matrix("w", half)
    f = sj.function([x, w], [x @ w, x.sum(axis=1), x.mean(), x.var(axis=0)], mode=mode)
    a, b = _some(half, 7, 400), _some(half, 400, 5, seed=1)
    wide = a.astype(np.float64)
    expected = [wide @ b.astype(np.float64), wide.sum(axis=1), wide.mean(), wide.var(axis=0)]
    for found, wanted in zip(f(a, b), expected, strict=True):
        assert found.dtype == half
        bound = 2.0 ** (-8 if half.name == "bfloat16" else -11)  # half a unit in the last place
        error = abs(found.astype(np.float64) - wanted)
        assert (error <= 1.01 * bound * abs(wanted) + 1e-4).all(), error.max()


@pytest.mark.parametrize("mode", MODES)
def test_what_only_moves_is_not_touched(half: np.dtype, mode: str) -> None:
    x, flags = sj.matrix("x", half), sj.vector("flags", "bool")
    computed = [
        x.T, x[1:, ::-2], x.reshape((-1,)), sj.concatenate([x, x]), sj.where(flags, x, 1.5), x[[2, 0]], x[1:].set(0.5),
        sj.zeros_like(x),
    ]  # fmt: skip
    a, m = _some(half, 4, 6), np.array([1, 0, 0, 1, 1, 0], bool)
    changed = a.copy()
    changed[1:] = 0.5
    expected = [
        a.T, a[1:, ::-2], a.reshape(-1), np.concatenate([a, a]), np.where(m, a, half.type(1.5)), a[[2, 0]], changed,
        np.zeros_like(a),
    ]  # fmt: skip
    for found, wanted in zip(sj.function([x, flags], computed, mode=mode)(a, m), expected, strict=True):
        _equal(found, wanted)


@pytest.mark.parametrize("mode", MODES)
def test_a_carry_is_rounded_in_each_step(half: np.dtype, mode: str) -> None:
    """1 + 2**-12 is 1 in both formats, so a sum of such numbers never moves; one of float32 does."""
    x = sj.vector("x", half)
    rounded = sj.scan(lambda row, total: total + row, sequences=x, outputs_info=1.0)
    kept = sj.scan(lambda row, total: total + row.astype("float32"), sequences=x, outputs_info=np.float32(1))
    given = np.full(300, 2.0**-12, half)
    first, second = sj.function([x], [rounded, kept[-1]], mode=mode)(given)
    _equal(first, np.ones(300, half))
    assert second == np.float32(1 + 300 * 2.0**-12)


@pytest.mark.parametrize("mode", MODES)
def test_a_carry_that_is_kept_or_replaced(half: np.dtype, mode: str) -> None:
    """No step computes with it, so that it is not float32 in between. (As a linear recurrence it did not compile.)"""
    x, keep = sj.vector("x", half), sj.vector("keep", bool)
    last = sj.scan(lambda x, keep, h: sj.where(keep, h, x), [x, keep], sj.cast(0.5, half))
    a, kept = _some(half, 40), np.arange(40) % 3 != 1
    expected = np.concatenate([[half.type(0.5)], a[1 + (np.arange(39) // 3) * 3]])
    _equal(sj.function([x, keep], last, mode=mode)(a, kept), expected)


@pytest.mark.parametrize("mode", MODES)
def test_derivatives_of_order_two_and_of_loops(half: np.dtype, mode: str) -> None:
    x, h = sj.vector("x", half), sj.scalar("h", half)
    second = sj.grad(sj.grad((x**3).sum(), x).sum(), x)
    hs = sj.scan(lambda row, h: sj.tanh(h * 0.5 + row), sequences=x, outputs_info=h)
    first = sj.grad((hs.astype("float32") ** 2).sum(), [x, h])
    f = sj.function([x, h], [second, *first], mode=mode)
    a = np.linspace(-1, 1, 9).astype(half)
    by_half = f(a, half.type(0.25))
    assert all(found.dtype == half for found in by_half)
    wide, start = sj.vector("x", "float64"), sj.scalar("h", "float64")
    hs = sj.scan(lambda row, h: sj.tanh(h * 0.5 + row), sequences=wide, outputs_info=start)
    exact = sj.function([wide, start], [6 * wide, *sj.grad((hs**2).sum(), [wide, start])], mode="reference")
    for found, wanted in zip(by_half, exact(a.astype(np.float64), 0.25), strict=True):
        np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("mode", MODES)
def test_branches_loops_and_batches(half: np.dtype, mode: str) -> None:
    x = sj.vector("x", half)
    computed = [
        sj.ifelse(x.sum() > 2, lambda: x, lambda: x * 2),
        sj.while_loop(lambda a: a.sum() < 100, lambda a: a * 2, x),
        sj.vmap(lambda v: v * v + 1)(x),
    ]
    a = np.array([1.5, 1, 0.5], half)
    for found, wanted in zip(sj.function([x], computed, mode=mode)(a), [a, a * half.type(64), a * a + 1], strict=True):
        _equal(found, wanted.astype(half))


def test_types_are_those_of_numpy(half: np.dtype) -> None:
    """Beside integers a bfloat16 is what NumPy makes of a float16; beside a float16, both become float32."""
    x = sj.vector("x", half)
    for name in ("bool", "int8", "uint8", "int16", "int32", "int64", "float32", "float64", "complex64"):
        of_float16 = np.result_type("float16", name)
        assert (x + sj.vector("y", name)).dtype == (half if of_float16 == np.float16 else of_float16), name
    if half.name == "bfloat16":
        assert (x + sj.vector("y", "float16")).dtype == np.float32
    assert (x + 1).dtype == (x * 0.5).dtype == half and (x > 1).dtype == np.bool_


def test_values_from_outside(half: np.dtype) -> None:
    x, w = sj.vector("x", half), sj.shared(np.array([1, 2, 3], half), "w")
    f = sj.function([x], x * w, updates={w: w * 0.5}, mode="reference")
    for given in ([1.0, 2.0, 3.0], np.array([1, 2, 3]), np.array([1, 2, 3], half)):
        w.set_value([1.0, 2.0, 3.0])
        _equal(f(given), np.array([1, 4, 9], half))
    assert w.get_value().dtype == half and w.dtype == half.name
    with pytest.raises(sj.DtypeError, match=rf"values could be lost(.|\n)*x.astype\('{half.name}'\)"):
        f(np.ones(3, "float32"))
    with pytest.raises(sj.DtypeError, match="these random numbers are floats"):
        sj.random.Stream(1).normal((3,), dtype=half)
    loss = sj.value_and_grad(lambda v: (v * v).sum())
    value, gradient = loss(np.array([1, 2], half))
    _equal(gradient, np.array([2, 4], half))
    assert value.dtype == half and value == 5
    assert sj.jit(lambda v, s: v * s)(np.array([1, 2], half), 1.5).dtype == half
    _equal(sj.function([x], sj.nan_to_num(x), mode="reference")([np.inf, np.nan, 1.0])[1:], np.array([0, 1], half))


def test_a_function_is_saved_with_its_constants(half: np.dtype, tmp_path: Path) -> None:
    x = sj.vector("x", half)
    w = sj.shared(np.array([0.1, 0.2, 0.3], half), "w")
    f = sj.function([x], x * w + np.array([1, 2, 3], half), mode="reference")
    given = np.array([1, 2, 3], half)
    f.save(tmp_path / "f")
    for copy in (pickle.loads(pickle.dumps(f)), sj.load(tmp_path / "f")):
        _equal(copy(given), f(given))


def test_the_same_bits_for_any_threads(half: np.dtype) -> None:
    x, w = sj.matrix("x", half), sj.matrix("w", half)
    h = sj.scan(lambda row, h: sj.tanh(row + h @ w), sequences=x[:, None, :], outputs_info=x[:1] * 0)
    f = sj.function([x, w], [h, sj.grad((h.astype("float32") ** 2).sum(), w), (x @ w).sum(axis=0)])
    same_for_any_threads(f, _some(half, 300, 64), (_some(half, 64, 64, seed=1) * half.type(0.1)).astype(half))


def test_products_of_bfloat16_are_computed_in_pairs() -> None:
    pytest.importorskip("ml_dtypes")
    x, w = sj.matrix("x", "bfloat16"), sj.matrix("w", "bfloat16")
    f = sj.function([x, w], x @ w)
    assert "multiplies pairs of bfloat16" in str(f.explain())
    a, b = (_some(named_dtype("bfloat16"), 20, 20, seed=k) for k in (0, 1))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert (abs(f(a, b).astype(np.float64) - exact) <= 2.0**-8 * abs(exact) + 1e-5).all()


def test_without_ml_dtypes_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    with pytest.raises(sj.NotSupportedError, match=r"scanjit\[bfloat16\]"):
        sj.vector("x", "bfloat16")
    with pytest.raises(sj.DtypeError, match="this dtype is not supported"):
        sj.vector("x", "float128x")
