"""Elementwise ops: choices, arithmetic, comparisons, roots and rounding. Exponentials, angles and such are in
`scanjit.ops.functions`; functions that are made of ops (`softsign`...) are in `scanjit.tensor`."""

from __future__ import annotations

import math

import numpy as np

from scanjit import errors, types
from scanjit.ir import COMPLEX, Node, apply
from scanjit.kinds import kind_of
from scanjit.ops.parts import ComplexPart, is_complex, joined, minus, parts, plus, times
from scanjit.ops.promotion import Elementwise
from scanjit.ops.samples import sample
from scanjit.ops.stretch import constant_value, zeros_like
from scanjit.signatures import OpFunction, Parameter
from scanjit.symbol import TensorLike


def where(condition: Node, a: object, b: object) -> Node:
    """`a` where the condition holds, else `b`."""
    return WHERE(*WHERE.prepare((condition, a, b)))


def _bool_or(boolean: str, number: str) -> OpFunction[str]:
    """A lowering with a different expression for bools, which are masks in generated code."""
    return lambda dtype, *_: boolean if kind_of(dtype).is_mask else number


_TWO = ((-3.0, 3.0), (-3.0, 3.0))
_NONZERO = ((-3.0, 3.0), (0.5, 3.0))

# ---- gradients and choices -------------------------------------------------------------------------------------------

STOP_GRADIENT = Elementwise(
    "stop_gradient",
    lower="{0}",
    reference=lambda x: x,
    by_parts=True,
    has_constant_slope=True,
    doc="the same value, a constant to differentiation",
)
CLIP_GRADIENT = Elementwise(
    "clip_gradient",
    lower="{0}",
    takes="f",
    reference=lambda x, *, low, high: x,
    vjp=lambda g, y, x, *, low, high: (CLIP(*CLIP.prepare((g, low, high))),),
    jvp=lambda tangents, y, x, **_: tangents[0],
    samples=lambda rng, dtype: [((sample(rng, (3,), dtype),), {"low": -1.0, "high": 1.0})],
    has_constant_slope=True,
    doc="the same value; the gradient that passes back through it is clipped",
)
WHERE = Elementwise(
    "where",
    lower="select({0}, {1}, {2})",
    mixed=True,
    reference=np.where,
    vjp=lambda g, y, c, a, b: (None, where(c, g, 0), where(c, 0, g)),
    domain=(*_TWO, (-3, 3)),
    stays_finite=(1, 2),
    by_parts=True,
    has_constant_slope=True,
    doc="the second operand where the first holds, else the third",
)

# ---- arithmetic ------------------------------------------------------------------------------------------------------


def _complex_add(a: Node, b: Node) -> Node:
    (x, y), (u, v) = parts(a), parts(b)
    return joined(plus(x, u), plus(y, v), a, b)


def _complex_sub(a: Node, b: Node) -> Node:
    (x, y), (u, v) = parts(a), parts(b)
    return joined(minus(x, u), minus(y, v), a, b)


ADD = Elementwise(
    "add",
    lower=_bool_or("{0} | {1}", "{0} + {1}"),
    reference=np.add,
    of_complex=_complex_add,
    vjp=lambda g, y, a, b: (g, g),
    formula="x + y",
    domain=_TWO,
    is_linear=True,
    of_dims=lambda a, b: a + b,
)
SUB = Elementwise(
    "sub",
    lower="{0} - {1}",
    takes="if",
    bools=False,
    reference=np.subtract,
    of_complex=_complex_sub,
    vjp=lambda g, y, a, b: (g, -g),
    formula="x - y",
    domain=_TWO,
    is_linear=True,
    of_dims=lambda a, b: a - b,
)


def _complex_mul(a: Node, b: Node) -> Node:
    (x, y), (u, v) = parts(a), parts(b)
    return joined(minus(times(x, u), times(y, v)), plus(times(x, v), times(y, u)), a, b)


MUL = Elementwise(
    "mul",
    lower=_bool_or("{0} & {1}", "{0} * {1}"),
    reference=np.multiply,
    of_complex=_complex_mul,
    vjp=lambda g, y, a, b: (g * b, g * a),
    formula="x * y",
    domain=_TWO,
    zero_with=(0, 1),
    of_dims=lambda a, b: a * b,
)


def _div_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    known = constant_value(a)
    share = g * y if known is not None and known.ndim == 0 and known == 1 else g / b  # 1 / b is divided once
    return share, -(share * y)


