"""Which nodes of a loop's body may leave the loop, to be computed for all steps at once. Both parts of fission
(`scan_pre`, `scan_post`) use it."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from scanjit import errors, types
from scanjit.ir import ORIGINS, PART, Node, graphs_in, new_input, parts, replace, walk
from scanjit.ops.batch import batch_graph
from scanjit.ops.branch import IFELSE
from scanjit.ops.contraction import CONTRACT
from scanjit.ops.elementwise import ADD, CLIP, DIV, GREATER_EQUAL, MAXIMUM, MINIMUM, MUL, NEG, SUB, WHERE
from scanjit.ops.promotion import Elementwise
from scanjit.ops.scan import SCAN, checkpoints
from scanjit.ops.stretch import broadcast_to
from scanjit.ops.view import View
from scanjit.rewrite.loop import OpenScan
from scanjit.rewrite.match import is_filled
from scanjit.types import Dimension
from scanjit.walks import top_down

TINY = 4
"""Values of at most this many elements are computed for all steps at once: over time they fill the lanes of a
vector."""
CHEAP = 6
"""Values that take at most this many instructions together are not worth a loop of their own."""


def is_heavy(node: Node) -> bool:
    """Whether an op is worth taking out of the loop: a product is; views, copies and elementwise ops are not."""
    return not isinstance(node.op, Elementwise) and not node.op.moves_data


def is_small(node: Node) -> bool:
    """Whether the value is statically tiny."""
    if node.several:
        return False
    total = types.product(node.type.shape)
    return isinstance(total, int) and total <= TINY


def is_tiny(node: Node) -> bool:
    """Whether the op is one on statically tiny values."""
    if not is_small(node) or isinstance(node.op, View) or node.op is PART:
        return False
    return isinstance(node.op, Elementwise) or all(map(is_small, node.operands))


def are_cheap(nodes: Sequence[Node]) -> bool:
    """Whether the values of nodes are statically tiny, and take less time in the loop than it takes to store and load
    what they are computed from."""
    costs = [node.op.cost for node in nodes if isinstance(node.op, Elementwise) and is_small(node)]
    return len(costs) == len(nodes) and sum(costs) <= CHEAP


def is_scalar(loop: OpenScan) -> bool:
    """Whether all carries of a loop are single numbers."""
    return all(carry.inner.type.shape == () for carry in loop.carries)


def fits_lanes(loop: OpenScan) -> bool:
    """Whether several steps may be computed side by side: there is an order of the carries in which each is a linear
    function of itself, up to bounds, if those before it are known."""
    left = list(loop.carries)
    while left:
        moving = {carry.inner: loop.depends([carry.inner]) for carry in left}
        solved = [c for c in left if not any(c.new in moving[o.inner] for o in left if o is not c)]
        if not solved or not all(_is_linear(c.new, moving[c.inner]) for c in solved):
            return False
        left = [c for c in left if c not in solved]
    return True


def _is_linear(value: Node, moving: Collection[Node]) -> bool:
    """Whether a value is a linear function, up to bounds, of what the `moving` nodes depend on."""
    for node in (n for n in walk([value]) if n in moving and n.args):
        moves = [x in moving for x in node.operands]
        if node.op in (ADD, SUB, NEG):
            continue
        scales = node.op in (MUL, DIV) and node.type.kind.floating and not (node.op is DIV and moves[1])
        if (scales or node.op in (MAXIMUM, MINIMUM)) and sum(moves) == 1:
            continue
        if not (node.op is WHERE and not moves[0]) and not (node.op is CLIP and moves == [True, False, False]):
            return False
    return True


def names(nodes: Iterable[Node]) -> str:
    """The ops among nodes that are worth naming, for a note."""
    heavy = {node.op.name for node in nodes if is_heavy(node) and node.op is not PART}
    return ", ".join(sorted(heavy)) or "elementwise ops"


def tied(order: Iterable[Node], varying: set[Node], length: Dimension) -> set[Node]:
    """The nodes that stay in a loop of `length` steps, because they cannot be computed for all steps at once: ifelses
    whose condition varies from step to step (both branches would be computed), their parts, nodes with a size that
    varies, also inside of them, and loops of unknown length that ask for checkpoints (side by side they would need
    memory for all steps)."""
    found: set[Node] = set()
    for node in order:
        branch = node.op is IFELSE and node.operands[0] in varying and not _runs_or_skips_a_loop(node)
        part = node.op is PART and node.args[0] in found
        if branch or part or changes_size(node, varying, length) or saves_memory(node):
            found.add(node)
    return found


def changes_size(node: Node, varying: set[Node], length: Dimension) -> bool:
    """Whether a node has a size that differs from step to step, also inside of it, or is too large for any memory if
    there are `length` of it: there is no such node for all steps at once."""
    if any(size in varying for size in node.args[node.arity :]):
        return True
    inside = (inner for graph in graphs_in([node]) for inner in graph.nodes())
    if all(inner.dim_ref is None for inner in inside):
        return False
    over_time = {x: new_input(x.type.with_shape((length, *x.type.shape))) for x in node.operands if x in varying}
    try:
        batch_graph(parts(node), over_time, length)
    except (errors.NotSupportedError, errors.ShapeError):
        return True
    return False


def saves_memory(node: Node) -> bool:
    """Whether a node is a loop with `until` that asks for checkpoints, or a branch with such a loop."""
    if node.op is IFELSE:
        return any(map(saves_memory, walk(node.params["body"].outputs)))
    return node.op is SCAN and node.params["until"] and checkpoints(node) is not None


def _runs_or_skips_a_loop(branch: Node) -> bool:
    """Whether one branch of an ifelse is a loop that counts its steps, and the other branch is its result without a
    step (see `scan_steps`). If all steps are computed at once, such loops run side by side: a loop without a step ends
    at once."""
    condition, body = branch.operands[0], branch.params["body"]
    if condition.op is not GREATER_EQUAL or not is_filled(condition.operands[1], 1):
        return False
    ways = len(body.outputs) // 2
    run, skipped = walk(body.outputs[:ways]), walk(body.outputs[ways:])
    loops = any(node.op is SCAN and node.params["until"] for node in run)
    return loops and not any(is_heavy(node) for node in skipped if node.op not in ORIGINS)


def size(nodes: Iterable[Node]) -> Dimension:
    """How many elements nodes have together."""
    total: Dimension = 0
    for node in nodes:
        total = types.product(node.type.shape) + total
    return total


def free_labels(product: Node) -> tuple[set[int], set[int]]:
    """The labels of a contraction's result that only the left operand has, and those that only the right one has."""
    left, right, out = (set(product.params[name]) for name in ("left", "right", "out"))
    return (left - right) & out, (right - left) & out


