"""Which nodes get a place in memory. All others are computed where they are read, as often as they are read."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from scanjit import ir
from scanjit.ir import Node, Op
from scanjit.ops import View
from scanjit.ops.elementwise import ADD, MOD, SUB, is_widening
from scanjit.ops.linalg import Contraction
from scanjit.ops.shape import IOTA
from scanjit.schedule.lower.maps import bases
from scanjit.schedule.lower.values import PointRule

EXPENSIVE = 8
"""An elementwise op that costs at least this many instructions is computed once, whoever uses it."""
LONG = 64
"""A value that is used more than once, and is made of more ops than this, is computed once, however cheap the ops
are."""
LARGEST = 250
"""A fused expression of more nodes than this is cut: compile time grows faster than linearly."""

_COUNTS = {"none": 0, "first": 1, "all": None}
"""How many operands an op reads as arrays (None: all), by what it says."""


def choose_stored(
    order: Sequence[Node],
    outputs: Sequence[Node],
    known: Container[Node],
    rule_of: Callable[[Op], PointRule | None],
) -> set[Node]:
    """The nodes that get a place in memory; fusion may still find that nobody reads it.

    Stored are outputs; what an op reads as an array, such as the operands of a product; what is expensive and used
    twice, such as `exp(x)` in `exp(x) + 1 / exp(x)`; and the middle of a very long expression.

    Parameters
    ----------
    order : the nodes, each behind its operands.
    outputs : those of them that are to be computed.
    known : those that have a place already.
    rule_of : the rule of an op, if it can be computed at a point.
    """
    uses: dict[Node, int] = {}
    weight: dict[Node, int] = {}
    stored: set[Node] = set()

    def cost(node: Node) -> int | None:
        rule = rule_of(node.op)
        return None if rule is None else rule.cost(node.op)

    for node in order:
        for arg in node.args:
            uses[arg] = uses.get(arg, 0) + 1
    for node in order:
        if node in known:
            continue
        rule = rule_of(node.op)
        for arg in _read_as_arrays(node):
            base = bases(arg)[0]
            while isinstance(node.op, Contraction) and is_widening(base) and base not in known:
                base = bases(base.operands[0])[0]  # a product widens what it loads
            if base.op is not ir.CONSTANT and base not in known:
                stored.add(base)
            elif base.op is ir.CONSTANT and not base.ndim and rule is not None and rule.needs_array:
                stored.add(arg)  # a stretched number: it needs no memory
        own = None if rule is None else rule.cost(node.op)
        if isinstance(node.op, View):
            weight[node] = weight.get(node.args[0], 0) if node.args[0] not in stored else 0
        elif own is None:
            stored.add(node)
        elif own:
            weight[node] = 1 + sum(weight.get(arg, 0) for arg in node.operands if arg not in stored)
            shared = uses.get(node, 0) > 1 and (own >= EXPENSIVE or weight[node] > LONG) and not _goes_around(node)
            if weight[node] > LARGEST or shared:
                stored.add(node)
            for arg in node.operands:
                if _repeats(arg, node):
                    base = bases(arg)[0]
                    costs = weight.get(base, 0) and (cost(base) or EXPENSIVE) >= EXPENSIVE
                    if costs and not _goes_around(base):
                        stored.add(base)
    stored.update(node for node in outputs if not isinstance(node.op, View) and node.op is not ir.CONSTANT)
    return {node for node in stored if node not in known}


def _goes_around(node: Node) -> bool:
    """Whether a node counts from a computed number on, modulo a size, as the index of a roll does. As an index, it is
    no element's own (see `scanjit.schedule.lower.computed`)."""
    return (
        node.op is MOD
        and node.operands[0].op in (ADD, SUB)
        and any(bases(part)[0].op is IOTA for part in node.operands[0].operands)
    )


def _read_as_arrays(node: Node) -> Sequence[Node]:
    """The operands that an op reads as arrays, not as values at a point."""
    return node.operands[: _COUNTS[node.op.reads_memory]]


def _repeats(arg: Node, node: Node) -> bool:
    """Whether an elementwise node reads elements of an operand more than once: a vector that is added to each row."""
    if arg.type.shape != node.type.shape or not isinstance(arg.op, View):
        return arg.type.shape != node.type.shape
    return any(isinstance(view.op, View) and view.op.repeats for view in bases(arg)[1:])
