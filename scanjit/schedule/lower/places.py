"""Which nodes get a place in memory. All others are computed where they are read, as often as they are read."""

from collections import Counter
from collections.abc import Callable, Container, Sequence
from itertools import islice

from scanjit import ir
from scanjit.ir import Node, Op
from scanjit.ops import View
from scanjit.ops.contraction import Contraction
from scanjit.ops.elementwise import ADD, MOD, SUB
from scanjit.ops.extremes import compared_with_extreme
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import IOTA
from scanjit.schedule.lower.maps import bases
from scanjit.schedule.lower.values import PointRule, read_as_arrays

EXPENSIVE = 8
"""An elementwise op that costs at least this many instructions is computed once, whoever uses it."""
LONG = 64
"""A value that is used more than once and is made of more ops than this is computed once, even if the ops are cheap."""
LARGEST = 250
"""An expression of more ops than this is cut in two: compile time grows faster than linearly."""

WIDE = 128
"""A product with fewer columns stores its result as it is. What follows finds it in the nearest cache."""


def choose_stored(
    order: Sequence[Node],
    outputs: Sequence[Node],
    known: Container[Node],
    rule_of: Callable[[Op], PointRule | None],
) -> set[Node]:
    """The nodes that get a place in memory. (Fusion may find later that nobody reads it.)

    These are outputs; operands that an op reads as arrays, such as those of a product; nodes that are expensive and
    used twice, such as `exp(x)` in `exp(x) + 1 / exp(x)`; those that are expensive and computed of one wide
    product; nodes in the middle of a very long expression; and floats that are compared with the largest of them.

    Parameters
    ----------
    order : the nodes, each behind its operands.
    outputs : the nodes that are to be computed.
    known : the nodes that have a place already.
    rule_of : the rule of an op, if it can be computed at a point; else None.
    """
    choice = _Choice(order, known, rule_of)
    for node in order:
        if node not in known:
            choice.store_operands(node)
            choice.store_if_needed(node)
    choice.stored.update(node for node in outputs if not isinstance(node.op, View) and node.op is not ir.CONSTANT)
    return {node for node in choice.stored if node not in known}


class _Choice:
    """The nodes that get a place, while nodes are looked at in order."""

    def __init__(
        self, order: Sequence[Node], known: Container[Node], rule_of: Callable[[Op], PointRule | None]
    ) -> None:
        self._known, self._rule_of = known, rule_of
        self._uses = Counter(arg for node in order for arg in self._read_by(node))
        self._weight: dict[Node, int] = {}
        """How many ops are computed where a node is read. A stored node counts as 0."""
        self._products: dict[Node, frozenset[Node]] = {}
        """Products that a node is computed of, where it is read: element by element, without a view. Two stand for
        more."""
        self.stored: set[Node] = set()

    def store_operands(self, node: Node) -> None:
        """Store what a node reads as arrays."""
        rule = self._rule_of(node.op)
        for arg in self._arrays(node):
            base = bases(arg)[0]
            counted = base.op is IOTA and node.op is SCAN  # a loop counts its rows itself
            if base.op is not ir.CONSTANT and not counted and base not in self._known:
                self.stored.add(base)
            elif base.op is ir.CONSTANT and not base.ndim and rule is not None and rule.needs_array:
                self.stored.add(arg)  # a broadcast number: other rules read it at a point, without memory

    def _read_by(self, node: Node) -> Sequence[Node]:
        """The nodes that a node reads. A contraction may read what its operands are made of, and not the operands."""
        return self._arrays(node) if isinstance(node.op, Contraction) else node.args

    def _arrays(self, node: Node) -> Sequence[Node]:
        """What a node reads as arrays."""
        rule = self._rule_of(node.op)
        return read_as_arrays(node) if rule is None else rule.arrays(node, self._known)

    def store_if_needed(self, node: Node) -> None:
        """Store a node if it cannot be computed at a point, is expensive and used twice, or is a very long expression.
        Also store its expensive operands of which it reads elements more than once."""
        cost = self._cost(node)
        if isinstance(node.op, View):
            self._weight[node] = self._weight_of(node.args[0])
        elif cost is None:
            self.stored.add(node)
        elif cost:
            weight = self._weight[node] = 1 + sum(map(self._weight_of, node.operands))
            self._products[node] = frozenset(islice({p for arg in node.operands for p in self._products_of(arg)}, 2))
            shared = self._uses[node] > 1 and (cost >= EXPENSIVE or weight > LONG) and not _goes_around(node)
            if weight > LARGEST or shared or (cost >= EXPENSIVE and self._goes_with_product(node)):
                self.stored.add(node)
            if (compared := compared_with_extreme(node)) is not None:
                self.stored.add(compared)
            for arg in node.operands:
                if _repeats(arg, node):
                    self._store_repeated(bases(arg)[0])

    def _goes_with_product(self, node: Node) -> bool:
        """Whether a node can be computed together with the only product that it is computed of, a wide one whose
        elements nobody else reads. In `sigmoid(h @ u) * tanh(h @ v)`, each product may have a nest of its own. That of
        `h @ u` then stores the sigmoid, and the other nest waits for less."""
        if len(self._products[node]) != 1:
            return False
        (product,) = self._products[node]
        columns = product.type.shape[-1] if product.ndim else 1
        wide = not isinstance(columns, int) or columns >= WIDE
        return wide and product.type.shape == node.type.shape and self._uses[product] == 1

    def _store_repeated(self, node: Node) -> None:
        """Store an expensive node whose elements are read more than once."""
        if self._weight.get(node, 0) and (self._cost(node) or EXPENSIVE) >= EXPENSIVE and not _goes_around(node):
            self.stored.add(node)

    def _cost(self, node: Node) -> int | None:
        """The cost of computing a node at a point. None if it cannot be computed at single points."""
        rule = self._rule_of(node.op)
        return None if rule is None else rule.cost(node.op)

    def _weight_of(self, node: Node) -> int:
        return 0 if node in self.stored else self._weight.get(node, 0)

    def _products_of(self, node: Node) -> frozenset[Node]:
        if isinstance(node.op, Contraction) and node not in self._known:
            return frozenset([node])
        return frozenset() if node in self.stored else self._products.get(node, frozenset())


def _goes_around(node: Node) -> bool:
    """Whether a node is an index that counts and begins again, such as `(i - t) % n` of a roll. It is never stored: a
    reader wants to see how it is computed (see `scanjit.schedule.lower.computed`)."""
    return (
        node.op is MOD
        and node.operands[0].op in (ADD, SUB)
        and any(bases(part)[0].op is IOTA for part in node.operands[0].operands)
    )


def _repeats(arg: Node, node: Node) -> bool:
    """Whether an elementwise node reads elements of an operand more than once, as for a vector that is added to each
    row of a matrix."""
    if arg.type.shape != node.type.shape or not isinstance(arg.op, View):
        return arg.type.shape != node.type.shape
    return any(isinstance(view.op, View) and view.op.repeats for view in bases(arg)[1:])
