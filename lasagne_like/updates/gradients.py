"""The base of all update rules: gradients, and variables with the state of a rule for each parameter."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.checks import check_number
from lasagne_like.utils import is_expression

__all__ = ["Updates", "get_or_compute_grads"]

Updates = OrderedDict[sj.SharedVariable, sj.Node]
"""The result of an update rule: a new value for each shared variable, for `scanjit.function(updates=...)`."""


def get_or_compute_grads(loss_or_grads: Any, params: Sequence[sj.SharedVariable]) -> list[sj.Node]:
    """The gradients of a loss, or those that are given.

    Parameters
    ----------
    loss_or_grads : scalar expression, or list of expressions
        A list has a gradient for each parameter, and is returned as it is.
    params : list of shared variables

    Raises
    ------
    TypeError
        If the parameters are no list, but a layer or one shared variable.
    ValueError
        If a parameter is not a shared variable (it could not be updated), or a list has another length.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.updates import get_or_compute_grads
    >>> w = sj.shared([1.0, 2.0], "w")
    >>> sj.function([], get_or_compute_grads((w * w).sum(), [w]), mode="reference")()
    [array([2., 4.])]
    """
    _check_list(params)
    for i, param in enumerate(params):
        if not isinstance(param, sj.SharedVariable):
            raise ValueError(
                f"params must be shared variables, but entry {i} is {param!r}; lasagne_like.utils.collect_shared_vars "
                "gives those that an expression is computed from"
            )
    if not isinstance(loss_or_grads, list | tuple):
        return list(sj.grad(loss_or_grads, list(params)))
    if len(loss_or_grads) != len(params):
        raise ValueError(f"got {len(loss_or_grads)} gradient expressions for {len(params)} parameters")
    for i, (grad, param) in enumerate(zip(loss_or_grads, params, strict=True)):
        if np.ndim(grad) != param.ndim:
            raise ValueError(f"gradient {i} has {np.ndim(grad)} axes, but {param!r} has {param.ndim}")
    return loss_or_grads  # type: ignore[return-value]


def _check_list(params: Any) -> None:
    if isinstance(params, sj.SharedVariable):
        raise TypeError(f"params must be a list of shared variables, got {params!r}: write [{params.name or 'w'}]")
    if not isinstance(params, Iterable):
        fix = "write lasagne_like.layers.get_all_params(network, trainable=True)"
        raise TypeError(f"params must be a list of shared variables, got {params!r}: {fix}")


def check_numbers(rule: str, **given: Any) -> None:
    """Raise an error if a number of an update rule is negative, NaN or no number. How much of an average is kept is at
    most 1, and `beta1` is less: rules divide by `1 - beta1**t`."""
    for what, value in given.items():
        check_number(rule, value, what, most=1 if what in ("beta1", "beta2", "rho") else np.inf)
        if what == "beta1" and not is_expression(value) and value == 1:
            raise ValueError(f"beta1 of {rule} must be less than 1, got {value!r}: it is divided by 1 - beta1")


def pairs(loss_or_grads: Any, params: Sequence[sj.SharedVariable]) -> list[tuple[sj.SharedVariable, sj.Node]]:
    """Parameters with their gradients, in the dtype of the parameter."""
    _check_list(params)
    params = list(params)
    grads = get_or_compute_grads(loss_or_grads, params)
    return [(p, sj.cast(g, p.dtype)) for p, g in zip(params, grads, strict=True)]


def zeros_of(param: sj.SharedVariable, suffix: str) -> sj.SharedVariable:
    """A shared variable of zeros with the shape and dtype of a parameter, for the state of a rule. Its name ends
    with `suffix`."""
    return sj.shared(np.zeros_like(param.get_value(borrow=True)), f"{param.name}.{suffix}" if param.name else suffix)


def average(updates: Updates, param: sj.SharedVariable, suffix: str, value: Any, decay: Any) -> sj.Node:
    """The running average of a value, `decay * old + (1 - decay) * value`. Its update is added to `updates`."""
    old = zeros_of(param, suffix)
    updates[old] = decay * old + (1 - decay) * value
    return updates[old]
