"""A loop reduces its own stacks: `sum(ys) -> a carry that adds the rows up`.

This is for loops whose number of steps is computed in a step of an outer loop: no memory can be planned for an unknown
number of rows.
"""

from __future__ import annotations

from collections.abc import Callable

from scanjit import errors, ir
from scanjit.ir import PART, Node, apply, rebuilt
from scanjit.ops import Elementwise, Reduction
from scanjit.ops.elementwise import MINIMUM
from scanjit.ops.index import GATHER
from scanjit.ops.roles import Roles
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import SLICE
from scanjit.ops.stretch import full
from scanjit.ops.view import as_row
from scanjit.rewrite.loop import OpenScan, Y
from scanjit.rewrite.match import is_whole, window_of
from scanjit.rewrite.scan_sink import rows_of
from scanjit.types import Dimension
from scanjit.walks import top_down

Number = Callable[[Dimension], Node]


def folded(outputs: list[Node], concerned: Callable[[Node], bool], number: Number) -> list[Node]:
    """The outputs, with reductions over the steps of some scans moved into these scans. `number` makes a node of a
    size."""

    def change(old: Node, new: Node) -> Node | None:
        if not isinstance(new.op, Reduction) or 0 not in new.params["axes"]:
            return None
        with errors.located(old.where):
            return _folded(new, new.op, concerned, number)

    return rebuilt(outputs, change)


def _folded(reduction: Node, op: Reduction, concerned: Callable[[Node], bool], number: Number) -> Node | None:
    """The reduction as the last value of a carry; None if it does not reduce over the steps of a scan."""
    cone = _Cone(reduction.operands[0])
    if cone.scan is None or not concerned(cone.scan) or not cone.fits:
        return None
    loop = OpenScan.of(cone.scan)
    row = cone.row(loop)
    others = tuple(axis - 1 for axis in reduction.params["axes"] if axis)
    term = op(row, axes=others) if others else row
    init = full(op.initial(reduction.dtype), reduction.type.shape, reduction.dtype)
    carry = loop.add_carry(init, lambda before: op.join(before, term))
    loop.results = [None] * loop.own
    final = loop.finish().carry(carry)
    if op.empty:
        return final
    return GATHER(as_row(final), apply(MINIMUM, number(cone.ran), 1) - 1, axis=0)  # out of bounds where there is no row


class _Cone:
    """The elementwise ops that compute a tensor from the stacks of one scan."""

    def __init__(self, root: Node) -> None:
        self.root, self.scan = root, self._scan_of(root)
        self.stacks: list[Node] = []
        self.rows: list[Node] = []
        self.fixed: list[Node] = []
        self.fits = self.scan is not None and self._divided()

    @staticmethod
    def _scan_of(root: Node) -> Node | None:
        """The first scan that elementwise ops lead to."""
        leads = lambda node: isinstance(node.op, Elementwise) or node.op is SLICE
        met = top_down([root], lambda node: node.operands if leads(node) else ())
        return next((node.args[0] for node in met if node.op is PART and node.args[0].op is SCAN), None)

    @property
    def ran(self) -> Dimension:
        """How many rows there are."""
        return self.root.type.shape[0]

    def _divided(self) -> bool:
        """Divide the nodes into elementwise ops, stacks, other sequences, and nodes that are the same for all steps."""
        stack, seen = [self.root], {self.root}
        while stack:
            node = stack.pop()
            if self._stack_of(node) is not None:
                self.stacks.append(node)
            elif node.ndim < self.root.ndim or node.type.shape[0] == 1:
                self.fixed.append(node)
            elif isinstance(node.op, Elementwise):
                new = [arg for arg in node.operands if arg not in seen]
                seen.update(new)
                stack.extend(new)
            elif self.scan is not None and not self.scan.params["until"] and node.type.shape[0] == self.ran:
                self.rows.append(node)
            else:
                return False
        return bool(self.stacks)

    def _stack_of(self, node: Node) -> int | None:
        """Which of the stacked values of the scan a node is: all rows that ran."""
        assert self.scan is not None
        roles = Roles.of(self.scan)
        ran = ir.as_dim(ir.parts(self.scan)[-1]) if roles.until else self.scan.params["length"]
        if node.type.shape[:1] != (ran,):
            return None
        while node.op is SLICE:
            (first, _, apart), *rest = window_of(node)
            if first != 0 or apart != 1 or not is_whole(tuple(rest), node.type.shape[1:]):
                return None
            node = node.operands[0]
        if node.op is not PART or node.args[0] is not self.scan:
            return None
        index = node.params["index"]
        return roles.stacks.index(index) if index in roles.stacks else None

    def row(self, loop: OpenScan) -> Node:
        """One row of the tensor, in the body."""
        ys = [result.node for result in loop.results if isinstance(result, Y)]
        inner = {node: ys[index] for node in self.stacks if (index := self._stack_of(node)) is not None}
        inner |= {node: loop.x(node) for node in self.rows}
        return rows_of(loop, [self.root], inner, self.fixed)[0]
