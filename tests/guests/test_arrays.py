"""Functions of whole arrays that users compiled: values, derivatives, loops, batches, shapes, errors."""

import pickle
import signal
import threading
import time
from typing import Any

import numba
import numpy as np
import pytest

import scanjit as sj

MODES = ("reference", "emulate", "numba")


@numba.njit
def product(a, x):
    return np.dot(a, x)


@numba.njit
def product_vjp(g, y, a, x):
    return np.outer(g, x), np.dot(a.T, g)


@numba.njit
def product_jvp(da, dx, y, a, x):
    return np.dot(da, x) + np.dot(a, dx)


@numba.njit
def ordered(x):
    return np.sort(x)


@numba.njit
def order_of(x):
    return np.argsort(x)


@numba.njit
def picky(x):
    if x[0] < 0:
        raise ValueError("negative")
    return x.copy()


PRODUCT = sj.from_numba(product, result=lambda a, x: x, vjp=product_vjp, jvp=product_jvp)
ORDERED = sj.from_numba(ordered, result=lambda x: x)
PICKY = sj.from_numba(picky, result=lambda x: x)
SHORT = sj.from_numba(numba.njit(lambda x: x[1:] * 2), result=lambda x: x)
DEEP = sj.from_numba(numba.njit(lambda x: np.zeros((2, 2))), result=lambda x: x)


