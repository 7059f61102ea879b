"""`set_slice`: an array with a window of it replaced."""

from collections.abc import Iterator

from scanjit.ir import Node
from scanjit.ops.shape import window
from scanjit.schedule.lower.lowering import ArrayRule, Lowering
from scanjit.schedule.nests import Ref
from scanjit.types import Dimension


class SetSliceRule(ArrayRule):
    """The rule of `set_slice`."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """A copy of the operand, then the value over the window. Where the window is a run along one axis, only what
        stands before and after it is copied: of padding, a few columns and not all."""
        x, v = node.operands
        whole = lowering.destination(node)
        start, step = node.params["start"], node.params["step"]
        axes = [axis for axis, (n, m) in enumerate(zip(v.type.shape, x.type.shape, strict=True)) if n != m]
        if len(axes) == 1 and step == (1,) * x.ndim and all(start[i] == 0 for i in range(x.ndim) if i not in axes):
            (axis,) = axes
            rest = [
                lowering.copy(window(x, axis, first, length), whole.window(axis, first, length))
                for first, length in _beside(start[axis], v.type.shape[axis], x.type.shape[axis])
            ]
            middle = whole.window(axis, start[axis], v.type.shape[axis])
            lowering.put(node, whole, [*rest, lowering.copy(v, middle)])
            return
        first = lowering.copy(x, whole)
        offset, strides = whole.offset, []
        for begin, stride, along in zip(start, whole.strides, step, strict=True):
            offset = offset + begin * stride
            strides.append(stride * along)
        place = Ref(whole.buffer, offset, v.type.shape, tuple(strides))
        lowering.put(node, whole, [first, lowering.copy(v, place, after=[first])])


def _beside(start: Dimension, length: Dimension, size: Dimension) -> Iterator[tuple[Dimension, Dimension]]:
    """What is left of an axis before and after a run: where it begins, and how long it is."""
    parts: list[tuple[Dimension, Dimension]] = [(0, start), (start + length, size - start - length)]
    yield from (part for part in parts if part[1] != 0)
