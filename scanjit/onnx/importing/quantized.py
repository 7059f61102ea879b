"""Quantized tensors: integers that stand for `(integer - zero point) * scale`, as ONNX Runtime computes with them.

Sums of products of such integers are exact. Products of matrices are `round_int8` of both operands (see
`scanjit.ops.narrow`), so that quads of integers are multiplied. Correlations are computed in float32. Both are sums of
so few terms that float32 holds each sum exactly. These are added as integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scanjit import errors, ir
from scanjit.ir import Node
from scanjit.kinds import kind_of
from scanjit.onnx import functions as tensor, tensors
from scanjit.onnx.importing import convolutions, recurrent
from scanjit.onnx.importing.call import Call
from scanjit.ops import extremes as ops
from scanjit.ops.elementwise import MAXIMUM, MINIMUM, ROUND, where
from scanjit.ops.narrow import ROUND_INT8
from scanjit.ops.promotion import cast
from scanjit.ops.shape import IOTA
from scanjit.ops.stretch import SUM, constant_value
from scanjit.ops.view import DIMSHUFFLE, along
from scanjit.tensor.variables import axis_of
from scanjit.types import Dimension

_LARGEST = 255
"""The largest difference of two integers of 8 bits."""
_EXACT = 2**24
"""float32 holds all integers up to this one."""


# ---- from floats to integers and back --------------------------------------------------------------------------------


def quantize(call: Call) -> Node:
    """`round(x / scale) + zero point`, within the bounds of the dtype."""
    x, scale, zero = call.input(0), call.input(1), call.optional(2)
    call.ignore("saturate", "precision")
    number = call.integer("output_dtype", 0)
    dtype = zero.dtype if zero is not None else tensors.dtype_of(number or 2, "the result of QuantizeLinear")
    _check_integer(call, dtype)
    spread = _spread(call, x)
    return rounded(cast(x, scale.dtype) / spread(scale), None if zero is None else spread(zero), dtype)


def dequantize(call: Call) -> Node:
    """`(x - zero point) * scale`."""
    x, scale, zero = call.input(0), call.input(1), call.optional(2)
    number = call.integer("output_dtype", 0)
    _check_integer(call, x.dtype)
    spread = _spread(call, x)
    known = None if zero is None else call.alike(x, zero)[1]
    y = cast(_centred(x, None if known is None else spread(known), "int32"), scale.dtype) * spread(scale)
    return cast(y, tensors.dtype_of(number, "the result of DequantizeLinear")) if number else y


def dynamic_quantize(call: Call) -> list[Node]:
    """A tensor as integers of 8 bits, with the scale and the zero point that follow from its smallest and largest
    element."""
    x = call.input(0)
    scale, zero = bounds(x)
    return [rounded(x / scale, zero, np.dtype("uint8")), scale, zero]


def bounds(x: Node) -> tuple[Node, Node]:
    """The scale and the zero point with which all elements of a tensor, and 0, can be held by uint8."""
    axes = tuple(range(x.ndim))
    low, high = (tensor.cast(op(x, axes=axes) if axes else x, "float32") for op in (ops.MIN, ops.MAX))
    low, high = ir.apply(MINIMUM, low, np.float32(0)), ir.apply(MAXIMUM, high, np.float32(0))
    scale = where(high == low, np.float32(1), (high - low) / np.float32(_LARGEST))
    return scale, rounded(-low / scale, None, np.dtype("uint8"))


def rounded(x: Node, zero: Node | None, dtype: np.dtype) -> Node:
    """`round(x) + zero point`, cut to the bounds of a dtype. Ties go to even numbers; NaN becomes the least."""
    info = np.iinfo(dtype)
    shift = ir.constant(np.zeros((), x.dtype)) if zero is None else cast(zero, x.dtype)
    low, high = (ir.constant(np.asarray(bound, x.dtype)) - shift for bound in (info.min, info.max))
    inside = ir.apply(MINIMUM, where(x > low, x, low), high)
    return cast(ir.apply(ROUND, inside) + shift, dtype)


def _check_integer(call: Call, dtype: np.dtype) -> None:
    if not kind_of(dtype).integral:
        raise errors.DtypeError(f"{call.op} is for tensors of integers", got=dtype)


def _spread(call: Call, x: Node) -> Callable[[Node], Node]:
    """A function that reshapes a scale or a zero point so that it broadcasts with `x`. A scale is a number, or has an
    element for each entry of an axis, or for each block of entries."""
    axis, block = call.integer("axis", 1), call.integer("block_size", 0)

    def spread(given: Node) -> Node:
        if _is_one(given) and not block:
            return tensor.reshape(given, ())
        at = axis_of(axis, x.ndim)
        n = x.type.shape[at]
        if block:
            if given.ndim != x.ndim:
                raise errors.ShapeError(
                    f"the scale of {call.op} in blocks has as many axes as the scaled tensor",
                    got=given.type,
                    expected=x.type,
                )
            wide = tensor.repeat(given, block, at)[(*[slice(None)] * at, slice(0, n))]
            return tensor.specify_shape(wide, x.type.shape, f"the scale of {call.op} in blocks of {block}")
        if given.ndim != 1:
            raise errors.ShapeError(f"the scale of {call.op} is a number or a vector", got=given.type)
        given = tensor.specify_shape(given, (n,), f"the scale of {call.op}")
        return along(given, at, x.ndim)

    return spread


def _centred(x: Node, zero: Node | None, dtype: str) -> Node:
    """`x - zero point`, in a dtype that holds it."""
    values, shift = _elements(x), None if zero is None else constant_value(zero)
    if values is not None and (zero is None or shift is not None):
        return ir.constant((values.astype("int32") - (0 if shift is None else shift.astype("int32"))).astype(dtype))
    return cast(x, dtype) if zero is None else cast(x, dtype) - cast(zero, dtype)


def _elements(x: Node) -> np.ndarray | None:
    """The elements of a constant; None for other nodes, and for what broadcasting would make larger."""
    known = constant_value(x)
    return known if known is not None and known.shape == x.type.shape else None


# ---- products --------------------------------------------------------------------------------------------------------


def matmul_integer(call: Call) -> Node:
    """The product of two tensors of integers of 8 bits, in int32."""
    return _product(call, 1, 3)


def qlinear_matmul(call: Call) -> Node:
    """A product of quantized tensors, quantized."""
    return _requantized(call, _product(call, 3, 5))


class Bytes(NamedTuple):
    """A tensor of integers of 8 bits, as float32 from -128 to 127, and its zero point (the integer that stands for 0),
    as int32."""

    values: Node
    zero: Node


def _bytes_of(x: Node, zero: Node | None) -> Bytes:
    """A tensor of integers of 8 bits and its zero point."""
    below = 0 if x.type.kind.signed else 128
    known = _elements(x)
    values = cast(x, "float32") - below if known is None else ir.constant(known.astype("float32") - below)
    return Bytes(values, (ir.constant(np.int32(0)) if zero is None else cast(zero, "int32")) - np.int32(below))


def _product(call: Call, right: int, right_zero: int) -> Node:
    a, b = _bytes(call, 0), _bytes(call, right)
    rows, columns = call.optional(2), call.optional(right_zero)
    if rows is not None:
        rows = tensor.reshape(rows, ()) if _is_one(rows) else tensor.expand_dims(rows, -1) if rows.ndim == 1 else rows
    return _multiplied(_bytes_of(a, rows), _bytes_of(b, columns))


def _multiplied(left: Bytes, right: Bytes) -> Node:
    """The product of two matrices (or of batches of them, or with vectors), in int32, of the integers minus their zero
    points."""
    x, w = left.values, right.values
    x, w = tensor.expand_dims(x, 0) if x.ndim == 1 else x, tensor.expand_dims(w, -1) if w.ndim == 1 else w
    y = _summed(ROUND_INT8(x), ROUND_INT8(w), -1, -2, _EXACT // 128**2, tensor.matmul)
    x, w = cast(x, "int32"), cast(w, "int32")
    if _may_differ_from_zero(right.zero):
        y = y - right.zero * tensor.expand_dims(SUM(x - left.zero, axes=(x.ndim - 1,)), -1)
    if _may_differ_from_zero(left.zero):
        y = y - left.zero * tensor.expand_dims(SUM(w, axes=(w.ndim - 2,)), -2)
    y = y[..., 0] if right.values.ndim == 1 else y
    return (
        y[..., 0, :] if left.values.ndim == 1 and right.values.ndim > 1 else y[..., 0] if left.values.ndim == 1 else y
    )


def _may_differ_from_zero(node: Node) -> bool:
    known = constant_value(node)
    return known is None or bool(known.any())


def conv_integer(call: Call) -> Node:
    """A correlation of tensors of integers of 8 bits, in int32."""
    return _correlation(call, 1, 3)


def qlinear_conv(call: Call) -> Node:
    """A correlation of quantized tensors, with a bias in int32, quantized."""
    y, bias = _correlation(call, 3, 5), call.optional(8)
    return _requantized(call, y if bias is None else y + convolutions.channels(bias, y.ndim))


def _correlation(call: Call, filters: int, filters_zero: int) -> Node:
    x, w = _bytes(call, 0), _bytes(call, filters)
    shift, each = call.optional(2), call.optional(filters_zero)
    x = _centred(x, None if shift is None else tensor.reshape(shift, ()), "float32")
    if each is not None:
        each = tensor.reshape(each, (-1, *[1] * (w.ndim - 1)) if each.ndim else ())
    w = _centred(w, each, "float32")
    taps = int(np.prod([n if isinstance(n, int) else _EXACT for n in w.type.shape[2:]], dtype=object))
    step = _EXACT // (_LARGEST * _largest(w) * taps)
    run = lambda x, w: convolutions.correlation(call, x, w)
    if call.integer("group", 1) == 1:
        return _summed(x, w, 1, 1, step, run)
    inside = w.type.shape[1]
    exact = isinstance(inside, int) and inside <= step
    return cast(run(x, w), "int32") if exact else run(cast(x, "int32"), cast(w, "int32"))


def _summed(x: Node, w: Node, x_axis: int, w_axis: int, step: int, product: Callable[[Node, Node], Node]) -> Node:
    """A product, in int32, of integers in float32. The summed axis is cut into parts of `step` terms."""
    n = w.type.shape[w_axis]
    if step < 1 or not isinstance(n, int):
        return product(cast(x, "int32"), cast(w, "int32"))
    part = lambda node, axis, at: node[(*[slice(None)] * (axis % node.ndim), slice(at, min(at + step, n)))]
    x = tensor.specify_shape(x, [n if a == x_axis % x.ndim else k for a, k in enumerate(x.type.shape)], "a factor")
    if n <= step:
        return cast(product(x, w), "int32")
    parts = [cast(product(part(x, x_axis, at), part(w, w_axis, at)), "int32") for at in range(0, n, step)]
    return sum(parts[1:], parts[0])


def _largest(w: Node) -> int:
    """The largest absolute value of a tensor of integers of 8 bits: exact for constants, otherwise an upper bound."""
    values = constant_value(w)
    return _LARGEST if values is None else int(np.abs(values).max(initial=1))


def _bytes(call: Call, i: int) -> Node:
    x = call.input(i)
    if not x.type.kind.integral or x.dtype.itemsize != 1:
        raise errors.DtypeError(f"the input {i} of {call.op} is of integers of 8 bits", got=x.type)
    return x


def _is_one(node: Node) -> bool:
    return all(isinstance(n, int) and n == 1 for n in node.type.shape)


def _requantized(call: Call, y: Node) -> Node:
    """A sum in int32, quantized with the scale and the zero point of the result."""
    each, of_result, zero = (call.input(i) for i in (4, 6, 7))
    if each.ndim == 1 and not _is_one(each):
        each = convolutions.channels(each, y.ndim) if call.op == "QLinearConv" else each
    else:
        each = tensor.reshape(each, ())
    scale = tensor.reshape(call.input(1), ()) * each / tensor.reshape(of_result, ())
    return rounded(cast(y, "float32") * scale, tensor.reshape(zero, ()), zero.dtype)


# ---- weights of recurrent ops ----------------------------------------------------------------------------------------


def weights(
    call: Call, x: Node, gates: int, count: int
) -> tuple[Node, Dimension, list[tuple[recurrent.Product, recurrent.Product]]]:
    """Weights of integers of 8 bits, with a column for each gate of each unit.

    Inputs and states are quantized before they are multiplied: the inputs of all steps together, the states at each
    step.
    """
    w, r = _bytes(call, 1), _bytes(call, 2)
    recurrent.check_rank(call, w, r)
    size = call.integer("hidden_size", r.type.shape[1])
    w = tensor.specify_shape(w, (count, x.type.shape[2], gates * size), f"W of {call.op}")
    r = tensor.specify_shape(r, (count, size, gates * size), f"R of {call.op}")
    integers, scale = _integers(x, bounds(_seen(call, x)))
    products = []
    for d in range(count):
        of_input, of_state = _matrix(call, w, d, 8, gates * size), _matrix(call, r, d, 10, gates * size)
        products.append((_times_integers(integers.zero, scale, *of_input), _times_floats(*of_state)))
    return integers.values, size, products


def _times_integers(zero: Node, scale: Node, matrix: Bytes, each: Node) -> recurrent.Product:
    return lambda rows: _scaled(Bytes(rows, zero), scale, matrix, each)


def _times_floats(matrix: Bytes, each: Node) -> recurrent.Product:
    return lambda rows: _scaled(*_integers(rows, bounds(rows)), matrix, each)


def _seen(call: Call, x: Node) -> Node:
    """The input, with zeros at the steps after the longest sequence."""
    lengths = call.optional(4)
    if lengths is None:
        return x
    last = ops.MAX(lengths, axes=(0,))
    return where(DIMSHUFFLE(IOTA(length=x.type.shape[0]), order=(0, None, None)) < last, x, 0)


def _integers(x: Node, found: tuple[Node, Node]) -> tuple[Bytes, Node]:
    """A tensor quantized, and its scale."""
    scale, zero = found
    return _bytes_of(rounded(x / scale, zero, np.dtype("uint8")), zero), scale


def _scaled(rows: Bytes, scale: Node, matrix: Bytes, each: Node) -> Node:
    """The products of rows of integers and a matrix of integers, times both scales."""
    return cast(_multiplied(rows, matrix), "float32") * (scale * each)


def _matrix(call: Call, weights: Node, direction: int, at: int, columns: Dimension) -> tuple[Bytes, Node]:
    """The integer weights of one direction, and their scale: one number, or one for each column."""
    scale, zero = (_of_direction(call, call.optional(i), direction, columns) for i in (at, at + 1))
    if scale is None:
        raise errors.FormatError(f"{call.op} lacks its input {at}")
    return _bytes_of(_row(weights, direction), zero), scale


def _of_direction(call: Call, given: Node | None, direction: int, columns: Dimension) -> Node | None:
    if given is None or given.ndim == 0:
        return given
    row = _row(given, direction)
    return row if row.ndim == 0 else tensor.specify_shape(row, (columns,), f"a scale or zero point of {call.op}")


def _row(x: Node, at: int) -> Node:
    """A row of a tensor; of a constant, it is a constant."""
    values = constant_value(x)
    return x[at] if values is None else ir.constant(values[at])
