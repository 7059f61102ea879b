"""Logarithms of densities with a given mean 0 and variance: normal, Student's t, and Hansen's skewed t."""

from __future__ import annotations

from typing import Any

import numpy as np

from scanjit.ir import Node
from scanjit.tensor import as_tensor, betaln, log, log1p, sqrt, where
from scanjit.tensor.numbers import within

LOG_TAU = float(np.log(2 * np.pi))


def normal(errors: Any, variances: Any) -> Node:
    """The logarithm of the normal density.

    Parameters
    ----------
    errors, variances : tensor_like

    Returns
    -------
    Node

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.jit(sj.timeseries.normal)(0.0, 1.0).round(4)
    np.float64(-0.9189)
    """
    errors, variances = as_tensor(errors), within(variances, "variances")
    precisions = 1 / variances  # the one division, also of the derivatives
    return -(LOG_TAU + log(variances) + errors**2 * precisions) / 2


def student_t(errors: Any, variances: Any, freedom: Any) -> Node:
    """The logarithm of the density of Student's t, scaled to the given variance.

    Parameters
    ----------
    errors, variances : tensor_like
    freedom : tensor_like
        The degrees of freedom, above 2.

    Returns
    -------
    Node

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.jit(sj.timeseries.student_t)(0.0, 1.0, 5.0).round(4)
    np.float64(-0.7132)
    """
    errors, variances, freedom = as_tensor(errors), within(variances, "variances"), within(freedom, "freedom", 2)
    scaled = errors**2 / (variances * (freedom - 2))
    return _t_constant(freedom) - log(variances) / 2 - (freedom + 1) / 2 * log1p(scaled)


def skew_t(errors: Any, variances: Any, freedom: Any, skew: Any) -> Node:
    """The logarithm of the density of Hansen's (1994) skewed t, scaled to the given variance.

    Parameters
    ----------
    errors, variances : tensor_like
    freedom : tensor_like
        The degrees of freedom, above 2.
    skew : tensor_like
        Between -1 and 1; 0 is `student_t`.

    Returns
    -------
    Node

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.jit(sj.timeseries.skew_t)(0.0, 1.0, 5.0, 0.0).round(4)
    np.float64(-0.7132)
    """
    variances, freedom, skew = (
        within(variances, "variances"),
        within(freedom, "freedom", 2),
        within(skew, "skew", -1, 1),
    )
    skew = where(abs(skew) <= 1, skew, np.nan)
    log_c = _t_constant(freedom)
    a = 4 * skew * np.exp(log_c) * (freedom - 2) / (freedom - 1)
    b = sqrt(1 + 3 * skew**2 - a**2)
    z = as_tensor(errors) / sqrt(variances)
    side = where(z < -a / b, 1 - skew, 1 + skew)
    scaled = ((b * z + a) / side) ** 2 / (freedom - 2)
    return log(b) + log_c - log(variances) / 2 - (freedom + 1) / 2 * log1p(scaled)


def _t_constant(freedom: Node) -> Node:
    """The logarithm of the factor that makes the integral of a t density 1."""
    return -betaln(freedom / 2, 0.5) - log(freedom - 2) / 2
