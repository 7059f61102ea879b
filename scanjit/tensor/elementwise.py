"""Elementwise functions, with NumPy's names where NumPy has them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from scanjit import errors
from scanjit.ir import COMPLEX, Node, apply
from scanjit.kinds import kind_of
from scanjit.ops import elementwise as ops, functions, promotion
from scanjit.ops.elementwise import hypot as hypot
from scanjit.ops.functions import power as power
from scanjit.ops.parts import is_complex
from scanjit.ops.promotion import Elementwise
from scanjit.symbol import TensorLike
from scanjit.tensor.names import defined
from scanjit.tensor.questions import signbit
from scanjit.tensor.variables import as_tensor, inexact, integer


class _Unary(Protocol):
    """A function of one tensor, element by element."""

    def __call__(self, x: TensorLike) -> Node: ...


class _Binary(Protocol):
    """A function of two tensors, element by element."""

    def __call__(self, x: TensorLike, y: TensorLike) -> Node: ...


def _unary(op: Elementwise, name: str | None = None) -> _Unary:
    """The public function of an op of one operand."""

    def function(x: Any) -> Node:
        return apply(op, x)

    return _described(function, op, name or op.name, "x")


def _binary(op: Elementwise, name: str | None = None) -> _Binary:
    """The public function of an op of two operands."""

    def function(x: Any, y: Any) -> Node:
        return apply(op, x, y)

    return _described(function, op, name or op.name, "x, y")


def _described(function: Callable[..., Node], op: Elementwise, name: str, operands: str) -> Callable[..., Node]:
    """The function with a name and a docstring made from the description of the op."""
    what = op.doc or (op.formula if op.formula != f"{name}({operands})" else "")
    taken = (
        "Broadcast against each other, and promoted to one dtype, as by NumPy 2."
        if ", " in operands
        else "Of any shape."
    )
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    values: list[list[float]] = [[1.0, 0.5], [0.5, 2.0]] if "f" in op.takes else [[1, 2], [3, 2]]
    given = [[min(max(v, low), high) for v in row] for row, (low, high) in zip(values, op.domain, strict=False)]
    result = op.reference(*map(np.array, given))
    call = f"sj.{name}({', '.join(map(str, given))})" + (".round(4)" if kind_of(result.dtype).floating else "")
    function.__doc__ = f"""`{name}({operands})`, element by element{": " + what if what else ""}.

    Parameters
    ----------
    {operands} : tensor_like
        {taken}

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], {call}, mode="reference")()
    {result.round(4) if kind_of(result.dtype).floating else result!r}
    """
    return function


abs = _unary(ops.ABS)
absolute = _unary(ops.ABS, "absolute")
sign = _unary(ops.SIGN)
negative = _unary(ops.NEG, "negative")
invert = _unary(ops.INVERT)
sqrt = _unary(ops.SQRT)
cbrt = _unary(functions.CBRT)
exp = _unary(functions.EXP)
exp2 = _unary(functions.EXP2)
expm1 = _unary(functions.EXPM1)
log = _unary(functions.LOG)
log2 = _unary(functions.LOG2)
log10 = _unary(functions.LOG10)
log1p = _unary(functions.LOG1P)
sin = _unary(functions.SIN)
cos = _unary(functions.COS)
tan = _unary(functions.TAN)
arcsin = _unary(functions.ARCSIN)
arccos = _unary(functions.ARCCOS)
arctan = _unary(functions.ARCTAN)
sinh = _unary(functions.SINH)
cosh = _unary(functions.COSH)
tanh = _unary(functions.TANH)
arcsinh = _unary(functions.ARCSINH)
arccosh = _unary(functions.ARCCOSH)
arctanh = _unary(functions.ARCTANH)
sigmoid = _unary(functions.SIGMOID)
expit = _unary(functions.SIGMOID, "expit")
softplus = _unary(functions.SOFTPLUS)
log_sigmoid = _unary(functions.LOG_SIGMOID)
relu = _unary(functions.RELU)
erf = _unary(functions.ERF)
erfc = _unary(functions.ERFC)
erfinv = _unary(functions.ERFINV)
i0e = _unary(functions.I0E)
i1e = _unary(functions.I1E)
gammaln = _unary(functions.GAMMALN)
digamma = _unary(functions.DIGAMMA)
floor = _unary(ops.FLOOR)
ceil = _unary(ops.CEIL)
trunc = _unary(ops.TRUNC)
isnan = _unary(ops.ISNAN)
isinf = _unary(ops.ISINF)

add = _binary(ops.ADD)
subtract = _binary(ops.SUB, "subtract")
multiply = _binary(ops.MUL, "multiply")
divide = _binary(ops.DIV, "divide")
true_divide = _binary(ops.DIV, "true_divide")
floor_divide = _binary(ops.FLOORDIV, "floor_divide")
mod = _binary(ops.MOD)
remainder = _binary(ops.MOD, "remainder")
maximum = _binary(ops.MAXIMUM)
minimum = _binary(ops.MINIMUM)
arctan2 = _binary(functions.ARCTAN2)
less = _binary(ops.LESS)
less_equal = _binary(ops.LESS_EQUAL)
greater = _binary(ops.GREATER)
greater_equal = _binary(ops.GREATER_EQUAL)
equal = _binary(ops.EQUAL)
not_equal = _binary(ops.NOT_EQUAL)
bitwise_and = _binary(ops.AND, "bitwise_and")
bitwise_or = _binary(ops.OR, "bitwise_or")
bitwise_xor = _binary(ops.XOR, "bitwise_xor")
left_shift = _binary(ops.LEFT_SHIFT)
right_shift = _binary(ops.RIGHT_SHIFT)
pow = power


def positive(x: TensorLike) -> Node:
    """`x` itself.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.positive([-1.0, 2.0]), mode="reference")()
    array([-1.,  2.])
    """
    return as_tensor(x)


def cast(x: TensorLike, dtype: DTypeLike) -> Node:
    """`x` in another dtype. Floats become integers by dropping their fraction. As a bool, anything but zero is True.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.cast([-1.5, 0.0, 2.7], "int64"), mode="reference")()
    array([-1,  0,  2])
    """
    return promotion.cast(as_tensor(x), dtype)


def square(x: TensorLike) -> Node:
    """`x * x`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.square([1.0, -3.0]), mode="reference")()
    array([1., 9.])
    """
    return power(x, 2)


def fabs(x: TensorLike) -> Node:
    """The absolute value, as a float.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.fabs([-2, 3]), mode="reference")()
    array([2., 3.])
    """
    return abs(inexact(x))


def reciprocal(x: TensorLike) -> Node:
    """`1 / x`, as a float: of integers, too, as in PyTorch and JAX. (NumPy's is then an integer, mostly 0.)

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.reciprocal([2, 4]), mode="reference")()
    array([0.5 , 0.25])
    """
    return 1 / inexact(x)


def where(condition: TensorLike, x: TensorLike, y: TensorLike) -> Node:
    """`x` where the condition holds, else `y`; all three are broadcast. (`nonzero` gives the places where it holds.)

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> sj.where(x > 0, x, 0).dtype
    dtype('float64')
    """
    return apply(ops.WHERE, as_tensor(condition), x, y)


def clip(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Node:
    """`x` kept within bounds; `None` is no bound. The gradient passes where `min <= x <= max`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.clip(sj.vector(), -1, 1)
    <clip: float64(n...)>
    """
    x = as_tensor(x)
    low, high = kind_of("int8" if x.type.kind.is_mask else x.dtype).limits
    return apply(ops.CLIP, x, low if min is None else min, high if max is None else max)


def stop_gradient(x: TensorLike) -> Node:
    """`x` itself, which is a constant to differentiation: no gradient passes back through it.

    Parameters
    ----------
    x : tensor_like

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> g = sj.grad((sj.stop_gradient(x) * x).sum(), x)
    >>> sj.function([x], g, mode="reference")([2.0, 3.0])
    array([2., 3.])
    """
    return apply(ops.STOP_GRADIENT, x)


def clip_gradient(x: TensorLike, low: float, high: float) -> Node:
    """`x` itself; the gradient that passes back through it is kept within `low` and `high`.

    Parameters
    ----------
    x : tensor_like
    low, high : numbers

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> g = sj.grad((sj.clip_gradient(x, -1, 1) ** 2).sum(), x)
    >>> sj.function([x], g, mode="reference")([0.25, 3.0])
    array([0.5, 1. ])
    """
    if not all(isinstance(bound, int | float | np.number) for bound in (low, high)) or not low <= high:
        raise errors.ArgumentError("the bounds of a gradient must be ordered numbers", got=(low, high))
    return ops.CLIP_GRADIENT(inexact(x), low=float(low), high=float(high))


def round(x: TensorLike, decimals: int = 0) -> Node:
    """The nearest whole number; a number in the middle goes to the even one. With `decimals`, the nearest number with
    so many decimals. Of complex numbers, both parts are rounded.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.round([0.5, 1.5, 2.345], 1), mode="reference")()
    array([0.5, 1.5, 2.3])
    """
    x, decimals = as_tensor(x), integer(decimals, "the number of decimals")
    if is_complex(x):
        return COMPLEX(*(round(part, decimals) for part in x.args))
    if decimals == 0 or (not x.type.kind.floating and decimals > 0):
        return x if x.type.kind.is_mask else apply(ops.ROUND, x)
    if not x.type.kind.floating:
        raise errors.NotSupportedError("integers are not rounded to tens", got=f"decimals={decimals}")
    return apply(ops.ROUND, x * 10.0**decimals) / 10.0**decimals if decimals > 0 else _round_up(x, 10.0**-decimals)


def _round_up(x: Node, unit: float) -> Node:
    return apply(ops.ROUND, x / unit) * unit


def rint(x: TensorLike) -> Node:
    """The nearest whole number, as a float; ties go to the even one.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.rint([0.5, 1.5, -2.7]), mode="reference")()
    array([ 0.,  2., -3.])
    """
    return apply(ops.ROUND, inexact(x))


def logaddexp(x: TensorLike, y: TensorLike) -> Node:
    """`log(exp(x) + exp(y))` without overflow. It has derivatives also where `x` and `y` are infinite: 0 where both are
    -inf.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.logaddexp([1000.0, 0.0], [1000.0, -1000.0]).round(6), mode="reference")()
    array([1000.693147,    0.      ])
    """
    x, y = ops.DIV.prepare((x, y))
    top = where(x > y, x, y)
    apart = where(x > y, y - x, x - y)
    both_infinite = (x == y) & (apart != apart)
    return where(top == -math.inf, -math.inf, top) + softplus(where(both_infinite, 0, apart))


def heaviside(x: TensorLike, at_zero: TensorLike) -> Node:
    """0 where `x` is negative, 1 where it is positive, `at_zero` where it is 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.heaviside([-1.5, 0.0, 2.0], 0.5), mode="reference")()
    array([0. , 0.5, 1. ])
    """
    x, at_zero = ops.DIV.prepare((x, at_zero))
    return where(x == 0, at_zero, where(x > 0, 1, where(x < 0, 0, x)))


def copysign(x: TensorLike, y: TensorLike) -> Node:
    """The size of `x` with the sign of `y`, which may be that of a zero.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.copysign([1.0, -2.0], [-0.0, 3.0]), mode="reference")()
    array([-1.,  2.])
    """
    x, y = ops.DIV.prepare((x, y))
    flips = signbit(x) != signbit(y)
    return where(flips, -x, x)


def fmax(x: TensorLike, y: TensorLike) -> Node:
    """The larger one of two numbers; the other one where one is NaN.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.fmax([1.0, float("nan")], [3.0, 2.0]), mode="reference")()
    array([3., 2.])
    """
    x, y = ops.MAXIMUM.prepare((x, y))
    return where(x == x, where(y == y, apply(ops.MAXIMUM, x, y), x), y)


def fmin(x: TensorLike, y: TensorLike) -> Node:
    """The smaller one of two numbers; the other one where one is NaN.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.fmin([1.0, float("nan")], [3.0, 2.0]), mode="reference")()
    array([1., 2.])
    """
    x, y = ops.MINIMUM.prepare((x, y))
    return where(x == x, where(y == y, apply(ops.MINIMUM, x, y), x), y)


def fmod(x: TensorLike, y: TensorLike) -> Node:
    """What is left of `x` after division by `y`, with the sign of `x`. (`mod` has the sign of `y`.)

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.fmod([-3, 3], [2, -2]), mode="reference")()
    array([-1,  1])
    """
    x, y = ops.MOD.prepare((x, y))
    if x.type.kind.never_negative:
        return apply(ops.MOD, x, y)
    # Of -|x| and -|y|: each integer has a negative size, but the least one has no positive size.
    negative = signbit(x)  # also of zeros, whose sign stays
    rest = apply(ops.MOD, where(negative, x, -x), where(y < 0, y, -y))
    return where(negative, rest, -rest)


def divmod(x: TensorLike, y: TensorLike) -> tuple[Node, Node]:
    """`(x // y, x % y)`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], list(sj.divmod([7, -7], 2)), mode="reference")()
    [array([ 3, -4]), array([1, 1])]
    """
    return floor_divide(x, y), mod(x, y)


def modf(x: TensorLike) -> tuple[Node, Node]:
    """The part behind the point and the whole part, both with the sign of `x`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], list(sj.modf([2.5, -2.5])), mode="reference")()
    [array([ 0.5, -0.5]), array([ 2., -2.])]
    """
    x = inexact(x)
    whole = trunc(x)
    return copysign(where(apply(ops.ABS, x) == math.inf, 0, x - whole), x), whole


def float_power(x: TensorLike, y: TensorLike) -> Node:
    """`x ** y` in float64, integers too.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.float_power([1, 2, 4], -1), mode="reference")()
    array([1.  , 0.5 , 0.25])
    """
    return power(*(cast(node, "complex128" if is_complex(node) else "float64") for node in map(as_tensor, (x, y))))


def ldexp(x: TensorLike, n: TensorLike) -> Node:
    """`x * 2**n` for whole numbers `n`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.ldexp([1.5, 3.0], [3, -1]), mode="reference")()
    array([12. ,  1.5])
    """
    x, n = inexact(x), as_tensor(n) >> 0  # an error for numbers that are not whole
    most = _FARTHEST.get(str(x.dtype), 280)
    n = clip(cast(n, "int64"), -most, most)
    part = n // 3  # in three factors: 2**n alone may be out of range, and so may half of n
    for each in (part, (n - part) >> 1, (n - part + 1) >> 1):
        x = x * exp2(cast(each, x.dtype))
    return x


_FARTHEST = {"float16": 42, "float64": 2100, "complex128": 2100}
"""The power of 2 between the smallest number of a dtype and the largest, or a little more. 280 for other dtypes."""


def logaddexp2(x: TensorLike, y: TensorLike) -> Node:
    """`log2(2**x + 2**y)` without overflow. See `logaddexp`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.logaddexp2([3.0, 0.0], [3.0, 0.0]), mode="reference")()
    array([4., 1.])
    """
    x, y = ops.DIV.prepare((x, y))
    return logaddexp(x * math.log(2), y * math.log(2)) / math.log(2)


def deg2rad(x: TensorLike) -> Node:
    """Degrees as radians. `numpy.radians` of symbols is this.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.deg2rad([0.0, 180.0]).round(6), mode="reference")()
    array([0.      , 3.141593])
    """
    return inexact(x) * (math.pi / 180)


def rad2deg(x: TensorLike) -> Node:
    """Radians as degrees. `numpy.degrees` of symbols is this.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.rad2deg([0.0, np.pi]), mode="reference")()
    array([  0., 180.])
    """
    return inexact(x) * (180 / math.pi)


def sinc(x: TensorLike) -> Node:
    """`sin(pi * x) / (pi * x)`, and 1 at 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.sinc([0.0, 0.5, 1.0]).round(6), mode="reference")()
    array([1.     , 0.63662, 0.     ])
    """
    angle = inexact(x) * math.pi
    small = apply(ops.ABS, angle) < 1e-4
    square = angle * angle
    return where(small, 1 - square / 6 + square * square / 120, sin(where(small, 1, angle)) / where(small, 1, angle))


if not TYPE_CHECKING:  # they cannot compute it
    __all__ = ["hypot", "pow", "power", *defined(globals())]