def _complex_div(a: Node, b: Node) -> Node:
    (x, y), (u, v) = parts(a), parts(b)
    if u is None and v is not None:  # (x + iy) / (iv) = (y - ix) / v
        x, y, u, v = y, minus(None, x), v, None
    if u is None or v is None:
        by = b.args[0] if u is None else u
        return joined(_share(x, by), _share(y, by), a, b)
    # The quotient does not depend on the scale, which keeps squares from overflowing.
    scale = STOP_GRADIENT(1 / MAXIMUM(ABS(u), ABS(v)))
    p, q = u * scale, v * scale
    size = u * p + v * q
    return joined(_share(plus(times(x, p), times(y, q)), size), _share(minus(times(y, p), times(x, q)), size), a, b)


def _share(part: ComplexPart, divisor: Node) -> ComplexPart:
    return None if part is None else part / divisor


DIV = Elementwise(
    "div",
    lower="{0} / {1}",
    takes="f",
    reference=np.divide,
    of_complex=_complex_div,
    vjp=_div_vjp,
    formula="x / y",
    cost=8,
    domain=_NONZERO,
    zero_with=(0,),
    stays_finite=(0,),
)
FLOORDIV = Elementwise(
    "floordiv",
    lower="floordiv({0}, {1})",
    takes="if",
    reference=np.floor_divide,
    vjp=lambda g, y, a, b: (zeros_like(a), zeros_like(b)),
    cost=20,
    domain=_NONZERO,
    doc="the quotient rounded down; integers by 0 give 0",
)
MOD = Elementwise(
    "mod",
    lower="mod({0}, {1})",
    takes="if",
    reference=np.mod,
    vjp=lambda g, y, a, b: (g, -(g * (a // b))),
    cost=20,
    domain=_NONZERO,
    doc="the remainder of a division rounded down. It has the sign of the divisor; integers by 0 give 0",
)


def hypot(x: TensorLike, y: TensorLike) -> Node:
    """`sqrt(x * x + y * y)`, without overflow between.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.hypot([3.0, 3e200], [4.0, 4e200]), mode="reference")()
    array([5.e+000, 5.e+200])
    """
    x, y = DIV.prepare((x, y))
    if is_complex(x):
        raise errors.DtypeError("hypot is not defined for complex numbers", got=x.type, fix="take sj.abs of them")
    x, y = apply(ABS, x), apply(ABS, y)
    large, small = apply(MAXIMUM, x, y), apply(MINIMUM, x, y)
    ratio = small / where((large == 0) | (large == math.inf), 1, large)
    found = large * apply(SQRT, 1 + ratio * ratio)
    return where((x == math.inf) | (y == math.inf), math.inf, found)


NEG = Elementwise(
    "neg",
    lower="-{0}",
    takes="if",
    bools=False,
    reference=np.negative,
    vjp=lambda g, y, x: (-g,),
    is_linear=True,
    formula="-x",
    of_dims=lambda a: 0 - a,
)
ABS = Elementwise(
    "abs",
    lower=_bool_or("{0}", "abs({0})"),
    reference=np.abs,
    vjp=lambda g, y, x: (g * SIGN(x),),
    of_complex=lambda z: hypot(*z.args),
    formula="Abs(x)",
)
SIGN: Elementwise = Elementwise(
    "sign",
    lower="sign({0})",
    takes="if",
    bools=False,
    reference=np.sign,
    vjp=lambda g, y, x: (zeros_like(x),),
    of_complex=lambda z: z / where(z == 0, 1, ABS(z)),
)


def _max_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    """The operand that equals the result `y` (of `max` or `min`) gets the gradient. Equal operands share it."""
    tie = where(a == b, g * 0.5, 0)
    first = (a > b) if y.op is MAXIMUM else (a < b)
    second = (a < b) if y.op is MAXIMUM else (a > b)
    return where(first, g, tie), where(second, g, tie)


MAXIMUM = Elementwise(
    "maximum",
    lower=_bool_or("{0} | {1}", "maximum({0}, {1})"),
    reference=np.maximum,
    vjp=_max_vjp,
    formula="Max(x, y)",
    domain=_TWO,
    of_dims=types.maximum,
)
MINIMUM = Elementwise(
    "minimum",
    lower=_bool_or("{0} & {1}", "minimum({0}, {1})"),
    reference=np.minimum,
    vjp=_max_vjp,
    formula="Min(x, y)",
    domain=_TWO,
    of_dims=types.minimum,
)
CLIP: Elementwise = Elementwise(
    "clip",
    lower="minimum(maximum({0}, {1}), {2})",
    takes="if",
    reference=lambda x, low, high: np.minimum(np.maximum(x, low), high),
    vjp=lambda g, y, x, low, high: (
        where((x >= low) & (x <= high), g, 0),
        where((x < low) & (low <= high), g, 0),
        where((x > high) | (low > high), g, 0),
    ),
    formula="Min(Max(x, y), z)",
    domain=((-3, 3), (-2, -1), (1, 2)),
    doc="a number kept between two bounds; one that equals a bound passes the gradient on",
)

# ---- comparisons and logic -------------------------------------------------------------------------------------------


def _comparison(
    name: str, sign: str, of_bools: str, reference: OpFunction[Parameter], of_complex: OpFunction[Node] | None = None
) -> Elementwise:
    return Elementwise(
        name,
        lower=_bool_or(of_bools, f"{{0}} {sign} {{1}}"),
        result="bool",
        reference=reference,
        of_complex=of_complex,
        domain=_TWO,
    )


def _of_each(op: Elementwise, join: Elementwise) -> OpFunction[Node]:
    """An op on complex numbers that compares or asks: its answers for both parts, joined."""
    return lambda *operands: join(*(op(*(z.args[i] for z in operands)) for i in (0, 1)))


LESS = _comparison("less", "<", "~{0} & {1}", np.less)
LESS_EQUAL = _comparison("less_equal", "<=", "~{0} | {1}", np.less_equal)
GREATER = _comparison("greater", ">", "{0} & ~{1}", np.greater)
GREATER_EQUAL = _comparison("greater_equal", ">=", "{0} | ~{1}", np.greater_equal)
EQUAL: Elementwise = _comparison("equal", "==", "~({0} ^ {1})", np.equal, lambda a, b: _of_each(EQUAL, AND)(a, b))
NOT_EQUAL: Elementwise = _comparison(
    "not_equal", "!=", "{0} ^ {1}", np.not_equal, lambda a, b: _of_each(NOT_EQUAL, OR)(a, b)
)
AND: Elementwise = Elementwise(
    "and", lower="{0} & {1}", takes="bi", reference=np.bitwise_and, domain=_TWO, zero_with=(0, 1)
)
OR: Elementwise = Elementwise("or", lower="{0} | {1}", takes="bi", reference=np.bitwise_or, domain=_TWO)
XOR = Elementwise("xor", lower="{0} ^ {1}", takes="bi", reference=np.bitwise_xor, domain=_TWO)
INVERT = Elementwise("invert", lower="~{0}", takes="bi", reference=np.invert)
_SHIFTED = ((-9.0, 9.0), (0.0, 9.0))
LEFT_SHIFT = Elementwise("left_shift", lower="{0} << {1}", takes="i", reference=np.left_shift, domain=_SHIFTED)
RIGHT_SHIFT = Elementwise("right_shift", lower="{0} >> {1}", takes="i", reference=np.right_shift, domain=_SHIFTED)


def _question(name: str, reference: OpFunction[Parameter]) -> Elementwise:
    """Whether a number is something; a complex number is if one of its parts is."""
    op: Elementwise = Elementwise(
        name,
        lower=name + "({0})",
        takes="f",
        result="bool",
        reference=reference,
        of_complex=lambda z: _of_each(op, OR)(z),
    )
    return op


ISNAN = _question("isnan", np.isnan)
ISINF = _question("isinf", np.isinf)


# ---- roots and rounding ----------------------------------------------------------------------------------------------


def _complex_sqrt(z: Node) -> Node:
    x, y = z.args
    below = (y < 0) | ((y == 0) & (1 / y < 0))  # -0.0 too, which says on which side of the cut z lies
    width, size = where(x < 0, -x, x), where(below, -y, y)  # unlike that of `abs`, their slopes at 0 are one of the two
    whole = hypot(x, y)
    root = SQRT(where(whole < 1, (width + whole) * 2, width * 0.5 + whole * 0.5))  # no underflow, and no overflow
    far = where(size == math.inf, size, where(whole < 1, root * 0.5, root))  # the part that is further from zero
    near = where(size == math.inf, size, size / (2 * where(far == 0, 1, far)))
    imaginary = where(x < 0, far, near)
    return COMPLEX(where(x < 0, near, far), where(below, -imaginary, imaginary))


SQRT: Elementwise = Elementwise(
    "sqrt",
    lower="sqrt({0})",
    takes="f",
    reference=np.sqrt,
    of_complex=_complex_sqrt,
    vjp=lambda g, y, x: (g * (0.5 / y),),
    formula="sqrt(x)",
    cost=8,
    domain=((0.1, 3),),
)


def _rounding(name: str, reference: OpFunction[Parameter], doc: str) -> Elementwise:
    return Elementwise(
        name,
        lower=lambda dtype: name + "({0})" if kind_of(dtype).floating else "{0}",
        takes="if",
        bools=False,
        reference=lambda x: x if kind_of(x.dtype).integral else reference(x),
        vjp=lambda g, y, x: (zeros_like(x),),
        doc=doc,
    )


FLOOR = _rounding("floor", np.floor, "the largest whole number that is at most x")
CEIL = _rounding("ceil", np.ceil, "the smallest whole number that is at least x")
TRUNC = _rounding("trunc", np.trunc, "the whole number towards zero")
ROUND = _rounding("round", np.rint, "the nearest whole number, ties to the even one")
