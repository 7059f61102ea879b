"""`set_slice`: an array with a window of it replaced."""

from scanjit.ir import Node
from scanjit.schedule.lower.lowering import ChangeRule, Lowering
from scanjit.schedule.nests import Ref


class SetSliceRule(ChangeRule):
    """The rule of `set_slice`."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """A copy of the operand, then the value over the window."""
        x, v = node.operands
        whole = lowering.destination(node)
        first = lowering.held(x, whole)
        offset, strides = whole.offset, []
        for start, step, stride in zip(node.params["start"], node.params["step"], whole.strides, strict=True):
            offset = offset + start * stride
            strides.append(stride * step)
        window = Ref(whole.buffer, offset, v.type.shape, tuple(strides))
        lowering.put(node, whole, [lowering.copy(v, window, after=first)])