def is_outer(node: Node) -> bool:
    """Whether the node is `a[:, None] * b[None, :]`: each operand is stretched along an axis that the other has."""
    if node.op is not MUL:
        return False
    mine, other = (_own_axes(x, node) for x in node.operands)
    return bool(mine - other) and bool(other - mine)


def _own_axes(x: Node, node: Node) -> set[int]:
    lead = node.ndim - x.ndim
    return {a + lead for a, n in enumerate(x.type.shape) if n != 1}


def is_product(node: Node, varying: set[Node]) -> bool:
    """Whether the node is a product with a matrix that is the same in all steps. For all steps at once, it is one
    product of matrices."""
    if node.op is not CONTRACT:
        return False
    return any(x not in varying and free for x, free in zip(node.operands, free_labels(node), strict=True))


class OverTime:
    """Computes nodes of a loop's body for all steps at once. Time is the first axis of the results.

    Make it before the loop is put together, while the loop still has all operands.
    """

    def __init__(self, loop: OpenScan) -> None:
        self.length = loop.length
        self.fixed = loop.outside()
        self.rows = {inner: x for x, inner in loop.xs.items()}

    def __call__(self, targets: Sequence[Node], stacks: Mapping[Node, Node]) -> list[Node]:
        """`targets` over time. `stacks` maps nodes of the body to their values over time.

        The targets may depend on carries only through the nodes in `stacks`."""
        batched: dict[Node, Node] = {}
        inner: dict[Node, Node] = dict(self.fixed)
        met, over_time = walk(targets), {**self.rows, **stacks}
        for node, stack in [(node, over_time[node]) for node in met if node in over_time]:
            symbol = new_input(stack.type.with_shape(stack.type.shape[1:]))
            inner[node], batched[symbol] = symbol, stack
        outer = batch_graph(replace(targets, inner), batched, self.length)
        return [new if flag else broadcast_to(new, (self.length, *new.type.shape)) for new, flag in outer]


def up_closure(nodes: Iterable[Node], users: Mapping[Node, Sequence[Node]]) -> set[Node]:
    """Nodes, and everything that uses them."""
    return set(top_down(nodes, lambda node: users.get(node, ())))
