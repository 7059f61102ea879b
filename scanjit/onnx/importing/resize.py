"""Resize: along each axis, an entry of the result is a weighted sum of a few entries of the input."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Node
from scanjit.onnx import functions as tensor
from scanjit.onnx.importing import known
from scanjit.onnx.importing.call import Call
from scanjit.ops.elementwise import MAXIMUM, MINIMUM, where
from scanjit.ops.index import GATHER
from scanjit.ops.promotion import cast
from scanjit.ops.shape import IOTA
from scanjit.ops.view import along
from scanjit.records import record
from scanjit.tensor.variables import axis_of
from scanjit.types import Dimension

Entry = tuple[Node, Node | None]
"""Two vectors with an element for each place of the result: the index of an entry of the input, which may lie outside,
and the weight of that entry. None stands for weights of 1."""

_FINEST = 1 << 10
"""The largest denominator of a fraction by which a symbolic size can be multiplied."""
_KERNELS: dict[str, tuple[int, Callable[[Node, float], Node]]] = {
    "linear": (1, lambda distance, a: 1 - distance),
    "cubic": (
        2,
        lambda t, a: where(t <= 1, ((a + 2) * t - (a + 3)) * t * t + 1, ((a * t - 5 * a) * t + 8 * a) * t - 4 * a),
    ),
}
"""For each mode: the largest distance of an entry whose weight is not 0, and the weight as a function of the
distance."""


@record
class Axis:
    """How one axis is resized: its sizes before and after, the scale, and the region of it that is resized. None is all
    of it."""

    axis: int
    before: Dimension
    after: Dimension
    scale: Any
    region: tuple[float, float] | None

    def changes(self) -> bool:
        """Whether this axis changes at all."""
        same = self.before == self.after if isinstance(self.before, int) else self.before is self.after
        return not same or self.region not in (None, (0.0, 1.0))


def resize(call: Call) -> Node:
    """A tensor with some axes resized."""
    x, mode = call.input(0), call.choice("mode", "nearest", ("nearest", *_KERNELS), f"mode of {call.op}")
    if mode != "nearest" and not x.type.kind.floating:
        raise call.refuse(f"with mode={mode!r} of integers", got=x.type)
    entries = _nearest(call) if mode == "nearest" else _weighted(call, mode)
    outside = call.number("extrapolation_value", 0.0)
    call.ignore("antialias", "cubic_coeff_a", "exclude_outside", "keep_aspect_ratio_policy", "nearest_mode")
    place = _coordinates(call)
    for each in _axes(call, x):
        if each.changes():
            x = _along(x, each, place(each), entries, outside)
    return x


def _along(x: Node, each: Axis, at: Node, entries: Callable[[Node, Axis], Sequence[Entry]], outside: float) -> Node:
    """A tensor resized along one axis. `at` is the place in the input of each place of the result."""
    last = ir.dim_node(each.before) - 1
    terms = []
    for index, weight in entries(at, each):
        inside = ir.apply(MINIMUM, ir.apply(MAXIMUM, index, 0), last)
        seen = GATHER(x, _settled(inside), axis=each.axis)
        terms.append(seen if weight is None else seen * along(cast(_settled(weight), x.dtype), each.axis, x.ndim))
    y = sum(terms[1:], terms[0])
    if each.region is None:
        return y
    beyond = along((at < 0) | (at > cast(last, "float32")), each.axis, x.ndim)
    return where(beyond, ir.constant(outside, x.dtype), y)


def _settled(node: Node) -> Node:
    """The node, replaced by a constant if it is computed from constants alone."""
    value = known.array(node)
    return node if value is None else ir.constant(value)


# ---- sizes -----------------------------------------------------------------------------------------------------------


def _axes(call: Call, x: Node) -> list[Axis]:
    """How each axis is resized."""
    axes = [axis_of(a, x.ndim) for a in call.integers("axes", list(range(x.ndim)))]
    first = 1 if call.version < 11 else 2
    scales, sizes = call.values("scales", first), call.optional(3)
    before = [x.type.shape[axis] for axis in axes]
    if sizes is not None:
        after, factors = _asked(call, before, call.dims("sizes", 3))
    elif scales is not None and len(scales):
        factors = [np.float32(scale) for scale in scales]
        if len(factors) != len(axes) or not all(scale > 0 for scale in factors):
            raise errors.FormatError(f"{call.op} has a positive scale for each axis", got=scales)
        after = [_scaled(call, n, scale) for n, scale in zip(before, factors, strict=True)]
    else:
        raise errors.FormatError(f"{call.op} lacks both its scales and its sizes")
    regions = _regions(call, len(axes))
    return [Axis(*each) for each in zip(axes, before, after, factors, regions, strict=True)]


def _scaled(call: Call, n: Dimension, scale: np.float32) -> Dimension:
    """A size times a scale, rounded down."""
    if isinstance(n, int):
        return int(np.float32(n) * scale)
    ratio = Fraction(float(scale)).limit_denominator(_FINEST)
    if np.float32(float(ratio)) != scale:
        raise call.refuse("of a size that is not known, by a scale that is no simple fraction", got=f"{n} by {scale}")
    return n * ratio.numerator // ratio.denominator


def _asked(call: Call, before: Sequence[Dimension], sizes: Sequence[Dimension]) -> tuple[list[Dimension], list[Any]]:
    """The sizes after, and the scales, from the input `sizes`."""
    policy = call.text("keep_aspect_ratio_policy", "stretch")
    if len(sizes) != len(before):
        raise errors.FormatError(f"{call.op} has a size for each axis", got=sizes)
    if policy == "stretch":
        return list(sizes), [_quotient(*pair) for pair in zip(sizes, before, strict=True)]
    if policy not in ("not_larger", "not_smaller"):
        raise errors.FormatError(f"there is no such keep_aspect_ratio_policy of {call.op}", got=policy)
    if not all(isinstance(n, int) for n in (*before, *sizes)):
        raise call.refuse(f"keep_aspect_ratio_policy={policy!r} with sizes that are not known")
    known_before = types.as_ints(before)
    quotients = [np.float32(size) / np.float32(n) for size, n in zip(types.as_ints(sizes), known_before, strict=True)]
    scale = min(quotients) if policy == "not_larger" else max(quotients)
    return [math.floor(scale * np.float32(n) + np.float32(0.5)) for n in known_before], [scale] * len(before)


def _quotient(after: Dimension, before: Dimension) -> Any:
    if isinstance(after, int) and isinstance(before, int):
        return np.float32(after) / np.float32(before) if before else np.float32(1)
    return cast(ir.dim_node(after), "float32") / cast(ir.dim_node(before), "float32")


def _regions(call: Call, count: int) -> list[tuple[float, float] | None]:
    """The region of each axis that is resized; None for all of it."""
    given = call.values("roi", 1) if call.version >= 11 else None
    if call.text("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize":
        return [None] * count
    if given is None or len(given) != 2 * count:
        raise errors.FormatError(f"{call.op} has two bounds for each axis", got=given)
    return [(float(given[i]), float(given[count + i])) for i in range(count)]


# ---- where the places of the result lie in the input -----------------------------------------------------------------


def _coordinates(call: Call) -> Callable[[Axis], Node]:
    """A function of an `Axis`, which returns the place in the input, a float32, of each place of the result."""
    default = "half_pixel" if call.version >= 11 else "asymmetric"
    name = "coordinate_transformation_mode"
    mode = call.choice(name, default, _PLACES, f"{name} of {call.op}")

    def place(each: Axis) -> Node:
        sizes = (cast(ir.dim_node(n), "float32") for n in (each.before, each.after))
        return _PLACES[mode](cast(IOTA(length=each.after), "float32"), each, *sizes)

    return place


def _half(x: Node, each: Axis, before: Node, after: Node) -> Node:
    return (x + 0.5) / each.scale - 0.5


def _symmetric(x: Node, each: Axis, before: Node, after: Node) -> Node:
    return before / 2 * (1 - after / (before * each.scale)) + (x + 0.5) / each.scale - 0.5


def _cropped(x: Node, each: Axis, before: Node, after: Node) -> Node:
    start, end = each.region or (0.0, 1.0)
    many = start * (before - 1) + x * (end - start) * (before - 1) / (after - 1)
    return where(after > 1, many, 0.5 * (start + end) * (before - 1))


_PLACES: dict[str, Callable[[Node, Axis, Node, Node], Node]] = {
    "align_corners": lambda x, each, before, after: where(after > 1, x * (before - 1) / (after - 1), 0),
    "asymmetric": lambda x, each, before, after: x / each.scale,
    "half_pixel": _half,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda x, each, before, after: where(after > 1, _half(x, each, before, after), 0),
    "tf_crop_and_resize": _cropped,
    "tf_half_pixel_for_nn": lambda x, each, before, after: (x + 0.5) / each.scale,
}


# ---- which entries, with which weights -------------------------------------------------------------------------------


_ROUNDED: dict[str, Callable[[Node], Node]] = {
    "ceil": tensor.ceil,
    "floor": tensor.floor,
    "round_prefer_ceil": lambda x: tensor.floor(x + 0.5),
    "round_prefer_floor": lambda x: tensor.ceil(x - 0.5),
}


def _nearest(call: Call) -> Callable[[Node, Axis], list[Entry]]:
    """The nearest entry, with weight 1."""
    mode = call.choice("nearest_mode", "round_prefer_floor", _ROUNDED, f"nearest_mode of {call.op}")

    def entries(at: Node, each: Axis) -> list[Entry]:
        if call.version >= 11:
            return [(cast(_ROUNDED[mode](at), "int64"), None)]
        return [(cast(_ROUNDED["ceil" if each.scale < 1 else "floor"](at), "int64"), None)]

    return entries


def _weighted(call: Call, mode: str) -> Callable[[Node, Axis], list[Entry]]:
    """The entries around a place, with weights that depend on their distance."""
    reach, kernel = _KERNELS[mode]
    a, inside, smooth = call.number("cubic_coeff_a", -0.75), call.flag("exclude_outside"), call.flag("antialias")

    def entries(at: Node, each: Axis) -> list[Entry]:
        wide = 1.0
        if smooth:
            if isinstance(each.scale, Node):
                raise call.refuse("with antialias and sizes that are not known", got=f"{each.after} of {each.before}")
            wide = max(1.0, 1.0 / float(each.scale))
        first = math.floor(-reach * wide) + 1
        whole = tensor.floor(at)
        indices = [cast(whole, "int64") + k for k in range(first, 2 - first)]
        distances = [tensor.abs(whole + k - at) / wide for k in range(first, first + len(indices))]
        weights = [where(t < reach, kernel(t, a), 0) for t in distances]
        if inside:
            n = ir.dim_node(each.before)
            weights = [where((i >= 0) & (i < n), w, 0) for i, w in zip(indices, weights, strict=True)]
        if inside or smooth:
            total = sum(weights[1:], weights[0])
            weights = [w / total for w in weights]
        return list(zip(indices, weights, strict=True))

    return entries
