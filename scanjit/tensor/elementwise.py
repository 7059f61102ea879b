"""Elementwise functions, with NumPy's names where NumPy has them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from scanjit import errors
from scanjit.ir import OPS, Node, apply
from scanjit.ops import elementwise as ops
from scanjit.ops.elementwise import power
from scanjit.tensor.variables import as_tensor

__all__ = [
    "abs",
    "absolute",
    "add",
    "arccos",
    "arcsin",
    "arctan",
    "arctan2",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "cast",
    "cbrt",
    "ceil",
    "clip",
    "clip_gradient",
    "cos",
    "cosh",
    "digamma",
    "divide",
    "elu",
    "equal",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "gammaln",
    "gelu",
    "greater",
    "greater_equal",
    "hard_sigmoid",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_sigmoid",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "positive",
    "pow",
    "power",
    "reciprocal",
    "relu",
    "remainder",
    "rint",
    "round",
    "selu",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softplus",
    "softsign",
    "sqrt",
    "square",
    "stop_gradient",
    "subtract",
    "tan",
    "tanh",
    "trigamma",
    "true_divide",
    "trunc",
    "where",
]


def _unary(op: str, name: str | None = None) -> Callable[[Any], Node]:
    """The public function of an op of one operand."""

    def function(x: Any) -> Node:
        return apply(op, x)

    return _described(function, op, name or op, "x")


def _binary(op: str, name: str | None = None) -> Callable[[Any, Any], Node]:
    """The public function of an op of two operands."""

    def function(x: Any, y: Any) -> Node:
        return apply(op, x, y)

    return _described(function, op, name or op, "x, y")


def _described(function: Callable[..., Node], op: str, name: str, operands: str) -> Callable[..., Node]:
    """The function with a name and a docstring made from what the op says of itself."""
    defined = OPS[op]
    assert isinstance(defined, ops.Elementwise)
    what = defined.doc or (defined.formula if defined.formula != f"{name}({operands})" else "")
    taken = (
        "Broadcast against each other, and promoted to one dtype, as by NumPy 2."
        if ", " in operands
        else "Of any shape."
    )
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    values = [[1.0, 0.5], [0.5, 2.0]] if "f" in defined.takes else [[1, 2], [3, 2]]
    given = values[: len(operands.split(", "))]
    result = defined.reference(*map(np.array, given))
    call = f"sj.{name}({', '.join(map(str, given))})" + (".round(4)" if result.dtype.kind == "f" else "")
    function.__doc__ = f"""`{name}({operands})`, element by element{": " + what if what else ""}.

    Parameters
    ----------
    {operands} : tensor_like
        {taken}

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], {call}, mode="reference")()
    {result.round(4) if result.dtype.kind == "f" else result!r}
    """
    return function


abs = _unary("abs")
absolute = _unary("abs", "absolute")
sign = _unary("sign")
negative = _unary("neg", "negative")
invert = _unary("invert")
sqrt = _unary("sqrt")
cbrt = _unary("cbrt")
exp = _unary("exp")
exp2 = _unary("exp2")
expm1 = _unary("expm1")
log = _unary("log")
log2 = _unary("log2")
log10 = _unary("log10")
log1p = _unary("log1p")
sin = _unary("sin")
cos = _unary("cos")
tan = _unary("tan")
arcsin = _unary("arcsin")
arccos = _unary("arccos")
arctan = _unary("arctan")
sinh = _unary("sinh")
cosh = _unary("cosh")
tanh = _unary("tanh")
sigmoid = _unary("sigmoid")
softplus = _unary("softplus")
log_sigmoid = _unary("log_sigmoid")
relu = _unary("relu")
erf = _unary("erf")
erfc = _unary("erfc")
gammaln = _unary("gammaln")
digamma = _unary("digamma")
floor = _unary("floor")
ceil = _unary("ceil")
trunc = _unary("trunc")
isnan = _unary("isnan")
isinf = _unary("isinf")
stop_gradient = _unary("stop_gradient")

add = _binary("add")
subtract = _binary("sub", "subtract")
multiply = _binary("mul", "multiply")
divide = _binary("div", "divide")
true_divide = _binary("div", "true_divide")
floor_divide = _binary("floordiv", "floor_divide")
mod = _binary("mod")
remainder = _binary("mod", "remainder")
maximum = _binary("maximum")
minimum = _binary("minimum")
arctan2 = _binary("arctan2")
less = _binary("less")
less_equal = _binary("less_equal")
greater = _binary("greater")
greater_equal = _binary("greater_equal")
equal = _binary("equal")
not_equal = _binary("not_equal")
bitwise_and = _binary("and", "bitwise_and")
bitwise_or = _binary("or", "bitwise_or")
bitwise_xor = _binary("xor", "bitwise_xor")
pow = power


def positive(x: Any) -> Node:
    """`x` itself.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.positive([-1.0, 2.0]), mode="reference")()
    array([-1.,  2.])
    """
    return as_tensor(x)


def cast(x: Any, dtype: Any) -> Node:
    """`x` in another dtype; floats become integers towards zero, and anything but zero is True.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.cast([-1.5, 0.0, 2.7], "int64"), mode="reference")()
    array([-1,  0,  2])
    """
    return ops.cast(as_tensor(x), dtype)


def _float(x: Any) -> Node:
    """As a float: integers and bools become float64."""
    node = as_tensor(x)
    return node if node.dtype.kind == "f" else ops.cast(node, "float64")


def square(x: Any) -> Node:
    """`x * x`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.square([1.0, -3.0]), mode="reference")()
    array([1., 9.])
    """
    return power(x, 2)


def reciprocal(x: Any) -> Node:
    """`1 / x`, as a float.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.reciprocal([2, 4]), mode="reference")()
    array([0.5 , 0.25])
    """
    return 1 / _float(x)


def where(condition: Any, x: Any, y: Any) -> Node:
    """`x` where the condition holds, else `y`; all three are broadcast.

    Examples
    --------
    >>> from scanjit.tensor import vector, where
    >>> x = vector("x")
    >>> where(x > 0, x, 0).dtype
    dtype('float64')
    """
    return apply("where", as_tensor(condition), x, y)


def clip(x: Any, min: Any = None, max: Any = None) -> Node:
    """`x` kept within bounds; `None` is no bound. The gradient passes where `min <= x <= max`.

    Examples
    --------
    >>> from scanjit.tensor import clip, vector
    >>> clip(vector(), -1, 1)
    <clip: float64(n...)>
    """
    x = as_tensor(x)
    kind = x.dtype if x.dtype.kind == "f" else np.iinfo("int8" if x.dtype.kind == "b" else x.dtype)
    low, high = (-math.inf, math.inf) if x.dtype.kind == "f" else (kind.min, kind.max)
    return apply("clip", x, low if min is None else min, high if max is None else max)


def clip_gradient(x: Any, low: float, high: float) -> Node:
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
    if not all(isinstance(bound, int | float | np.number) for bound in (low, high)) or low > high:
        raise errors.ArgumentError("the bounds of a gradient must be ordered numbers", got=(low, high))
    return ops.CLIP_GRADIENT(_float(x), low=float(low), high=float(high))


def round(x: Any, decimals: int = 0) -> Node:
    """The nearest whole number (with `decimals`, the nearest multiple of a power of ten); ties go to the even one.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.round([0.5, 1.5, 2.345], 1), mode="reference")()
    array([0.5, 1.5, 2.3])
    """
    x = as_tensor(x)
    if decimals == 0 or (x.dtype.kind != "f" and decimals > 0):
        return x if x.dtype.kind == "b" else apply("round", x)
    if x.dtype.kind != "f":
        raise errors.NotSupportedError("integers are not rounded to tens", got=f"decimals={decimals}")
    return apply("round", x * 10.0**decimals) / 10.0**decimals if decimals > 0 else _round_up(x, 10.0**-decimals)


def _round_up(x: Node, unit: float) -> Node:
    return apply("round", x / unit) * unit


def rint(x: Any) -> Node:
    """The nearest whole number, as a float; ties go to the even one.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.rint([0.5, 1.5, -2.7]), mode="reference")()
    array([ 0.,  2., -3.])
    """
    return apply("round", _float(x))


def isfinite(x: Any) -> Node:
    """Whether neither NaN nor infinite.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.isfinite([1.0, float("inf"), float("nan")]), mode="reference")()
    array([ True, False, False])
    """
    return apply("abs", _float(x)) < math.inf


def logical_and(x: Any, y: Any) -> Node:
    """Whether both are not 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.logical_and([0, 1, 2], [True, True, False]), mode="reference")()
    array([False,  True, False])
    """
    return apply("and", ops.truth(as_tensor(x)), ops.truth(as_tensor(y)))


def logical_or(x: Any, y: Any) -> Node:
    """Whether one or both are not 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.logical_or([0, 1, 0], [True, True, False]), mode="reference")()
    array([ True,  True, False])
    """
    return apply("or", ops.truth(as_tensor(x)), ops.truth(as_tensor(y)))


def logical_xor(x: Any, y: Any) -> Node:
    """Whether exactly one is not 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.logical_xor([0, 1, 0], [True, True, False]), mode="reference")()
    array([ True, False, False])
    """
    return apply("xor", ops.truth(as_tensor(x)), ops.truth(as_tensor(y)))


def logical_not(x: Any) -> Node:
    """Whether it is 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.logical_not([0, 1, 2]), mode="reference")()
    array([ True, False, False])
    """
    return apply("invert", ops.truth(as_tensor(x)))


def logaddexp(x: Any, y: Any) -> Node:
    """`log(exp(x) + exp(y))` without overflow, with derivatives also where both are infinite.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.logaddexp([1000.0, 0.0], [1000.0, -1000.0]).round(6), mode="reference")()
    array([1000.693147,    0.      ])
    """
    x, y = ops.DIV.prepare((x, y))
    return apply("maximum", x, y) + softplus(-apply("abs", where(x == y, 0, x - y)))


def trigamma(x: Any) -> Node:
    """The derivative of `digamma`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.trigamma([1.0, 2.0]).round(6), mode="reference")()
    array([1.644934, 0.644934])
    """
    return ops.trigamma(_float(x))


# ---- nonlinearities of neural networks -------------------------------------------------------------------------------


def elu(x: Any, alpha: float = 1.0) -> Node:
    """`x` where it is positive, else `alpha * (exp(x) - 1)`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.elu([-1.0, 0.0, 2.0]).round(6), mode="reference")()
    array([-0.632121,  0.      ,  2.      ])
    """
    x = _float(x)
    return where(x > 0, x, alpha * expm1(where(x > 0, 0, x)))


def selu(x: Any) -> Node:
    """The self-normalizing `elu` of Klambauer et al. (2017).

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.selu([-1.0, 0.0, 2.0]).round(6), mode="reference")()
    array([-1.111331,  0.      ,  2.101402])
    """
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


def gelu(x: Any, approximate: bool = False) -> Node:
    """`x` times the probability that a standard normal number is smaller; `approximate` by tanh.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.gelu([-1.0, 0.0, 2.0]).round(6), mode="reference")()
    array([-0.158655,  0.      ,  1.9545  ])
    """
    x = _float(x)
    if approximate:
        return 0.5 * x * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    return 0.5 * x * erfc(x * -math.sqrt(0.5))


def silu(x: Any) -> Node:
    """`x * sigmoid(x)`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.silu([-1.0, 0.0, 2.0]).round(6), mode="reference")()
    array([-0.268941,  0.      ,  1.761594])
    """
    x = _float(x)
    return x * sigmoid(x)


def hard_sigmoid(x: Any) -> Node:
    """`0.2 * x + 0.5`, kept between 0 and 1.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.hard_sigmoid([-3.0, 0.0, 1.0]), mode="reference")()
    array([0. , 0.5, 0.7])
    """
    return clip(0.2 * _float(x) + 0.5, 0, 1)


def softsign(x: Any) -> Node:
    """`x / (1 + abs(x))`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.softsign([-1.0, 0.0, 3.0]), mode="reference")()
    array([-0.5 ,  0.  ,  0.75])
    """
    x = _float(x)
    return x / (1 + apply("abs", x))
