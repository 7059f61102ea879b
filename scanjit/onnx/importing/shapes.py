"""Ops that rearrange and index tensors, and ops that give or take sizes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Node
from scanjit.onnx import functions as tensor
from scanjit.onnx.importing import known
from scanjit.onnx.importing.call import Call, scalar, stretched
from scanjit.onnx.tensors import dtype_of
from scanjit.ops.elementwise import CEIL, MAXIMUM, where
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.probe import ASSERT
from scanjit.ops.promotion import cast
from scanjit.ops.shape import IOTA, window
from scanjit.ops.stretch import full
from scanjit.ops.view import DIMSHUFFLE, along
from scanjit.tensor.indexing import index_array
from scanjit.tensor.variables import axes_of, axis_of
from scanjit.types import Dimension

_HUGE = 2**31 - 1
"""A bound of a slice of at least this is beyond the axis."""


def reshape(call: Call) -> Node:
    """A tensor in another shape. A size 0 stands for the size of the input, and -1 for the size that remains."""
    x = call.input(0)
    asked = list(call.dims("shape", 1))
    literal = call.flag("allowzero")
    for i, n in enumerate(asked):
        if isinstance(n, int) and n == 0 and not literal:
            if i >= x.ndim:
                raise errors.ShapeError(
                    "Reshape copies the size of an axis that its input does not have", got=f"{asked} for {x.type}"
                )
            asked[i] = x.type.shape[i]
    return tensor.reshape(x, asked)


def flatten(call: Call) -> Node:
    """A tensor as a matrix: the axes before `axis` become the rows, the others the columns."""
    x = call.input(0)
    axis = call.integer("axis", 1)
    if not -x.ndim <= axis <= x.ndim:
        raise errors.ShapeError("the axis of Flatten is out of range", got=axis, expected=f"an axis of {x.type}")
    axis = axis + x.ndim if axis < 0 else axis
    shape = types.product(x.type.shape[:axis]), types.product(x.type.shape[axis:])
    return tensor.reshape(x, shape)


def transpose(call: Call) -> Node:
    """The axes in another order."""
    order = call.integers("perm", None)
    return tensor.transpose(call.input(0), None if order is None else tuple(order))


def squeeze(call: Call) -> Node:
    """A tensor without axes of size 1.

    In a branch, a size that is not known is checked when the branch runs: if the other branch runs, it may differ from
    1.
    """
    x, axes = call.input(0), call.ints("axes", 1, None)
    unknown = [a for a in axes_of(axes, x.ndim) if isinstance(x.type.shape[a], types.Dim)] if axes is not None else []
    if not unknown or not call.in_subgraph:
        return tensor.squeeze(x, axes)
    for axis in unknown:
        n = ir.dim_node(x.type.shape[axis])
        first = x[(*[slice(None)] * axis, slice(0, 1))]
        x = ASSERT(first, n == 1, message=f"axis {axis}, which Squeeze drops, has another size than 1")
    return tensor.squeeze(x, axes)


def split(call: Call) -> list[Node]:
    """The parts of a tensor."""
    x = call.input(0)
    axis = call.axis(x, 0)
    sizes = call.dims("split", 1, None)
    n, count = x.type.shape[axis], call.integer("num_outputs", call.outputs)
    if sizes is None:
        if not 1 <= count <= call.outputs:
            raise errors.FormatError("Split makes as many parts as it has outputs", got=count, expected=call.outputs)
        size = (n + (count - 1)) // count if isinstance(n, int) else n // count
        if not isinstance(n, int):
            return tensor.split(x, count, axis)
        sizes = [min(size, max(n - i * size, 0)) for i in range(count)]
    total = sum(sizes)
    x = tensor.specify_shape(x, (*x.type.shape[:axis], total, *x.type.shape[axis + 1 :]), "what is split")
    x = call.expect(x, *((0, size, "Split makes parts of no negative size: {right}") for size in sizes))
    parts, at = [], 0
    for size in sizes:
        parts.append(x[(*[slice(None)] * axis, slice(at, at + size))])
        at = at + size
    return parts


def slice_(call: Call) -> Node:
    """`x[start:end:step]` along some axes."""
    x = call.input(0)
    starts, ends = call.dims("starts", 1), call.dims("ends", 2)
    axes = call.ints("axes", 3, tuple(range(len(starts))))
    steps = call.ints("steps", 4, (1,) * len(starts))
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise errors.FormatError("Slice has a start, an end, an axis and a step each", got=f"{len(starts)} starts")
    key: list[Any] = [slice(None)] * x.ndim
    axes_of(tuple(axes), x.ndim)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis, count = axis_of(axis, x.ndim), end - start
        inside = isinstance(count, int) and count > 0 and _is_computed(start)
        if step == 1 and (inside or (start == 0 and _counts_up_to(x.type.shape[axis], end))):
            x = window(x, axis, start, count)
        else:
            n = x.type.shape[axis]
            key[axis] = slice(_bound(start, n, step, False), _bound(end, n, step, True), step)
    return x[tuple(key)] if any(k != slice(None) for k in key) else x


def _counts_up_to(size: Dimension, dim: Dimension) -> bool:
    """Whether a dimension is the number of steps of a loop that makes at most `size` steps."""
    atom = types.as_atom(dim)
    most = ir.most_steps(atom.node) if atom is not None and atom.kind == "value" else None
    return most is not None and types.not_negative(size - most)


def _is_computed(dim: Dimension) -> bool:
    """Whether a bound of a slice is computed from values. If so, a slice of known length must lie inside the tensor;
    otherwise the call fails.

    ONNX would cut it off: a step of a loop that reads `x[i : i + 1]` could read 0 entries, so its size would depend on
    i."""
    return any(atom.kind == "value" for atom in types.atoms(dim)) if isinstance(dim, types.Dim) else False


def _bound(value: Dimension, n: Dimension, step: int, last: bool) -> Dimension | None:
    """A bound of a slice of an axis of n entries: the first one, or the `last`. A number beyond the axis becomes an end
    of the axis, or None if the slice begins or stops there anyway."""
    if not isinstance(value, int) or abs(value) < _HUGE:
        return value
    if (value > 0) == ((step > 0) == last):
        return None
    return n if value > 0 else 0


def gather(call: Call) -> Node:
    """Entries at indices along an axis."""
    x = call.input(0)
    axis = call.axis(x, 0)
    return x[(*[slice(None)] * axis, call.input(1))]


def gather_elements(call: Call) -> Node:
    """`take_along_axis`: entries at indices along an axis, with indices of their own for each place of the other
    axes."""
    x, index = call.input(0), call.input(1)
    axis = call.axis(x, 0)
    key = tuple(slice(0, n) if a != axis else slice(None) for a, n in enumerate(index.type.shape))
    return tensor.take_along_axis(x[key] if x.ndim else x, index, axis)


def _coordinates(index: Node, x: Node) -> list[Node]:
    """The indices of each axis, from a tensor of coordinates, which has them along its last axis."""
    count = index.type.shape[-1]
    if not isinstance(count, int):
        raise errors.ShapeError(
            "how many coordinates an index has is not known",
            got=index.type,
            expected="a number as the size of its last axis",
            fix="load(path, sizes={name: number}) fixes a size of the model",
        )
    if count > x.ndim:
        raise errors.ShapeError("there are more coordinates than axes", got=index.type, expected=x.type)
    return [index_array(index[..., i], x.type.shape[i], i) for i in range(count)]


def gather_nd(call: Call) -> Node:
    """Entries at coordinates."""
    x, index = call.input(0), call.input(1)
    batch = call.integer("batch_dims", 0)
    if batch:
        raise call.refuse("with batch_dims")
    return GATHER(x, *_coordinates(index, x), axis=0)


def scatter_nd(call: Call) -> Node:
    """A tensor with entries at coordinates replaced."""
    x, index, value = call.input(0), call.input(1), call.input(2)
    return _scattered(call, x, value, _coordinates(index, x))


def scatter_elements(call: Call) -> Node:
    """`put_along_axis`: entries along an axis replaced, with indices of their own for each place of the other axes."""
    x, index, value = call.input(0), call.input(1), call.input(2)
    axis = call.axis(x, 0)
    places = []
    for a, n in enumerate(x.type.shape):
        own = a == axis
        places.append(index_array(index, n, a) if own else along(IOTA(length=index.type.shape[a]), a, x.ndim))
    return _scattered(call, x, value, places)


def _scattered(call: Call, x: Node, value: Node, places: Sequence[Node]) -> Node:
    kind = call.text("reduction", "none")
    if kind not in ("none", "add"):
        raise call.refuse(f"with reduction={kind!r}")
    x, value = call.alike(x, value)
    return SCATTER(x, value, *places, axis=0, add=kind == "add")


def expand(call: Call) -> Node:
    """A tensor broadcast with a shape."""
    x, asked = call.input(0), call.dims("shape", 1)
    own = (1,) * (len(asked) - x.ndim) + x.type.shape
    whole = (1,) * (x.ndim - len(asked)) + tuple(asked)
    shape = [n if isinstance(k, int) and k == 1 else k for n, k in zip(own, whole, strict=True)]
    return tensor.broadcast_to(stretched(x, [tuple(shape)], call.op), shape)


def tile(call: Call) -> Node:
    """A tensor repeated."""
    x, counts = call.input(0), call.dims("repeats", 1)
    if len(counts) != x.ndim:
        raise errors.ShapeError("Tile repeats each axis", got=f"{len(counts)} numbers for {x.type}")
    return tensor.tile(x, counts) if counts else x


def pad(call: Call) -> Node:
    """A tensor with entries added before and after. Negative numbers take entries away."""
    x, kind = call.input(0), call.text("mode", "constant")
    pads = call.dims("pads", 1)
    axes = call.ints("axes", 3, tuple(range(x.ndim)))
    if len(pads) != 2 * len(axes):
        raise errors.FormatError("Pad has two numbers an axis", got=f"{len(pads)} for {len(axes)} axes")
    value: Any = call.number("value", 0.0)
    node = call.optional(2)
    if node is not None:
        value = scalar(node)
    widths: list[tuple[Dimension, Dimension]] = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        widths[axis_of(axis, x.ndim)] = (pads[i], pads[len(axes) + i])
    x, kept = _cropped(call, x, widths)
    if all(isinstance(n, int) and n == 0 for pair in kept for n in pair):
        return x
    if kind == "constant":
        return tensor.pad(x, kept, constant_values=cast(ir.as_node(value), x.dtype))
    return tensor.pad(x, kept, kind)


def _cropped(
    call: Call, x: Node, widths: Sequence[tuple[Dimension, Dimension]]
) -> tuple[Node, list[tuple[Dimension, Dimension]]]:
    """A tensor without the entries that negative widths take away; and the widths, with 0 for the negative ones."""
    key, kept = [], []
    few = "Pad takes {left} entries away from an axis of {right}"
    for n, (before, after) in zip(x.type.shape, widths, strict=True):
        start = -before if isinstance(before, int) and before < 0 else 0
        end = n + after if isinstance(after, int) and after < 0 else n
        x = call.expect(x, (start + n - end, n, few))
        key.append(slice(start, end))
        kept.append((before if start == 0 else 0, after if end == n else 0))
    return (x[tuple(key)] if any(k != slice(0, n) for k, n in zip(key, x.type.shape, strict=True)) else x), kept


# ---- of sizes --------------------------------------------------------------------------------------------------------


def shape(call: Call) -> Node:
    """The sizes of axes, as a vector."""
    x = call.input(0)
    start, end = call.integer("start", 0), call.integer("end", x.ndim)
    return known.vector(x.type.shape[slice(start, end)])


def constant_of_shape(call: Call) -> Node:
    """A tensor of one value."""
    value = call.attribute("value", np.ndarray, np.zeros(1, np.float32))
    if value.size != 1:
        raise errors.FormatError("the value of ConstantOfShape is one number", got=value.shape)
    return full(ir.constant(value.reshape(())), call.dims("shape", 0))


def constant(call: Call) -> Node:
    """A constant tensor."""
    for name, dtype in (("value_float", np.float32), ("value_int", np.int64)):
        if name in call.attributes:
            return ir.constant(dtype(call.attribute(name, (float, int))))
    for name, dtype in (("value_floats", np.float32), ("value_ints", np.int64)):
        if name in call.attributes:
            return ir.constant(np.array(call.attribute(name, list), dtype))
    return ir.constant(call.attribute("value", np.ndarray))


def range_(call: Call) -> Node:
    """`start`, `start + delta`, ... as long as it is before `limit`."""
    start, limit, delta = call.alike(*(scalar(call.input(i)) for i in range(3)))
    if start.type.kind.floating:
        first, end, apart = (cast(x, "float64") for x in (start, limit, delta))
        steps = cast(ir.apply(CEIL, (end - first) / apart), "int64")
        count = known.size(ir.apply(MAXIMUM, steps, 0))
    else:
        (low,), (high,), (step,) = (known.dims(x, "the input of Range") for x in (start, limit, delta))
        if isinstance(step, int) and step == 0:
            raise errors.FormatError("Range has a step of 0")
        if not isinstance(step, int):
            raise call.refuse("with a step of integers that is not known")
        ahead = high - low if step > 0 else low - high
        count = types.maximum((ahead + (abs(step) - 1)) // abs(step), 0)
    return start + cast(IOTA(length=count), start.dtype) * delta


def eye_like(call: Call) -> Node:
    """Ones on a diagonal of a matrix of zeros."""
    x = call.input(0)
    number = call.integer("dtype", None)
    if x.ndim != 2:
        raise errors.ShapeError("EyeLike takes a matrix", got=x.type)
    dtype = x.dtype if number is None else dtype_of(number, "the result of EyeLike")
    rows, columns = x.type.shape
    return tensor.eye(rows, columns, call.integer("k", 0), dtype)


def triangle(call: Call) -> Node:
    """A matrix, or a stack of matrices, with zeros on one side of a diagonal."""
    cut = tensor.triu if call.flag("upper", True) else tensor.tril
    return cut(call.input(0), int(call.scalar_input(1, 0)))


def one_hot(call: Call) -> Node:
    """One of two values along a new axis."""
    index, values = call.input(0), call.input(2)
    (depth,) = known.dims(cast(scalar(call.input(1)), "int64"), "the depth of OneHot")
    axis = axis_of(call.integer("axis", -1), index.ndim + 1)
    index = cast(index, "int64")
    n = ir.dim_node(depth)
    inside = tensor.expand_dims(where(index < 0, index + n, index), axis)
    return where(inside == along(IOTA(length=depth), axis, inside.ndim), values[1], values[0])


def reverse_sequence(call: Call) -> Node:
    """Each sequence of a batch reversed, up to its own length."""
    x, lengths = call.input(0), cast(call.input(1), "int64")
    time, batch = call.integer("time_axis", 0), call.integer("batch_axis", 1)
    if sorted((time, batch)) != [0, 1]:
        raise errors.FormatError("ReverseSequence has its axes in front", got=f"time {time}, batch {batch}")
    y = turned(tensor.swapaxes(x, 0, 1) if time else x, lengths)
    return tensor.swapaxes(y, 0, 1) if time else y


def turned(x: Node, lengths: Node) -> Node:
    """Sequences (time, batch, ...), each reversed up to its own length. The steps after that stay."""
    steps, count = x.type.shape[:2]
    t = DIMSHUFFLE(IOTA(length=steps), order=(0, None))
    places = where(t < lengths, lengths - 1 - t, t)
    return GATHER(x, places, DIMSHUFFLE(IOTA(length=count), order=(None, 0)), axis=0)


def depth_to_space(call: Call) -> Node:
    """Channels moved into blocks of an image."""
    x, k = call.input(0), call.integer("blocksize")
    n, channels, rows, columns = x.type.shape
    if call.text("mode", "DCR") == "DCR":
        y = tensor.reshape(x, (n, k, k, channels // (k * k), rows, columns)).transpose(0, 3, 4, 1, 5, 2)
    else:
        y = tensor.reshape(x, (n, channels // (k * k), k, k, rows, columns)).transpose(0, 1, 4, 2, 5, 3)
    return tensor.reshape(y, (n, channels // (k * k), rows * k, columns * k))


def space_to_depth(call: Call) -> Node:
    """Blocks of an image moved into channels."""
    x, k = call.input(0), call.integer("blocksize")
    n, channels, rows, columns = x.type.shape
    y = tensor.reshape(x, (n, channels, rows // k, k, columns // k, k)).transpose(0, 3, 5, 1, 2, 4)
    return tensor.reshape(y, (n, channels * k * k, rows // k, columns // k))