def agree(build: Any, inputs: list[Any], values: list[Any]) -> None:
    """What is built with the function and with the formula is the same, in each mode."""
    wanted = sj.function(inputs, build(lambda a, x: a @ x), mode="reference")(*values)
    for mode in MODES:
        for got, want in zip(sj.function(inputs, build(PRODUCT), mode=mode)(*values), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.quick(1)
@pytest.mark.parametrize("size", [3, None])
def test_values_and_derivatives_are_those_of_the_formula(size: int | None, rng: np.random.Generator) -> None:
    a, x = sj.tensor((size, size), name="a"), sj.tensor((size,), name="x")

    def build(f: Any) -> list[Any]:
        y = f(a.T, x * 2)
        h = sj.scan(lambda r, h: sj.tanh(f(a, h) + r), sj.stack([x, y, x]), x)
        return [y, h, *sj.grad((h * h).sum() + y.sum(), [a, x]), sj.jvp(y, [a, x], [sj.sin(a), sj.cos(x)])]

    agree(build, [a, x], [rng.normal(size=(3, 3)), rng.normal(size=3)])


def test_batches_are_loops(rng: np.random.Generator) -> None:
    a, x = sj.tensor((None, 4, 4)), sj.tensor((None, 4))

    def build(f: Any) -> list[Any]:
        y = sj.vmap(f)(a, x)
        return [y, *sj.grad((y * y).sum(), [a, x])]

    agree(build, [a, x], [rng.normal(size=(5, 4, 4)), rng.normal(size=(5, 4))])


def test_several_results_scalars_and_integers() -> None:
    @numba.njit
    def parts(x, k):
        order = order_of(x)
        return order, x[order[k]], (x > 0)

    @numba.njit
    def parts_vjp(d_order, d_value, d_mask, order, value, mask, x, k):
        dx = np.zeros_like(x)
        dx[order[k]] = d_value
        return dx, k

    def result(x: Any, k: Any) -> Any:
        return {"order": sj.zeros(x.shape, "int64"), "value": x[0], "mask": x > 0}

    f = sj.from_numba(parts, result=result, vjp=parts_vjp)
    x, k = sj.vector("x"), sj.scalar("k", "int64")
    found = f(x, k)
    values = np.random.default_rng(1).normal(size=300)
    for mode in MODES:
        g = sj.function([x, k], [found, sj.grad(found["value"] * 3, x)], mode=mode)
        got, slope = g(values, 7)
        np.testing.assert_array_equal(got["order"], np.argsort(values))
        assert got["value"] == np.sort(values)[7]
        np.testing.assert_array_equal(got["mask"], values > 0)
        assert slope.sum() == 3 and slope[np.argsort(values)[7]] == 3


def test_static_results_and_empty_arrays() -> None:
    f = sj.from_numba(numba.njit(lambda x: np.array([x.sum(), 1.0])), result=np.zeros(2))
    x = sj.vector("x")
    for mode in MODES:
        g = sj.function([x], [f(x), ORDERED(x)], mode=mode)
        np.testing.assert_array_equal(g(np.zeros(0))[0], [0, 1])
        assert g(np.zeros(0))[1].shape == (0,)


def test_callbacks_fill_their_results() -> None:
    kind = numba.types.CPointer(numba.float64)

    @numba.cfunc(numba.types.void(kind, numba.types.CPointer(numba.int64), kind))
    def running(x, n, out):
        given, made, total = numba.carray(x, (n[0],)), numba.carray(out, (n[0],)), 0.0
        for i in range(n[0]):
            total += given[i]
            made[i] = total

    f, x = sj.from_numba(running, result=lambda x, n: x), sj.vector("x")
    for mode in MODES:
        np.testing.assert_allclose(sj.function([x], f(x[::-1], x.shape[0]), mode=mode)([1.0, 2.0, 4.0]), [4, 6, 7])


def test_in_branches_and_with_derivatives_as_functions_of_symbols() -> None:
    x = sj.vector("x")
    order = sj.from_numba(order_of, result=lambda x: sj.zeros(x.shape, "int64"))
    f = sj.from_numba(ordered, result=lambda x: x, vjp=lambda g, y, x: sj.zeros(x.shape)[order(x)].set(g))
    y = sj.ifelse(x[0] > 0, lambda: f(x), lambda: -x) * sj.arange(x.shape[0])
    for mode in MODES:
        g = sj.function([x], [y, sj.grad(y.sum(), x)], mode=mode)
        np.testing.assert_array_equal(g([3.0, 1.0, 2.0]), [[0, 2, 6], [2, 0, 1]])
        np.testing.assert_array_equal(g([-3.0, 1.0, 2.0]), [[0, -1, -4], [0, -1, -2]])


def test_it_pickles() -> None:
    x = sj.vector("x")
    f = pickle.loads(pickle.dumps(sj.function([x], ORDERED(x))))
    np.testing.assert_array_equal(f([2.0, 1.0]), [1, 2])


@pytest.mark.parametrize("mode", MODES)
def test_errors_of_a_run(mode: str) -> None:
    x = sj.vector("x")
    with pytest.raises(sj.FunctionError, match=r"results of shapes \(\(2,\),\), not \(\(3,\),\)"):
        sj.function([x], SHORT(x), mode=mode)([1.0, 2.0, 3.0])
    with pytest.raises(sj.FunctionError, match=r"results of shapes \(\(2, 2\),\), not \(\(2,\),\)"):
        sj.function([x], DEEP(x), mode=mode)([1.0, 2.0])
    m = sj.matrix("m")
    f = sj.function([m], sj.scan(lambda r, h: PICKY(r) + h, m, m[0]), mode=mode)
    with pytest.raises(sj.FunctionError, match=r"picky(.*)failed, in step 2(.|\n)*ValueError: negative"):
        f([[1.0], [1.0], [-1.0], [1.0]])
    np.testing.assert_array_equal(f([[1.0], [1.0]]), [[2], [3]])


def test_errors_while_a_graph_is_built() -> None:
    x = sj.vector("x")
    with pytest.raises(sj.ArgumentError, match="must be a dtype, or something with a shape"):
        sj.from_numba(numba.njit(lambda x: x), result=lambda x: "float")(x)
    with pytest.raises(sj.ArgumentError, match=r"Numba cannot compile <lambda>(.|\n)*float64\(:\)"):
        sj.from_numba(numba.njit(lambda x: x.nothing()), result=lambda x: x)(x)
    with pytest.raises(sj.GradientError, match="has no derivative"):
        sj.grad(ORDERED(x).sum(), x)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs pthread_kill")
def test_an_interrupt_ends_a_loop_between_two_calls() -> None:
    @numba.njit
    def slow(x):
        total = x.copy()
        for i in range(20_000):
            total[0] += np.sin(total[0] + i)
        return total

    f = sj.from_numba(slow, result=lambda x: x)
    x, m = sj.vector("x"), sj.matrix("m")
    g = sj.function([m, x], sj.scan(lambda r, h: f(h) + r, m, x)[-1])
    main = threading.get_ident()
    threading.Thread(target=lambda: (time.sleep(1.0), signal.pthread_kill(main, signal.SIGINT))).start()
    with pytest.raises(KeyboardInterrupt):
        g(np.zeros((1_000_000, 1)), [1.0])


@pytest.mark.parametrize("mode", MODES)
def test_arguments_cannot_be_changed(mode: str) -> None:
    """The arrays of a call are the user's own."""
    x = np.arange(3.0)

    @numba.njit
    def written(x):
        x[0] = 9.0
        return x

    @numba.njit
    def added(x):
        x += 1.0
        return x

    for f in (written, added):
        with pytest.raises(sj.ArgumentError, match="write into a copy"):
            sj.jit(sj.from_numba(f, result=lambda x: x), mode=mode)(x)
    copied = sj.from_numba(numba.njit(lambda x: added(x.copy())), result=lambda x: x)
    np.testing.assert_array_equal(sj.jit(copied, mode=mode)(x), [1, 2, 3])
    np.testing.assert_array_equal(x, [0, 1, 2])


@pytest.mark.parametrize("mode", MODES)
def test_functions_whose_signatures_somebody_wrote(mode: str) -> None:
    twice = numba.njit("float64[:](float64[:])")(lambda x: 2 * x)
    for f in (twice, numba.njit(lambda x: twice(x))):
        found = sj.jit(sj.from_numba(f, result=lambda x: x), mode=mode)(np.arange(3.0))
        np.testing.assert_array_equal(found, [0, 2, 4])


def test_fractions_are_no_integers() -> None:
    half = numba.njit(lambda x: x / 2)
    pair = numba.njit(lambda x: (x, x / 2))
    for f, result in [
        (half, "int64"),
        (half, lambda x: x.astype("int64")),
        (pair, lambda x: (x, x.astype("uint8"))),
    ]:
        with pytest.raises(sj.DtypeError, match="returns fractions"):
            sj.from_numba(f, result)(sj.vector("x"))
    x = np.arange(4.0)
    np.testing.assert_array_equal(sj.jit(sj.from_numba(half, "float32"))(x), x / 2)


def test_arguments_by_name() -> None:
    f = sj.from_numba(numba.njit(lambda x, factor: x * factor), result="float64")
    np.testing.assert_array_equal(sj.jit(lambda x: f(factor=2.0, x=x))(np.arange(3.0)), [0, 2, 4])
    with pytest.raises(sj.ArgumentError, match="missing a required argument: 'x'"):
        f(factor=2.0)
