"""Nodes become the items of a region, in the order of the graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from operator import attrgetter

from scanjit import ir, types
from scanjit.errors import InternalError
from scanjit.ir import Node, Op
from scanjit.ops import View
from scanjit.ops.scan import SCAN, Roles
from scanjit.ops.view import DIMSHUFFLE
from scanjit.records import record
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.places import choose_stored
from scanjit.schedule.lower.region import Context, Item, Region, Single, Task, reads_where
from scanjit.schedule.lower.values import PointRule, ValueBuilder
from scanjit.schedule.nests import Buffer, NestLoop, Ref, Statement, Store, Value, walk_values, with_room
from scanjit.types import Dimension


class ArrayRule(ABC):
    """How to lower an op whose result is not just one value at each point."""

    @abstractmethod
    def lower(self, lowering: Lowering, node: Node) -> None:
        """Add the items that compute a node, and `put` it where its result lies."""


class ChangeRule(ArrayRule):
    """How to lower an op whose result is its first operand with some elements changed."""


class AssemblyRule(ArrayRule):
    """How to lower an op whose result consists of its operands, as that of a concatenation does."""

    @abstractmethod
    def parts(self, node: Node, whole: Ref) -> Iterable[tuple[Node, Ref]]:
        """The operands that can be computed inside of the result, which lies at `whole`, and the place of each
        there."""


@record
class LoweringRules:
    """The rules of all ops: of single ones, and of all ops of a kind. An op that users define is of a kind."""

    ops: Mapping[Op, PointRule | ArrayRule]
    kinds: Mapping[type[Op], PointRule]
    _points: dict[Op, PointRule | None] = field(default_factory=dict)

    def of(self, op: Op) -> PointRule | ArrayRule | None:
        """The rule of an op, if there is one."""
        found = self.ops.get(op) or self.kinds.get(type(op))
        return found or next((self.kinds[kind] for kind in type(op).__mro__ if kind in self.kinds), None)

    def point(self, op: Op) -> PointRule | None:
        """The rule of an op that can be computed at a point."""
        if op not in self._points:
            rule = self.of(op)
            self._points[op] = rule if isinstance(rule, PointRule) else None
        return self._points[op]


SMALL = 256
"""A tensor with more elements than this, where their number is known, has no room for full vectors in each row."""


def is_small(shape: tuple[Dimension, ...]) -> bool:
    """Whether a value of a step is a vector, or a small matrix: it gets room for full vectors in each row. In others,
    no gap may lie between rows, which are often treated as one."""
    if len(shape) == 1:
        return True
    size = types.product(shape)
    return len(shape) == 2 and isinstance(size, int) and size <= SMALL


def _rows_of_scan(part: Node, place: Ref, uses: Counter[Node]) -> tuple[Node, Ref] | None:
    """Where a scan can stack a result right away, such as the `ys` of `concatenate([ys.T, zs.T])`. `part` is the
    operand that has a `place` in something larger. Returns the scan's result, and where its rows lie there. None if the
    part is anything else than a result of a scan, perhaps with its axes in another order, that nothing else reads."""
    strides = place.strides
    if part.op is DIMSHUFFLE and uses[part] == 1:
        order, (base,) = part.params["order"], part.operands
        if set(range(base.ndim)).difference(order):
            return None
        strides = tuple(strides[order.index(axis)] for axis in range(base.ndim))
        part = base
    if part.op is not ir.PART or part.args[0].op is not SCAN or uses[part] != 1:
        return None
    if part.params["index"] not in Roles.of(part.args[0]).stacks:
        return None
    return part, Ref(place.buffer, place.offset, part.type.shape, strides)


class Lowering:
    """The lowering of a graph, a step or a branch: which of its nodes lie where, and which items compute them.

    Parameters
    ----------
    rules : how ops are lowered.
    context : what all lowerings of a program share.
    known : the places of the origins.
    whole : whether it is the whole graph, and not a step or a branch.

    Attributes
    ----------
    places : where nodes lie.
    makers : the items that compute a node.
    stored : the nodes that get a place in memory. All others are computed where they are read.
    destinations : the places into which nodes are to be computed; any other node gets a buffer of its own.
    early : the nodes to compute before what lies in memory is changed there.
    nodes : all nodes that are needed and are not origins.
    items : what was added so far.
    """

    def __init__(self, rules: LoweringRules, context: Context, known: Mapping[Node, Ref], whole: bool = True) -> None:
        self.rules, self.context, self.whole = rules, context, whole
        self.places = dict(known)
        self.items: list[Item] = []
        self._escaping: set[Item] = set()
        self.makers: dict[Node, list[Item]] = {}
        self.stored: set[Node] = set()
        self.destinations: dict[Node, Ref] = {}
        self.early: Sequence[Node] = ()
        self.nodes: set[Node] = set()
        self._spaces: dict[tuple[Dimension, ...], tuple[NestLoop, ...]] = {}
        self._builders: dict[tuple[NestLoop, ...], ValueBuilder] = {}

    @property
    def region(self) -> Region:
        """The region of all that was added."""
        return Region(tuple(self.items), frozenset(self._escaping))

    def run(self, outputs: Sequence[Node], targets: Sequence[Ref | None]) -> list[Ref]:
        """Compute `outputs`, into `targets` where these are given; returns where each lies."""
        wanted = [*self.early, *outputs]
        order = ir.walk(wanted, self.places, sizes=False)
        self.nodes = set(order)
        self.stored = choose_stored(order, wanted, self.places, self.rules.point)
        self._choose_destinations(order, outputs, targets)
        for node in order:
            if node in self.stored and node not in self.places:
                rule = self.rules.of(node.op)
                if rule is None:
                    raise InternalError(
                        f"the op {node.op.name!r} cannot be compiled: no rule lowers it", where=node.where
                    )
                if isinstance(rule, ArrayRule):
                    rule.lower(self, node)
                else:
                    self._compute(node)
        return [self._given(node, target) for node, target in zip(outputs, targets, strict=True)]

    def inside(
        self, known: Mapping[Node, Ref], outputs: Sequence[Node], targets: Sequence[Ref], early: Sequence[Node] = ()
    ) -> Region:
        """The region that computes `outputs` in a step of a loop, or in a branch; what is `early`, before it changes
        anything."""
        # A node whose value is a size outside is the same node inside.
        sizes = {n: ref for n, ref in self.places.items() if n.dim_atom is not None and n not in self.makers}
        lowering = Lowering(self.rules, self.context, {**sizes, **known}, whole=False)
        lowering.early = early
        lowering.run(outputs, targets)
        return lowering.region

    # ---- places -----------------------------------------------------------------------------------------------------

    def _choose_destinations(
        self, order: Sequence[Node], outputs: Sequence[Node], targets: Sequence[Ref | None]
    ) -> None:
        """Decide which nodes are computed right into the place of an output, or of what they are a part of."""
        rules = {op: self.rules.of(op) for op in {node.op for node in order}}
        changing = {op for op, rule in rules.items() if isinstance(rule, ChangeRule)}
        changes = {node for node in order if node.op in changing}
        for node, target in zip(outputs, targets, strict=True):
            if target is not None and node in self.stored and (node.op.goes_anywhere or node in changes):
                self.destinations.setdefault(node, target)
        uses = Counter([*outputs, *(arg for node in order for arg in node.args)])
        for node in reversed(order):
            if node in changes and (x := node.operands[0]) in changes and uses[x] == 1:
                self.destinations[x] = self.destinations[node] = self.destination(node)
            rule = rules[node.op]
            if node in self.stored and isinstance(rule, AssemblyRule):
                whole = self.destinations[node] = self.destination(node)
                for part, place in rule.parts(node, whole):
                    if part.op.goes_anywhere and part not in self.places and part not in self.destinations:
                        self.stored.add(part)
                        self.destinations[part] = place
                    elif (found := _rows_of_scan(part, place, uses)) is not None:
                        self.destinations.setdefault(*found)

    def new_place(self, node: Node, name: str = "") -> Ref:
        """A place of its own for a node."""
        if not self.whole and is_small(node.type.shape):
            return with_room(node.dtype, node.type.shape, name or node.op.name)
        return self.new_memory(node, node, node.type.shape, name or node.op.name)

    def new_memory(self, made: Node, element: Node, shape: tuple[Dimension, ...], name: str) -> Ref:
        """Memory in which all elements have the dtype of a node. What `made` depends on decides whether it holds the
        same in all calls; within a loop, it holds other values at every step."""
        fixed = self.whole and self.context.is_fixed(made)
        return Ref.whole(Buffer(element.dtype, shape, "temporary", name, fixed=fixed))

    def destination(self, node: Node) -> Ref:
        """The place into which a node is to be computed."""
        return self.destinations.get(node) or self.new_place(node)

    def put(self, node: Node, place: Ref, makers: Sequence[Item]) -> None:
        """Note where a node lies, and what computes it."""
        self.places[node], self.makers[node] = place, list(makers)

    def locate(self, node: Node) -> Ref | None:
        """Where a node lies, if it does (constants get their place on demand)."""
        return self.places.get(node) or self.context.constant(node)

    def place_of(self, node: Node) -> Ref:
        """The place of a node that is in memory, or is a view of memory. Readers outside of the nests of this region
        read it there."""
        self.read_by_others(node)
        ref = maps.view_ref(node, self.locate)
        if ref is None and (node.op in (ir.CONSTANT, ir.SIZE) or isinstance(node.op, View)):
            ref = self.new_place(node)
            self.copy(node, ref)
        if ref is None:
            raise InternalError(f"{node!r} has no place in memory", where=node.where)
        return ref

    def laid_out(
        self, node: Node, name: str, suits: Callable[[Ref], bool] = attrgetter("contiguous")
    ) -> tuple[Ref, list[Item]]:
        """Where a node lies as a statement reads it (without gaps, say), and what computes it there. If it lies in
        another way, or not in memory, that is a copy, called by a name."""
        place = maps.view_ref(node, self.locate)
        if place is not None and suits(place):
            return self.place_of(node), self.items_of(node)
        place = self.new_memory(node, node, node.type.shape, name)
        return place, [self.copy(node, place)]

    def items_of(self, node: Node) -> list[Item]:
        """The items that compute a node, or the node that it is a view of."""
        return [item for base in maps.bases(node) for item in self.makers.get(base, ())]

    def read_by_others(self, node: Node) -> list[Item]:
        """Note that a reader outside of this region's nests reads a node. Returns the items that compute it."""
        items = self.items_of(node)
        self._escaping.update(items)
        return items

    # ---- items ------------------------------------------------------------------------------------------------------

    def held(self, node: Node, target: Ref) -> list[Item]:
        """The items after which a place holds a node, and may be changed: if it does not lie there, that copies it."""
        place = self.places.get(node)
        if place is None or place.buffer is not target.buffer or place.offset != target.offset:
            return [self.copy(node, target)]
        return [item for each in (node, *self.early) for item in self.items_of(each)]

    def copy(self, node: Node, target: Ref, after: Iterable[Item] = ()) -> Task:
        """Compute a node (again) into a place, after some items. A reader outside of this region's nests reads it
        there."""
        task = self._task(node, target, after)
        self._escaping.add(task)
        return task

    def _compute(self, node: Node) -> None:
        """Compute a node into its place."""
        self.places[node] = target = self.destination(node)
        self.makers[node] = [self._task(node, target)]

    def _task(self, node: Node, target: Ref, after: Iterable[Item] = ()) -> Task:
        """A task that computes `node` into `target`."""
        space = self.space(node.type.shape)
        builder = self.builder(space)
        at = builder.own_point
        in_memory = node in self.places and self.places[node] is not target
        value = builder.value(node, at) if in_memory else builder.root(node, at)
        return self.add(node, space, Store(maps.place(target, at), value), after)

    def inputs_of(self, operands: Iterable[Node], first: int) -> list[Item]:
        """The items that a loop needs: those that compute its operands, and those from number `first` on, which were
        added for it."""
        return [*(item for operand in operands for item in self.items_of(operand)), *self.items[first:]]

    def add(self, node: Node, space: tuple[NestLoop, ...], store: Store, after: Iterable[Item] = ()) -> Task:
        """Add the task that stores this at every point of a space, after some items and those that it reads."""
        origins = self.builder(space).origins
        needs: dict[Item, bool] = {}
        loads: list[tuple[Value, Task]] = []
        for value in walk_values(store.values):
            for of, own_point in (origins[access] for access in value.accesses if access in origins):
                for item in self.items_of(of):
                    if own_point and isinstance(item, Task) and item.node is of and item.space is space:
                        needs.setdefault(item, True)
                        loads.append((value, item))
                    else:
                        needs[item] = False
                        self._escaping.add(item)
        needs |= {item: needs.get(item, True) and reads_where(item, space, store) for item in after}
        task = Task(needs, node, space, store, loads)
        self.items.append(task)
        return task

    def add_statement(self, statement: Statement, needs: Iterable[Item], regions: Sequence[Region] = ()) -> Item:
        """Add a statement that is no task, after the items that it needs."""
        item = Single(dict.fromkeys(needs, False), statement, regions)
        self.items.append(item)
        return item

    def space(self, shape: tuple[Dimension, ...]) -> tuple[NestLoop, ...]:
        """The loops over a shape: the same for equal shapes."""
        return self._spaces.setdefault(shape, tuple(map(NestLoop, shape)))

    def builder(self, space: tuple[NestLoop, ...]) -> ValueBuilder:
        """The builder of values over a space; it remembers what it built."""
        if space not in self._builders:
            self._builders[space] = ValueBuilder(space, self.locate, self.context.code, self.rules.point)
        return self._builders[space]

    def _given(self, node: Node, target: Ref | None) -> Ref:
        """The place of an output. If that is not its target, the output is copied there."""
        if target is None:
            return self.place_of(node)
        if self.places.get(node) is not target:
            self.copy(node, target)
        self.read_by_others(node)
        return target
