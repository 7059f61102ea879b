"""Questions about numbers, and logic: results are booleans."""

from __future__ import annotations

import math

from scanjit.ir import Node, apply
from scanjit.ops import elementwise as ops
from scanjit.ops.elementwise import hypot as hypot
from scanjit.ops.functions import power as power
from scanjit.ops.promotion import truth
from scanjit.symbol import TensorLike
from scanjit.tensor.variables import as_tensor, inexact

__all__ = [
    "isclose",
    "isfinite",
    "isneginf",
    "isposinf",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "signbit",
]


def isfinite(x: TensorLike) -> Node:
    """Whether neither NaN nor infinite.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.isfinite([1.0, float("inf"), float("nan")]), mode="reference")()
    array([ True, False, False])
    """
    return apply(ops.ABS, inexact(x)) < math.inf


def logical_and(x: TensorLike, y: TensorLike) -> Node:
    """Whether both are not 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.logical_and([0, 1, 2], [True, True, False]), mode="reference")()
    array([False,  True, False])
    """
    return apply(ops.AND, truth(as_tensor(x)), truth(as_tensor(y)))


def logical_or(x: TensorLike, y: TensorLike) -> Node:
    """Whether one or both are not 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.logical_or([0, 1, 0], [True, True, False]), mode="reference")()
    array([ True,  True, False])
    """
    return apply(ops.OR, truth(as_tensor(x)), truth(as_tensor(y)))


def logical_xor(x: TensorLike, y: TensorLike) -> Node:
    """Whether exactly one is not 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.logical_xor([0, 1, 0], [True, True, False]), mode="reference")()
    array([ True, False, False])
    """
    return apply(ops.XOR, truth(as_tensor(x)), truth(as_tensor(y)))


def logical_not(x: TensorLike) -> Node:
    """Whether it is 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.logical_not([0, 1, 2]), mode="reference")()
    array([ True, False, False])
    """
    return apply(ops.INVERT, truth(as_tensor(x)))


def isclose(a: TensorLike, b: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Node:
    """Whether `a` and `b` differ by at most `atol + rtol * abs(b)`. See `numpy.isclose`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.isclose([1.0, 2.0], [1.0 + 1e-9, 2.1]), mode="reference")()
    array([ True, False])
    """
    a, b = ops.DIV.prepare((a, b))
    near = isfinite(b) & (apply(ops.ABS, a - b) <= atol + rtol * apply(ops.ABS, b))
    same = (a == b) | near
    return same | ((a != a) & (b != b)) if equal_nan else same


def signbit(x: TensorLike) -> Node:
    """Whether a number is negative, -0.0 too. NaN is not.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.signbit([-2.0, -0.0, 0.0]), mode="reference")()
    array([ True,  True, False])
    """
    x = as_tensor(x)
    if not x.type.kind.floating:
        return x < 0
    return (x < 0) | ((x == 0) & (1 / x < 0))


def isposinf(x: TensorLike) -> Node:
    """Whether a number is inf.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.isposinf([1.0, float("inf"), -float("inf")]), mode="reference")()
    array([False,  True, False])
    """
    return inexact(x) == math.inf


def isneginf(x: TensorLike) -> Node:
    """Whether a number is -inf.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.isneginf([1.0, float("inf"), -float("inf")]), mode="reference")()
    array([False, False,  True])
    """
    return inexact(x) == -math.inf
