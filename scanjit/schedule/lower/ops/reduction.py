"""Reductions, `argmax` and `argmin`: an operand combined over loops of its own."""

from collections.abc import Sequence

from scanjit.ir import Node
from scanjit.schedule.lower.maps import IndexMap
from scanjit.schedule.lower.values import NodeAt, PointRule, ValueBuilder
from scanjit.schedule.nests import NestLoop, Reduce, Value


class ReductionRule(PointRule):
    """A rule for all of them."""

    def reads(self, builder: ValueBuilder, node: Node, at: IndexMap) -> Sequence[NodeAt]:
        """The operand: its other axes are those of the result, in order."""
        over, rest = _loops(builder, node), iter(at)
        x = node.operands[0]
        return [(x, tuple((0, ((over[axis], 1),)) if axis in over else next(rest) for axis in range(x.ndim)))]

    def value(self, builder: ValueBuilder, node: Node, at: IndexMap, values: Sequence[Value]) -> Value:
        """All of its elements, combined."""
        return Reduce(node.dtype, node.op, tuple(_loops(builder, node).values()), values[0])


def _loops(builder: ValueBuilder, node: Node) -> dict[int, NestLoop]:
    """The axes that are reduced, each with the loop over it."""
    axes = node.params["axes"] if "axes" in node.params else (node.params["axis"],)
    return dict(zip(axes, builder.loops(tuple(node.operands[0].type.shape[a] for a in axes)), strict=True))
