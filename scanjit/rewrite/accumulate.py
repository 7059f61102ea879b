"""Sums over time: a carry `acc' = acc + g` that nothing else reads is the sum of `g` over all steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scanjit.ir import Node, dependents, rebuild, replace, walk
from scanjit.ops.contraction import CONTRACT
from scanjit.ops.elementwise import ADD, DIV, MUL, NEG, SUB
from scanjit.ops.reduction import Reduction
from scanjit.ops.stretch import BROADCAST_TO, SUM
from scanjit.ops.view import View
from scanjit.records import record
from scanjit.rewrite.engine import uses
from scanjit.rewrite.loop import OpenCarry, OpenScan
from scanjit.rewrite.match import is_finite, is_zero
from scanjit.rewrite.split import free_labels, is_outer, is_small
from scanjit.walks import fold, top_down


@record(frozen=False)
class Term:
    """One summand of a carry.

    Parameters
    ----------
    carry : the carry that it is added to.
    node, negative : the summand, and whether it is subtracted.
    bases : the nodes that are summed over time. The summand is a linear function of them.
    linear : makes the sum of the summand from the sums of the bases.
    certain : whether it should leave the loop even if its bases are not stored anyway.
    """

    carry: OpenCarry
    node: Node
    negative: bool
    bases: list[Node]
    linear: _Linear
    certain: bool

    def total(self, summed: Callable[[Node], Node]) -> Node:
        """The sum over time as a node outside, from the sums of the bases."""
        total = self.linear.total(self.node, summed)
        return NEG(total) if self.negative else total

    def without(self, new: Node) -> Node:
        """The update of the carry without this summand."""
        for node, through in _spine(new, self.carry.inner):
            if any(x is self.node and x is not through for x in node.operands):
                return replace([new], {node: through})[0]
        return new


def accumulated(loop: OpenScan, carry: OpenCarry, new: Node) -> list[Term]:
    """The summands of a carry that can leave the loop. `new` is the update of the carry, without summands that have
    left already."""
    outputs = [*(new if c is carry else c.new for c in loop.carries), *loop.ys]
    users = uses(outputs)
    spine = list(_spine(new, carry.inner))
    inner = [node for node, _ in spine[1:]] + [carry.inner]
    if not spine or spine[-1][1] is not carry.inner or any(len(users[node]) != 1 for node in [new, *inner]):
        return []
    linear = _Linear(loop)
    terms = []
    for node, through in spine:
        summand = next(x for x in node.operands if x is not through)
        bases = linear.bases(summand)
        if all(map(linear.allowed, bases)) and summand.type.shape == carry.inner.type.shape:
            certain = all(map(linear.certain, bases))
            terms.append(Term(carry, summand, node.op is SUB, bases, linear, certain))
    return terms


def _spine(new: Node, inner: Node) -> Iterator[tuple[Node, Node]]:
    """The sums and differences on the path from the update of a carry to the carry, up to the first node that is
    neither. Each comes with the operand through which the path continues."""
    after = dependents(walk([new]), [inner])
    node = new
    while node.op in (ADD, SUB) and (node.type.kind.floating or node.type.kind.signed):
        ways = [x for x in node.operands if x in after]
        fits = len(ways) == 1 and ways[0].type.shape == node.type.shape
        if not fits or (node.op is SUB and ways[0] is not node.operands[0]):
            return
        yield node, ways[0]
        node = ways[0]


def _is_matrix_product(node: Node) -> bool:
    """Whether the node is a product in which each operand has an axis of its own."""
    return node.op is CONTRACT and all(free_labels(node))


class _Linear:
    """Finds the bases of a summand: nodes of which it is a linear function. The bases are summed over time, and these
    sums make the sum of the summand.

    `sum_t reshape(2 * x_t)` is `reshape(2 * sum_t x_t)`: its base is `x_t`.
    """

    def __init__(self, loop: OpenScan) -> None:
        self.outside = loop.outside()
        self.inputs = {*loop.xs.values(), *loop.consts.values()}
        self.varying = loop.depends([*(c.inner for c in loop.carries), *loop.xs.values()])
        self.carried = loop.depends(c.inner for c in loop.carries)

    def _inner(self, node: Node) -> list[Node] | None:
        """The operands in which a node is linear, if it is; None if it is a base."""
        op = node.op
        if node not in self.varying or node.args[node.arity :]:
            return None
        if op.is_linear and not isinstance(op, Reduction):  # a sum is made where its operand is, and summed over time
            return [x for x in node.operands if x in self.varying] if self._uniform(node) else None
        if op in (MUL, DIV) and node.type.kind.floating:
            varying = [x for x in node.operands if not is_finite(x)]
            if len(varying) == 1 and (op is MUL or varying[0] is node.operands[0]):
                return varying
        return None

    def _uniform(self, node: Node) -> bool:
        """Whether all summands vary. If one does not, its sum over time would be its product with the number of
        steps."""
        return all(x in self.varying or is_zero(x) for x in node.operands)

    def bases(self, node: Node) -> list[Node]:
        """The parts to sum over time."""
        return [at for at in top_down([node], lambda at: self._inner(at) or ()) if self._inner(at) is None]

    def allowed(self, base: Node) -> bool:
        """Whether a base may leave the loop. The result of an elementwise op on tensors may not: it is better summed in
        the loop."""
        if base.op is CONTRACT and base in self.varying - self.carried and not _is_matrix_product(base):
            return all(self._is_given(x) for x in base.operands)  # else all steps' operands would be stored
        summed = base.op is CONTRACT or base.op is SUM
        return summed or is_small(base) or is_outer(base) or base in self.varying - self.carried

    def certain(self, base: Node) -> bool:
        """Whether a base should leave the loop even if the loop has to store more for that."""
        return _is_matrix_product(base) or is_small(base) or is_outer(base) or base not in self.carried

    def _is_given(self, node: Node) -> bool:
        """Whether a node is an input of the body, or a view of one, or does not vary."""
        while isinstance(node.op, View):
            node = node.args[0]
        return node in self.inputs or node not in self.varying

    def total(self, node: Node, summed: Callable[[Node], Node]) -> Node:
        """The sum over time of a node, as a node outside, from the sums of its bases."""

        def made(at: Node, totals: list[Node]) -> Node:
            inner = self._inner(at)
            if inner is None:
                return summed(at)
            known = dict(zip(inner, totals, strict=True))
            args = tuple(known[x] if x in known else replace([x], self.outside)[0] for x in at.operands)
            return rebuild(at, args) if at.op is BROADCAST_TO else at.op(*args, **at.params)

        return fold(node, lambda at: self._inner(at) or (), made, {})
