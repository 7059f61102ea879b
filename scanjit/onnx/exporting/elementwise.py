"""Elementwise ops that ONNX lacks, or has for fewer dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from scanjit import ir
from scanjit.ir import Node
from scanjit.onnx.exporting.writer import Rule, Writer


def plain(kind: str, of_bools: str | None = None) -> Rule:
    """An op that ONNX has, perhaps by another name for bools."""

    def rule(w: Writer, node: Node, *operands: str) -> str:
        return w.op(of_bools if of_bools and node.operands[0].type.kind.is_mask else kind, *operands)

    return rule


def bitwise(kind: str) -> Rule:
    """Logic: of bools, or of each bit of integers."""

    def rule(w: Writer, node: Node, *operands: str) -> str:
        return w.op(kind if node.type.kind.is_mask else "Bitwise" + kind, *operands)

    return rule


def compared(kind: str) -> Rule:
    """A comparison. Bools are compared as numbers."""

    def rule(w: Writer, node: Node, *operands: str) -> str:
        if node.operands[0].type.kind.is_mask:
            operands = tuple(w.cast(operand, np.int32) for operand in operands)
        return w.op(kind, *operands)

    return rule


def same(w: Writer, node: Node, first: str, *others: str) -> str:
    """An op whose value is its first operand."""
    return first


def rounding(kind: str) -> Rule:
    """Rounds floats; integers stay as they are."""
    return lambda w, node, x: x if node.type.kind.integral else w.op(kind, x)


def number(w: Writer, node: Node, value: Any) -> str:
    """A number in the dtype of a node's first operand."""
    return w.constant(value, node.operands[0].dtype)


def formula(build: Callable[..., str]) -> Rule:
    """A function that is built of several nodes: `build(w, k, x, ...)`, where `k` makes numbers of the right dtype."""

    def rule(w: Writer, node: Node, *operands: str) -> str:
        return build(w, lambda value: number(w, node, value), *operands)

    return rule


Numbers = Callable[[float], str]


def floordiv(w: Writer, node: Node, a: str, b: str) -> str:
    """A quotient rounded down."""
    if node.type.kind.floating:
        return w.op("Floor", w.op("Div", a, b))
    fits = node.dtype != np.int64 or _is_of_sizes(node)
    return _in_int64(w, node, partial(w.quotient, safe=False, fits=fits), a, b)


def _is_of_sizes(node: Node) -> bool:
    """Whether a number is computed from nothing but sizes and constants: it is then near zero, and readers know it."""
    return not node.ndim and all(n.args or n.op in (ir.SIZE, ir.CONSTANT) for n in ir.walk([node]))


def _in_int64(w: Writer, node: Node, found: Callable[[str, str], str], a: str, b: str) -> str:
    """What is found of integers, as int64: it may be computed from what does not fit into narrower ones."""
    if node.dtype == np.int64:
        return found(a, b)
    return w.cast(found(w.cast(a, np.int64), w.cast(b, np.int64)), node.dtype)


def left_shift(w: Writer, node: Node, a: str, b: str) -> str:
    """A product with a power of two. (ONNX moves the bits of numbers without a sign only.)"""

    def product(a: str, b: str) -> str:
        power, fits = _power(w, b, 8 * node.dtype.itemsize)
        return w.op("Mul", w.op("Where", fits, a, w.constant(0, np.int64)), power)

    return _in_int64(w, node, product, a, b)


def right_shift(w: Writer, node: Node, a: str, b: str) -> str:
    """A quotient by a power of two, rounded down. If nothing but the sign is left, it is 0 or -1."""

    def quotient(a: str, b: str) -> str:
        power, fits = _power(w, b, 8 * node.dtype.itemsize - (not node.type.kind.never_negative))
        zero = w.constant(0, np.int64)
        sign = w.op("Where", w.op("Less", a, zero), w.constant(-1, np.int64), zero)
        return w.quotient(w.op("Where", fits, a, sign), power, safe=True, fits=False)

    return _in_int64(w, node, quotient, a, b)


def _power(w: Writer, b: str, most: int) -> tuple[str, str]:
    """`2**b`, or 1 where `b` is negative or not below `most`; and a mask: where `b` is in that range."""
    zero = w.constant(0, np.int64)
    fits = w.op("And", w.op("GreaterOrEqual", b, zero), w.op("Less", b, w.constant(most, np.int64)))
    return w.op("Gather", w.constant(np.left_shift(1, np.arange(64))), w.op("Where", fits, b, zero)), fits


