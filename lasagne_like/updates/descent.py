"""Gradient descent, and momentum for any rule."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import scanjit as sj
from lasagne_like.updates.gradients import Updates, check_numbers, pairs, zeros_of
from lasagne_like.utils import number

__all__ = ["apply_momentum", "apply_nesterov_momentum", "momentum", "nesterov_momentum", "sgd"]


def sgd(loss_or_grads: Any, params: Sequence[sj.SharedVariable], learning_rate: Any) -> Updates:
    """Stochastic gradient descent: `param - learning_rate * grad`.

    Parameters
    ----------
    loss_or_grads : scalar expression, or list of gradients
    params : list of shared variables
    learning_rate : float or scalar expression
        A shared variable can be changed between calls of the compiled function.

    Returns
    -------
    OrderedDict
        New values, for `scanjit.function(updates=...)`.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.updates import sgd
    >>> w = sj.shared(3.0, "w")
    >>> step = sj.function([], w * w, updates=sgd(w * w, [w], learning_rate=0.5), mode="reference")
    >>> step(), w.get_value()
    (array(9.), array(0.))
    """
    check_numbers("sgd", learning_rate=learning_rate)
    updates = Updates()
    for param, grad in pairs(loss_or_grads, params):
        updates[param] = param - number(learning_rate, param.dtype) * grad
    return updates


def apply_momentum(
    updates: Mapping[sj.SharedVariable, sj.Node],
    params: Iterable[sj.SharedVariable] | None = None,
    momentum: Any = 0.9,
) -> Updates:
    """Add momentum to any updates: `velocity = momentum * velocity + step`, `param + velocity`.

    Here `step` is what the given updates would add to a parameter.

    Parameters
    ----------
    updates : dict of new values
    params : iterable of shared variables, optional
        The variables that get momentum. By default all that have an update, including the memory of rules other than
        `sgd`.
    momentum : float or scalar expression

    Returns
    -------
    OrderedDict
        The changed updates, and those of the velocities.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.updates import apply_momentum, sgd
    >>> w = sj.shared(1.0, "w")
    >>> updates = apply_momentum(sgd(w, [w], learning_rate=1.0), momentum=0.5)
    >>> step = sj.function([], updates=updates, mode="reference")
    >>> step(), step(), w.get_value()  # 1 - 1 - 1.5
    (None, None, array(-1.5))
    """
    return _with_velocities(updates, params, momentum, ahead=False)


def _with_velocities(
    updates: Mapping[sj.SharedVariable, sj.Node],
    params: Iterable[sj.SharedVariable] | None,
    momentum: Any,
    ahead: bool,
) -> Updates:
    """Updates with velocities. `ahead` is for Nesterov's momentum: a parameter moves by its new velocity once more."""
    check_numbers("apply_nesterov_momentum" if ahead else "apply_momentum", momentum=momentum)
    result = Updates(updates)
    for param in list(updates) if params is None else params:
        if param not in updates:
            raise ValueError(f"{param!r} has no update, so it cannot get momentum")
        velocity = zeros_of(param, "velocity")
        rate, new = number(momentum, param.dtype), sj.cast(updates[param], param.dtype)
        moved = rate * velocity + new
        result[velocity] = moved - param
        result[param] = rate * result[velocity] + new if ahead else moved
    return result


def momentum(
    loss_or_grads: Any, params: Sequence[sj.SharedVariable], learning_rate: Any, momentum: Any = 0.9
) -> Updates:
    """Gradient descent with momentum: `velocity = momentum * velocity - learning_rate * grad`, `param + velocity`.

    Parameters
    ----------
    loss_or_grads, params, learning_rate : see `sgd`
    momentum : float or scalar expression

    Returns
    -------
    OrderedDict
        New values, for `scanjit.function(updates=...)`.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.updates import momentum
    >>> w = sj.shared(3.0, "w")
    >>> step = sj.function([], updates=momentum(w * w, [w], learning_rate=0.1, momentum=0.5), mode="reference")
    >>> step(), step(), round(float(w.get_value()), 4)
    (None, None, 1.62)
    """
    return apply_momentum(sgd(loss_or_grads, params, learning_rate), momentum=momentum)


def apply_nesterov_momentum(
    updates: Mapping[sj.SharedVariable, sj.Node],
    params: Iterable[sj.SharedVariable] | None = None,
    momentum: Any = 0.9,
) -> Updates:
    """Add Nesterov's momentum to any updates.

    `velocity = momentum * velocity + step`, `param + momentum * velocity + step`: the form that takes the gradient
    at the current parameters.

    Parameters
    ----------
    updates, params, momentum : see `apply_momentum`

    Returns
    -------
    OrderedDict
        New values, for `scanjit.function(updates=...)`.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.updates import apply_nesterov_momentum, rmsprop
    >>> w = sj.shared(1.0, "w")
    >>> [v.name for v in apply_nesterov_momentum(rmsprop(w * w, [w]), [w])]
    ['w.accu', 'w', 'w.velocity']
    """
    return _with_velocities(updates, params, momentum, ahead=True)


def nesterov_momentum(
    loss_or_grads: Any, params: Sequence[sj.SharedVariable], learning_rate: Any, momentum: Any = 0.9
) -> Updates:
    """Gradient descent with Nesterov's momentum; see `apply_nesterov_momentum`.

    Parameters
    ----------
    loss_or_grads, params, learning_rate : see `sgd`
    momentum : float or scalar expression

    Returns
    -------
    OrderedDict
        New values, for `scanjit.function(updates=...)`.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.updates import nesterov_momentum
    >>> w = sj.shared(3.0, "w")
    >>> step = sj.function([], updates=nesterov_momentum(w * w, [w], learning_rate=0.1, momentum=0.5), mode="reference")
    >>> step(), step(), round(float(w.get_value()), 4)
    (None, None, 1.32)
    """
    return apply_nesterov_momentum(sgd(loss_or_grads, params, learning_rate), momentum=momentum)
