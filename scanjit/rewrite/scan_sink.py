"""The reverse of fission. If light elementwise ops compute a sequence from values in memory, and one loop alone reads
it, the loop computes it row by row. Example: the cotangents `2 * h` of a sum of squares."""

from collections.abc import Iterable, Mapping

from scanjit import errors
from scanjit.ir import CONSTANT, ORIGINS, PART, Node, walk
from scanjit.ops.promotion import Elementwise
from scanjit.ops.view import DIMSHUFFLE, View
from scanjit.rewrite.engine import Note, in_bodies, map_scans, uses
from scanjit.rewrite.loop import OpenScan
from scanjit.rewrite.split import TINY
from scanjit.walks import top_down

_LIGHT = 8
"""The ops together must cost less than this."""
_LIGHT_SHORT = 4
"""The ops together must cost less than this if rows are numbers, or short along each axis. Over time they would fill
vectors, but a chain of operations on numbers leaves a processor time for them."""
_ROUNDS = 4


def sink(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """If a sequence costs less to compute than to store and load, compute it inside of the loop that reads it, one row
    in each step. Works in rounds: once a loop has changed, the users of the nodes behind it are known only in the next
    round."""
    outputs = in_bodies(outputs, lambda inner: sink(inner, notes))
    for _ in range(_ROUNDS):
        before, users = outputs, uses(outputs)
        outputs = map_scans(outputs, lambda old, scan: _sunk(scan, users, notes) if old is scan else None)  # noqa: B023
        if all(a is b for a, b in zip(before, outputs, strict=True)):
            break
    return outputs


def _sunk(scan: Node, users: dict[Node, list[Node]], notes: list[Note]) -> dict[int, Node] | None:
    loop = OpenScan.of(scan)
    found = False
    for operand, inner in list(loop.xs.items()):
        cone = _Cone(operand, scan, users)
        new = [end for end in cone.rows if end not in loop.xs]
        if cone.nodes and cone.fits and len(new) <= 1:
            found = True
            del loop.xs[operand]
            with errors.located(operand.where):
                loop.substitute({inner: cone.inside(loop)})
            names = ", ".join(sorted({node.op.name for node in cone.nodes}))
            notes.append(Note("sink", scan.where, f"a sequence is made row by row in the loop that reads it: {names}"))
    return loop.finish().parts() if found else None


class _Cone:
    """The light elementwise ops that make a sequence and that nothing else uses."""

    def __init__(self, operand: Node, scan: Node, users: dict[Node, list[Node]]) -> None:
        self.operand = operand
        self.nodes: list[Node] = []
        ends: list[Node] = []
        cost = 0
        mine = {scan}
        for node in top_down([operand], lambda node: node.operands if node in mine else ()):
            if isinstance(node.op, Elementwise) and node.op.cost < _LIGHT and set(users.get(node, ())) <= mine:
                self.nodes.append(node)
                mine.add(node)
                cost += node.op.cost
            else:
                ends.append(node)
        self.rows = [end for end in ends if self._is_sequence(end)]
        self.fixed = [end for end in ends if not self._is_sequence(end)]
        stored = all(_is_stored(end) for end in self.rows)
        narrow = all(self._is_fixed(end) for end in self.fixed)
        self.fits = bool(self.rows) and stored and narrow and self._pays(cost)

    def _pays(self, cost: int) -> bool:
        short = all(isinstance(size, int) and size <= TINY for size in self.operand.type.shape[1:])
        return cost < (_LIGHT_SHORT if short else _LIGHT)

    def _is_sequence(self, end: Node) -> bool:
        """Whether an end has a row for each step."""
        shape, whole = end.type.shape, self.operand.type.shape
        return len(shape) == len(whole) and shape[0] == whole[0] and shape[0] != 1

    def _is_fixed(self, end: Node) -> bool:
        """Whether an end is certainly the same in every step, and costs little to read."""
        return end.ndim < self.operand.ndim or end.type.shape[0] == 1

    def inside(self, loop: OpenScan) -> Node:
        """The row of the sequence, computed in the body."""
        return row_of(loop, self.operand, {end: loop.x(end) for end in self.rows}, self.fixed)


def row_of(loop: OpenScan, root: Node, rows: Mapping[Node, Node], fixed: Iterable[Node]) -> Node:
    """One row of `root`, in the body of a loop: its elementwise ops applied to rows instead of sequences.

    `rows` maps sequences to their rows in the body. `fixed` are nodes outside that are the same in all steps."""
    done = dict(rows)
    for node in fixed:
        if node.op is CONSTANT and node.ndim == 0:
            done[node] = node
        else:
            inner, whole = loop.const(node), node.ndim == root.ndim
            done[node] = DIMSHUFFLE(inner, order=tuple(range(1, node.ndim))) if whole else inner
    for node in walk([root], done):
        if node not in done:
            done[node] = node.op(*(done[arg] for arg in node.operands), **node.params)
    return done[root]


def _is_stored(node: Node) -> bool:
    """Whether a node is in memory, or a part of what is."""
    while isinstance(node.op, View):
        (node,) = node.operands
    return node.op in ORIGINS or node.op is PART
