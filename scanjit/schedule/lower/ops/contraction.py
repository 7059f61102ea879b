"""Contractions, such as products of matrices: a sum over products of two loads."""

from collections.abc import Sequence

from scanjit.ir import Node
from scanjit.kinds import kind_of
from scanjit.ops.elementwise import AND
from scanjit.ops.linalg import Contraction
from scanjit.ops.reduce import ANY
from scanjit.ops.stretch import SUM
from scanjit.schedule.lower.maps import Axis, IndexMap
from scanjit.schedule.lower.values import PointRule, Read, ValueBuilder
from scanjit.schedule.nests import Apply, NestLoop, Reduce, Value


class ContractionRule(PointRule):
    """A rule for all contractions. Labels say which axes of the operands go along with each other, as in einsum."""

    def reads(self, builder: ValueBuilder, node: Node, at: IndexMap) -> Sequence[Read]:
        """Both operands (and the guard, if there is one), each at the axes that its labels name."""
        where: dict[int, Axis] = dict(zip(node.params["out"], at, strict=True))
        where |= {label: (0, ((loop, 1),)) for label, loop in _loops(builder, node).items()}
        labels = [node.params[k] for k in ("left", "right", "where") if k in node.params]
        return [(x, tuple(where[label] for label in own)) for x, own in zip(node.operands, labels, strict=True)]

    def value(self, builder: ValueBuilder, node: Node, at: IndexMap, values: Sequence[Value]) -> Value:
        """The sum of the products; of bools, whether any pair is true."""
        left, right, *guard = values
        over, boolean = tuple(_loops(builder, node).values()), kind_of(node.dtype).is_mask
        assert isinstance(node.op, Contraction)
        product = Apply(node.dtype, AND if boolean else node.op.product, (left, right), {})
        return Reduce(node.dtype, ANY if boolean else SUM, over, product, guard=(*guard, None)[0]) if over else product


def _loops(builder: ValueBuilder, node: Node) -> dict[int, NestLoop]:
    """The labels that are summed over, each with the loop over it."""
    left, right, out = (node.params[k] for k in ("left", "right", "out"))
    a, b = node.operands[:2]
    sizes = dict(zip((*left, *right), (*a.type.shape, *b.type.shape), strict=True))
    summed = [label for label in left if label not in out]
    return dict(zip(summed, builder.loops(tuple(sizes[label] for label in summed)), strict=True))
