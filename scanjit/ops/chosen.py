"""Compute a graph for the chosen examples of a batch: those that take a branch, or whose loop has not ended.

All rows are computed at once, also the rows of the other examples. These must raise no error and add no gradient, not
even a zero times an infinity, which is NaN. There are two ways:

- A graph of elementwise ops cannot fail. Each float operand becomes `where(chosen, x, stop_gradient(x))`. Its value is
  `x`, and it costs nothing forwards. Backwards it passes on the gradient of the chosen rows, and zeros for the other
  rows. An element that is read from an array, `x[i]`, becomes `x[where(chosen, i, 0)]`, and passes on gradients in the
  same way. The array itself, which may be large, stays as it is.
- In any other graph, copies of a chosen row replace the rows of the other examples. If no example is chosen, the graph
  must not run.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from scanjit import ir
from scanjit.ir import ORIGINS, PART, Node, Op, rebuilt, walk
from scanjit.ops.batch import batch_graph
from scanjit.ops.chain import carries_gradient
from scanjit.ops.elementwise import DIV, EQUAL, MUL, STOP_GRADIENT, WHERE
from scanjit.ops.extremes import ANY, MAX
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.promotion import Elementwise
from scanjit.ops.reduction import Reduction
from scanjit.ops.shape import CONCATENATE, IOTA
from scanjit.ops.stretch import SUM, full, over_batch, zeros_like
from scanjit.ops.view import DIMSHUFFLE, View
from scanjit.types import Dimension, Type, not_negative
from scanjit.walks import bottom_up


def batch_chosen(
    outputs: Sequence[Node], wide: Mapping[Node, Node], chosen: Node, size: Dimension
) -> tuple[list[Node], bool]:
    """The outputs over a batch, right for the chosen examples only.

    Parameters
    ----------
    outputs : nodes over one example. Their only origins are inputs.
    wide : a mapping from some of these inputs to their batches: inputs with one more axis, the batch, in front.
    chosen : for each example, whether it is chosen.
    size : the size of the batch.

    Returns
    -------
    list of Node
        All with the axis of the batch. The rows of the other examples hold values that nobody may use.
    bool
        Whether the outputs may also be computed if no example is chosen.
    """
    if _harmless(outputs, {*wide}, {*wide}, _INDEXED):
        mask = ir.new_input(Type(np.dtype("bool")))
        outputs, fits = _reading_inside(outputs, mask)
        origins = dict.fromkeys(node for node in _read_as_elements(outputs) if carries_gradient(node))
        given = dict(wide) | {node: over_batch(node, False, size) for node in origins if node not in wide}
        made = {node: _guarded(chosen, new) if node in origins else new for node, new in given.items()}
        return [over_batch(*pair, size=size) for pair in batch_graph(outputs, made | {mask: chosen}, size)], fits
    one = _chosen_one(chosen, size)
    made = {node: _filled(chosen, new, one) for node, new in wide.items()}
    return [over_batch(*pair, size=size) for pair in batch_graph(outputs, made, size)], False


def select(chosen: Node, a: Node, b: Node) -> Node:
    """`a` for the chosen examples, `b` for the others."""
    return ir.apply(WHERE, DIMSHUFFLE(chosen, order=(0, *[None] * (a.ndim - 1))), a, b)


# ---- graphs that cannot fail -----------------------------------------------------------------------------------------


def _harmless(outputs: Sequence[Node], stops: set[Node], differs: set[Node], indexed: Collection[Op] = ()) -> bool:
    """Whether a graph consists of elementwise ops and the like (and of `indexed` ones), and each node whose derivative
    may be infinite or NaN depends on values that differ between the examples."""
    closed: set[Node] = set()
    for node in walk(outputs, stops):
        if node in stops or node.op in ORIGINS:
            continue
        if any(arg in differs for arg in node.args):
            differs.add(node)
        elif all(arg in closed for arg in node.args):
            closed.add(node)
        if node.op.is_branch:
            inside = node.params["body"](*node.operands[1:])
            if not _harmless(inside, stops | set(node.operands), differs):
                return False
        elif node.op is not PART and node.op not in indexed and not _has_constant_slope(node, closed):
            if not isinstance(node.op, Elementwise | Reduction):
                return False
            if carries_gradient(node) and any(map(carries_gradient, node.operands)) and node not in differs | closed:
                return False
    return True


_INDEXED = (GATHER, SCATTER)
"""The ops that fail only if an index is outside."""


def _reading_inside(outputs: Sequence[Node], mask: Node) -> tuple[list[Node], bool]:
    """The outputs, in which gathers and scatters of an example that is not chosen use index 0; and whether there
    certainly is such an entry."""
    fits = True

    def change(_: Node, node: Node) -> Node | None:
        nonlocal fits
        if node.op not in _INDEXED:
            return None
        first, axis = 1 if node.op is GATHER else 2, node.params["axis"]
        arrays, indices = node.operands[:first], node.operands[first:]
        fits = fits and all(not_negative(n - 1) for n in arrays[0].type.shape[axis : axis + len(indices)])
        safe = node.op(*arrays, *(ir.apply(WHERE, mask, index, 0) for index in indices), **node.params)
        if node.op is SCATTER or not carries_gradient(safe):
            return safe
        return ir.apply(WHERE, mask, safe, ir.apply(STOP_GRADIENT, safe))

    return rebuilt(outputs, change), fits


def _read_as_elements(outputs: Sequence[Node]) -> list[Node]:
    """The origins that are read other than at indices."""

    def below(node: Node) -> Sequence[Node]:
        if node.op is not GATHER:
            return node.args
        array = node.operands[0]
        while isinstance(array.op, View):
            array = array.args[0]
        return node.args[1:] if array.op in ORIGINS else node.args

    return [node for node in bottom_up(outputs, below) if node.op in ORIGINS]


def _has_constant_slope(node: Node, closed: Collection[Node]) -> bool:
    """Whether the derivatives of a node do not depend on its operands. `closed` are nodes with known values."""
    op, operands = node.op, node.operands
    scaled = (op is MUL and operands[0] in closed) or (op in (MUL, DIV) and operands[1] in closed)
    return scaled or op.is_linear or op.has_constant_slope or not operands


def _guarded(chosen: Node, x: Node) -> Node:
    """`x`, with no gradient from the rows of the other examples."""
    return select(chosen, x, ir.apply(STOP_GRADIENT, x))


# ---- others ----------------------------------------------------------------------------------------------------------


def _chosen_one(chosen: Node, size: Dimension) -> Node:
    """A mask that is true for one chosen example, if there is one."""
    numbers = IOTA(length=size)
    number = MAX(CONCATENATE(full(0, (1,), "int64"), ir.apply(WHERE, chosen, numbers, 0), axis=0), axes=(0,))
    return ir.apply(EQUAL, numbers, number)


def _filled(chosen: Node, x: Node, one: Node) -> Node:
    """`x` with copies of the row of a chosen example in place of the rows of the examples that are not chosen."""
    row = (ANY if x.type.kind.is_mask else SUM)(select(one, x, zeros_like(x)), axes=(0,))
    return select(chosen, x, ir.apply(STOP_GRADIENT, row) if carries_gradient(row) else row)
