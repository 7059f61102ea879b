"""Functions of numbers that users compiled: values, derivatives, loops, batches, branches, errors, the cache."""

import ctypes
import ctypes.util
import math
import os
import pickle
import re
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import cache
from tests.at_once import at_once
from tests.scripts import python

MODES = ("reference", "emulate", "numba")


@numba.njit
def kinked(x, w):
    return math.sin(x) * w if x > 1 else x * w


@numba.njit
def kinked_vjp(g, y, x, w):
    return (g * math.cos(x) * w, g * math.sin(x)) if x > 1 else (g * w, g * x)


@numba.njit
def kinked_jvp(dx, dw, y, x, w):
    return (math.cos(x) * w * dx + math.sin(x) * dw) if x > 1 else w * dx + x * dw


@numba.njit
def checked(x):
    if x > 3:
        raise ValueError("too large")
    return 2 * x


KINKED = sj.from_numba(kinked, result="float64", vjp=kinked_vjp, jvp=kinked_jvp)
CHECKED = sj.from_numba(checked, result="float64", vjp=numba.njit(lambda g, y, x: 2 * g))
NUMBERS = np.linspace(-2, 5, 301)


def like_formula(x: Any, w: Any) -> Any:
    return sj.where(x > 1, sj.sin(x) * w, x * w)


