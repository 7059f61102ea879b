"""What one body computes, before it is statements: a whole graph, a step of a loop, or a branch of an ifelse.

A `Region` is a list of items, each behind those that it needs. Most items are tasks: a task computes one node over one
space, and stores it. Tasks that can be computed together become one nest later (`fuse`).
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field

from scanjit import ir
from scanjit.ir import Node
from scanjit.schedule.nests import Buffer, NestLoop, Ref, Statement, Store, Value
from scanjit.target import Target
from scanjit.types import Dimension


@dataclass(eq=False, kw_only=True)
class Item(ABC):
    """Something to be computed.

    `needs` are the items that must be computed before. One of them maps to True if this item reads it only at the very
    point that it computes: `y = exp(x) + 1` needs `exp(x)` in this way, `y = exp(x)[::-1]` does not.

    `escapes` says that somebody reads the result from memory. What does not escape may stay in registers.
    """

    needs: dict[Item, bool] = field(default_factory=dict)
    escapes: bool = False


@dataclass(eq=False)
class Task(Item):
    """A node that is computed at every point of a space and stored. `loads` are the values that read, at the point that
    is computed, what other tasks of the same space store; each comes with that task."""

    node: Node
    space: tuple[NestLoop, ...]
    value: Value
    store: Store
    loads: list[tuple[Value, Task]]


@dataclass(eq=False)
class Single(Item):
    """A statement that is no task: a scan, an ifelse, or a call of LAPACK. A loop over time and an `If` have no
    statements in them yet: these will be made of the regions `bodies`, one of a loop, two of an `If`."""

    statement: Statement
    bodies: list[Region] = field(default_factory=list)


class Context:
    """What all regions of a program share: the machine that it is for, what `explain` says about it, and the nodes that
    may report an index out of bounds."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.notes: list[str] = []
        self._codes: dict[Node, int] = {}
        self._constants: dict[Node, Ref] = {}
        self._fixed: dict[Node, bool | None] = {}

    def is_fixed(self, node: Node) -> bool:
        """Whether a node is the same in all calls: it depends on shared variables and constant arrays, and on nothing
        else but numbers. `w.T * 2` is fixed for a shared `w`, and `concatenate([w, x])` is not, for an input `x`.

        In `_fixed`, None stands for what depends on numbers alone. A loop reads such an array from memory, where every
        call puts it: the loop is not fixed.
        """
        known = self._fixed
        for other in ir.walk([node], known, sizes=False):
            if other not in known:
                parts = {known[arg] for arg in other.operands}
                if other.several:
                    parts |= {False for arg in other.operands if arg.ndim and known[arg] is None}
                leaf = other.op is ir.SHARED or (other.op is ir.CONSTANT and other.ndim > 0)
                known[other] = leaf or (False if other.op in ir.LEAVES or False in parts else True in parts or None)
        return known[node] is True

    def code(self, node: Node) -> int:
        """The number that reports an index out of bounds at this node."""
        return self._codes.setdefault(node, len(self._codes) + 1)

    @property
    def codes(self) -> list[Node]:
        """These nodes, in the order of their numbers."""
        return list(self._codes)

    def constant(self, node: Node) -> Ref | None:
        """Where a constant lies that is no scalar: in a buffer that all regions share. None for any other node."""
        if node.op is not ir.CONSTANT or not node.ndim:
            return None
        if node not in self._constants:
            array = node.params["data"].array
            buffer = Buffer(array.dtype, array.shape, "constant", "constant", array, fixed=True)
            self._constants[node] = Ref.whole(buffer)
        return self._constants[node]


class Region:
    """What one body computes.

    Parameters
    ----------
    context : what all regions of the program share.
    whole : whether it computes the whole graph, and not a step or a branch.

    Attributes
    ----------
    items : what is computed, in order.
    buffers : the memory that belongs to this region: nobody outside uses it.
    """

    def __init__(self, context: Context, whole: bool = True) -> None:
        self.context, self.whole = context, whole
        self.items: list[Item] = []
        self.buffers: set[Buffer] = set()
        self._spaces: dict[tuple[Dimension, ...], tuple[NestLoop, ...]] = {}

    def space(self, shape: tuple[Dimension, ...]) -> tuple[NestLoop, ...]:
        """The loops over a shape: the same for equal shapes."""
        return self._spaces.setdefault(shape, tuple(map(NestLoop, shape)))


def name_of(node: Node) -> str:
    """What a scan is called in notes."""
    return f"scan {node.params['name'] or ''} at {node.where}".replace("scan  at", "scan at")
