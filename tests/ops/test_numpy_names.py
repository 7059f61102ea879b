"""Functions of NumPy and SciPy that are made of others: on symbols they give what they give on arrays."""

from __future__ import annotations

import warnings
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
    "nan_to_num copy": (lambda x: np.nan_to_num(x, True), (ODD,)),
    "nan_to_num nan": (lambda x: np.nan_to_num(x, False, 7.0), (ODD,)),
    "nan_to_num by name": (lambda x: np.nan_to_num(x, copy=False, nan=2.0), (ODD,)),
    "isin unique": (lambda x: np.isin(x, [1, 7], True), (FEW,)),
    "isin inverted": (lambda x: np.isin(x, [1, 7], False, True), (FEW,)),
    "std by place": (lambda x: np.std(x, 0, None, None, 1, True), (X,)),
    "max by place": (lambda x: np.max(x, 1, None, True), (X,)),
    "sum by place": (lambda x: np.sum(x, 1, np.float32, None, True), (X,)),
    "median by place": (lambda x: np.median(x, 0, None, True, True), (X,)),
    "percentile by place": (lambda x: np.percentile(x, 30, 0, None, False, "lower"), (X,)),
    "defaults by place": (lambda x: np.take(np.clip(x, 0, 1, None), [0], 1, None, "raise"), (X,)),
    "all by name": (lambda x: np.sum(a=x, axis=1), (X,)),
    "required by name": (lambda x: np.isin(element=x, test_elements=[1, 7]), (FEW,)),
    "lists by name": (lambda x: np.select(condlist=[x < 0], choicelist=[x], default=1.0), (X,)),
    "einsum optimize": (lambda x, y: np.einsum("ij,ij->j", x, y, optimize="greedy"), (X, Y)),
    "add.reduce": (np.add.reduce, (X,)),
    "add.reduce dtype": (lambda x: np.add.reduce(x, 1, np.float32, None, True), (X,)),
    "maximum.reduce": (lambda x: np.maximum.reduce(x, axis=(0, 1)), (X,)),
    "minimum.reduce of all": (lambda x: np.minimum.reduce(x, axis=None), (X,)),
    "multiply.reduce": (lambda x: np.multiply.reduce(x, axis=1), (FEW[None],)),
    "logaddexp.reduce": (lambda x: np.logaddexp.reduce(x, 1), (X,)),
    "logical_and.reduce": (lambda x: np.logical_and.reduce(x > 0, axis=1), (X,)),
    "logical_or.reduce": (lambda x: np.logical_or.reduce(x, axis=1), (FEW[:, None] - 1,)),
    "subtract.outer": (np.subtract.outer, (V, X)),
    "less.outer": (lambda v: np.less.outer([0.1, 0.2], v), (V,)),
    "multiply.outer of a number": (lambda v: np.multiply.outer(v, 2.0), (V,)),
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
    "trapezoid float32": (lambda x: np.trapezoid(x, dx=0.5), ((X * 8).round().astype("float32"),)),
    "gradient float32": (lambda x: np.gradient(x, 0.5, axis=0), ((X * 8).round().astype("float32"),)),
    "clip by names": (lambda x: np.clip(x, a_min=-0.5, a_max=0.5), (X,)),
    "divmod of a number": (lambda x: list(divmod(7.0, x + 9)), (X,)),
    "roll twice": (lambda x: np.roll(x, [1, 2], 0), (X,)),
    "roll one axis again": (lambda x: np.roll(x, (1, 1), (1, 1)), (X,)),
    "average one axis": (lambda x, w: np.average(x, axis=(np.int64(0),), weights=w), (X, np.abs(W))),
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
    "histogram float32": (lambda x: list(np.histogram(x, 10, range=(0, 1))), ((np.arange(11) / 10).astype("float32"),)),
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
GAPS = np.where(np.abs(X) < 0.4, np.nan, X)
HALVES = np.array([2.5, -2.5, 0.0, 3.0, -7.25])
SEVERAL = RNG.normal(size=(2, 3, 4))
EXTREMES = np.array([-128, -127, -5, -1, 0, 1, 3, 127], "int8")


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function, which warns where all elements are NaN."""

    def call(x: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(x)

    return call


CASES |= {
    "fmax": (np.fmax, (ODD, ODD[::-1])),
    "fmin": (np.fmin, (ODD, ODD[::-1])),
    "fmod": (np.fmod, (X * 5, np.abs(Y) + 1)),
    "fmod zeros": (np.fmod, (ODD[:4, None], np.array([3.0, -3.0, np.inf, 0.0, -0.0]))),
    "fmod zeros float32": (np.fmod, (ODD[:4, None].astype("float32"), np.array([3.0, -0.0], "float32"))),
    "fmod multiples": (np.fmod, (np.array([6.0, -6.0, 0.0, -0.0])[:, None], np.array([3.0, -3.0]))),
    "fmod integers": (np.fmod, (np.array([-7, 7, -7, 7]), np.array([3, 3, -3, -3]))),
    "fmod extremes": (np.fmod, (EXTREMES[:, None], EXTREMES)),
    "fmod of unsigned": (np.fmod, (np.uint8([5, 200, 255]), np.uint8([3, 7, 255]))),
    "fmod signs": (np.fmod, (np.array([5.5, -5.5, 1e300, -7.0, 3.0, np.inf])[:, None], np.array([3.0, -3.0, np.inf]))),
    "divmod": (lambda x, y: list(np.divmod(x, y)), (X * 5, Y + 0.1)),
    "divmod integers": (lambda x: list(divmod(x, 2)), (FEW,)),
    "modf": (lambda x: list(np.modf(x)), (np.concatenate([HALVES, [np.inf, -np.inf, np.nan]]),)),
    "float_power": (np.float_power, (FEW, np.array([-1, 0, 1, 2]))),
    "ldexp": (np.ldexp, (V, np.array([0, 3, -4, 1, 2, 60]))),
    "logaddexp2": (np.logaddexp2, (X, Y)),
    "radians": (np.radians, (X,)),
    "deg2rad": (np.deg2rad, (FEW,)),
    "degrees": (np.degrees, (X,)),
    "isposinf": (np.isposinf, (ODD,)),
    "isneginf": (np.isneginf, (ODD,)),
    "sinc": (np.sinc, (np.concatenate([V, [0.0, 1e-9, 1e-5, 1.0]]),)),
    "around": (lambda x: np.around(x, 1), (HALVES,)),
    "copy": (np.copy, (X,)),
    "astype": (lambda x: np.astype(x, np.float32), (X,)),
    "nanmax": (lambda x: np.nanmax(x, axis=1), (GAPS,)),
    "nanmax all": (quiet(np.nanmax), (GAPS * np.nan,)),
    "nanmax integers": (np.nanmax, (FEW,)),
    "nanmin": (lambda x: np.nanmin(x, axis=0, keepdims=True), (GAPS,)),
    "nanprod": (lambda x: np.nanprod(x, axis=1), (GAPS,)),
    "nanargmax": (lambda x: np.nanargmax(x, axis=1), (GAPS,)),
    "nanargmin": (np.nanargmin, (GAPS,)),
    "nanvar": (lambda x: np.nanvar(x, axis=1, ddof=1), (GAPS,)),
    "nanstd": (np.nanstd, (GAPS,)),
    "nanmedian": (lambda x: np.nanmedian(x, axis=1), (GAPS,)),
    "nanmedian none": (quiet(np.nanmedian), (GAPS * np.nan,)),
    "nanquantile": (lambda x: np.nanquantile(x, [0.1, 0.5, 1.0], axis=0), (GAPS,)),
    "nanpercentile": (lambda x: np.nanpercentile(x, 30, axis=(0, 1), keepdims=True), (GAPS,)),
    "ptp": (lambda x: np.ptp(x, axis=1), (X,)),
    "cov": (np.cov, (X,)),
    "cov columns": (lambda x, y: np.cov(x, y, rowvar=False, bias=True), (X, Y)),
    "cov of one": (np.cov, (V,)),
    "cov columns of a row": (lambda x: np.cov(x, rowvar=False, bias=True), (X[:1],)),
    "cov weights": (
        lambda x, f, a: np.cov(x, fweights=f, aweights=a),
        (X, FEW, np.array([0.5, 1.0, 2.0, 0.25])),
    ),
    "cov aweights": (lambda x, a: np.cov(x, aweights=a, ddof=2), (X, np.array([0.5, 1.0, 2.0, 0.25]))),
    "cov of float32": (lambda x: np.cov(x, ddof=2, dtype=np.float32), ((X * 8).round().astype("float32"),)),
    "corrcoef of float32": (lambda x: np.corrcoef(x, dtype=np.float64), (X.astype("float32"),)),
    "corrcoef": (np.corrcoef, (X,)),
    "corrcoef two": (np.corrcoef, (V, V[::-1])),
    "array_equal": (np.array_equal, (X, X)),
    "array_equal not": (np.array_equal, (X, Y)),
    "flipud": (np.flipud, (X,)),
    "fliplr": (np.fliplr, (X,)),
    "rot90": (np.rot90, (X,)),
    "rot90 back": (lambda x: np.rot90(x, -1, axes=(2, 0)), (SEVERAL,)),
    "rot90 twice": (lambda x: np.rot90(x, 2), (X,)),
    "dstack": (lambda x, y: np.dstack([x, y]), (X, Y)),
    "hsplit": (lambda x: np.hsplit(x, 2), (X,)),
    "hsplit places": (lambda x: np.hsplit(x, [1, 3]), (V,)),
    "vsplit": (lambda x: np.vsplit(x, 3), (X,)),
    "dsplit": (lambda x: np.dsplit(x, 2), (SEVERAL,)),
    "array_split": (lambda x: np.array_split(x, 3, axis=1), (X,)),
    "array_split many": (lambda x: np.array_split(x, 8), (V,)),
    "delete": (lambda x: np.delete(x, 1, axis=1), (X,)),
    "delete last": (lambda x: np.delete(x, -1), (X,)),
    "delete several": (lambda x: np.delete(x, [0, -1, 2], axis=1), (X,)),
    "delete slice": (lambda x: np.delete(x, slice(None, None, 2), axis=1), (X,)),
    "delete mask": (lambda x: np.delete(x, np.array([True, False, True, False]), axis=1), (X,)),
    "insert": (lambda x: np.insert(x, 1, 7.0, axis=1), (X,)),
    "insert several": (lambda v, w: np.insert(v, -2, w), (V, W)),
    "insert last": (lambda x, y: np.insert(x, 3, y[0], axis=0), (X, Y)),
    "insert in all": (lambda x: np.insert(x, 5, 1.0), (X,)),
    "choose": (lambda i, x, y: np.choose(i, [x, y, 0.5]), (np.array([2, 0, 1, 1]), X, Y)),
    "choose float32": (lambda i, x: np.choose(i, [x, 0.5]), (FEW % 2, X.astype("float32"))),
    "piecewise": (lambda x: np.piecewise(x, [x < 0, x > 0.5], [lambda v: v * v, 3.0, lambda v: -v]), (X,)),
    "piecewise default": (lambda x: np.piecewise(x, [x < 0], [1.0]), (X,)),
    "isin": (np.isin, (FEW, np.array([7, 2, 3]))),
    "isin floats": (lambda x: np.isin(x, [0.0, 1.0, np.inf, np.nan], invert=True), (ODD,)),
    "isin nothing": (lambda x, y: np.isin(x, y[:0]), (ODD, V)),
    "polyder": (lambda p: np.polyder(p, 2), (V,)),
    "polyder of small integers": (np.polyder, (np.array([100, 3, 2, 1], "int8"),)),
    "polyder of bools": (np.polyder, (np.array([True, False, True, True]),)),
    "polyint of float32": (lambda p: np.polyint(p).astype("float32"), (FEW.astype("float32"),)),
    "polyint": (lambda p: np.polyint(p, 2, k=[1.0, 2.0]), (V,)),
    "polymul": (np.polymul, (V, W)),
    "polyfit": (lambda x, y: np.polyfit(x, y, 2), (V, V[::-1])),
    "polyfit weights": (lambda x, y, w: np.polyfit(x, y, 1, w=w), (V, np.stack([V[::-1], V**2], 1), np.abs(V))),
    "vander": (lambda x: np.vander(x, 3), (V,)),
    "vander of small integers": (lambda x: np.vander(x, 4), (np.array([100, 3, 2], "uint8"),)),
    "vander of many powers": (lambda x: np.vander(x, 50), (V,)),
    "vander of many powers, increasing": (lambda x: np.vander(x, 40, True), (FEW,)),
    "vander increasing": (lambda x: np.vander(x, 4, increasing=True), (FEW,)),
    "vander square": (np.vander, (W,)),
    "logspace": (lambda w: np.logspace(w[0], w[1], 5, base=2.0), (W,)),
    "geomspace": (lambda w: np.geomspace(w[0], w[1], 5), (np.abs(W),)),
    "geomspace below": (lambda w: np.geomspace(w, -8.0, 4, endpoint=False), (-np.abs(W),)),
    "diagflat": (lambda x: np.diagflat(x, 1), (X,)),
    "vecdot": (np.vecdot, (X, Y)),
    "vecdot axis": (lambda x, y: np.vecdot(x, y, axis=0), (X, Y)),
    "matvec": (np.matvec, (SEVERAL, X[:2])),
    "vecmat": (np.vecmat, (X[:2, :3], SEVERAL)),
    "multi_dot": (lambda x, y: np.linalg.multi_dot([x[0], y.T, x, y[:, 0][:0].sum() + y.T]), (X, Y)),
    "cumulative_sum": (lambda x: np.cumulative_sum(x, axis=0, include_initial=True), (X,)),
    "cumulative_prod": (np.cumulative_prod, (V,)),
    "ediff1d": (lambda x, w: np.ediff1d(x, to_begin=w, to_end=0.5), (X, W)),
    "gradient": (lambda x: list(np.gradient(x)), (X,)),
    "gradient widths": (lambda x, w: np.gradient(x, w[0], axis=1, edge_order=2), (X, W)),
    "gradient places": (lambda x, p: np.gradient(x, p, axis=1, edge_order=2), (X, np.array([0.0, 1.0, 1.5, 4.0]))),
    "diagonals of matrices": (lambda x: np.linalg.diagonal(x, offset=1), (SEVERAL,)),
    "traces of matrices": (np.linalg.trace, (SEVERAL,)),
    "gradient order": (lambda x: list(np.gradient(x, 2.0, 3.0, axis=(2, 0))), (SEVERAL,)),
    "gradient each": (lambda x, p: list(np.gradient(x, 0.5, p)), (X, np.array([0.0, 1.0, 1.5, 4.0]))),
    "unwrap": (lambda x: np.unwrap(x * 9), (X,)),
    "unwrap axis": (lambda x: np.unwrap(x * 9, discont=4.0, axis=0), (X,)),
    "unwrap integers": (lambda x: np.unwrap(x, period=5), (FEW,)),
    "norm 1": (lambda x: np.linalg.norm(x, 1), (X,)),
    "norm -1": (lambda x: np.linalg.norm(x, -1), (X,)),
    "norm 2": (lambda x: np.linalg.norm(x, 2), (X,)),
    "norm -2": (lambda x: np.linalg.norm(x, -2, keepdims=True), (X,)),
    "norm inf": (lambda x: np.linalg.norm(x, np.inf, axis=(2, 0)), (SEVERAL,)),
    "norm nuc": (lambda x: np.linalg.norm(x, "nuc", axis=(0, 1), keepdims=True), (SEVERAL,)),
    "norm fro": (lambda x: np.linalg.norm(x, "fro"), (X,)),
    "norm all": (np.linalg.norm, (SEVERAL,)),
    "norm negative power": (lambda x: np.linalg.norm(x, -3.0), (V,)),
    "matrix_norm": (lambda x: np.linalg.matrix_norm(x, ord=1), (SEVERAL,)),
    "vector_norm": (lambda x: np.linalg.vector_norm(x, axis=(0, 2), ord=3), (SEVERAL,)),
    "cond": (np.linalg.cond, (SEVERAL,)),
    "cond 1": (lambda x: np.linalg.cond(x[:, :3], 1), (X,)),
    "cond -2": (lambda x: np.linalg.cond(x, -2), (X,)),
    "fft2": (lambda x: np.abs(np.fft.fft2(x)), (X,)),
    "fft2 axes": (lambda x: np.abs(np.fft.fft2(x, s=(3, 5), axes=(0, 2))), (SEVERAL,)),
    "ifft2": (lambda x: np.real(np.fft.ifft2(x, norm="ortho")), (SEVERAL,)),
    "fftn": (lambda x: np.abs(np.fft.fftn(x)), (SEVERAL,)),
    "ifftn": (lambda x: np.imag(np.fft.ifftn(x, axes=(1, 0))), (SEVERAL,)),
    "rfft2": (lambda x: np.abs(np.fft.rfft2(x)), (X,)),
    "irfft2": (np.fft.irfft2, (X,)),
    "rfftn": (lambda x: np.abs(np.fft.rfftn(x, norm="forward")), (SEVERAL,)),
    "irfftn": (lambda x: np.fft.irfftn(x, s=(2, 3, 5), axes=(0, 1, 2)), (SEVERAL,)),
    "hfft": (lambda x: np.fft.hfft(x, n=7), (X,)),
    "ihfft": (lambda x: np.abs(np.fft.ihfft(x, axis=0, norm="ortho")), (X,)),
    "fftshift": (np.fft.fftshift, (SEVERAL,)),
    "ifftshift": (lambda x: np.fft.ifftshift(x, axes=1), (X,)),
    "ndtr": (scipy.special.ndtr, (np.concatenate([ODD, [-30.0, 8.0]]),)),
    "xlog1py": (scipy.special.xlog1py, (np.array([0.0, 0.0, 2.0, 0.0]), np.array([-1.0, 3.0, 0.5, np.nan]))),
    "entr": (scipy.special.entr, (np.array([0.0, -0.0, 0.5, -1.0, np.inf, np.nan]),)),
    "rel_entr": (
        scipy.special.rel_entr,
        (np.array([0.5, 0.0, 1.0, -1.0, 0.0, np.nan, 2.0]), np.array([0.2, 0.0, 0.0, 1.0, -1.0, 1.0, 3.0])),
    ),
    "kl_div": (
        scipy.special.kl_div,
        (np.array([0.5, 0.0, 1.0, -1.0, 0.0, 2.0]), np.array([0.2, 0.5, 0.0, 1.0, 0.0, 3.0])),
    ),
    "huber": (scipy.special.huber, (np.array([1.0, 1.0, 1.0, 0.5, -1.0]), np.array([0.5, -3.0, 1.0, 0.0, 1.0]))),
    "pseudo_huber": (scipy.special.pseudo_huber, (np.array([1.0, 2.0, 0.0, 0.5]), np.array([0.5, -3.0, 1.0, 0.0]))),
    "boxcox": (scipy.special.boxcox, (np.abs(X) + 0.1, Y)),
    "inv_boxcox": (scipy.special.inv_boxcox, (np.abs(X), np.abs(Y))),
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
KNOWN_SIZES = ("polyval", "unstack", "array_split", "delete several", "delete slice", "delete mask", "vander square")
"""Of these, sizes must be known."""


@pytest.mark.quick(65)
@pytest.mark.parametrize("name", CASES)
def test_numpys_function(name: str) -> None:
    function, arrays = CASES[name]
    if name.startswith(KNOWN_SIZES):
        symbols = [sj.tensor(a.shape, a.dtype) for a in map(np.asarray, arrays)]
        got = sj.function(symbols, function(*symbols), mode="reference")(*arrays)
        expected = function(*arrays)
        for ours, theirs in zip(got, expected, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)
    else:
        with np.errstate(all="ignore"):
            agrees(function, function, *arrays, rtol=3e-12)


def test_compiled() -> None:
    x, y = sj.matrix("x"), sj.matrix("y")
    named = [n for n in CASES if CASES[n][1] and CASES[n][1][0] is X and len(CASES[n][1]) == 2 and CASES[n][1][1] is Y]
    outputs = [CASES[n][0](x, y) for n in named]
    for got, name in zip(sj.function([x, y], outputs)(X, Y), named, strict=True):
        np.testing.assert_allclose(got, CASES[name][0](X, Y), rtol=1e-12, err_msg=name)


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: sj.hypot(x, y).sum(),
        lambda x, y: (sj.fmod(x, y * y + 1) * sj.fmod(-x, -y * y - 0.8)).sum(),
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


def test_a_histogram_has_two_edges() -> None:
    x, edges = sj.vector("x"), sj.vector("edges")
    for few in ([1.0], []):
        with pytest.raises(errors.ShapeError, match=f"a bin has two edges, but there are {len(few)}"):
            sj.histogram(x, few)
    with pytest.raises(errors.ShapeError, match="a bin has two edges, but there are 1"):
        sj.function([x, edges], sj.histogram(x, edges)[0], mode="reference")(np.ones(3), [1.0])


@pytest.mark.parametrize("mode", ["reference", "emulate"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ranges_of_histograms_that_are_computed(dtype: str, mode: Any) -> None:
    """NumPy refuses the same ones; those that it takes from the numbers too."""
    v, low, high = sj.vector("v", dtype=dtype), sj.scalar("low", dtype=dtype), sj.scalar("high", dtype=dtype)
    some = sj.function([v, low, high], sj.histogram(v, 3, (low, high))[0], mode=mode)
    every = sj.function([v], sj.histogram(v, 3)[0], mode=mode)
    given = np.array([1.0, 2.0, 4.0], dtype)
    np.testing.assert_array_equal(some(given, 0.0, 4.0), np.histogram(given, 3, (0.0, 4.0))[0])
    np.testing.assert_array_equal(every(given), np.histogram(given, 3)[0])
    for ends in ((np.nan, 1.0), (0.0, np.nan), (0.0, np.inf), (-np.inf, 1.0), (2.0, 1.0)):
        with pytest.raises(ValueError):
            np.histogram(given, 3, ends)
        with pytest.raises(errors.AssertError, match="range of a histogram is finite"):
            some(given, *ends)
    for bad in (np.nan, np.inf):
        with pytest.raises(errors.AssertError, match="range of a histogram is finite"):
            every(np.array([1.0, bad], dtype))


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_weights_and_edges_of_histograms_are_checked(mode: Any) -> None:
    """NumPy refuses the same ones."""
    v, edges = sj.matrix("v"), sj.vector("edges")
    counts = sj.function([v, edges], sj.histogram(v, edges)[0], mode=mode)
    given = np.array([[1.0, 2.0, 4.0]])
    for good in ([0.0, 2.0, 2.0, 4.0], [1.0, 3.0]):
        np.testing.assert_array_equal(counts(given, good), np.histogram(given, good)[0])
    for bad in ([0.0, 2.0, 1.0, 4.0], [3.0, 1.0]):
        with pytest.raises(ValueError):
            np.histogram(given, bad)
        with pytest.raises(errors.AssertError, match="edges of the bins of a histogram must rise"):
            counts(given, bad)
        with pytest.raises(errors.ArgumentError, match="edges of the bins of a histogram must rise"):
            sj.histogram(v, bad)
    for weights in (np.ones(3), np.ones((3, 1))):
        with pytest.raises(ValueError):
            np.histogram(given, weights=weights)
        with pytest.raises(errors.ShapeError, match="weight"):
            sj.function([v], sj.histogram(v, weights=weights)[0], mode=mode)(given)


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_zeros_of_fmod_keep_their_sign(mode: Any) -> None:
    for dtype in ("float32", "float64"):
        x, y = np.array([0.0, -0.0, 6.0, -6.0], dtype), np.array([3.0, -3.0, np.inf], dtype)
        a, b = sj.vector("a", dtype=dtype), sj.vector("b", dtype=dtype)
        outputs = [sj.fmod(a[:, None], b), *sj.grad(sj.fmod(a[:, None], b).sum(), [a])]
        got, slope = sj.function([a, b], outputs, mode=mode)(x, y)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(np.fmod(x[:, None], y)))
        np.testing.assert_array_equal(slope, [3.0] * 4)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_powers_of_two_that_are_out_of_range(dtype: str) -> None:
    """Zeros stay zeros, and numbers at one end of the range reach the other."""
    info = np.finfo(dtype)
    x = np.array([0, -0.0, 1, -3, np.inf, np.nan, info.smallest_subnormal, info.max, info.tiny], dtype)
    n = np.array([0, 14, -14, 39, -39, 277, -277, 300, 2098, -2098, 2**30, -(2**30)])[:, None]
    with np.errstate(over="ignore"):
        wanted = np.ldexp(x, n)
    for mode in ("reference", "emulate"):
        got = sj.function([], sj.ldexp(x, n), mode=mode)()
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(np.signbit(got[:, :2]), np.signbit(wanted[:, :2]))


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_places_that_are_computed(mode: Any) -> None:
    """In a step too: entries leave, and come in, at another place in each one. A place out of bounds is an error."""
    i, v = sj.scalar("i", dtype="int64"), sj.vector("v")
    both = sj.scan(
        lambda t, x: (sj.delete(x, t - 2), sj.insert(x, t, 7.0)), sequences=i + sj.arange(3), non_sequences=v
    )
    f = sj.function([i, v], list(both), mode=mode)
    for ours, theirs in zip(f(0, V), (np.delete, lambda x, t: np.insert(x, t + 2, 7.0)), strict=True):
        np.testing.assert_array_equal(ours, [theirs(V, t - 2) for t in range(3)])
    for at in (-5, 5):
        with pytest.raises(errors.AssertError, match="the place is out of bounds"):
            f(at, V)
    with pytest.raises(errors.AssertError, match="all elements are NaN"):
        sj.function([v], sj.nanargmax(v), mode=mode)(V * np.nan)


def test_errors() -> None:
    x, v, square = sj.matrix("x"), sj.vector("v"), sj.tensor((3, 3), name="square")
    for call, words in (
        (lambda: sj.select([x > 0], [x, x]), "a choice for each condition"),
        (lambda: sj.interp(v, x, v), "points of two vectors"),
        (lambda: sj.histogram(v, 0), "the number of bins must be at least 1"),
        (lambda: sj.histogram(v, x), "edges of bins are a vector"),
        (lambda: sj.block([[v], v]), "nested equally deep"),
        (lambda: sj.block([]), "nested equally deep"),
        (lambda: sj.tril_indices(v.shape[0]), "sizes of a triangle's matrix must be known"),
        (lambda: np.put_along_axis(v, v, v, 0), "put_along_axis is not defined"),
        (lambda: sj.diff(v, -1), "number of times that diff takes differences must be at least 0"),
        (lambda: sj.linspace(0, 1, v.shape[0]), "number of numbers must be a number that is known"),
        (lambda: sj.diff(v, 1.5), "number of times that diff takes differences must be an integer"),
        (lambda: sj.histogram(v, 3, (2.0, 1.0)), "range of a histogram is finite and goes up"),
        (lambda: sj.histogram(v, 3, (np.nan, 1.0)), "range of a histogram is finite and goes up"),
        (lambda: sj.histogram(v, 3, (0.0, np.inf)), "range of a histogram is finite and goes up"),
        *(
            (lambda call=call: call(1.5), "number of a diagonal must be an integer")
            for call in (
                lambda k: sj.eye(3, k=k),
                lambda k: sj.diag(v, k),
                lambda k: sj.diag(x, k),
                lambda k: sj.diagflat(x, k),
                lambda k: sj.diagonal(x, k),
                lambda k: sj.trace(x, k),
                lambda k: sj.tril(x, k),
                lambda k: sj.triu(x, k),
                lambda k: sj.tril_indices(3, k),
                lambda k: sj.triu_indices(3, k),
            )
        ),
        (lambda: sj.eye(2.5), "a size must be an integer or an integer scalar\n  got:      2.5"),
        (lambda: sj.diag_indices(2.5), "a size must be an integer"),
        (lambda: sj.top_k(v, 2.5), "a size must be an integer or an integer scalar\n  got:      2.5"),
        (lambda: sj.linspace(0, 1, 2.5), "number of numbers must be an integer"),
        (lambda: sj.linspace(v[0], 1, -1), "number of numbers must be at least 0"),
        (lambda: sj.rot90(x, 0.5), "number of turns must be an integer"),
        (lambda: sj.vander(v, 2.5), "number of powers must be an integer"),
        (lambda: sj.polyfit(v, v, -1), "degree of a polynomial must be at least 0"),
        (lambda: sj.matrix_power(x, 0.5), "exponent of matrix_power must be an integer"),
        (lambda: sj.unravel_index(v, (2, 3)), "indices must be integers"),
        (lambda: sj.ravel_multi_index((v, v), (2, 3)), "indices must be integers"),
        (lambda: sj.hypot(v * 1j, 1.0), "hypot is not defined for complex numbers"),
        (lambda: np.where(v > 0), "where of symbols needs a condition and two tensors"),
        (lambda: sj.lvector() == 10**30, "does not fit the dtype"),
        (lambda: sj.lvector() < 10**30, "does not fit the dtype"),
        (lambda: sj.pad(v, []), "padding is a number, a pair, or a pair an axis"),
        (lambda: sj.multi_dot([v, v, v]), "multi_dot multiplies matrices"),
        (lambda: sj.multi_dot([x, sj.tensor3()]), "multi_dot multiplies matrices"),
        (lambda: sj.multi_dot([v[0], x]), "multi_dot multiplies matrices"),
        (lambda: sj.polyval(v, 2.0), "number of coefficients must be known"),
        (lambda: sj.convolve(x, x), "of two vectors"),
        (lambda: sj.convolve(sj.tensor((5,)), sj.tensor((2,)), "half"), "mode of convolve is unknown"),
        (lambda: sj.meshgrid(v, indexing="yx"), "indexing of meshgrid is unknown"),
        (lambda: sj.cross(sj.tensor((2,)), sj.tensor((3,))), "vectors of a cross product"),
        (lambda: sj.average(x, weights=v), "weights have the axes"),
        (lambda: sj.ravel_multi_index((v,), (2, 3)), "a tensor for each axis"),
        (lambda: sj.array_split(x, 2), "unknown length has parts of unknown lengths"),
        (lambda: sj.array_split(x, 0), "at least one part"),
        (lambda: sj.vsplit(v, 2), "tensors with more axes"),
        (lambda: sj.delete(v, [0, 1]), "delete of several entries needs an axis of known length"),
        (lambda: sj.delete(v, 0.5), "a place as an integer"),
        (lambda: sj.insert(v, [0, 1], 1.0), "puts entries in at one place only"),
        (lambda: sj.insert(v, 0, x), "more axes than the tensor"),
        (lambda: sj.rot90(x, axes=(1, -1)), "between two axes"),
        (lambda: sj.choose(v, [v]), "choose takes integers"),
        (lambda: sj.piecewise(v, [v > 0], []), "a function for each condition"),
        (lambda: sj.polyder(x), "polyder takes a vector"),
        (lambda: sj.polyder(v, -1), "a number of times must be at least 0"),
        (lambda: sj.polyder(v, 10**9), "a number of times must be at most 1000\n  got:      1000000000"),
        (lambda: sj.polyint(v, 10**9), "a number of times must be at most 1000"),
        (lambda: sj.vander(v), "number of powers must be known"),
        (lambda: sj.gradient(x, v), "a spacing for each axis"),
        (lambda: sj.gradient(v[0]), "samples along an axis"),
        (lambda: sj.gradient(x, x, axis=0), "places of samples are a vector"),
        (lambda: sj.gradient(x, edge_order=3), "edge_order is 1 or 2"),
        (lambda: sj.cov(sj.tensor((2, 3, 4))), "variables are vectors or a matrix"),
        (lambda: sj.cov(x, fweights=x), "weights are vectors"),
        (lambda: sj.norm(x, 3), "ord of a norm of matrices is unknown"),
        (lambda: sj.norm(v, "nuc"), "ord of a norm of vectors is unknown"),
        (lambda: sj.norm(sj.tensor((2, 3, 4)), 1), "of vectors or of matrices"),
        (lambda: sj.matrix_norm(v), "a matrix has two axes"),
        (lambda: sj.multi_dot([x]), "at least two tensors"),
        (lambda: sj.fftn(x, s=(2,), axes=(0, 1)), "a length for each axis"),
        (lambda: sj.hfft(v, norm="half"), "norm of a Fourier transform is unknown"),
        (lambda: sj.cumulative_sum(x), "one must be named"),
        (lambda: sj.delete(square, sj.lvector("i"), 0), "needs places that are known"),
        (lambda: sj.delete(square, [5], 0), "places inside of the axis"),
        (lambda: sj.delete(square, [0.5], 0), "places inside of the axis"),
        (lambda: sj.tensordot(v, v), "sums over axes that both have"),
        (lambda: sj.tensordot(x, x, "ab"), "a number or a pair"),
        (lambda: sj.tensordot(x, x, ([0, 0], [0, 1])), "an axis is given twice"),
        *(
            (lambda call=call: call(square, v), "a number for each matrix")
            for call in (sj.pinv, sj.matrix_rank, lambda a, r: sj.pinv(a, rtol=r), lambda a, r: sj.lstsq(a, a, r))
        ),
        (lambda: sj.pad(x, 1, constant_values=(1, 2)), "constant_values of pad is one number"),
        (lambda: sj.concatenate(sj.tensor((0, 3))), "takes a sequence of tensors"),
        (lambda: sj.column_stack(5), "takes a sequence of tensors"),
        (lambda: sj.concatenate([x], axis=2), "axis 2 is out of bounds"),
        *(
            (lambda call=call: call((2, 3)), "a size must be an integer or an integer scalar")
            for call in (
                sj.eye,
                lambda n: sj.eye(2, n),
                sj.diag_indices,
                lambda n: sj.one_hot([1], n),
                lambda n: sj.top_k(v, n),
                lambda n: sj.unique(v, n),
                lambda n: sj.nonzero(v, n),
                lambda n: sj.bincount([1], length=n),
            )
        ),
        (lambda: sj.repeat(x, sj.lvector("i")), "a size must be an integer"),
        (lambda: sj.fft(v, sj.lvector("i")), "a size must be an integer"),
        (lambda: sj.repeat(x, [1, -1, 2], 0), "none of them negative"),
        (lambda: sj.roll(x, (1, 2, 3), (0, 1)), "a shift for each axis"),
        (lambda: sj.split(v, 2.5), "a number of parts, or the places of cuts"),
        (lambda: sj.arange(float("nan")), "this is no range"),
        (lambda: sj.arange(0, 1, 0.0), "this is no range"),
        (lambda: sj.round(v, 0.5), "number of decimals must be an integer"),
        (lambda: sj.flatten(x, 1.5), "ndim of flatten must be an integer"),
        (lambda: sj.einsum(x, [0, 1]), "subscripts of einsum are a string"),
        (lambda: sj.nonzero(5), "tensors of one axis or more"),
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


def test_betaln_of_large_numbers():
    mpmath = pytest.importorskip("mpmath")
    sizes = np.array([1e-8, 0.5, 1.0, 3.0, 999.0, 1001.0, 1e6, 1e16])
    a, b = np.meshgrid(sizes, sizes)
    with mpmath.workdps(40):
        gamma = np.vectorize(lambda x: mpmath.loggamma(mpmath.mpf(x)), otypes=[object])
        wanted = (gamma(a) + gamma(b) - np.vectorize(lambda x, y: mpmath.loggamma(mpmath.mpf(x) + y))(a, b)).astype(
            float
        )
    np.testing.assert_allclose(sj.jit(sj.betaln)(a, b), wanted, rtol=3e-12, atol=3e-12)
    sj.check_grad(lambda x, y: sj.betaln(x, y), [np.array([2.0, 3.0, 2e3]), np.array([2.0, 1.5, 0.5])], order=2)


def test_a_degree_that_nobody_means_takes_no_time() -> None:
    assert sj.polyfit(sj.vector(), sj.vector(), 10**9).type.shape == (10**9 + 1,)


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_sizes_that_are_found_when_a_function_runs_must_fit(mode: Any) -> None:
    x, y = sj.vector("x", dtype="float64"), sj.vector("y", dtype="float64")
    cross = sj.function([x, y], sj.cross(x, y), mode=mode)
    np.testing.assert_array_equal(cross(np.arange(3.0), np.ones(3)), np.cross(np.arange(3.0), np.ones(3)))
    with pytest.raises(sj.ShapeError, match="vectors of a cross product"):
        cross(np.ones(6), np.ones(3))
    chosen = sj.function([x, y], sj.random.Stream(0).choice(x, (4,), p=y), mode=mode)
    assert set(chosen(np.arange(2.0), np.array([1.0, 0.0]))) == {0.0}
    with pytest.raises(sj.ShapeError, match="probabilities of choice, one for each element"):
        chosen(np.arange(3.0), np.array([0.5, 0.5]))


def test_slopes_beside_a_sample_that_is_not_finite() -> None:
    """A slope between two samples does not depend on the sample in the middle."""
    samples = np.array([1.0, -np.inf, 2.0, np.nan, 0.0, np.inf, 3.0])
    x = sj.vector("x", dtype="float64")
    with np.errstate(invalid="ignore"):
        expected = np.gradient(samples)
    np.testing.assert_array_equal(sj.function([x], sj.gradient(x), mode="reference")(samples), expected)
    assert sj.gradient(x, axis=()) == []


def test_choose_takes_no_number_outside() -> None:
    i, v = sj.lvector("i"), sj.vector("v")
    f = sj.function([i, v], sj.choose(i, [v, -v]), mode="reference")
    assert np.array_equal(f([0, 1], [2.0, 3.0]), [2.0, -3.0])
    for number in (2, -1):
        with pytest.raises(sj.OutOfBoundsError):
            f([0, number], [2.0, 3.0])
    many = sj.choose(np.array([0, 127], "int8"), [float(number) for number in range(128)])
    assert np.array_equal(sj.function([], many, mode="reference")(), [0.0, 127.0])
