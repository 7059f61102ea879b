"""Arrays with some elements changed: `scatter`, at computed indices, and `set_slice`, in a window."""

from collections.abc import Sequence

from scanjit.ir import Node
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.computed import indices_of, never_meet
from scanjit.schedule.lower.lowering import ChangeRule, Lowering
from scanjit.schedule.lower.region import Item, Task
from scanjit.schedule.nests import Ref, Store


class ScatterRule(ChangeRule):
    """The rule of `scatter`."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """A copy of the operand, then the values, one after the other in the order of the indices."""
        whole = lowering.destination(node)
        first = lowering.held(node.operands[0], whole)
        lowering.put(node, whole, [_values(lowering, node, whole, first)])
        lowering.read_by_others(node)


def _values(lowering: Lowering, node: Node, target: Ref, first: Sequence[Item]) -> Task:
    """The task that writes the values into `target`, after some items. The values are stored one after the other if two
    of them may go to one place."""
    x, v, *indices = node.operands
    axis, count = node.params["axis"], len(indices)
    space = lowering.space(v.type.shape)
    builder, at = lowering.builder(space), maps.identity(space)
    ndim = v.ndim - (x.ndim - count)
    middle = at[axis : axis + ndim]
    indexed = list(zip(indices, x.type.shape[axis:], strict=False))
    settled = [builder.ranges.settled(*each, builder.locate) for each in indexed]
    values = [builder.value(index, maps.index_map(index, middle)) for index in settled]
    sure = [builder.ranges.is_inside(*each) for each in indexed]
    found = indices_of(values, target, axis, at, sure)
    before, after = at[:axis], at[axis + ndim :]
    value, code = builder.value(v, at), lowering.context.code(node)
    access = maps.place(target, (*before, *found.counted, *after))
    apart = never_meet((*before, *after), found, space)
    store = Store(access, value, found.checked or found.computed, node.params["add"], code, apart)
    return lowering.add(node, space, store, after=first)


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
