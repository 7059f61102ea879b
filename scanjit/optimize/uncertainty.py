"""How sure fitted parameters are: covariance, standard errors, and those of what is computed from the parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scanjit import errors
from scanjit.arrays import array_of
from scanjit.batching import vmap
from scanjit.contents import captured
from scanjit.derivatives import hessian, jacobian
from scanjit.ir import Node
from scanjit.kinds import holds_numbers
from scanjit.loops import scan
from scanjit.optimize.checks import called, checked_args, listed, variables
from scanjit.runtime.jit import Jitted, jit
from scanjit.tensor import arange, cast, floor, inv, ravel, sqrt, where
from scanjit.tensor.variables import integer

KINDS = ("hessian", "opg", "sandwich", "hac")


def covariance(
    terms: Callable[..., Any],
    x: Any,
    args: Sequence[Any] = (),
    *,
    kind: str = "hessian",
    batched: bool = False,
    common: Sequence[Any] = (),
    lags: int | None = None,
) -> np.ndarray:
    """The covariance of parameters that were fitted by maximum likelihood.

    Parameters
    ----------
    terms : callable
        `terms(x, *args, *common)` of symbols: a vector, whose sum is the negative logarithm of the likelihood; for most
        models one entry an observation. Entries of padded steps are 0.
    x : array_like
        The fitted parameters: a vector; with `batched=True` one row a problem.
    args, batched, common : as for `minimize`.
    kind : {"hessian", "opg", "sandwich", "hac"}
        "hessian" is the inverse of the second derivatives, "opg" that of the sum of the outer products of the terms'
        gradients. "sandwich" puts the second between two of the first: it holds where the likelihood is not quite that
        of the data, as a normal one for returns with heavy tails. "hac" is a sandwich for terms whose gradients are
        correlated over time (Newey and West, 1987).
    lags : int, optional
        Over how many steps "hac" looks for correlation: by default `4 * (terms / 100) ** (2 / 9)`.

    Returns
    -------
    ndarray
        Of shape `(parameters, parameters)`, with an axis of problems before them if they are many. NaN or infinite
        where a matrix is singular.

    Examples
    --------
    The mean and the logarithm of the deviation of three numbers:

    >>> import numpy as np
    >>> import scanjit as sj
    >>> def terms(x, data):
    ...     return x[1] + ((data - x[0]) * np.exp(-x[1])) ** 2 / 2
    >>> data = np.array([1.0, 2.0, 6.0])
    >>> x = np.array([data.mean(), np.log(data.std())])
    >>> np.abs(sj.optimize.covariance(terms, x, [data]).round(6))
    array([[1.555556, 0.      ],
           [0.      , 0.166667]])
    """
    errors.check_known("the kind of the covariance", kind, KINDS)
    over = -1 if lags is None else integer(lags, "lags", 0)
    x = variables(x, batched)
    found: np.ndarray = _covariance(terms, captured(terms), kind, batched, lags is None)(
        x, checked_args(args, x, batched), listed(common, "common"), over
    )
    return found


def standard_errors(
    terms: Callable[..., Any],
    x: Any,
    args: Sequence[Any] = (),
    kind: str = "hessian",
    *,
    batched: bool = False,
    common: Sequence[Any] = (),
    lags: int | None = None,
) -> np.ndarray:
    """The standard errors of parameters that were fitted by maximum likelihood: roots of the `covariance`'s diagonal.

    Parameters
    ----------
    terms, x, args, kind, batched, common, lags : as for `covariance`.

    Returns
    -------
    ndarray
        Of the shape of `x`; NaN where the covariance has no positive entry.

    Notes
    -----
    In a fit by least squares, a term is `((data - model) / noise) ** 2 / 2`, where `noise` is its standard deviation.
    If that is not known, leave it out, and multiply the errors by the standard deviation of the residuals.

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> def terms(x, data):
    ...     return ((data - x[0]) ** 2) / 2
    >>> sj.optimize.standard_errors(terms, [2.0], [np.array([1.0, 2.0, 2.0, 3.0])])
    array([0.5])
    """
    matrix = covariance(terms, x, args, kind=kind, batched=batched, common=common, lags=lags)
    squares = np.diagonal(matrix, axis1=-2, axis2=-1)
    return np.sqrt(np.where(squares >= 0, squares, np.nan))


def delta_method(
    fn: Callable[..., Any],
    x: Any,
    covariance: Any,
    args: Sequence[Any] = (),
    *,
    batched: bool = False,
    common: Sequence[Any] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """What is computed from fitted parameters, and its standard errors.

    Parameters
    ----------
    fn : callable
        `fn(x, *args, *common)` of symbols: a scalar or a tensor.
    x : array_like
        The fitted parameters: a vector; with `batched=True` one row a problem.
    covariance : array_like
        Their covariance.
    args, batched, common : as for `minimize`.

    Returns
    -------
    value, standard_errors : ndarray
        Of the shape that `fn` returns.

    Examples
    --------
    The half life of a decay of 0.9 a step, known to 0.01:

    >>> import numpy as np
    >>> import scanjit as sj
    >>> value, error = sj.optimize.delta_method(lambda x: np.log(0.5) / np.log(x[0]), [0.9], [[0.0001]])
    >>> value.round(3).item(), error.round(3).item()
    (6.579, 0.694)
    """
    x = variables(x, batched)
    matrix = array_of(covariance)
    if not holds_numbers(matrix.dtype):
        raise errors.ArgumentError("the covariance is no array of numbers", got=repr(covariance))
    matrix = matrix.astype(x.dtype)
    if matrix.shape != (*x.shape, x.shape[-1]):
        raise errors.ArgumentError(
            "a covariance has a row and a column for each parameter", got=matrix.shape, expected=(*x.shape, x.shape[-1])
        )
    value, error = _delta(fn, captured(fn), batched)(
        x, matrix, checked_args(args, x, batched), listed(common, "common")
    )
    return value, error


@functools.lru_cache(maxsize=64)
def _covariance(
    terms: Callable[..., Any], content: str, kind: str, batched: bool, usual_lags: bool
) -> Jitted[..., Any]:
    def of_all(x: Any, args: Any, common: Any, lags: Node) -> Any:
        def one(x: Node, args: Any) -> Any:
            len(x)  # makes it a known size: matrices of a few variables become straight-line code
            each = called(terms, x, args, common)
            if kind == "opg":
                scores = jacobian(each, x)
                return inv(scores.T @ scores)
            bread = inv(hessian(each.sum(), x))
            if kind == "hessian":
                return bread
            correlated = 0 if kind == "sandwich" else _usual(each) if usual_lags else lags
            return bread @ _products(jacobian(each, x), correlated) @ bread

        return vmap(one)(x, args) if batched else one(x, args)

    return jit(of_all)


def _usual(terms: Node) -> Node:
    return cast(floor(4 * (terms.shape[0] / 100) ** (2 / 9)), "int64")


def _products(scores: Node, lags: Any) -> Node:
    """The products of each step's gradient with those of up to `lags` steps before, with weights that fall to 0."""
    steps = arange(scores.shape[0])

    def added(lag: Node, total: Node) -> Node:
        earlier = scores[np.maximum(steps - lag, 0)] * (steps >= lag)[:, None]
        products = scores.T @ earlier
        return total + where(lag == 0, 0.5, 1 - lag / (lags + 1)) * (products + products.T)

    return scan(added, sequences=arange(lags + 1), outputs_info=0 * (scores.T @ scores))[-1]


@functools.lru_cache(maxsize=64)
def _delta(fn: Callable[..., Any], content: str, batched: bool) -> Jitted[..., Any]:
    def of_all(x: Any, matrix: Any, args: Any, common: Any) -> Any:
        def one(x: Node, matrix: Node, args: Any) -> Any:
            len(x)
            value = called(fn, x, args, common)
            slopes = jacobian(ravel(value), x)
            return value, sqrt(((slopes @ matrix) * slopes).sum(axis=1)).reshape(value.shape)

        return vmap(one)(x, matrix, args) if batched else one(x, matrix, args)

    return jit(of_all)
