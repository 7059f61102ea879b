"""The reverse of fission. If light elementwise ops compute sequences from values in memory, and one loop alone reads
them, the loop computes them row by row. Example: the cotangents `2 * h` of a sum of squares."""

from collections.abc import Iterable, Mapping, Sequence

from scanjit import errors
from scanjit.ir import CONSTANT, ORIGINS, PART, Node, walk
from scanjit.ops.promotion import Elementwise
from scanjit.ops.shape import IOTA
from scanjit.ops.view import DIMSHUFFLE, View
from scanjit.rewrite.engine import Note, in_bodies, map_scans, uses
from scanjit.rewrite.loop import OpenScan
from scanjit.rewrite.split import TINY
from scanjit.walks import top_down

_LIGHT = 8
"""The ops together must cost less than this for each sequence that they make."""
_LIGHT_SHORT = 4
"""The same if rows are numbers, or short along each axis. Over time they would fill vectors, but a chain of operations
on numbers leaves a processor time for them."""
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
    for cone in _cones(list(loop.xs), scan, users):
        new = [end for end in cone.rows if end not in loop.xs and end.op is not IOTA]
        if cone.fits and len(new) <= len(cone.operands):
            found = True
            inner = [loop.xs.pop(operand) for operand in cone.operands]
            with errors.located(cone.operands[0].where):
                loop.substitute(dict(zip(inner, cone.inside(loop), strict=True)))
            names = ", ".join(sorted({node.op.name for node in cone.nodes}))
            notes.append(Note("sink", scan.where, f"a sequence is made row by row in the loop that reads it: {names}"))
    return loop.finish().parts() if found else None


def _cost(node: Node) -> int:
    """What an elementwise op costs; other ops count as costly."""
    return node.op.cost if isinstance(node.op, Elementwise) else _LIGHT


def _counts(node: Node) -> bool:
    """Whether a node is computed of the numbers of the steps and of scalars. Each loop that needs it computes it."""
    return IOTA in {arg.op for arg in node.operands} and all(arg.op is IOTA or not arg.ndim for arg in node.operands)


def _most(sequence: Node) -> int:
    """What the ops that make a sequence may cost."""
    short = all(isinstance(size, int) and size <= TINY for size in sequence.type.shape[1:])
    return _LIGHT_SHORT if short else _LIGHT


class _Cone:
    """Light elementwise ops, the `nodes`, that make sequences, the `operands`, and that nothing else uses.
    Numbers of steps may have other users."""

    def __init__(self, operands: Sequence[Node], nodes: Sequence[Node]) -> None:
        self.operands, self.nodes = operands, nodes
        inside = set(nodes)
        ends = dict.fromkeys(arg for node in nodes for arg in node.operands if arg not in inside)
        self.rows = [end for end in ends if self._is_sequence(end)]
        self.fixed = [end for end in ends if not self._is_sequence(end)]

    @property
    def fits(self) -> bool:
        """Whether its sequences are to be computed in the loop."""
        stored = all(_is_stored(end) for end in self.rows)
        narrow = all(end.ndim < self.operands[0].ndim or end.type.shape[0] == 1 for end in self.fixed)
        same_axes = len({operand.ndim for operand in self.operands}) == 1
        light = sum(map(_cost, self.nodes)) < sum(map(_most, self.operands))
        return bool(self.rows) and stored and narrow and same_axes and light

    def _is_sequence(self, end: Node) -> bool:
        """Whether an end has a row for each step."""
        shape, whole = end.type.shape, self.operands[0].type.shape
        return len(shape) == len(whole) and shape[0] == whole[0] and shape[0] != 1

    def inside(self, loop: OpenScan) -> list[Node]:
        """The rows of the sequences, computed in the body."""
        return rows_of(loop, self.operands, {end: loop.x(end) for end in self.rows}, self.fixed)


def _cones(operands: Sequence[Node], scan: Node, users: Mapping[Node, Sequence[Node]]) -> list[_Cone]:
    """The cones of a loop. Sequences that need the same op are of one cone."""
    mine, others = {scan}, dict.fromkeys(operands)
    while ready := [
        node for node in others if _cost(node) < _LIGHT and (_counts(node) or set(users.get(node, ())) <= mine)
    ]:
        mine.update(ready)
        further = [arg for node in ready for arg in node.operands]
        others = {node: None for node in (*others, *further) if node not in mine}
    found: list[_Cone] = []
    for operand in (operand for operand in operands if operand in mine):
        own = [node for node in top_down([operand], lambda n: n.operands if n in mine else ()) if node in mine]
        joined = [cone for cone in found if not set(cone.nodes).isdisjoint(own)]
        nodes = dict.fromkeys([*(node for cone in joined for node in cone.nodes), *own])
        found = [cone for cone in found if cone not in joined]
        found.append(_Cone([*(each for cone in joined for each in cone.operands), operand], list(nodes)))
    return found


def rows_of(loop: OpenScan, roots: Sequence[Node], rows: Mapping[Node, Node], fixed: Iterable[Node]) -> list[Node]:
    """One row of each of `roots`, in the body of a loop: its elementwise ops applied to rows instead of sequences.

    `rows` maps sequences to their rows in the body. `fixed` are nodes outside that are the same in all steps."""
    done = dict(rows)
    for node in fixed:
        if node.op is CONSTANT and node.ndim == 0:
            done[node] = node
        else:
            inner, whole = loop.const(node), node.ndim == roots[0].ndim
            done[node] = DIMSHUFFLE(inner, order=tuple(range(1, node.ndim))) if whole else inner
    for node in walk(roots, done):
        if node not in done:
            done[node] = node.op(*(done[arg] for arg in node.operands), **node.params)
    return [done[root] for root in roots]


def _is_stored(node: Node) -> bool:
    """Whether a node is in memory, or a part of what is. What counts the steps need not be."""
    while isinstance(node.op, View):
        (node,) = node.operands
    return node.op in (*ORIGINS, PART, IOTA)
