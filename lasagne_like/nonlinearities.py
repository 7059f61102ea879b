"""Nonlinearities: elementwise functions (and `softmax`, over the last axis) of expressions.

For a NumPy array they return an array.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.shown import NamedFunction, Shown
from lasagne_like.utils import number

__all__ = [
    "SELU",
    "LeakyRectify",
    "ScaledTanH",
    "ScaledTanh",
    "elu",
    "identity",
    "leaky_rectify",
    "linear",
    "rectify",
    "selu",
    "sigmoid",
    "softmax",
    "softplus",
    "tanh",
    "very_leaky_rectify",
]


def _computed_for_arrays(expression: Callable[..., Any]) -> Callable[..., Any]:
    """A function of expressions that also takes a NumPy array as its last argument, and then returns an array."""

    @functools.wraps(expression)
    def nonlinearity(*args: Any) -> Any:
        found = expression(*args)
        return sj.function([], found, mode="reference")() if isinstance(args[-1], np.ndarray) else found

    return nonlinearity


def _nonlinearity(expression: Callable[[Any], Any]) -> NamedFunction[[Any], Any]:
    """`_computed_for_arrays` for a function of one expression. The result is shown as its name."""
    return NamedFunction(_computed_for_arrays(expression))


def or_identity(nonlinearity: Any) -> Any:
    """A nonlinearity as layers and cells keep it: `identity` for None.

    Examples
    --------
    >>> from lasagne_like.nonlinearities import or_identity, tanh
    >>> or_identity(None), or_identity(tanh)
    (linear, tanh)
    """
    if nonlinearity is not None and not callable(nonlinearity):
        raise TypeError(
            f"a nonlinearity must be a function, such as nonlinearities.tanh, or None; got {nonlinearity!r}"
        )
    return identity if nonlinearity is None else nonlinearity


@_nonlinearity
def sigmoid(x: Any) -> Any:
    """`1 / (1 + exp(-x))`.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.nonlinearities import sigmoid
    >>> sj.function([], sigmoid([-1.0, 0.0, 1.0]), mode="reference")().round(3)
    array([0.269, 0.5  , 0.731])
    """
    return sj.sigmoid(x)


@_nonlinearity
def softmax(x: Any) -> Any:
    """`exp(x)` divided by its sum over the last axis.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.nonlinearities import softmax
    >>> sj.function([], softmax([[0.0, 0.0]]), mode="reference")()
    array([[0.5, 0.5]])
    """
    return sj.softmax(x, axis=-1)


@_nonlinearity
def tanh(x: Any) -> Any:
    """The hyperbolic tangent.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.nonlinearities import tanh
    >>> sj.function([], tanh([-1.0, 0.0, 1.0]), mode="reference")().round(3)
    array([-0.762,  0.   ,  0.762])
    """
    return sj.tanh(x)


class ScaledTanH(Shown):
    """`scale_out * tanh(scale_in * x)`.

    With `scale_in=2/3` and `scale_out=1.7159` (LeCun et al., "Efficient backprop", 1998) it maps 1 to 1 and -1 to -1.

    Parameters
    ----------
    scale_in, scale_out : float

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.nonlinearities import ScaledTanH
    >>> f = ScaledTanH(scale_in=2 / 3, scale_out=1.7159)
    >>> round(float(sj.function([], f(1.0), mode="reference")()), 3)
    1.0
    """

    def __init__(self, scale_in: Any = 1, scale_out: Any = 1) -> None:
        self.scale_in, self.scale_out = scale_in, scale_out

    @_computed_for_arrays
    def __call__(self, x: Any) -> Any:
        x = sj.as_tensor(x)
        return sj.tanh(x * number(self.scale_in, x.dtype)) * number(self.scale_out, x.dtype)


ScaledTanh = ScaledTanH


@_nonlinearity
def rectify(x: Any) -> Any:
    """`max(0, x)`.

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> from lasagne_like.nonlinearities import rectify
    >>> sj.function([], rectify([-1.0, 0.0, 1.0]), mode="reference")().round(3)
    array([0., 0., 1.])
    >>> rectify(np.array([-1.0, 0.0, 1.0]))
    array([0., 0., 1.])
    """
    return sj.relu(x)


class LeakyRectify(Shown):
    """`x` where it is positive, `leakiness * x` elsewhere.

    Parameters
    ----------
    leakiness : float
        The slope for negative input: 0 gives `rectify`, 1 gives `linear`.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.nonlinearities import LeakyRectify
    >>> sj.function([], LeakyRectify(0.1)([-2.0, 2.0]), mode="reference")()
    array([-0.2,  2. ])
    """

    def __init__(self, leakiness: Any = 0.01) -> None:
        self.leakiness = leakiness

    @_computed_for_arrays
    def __call__(self, x: Any) -> Any:
        x = sj.as_tensor(x)
        return sj.where(x > 0, x, x * number(self.leakiness, x.dtype))


leaky_rectify = LeakyRectify()
"""A leaky rectifier with leakiness 0.01."""

very_leaky_rectify = LeakyRectify(1 / 3)
"""A leaky rectifier with leakiness 1/3."""


@_nonlinearity
def elu(x: Any) -> Any:
    """`x` where it is positive, `exp(x) - 1` elsewhere.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.nonlinearities import elu
    >>> sj.function([], elu([-1.0, 0.0, 1.0]), mode="reference")().round(3)
    array([-0.632,  0.   ,  1.   ])
    """
    return sj.elu(x)


class SELU(Shown):
    """`scale * x` where `x` is positive, `scale * scale_neg * (exp(x) - 1)` elsewhere.

    Parameters
    ----------
    scale, scale_neg : float

    References
    ----------
    Klambauer et al., "Self-normalizing neural networks", 2017.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.nonlinearities import SELU
    >>> sj.function([], SELU(2, 3)([1.0, -1e9]), mode="reference")()
    array([ 2., -6.])
    """

    def __init__(self, scale: Any = 1, scale_neg: Any = 1) -> None:
        self.scale, self.scale_neg = scale, scale_neg

    @_computed_for_arrays
    def __call__(self, x: Any) -> Any:
        x = sj.as_tensor(x)
        scale, scale_neg = number(self.scale, x.dtype), number(self.scale_neg, x.dtype)
        return scale * sj.where(x > 0, x, scale_neg * sj.expm1(sj.minimum(x, 0)))


selu = SELU(scale=1.0507009873554804934193349852946, scale_neg=1.6732632423543772848170429916717)
"""The scaled exponential linear unit with a fixed point at mean 0 and variance 1."""


@_nonlinearity
def softplus(x: Any) -> Any:
    """`log(1 + exp(x))`.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.nonlinearities import softplus
    >>> sj.function([], softplus([-1.0, 0.0, 1.0]), mode="reference")().round(3)
    array([0.313, 0.693, 1.313])
    """
    return sj.softplus(x)


@NamedFunction
def linear(x: Any) -> Any:
    """`x` itself.

    Examples
    --------
    >>> from lasagne_like.nonlinearities import linear
    >>> linear(3)
    3
    """
    return x


identity = linear
