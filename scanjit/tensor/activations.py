"""Nonlinearities of neural networks that are made of other functions."""

import math

from scanjit.ir import Node, apply
from scanjit.ops import elementwise as ops
from scanjit.symbol import TensorLike
from scanjit.tensor.elementwise import clip, erfc, expm1, sigmoid, tanh, where
from scanjit.tensor.variables import inexact

__all__ = ["elu", "gelu", "hard_sigmoid", "selu", "silu", "softsign"]


def elu(x: TensorLike, alpha: float = 1.0) -> Node:
    """`x` where it is positive, else `alpha * (exp(x) - 1)`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.elu([-1.0, 0.0, 2.0]).round(6), mode="reference")()
    array([-0.632121,  0.      ,  2.      ])
    """
    x = inexact(x)
    return where(x > 0, x, alpha * expm1(where(x > 0, 0, x)))


def selu(x: TensorLike) -> Node:
    """The self-normalizing `elu` of Klambauer et al. (2017).

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.selu([-1.0, 0.0, 2.0]).round(6), mode="reference")()
    array([-1.111331,  0.      ,  2.101402])
    """
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


def gelu(x: TensorLike, approximate: bool = False) -> Node:
    """`x` times the probability that a standard normal number is smaller than `x`. With `approximate`, by tanh.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.gelu([-1.0, 0.0, 2.0]).round(6), mode="reference")()
    array([-0.158655,  0.      ,  1.9545  ])
    """
    x = inexact(x)
    if approximate:
        return 0.5 * x * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    return 0.5 * x * erfc(x * -math.sqrt(0.5))


def silu(x: TensorLike) -> Node:
    """`x * sigmoid(x)`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.silu([-1.0, 0.0, 2.0]).round(6), mode="reference")()
    array([-0.268941,  0.      ,  1.761594])
    """
    x = inexact(x)
    return x * sigmoid(x)


def hard_sigmoid(x: TensorLike) -> Node:
    """`0.2 * x + 0.5`, kept between 0 and 1.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.hard_sigmoid([-3.0, 0.0, 1.0]), mode="reference")()
    array([0. , 0.5, 0.7])
    """
    return clip(0.2 * inexact(x) + 0.5, 0, 1)


def softsign(x: TensorLike) -> Node:
    """`x / (1 + abs(x))`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.softsign([-1.0, 0.0, 3.0]), mode="reference")()
    array([-0.5 ,  0.  ,  0.75])
    """
    x = inexact(x)
    return x / (1 + apply(ops.ABS, x))
