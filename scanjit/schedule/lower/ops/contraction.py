"""Contractions, such as products of matrices: a sum over products of loads."""

from collections.abc import Callable, Container, Sequence

from scanjit.ir import Node
from scanjit.kinds import kind_of
from scanjit.ops.contraction import Contraction, Labels
from scanjit.ops.elementwise import AND
from scanjit.ops.extremes import ANY
from scanjit.ops.narrow import MUL_APART, PAIR_BFLOAT16
from scanjit.ops.promotion import is_widening
from scanjit.ops.stretch import SUM
from scanjit.schedule.lower.maps import Axis, IndexMap, bases
from scanjit.schedule.lower.values import NodeAt, PointRule, ValueBuilder
from scanjit.schedule.nests import Apply, NestLoop, Reduce, Value


class ContractionRule(PointRule):
    """The rule of all contractions. Labels say which axes of the operands go along with each other, as in einsum.

    Parameters
    ----------
    apart : whether a product of pairs of bfloat16 reads the two numbers of each left pair separately. Then only the
        right pairs are taken apart while the program runs, once for all rows of a register tile.
    """

    def __init__(self, apart: bool = False) -> None:
        self._apart = apart

    def arrays(self, node: Node, known: Container[Node]) -> Sequence[Node]:
        """What the product loads: the sources of its factors, as floats of 16 bits are widened when they are loaded."""
        return [_source(x, known.__contains__) for x, _ in self._factors(node, known.__contains__)]

    def reads(self, builder: ValueBuilder, node: Node, at: IndexMap) -> Sequence[NodeAt]:
        """The factors (and the guard, if there is one), each at the axes that its labels name."""
        where: dict[int, Axis] = dict(zip(node.params["out"], at, strict=True))
        where |= {label: (0, ((loop, 1),)) for label, loop in _loops(builder, node).items()}
        found = self._factors(node, lambda x: builder.locate(x) is not None)
        return [(x, tuple(where[label] for label in own)) for x, own in found]

    def value(self, builder: ValueBuilder, node: Node, at: IndexMap, values: Sequence[Value]) -> Value:
        """The sum of the products; of bools, whether any pair is true."""
        over, boolean = tuple(_loops(builder, node).values()), kind_of(node.dtype).is_mask
        assert isinstance(node.op, Contraction)
        guard = values[-1] if "where" in node.params else None
        factors = values if guard is None else values[:-1]
        op = AND if boolean else node.op.product if len(factors) == 2 else MUL_APART
        product = Apply(node.dtype, op, tuple(factors), {})
        return Reduce(node.dtype, ANY if boolean else SUM, over, product, guard=guard) if over else product

    def _factors(self, node: Node, has_place: Callable[[Node], bool]) -> list[tuple[Node, Labels]]:
        """The factors (and the guard), with the labels of each. If pairs are taken apart, the two numbers of the left
        pairs come before the right pairs. The right operand is the one with the last axis of the result, along which
        lanes run."""
        labels = [node.params[name] for name in ("left", "right", "where") if name in node.params]
        found = list(zip(node.operands, labels, strict=True))
        if not self._apart:
            return found
        (left, own), right = sorted(found, key=lambda each: node.params["out"][-1:] in [(k,) for k in each[1]])
        if left.op is not PAIR_BFLOAT16 or has_place(left):
            return found
        return [*((x, own) for x in left.operands), right]


def _source(x: Node, has_place: Callable[[Node], bool]) -> Node:
    """The node that is loaded for an operand: what it is a view of. If the operand widens floats of 16 bits and has no
    place itself, these floats."""
    base = bases(x)[0]
    return _source(base.operands[0], has_place) if is_widening(base) and not has_place(base) else base


def _loops(builder: ValueBuilder, node: Node) -> dict[int, NestLoop]:
    """Maps each label that is summed over to its loop."""
    left, right, out = (node.params[k] for k in ("left", "right", "out"))
    a, b = node.operands[:2]
    sizes = dict(zip((*left, *right), (*a.type.shape, *b.type.shape), strict=True))
    summed = [label for label in left if label not in out]
    return dict(zip(summed, builder.loops(tuple(sizes[label] for label in summed)), strict=True))
