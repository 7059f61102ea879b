"""Some examples of a batch: what is computed for those that take a branch, or whose loop has not ended.

All rows are computed at once, so those of the other examples hold something too. Nothing may come of it: no error and
no gradient, not even a zero times an infinity, which is NaN. There are two ways to that:

- A graph of elementwise ops cannot fail. Each float operand is `where(chosen, x, stop_gradient(x))`, which is `x`, and
  costs nothing forwards; backwards it lets pass what comes from the chosen rows, and puts zeros in place of the rest.
- In any other graph the rows of the others are replaced by a row that is chosen, and if there is none, nothing is run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from scanjit import ir
from scanjit.ir import LEAVES, PART, Node, walk
from scanjit.ops.batch import batch_graph
from scanjit.ops.branch import IFELSE, captured
from scanjit.ops.chain import is_float
from scanjit.ops.shape import CONCATENATE, DIMSHUFFLE, IOTA, broadcast_to, full, zeros_like
from scanjit.types import Dimension


def batch_chosen(
    outputs: Sequence[Node], wide: Mapping[Node, Node], chosen: Node, size: Dimension, some: bool = False
) -> list[Node]:
    """The outputs over a batch, right for the chosen examples only.

    Parameters
    ----------
    outputs : nodes over one example, that depend on no leaves but inputs.
    wide : what stands for some inputs: inputs with one axis more, the batch, as the first.
    chosen : for each example, whether it is chosen.
    size : the size of the batch.
    some : whether one example is chosen at least, if there are any.

    Returns
    -------
    list of Node
        All with the axis of the batch. What the rows of the other examples hold is of no matter.
    """
    if _cannot_fail(outputs, wide):
        leaves = [node for node in walk(outputs) if node.op in LEAVES and is_float(node)]
        given = dict(wide) | {node: _widened(node, False, size) for node in leaves if node not in wide}
        made = {node: _guarded(chosen, new) if is_float(new) else new for node, new in given.items()}
        return [_widened(*pair, size) for pair in batch_graph(outputs, made, size)]
    one = _chosen_one(chosen, size)
    made = {node: _filled(chosen, new, one) for node, new in wide.items()}
    then = [_widened(*pair, size) for pair in batch_graph(outputs, made, size)]
    if some:
        return then
    return captured(ir.OPS["any"](chosen, axes=(0,)), then, [zeros_like(node) for node in then])


def select(chosen: Node, a: Node, b: Node) -> Node:
    """`a` for the chosen examples, `b` for the others."""
    return ir.apply("where", DIMSHUFFLE(chosen, order=(0, *[None] * (a.ndim - 1))), a, b)


def _widened(node: Node, batched: bool, size: Dimension) -> Node:
    return node if batched else broadcast_to(node, (size, *node.type.shape))


# ---- graphs that cannot fail -----------------------------------------------------------------------------------------

_LINEAR = frozenset(
    "add sub neg where cast sum concatenate reshape set_slice size iota constant via".split()
    + ["stop_gradient", "clip_gradient"]
)
"""Ops whose derivatives are numbers, whatever their operands are."""


def _cannot_fail(outputs: Sequence[Node], batched: Collection[Node]) -> bool:
    """Whether a graph is one of elementwise ops and the like, and all that has a derivative which may be infinite, or
    is NaN somewhere, depends on what differs between the examples."""
    return _harmless(outputs, {*batched}, {*batched})


def _harmless(outputs: Sequence[Node], stops: set[Node], differs: set[Node]) -> bool:
    closed: set[Node] = set()
    for node in walk(outputs, stops):
        if node in stops or node.op in LEAVES:
            continue
        if any(arg in differs for arg in node.args):
            differs.add(node)
        elif all(arg in closed for arg in node.args):
            closed.add(node)
        if node.op is IFELSE:
            inside = node.params["body"](*node.operands[1:])
            if not _harmless(inside, stops | set(node.operands), differs):
                return False
        elif node.op is not PART and not _is_linear(node, closed):
            if node.op.kind not in ("elementwise", "reduction"):
                return False
            if is_float(node) and any(map(is_float, node.operands)) and node not in differs | closed:
                return False
    return True


def _is_linear(node: Node, closed: Collection[Node]) -> bool:
    name, operands = node.op.name, node.operands
    scaled = (name == "mul" and operands[0] in closed) or (name in ("mul", "div") and operands[1] in closed)
    return scaled or node.op.kind == "view" or name in _LINEAR


def _guarded(chosen: Node, x: Node) -> Node:
    """`x`, to which no gradient comes back from the rows of other examples."""
    return select(chosen, x, ir.apply("stop_gradient", x))


# ---- others ----------------------------------------------------------------------------------------------------------


def _chosen_one(chosen: Node, size: Dimension) -> Node:
    """A mask of one example that is chosen, if one is."""
    numbers = IOTA(length=size)
    number = ir.OPS["max"](
        CONCATENATE(full(0, (1,), "int64"), ir.apply("where", chosen, numbers, 0), axis=0), axes=(0,)
    )
    return ir.apply("equal", numbers, number)


def _filled(chosen: Node, x: Node, one: Node) -> Node:
    """`x` with the rows of other examples replaced by that of a chosen one."""
    row = ir.OPS["any" if x.dtype.kind == "b" else "sum"](select(one, x, zeros_like(x)), axes=(0,))
    return select(chosen, x, ir.apply("stop_gradient", row) if is_float(row) else row)
