"""Elementwise functions of ONNX that NumPy lacks, or defines differently."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from scanjit import ir
from scanjit.ir import Node
from scanjit.onnx import functions as tensor, tensors
from scanjit.onnx.importing import known
from scanjit.onnx.importing.call import Call, like, scalar, stretched
from scanjit.ops import functions
from scanjit.ops.elementwise import ISINF, MAXIMUM, MINIMUM, MOD, SUB, where
from scanjit.ops.promotion import cast
from scanjit.types import not_negative

Function = Callable[[Call], Node]


def of(function: Callable[[Node], Any]) -> Function:
    """An op of one input and no attributes."""
    return lambda call: function(call.input(0))


def binary(function: Callable[[Node, Node], Node]) -> Function:
    """An op of two inputs of one dtype."""
    return lambda call: function(*call.stretched(*call.pair()))


def joined(function: Callable[[Node, Node], Node]) -> Function:
    """An op of any number of inputs of one dtype: `f(f(a, b), c)`."""
    return lambda call: functools.reduce(function, call.stretched(*call.all()))


def mean(call: Call) -> Node:
    """The mean of any number of tensors."""
    nodes = call.stretched(*call.all())
    return functools.reduce(lambda a, b: a + b, nodes) / like(len(nodes), nodes[0])


def divide(call: Call) -> Node:
    """A quotient; of integers, towards zero."""
    a, b = call.stretched(*call.pair())
    if a.type.kind.floating:
        return a / b
    if a.type.kind.never_negative or _never_negative(a, b):
        return a // b
    if (whole := _without_rest(a, b)) is not None:
        return whole // b
    return (a - tensor.fmod(a, b)) // b  # the least integer has no size


def _without_rest(a: Node, b: Node) -> Node | None:
    """The x of a dividend `x - x % b`; None for other dividends. Exporters write `(x - x % b) / b` for a quotient that
    is rounded down."""
    if a.op is SUB and a.operands[1].op is MOD:
        x, rest = a.operands
        if rest.operands[0] is x and rest.operands[1] is b:
            return x
    return None


def _never_negative(*nodes: Node) -> bool:
    """Whether no element of some nodes can be negative, as is known of sizes."""
    for node in nodes:
        elements = known.elements_of(node, {})
        if elements is None or not all(e is not None and not_negative(e) for e in elements):
            return False
    return True


def modulo(call: Call) -> Node:
    """The remainder of a division. It has the sign of the divisor; with `fmod`, the sign of the dividend."""
    a, b = call.stretched(*call.pair())
    return tensor.fmod(a, b) if call.flag("fmod") else ir.apply(MOD, a, b)


def power(call: Call) -> Node:
    """A power, in the dtype of the base."""
    x, exponent = call.input(0), call.input(1)
    if exponent.dtype == x.dtype or x.type.kind.floating or exponent.type.kind.integral:
        return functions.power(x, cast(exponent, x.dtype))
    return cast(functions.power(cast(x, "float64"), cast(exponent, "float64")), x.dtype)


def clip(call: Call) -> Node:
    """Numbers between two bounds, each of which may be left out."""
    x = call.input(0)
    low, high = call.number("min", None), call.number("max", None)
    bounds = [
        like(value, x) if value is not None else (scalar(node) if (node := call.optional(i)) is not None else None)
        for i, value in ((1, low), (2, high))
    ]
    if bounds[0] is not None:
        x = ir.apply(MAXIMUM, *call.alike(x, bounds[0]))
    if bounds[1] is not None:
        x = ir.apply(MINIMUM, *call.alike(x, bounds[1]))
    return x


def convert(call: Call) -> Node:
    """The same numbers in another dtype."""
    call.ignore("saturate", "round_mode")
    return cast(call.input(0), tensors.dtype_of(call.integer("to"), "the result of a cast"))


def convert_like(call: Call) -> Node:
    """The same numbers in the dtype of another tensor."""
    call.ignore("saturate", "round_mode")
    return cast(call.input(0), call.input(1).dtype)


def infinite(call: Call) -> Node:
    """Which elements are infinite, with a sign that the attributes ask for."""
    x = call.input(0)
    positive, negative = call.flag("detect_positive", True), call.flag("detect_negative", True)
    found = ir.apply(ISINF, x)
    if not positive:
        found = found & (x < 0)
    return found if negative else found & (x > 0)


def choose(call: Call) -> Node:
    """`where(condition, a, b)`."""
    options = call.alike(call.input(1), call.input(2))
    shapes = [node.type.shape for node in (call.input(0), *options)]
    return where(*(stretched(node, shapes, call.op) for node in (call.input(0), *options)))


def shift(call: Call) -> Node:
    """Bits moved left or right."""
    x, count = call.stretched(*call.pair())
    if not x.type.kind.never_negative:
        raise call.refuse("of numbers with a sign", got=x.dtype)
    factor = functions.power(like(2, x), count)
    return x * factor if call.text("direction") == "LEFT" else x // factor


# ---- activations -----------------------------------------------------------------------------------------------------


def affine(x: Node, alpha: float, beta: float) -> Node:
    """`alpha * x + beta`."""
    return x * alpha + beta


def leaky_relu(x: Node, alpha: float) -> Node:
    """x, or `alpha * x` where it is negative."""
    return where(x < 0, x * alpha, x)


def thresholded_relu(x: Node, alpha: float) -> Node:
    """x where it is larger than `alpha`, else 0."""
    return where(x > alpha, x, 0)


def scaled_tanh(x: Node, alpha: float, beta: float) -> Node:
    """`alpha * tanh(beta * x)`."""
    return tensor.tanh(x * beta) * alpha


def hard_sigmoid(x: Node, alpha: float, beta: float) -> Node:
    """`alpha * x + beta` between 0 and 1."""
    return tensor.clip(x * alpha + beta, 0.0, 1.0)


def celu(x: Node, alpha: float) -> Node:
    """x, or `alpha * (exp(x / alpha) - 1)` where it is negative."""
    return ir.apply(MAXIMUM, x, 0.0) + alpha * tensor.expm1(ir.apply(MINIMUM, x, 0.0) / alpha)


def selu(x: Node, alpha: float, gamma: float) -> Node:
    """`gamma` times x, or times `alpha * (exp(x) - 1)` where it is negative."""
    return where(x > 0, x, tensor.expm1(ir.apply(MINIMUM, x, 0.0)) * alpha) * gamma


def shrink(x: Node, bias: float, lambd: float) -> Node:
    """x moved towards 0 by `bias`; 0 between `-lambd` and `lambd`."""
    return where(x < -lambd, x + bias, where(x > lambd, x - bias, 0))


def with_numbers(function: Callable[..., Node], **defaults: float) -> Function:
    """A function of one input and of attributes that are floats."""

    def rule(call: Call) -> Node:
        return function(call.input(0), *(call.number(name, default) for name, default in defaults.items()))

    return rule


def gelu(call: Call) -> Node:
    """Gelu, exact or by tanh."""
    kind = call.choice("approximate", "none", ("none", "tanh"), "approximation of Gelu")
    return tensor.gelu(call.input(0), approximate=kind == "tanh")


def prelu(call: Call) -> Node:
    """x, or x times a slope where it is negative."""
    x, slope = call.stretched(*call.pair())
    return where(x < 0, x * slope, x)


SELU_ALPHA = 1.67326319217681884765625
SELU_GAMMA = 1.05070102214813232421875
