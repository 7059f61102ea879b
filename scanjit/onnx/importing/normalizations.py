"""Normalizations, and dropout."""

from __future__ import annotations

from scanjit.ir import Node
from scanjit.onnx import functions as tensor
from scanjit.onnx.importing.call import Call
from scanjit.onnx.importing.convolutions import channels
from scanjit.onnx.weights import is_weight
from scanjit.ops.contraction import CONTRACT, contract
from scanjit.ops.elementwise import ADD
from scanjit.ops.shape import RESHAPE
from scanjit.ops.windows import WINDOWS


def _deviation(call: Call, centred: Node, axes: tuple[int, ...]) -> Node:
    """The root of the mean square over some axes, and of the attribute `epsilon`."""
    return tensor.sqrt(tensor.mean(centred * centred, axes, keepdims=True) + call.number("epsilon", 1e-5))


def layer_norm(call: Call) -> list[Node]:
    """Mean 0 and variance 1 over an axis and all that follow, then scaled and shifted; the mean; 1 / the deviation."""
    x, scale, bias = call.input(0), call.input(1), call.optional(2)
    call.ignore("stash_type")
    axes = tuple(range(call.axis(x, -1), x.ndim))
    mean = tensor.mean(x, axes, keepdims=True)
    inverse = 1.0 / _deviation(call, x - mean, axes)
    y = (x - mean) * inverse * scale
    return [y if bias is None else y + bias, mean, inverse]


def rms_norm(call: Call) -> Node:
    """Divided by the root of the mean square over an axis and all that follow."""
    x, scale = call.input(0), call.input(1)
    call.ignore("stash_type")
    return x / _deviation(call, x, tuple(range(call.axis(x, -1), x.ndim))) * scale


def instance_norm(call: Call) -> Node:
    """Mean 0 and variance 1 over all axes after the channels, then scaled and shifted for each channel."""
    x, scale, bias = (call.input(i) for i in range(3))
    axes = tuple(range(2, x.ndim))
    centred = x - tensor.mean(x, axes, keepdims=True)
    return centred / _deviation(call, centred, axes) * channels(scale, x.ndim) + channels(bias, x.ndim)


def batch_norm(call: Call) -> Node:
    """`(x - mean) / sqrt(var + epsilon) * scale + bias`, for each channel; mean and var are inputs."""
    if call.flag("training_mode"):
        raise call.refuse("statistics that are updated")
    call.ignore("momentum", "spatial")
    x, scale, bias, mean, var = (call.input(i) for i in range(5))
    factor = scale / tensor.sqrt(var + call.number("epsilon", 1e-5))
    scaled, ndim = _scaled(x, factor) if is_weight(factor) else None, max(x.ndim, 2)
    y = x * channels(factor, ndim) if scaled is None else scaled
    return y + channels(bias - mean * factor, ndim)


def _scaled(x: Node, factor: Node) -> Node | None:
    """`x`, each of its channels times a factor; None if it is no convolution with filters that no input changes.

    The filters are multiplied instead, which is done once and not in every call. Those of a channel that learned
    nothing are often subnormal, which makes processors a hundred times slower; its factor makes zeros of them."""
    if x.op is ADD and is_weight(x.operands[1]):
        inner = _scaled(x.operands[0], factor)
        return None if inner is None else inner + x.operands[1] * channels(factor, x.ndim)
    inner = x.operands[0] if x.op is RESHAPE else x
    if inner.op is not CONTRACT or inner.operands[0].op is not WINDOWS or not is_weight(inner.operands[1]):
        return None
    (terms, filters), sides = inner.operands, [inner.params[side] for side in ("left", "right", "out")]
    first = 2 if x.op is RESHAPE else 1  # groups, and filters of each
    if sides[1][:first] != sides[2][1 : 1 + first] or x.type.shape[2:] != inner.type.shape[1 + first :]:
        return None
    factor = tensor.reshape(factor, (*filters.type.shape[:first], *[1] * (filters.ndim - first)))
    made = contract(terms, filters * factor, *sides)
    return made if x is inner else tensor.reshape(made, x.type.shape)


def dropout(call: Call) -> list[Node]:
    """The input: Dropout drops entries only while a model is trained."""
    call.ignore("ratio", "seed", "is_test")
    training = call.optional(2)
    if training is not None and call.scalar_input(2):
        raise call.refuse("in training mode")
    x = call.input(0)
    return [x, tensor.ones_like(x, "bool")]
