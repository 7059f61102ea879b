"""Regions: what a graph, a step of a loop, or a branch of an ifelse computes, before `fuse` makes statements of it.

A `Region` is a list of items, each behind those that it needs. Most items are tasks: a task computes one node over one
space, and stores it. Later, `fuse` makes one nest of tasks that can be computed together.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Collection, Hashable, Mapping, Sequence, Set as AbstractSet

from scanjit import ir
from scanjit.ir import Node
from scanjit.records import record
from scanjit.schedule.lower.ranges import Ranges
from scanjit.schedule.nests import Buffer, NestLoop, Ref, Statement, Store, Value, places_read


@record
class Item(ABC):
    """Something to be computed.

    `needs` has the items that must be computed before. It maps an item to True if this one reads its result only at the
    point that is computed: `exp(x)` in `exp(x) + 1`, but not in `exp(x)[::-1]`.
    """

    needs: Mapping[Item, bool]


@record
class Task(Item):
    """A node that is computed at every point of a space and stored. `values` are all values of the store, operands
    first. `loads` are those that read a result of another task of the same space at the point that is computed, each
    with that task. The task reads no results of `waits`, which it needs: they read what it changes."""

    node: Node
    space: tuple[NestLoop, ...]
    store: Store
    values: Sequence[Value]
    loads: Sequence[tuple[Value, Task]]
    waits: AbstractSet[Item] = frozenset()


@record
class Single(Item):
    """A statement that is no task: a scan, an ifelse, or a call of LAPACK. A loop over time and an `If` are still
    empty: their suites are made of the `regions`, one of a loop, two of an `If`."""

    statement: Statement
    regions: Sequence[Region]


@record
class Region:
    """The `items` that a graph, a step or a branch computes, in order. Somebody reads the results of items in
    `escaping` from memory. Other results may stay in registers."""

    items: Sequence[Item]
    escaping: AbstractSet[Item]


def reads_only_changed(item: Item, space: tuple[NestLoop, ...], store: Store) -> bool:
    """Whether an item reads, of the buffer that a store changes, at each point only the element that the store changes
    there. The two may then go through the points together, as in `x[t : t + 3].set(2 * x[t : t + 3])`. If there is one
    point alone, a store at a computed place comes behind all that is read."""
    if not isinstance(item, Task) or item.space is not space or (store.indices and not store.apart):
        return False
    changed, where = store.access.buffer, store.access.where(store.indices)
    if item.store.access.buffer is changed:
        return False
    if store.indices and not space:
        return True
    read = places_read(item.values, [changed])
    return all(place == where for place in read)


class Context:
    """What all lowerings of a program share: the notes for `explain`, the nodes that may report an error, the places of
    constants, and the statements that come before all others. The shared variables `changing` have another value in
    every call."""

    def __init__(self, changing: Collection[Node] = ()) -> None:
        self.notes: list[str] = []
        self.first: dict[Hashable, tuple[Ref, Statement]] = {}
        """Statements that depend on sizes alone, and their results. Equal ones have equal keys."""
        self.ranges = Ranges()
        self._codes: dict[Node, int] = {}
        self._constants: dict[Node, Ref] = {}
        self._fixed: dict[Node, bool | None] = dict.fromkeys(changing, False)

    def is_fixed(self, node: Node) -> bool:
        """Whether a node is the same in all calls: it depends on constant arrays and shared variables that no call
        changes, and on nothing else but numbers. `w.T * 2` is fixed for a shared `w`. For an input `x`,
        `concatenate([w, x])` is not.

        In `_fixed`, None stands for a node that depends on numbers alone. Every call computes such an array anew, so a
        loop that reads one from memory is not fixed.
        """
        known = self._fixed
        for other in ir.walk([] if node in known else [node], known, sizes=False):
            if other not in known:
                parts = {known[arg] for arg in other.operands}
                if other.several:
                    parts |= {False for arg in other.operands if arg.ndim and known[arg] is None}
                origin = other.op is ir.SHARED or (other.op is ir.CONSTANT and other.ndim > 0)
                known[other] = origin or (False if other.op in ir.ORIGINS or False in parts else True in parts or None)
        return known[node] is True

    def code(self, node: Node) -> int:
        """The number that reports an error of this node."""
        return self._codes.setdefault(node, len(self._codes) + 1)

    @property
    def codes(self) -> list[Node]:
        """The nodes that have a number, in the order of their numbers."""
        return list(self._codes)

    def constant(self, node: Node) -> Ref | None:
        """Where a constant array lies: in a buffer that all regions share. None for a scalar, and for any other
        node."""
        if node.op is not ir.CONSTANT or not node.ndim:
            return None
        if node not in self._constants:
            array = node.params["data"].array
            buffer = Buffer(array.dtype, array.shape, "constant", "constant", array, fixed=True)
            self._constants[node] = Ref.whole(buffer)
        return self._constants[node]


def name_of(node: Node) -> str:
    """What a scan is called in notes."""
    return f"scan {node.params['name'] or ''} at {node.where}".replace("scan  at", "scan at")
