"""Which nodes get a place in memory, and which of them a place inside another one's."""

from __future__ import annotations

from collections.abc import Sequence

from scanjit import ir
from scanjit.ir import Node
from scanjit.ops import Elementwise, View
from scanjit.ops.index import GATHER
from scanjit.ops.shape import CONCATENATE, IOTA, RESHAPE
from scanjit.schedule.lower.region import Region, bases
from scanjit.schedule.nests import Ref, row_major
from scanjit.types import Dimension

EXPENSIVE = 8
"""An elementwise op that costs at least this many instructions is computed once, whoever uses it."""
LONG = 64
"""What is used more than once is computed once if it is made of more ops than this, however cheap they are."""
LARGEST = 250
"""A fused expression of more nodes than this is cut: compile time grows faster than linearly."""


def choose_places(region: Region, outputs: Sequence[Node], targets: Sequence[Ref | None]) -> None:
    """Decide which nodes of a region lie in memory, and which inside the place of another."""
    order = ir.walk(outputs, region.places, sizes=False)
    _choose_stored(region, order, outputs)
    for node, target in zip(outputs, targets, strict=True):
        if target is not None and node in region.stored and node not in region.wanted and node.op.goes_anywhere:
            region.wanted[node] = target
    _want_parts(region, order)


def _choose_stored(region: Region, order: Sequence[Node], outputs: Sequence[Node]) -> None:
    """Which nodes get a place in memory; fusion may still find that nobody reads it."""
    uses: dict[Node, int] = {}
    weight: dict[Node, int] = {}
    for node in order:
        for arg in node.args:
            uses[arg] = uses.get(arg, 0) + 1
    stored = region.stored
    for node in order:
        if node in region.places:
            continue
        op = node.op
        for arg in _read_from_memory(node):
            base = bases(arg)[0]
            if base.op is not ir.CONSTANT and base not in region.places:
                stored.add(base)
            elif base.op is ir.CONSTANT and not base.ndim and op is GATHER:
                stored.add(arg)  # a number, stretched: no memory holds it
        if isinstance(op, Elementwise) or op is GATHER:
            weight[node] = 1 + sum(weight.get(arg, 0) for arg in node.operands if arg not in stored)
            cost = op.cost if isinstance(op, Elementwise) else EXPENSIVE
            shared = uses.get(node, 0) > 1 and (cost >= EXPENSIVE or weight[node] > LONG)
            if weight[node] > LARGEST or shared:
                stored.add(node)
            for arg in node.operands:
                if _stretched(arg, node) and weight.get(bases(arg)[0], 0) and _cost(arg) >= EXPENSIVE:
                    stored.add(bases(arg)[0])
        elif isinstance(op, View):
            weight[node] = weight.get(node.args[0], 0) if node.args[0] not in stored else 0
        elif op not in (ir.CONSTANT, ir.SIZE, IOTA):
            stored.add(node)
    stored.update(node for node in outputs if not isinstance(node.op, View) and node.op is not ir.CONSTANT)
    stored.difference_update([node for node in stored if node in region.places])


def _want_parts(region: Region, order: Sequence[Node]) -> None:
    """Parts of a concatenation are computed in their place in it."""
    for node in reversed(order):
        if node not in region.stored or node in region.places:
            continue
        if node.op is CONCATENATE:
            whole = region.wanted.setdefault(node, region.new_buffer(node))
            start: Dimension = 0
            for part in node.operands:
                length = part.type.shape[node.params["axis"]]
                if part.op.goes_anywhere and part not in region.places and part not in region.wanted:
                    region.stored.add(part)
                    region.wanted[part] = whole.window(node.params["axis"], start, length)
                start = start + length
        elif node.op is RESHAPE:
            (x,) = node.operands
            whole = region.wanted.setdefault(node, region.new_buffer(node))
            if whole.contiguous and x.op.goes_anywhere and x not in region.places and x not in region.wanted:
                region.stored.add(x)
                shape = x.type.shape
                region.wanted[x] = Ref(whole.buffer, whole.offset, shape, row_major(shape))


def _read_from_memory(node: Node) -> Sequence[Node]:
    """The operands of an op that reads arrays, not values."""
    return node.operands[: {"none": 0, "first": 1, "all": None}[node.op.reads_memory]]


def _stretched(arg: Node, node: Node) -> bool:
    """Whether an elementwise node reads an operand more than once an element."""
    if arg.type.shape != node.type.shape:
        return True
    return any(isinstance(view.op, View) and view.op.repeats for view in bases(arg)[1:])


def _cost(node: Node) -> int:
    base = bases(node)[0]
    return base.op.cost if isinstance(base.op, Elementwise) else EXPENSIVE