def both(build: Callable[..., Any], inputs: list[Any], values: list[Any], modes: tuple[str, ...] = MODES) -> None:
    """What is built with the function and with the formula is the same, in each mode."""
    wanted = sj.function(inputs, build(like_formula), mode="reference")(*values)
    for mode in modes:
        for got, want in zip(sj.function(inputs, build(KINKED), mode=mode)(*values), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_values_and_derivatives_are_those_of_the_formula() -> None:
    x, w = sj.vector("x"), sj.scalar("w")

    def build(f: Any) -> list[Any]:
        y = f(x, w)
        return [y, *sj.grad((y * y).sum(), [x, w]), sj.jvp(y, [x, w], [sj.cos(x), sj.ones(())])]

    both(build, [x, w], [NUMBERS, 0.7])


def test_in_steps_of_loops() -> None:
    x, w = sj.vector("x"), sj.scalar("w")

    def build(f: Any) -> list[Any]:
        h = sj.scan(lambda x, h: f(x + 0.3 * h, w), x, sj.zeros(()))
        return [h, *sj.grad((h * h).sum(), [x, w])]

    both(build, [x, w], [NUMBERS, 0.7])


def test_of_batches_and_shapes_that_broadcast() -> None:
    m, w = sj.matrix("m"), sj.vector("w")

    def build(f: Any) -> list[Any]:
        wide = f(m[:, None, :], w[:, None])
        each = sj.vmap(lambda row, one: sj.scan(lambda x, h: f(x, one) + h, row, sj.zeros(())))(m, w)
        return [wide, each, *sj.grad((wide * wide).sum() + each.sum(), [m, w])]

    both(build, [m, w], [np.random.default_rng(0).normal(size=(5, 19)), np.linspace(0, 1, 5)])


def test_in_branches_where_only_the_chosen_one_runs() -> None:
    x = sj.vector("x")
    chosen = sj.ifelse(x[0] > 3, lambda: x * 1.0, lambda: CHECKED(x))
    for mode in MODES:
        f = sj.function([x], [chosen, sj.grad(chosen.sum(), x)], mode=mode)
        np.testing.assert_array_equal(f([4.0, 5.0]), [[4, 5], [1, 1]])
        np.testing.assert_array_equal(f([1.0, 2.0]), [[2, 4], [2, 2]])


@pytest.mark.quick(3)
@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "uint8", "bool"])
def test_dtypes(dtype: str) -> None:
    x, n = sj.tensor((None,), dtype), sj.tensor((None,), "int64")
    f = sj.from_numba(numba.njit(lambda x, n: (x + n) > 0 if x else n > 3), result="bool")
    g = sj.from_numba(numba.njit(lambda x, n: x * n + 1), result=dtype if dtype != "bool" else "int16")
    values = np.arange(-3, 6).astype(dtype), np.arange(9)
    results = [sj.function([x, n], [f(x, n), g(x, n)], mode=mode)(*values) for mode in MODES]
    for got in results[1:]:
        for a, b in zip(got, results[0], strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def test_numbers_have_the_dtype_of_the_floats_beside_them() -> None:
    f = sj.from_numba(numba.njit(lambda x, a, n: x * a + n), result="float32")
    x = sj.vector("x", "float32")
    np.testing.assert_allclose(sj.function([x], f(x, 0.5, 3))(np.ones(3, "float32")), 3.5)


@pytest.mark.parametrize("mode", MODES)
def test_an_exception_is_an_error_that_says_what_was_raised(mode: str) -> None:
    x = sj.vector("x")
    f = sj.function([x], sj.scan(lambda x, h: CHECKED(x) + h, x, sj.zeros(())), mode=mode)
    with pytest.raises(sj.FunctionError, match=r"checked(.*)failed, in step 215(.|\n)*ValueError: too large"):
        f(NUMBERS)
    assert f(NUMBERS[:40])[-1] == pytest.approx(2 * NUMBERS[:40].sum())


@pytest.mark.quick(3)
@pytest.mark.parametrize("size", [1, 3, 7, 9, 300])
def test_lanes_behind_the_end_are_not_computed(size: int) -> None:
    @numba.njit
    def inverse(x):
        if x == 0:
            raise ZeroDivisionError("zero")
        return 1 / x

    x = sj.vector("x")
    f = sj.function([x], sj.from_numba(inverse, result="float64")(x + 1) + 1)
    np.testing.assert_allclose(f(np.ones(size)), 1.5)
    with pytest.raises(sj.FunctionError, match="zero"):
        f(np.r_[np.ones(size), -1.0])


def test_a_function_of_c_and_a_callback() -> None:
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    root = libm.cbrt
    root.argtypes, root.restype = [ctypes.c_double], ctypes.c_double
    slope = numba.cfunc("float64(float64, float64, float64)")(lambda g, y, x: g / (3 * y * y))
    f = sj.from_numba(root, result="float64", vjp=slope)
    product = numba.cfunc("float64(float64, float64)")(lambda x, y: x * y)
    four = numba.cfunc("float64(float64, float64, float64, float64)")
    sides = [four(lambda g, z, x, y: g * y), four(lambda g, z, x, y: g * x)]
    times = sj.from_numba(product, result="float64", vjp=sides)
    x = sj.vector("x")
    for mode in MODES:
        y = times(f(x), x)
        got, slope_of = sj.function([x], [y, sj.grad(y.sum(), x)], mode=mode)(NUMBERS[:20])
        np.testing.assert_allclose(got, np.cbrt(NUMBERS[:20]) * NUMBERS[:20])
        np.testing.assert_allclose(slope_of, 4 / 3 * np.cbrt(NUMBERS[:20]))


def test_threads_give_the_same_bits() -> None:
    m, w = sj.matrix("m"), sj.scalar("w")
    f = sj.function([m, w], sj.vmap(lambda r: sj.scan(lambda x, h: KINKED(x, w) + 0.5 * h, r, sj.zeros(())))(m))
    values = np.random.default_rng(0).normal(size=(64, 200))
    sj.config.threads = 1
    alone = f(values, 0.3)
    sj.config.threads = 0
    assert all(np.array_equal(alone, other) for other in at_once(4, lambda i: f(values, 0.3)))


def test_a_compiled_function_with_it_pickles() -> None:
    x, w = sj.vector("x"), sj.scalar("w")
    f = sj.function([x, w], KINKED(x, w))
    again = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(again(NUMBERS, 0.7), f(NUMBERS, 0.7))
    assert pickle.loads(pickle.dumps(KINKED)).fn.f.py_func(2.0, 1.0) == math.sin(2.0)
    with pytest.raises(sj.NotSupportedError, match="cannot be saved"):
        f.save(os.devnull)


PROGRAM = """
import sys, numba, ctypes, numpy as np, scanjit as sj
from scanjit.runtime.kernels import compile_count
SCALE = float(sys.argv[1])
@numba.njit
def helper(x): return x * SCALE
@numba.njit
def outer(x): return helper(x) + 1
x = sj.vector("x")
f = sj.function([x], sj.from_numba(outer, result="float64")(x))
print(f([2.0])[0], compile_count())
"""


@pytest.mark.slow
def test_kernels_are_kept_by_the_content_of_the_function(tmp_path: Any) -> None:
    first, again, other = (python(PROGRAM, scale, SCANJIT_CACHE_DIR=str(tmp_path)).split() for scale in (3, 3, 4))
    assert first[0] == again[0] == "7.0" and other[0] == "9.0"
    assert int(first[1]) > 0 and again[1] == "0" and int(other[1]) > 0
    assert list(tmp_path.rglob("*.recipe"))


def test_a_function_without_content_leaves_nothing_on_disk() -> None:
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    libm.exp2.argtypes, libm.exp2.restype = [ctypes.c_double], ctypes.c_double
    directory = cache.default().directory
    assert directory is not None
    before = set(directory.glob("*.py"))
    x = sj.vector("x")
    f = sj.function([x], sj.from_numba(libm.exp2, result="float64")(x) * 3)
    assert f([2.0])[0] == 12
    name = re.search(r"guest_c_\d+_here", f.source)
    assert name is not None
    assert not [p for p in set(directory.glob("*.py")) - before if name[0] in p.read_text()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floats_of_16_bits_go_through_float32(dtype: str, whole: bool, mode: str) -> None:
    """Numba has no such numbers."""
    pytest.importorskip("ml_dtypes")
    product = numba.njit(lambda x, y: x * y)
    vjp = numba.njit(lambda g, out, x, y: (g * y, g * x))
    f = sj.from_numba(product, result=(lambda x, y: x) if whole else dtype, vjp=vjp)
    x, y = sj.vector("x", dtype), sj.vector("y", dtype)
    h = f(f(x, y), y)
    assert h.dtype == dtype
    values = np.array([1.5, -3.25, 0.1]).astype(h.dtype), np.array([0.3, 7, -2]).astype(h.dtype)
    wanted = sj.function([x, y], [x * y * y, *sj.grad((x * y * y).astype("float32").sum(), [x, y])])
    for got, want in zip(
        sj.function([x, y], [h, *sj.grad(h.astype("float32").sum(), [x, y])], mode=mode)(*values),
        wanted(*values),
        strict=True,
    ):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.astype("float64"), want.astype("float64"), rtol=2e-2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32"])
def test_small_integers_have_64_bits_in_a_function(dtype: str, mode: str) -> None:
    square = sj.from_numba(numba.njit(lambda x: (x + x) * x), result="int64")
    x = sj.vector("x", dtype)
    values = np.array([1, 0, 100]).astype(dtype)
    np.testing.assert_array_equal(sj.function([x], square(x), mode=mode)(values), 2 * values.astype("int64") ** 2)


def test_a_division_by_zero_is_told() -> None:
    x = sj.vector("x")
    f = sj.function([x], sj.from_numba(numba.njit(lambda x: 1 / x), result="float64")(x))
    with pytest.raises(sj.FunctionError, match=r"(?s)failed.*got: +an exception of Numba's, .* division by zero"):
        f([0.0])


def test_complex_numbers_are_refused() -> None:
    z, x = sj.vector("z", "complex128"), sj.vector("x")
    twice = numba.njit(lambda x: x + x)
    for result in ("float64", lambda x: x, lambda x: x.real):
        with pytest.raises(sj.DtypeError, match=r"(?s)can only take and give real numbers.*complex128.*z\.real"):
            sj.from_numba(twice, result=result)(z)
    with pytest.raises(sj.DtypeError, match="can only take and give real numbers"):
        sj.from_numba(twice, result="complex64")
    with pytest.raises(sj.DtypeError, match="can only take and give real numbers"):
        sj.from_numba(twice, result=z)(x)


def test_errors() -> None:
    x = sj.vector("x")
    with pytest.raises(sj.ArgumentError, match=r"takes a compiled function(.|\n)*numba.njit"):
        sj.from_numba(lambda x: x, result="float64")  # type: ignore[arg-type]
    with pytest.raises(
        sj.ArgumentError, match=r"Numba cannot compile(.|\n)*got: +float64\. Numba says: (.|\n)*nothing"
    ):
        sj.from_numba(numba.njit(lambda x: x.nothing), result="float64")(x)
    with pytest.raises(sj.ArgumentError, match="needs an argument"):
        sj.from_numba(checked, result="float64")()
    with pytest.raises(sj.DtypeError):
        sj.from_numba(checked, result="complex256")
    for wrong in ({"vjp": 5}, {"vjp": "checked"}, {"vjp": [checked, 5]}, {"jvp": 5}):
        with pytest.raises(sj.ArgumentError, match="derivatives given to from_numba are functions"):
            sj.from_numba(checked, result="float64", **wrong)
    with pytest.raises(sj.GradientError, match=r"has no derivative\n(.|\n)*vjp="):
        sj.grad(sj.from_numba(checked, result="float64")(x).sum(), x)
    with pytest.raises(sj.GradientError, match=r"forward mode(.|\n)*jvp="):
        sj.jvp(CHECKED(x), x, x)
    with pytest.raises(sj.GradientError, match="has no derivative"):
        sj.grad(sj.grad(CHECKED(x).sum(), x).sum(), x)
    with pytest.raises(sj.ArgumentError, match="argtypes"):
        sj.from_numba(ctypes.CDLL(ctypes.util.find_library("m")).sin, result="float64")
    single = numba.cfunc("float64(float32)")(lambda x: x)
    with pytest.raises(sj.DtypeError, match="another dtype than its restype"):
        sj.from_numba(single, result="float32")
    with pytest.raises(sj.ArgumentError, match="takes 1 arguments"):
        sj.from_numba(single, result="float64")(x, x)
    with pytest.raises(sj.DtypeError, match="takes int32"):
        sj.from_numba(numba.cfunc("float64(int32)")(lambda x: x), result="float64")(x)
    with pytest.raises(sj.GradientError, match=r"one cotangent for each(.|\n)*got: +2(.|\n)*at: +\S*test_numbers\.py"):
        sj.grad(sj.from_numba(checked, result="float64", vjp=lambda g, y, x: (g, g))(x).sum(), x)
    with pytest.raises(sj.GradientError, match=r"one function for each argument(.|\n)*got: +0"):
        sj.grad(sj.from_numba(checked, result="float64", vjp=[])(x).sum(), x)


@pytest.mark.parametrize("whole", [False, True])
def test_what_cannot_leave_the_process(whole: bool, tmp_path: Any) -> None:
    twice = numba.njit(lambda x: x * 2)
    x = sj.vector("x")
    f = sj.function([x], sj.from_numba(twice, result=(lambda x: x) if whole else "float64")(x), mode="reference")
    with pytest.raises(sj.NotSupportedError, match="cannot be exported to NumPy"):
        sj.export_numpy(f, tmp_path / "package")
    with pytest.raises(sj.NotSupportedError, match="cannot be saved"):
        f.save(tmp_path / "file")