def neg(w: Writer, node: Node, x: str) -> str:
    """The number with the other sign; the operator does not take integers without one."""
    return w.op("Sub", number(w, node, 0), x) if node.type.kind.never_negative else w.op("Neg", x)


def mod(w: Writer, node: Node, a: str, b: str) -> str:
    """The remainder of a quotient rounded down. It has the sign of the divisor."""
    if not node.type.kind.floating:
        return _in_int64(w, node, partial(w.rest, safe=False), a, b)
    zero = number(w, node, 0)
    left = w.op("Mod", a, b, fmod=1)
    other = w.op("Xor", w.op("Less", left, zero), w.op("Less", b, zero))
    some = w.op("Not", w.op("Equal", left, zero))
    return w.op("Where", w.op("And", some, other), w.op("Add", left, b), left)


def trunc(w: Writer, node: Node, x: str) -> str:
    """Rounds towards zero."""
    return x if node.type.kind.integral else w.op("Mul", w.op("Sign", x), w.op("Floor", w.op("Abs", x)))


def expm1(w: Writer, k: Numbers, x: str) -> str:
    """`exp(x) - 1`: near 0 by `(u - 1) * x / log(u)` with `u = exp(x)`, whose errors cancel (Kahan)."""
    u = w.op("Exp", x)
    less, near = w.op("Sub", u, k(1)), _near(w, k, x)
    log = w.op("Log", w.op("Where", near, u, k(2)))
    return w.op("Where", near, _quotient(w, k, x, less, log), less)


def log1p(w: Writer, k: Numbers, x: str) -> str:
    """`log(1 + x)`: near 0 by `log(u) * x / (u - 1)` with `u = 1 + x`, whose errors cancel (Kahan)."""
    u = w.op("Add", x, k(1))
    log, less = w.op("Log", u), w.op("Sub", u, k(1))
    return w.op("Where", _near(w, k, x), _quotient(w, k, x, log, less), log)


def softplus(w: Writer, node: Node, x: str) -> str:
    """`log(1 + exp(x))`. ONNX Runtime's own operator for float64 is infinite above 709, and has fewer digits."""
    if node.dtype != "float64":
        return w.op("Softplus", x)

    def k(value: float) -> str:
        return number(w, node, value)

    return w.op("Add", w.op("Max", x, k(0)), log1p(w, k, w.op("Exp", w.op("Neg", w.op("Abs", x)))))


def arctan2(w: Writer, k: Numbers, y: str, x: str) -> str:
    """The angle of a point: that of the shorter side by the longer one, mirrored into its octant."""
    below, right = _negative(w, k, y), w.op("Not", _negative(w, k, x))
    y, x = w.op("Abs", y), w.op("Abs", x)
    steep = w.op("Less", x, y)
    short, long = w.op("Where", steep, x, y), w.op("Where", steep, y, x)
    origin = w.op("Equal", long, k(0))
    slope = w.op("Div", short, w.op("Where", origin, k(1), long))
    angle = w.op("Atan", w.op("Where", w.op("Equal", short, long), w.op("Where", origin, k(0), k(1)), slope))
    angle = w.op("Where", steep, w.op("Sub", k(math.pi / 2), angle), angle)
    angle = w.op("Where", right, angle, w.op("Sub", k(math.pi), angle))
    return w.op("Mul", angle, w.op("Where", below, k(-1), k(1)))  # ONNX Runtime's Where makes 0 of -0


def _negative(w: Writer, k: Numbers, x: str) -> str:
    """Whether x has a sign, as -0 has."""
    zero = w.op("Equal", x, k(0))
    return w.op("Less", w.op("Where", zero, w.op("Div", k(1), x), x), k(0))


def _near(w: Writer, k: Numbers, x: str) -> str:
    """Whether x is near 0."""
    return w.op("Less", w.op("Abs", x), k(1))


def _quotient(w: Writer, k: Numbers, x: str, above: str, below: str) -> str:
    """`above * x / below`; x where `below` is 0."""
    flat = w.op("Equal", below, k(0))
    return w.op("Where", flat, x, w.op("Div", w.op("Mul", above, x), w.op("Where", flat, k(1), below)))


def scaled_log(base: float) -> Rule:
    """A logarithm to another base."""
    return formula(lambda w, k, x: w.op("Mul", w.op("Log", x), k(1 / math.log(base))))


def relu(w: Writer, node: Node, x: str) -> str:
    """x where it is positive, else 0."""
    return w.op("Relu", x) if node.type.kind.floating else w.op("Max", x, number(w, node, 0))
