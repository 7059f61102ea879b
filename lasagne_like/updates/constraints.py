"""Keeping the norms of weights and of gradients within bounds."""

from collections.abc import Sequence
from typing import Any

import scanjit as sj
from lasagne_like.updates.gradients import check_numbers
from lasagne_like.utils import is_expression, norm_axes_of, number

__all__ = ["norm_constraint", "total_norm_constraint"]


def norm_constraint(
    tensor_var: Any, max_norm: Any, norm_axes: Sequence[int] | None = None, epsilon: Any = 1e-7
) -> sj.Node:
    """Weights, scaled down for each unit whose incoming weights have too large a norm.

    Parameters
    ----------
    tensor_var : expression
        New weights or gradients, for instance.
    max_norm : float or scalar expression
    norm_axes : sequence of ints, optional
        The axes that a norm is taken over: by default the first for matrices, all but the first for 3 to 5 dimensions.
    epsilon : float or scalar expression
        Added to norms before dividing by them.

    Returns
    -------
    expression

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.updates import norm_constraint
    >>> w = sj.constant([[3.0, 0.3], [4.0, 0.4]])
    >>> sj.function([], norm_constraint(w, 1.0), mode="reference")().round(3)
    array([[0.6, 0.3],
           [0.8, 0.4]])
    """
    check_numbers("norm_constraint", max_norm=max_norm, epsilon=epsilon)
    x = sj.as_tensor(tensor_var)
    axes = norm_axes_of(x.ndim, norm_axes)
    norms = sj.sqrt(sj.sum(x * x, axis=axes, keepdims=True))
    allowed = sj.clip(norms, 0, number(max_norm, x.dtype))
    return x * (allowed / (number(epsilon, x.dtype) + norms))


def total_norm_constraint(
    tensor_vars: Sequence[Any], max_norm: Any, epsilon: Any = 1e-7, return_norm: bool = False
) -> Any:
    """Tensors scaled down together if the norm of all their elements is too large, as gradients often are.

    Parameters
    ----------
    tensor_vars : list of expressions
    max_norm, epsilon : float or scalar expression
    return_norm : bool

    Returns
    -------
    list of expressions, or with `return_norm` a pair of that and of the norm before scaling

    References
    ----------
    Sutskever, Vinyals and Le, "Sequence to sequence learning with neural networks", 2014.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.updates import total_norm_constraint
    >>> scaled, norm = total_norm_constraint([sj.constant(3.0), sj.constant(4.0)], 1.0, return_norm=True)
    >>> [round(float(v), 3) for v in sj.function([], [*scaled, norm], mode="reference")()]
    [0.6, 0.8, 5.0]
    """
    check_numbers("total_norm_constraint", max_norm=max_norm, epsilon=epsilon)
    if is_expression(tensor_vars):
        raise TypeError(f"tensor_vars must be a list of expressions, got {tensor_vars!r}: write [it]")
    tensors = [sj.as_tensor(x) for x in tensor_vars]
    squares = [sj.sum(x * x) for x in tensors]
    norm = sj.sqrt(sum(squares[1:], squares[0]) if squares else sj.constant(0.0))
    multiplier = sj.clip(norm, 0, number(max_norm, norm.dtype)) / (number(epsilon, norm.dtype) + norm)
    scaled = [x * sj.cast(multiplier, x.dtype) for x in tensors]
    return (scaled, norm) if return_norm else scaled
