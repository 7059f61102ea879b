"""Adam and its relatives: running averages of the gradient and of its size, corrected for their start at zero."""

from collections.abc import Callable, Sequence
from typing import Any

import scanjit as sj
from lasagne_like.updates.gradients import Updates, average, check_numbers, pairs, zeros_of
from lasagne_like.utils import floatX, number

__all__ = ["adam", "adamax", "adamw", "amsgrad"]


def adam(
    loss_or_grads: Any,
    params: Sequence[sj.SharedVariable],
    learning_rate: Any = 0.001,
    beta1: Any = 0.9,
    beta2: Any = 0.999,
    epsilon: Any = 1e-8,
) -> Updates:
    """Adam.

    `m = beta1 * m + (1 - beta1) * grad`, `v = beta2 * v + (1 - beta2) * grad**2`,
    `a = learning_rate * sqrt(1 - beta2**t) / (1 - beta1**t)` for the t-th call, `param - a * m / (sqrt(v) + epsilon)`.

    Parameters
    ----------
    loss_or_grads : scalar expression, or list of gradients
    params : list of shared variables
    learning_rate, beta1, beta2, epsilon : float or scalar expression

    Returns
    -------
    OrderedDict
        New values, for `scanjit.function(updates=...)`.

    References
    ----------
    Kingma and Ba, "Adam: a method for stochastic optimization", 2014.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.updates import adam
    >>> w = sj.shared(3.0, "w")
    >>> step = sj.function([], updates=adam(w * w, [w], learning_rate=0.5), mode="reference")
    >>> step(), round(float(w.get_value()), 6)
    (None, 2.5)
    """
    return _averaged("adam", loss_or_grads, params, learning_rate, beta1, beta2, epsilon, _root)


def adamw(
    loss_or_grads: Any,
    params: Sequence[sj.SharedVariable],
    learning_rate: Any = 0.001,
    beta1: Any = 0.9,
    beta2: Any = 0.999,
    epsilon: Any = 1e-8,
    weight_decay: Any = 0.01,
) -> Updates:
    """Adam with decoupled weight decay: `learning_rate * weight_decay * param` is subtracted from a parameter, and the
    gradients do not contain the decay.

    Parameters
    ----------
    loss_or_grads, params, learning_rate, beta1, beta2, epsilon : see `adam`
        All these parameters decay. Use `adam` for those that should not, and join the updates.
    weight_decay : float or scalar expression

    Returns
    -------
    OrderedDict
        New values, for `scanjit.function(updates=...)`.

    References
    ----------
    Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.updates import adamw
    >>> w = sj.shared(3.0, "w")
    >>> step = sj.function([], updates=adamw(w * w, [w], learning_rate=0.5), mode="reference")
    >>> step(), step(), round(float(w.get_value()), 4)
    (None, None, 1.9772)
    """
    check_numbers("adamw", learning_rate=learning_rate, weight_decay=weight_decay)
    decay = lambda param: 1 - number(learning_rate, param.dtype) * number(weight_decay, param.dtype)
    return _averaged("adamw", loss_or_grads, params, learning_rate, beta1, beta2, epsilon, _root, decay)


Divisor = Callable[[Updates, sj.SharedVariable, sj.Node, sj.Node], sj.Node]
"""A function of the updates, a parameter, its gradient and `beta2` that returns the divisor of the step, and adds its
own updates."""


