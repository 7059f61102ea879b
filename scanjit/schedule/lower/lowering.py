"""Nodes become the items of a region, in the order of the graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from operator import attrgetter

from scanjit import ir, types
from scanjit.errors import InternalError
from scanjit.ir import Node, Op
from scanjit.ops import View
from scanjit.ops.roles import Roles
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import IOTA
from scanjit.ops.view import DIMSHUFFLE
from scanjit.records import record
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.places import choose_stored
from scanjit.schedule.lower.region import Context, Item, Region, Single, Task, reads_only_changed
from scanjit.schedule.lower.values import PointRule, ValueBuilder
from scanjit.schedule.nests import Buffer, NestLoop, Ref, Statement, Store, Value, walk_values, with_room
from scanjit.types import Dimension


class ArrayRule(ABC):
    """How to lower an op whose result is more than one value at each point."""

    @abstractmethod
    def lower(self, lowering: Lowering, node: Node) -> None:
        """Add the items that compute a node, and note where it lies (`Lowering.put`)."""


class ChangeRule(ArrayRule):
    """How to lower an op whose result is its first operand with some elements changed."""


class AssemblyRule(ArrayRule):
    """How to lower an op whose result consists of its operands, as that of a concatenation does."""

    @abstractmethod
    def parts(self, node: Node, whole: Ref) -> Iterable[tuple[Node, Ref]]:
        """The operands that can be computed right inside the result, each with its place there. The result lies at
        `whole`."""


@record
class LoweringRules:
    """The rules of ops: `ops` for single ones, `kinds` for all ops of a class. An op that a user defines has the rule
    of its class."""

    ops: Mapping[Op, PointRule | ArrayRule]
    kinds: Mapping[type[Op], PointRule]

    def of(self, op: Op) -> PointRule | ArrayRule | None:
        """The rule of an op, if there is one."""
        found = self.ops.get(op) or self.kinds.get(type(op))
        return found or next((self.kinds[kind] for kind in type(op).__mro__ if kind in self.kinds), None)

    @cached_property
    def point(self) -> Callable[[Op], PointRule | None]:
        """Gives the rule of an op that can be computed at a point."""
        return cache(lambda op: rule if isinstance(rule := self.of(op), PointRule) else None)


SMALL = 256
"""A matrix of a step has room for full vectors in each row only if it has no more elements than this."""


def is_small(shape: tuple[Dimension, ...]) -> bool:
    """Whether a value of a step is a vector, or a small matrix of known size. These get room for full vectors in each
    row. In others no gap may lie between rows, which are often treated as one."""
    if len(shape) == 1:
        return True
    size = types.product(shape)
    return len(shape) == 2 and isinstance(size, int) and size <= SMALL


def _rows_of_scan(part: Node, place: Ref, uses: Counter[Node]) -> tuple[Node, Ref] | None:
    """The result of a scan that can be stacked right inside a larger tensor, and where its rows lie there.

    In `concatenate([ys.T, zs.T])`, `ys` is such a result: each step writes its row to the place of that column of
    `ys.T`. `part` is the operand, here `ys.T`, and `place` its place. None if the part is anything but a result of a
    scan, perhaps with its axes in another order, or if something else reads it.
    """
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
    destinations : the places into which nodes are to be computed. Any other node gets a buffer of its own.
    turned : the places of results of the graph in which scans may stack their rows, with the axes in another order.
    early : nodes that must be computed before an array is changed in place.
    nodes : all nodes that are needed and are not origins.
    outputs : the nodes that are computed for someone outside.
    items : the items so far.
    """

    def __init__(self, rules: LoweringRules, context: Context, known: Mapping[Node, Ref], whole: bool = True) -> None:
        self.rules, self.context, self.whole = rules, context, whole
        self.places = dict(known)
        # The node of a size is the same node inside, and lies where it lies outside.
        self._sizes = {node: ref for node, ref in known.items() if node.dim_atom is not None}
        self.items: list[Item] = []
        self._escaping: set[Item] = set()
        self.makers: dict[Node, list[Item]] = {}
        self.stored: set[Node] = set()
        self.destinations: dict[Node, Ref] = {}
        self.turned: dict[Node, Ref] = {}
        self.early: Sequence[Node] = ()
        self.nodes: set[Node] = set()
        self.outputs: frozenset[Node] = frozenset()
        self._spaces: dict[tuple[Dimension, ...], tuple[NestLoop, ...]] = {}
        self._builders: dict[tuple[NestLoop, ...], ValueBuilder] = {}

    @property
    def region(self) -> Region:
        """The region of all items so far."""
        return Region(tuple(self.items), frozenset(self._escaping))

    def run(self, outputs: Sequence[Node], targets: Sequence[Ref | None]) -> list[Ref]:
        """Compute `outputs`, into `targets` where a target is given. Returns where each output lies."""
        wanted = [*self.early, *outputs]
        order = ir.walk(wanted, self.places, sizes=False)
        self.nodes, self.outputs = set(order), frozenset(wanted)
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
        places = [self._output_place(node, target) for node, target in zip(outputs, targets, strict=True)]
        self._builders.clear()  # they refer to this lowering: both would stay until Python looks for cycles
        return places

    def inside(
        self, known: Mapping[Node, Ref], outputs: Sequence[Node], targets: Sequence[Ref], early: Sequence[Node] = ()
    ) -> Region:
        """The region that computes `outputs` in a step of a loop, or in a branch. It computes the nodes in `early`
        before it changes anything in place."""
        lowering = Lowering(self.rules, self.context, {**self._sizes, **known}, whole=False)
        lowering.early = early
        lowering.run(outputs, targets)
        return lowering.region

    # ---- places -----------------------------------------------------------------------------------------------------

    def _choose_destinations(
        self, order: Sequence[Node], outputs: Sequence[Node], targets: Sequence[Ref | None]
    ) -> None:
        """Decide which nodes are computed right into the place of an output, or into their part of a larger node."""
        rules = {op: self.rules.of(op) for op in {node.op for node in order}}
        changing = {op for op, rule in rules.items() if isinstance(rule, ChangeRule)}
        changes = {node for node in order if node.op in changing}
        uses = Counter([*outputs, *(arg for node in order for arg in node.args)])
        for node, target in zip(outputs, targets, strict=True):
            if target is not None and node in self.stored and (node.op.goes_anywhere or node in changes):
                self.destinations.setdefault(node, target)
            if self.whole and target is None and node.op is DIMSHUFFLE and node not in self.places:
                found = _rows_of_scan(node, self.new_place(node), uses)
                self.turned |= dict([found] if found is not None else [])
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

    def new_place(self, node: Node) -> Ref:
        """A new place for a node."""
        if not self.whole and is_small(node.type.shape):
            return with_room(node.dtype, node.type.shape, node.op.name)
        return self.new_memory(node, node, node.type.shape, node.op.name)

    def new_memory(self, made: Node, element: Node, shape: tuple[Dimension, ...], name: str) -> Ref:
        """Memory of a shape, for elements of the dtype of `element`. It is fixed if the node `made` is the same in all
        calls; memory within a loop never is, as each step writes it."""
        fixed = self.whole and self.context.is_fixed(made)
        return Ref.whole(Buffer(element.dtype, shape, "temporary", name, fixed=fixed))

    def destination(self, node: Node) -> Ref:
        """The place into which a node is to be computed: the chosen one, or a new one."""
        return self.destinations.get(node) or self.new_place(node)

    def put(self, node: Node, place: Ref, makers: Sequence[Item]) -> None:
        """Note where a node lies, and what computes it."""
        self.places[node], self.makers[node] = place, list(makers)

    def locate(self, node: Node) -> Ref | None:
        """Where a node lies; None if it is not in memory. A constant gets its place when it is first asked for."""
        return self.places.get(node) or self.context.constant(node)

    def place_of(self, node: Node) -> Ref:
        """The place of a node. What is not in memory is copied to a new place, if it is a number, a size, positions or
        a view. It is noted that somebody outside the nests of this region reads the node there."""
        self.read_by_others(node)
        ref = maps.view_ref(node, self.locate)
        if ref is None and (node.op in (ir.CONSTANT, ir.SIZE, IOTA) or isinstance(node.op, View)):
            ref = self.new_place(node)
            self.copy(node, ref)
        if ref is None:
            raise InternalError(f"{node!r} has no place in memory", where=node.where)
        return ref

    def laid_out(
        self, node: Node, name: str, suits: Callable[[Ref], bool] = attrgetter("contiguous")
    ) -> tuple[Ref, list[Item]]:
        """A place of a node that `suits` its reader (by default: without gaps), and the items that compute it there. If
        the node lies elsewhere or nowhere, it is copied to a new place, which is called `name`."""
        place = maps.view_ref(node, self.locate)
        if place is not None and suits(place):
            return self.place_of(node), self.items_of(node)
        place = self.new_memory(node, node, node.type.shape, name)
        return place, [self.copy(node, place)]

    def items_of(self, node: Node) -> list[Item]:
        """The items that compute a node, or the node that it is a view of."""
        return [item for base in maps.bases(node) for item in self.makers.get(base, ())]

    def read_by_others(self, node: Node) -> list[Item]:
        """Note that somebody outside the nests of this region reads a node. Returns the items that compute it."""
        items = self.items_of(node)
        self._escaping.update(items)
        return items

    # ---- items ------------------------------------------------------------------------------------------------------

    def held(self, node: Node, target: Ref) -> list[Item]:
        """The items after which `target` holds a node and may be changed. If the node lies elsewhere, the only one of
        them copies it."""
        place = self.places.get(node)
        if place is None or place.buffer is not target.buffer or place.offset != target.offset:
            return [self.copy(node, target)]
        return [*self.read_by_others(node), *(item for each in self.early for item in self.items_of(each))]

    def copy(self, node: Node, target: Ref, after: Iterable[Item] = ()) -> Task:
        """Add a task that computes a node (again) into a place, after some items. Somebody outside the nests of this
        region reads it there."""
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
        """The items that a loop needs: those that compute its operands, and all items from number `first` on, which
        were added for the loop."""
        return [*(item for operand in operands for item in self.items_of(operand)), *self.items[first:]]

    def add(self, node: Node, space: tuple[NestLoop, ...], store: Store, after: Iterable[Item] = ()) -> Task:
        """Add the task that makes this store at every point of a space. It comes after the items in `after` and those
        that it reads."""
        origins = self.builder(space).origins
        needs: dict[Item, bool] = {}
        loads: list[tuple[Value, Task]] = []
        values = walk_values(store.values)
        for value, access in [(each, access) for each in values for access in each.accesses if access in origins]:
            of, own_point = origins[access]
            for item in self.items_of(of):
                if own_point and isinstance(item, Task) and item.node is of and item.space is space:
                    needs.setdefault(item, True)
                    loads.append((value, item))
                else:
                    needs[item] = False
                    self._escaping.add(item)
        after = list(after)
        early = {item for each in self.early for item in self.items_of(each)} if after else set()
        waits = early.intersection(after) - needs.keys()
        needs |= {item: needs.get(item, True) and reads_only_changed(item, space, store) for item in after}
        task = Task(needs, node, space, store, values, loads, waits)
        self.items.append(task)
        return task

    def add_statement(self, statement: Statement, needs: Iterable[Item], regions: Sequence[Region] = ()) -> Item:
        """Add a statement that is no task, after the items that it needs."""
        item = Single(dict.fromkeys(needs, False), statement, regions)
        self.items.append(item)
        return item

    def space(self, shape: tuple[Dimension, ...]) -> tuple[NestLoop, ...]:
        """The loops over a shape: the same loops for equal shapes."""
        return self._spaces.setdefault(shape, tuple(map(NestLoop, shape)))

    def builder(self, space: tuple[NestLoop, ...]) -> ValueBuilder:
        """The builder of values over a space; it remembers what it built."""
        if space not in self._builders:
            self._builders[space] = self.new_builder(space, self.locate)
        return self._builders[space]

    def new_builder(self, space: tuple[NestLoop, ...], locate: Callable[[Node], Ref | None]) -> ValueBuilder:
        """A builder of values over a space that finds nodes in memory by `locate`."""
        return ValueBuilder(space, locate, self.context.code, self.context.ranges, self.rules.point)

    def _output_place(self, node: Node, target: Ref | None) -> Ref:
        """The place of an output: its target, if it has one. An output that lies elsewhere is copied there."""
        if target is None:
            return self.place_of(node)
        if self.places.get(node) is not target:
            self.copy(node, target)
        self.read_by_others(node)
        return target
