"""Functions of NumPy and SciPy that are made of others: on symbols they give what they give on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import scanjit as sj
from scanjit import errors
from tests.ops.support import agrees

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))
X[0, 0], X[1, 2] = Y[0, 0], 0
V, W = RNG.normal(size=6), RNG.normal(size=3)
ODD = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan])
FEW = np.array([1, 3, 3, 7])

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "hypot": (np.hypot, (X * 1e200, Y * 1e200)),
    "hypot odd": (np.hypot, (ODD, ODD[::-1])),
    "hypot zero": (np.hypot, (ODD[:2], ODD[:2])),
    "heaviside": (np.heaviside, (ODD, np.array(0.5))),
    "heaviside each": (np.heaviside, (X, Y)),
    "nan_to_num": (np.nan_to_num, (ODD,)),
    "nan_to_num float32": (lambda x: np.nan_to_num(x, nan=3.0, neginf=-1.0), (ODD.astype("float32"),)),
    "nan_to_num integers": (np.nan_to_num, (FEW,)),
    "isclose": (np.isclose, (ODD, np.roll(ODD, 1))),
    "isclose same": (lambda a, b: np.isclose(a, b, equal_nan=True), (ODD, ODD)),
    "isclose near": (lambda a, b: np.isclose(a, b, rtol=0.1, atol=0.2), (X, Y)),
    "allclose": (np.allclose, (X, X + 1e-9)),
    "allclose not": (np.allclose, (X, Y)),
    "select": (lambda x, y: np.select([x < 0, y < 0], [x, y * 2], default=7.0), (X, Y)),
    "select nothing": (lambda x: np.select([x > 100], [x]), (X,)),
    "count_nonzero": (lambda x: np.count_nonzero(x, axis=1, keepdims=True), (X,)),
    "count_nonzero all": (np.count_nonzero, (FEW,)),
    "nansum": (lambda x: np.nansum(np.where(x > 0, x, np.nan), axis=0), (X,)),
    "nansum integers": (np.nansum, (FEW,)),
    "nanmean": (lambda x: np.nanmean(np.where(x > 0.1, x, np.nan), axis=1), (np.abs(X) + [0.2, 0, 0, 0],)),
    "average": (lambda x, w: np.average(x, weights=w), (V, V * V)),
    "average axis": (lambda x, w: np.average(x, axis=0, weights=w), (X, np.abs(W))),
    "average of all": (np.average, (X,)),
    "average weights": (lambda x, w: np.average(x, axis=1, weights=w, keepdims=True), (X, np.abs(Y))),
    "average integers": (lambda x: np.average(x, weights=x), (FEW,)),
    "append": (np.append, (X, V)),
    "append axis": (lambda x, y: np.append(x, y, axis=1), (X, Y[:, :2])),
    "column_stack": (lambda v, x: np.column_stack([v[:3], x, v[3:]]), (V, X)),
    "meshgrid": (lambda v, w: list(np.meshgrid(v, w)), (V, W)),
    "meshgrid ij": (lambda v, w: list(np.meshgrid(v, w, v, indexing="ij")), (V, W)),
    "cross": (np.cross, (X[:, :3], Y[:, :3])),
    "cross axis": (lambda x, y: np.cross(x, y, axis=0), (X, Y)),
    "kron": (np.kron, (X, Y[:2])),
    "kron ranks": (np.kron, (V, X)),
    "diff": (np.diff, (X,)),
    "diff twice": (lambda x: np.diff(x, 2, axis=0), (X,)),
    "diff more": (lambda x, y: np.diff(x, axis=1, prepend=0.5, append=y), (X, Y)),
    "diff bool": (np.diff, (V > 0,)),
    "diff nothing": (np.diff, (V[:1],)),
    "trapezoid": (np.trapezoid, (X,)),
    "trapezoid places": (lambda y, x: np.trapezoid(y, x, axis=0), (X, W)),
    "trapezoid all places": (lambda y, x: np.trapezoid(y, x, axis=1), (X, Y)),
    "trapezoid dx": (lambda y: np.trapezoid(y, dx=0.1), (V,)),
    "polyval": (lambda p, x: np.polyval([p[0], p[1], p[2]], x), (W, X)),
    "polyval integers": (lambda x: np.polyval([1, 2, 3], x), (FEW,)),
    "interp": (np.interp, (X, np.sort(V), np.arange(6.0) ** 2)),
    "interp outside": (lambda x, a, b: np.interp(x, a, b, left=-1.0, right=np.nan), (ODD * 3, np.sort(V), V)),
    "interp at points": (
        np.interp,
        (np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0]), np.array([1.0, -1.0, np.inf])),
    ),
    "interp one point": (np.interp, (V, W[:1], W[1:2])),
    "histogram": (lambda x: list(np.histogram(x)), (X,)),
    "histogram range": (lambda x: list(np.histogram(x, 7, range=(-0.5, 1.0))), (X,)),
    "histogram edges": (lambda x, e: list(np.histogram(x, e)), (X, np.array([-0.5, 0.0, 0.7, 0.8]))),
    "histogram on edges": (lambda x: list(np.histogram(x, 3, range=(1, 7))), (FEW,)),
    "histogram tenths": (lambda x: list(np.histogram(x, 10, range=(0, 1))), (np.arange(11) / 10,)),
    "histogram of one value": (lambda x: list(np.histogram(x, 4)), (W[:1],)),
    "histogram weights": (lambda x, y: list(np.histogram(x, 5, weights=y, density=True)), (X, np.abs(Y))),
    "block": (lambda x, y: np.block([[x, y[:, :1]], [y[:1], x[:1, :1]]]), (X, Y)),
    "block ranks": (lambda v, w: np.block([v, [w[0]], w] if isinstance(v, list) else [v, w, w[0]]), (V, W)),
    "broadcast_arrays": (lambda x, v: list(np.broadcast_arrays(x[:, :3], v[:3])), (X, W)),
    "unstack": (lambda x: list(np.unstack(x[:, :2], axis=1)), (X,)),
    "matrix_transpose": (np.matrix_transpose, (X,)),
    "arcsinh": (np.arcsinh, (ODD,)),
    "arccosh": (np.acosh, (ODD,)),
    "arctanh": (np.atanh, (ODD / 2,)),
    "left_shift": (np.left_shift, (FEW, FEW)),
    "right_shift": (np.bitwise_right_shift, (-100 * FEW, np.array([0, 1, 5, 70]))),
    "shifts": (lambda i: (i << 3) + (-5 >> i), (FEW,)),
    "copysign": (np.copysign, (ODD, ODD[::-1])),
    "signbit": (np.signbit, (ODD[:-1],)),
    "expit": (scipy.special.expit, (ODD,)),
    "psi": (scipy.special.psi, (np.abs(X) + 0.1,)),
    "erfinv": (scipy.special.erfinv, (np.array([0.0, -0.5, 0.999, 1.0, -1.0, 2.0, np.nan, 1e-300]),)),
    "i0": (np.i0, (X * 9,)),
    "i0e": (scipy.special.i0e, (np.concatenate([ODD, V * 9]),)),
    "i1e": (scipy.special.i1e, (np.concatenate([ODD, V * 9]),)),
    "unravel_index": (lambda i: list(np.unravel_index(i, (2, 3, 4))), (FEW,)),
    "ravel_multi_index": (lambda i, j: np.ravel_multi_index((i, j), (8, 9)), (FEW, FEW)),
    "xlogy": (scipy.special.xlogy, (np.array([0.0, 0.0, 2.0, 0.0, np.nan]), np.array([0.0, 3.0, 0.5, np.nan, 0.0]))),
    "logit": (scipy.special.logit, (np.array([0.0, 0.2, 0.9, 1.0]),)),
    "betaln": (scipy.special.betaln, (np.abs(X) + 0.1, np.abs(Y) + 0.1)),
}
VECTORS = ((V, W), (W, V), (V, V[:4]), (V[:4], V), (FEW, FEW))


def convolution(name: str, mode: str) -> Callable[..., Any]:
    return lambda a, v: getattr(np, name)(a, v, mode)


CASES |= {
    f"{name} {mode} {len(pair[0])} {len(pair[1])}": (convolution(name, mode), pair)
    for name in ("convolve", "correlate")
    for mode in ("full", "same", "valid")
    for pair in VECTORS
}
KNOWN_SIZES = ("polyval", "unstack")
"""Of these, sizes must be known."""


@pytest.mark.parametrize("name", CASES)
def test_numpys_function(name: str) -> None:
    function, arrays = CASES[name]
    if name.startswith(KNOWN_SIZES):
        symbols = [sj.tensor(a.shape, a.dtype) for a in map(np.asarray, arrays)]
        got = sj.function(symbols, function(*symbols), mode="reference")(*arrays)
        expected = function(*arrays)
        for ours, theirs in zip(got, expected, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    else:
        with np.errstate(all="ignore"):
            agrees(function, function, *arrays, rtol=3e-12)


def test_compiled() -> None:
    x, y = sj.matrix("x"), sj.matrix("y")
    named = [n for n in CASES if CASES[n][1] and CASES[n][1][0] is X and len(CASES[n][1]) == 2 and CASES[n][1][1] is Y]
    outputs = [CASES[n][0](x, y) for n in named]
    for got, name in zip(sj.function([x, y], outputs)(X, Y), named, strict=True):
        np.testing.assert_allclose(got, CASES[name][0](X, Y), rtol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: sj.hypot(x, y).sum(),
        lambda x, y: (sj.diff(x, prepend=0.0) ** 2 * y).sum(),
        lambda x, y: (sj.trapezoid(x, y, axis=1) ** 2).sum(),
        lambda x, y: sj.average(x, axis=0, weights=y * y).prod(),
        lambda x, y: sj.xlogy(x * x, y * y).sum() + sj.betaln(x * x + 1, y * y + 1).sum(),
        lambda x, y: (sj.convolve(x[0], y[1]) ** 2).sum() + (sj.kron(x, y) ** 2).sum(),
        lambda x, y: (sj.interp(x, sj.arange(5) + y[0, 0] ** 2, y[0] @ y.T @ sj.ones((2, 5))) ** 2).sum(),
        lambda x, y: (sj.histogram(sj.stop_gradient(x), 3, weights=y * y)[0] ** 2).sum(),
        lambda x, y: (sj.put_along_axis(x, [[0], [2]], y[:, :1] ** 2, axis=1) ** 3).sum(),
        lambda x, y: (sj.i0(x) * sj.i1e(y) + sj.erfinv(sj.tanh(x)) + sj.arcsinh(x * y)).sum(),
        lambda x, y: (sj.arccosh(x * x + 1.5) * sj.arctanh(sj.tanh(y)) * sj.copysign(x, y)).sum(),
        lambda x, y: (sj.block([[x, y], [y, x]]) ** 3).sum(),
        lambda x, y: (sj.cross(x[:, :3], y[:, 1:]) ** 3).sum() + sj.nanmean(sj.select([x > 0], [y], x) ** 2),
    ],
)
def test_derivatives(function: Callable[[Any, Any], Any]) -> None:
    sj.check_grad(function, [Y[:2], X[1:] + 0.5])


def test_put_along_axis() -> None:
    places = np.argmax(X, axis=1, keepdims=True)
    changed = X.copy()
    np.put_along_axis(changed, places, 7.0, axis=1)
    agrees(lambda x, i: sj.put_along_axis(x, i, 7.0, axis=1), lambda x, i: changed, X, places)
    agrees(lambda x, i: x[sj.tril_indices(3)].set(0.0), lambda x, i: np.triu(x, 1), X[:, :3], places)
    agrees(lambda x, i: x[sj.triu_indices(3)].set(0.0), lambda x, i: np.tril(x, -1), X[:, :3], places)


def test_errors() -> None:
    x, v = sj.matrix("x"), sj.vector("v")
    for call, words in (
        (lambda: sj.select([x > 0], [x, x]), "a choice for each condition"),
        (lambda: sj.interp(v, x, v), "points of two vectors"),
        (lambda: sj.histogram(v, 0), "a histogram has bins"),
        (lambda: sj.histogram(v, x), "edges of bins are a vector"),
        (lambda: sj.block([[v], v]), "nested equally deep"),
        (lambda: sj.block([]), "nested equally deep"),
        (lambda: sj.tril_indices(v.shape[0]), "sizes of a triangle's matrix must be known"),
        (lambda: np.put_along_axis(v, v, v, 0), "put_along_axis is not defined"),
        (lambda: sj.diff(v, -1), "a number of times"),
        (lambda: sj.polyval(v, 2.0), "number of coefficients must be known"),
        (lambda: sj.convolve(x, x), "of two vectors"),
        (lambda: sj.convolve(sj.tensor((5,)), sj.tensor((2,)), "half"), "no such mode"),
        (lambda: sj.meshgrid(v, indexing="yx"), "no such order"),
        (lambda: sj.cross(sj.tensor((2,)), sj.tensor((3,))), "vectors of a cross product"),
        (lambda: sj.average(x, weights=v), "weights have the axes"),
        (lambda: sj.ravel_multi_index((v,), (2, 3)), "a tensor for each axis"),
    ):
        with pytest.raises(errors.ScanjitError, match=words):
            call()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithms_of_nothing_have_derivatives_of_zero(dtype: str) -> None:
    x, rows = sj.vector("x", dtype=dtype), sj.matrix("rows", dtype=dtype)
    step = lambda row, total: sj.logaddexp(total, sj.logsumexp(row + total))
    total = sj.scan(step, sequences=rows, outputs_info=[sj.full((), -np.inf, dtype)])[-1]
    firsts = [
        sj.grad(sj.logsumexp(x), x),
        sj.grad(sj.logaddexp(x, x[::-1]).sum(), x),
        sj.grad(total, rows),
    ]
    seconds = [sj.grad((g * g).sum() + g.sum(), v) for g, v in zip(firsts, (x, x, rows), strict=True)]
    for mode in ("reference", "emulate"):
        f = sj.function([x, rows], [*firsts, *seconds], mode=mode)
        for found in f(np.full(3, -np.inf, dtype), np.full((2, 3), -np.inf, dtype)):
            np.testing.assert_array_equal(found, 0)


def test_a_curve_has_a_value_for_each_point() -> None:
    x, points = sj.vector("x"), sj.vector("points")
    f = sj.function([x, points], sj.interp(x, points, x))
    with pytest.raises(sj.ShapeError, match=r"fp of interp, which has a value for each of xp"):
        f(np.ones(2), np.ones(3))