def _averaged(
    rule: str,
    loss_or_grads: Any,
    params: Sequence[sj.SharedVariable],
    learning_rate: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    divisor: Divisor,
    decay: Callable[[sj.SharedVariable], Any] | None = None,
) -> Updates:
    """`param - rate * m / (divisor + epsilon)`, where `m` is the average of the gradients. With `decay`,
    `param * decay(param)` replaces `param`.

    In the t-th call, the rate is `learning_rate / (1 - beta1**t)`. If the divisor is a root of averages, it is
    multiplied by `sqrt(1 - beta2**t)`. Both differences are float64: they are small at first, and would lose precision.
    """
    check_numbers(rule, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon)
    updates, steps = Updates(), sj.shared(floatX(0.0), "t")
    t = sj.cast(steps + 1, "float64")
    rate, b1, b2 = (number(value, "float64") for value in (learning_rate, beta1, beta2))
    current = (rate if divisor is _largest else rate * sj.sqrt(1 - b2**t)) / (1 - b1**t)
    for param, grad in pairs(loss_or_grads, params):
        b1, b2, eps = (number(value, param.dtype) for value in (beta1, beta2, epsilon))
        m = average(updates, param, "m", grad, b1)
        size = divisor(updates, param, grad, b2)
        kept = param if decay is None else param * decay(param)
        updates[param] = kept - sj.cast(current, param.dtype) * m / (size + eps)
    updates[steps] = steps + 1
    return updates


def _root(updates: Updates, param: sj.SharedVariable, grad: sj.Node, b2: sj.Node) -> sj.Node:
    return sj.sqrt(average(updates, param, "v", grad**2, b2))


def _largest_root(updates: Updates, param: sj.SharedVariable, grad: sj.Node, b2: sj.Node) -> sj.Node:
    square, largest = average(updates, param, "v", grad**2, b2), zeros_of(param, "v_hat")
    updates[largest] = sj.maximum(largest, square)
    return sj.sqrt(updates[largest])


def _largest(updates: Updates, param: sj.SharedVariable, grad: sj.Node, b2: sj.Node) -> sj.Node:
    u = zeros_of(param, "u")
    updates[u] = sj.maximum(b2 * u, abs(grad))
    return updates[u]


def adamax(
    loss_or_grads: Any,
    params: Sequence[sj.SharedVariable],
    learning_rate: Any = 0.002,
    beta1: Any = 0.9,
    beta2: Any = 0.999,
    epsilon: Any = 1e-8,
) -> Updates:
    """Adamax, Adam with the largest recent gradient in place of the root mean square.

    `m` as in `adam`, `u = max(beta2 * u, |grad|)`, `param - learning_rate / (1 - beta1**t) * m / (u + epsilon)`.

    Parameters
    ----------
    loss_or_grads, params, learning_rate, beta1, beta2, epsilon : see `adam`

    Returns
    -------
    OrderedDict
        New values, for `scanjit.function(updates=...)`.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.updates import adamax
    >>> w = sj.shared(3.0, "w")
    >>> step = sj.function([], updates=adamax(w * w, [w], learning_rate=0.5), mode="reference")
    >>> step(), step(), round(float(w.get_value()), 4)
    (None, None, 2.0434)
    """
    return _averaged("adamax", loss_or_grads, params, learning_rate, beta1, beta2, epsilon, _largest)


def amsgrad(
    loss_or_grads: Any,
    params: Sequence[sj.SharedVariable],
    learning_rate: Any = 0.001,
    beta1: Any = 0.9,
    beta2: Any = 0.999,
    epsilon: Any = 1e-8,
) -> Updates:
    """AMSGrad, Adam whose divisor never shrinks: `w = max(w, v)` takes the place of `v`.

    Parameters
    ----------
    loss_or_grads, params, learning_rate, beta1, beta2, epsilon : see `adam`

    Returns
    -------
    OrderedDict
        New values, for `scanjit.function(updates=...)`.

    References
    ----------
    Reddi, Kale and Kumar, "On the convergence of Adam and beyond", 2018.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.updates import amsgrad
    >>> w = sj.shared(3.0, "w")
    >>> step = sj.function([], updates=amsgrad(w * w, [w], learning_rate=0.5), mode="reference")
    >>> step(), step(), round(float(w.get_value()), 4)
    (None, None, 2.0044)
    """
    return _averaged("amsgrad", loss_or_grads, params, learning_rate, beta1, beta2, epsilon, _largest_root)
