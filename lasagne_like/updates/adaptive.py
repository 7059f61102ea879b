"""Rules that divide the gradient by a running measure of its size: Adagrad, RMSProp, Adadelta."""

from collections.abc import Sequence
from typing import Any

import scanjit as sj
from lasagne_like.updates.gradients import Updates, average, check_numbers, pairs, zeros_of
from lasagne_like.utils import number

__all__ = ["adadelta", "adagrad", "rmsprop"]


def adagrad(
    loss_or_grads: Any, params: Sequence[sj.SharedVariable], learning_rate: Any = 1.0, epsilon: Any = 1e-6
) -> Updates:
    """Adagrad: `accu = accu + grad**2`, `param - learning_rate * grad / sqrt(accu + epsilon)`.

    Parameters
    ----------
    loss_or_grads : scalar expression, or list of gradients
    params : list of shared variables
    learning_rate, epsilon : float or scalar expression

    Returns
    -------
    OrderedDict
        New values, for `scanjit.function(updates=...)`.

    References
    ----------
    Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic optimization", 2011.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.updates import adagrad
    >>> w = sj.shared(3.0, "w")
    >>> step = sj.function([], updates=adagrad(w * w, [w]), mode="reference")
    >>> step(), step(), round(float(w.get_value()), 4)
    (None, None, 1.4453)
    """
    check_numbers("adagrad", learning_rate=learning_rate, epsilon=epsilon)
    updates = Updates()
    for param, grad in pairs(loss_or_grads, params):
        rate, eps = (number(value, param.dtype) for value in (learning_rate, epsilon))
        total = zeros_of(param, "accu")
        updates[total] = total + grad**2
        updates[param] = param - rate * grad / sj.sqrt(updates[total] + eps)
    return updates


def rmsprop(
    loss_or_grads: Any,
    params: Sequence[sj.SharedVariable],
    learning_rate: Any = 1.0,
    rho: Any = 0.9,
    epsilon: Any = 1e-6,
) -> Updates:
    """RMSProp: `accu = rho * accu + (1 - rho) * grad**2`, `param - learning_rate * grad / sqrt(accu + epsilon)`.

    Parameters
    ----------
    loss_or_grads : scalar expression, or list of gradients
    params : list of shared variables
    learning_rate, rho, epsilon : float or scalar expression

    Returns
    -------
    OrderedDict
        New values, for `scanjit.function(updates=...)`.

    References
    ----------
    Tieleman and Hinton, "Neural networks for machine learning", lecture 6.5, 2012.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.updates import rmsprop
    >>> w = sj.shared([1.0, 1.0], "w")
    >>> step = sj.function([], updates=rmsprop((w * w).sum(), [w], learning_rate=0.1), mode="reference")
    """
    check_numbers("rmsprop", learning_rate=learning_rate, rho=rho, epsilon=epsilon)
    updates = Updates()
    for param, grad in pairs(loss_or_grads, params):
        rate, decay, eps = (number(value, param.dtype) for value in (learning_rate, rho, epsilon))
        square = average(updates, param, "accu", grad**2, decay)
        updates[param] = param - rate * grad / sj.sqrt(square + eps)
    return updates


def adadelta(
    loss_or_grads: Any,
    params: Sequence[sj.SharedVariable],
    learning_rate: Any = 1.0,
    rho: Any = 0.95,
    epsilon: Any = 1e-6,
) -> Updates:
    """Adadelta: steps of the size of recent steps.

    `accu = rho * accu + (1 - rho) * grad**2`, `step = grad * sqrt(delta + epsilon) / sqrt(accu + epsilon)` with the old
    `delta`, `param - learning_rate * step`, `delta = rho * delta + (1 - rho) * step**2`.

    Parameters
    ----------
    loss_or_grads : scalar expression, or list of gradients
    params : list of shared variables
    learning_rate : float or scalar expression
        The paper has no learning rate: 1 is the same.
    rho, epsilon : float or scalar expression

    Returns
    -------
    OrderedDict
        New values, for `scanjit.function(updates=...)`.

    References
    ----------
    Zeiler, "ADADELTA: an adaptive learning rate method", 2012.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.updates import adadelta
    >>> w = sj.shared(3.0, "w")
    >>> step = sj.function([], updates=adadelta(w * w, [w]), mode="reference")
    >>> step(), step(), round(float(w.get_value()), 4)
    (None, None, 2.991)
    """
    check_numbers("adadelta", learning_rate=learning_rate, rho=rho, epsilon=epsilon)
    updates = Updates()
    for param, grad in pairs(loss_or_grads, params):
        rate, decay, eps = (number(value, param.dtype) for value in (learning_rate, rho, epsilon))
        square, delta = average(updates, param, "accu", grad**2, decay), zeros_of(param, "delta_accu")
        step = grad * sj.sqrt(delta + eps) / sj.sqrt(square + eps)
        updates[param] = param - rate * step
        updates[delta] = decay * delta + (1 - decay) * step**2
    return updates
