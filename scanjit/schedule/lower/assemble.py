"""Nodes that are put together in one buffer: concatenate, reshape, set_slice, scatter."""

from __future__ import annotations

from scanjit.ir import Node
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.region import Item, Region, Task
from scanjit.schedule.nests import Index, Ref, Store, row_major
from scanjit.types import Dimension


def concatenate(region: Region, node: Node) -> None:
    """Parts one after the other in one buffer: those that can be computed there are, others are copied."""
    whole = region.wanted.get(node) or region.new_buffer(node)
    region.places[node] = whole
    makers: list[Item] = []
    start: Dimension = 0
    for part in node.operands:
        length = part.type.shape[node.params["axis"]]
        window = whole.window(node.params["axis"], start, length)
        place = region.places.get(part)
        if place is None or place.buffer is not window.buffer or place.offset != window.offset:
            region.copy(part, window)
            makers.append(region.items[-1])
        for item in region.items_of(part):
            if isinstance(item, Task):
                item.escapes = True
            makers.append(item)
        start = start + length
    region.makers[node] = makers


def reshape(region: Region, node: Node) -> None:
    """The same memory under another shape, where it is contiguous; else a copy."""
    (x,) = node.operands
    place = maps.view_ref(x, region.locate)
    if place is not None and place.contiguous:
        region.place_of(x)
        region.places[node] = Ref(place.buffer, place.offset, node.type.shape, row_major(node.type.shape))
        region.makers[node] = region.items_of(x)
        return
    whole = region.wanted.get(node) or region.new_buffer(node)
    if not whole.contiguous:
        whole = region.new_buffer(node)
    region.copy(x, Ref(whole.buffer, whole.offset, x.type.shape, row_major(x.type.shape)))
    region.places[node] = whole
    region.makers[node] = [region.items[-1]]


def set_slice(region: Region, node: Node) -> None:
    """A copy of the operand, then the value over the window."""
    x, v = node.operands
    whole = region.wanted.get(node) or region.new_buffer(node)
    region.copy(x, whole)
    first = region.items[-1]
    offset, strides = whole.offset, []
    for start, step, stride in zip(node.params["start"], node.params["step"], whole.strides, strict=True):
        offset = offset + start * stride
        strides.append(stride * step)
    region.copy(v, Ref(whole.buffer, offset, v.type.shape, tuple(strides)), after=[first])
    region.places[node] = whole
    region.makers[node] = [first, region.items[-1]]


def scatter(region: Region, node: Node) -> None:
    """A copy of the operand, then values at computed positions."""
    x = node.operands[0]
    whole = region.wanted.get(node) or region.new_buffer(node)
    region.copy(x, whole)
    first = region.items[-1]
    task = _scatter_task(region, node, whole)
    task.needs[first] = False
    task.escapes = True
    region.places[node] = whole
    region.makers[node] = [first, task]


def _scatter_task(region: Region, node: Node, target: Ref) -> Task:
    """The task that scatters into `target`, which holds the operand already: one value after the other, in the order of
    the indices."""
    x, v, *indices = node.operands
    axis, count = node.params["axis"], len(indices)
    space = region.space(v.type.shape)
    builder, at = region.builder(space), maps.identity(space)
    ndim = v.ndim - (x.ndim - count)
    middle = at[axis : axis + ndim]
    found = []
    for k, index in enumerate(indices):
        own = tuple(
            maps.FIXED if dim == 1 else middle[a] for a, dim in enumerate(index.type.shape, start=ndim - index.ndim)
        )
        found.append(Index(builder.value(index, own), target.strides[axis + k], target.shape[axis + k]))
    whole = (*at[:axis], *[maps.FIXED] * count, *at[axis + ndim :])
    task = Task(node, space, builder.value(v, at))
    code = region.context.code(node)
    task.stores.append(Store(maps.place(target, whole), task.value, tuple(found), node.params["add"], code))
    region.collect_needs(task, [task.value, *(index.value for index in found)])
    region.items.append(task)
    return task
