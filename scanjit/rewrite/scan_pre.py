"""Fission, first part. Values that a step computes without its carries leave the loop: they are computed for all steps
at once, before it.

`x_t @ W` becomes one product of matrices. Elementwise ops on tensors stay, unless an op that leaves needs them: next to
their use they cost no memory. Ops on statically tiny values (scalars) leave too: over time they fill vectors.
"""

from scanjit import errors
from scanjit.ir import Node, users_among, walk
from scanjit.ops.contraction import CONTRACT
from scanjit.ops.index import GATHER
from scanjit.ops.promotion import Elementwise
from scanjit.ops.view import View
from scanjit.rewrite.alike import change_loops
from scanjit.rewrite.engine import Note
from scanjit.rewrite.loop import OpenScan, Y
from scanjit.rewrite.match import at_most
from scanjit.rewrite.scan_hoist import frontier
from scanjit.rewrite.split import OverTime, is_heavy, is_product, is_small, is_tiny, names, size, tied


def hoist_pre(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Before a loop, compute for all steps at once the values that depend on no carry: `x[t] @ W` becomes one product.
    Inner loops come first."""
    return change_loops(outputs, notes, _hoisted)


def _hoisted(scan: Node, notes: list[Note]) -> dict[int, Node] | None:
    loop = OpenScan.of(scan)
    split = _Pre(loop)
    if not split.leaving:
        return None
    sequences = [node for node in frontier(loop, split.leaving | split.views) if not node.several]
    ys = [r.node for r in loop.results if isinstance(r, Y) and r.node in split.leaving]
    if not sequences and not ys:
        return None
    with errors.located(scan.where):
        outer = OverTime(loop)([*sequences, *ys], {})
        known = dict(zip(ys, outer[len(sequences) :], strict=True))
        loop.results = [known.get(r.node, r) if isinstance(r, Y) else r for r in loop.results]
        rows = {node: loop.x(x) for node, x in zip(sequences, outer, strict=False)}
        loop.substitute(rows)
        text = f"needs no carry, and is done over all of time before the loop: {names(split.leaving)}"
        notes.append(Note("hoist_pre", scan.where, text))
        return loop.finish().parts()


class _Pre:
    """Decides which nodes leave."""

    def __init__(self, loop: OpenScan) -> None:
        rows = set(loop.xs.values())
        carried = loop.depends(c.inner for c in loop.carries)
        order = walk(loop.outputs)
        with_rows = loop.depends(rows)
        self.pre = {n for n in order if n in with_rows and n not in carried and n not in rows}
        varying = loop.depends([*(c.inner for c in loop.carries), *rows])
        staying = tied(order, varying, loop.length)  # also ops that need an op that stays: it would be done twice
        self.pre -= loop.depends(staying)
        if loop.stop is not None:  # steps after the last one would be done too
            self.pre = _certain(order, self.pre)
        self.views = {n for n in self.pre if isinstance(n.op, View)} | rows
        self.users = users_among(order)
        ys = set(loop.ys)
        self.outputs = set(loop.outputs)
        self.leaving: set[Node] = set()
        for node in (n for n in order if n in self.pre):
            if any(arg in staying for arg in node.args):
                staying.add(node)
            elif self._first(node, varying) or (node in ys and not _is_heavy(node)) or self._follows(node):
                self.leaving.add(node)
            elif _is_heavy(node):
                staying.add(node)

    def _first(self, node: Node, varying: set[Node]) -> bool:
        """Whether a node leaves for its own sake. A product of two varying operands leaves only if its operands exist
        outside anyway: otherwise they would have to be stored for all steps."""
        if node.op is GATHER:
            return is_small(node)
        if node.op is not CONTRACT or is_product(node, varying):
            return _is_heavy(node) or is_tiny(node)
        bases = {self._base(arg) for arg in node.operands}
        return all(base in self.leaving or base in self.views or base not in self.pre for base in bases)

    def _follows(self, node: Node) -> bool:
        """Whether an elementwise op leaves with its operands: if it is their only user, and no larger than they are."""
        if not isinstance(node.op, Elementwise):
            return False
        given = {self._base(arg) for arg in node.operands}
        given = {arg for arg in given if arg in self.leaving}
        if not given or any(arg in self.outputs or not self._only(arg, node) for arg in given):
            return False
        return at_most(size([node]), size(given))

    def _base(self, node: Node) -> Node:
        while isinstance(node.op, View) and node in self.pre:
            node = node.args[0]
        return node

    def _only(self, node: Node, user: Node) -> bool:
        """Whether each user of a node (seen through views) is `user` or leaves too."""
        stack = [node]
        while stack:
            for use in self.users.get(stack.pop(), ()):
                if use is user or use in self.leaving:
                    continue
                if not isinstance(use.op, View) or use in self.outputs:
                    return False
                stack.append(use)
        return True


def _is_heavy(node: Node) -> bool:
    """Whether an op is worth taking out of the loop for its own sake. A gather is not: it reads what is in memory
    already."""
    return is_heavy(node) and node.op is not GATHER


def _certain(order: list[Node], pre: set[Node]) -> set[Node]:
    """The nodes of `pre` that cannot fail, and do not depend on nodes of `pre` that can."""
    failing: set[Node] = set()
    for node in order:
        if node in pre and (not node.op.never_fails or any(arg in failing for arg in node.args)):
            failing.add(node)
    return pre - failing
