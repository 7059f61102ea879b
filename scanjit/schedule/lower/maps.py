"""Index maps: at which elements a node is read.

For each axis of the node, an index map says where a point of some loops reads: an offset, and a stride for each loop.
With loops `i` and `j`, `x[j, 2 * i + 1]` is read at the map `((0, ((j, 1),)), (1, ((i, 2),)))`.
"""

from collections.abc import Callable, Iterable, Sequence

from scanjit.ir import Node
from scanjit.ops import View
from scanjit.schedule.nests import Access, NestLoop, Ref
from scanjit.types import Dimension

Axis = tuple[Dimension, tuple[tuple[NestLoop, Dimension], ...]]
IndexMap = tuple[Axis, ...]
FIXED: Axis = (0, ())
"""The index 0 of an axis at every point."""


def identity(loops: Sequence[NestLoop]) -> IndexMap:
    """The map of a node whose axes are the loops themselves."""
    return tuple((0, ((loop, 1),)) for loop in loops)


def place(ref: Ref, at: IndexMap) -> Access:
    """The access that reads or writes a place at an index map."""
    offset, strides = _combined(ref.offset, zip(at, ref.strides, strict=True))
    return Access(ref.buffer, offset, {loop: stride for loop, stride in strides.items() if stride != 0})


def _combined(offset: Dimension, axes: Iterable[tuple[Axis, Dimension]]) -> tuple[Dimension, dict[NestLoop, Dimension]]:
    """The offset and the strides of a sum of axes, each with a factor."""
    strides: dict[NestLoop, Dimension] = {}
    for (start, terms), factor in axes:
        if start != 0:
            offset = offset + start * factor
        for loop, stride in terms:
            step = factor if stride == 1 else stride * factor
            strides[loop] = strides[loop] + step if loop in strides else step
    return offset, strides


def broadcast_map(arg: Node, node: Node, at: IndexMap) -> IndexMap:
    """The map of an operand that is broadcast to the shape of an elementwise node."""
    shape = arg.type.shape
    if shape == node.type.shape and 1 not in shape:
        return at
    return tuple([FIXED if dim == 1 else axis for dim, axis in zip(shape, at[len(at) - len(shape) :], strict=True)])


def index_map(index: Node, axes: IndexMap) -> IndexMap:
    """The map of an array of indices. `axes` is the map of the axes that all index arrays make together; this array may
    have only the last ones."""
    own = zip(index.type.shape, axes[len(axes) - index.ndim :], strict=True)
    return tuple(FIXED if dim == 1 and terms else (start, terms) for dim, (start, terms) in own)


def view_map(node: Node, at: IndexMap) -> IndexMap:
    """The map at which a view reads its operand."""
    assert isinstance(node.op, View)
    result = []
    for start, terms in node.op.access(node.args[0].type.shape, **node.params):
        offset, strides = _combined(start, ((at[axis], factor) for axis, factor in terms))
        result.append((offset, tuple(strides.items())))
    return tuple(result)


def view_ref(node: Node, locate: Callable[[Node], Ref | None]) -> Ref | None:
    """Where a node lies if it is in memory, or a view of something in memory; else None."""
    ref = locate(node)
    if ref is not None or not isinstance(node.op, View):
        return ref
    base = view_ref(node.args[0], locate)
    if base is None:
        return None
    offset = base.offset
    strides: list[Dimension] = [0] * node.ndim
    for (start, terms), step in zip(node.op.access(base.shape, **node.params), base.strides, strict=True):
        offset = offset + start * step
        for axis, factor in terms:
            strides[axis] = strides[axis] + factor * step
    return Ref(base.buffer, offset, node.type.shape, tuple(strides))


def bases(node: Node) -> list[Node]:
    """The node that a chain of views looks at, then the views of the chain, the innermost first."""
    chain = [node]
    while isinstance(chain[-1].op, View):
        chain.append(chain[-1].args[0])
    return chain[::-1]
