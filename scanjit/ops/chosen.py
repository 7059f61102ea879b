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
from scanjit.ops.chain import is_float
from scanjit.ops.elementwise import DIV, EQUAL, MUL, STOP_GRADIENT, WHERE, Elementwise
from scanjit.ops.reduce import ANY, MAX
from scanjit.ops.reduction import Reduction
from scanjit.ops.shape import CONCATENATE, IOTA
from scanjit.ops.stretch import SUM, full, over_batch, zeros_like
from scanjit.ops.view import DIMSHUFFLE
from scanjit.types import Dimension


def batch_chosen(
    outputs: Sequence[Node], wide: Mapping[Node, Node], chosen: Node, size: Dimension
) -> tuple[list[Node], bool]:
    """The outputs over a batch, right for the chosen examples only.

    Parameters
    ----------
    outputs : nodes over one example, that depend on no leaves but inputs.
    wide : what stands for some inputs: inputs with one axis more, the batch, as the first.
    chosen : for each example, whether it is chosen.
    size : the size of the batch.

    Returns
    -------
    list of Node
        All with the axis of the batch. What the rows of the other examples hold is of no matter.
    bool
        Whether they may be computed when no example is chosen.
    """
    if _cannot_fail(outputs, wide):
        leaves = [node for node in walk(outputs) if node.op in LEAVES and is_float(node)]
        given = dict(wide) | {node: over_batch(node, False, size) for node in leaves if node not in wide}
        made = {node: _guarded(chosen, new) if is_float(new) else new for node, new in given.items()}
        return [over_batch(*pair, size=size) for pair in batch_graph(outputs, made, size)], True
    one = _chosen_one(chosen, size)
    made = {node: _filled(chosen, new, one) for node, new in wide.items()}
    return [over_batch(*pair, size=size) for pair in batch_graph(outputs, made, size)], False


def select(chosen: Node, a: Node, b: Node) -> Node:
    """`a` for the chosen examples, `b` for the others."""
    return ir.apply(WHERE, DIMSHUFFLE(chosen, order=(0, *[None] * (a.ndim - 1))), a, b)


# ---- graphs that cannot fail -----------------------------------------------------------------------------------------


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
        if node.op.kind == "branch":
            inside = node.params["body"](*node.operands[1:])
            if not _harmless(inside, stops | set(node.operands), differs):
                return False
        elif node.op is not PART and not _has_constant_slope(node, closed):
            if not isinstance(node.op, Elementwise | Reduction):
                return False
            if is_float(node) and any(map(is_float, node.operands)) and node not in differs | closed:
                return False
    return True


def _has_constant_slope(node: Node, closed: Collection[Node]) -> bool:
    """Whether the derivatives of a node are numbers, whatever its operands are. `closed` are nodes that are known."""
    op, operands = node.op, node.operands
    scaled = (op is MUL and operands[0] in closed) or (op in (MUL, DIV) and operands[1] in closed)
    return scaled or op.is_linear or op.has_constant_slope or not operands


def _guarded(chosen: Node, x: Node) -> Node:
    """`x`, to which no gradient comes back from the rows of other examples."""
    return select(chosen, x, ir.apply(STOP_GRADIENT, x))


# ---- others ----------------------------------------------------------------------------------------------------------


def _chosen_one(chosen: Node, size: Dimension) -> Node:
    """A mask of one example that is chosen, if one is."""
    numbers = IOTA(length=size)
    number = MAX(CONCATENATE(full(0, (1,), "int64"), ir.apply(WHERE, chosen, numbers, 0), axis=0), axes=(0,))
    return ir.apply(EQUAL, numbers, number)


def _filled(chosen: Node, x: Node, one: Node) -> Node:
    """`x` with the rows of other examples replaced by that of a chosen one."""
    row = (ANY if x.dtype.kind == "b" else SUM)(select(one, x, zeros_like(x)), axes=(0,))
    return select(chosen, x, ir.apply(STOP_GRADIENT, row) if is_float(row) else row)
