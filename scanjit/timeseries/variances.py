"""Variances that change with the errors before: GARCH, GJR-GARCH, EGARCH."""

from __future__ import annotations

from typing import Any

import numpy as np

from scanjit.ir import Node
from scanjit.loops import scan
from scanjit.tensor import as_tensor, exp, log, zeros_like
from scanjit.tensor.numbers import within


def garch(errors: Any, constant: Any, reaction: Any, memory: Any, asymmetry: Any = 0.0, first: Any = None) -> Node:
    """The variance of each step of a GARCH(1, 1), or with `asymmetry` a GJR-GARCH(1, 1, 1).

    `v[t] = constant + (reaction + asymmetry * (e[t-1] < 0)) * e[t-1]**2 + memory * v[t-1]`

    Parameters
    ----------
    errors : tensor_like
        Returns without their mean, one entry a step; further axes are a batch.
    constant, reaction, memory, asymmetry : tensor_like
        How large the variance is at least, and what it takes from the last error and from the last variance.
    first : tensor_like, optional
        The first variance. By default the mean of the squares of the errors.

    Returns
    -------
    Node
        Of the shape of `errors`.

    Examples
    --------
    >>> import scanjit as sj
    >>> f = sj.jit(lambda e: sj.timeseries.garch(e, 0.1, 0.2, 0.5, first=1.0))
    >>> f([1.0, -1.0, 0.0]).round(3)
    array([1. , 0.8, 0.7])
    """
    errors = as_tensor(errors)
    symmetric = isinstance(asymmetry, float | int) and asymmetry == 0
    squares = errors**2 * (reaction if symmetric else reaction + asymmetry * (errors < 0))
    begin, constant = _first(errors, first), within(constant, "constant")

    def step(square: Node, variance: Node) -> tuple[Node, Node]:
        return constant + square + memory * variance, variance

    variances: Node = scan(step, sequences=squares, outputs_info=[begin, None])[1]
    return variances


def egarch(errors: Any, constant: Any, size: Any, memory: Any, asymmetry: Any = 0.0, first: Any = None) -> Node:
    """The variance of each step of an EGARCH(1, 1, 1) (Nelson, 1991).

    With `z = e / sqrt(v)`: `log(v[t]) = constant + size * (abs(z[t-1]) - sqrt(2 / pi)) + asymmetry * z[t-1] +
    memory * log(v[t-1])`

    Parameters
    ----------
    errors, first : as for `garch`.
    constant, size, memory, asymmetry : tensor_like
        What the logarithm of the variance has at least, and what it takes from the size of the last error, from the
        last variance, and from the sign of the last error.

    Returns
    -------
    Node
        Of the shape of `errors`.

    Examples
    --------
    >>> import scanjit as sj
    >>> f = sj.jit(lambda e: sj.timeseries.egarch(e, 0.0, 0.2, 0.5, first=1.0))
    >>> f([1.0, -1.0, 0.0]).round(3)
    array([1.   , 1.041, 1.058])
    """
    errors = as_tensor(errors)
    begin = _first(errors, first)

    def step(error: Node, logarithm: Node) -> tuple[Node, Node]:
        z = error * exp(-logarithm / 2)
        later = constant + size * (abs(z) - float(np.sqrt(2 / np.pi))) + asymmetry * z + memory * logarithm
        return later, logarithm

    return exp(scan(step, sequences=errors, outputs_info=[log(begin), None])[1])


def _first(errors: Node, given: Any) -> Node:
    """The variance of the first step."""
    return (errors**2).mean(axis=0) if given is None else zeros_like(errors[0]) + within(given, "first")
