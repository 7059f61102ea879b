"""Scatter: values written, or added, at computed positions; one after the other, in the order of the indices."""

from __future__ import annotations

from scanjit.ir import Node
from scanjit.schedule import build
from scanjit.schedule.program import Index, Ref, Store
from scanjit.schedule.region import Region, Task


def scatter_task(region: Region, node: Node, target: Ref) -> Task:
    """The task that scatters into `target`, which holds the operand already."""
    x, v, *indices = node.operands
    axis, count = node.params["axis"], len(indices)
    space = region.space(v.type.shape)
    builder, at = region.builder(space), build.identity(space)
    ndim = v.ndim - (x.ndim - count)
    middle = at[axis : axis + ndim]
    found = []
    for k, index in enumerate(indices):
        own = tuple(
            build.FIXED if dim == 1 else middle[a] for a, dim in enumerate(index.type.shape, start=ndim - index.ndim)
        )
        found.append(Index(builder.value(index, own), target.strides[axis + k], target.shape[axis + k]))
    whole = (*at[:axis], *[build.FIXED] * count, *at[axis + ndim :])
    task = Task(node, space, builder.value(v, at))
    code = region.context.code(node)
    task.stores.append(Store(build.place(target, whole), task.value, tuple(found), node.params["add"], code))
    region.collect_needs(task, [task.value, *(index.value for index in found)])
    region.items.append(task)
    return task
