"""Functions of `scipy.special` that are made of other functions."""

import math

from scanjit.ir import Node, apply
from scanjit.ops import elementwise as ops, functions
from scanjit.ops.functions import EXP, GAMMALN, I0E, LOG, LOG1P
from scanjit.symbol import TensorLike
from scanjit.tensor.elementwise import erfc, expm1, log, log1p, sqrt, where
from scanjit.tensor.variables import inexact

__all__ = [
    "betaln", "boxcox", "entr", "huber", "i0", "inv_boxcox", "kl_div", "logit",
    "ndtr", "pseudo_huber", "rel_entr", "trigamma", "xlog1py", "xlogy",
]  # fmt: skip


def i0(x: TensorLike) -> Node:
    """The modified Bessel function of order 0. It overflows where `i0e` does not.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.i0([0.0, 1.0]).round(6), mode="reference")()
    array([1.      , 1.266066])
    """
    x = inexact(x)
    return apply(I0E, x) * apply(EXP, apply(ops.ABS, x))


def xlogy(x: TensorLike, y: TensorLike) -> Node:
    """`x * log(y)`, and 0 where `x` is 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.xlogy([0.0, 2.0], [0.0, 1.0]), mode="reference")()
    array([0., 0.])
    """
    x, y = ops.DIV.prepare((x, y))
    nothing = (x == 0) & (y == y)
    return where(nothing, 0, x * apply(LOG, where(nothing, 1, y)))


def logit(x: TensorLike) -> Node:
    """`log(x / (1 - x))`, which `sigmoid` turns back.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.sigmoid(sj.logit([0.25])), mode="reference")()
    array([0.25])
    """
    x = inexact(x)
    return apply(LOG, x) - apply(LOG1P, -x)


def betaln(a: TensorLike, b: TensorLike) -> Node:
    """The logarithm of the beta function, for positive `a` and `b`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.exp(sj.betaln(2.0, 3.0)).round(6), mode="reference")()
    array(0.083333)
    """
    a, b = ops.DIV.prepare((a, b))
    large, small = where(a >= b, a, b), where(a >= b, b, a)
    much = (large > 1000) & (large > 1000 * small)  # the difference of two logarithms would lose its digits
    x, y = where(much, large, 1000), where(much, 1, large)
    turned = small * (1 - small) / x
    series = turned * (0.5 + (1 - 2 * small) / (12 * x)) - turned**2 / (12 * x)
    difference = where(much, series - small * apply(LOG, x), apply(GAMMALN, y) - apply(GAMMALN, y + small))
    return difference + apply(GAMMALN, small)


def trigamma(x: TensorLike) -> Node:
    """The derivative of `digamma`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.trigamma([1.0, 2.0]).round(6), mode="reference")()
    array([1.644934, 0.644934])
    """
    return functions.trigamma(inexact(x))


def xlog1py(x: TensorLike, y: TensorLike) -> Node:
    """`x * log1p(y)`, and 0 where `x` is 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.xlog1py([0.0, 2.0], [-1.0, 0.0]), mode="reference")()
    array([0., 0.])
    """
    x, y = ops.DIV.prepare((x, y))
    nothing = (x == 0) & (y == y)
    return where(nothing, 0, x * log1p(where(nothing, 0, y)))


def entr(x: TensorLike) -> Node:
    """What one probability adds to an entropy: `-x * log(x)`, 0 at 0, -inf below.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.entr([0.0, 0.5]).sum().round(6), mode="reference")()
    array(0.346574)
    """
    x = inexact(x)
    return where(x < 0, -math.inf, -xlogy(x, where(x < 0, 1, x)))


def rel_entr(x: TensorLike, y: TensorLike) -> Node:
    """What two probabilities add to a relative entropy: `x * log(x / y)`; 0 where `x` is 0, inf where only `y` is.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.rel_entr([0.5, 0.5], [0.25, 0.75]).sum().round(6), mode="reference")()
    array(0.143841)
    """
    x, y = ops.DIV.prepare((x, y))
    inside = (x > 0) & (y > 0)
    found = where(inside, x, 1) * log(where(inside, x, 1) / where(inside, y, 1))
    outside = where((x == 0) & (y >= 0), 0, math.inf)
    return where(inside, found, where((x == x) & (y == y), outside, x + y))


def kl_div(x: TensorLike, y: TensorLike) -> Node:
    """`x * log(x / y) - x + y`, which is never negative. See `rel_entr`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.kl_div([0.5, 1.0], [1.0, 1.0]).round(6), mode="reference")()
    array([0.153426, 0.      ])
    """
    x, y = ops.DIV.prepare((x, y))
    found = rel_entr(x, y)
    return where(abs(found) == math.inf, math.inf, found - x + y)


def huber(delta: TensorLike, r: TensorLike) -> Node:
    """Half the square of `r` where it is at most `delta` in size; beyond, the straight line that goes on from there.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.huber(1.0, [-3.0, 0.5]), mode="reference")()
    array([2.5  , 0.125])
    """
    delta, r = ops.DIV.prepare((delta, r))
    size = abs(r)
    return where(delta < 0, math.inf, where(size <= delta, 0.5 * (r * r), delta * (size - 0.5 * delta)))


def pseudo_huber(delta: TensorLike, r: TensorLike) -> Node:
    """A smooth `huber`: `delta**2 * (sqrt(1 + (r / delta)**2) - 1)`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.pseudo_huber(1.0, [0.0, 3.0]).round(6), mode="reference")()
    array([0.      , 2.162278])
    """
    delta, r = ops.DIV.prepare((delta, r))
    nothing = delta == 0
    u = r / where(nothing, 1, delta)
    squared = u * u
    found = delta * delta * (squared / (sqrt(1 + squared) + 1))
    return where(delta < 0, math.inf, where(nothing, 0, found))


def boxcox(x: TensorLike, lmbda: TensorLike) -> Node:
    """The power transform of Box and Cox: `(x**lmbda - 1) / lmbda`, and `log(x)` where `lmbda` is 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.boxcox([4.0, 4.0], [0.5, 0.0]).round(6), mode="reference")()
    array([2.      , 1.386294])
    """
    x, lmbda = ops.DIV.prepare((x, lmbda))
    logarithm = log(x)
    nothing = lmbda == 0
    return where(nothing, logarithm, expm1(where(nothing, 1, lmbda) * logarithm) / where(nothing, 1, lmbda))


def inv_boxcox(y: TensorLike, lmbda: TensorLike) -> Node:
    """The inverse of `boxcox`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.inv_boxcox([2.0, 0.0], [0.5, 0.0]), mode="reference")()
    array([4., 1.])
    """
    y, lmbda = ops.DIV.prepare((y, lmbda))
    nothing = lmbda == 0
    power = where(nothing, 1, lmbda)
    return apply(EXP, where(nothing, y, log1p(power * where(nothing, 0, y)) / power))


def ndtr(x: TensorLike) -> Node:
    """The probability that a standard normal number is at most `x`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.ndtr([0.0, 1.96]).round(4), mode="reference")()
    array([0.5  , 0.975])
    """
    return 0.5 * erfc(inexact(x) * -math.sqrt(0.5))
