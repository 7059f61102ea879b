"""Schedule one graph: the top level of a function, or the body of a loop.

Each node that has to lie in memory becomes a `Task`: a value, computed over a space, stored somewhere. Tasks of the
same space that can be computed together become one nest (`fuse`); what only such a nest reads never reaches memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from scanjit import ir, types
from scanjit.errors import InternalError
from scanjit.ir import Node, Op
from scanjit.ops import View
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.maps import Builder
from scanjit.schedule.nests import (
    Buffer,
    If,
    Nest,
    NestLoop,
    Pack,
    Ref,
    Statement,
    Store,
    TimeLoop,
    Value,
    walk_values,
)
from scanjit.schedule.nests.plan import Plan
from scanjit.target import Target
from scanjit.types import Atom, Dimension


@dataclass(eq=False)
class Task:
    """A node to be computed and stored."""

    node: Node
    space: tuple[NestLoop, ...]
    value: Value
    needs: dict[Task | Block | Single, bool] = field(default_factory=dict)
    """What must be computed before; True where it is read only at the very point that is being computed."""
    loads: list[tuple[Value, Task]] = field(default_factory=list)
    escapes: bool = False
    stores: list[Store] = field(default_factory=list)


@dataclass(eq=False)
class Block:
    """A scan: one nest with all of its steps, or a loop over time. Or an ifelse, which has no plan.

    `frame` is the loop, or the `If`, without the statements in it: those are made of the regions `bodies`, one of a
    loop, two of an `If`. Once they are there, `statements` are the packs to be made before, and the loop itself.
    """

    needs: dict[Task | Block | Single, bool]
    scan: Plan | None
    nest: Nest | None
    label: str
    frame: TimeLoop | If | None = None
    bodies: list[Region] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        """Of a scan."""
        assert self.scan is not None
        return self.scan


@dataclass(eq=False)
class Single:
    """A statement that is neither a nest nor a loop, and what must be computed before."""

    statement: Statement
    needs: dict[Task | Block | Single, bool]


Item = Task | Block | Single


class Context:
    """What all regions of a program share.

    `handlers` schedule the ops that are more than a value at every point; `choose_places` decides which nodes
    of a region lie in memory (`Region.stored`), and which inside another's place (`Region.wanted`).
    """

    def __init__(
        self,
        target: Target,
        handlers: Mapping[Op, Callable[[Region, Node], None]],
        choose_places: Callable[[Region, Sequence[Node], Sequence[Ref | None]], None],
    ) -> None:
        self.target, self.handlers, self.choose_places = target, handlers, choose_places
        self.notes: list[str] = []
        self.codes: list[Node] = []
        self._numbers: dict[Node, int] = {}
        self.constants: dict[Node, Ref] = {}
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
                if isinstance(other.type, tuple):
                    parts |= {False for arg in other.operands if arg.ndim and known[arg] is None}
                leaf = other.op is ir.SHARED or (other.op is ir.CONSTANT and other.ndim > 0)
                known[other] = leaf or (False if other.op in ir.LEAVES or False in parts else True in parts or None)
        return known[node] is True

    def code(self, node: Node) -> int:
        """The number that reports an index out of bounds at this node."""
        if node not in self._numbers:
            self.codes.append(node)
            self._numbers[node] = len(self.codes)
        return self._numbers[node]


class Region:
    """Schedules nodes given the places of those that are there already.

    Parameters
    ----------
    context : shared by the program's regions.
    known : places of leaves.
    parent : the region of the loop that this region is the body of.
    counters : the atoms that change from step to step of that loop, and from block to block within a step.
    """

    def __init__(
        self,
        context: Context,
        known: dict[Node, Ref],
        parent: Region | None = None,
        counters: Iterable[Atom] = (),
    ) -> None:
        self.context, self.parent, self.counters = context, parent, frozenset(counters)
        self.places: dict[Node, Ref] = dict(known)
        self.makers: dict[Node, list[Item]] = {}
        self.items: list[Item] = []
        self.buffers: set[Buffer] = set()
        self.results: set[Buffer] = set()
        """Buffers of others in which this region's outputs lie."""
        self.packed: list[Pack] = []
        """Packs that nests of this region have before them."""
        self.held: list[Pack] = []
        """Packs to be made before the loop that is scheduled next."""
        self.spaces: dict[tuple[Dimension, ...], tuple[NestLoop, ...]] = {}
        self.builders: dict[tuple[NestLoop, ...], Builder] = {}
        self.wanted: dict[Node, Ref] = {}
        self.stored: set[Node] = set()
        self.nodes: set[Node] = set()
        """All that is needed of what is not there already."""

    # ---- places -----------------------------------------------------------------------------------------------------

    def new_buffer(self, node: Node, name: str = "") -> Ref:
        """A place of its own for a node."""
        return self.new_memory(node, node.dtype, node.type.shape, name or node.op.name)

    def new_memory(self, node: Node, dtype: np.dtype, shape: tuple[Dimension, ...], name: str) -> Ref:
        """Memory for results of a node. Within a loop, it holds other values at every step."""
        fixed = self.parent is None and self.context.is_fixed(node)
        buffer = Buffer(dtype, shape, "temporary", name, fixed=fixed)
        self.buffers.add(buffer)
        return Ref.whole(buffer)

    def locate(self, node: Node) -> Ref | None:
        """Where a node lies, if it does (constants get their place on demand)."""
        return self.places.get(node) or self.constant(node)

    def constant(self, node: Node) -> Ref | None:
        """Where a constant that is no scalar lies."""
        if node.op is not ir.CONSTANT or not node.ndim:
            return None
        if node not in self.context.constants:
            array = node.params["data"].array
            buffer = Buffer(array.dtype, array.shape, "constant", "constant", array, fixed=True)
            self.context.constants[node] = Ref.whole(buffer)
        return self.context.constants[node]

    def place_of(self, node: Node) -> Ref:
        """Where a node lies, in memory or as a view; it escapes: others than nests of this region read it."""
        for base in bases(node):
            for item in self.makers.get(base, ()):
                if isinstance(item, Task):
                    item.escapes = True
        ref = maps.view_ref(node, self.locate)
        if ref is None and (node.op is ir.CONSTANT or node.op in (ir.SIZE,) or isinstance(node.op, View)):
            ref = self.copy(node)
        if ref is None:
            raise InternalError(f"{node!r} has no place in memory", where=node.where)
        return ref

    def copy(self, node: Node, target: Ref | None = None, after: Sequence[Item] = ()) -> Ref:
        """Compute a node (again) into a place of its own."""
        target = target or self.new_buffer(node)
        task = self._task(node, target)
        task.escapes = True
        task.needs.update((item, False) for item in after)
        return target

    def items_of(self, node: Node) -> list[Item]:
        """What computes a node, or what it is a view of."""
        return [item for base in bases(node) for item in self.makers.get(base, ())]

    # ---- scheduling -------------------------------------------------------------------------------------------------

    def schedule(self, outputs: Sequence[Node], targets: Sequence[Ref | None]) -> list[Ref]:
        """Compute `outputs` (into `targets`, where given); says where each lies."""
        self.results = {target.buffer for target in targets if target is not None}
        order = ir.walk(outputs, self.places, sizes=False)
        self.nodes = set(order)
        self.context.choose_places(self, outputs, targets)
        for node in order:
            if node in self.stored and node not in self.places:
                handler = self.context.handlers.get(node.op, Region.compute)
                handler(self, node)
        result = []
        for node, target in zip(outputs, targets, strict=True):
            if target is None:
                result.append(self.place_of(node))
            else:
                result.append(target)
                if self.places.get(node) is not target:
                    self.copy(node, target)
                for item in self.items_of(node):
                    if isinstance(item, Task):
                        item.escapes = True
        return result

    def compute(self, node: Node) -> None:
        """Compute a node into its place."""
        self.places[node] = target = self.wanted.get(node) or self.new_buffer(node)
        self.makers[node] = [self._task(node, target)]

    def _task(self, node: Node, target: Ref) -> Task:
        """A task that computes `node` into `target`."""
        space = self.space(node.type.shape)
        at = maps.identity(space)
        builder = self.builder(space)
        in_memory = node in self.places and self.places[node] is not target
        value = builder.value(node, at) if in_memory else builder.root(node, at)
        task = Task(node, space, value)
        task.stores.append(Store(maps.place(target, at), value))
        self.collect_needs(task, [value])
        self.items.append(task)
        return task

    def space(self, shape: tuple[Dimension, ...]) -> tuple[NestLoop, ...]:
        """The loops over a shape: the same for equal shapes."""
        if shape not in self.spaces:
            self.spaces[shape] = tuple(NestLoop(dim) for dim in shape)
        return self.spaces[shape]

    def builder(self, space: tuple[NestLoop, ...]) -> Builder:
        """The builder of values over a space; it remembers what it built."""
        if space not in self.builders:
            self.builders[space] = Builder(space, self.locate, self.context.code)
        return self.builders[space]

    def collect_needs(self, task: Task, values: list[Value]) -> None:
        """Note what a task reads, and which of it at just the point that it computes."""
        origins = self.builder(task.space).origins
        for value in walk_values(values):
            for access in value.accesses:
                if access not in origins:
                    continue
                node, own_point = origins[access]
                for item in self.items_of(node):
                    here = own_point and isinstance(item, Task) and item.node is node and item.space is task.space
                    task.needs[item] = task.needs.get(item, True) and here
                    if here:
                        task.loads.append((value, item))  # type: ignore[arg-type]
                    elif isinstance(item, Task):
                        item.escapes = True

    def inside(self, counters: Iterable[Atom]) -> Region:
        """The same region, for what stands in a loop over stretches: what depends on its counters is not made before
        this region's loop."""
        region = copy.copy(self)
        region.counters |= frozenset(counters)
        return region

    def has(self, buffer: Buffer) -> bool:
        """Whether a buffer is there wherever this region is."""
        own = buffer.kind in ("input", "constant") or buffer in self.buffers
        return own or (self.parent is not None and self.parent.has(buffer))

    def can_hold(self, ref: Ref) -> bool:
        """Whether a place is there (and the same at every step) before this region's loop begins."""
        return (
            self.parent is not None
            and self.parent.has(ref.buffer)
            and ref.buffer not in self.results
            and self.counters.isdisjoint(atom for dim in (ref.offset, *ref.shape) for atom in types.atoms(dim))
        )


def bases(node: Node) -> list[Node]:
    """The node that a chain of views looks at, first; then the views."""
    chain = [node]
    while isinstance(chain[-1].op, View):
        chain.append(chain[-1].args[0])
    return chain[::-1]


def name_of(node: Node) -> str:
    """What a scan is called in notes."""
    return f"scan {node.params['name'] or ''} at {node.where}".replace("scan  at", "scan at")
