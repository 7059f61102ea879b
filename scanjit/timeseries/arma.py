"""ARMA models by their exact likelihood: the innovations of their state space form (Harvey, 1989)."""

from __future__ import annotations

from typing import Any, NamedTuple

from scanjit import errors
from scanjit.ir import Node
from scanjit.loops import scan
from scanjit.tensor import concatenate, eye, outer, zeros
from scanjit.tensor.numbers import number, vector, within
from scanjit.tensor.variables import inexact, integer
from scanjit.timeseries.kalman import StateSpace, kalman_filter

DOUBLINGS = 40
"""The covariance of the first state is a sum of powers. The number of its terms is doubled this many times."""


class Innovations(NamedTuple):
    """For each step: the difference between its entry and the value expected from the entries before, the variance of
    this difference, and the logarithm of the entry's likelihood."""

    errors: Node
    variances: Node
    log_likelihood: Node


def arma(series: Any, ar: Any, ma: Any, variance: Any) -> Innovations:
    """The innovations of a stationary ARMA model without a mean.

    `y[t] = ar[0] * y[t-1] + ar[1] * y[t-2] + ... + e[t] + ma[0] * e[t-1] + ...`

    Parameters
    ----------
    series : tensor_like
        One entry a step, without its mean. NaN is a missing entry. For ARIMA give its differences; for a seasonal model
        give the `expanded` coefficients.
    ar, ma : tensor_like
        Vectors of coefficients, of known lengths.
    variance : tensor_like
        The variance of the errors `e`. Where a call computes a negative one, the likelihood is NaN.

    Returns
    -------
    Innovations
        `errors`, `variances`, `log_likelihood`, one entry a step.

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> f = sj.jit(lambda y: sj.timeseries.arma(y, np.array([0.5]), np.array([]), 1.0))
    >>> f(np.array([1.0, 1.0, 0.0])).errors.round(3)
    array([ 1. ,  0.5, -0.5])
    """
    series, ar, ma = inexact(vector(series, "series")), vector(ar, "ar"), vector(ma, "ma")
    size = max(len(ar), len(ma) + 1)
    dtype = series.dtype
    column = concatenate([ar, zeros((size - len(ar),), dtype)])
    loads = concatenate([eye(1, dtype=dtype)[0], ma, zeros((size - 1 - len(ma),), dtype)])
    transition = concatenate([column[:, None], eye(size, size - 1, dtype=dtype)], axis=1)
    state_noise = within(number(variance, "variance"), "variance") * outer(loads, loads)
    model = StateSpace(
        transition,
        eye(1, size, dtype=dtype),
        state_noise,
        zeros((1, 1), dtype),
        zeros((size,), dtype),
        stationary(transition, state_noise),
    )
    found = kalman_filter(series, model)
    return Innovations(series - found.predicted_mean[:, 0], found.predicted_covariance[:, 0, 0], found.log_likelihood)


def stationary(transition: Node, noise: Node) -> Node:
    """The covariance that a state has in the long run: `P = transition @ P @ transition.T + noise`."""

    def twice(power: Node, total: Node) -> tuple[Node, Node]:
        return power @ power, total + power @ total @ power.T

    found: Node = scan(twice, outputs_info=[transition, noise], n_steps=DOUBLINGS)[1][-1]
    return found


def expanded(coefficients: Any, seasonal: Any, period: int, sign: int = -1) -> Node:
    """The coefficients of a seasonal model as those of one without seasons.

    Parameters
    ----------
    coefficients, seasonal : tensor_like
        Vectors: the coefficients of lags 1, 2, ..., and those of lags `period`, `2 * period`, ...
    period : int
    sign : {-1, 1}
        -1 for autoregressive coefficients, 1 for those of moving averages.

    Returns
    -------
    Node
        A vector with one coefficient for each lag.

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> sj.jit(lambda a, s: sj.timeseries.expanded(a, s, 4))(np.array([0.5]), np.array([0.2]))
    array([ 0.5,  0. ,  0. ,  0.2, -0.1])
    """
    period = integer(period, "period", 1)
    if sign not in (-1, 1):
        raise errors.ArgumentError("sign is -1 or 1", got=repr(sign))
    coefficients, seasonal = vector(coefficients, "coefficients"), vector(seasonal, "seasonal")
    short, long = len(coefficients), len(seasonal)
    total = concatenate([coefficients, zeros((period * long,), coefficients.dtype)])
    for i in range(long):
        at = period * (i + 1)
        product = concatenate([eye(1, dtype=total.dtype)[0], sign * coefficients]) * seasonal[i]
        total = total + concatenate(
            [zeros((at - 1,), total.dtype), product, zeros((short + period * long - at - short,), total.dtype)]
        )
    return total
