"""Schedule one graph: the top level of a function, or the body of a loop.

Each node that has to lie in memory becomes a `Task`: a value, computed over a space, stored somewhere. Tasks of the
same space that can be computed together become one nest (`fuse`); what only such a nest reads never reaches memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scanjit import ir
from scanjit.errors import InternalError, NotSupportedError
from scanjit.ir import Node
from scanjit.ops import Elementwise, Reduction, View
from scanjit.schedule import build
from scanjit.schedule.build import Builder
from scanjit.schedule.program import (
    Buffer,
    Fetch,
    Load,
    Loop,
    Machine,
    Nest,
    Pack,
    Ref,
    Statement,
    Store,
    Value,
    row_major,
    walk_values,
)
from scanjit.types import Atom, Dimension

if TYPE_CHECKING:
    from scanjit.schedule.scan import Plan

EXPENSIVE = 8
"""An elementwise op that costs at least this many instructions is computed once, whoever uses it."""
LARGEST = 250
"""A fused expression of more nodes than this is cut: compile time grows faster than linearly."""


@dataclass(eq=False)
class Task:
    """A node to be computed and stored."""

    node: Node
    space: tuple[Loop, ...]
    value: Value
    needs: dict[Task | Block, bool] = field(default_factory=dict)
    """What must be computed before; True where it is read only at the very point that is being computed."""
    loads: list[tuple[Value, Task]] = field(default_factory=list)
    escapes: bool = False
    stores: list[Store] = field(default_factory=list)


@dataclass(eq=False)
class Block:
    """A scan: a nest with time inside, or statements of which the last is its loop."""

    statements: list[Statement]
    needs: dict[Task | Block, bool]
    plan: Plan
    nest: Nest | None
    label: str


Item = Task | Block


class Context:
    """What all regions of a program share."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.notes: list[str] = []
        self.codes: list[Node] = []
        self.constants: dict[Node, Ref] = {}

    def code(self, node: Node) -> int:
        """The number that reports an index out of bounds at this node."""
        for number, known in enumerate(self.codes):
            if known is node:
                return number + 1
        self.codes.append(node)
        return len(self.codes)


class Region:
    """Schedules nodes given the places of those that are there already.

    Parameters
    ----------
    context : shared by the program's regions.
    known : places of leaves.
    parent : the region of the loop that this region is the body of.
    counters : the atoms that change from step to step of that loop.
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
        self.held: list[Pack] = []
        """Packs to be made before the loop that is scheduled next."""
        self.spaces: dict[tuple[Dimension, ...], tuple[Loop, ...]] = {}
        self.builders: dict[tuple[Loop, ...], Builder] = {}
        self.wanted: dict[Node, Ref] = {}
        self.stored: set[Node] = set()

    # ---- places -----------------------------------------------------------------------------------------------------

    def new_buffer(self, node: Node, name: str = "") -> Ref:
        """A place of its own for a node."""
        buffer = Buffer(node.dtype, node.type.shape, "temporary", name or node.op.name)
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
            buffer = Buffer(array.dtype, array.shape, "constant", "constant", array)
            self.context.constants[node] = Ref.whole(buffer)
        return self.context.constants[node]

    def place_of(self, node: Node) -> Ref:
        """Where a node lies, in memory or as a view; it escapes: others than nests of this region read it."""
        for base in _bases(node):
            for item in self.makers.get(base, ()):
                if isinstance(item, Task):
                    item.escapes = True
        ref = build.view_ref(node, self.locate)
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
        return [item for base in _bases(node) for item in self.makers.get(base, ())]

    # ---- scheduling -------------------------------------------------------------------------------------------------

    def schedule(self, outputs: Sequence[Node], targets: Sequence[Ref | None]) -> list[Ref]:
        """Compute `outputs` (into `targets`, where given); says where each lies."""
        order = ir.walk(outputs, self.places)
        self._choose_stored(order, outputs)
        for node, target in zip(outputs, targets, strict=True):
            if target is not None and node in self.stored and node not in self.wanted and _computed(node):
                self.wanted[node] = target
        self._want_parts(order)
        for node in order:
            if node in self.stored and node not in self.places:
                self._store(node)
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

    def _choose_stored(self, order: Sequence[Node], outputs: Sequence[Node]) -> None:
        """Which nodes get a place in memory; fusion may still find that nobody reads it."""
        uses: dict[Node, int] = {}
        weight: dict[Node, int] = {}
        for node in order:
            for arg in node.args:
                uses[arg] = uses.get(arg, 0) + 1
        stored = self.stored
        for node in order:
            if node in self.places:
                continue
            op = node.op
            for arg in _read_from_memory(node):
                base = _bases(arg)[0]
                if base.op is not ir.CONSTANT and base not in self.places:
                    stored.add(base)
                elif base.op is ir.CONSTANT and not base.ndim and op.name == "gather":
                    stored.add(arg)  # a number, stretched: no memory holds it
            if isinstance(op, Elementwise) or op.name == "gather":
                weight[node] = 1 + sum(weight.get(arg, 0) for arg in node.operands if arg not in stored)
                cost = op.cost if isinstance(op, Elementwise) else EXPENSIVE
                if weight[node] > LARGEST or (cost >= EXPENSIVE and uses.get(node, 0) > 1):
                    stored.add(node)
                for arg in node.operands:
                    if _stretched(arg, node) and weight.get(_bases(arg)[0], 0) and _cost(arg) >= EXPENSIVE:
                        stored.add(_bases(arg)[0])
            elif isinstance(op, View):
                weight[node] = weight.get(node.args[0], 0) if node.args[0] not in stored else 0
            elif op not in (ir.CONSTANT, ir.SIZE) and op.name != "iota":
                stored.add(node)
        stored.update(node for node in outputs if not isinstance(node.op, View) and node.op is not ir.CONSTANT)
        stored.difference_update([node for node in stored if node in self.places])

    def _want_parts(self, order: Sequence[Node]) -> None:
        """Parts of a concatenation are computed in their place in it."""
        for node in reversed(order):
            if node not in self.stored or node in self.places:
                continue
            if node.op.name == "concatenate":
                whole = self.wanted.setdefault(node, self.new_buffer(node))
                start: Dimension = 0
                for part in node.operands:
                    length = part.type.shape[node.params["axis"]]
                    if _computed(part) and part not in self.places and part not in self.wanted:
                        self.stored.add(part)
                        self.wanted[part] = whole.window(node.params["axis"], start, length)
                    start = start + length
            elif node.op.name == "reshape":
                (x,) = node.operands
                whole = self.wanted.setdefault(node, self.new_buffer(node))
                if whole.contiguous and _computed(x) and x not in self.places and x not in self.wanted:
                    self.stored.add(x)
                    shape = x.type.shape
                    self.wanted[x] = Ref(whole.buffer, whole.offset, shape, row_major(shape))

    def _store(self, node: Node) -> None:
        name = node.op.name
        if name == "part":
            self._part(node)
        elif name == "scan":
            from scanjit.schedule.scan import schedule_scan

            schedule_scan(self, node)
        elif name == "concatenate":
            self._concatenate(node)
        elif name == "reshape":
            self._reshape(node)
        elif name == "set_slice":
            self._set_slice(node)
        elif name == "scatter":
            self._scatter(node)
        else:
            self.places[node] = target = self.wanted.get(node) or self.new_buffer(node)
            self.makers[node] = [self._task(node, target)]

    def _part(self, node: Node) -> None:
        if node not in self.places:
            raise InternalError("a result that its scan did not store", where=node.where)

    def _task(self, node: Node, target: Ref) -> Task:
        """A task that computes `node` into `target`."""
        space = self.space(node.type.shape)
        at = build.identity(space)
        builder = self.builder(space)
        in_memory = node in self.places and self.places[node] is not target
        value = builder.value(node, at) if in_memory else builder.root(node, at)
        task = Task(node, space, value)
        task.stores.append(Store(build.place(target, at), value))
        self.collect_needs(task, [value])
        self.items.append(task)
        return task

    def space(self, shape: tuple[Dimension, ...]) -> tuple[Loop, ...]:
        """The loops over a shape: the same for equal shapes."""
        if shape not in self.spaces:
            self.spaces[shape] = tuple(Loop(dim) for dim in shape)
        return self.spaces[shape]

    def builder(self, space: tuple[Loop, ...]) -> Builder:
        """The builder of values over a space; it remembers what it built."""
        if space not in self.builders:
            self.builders[space] = Builder(space, self.locate, self.context.code)
        return self.builders[space]

    def collect_needs(self, task: Task, values: list[Value]) -> None:
        """Note what a task reads, and which of it at just the point that it computes."""
        origins = self.builder(task.space).origins
        for value in walk_values(values):
            if isinstance(value, Load | Fetch) and value.access in origins:
                node, own_point = origins[value.access]
                for item in self.items_of(node):
                    here = own_point and isinstance(item, Task) and item.node is node and item.space is task.space
                    task.needs[item] = task.needs.get(item, True) and here
                    if here:
                        task.loads.append((value, item))  # type: ignore[arg-type]
                    elif isinstance(item, Task):
                        item.escapes = True

    def _concatenate(self, node: Node) -> None:
        whole = self.wanted.get(node) or self.new_buffer(node)
        self.places[node] = whole
        makers: list[Item] = []
        start: Dimension = 0
        for part in node.operands:
            length = part.type.shape[node.params["axis"]]
            window = whole.window(node.params["axis"], start, length)
            place = self.places.get(part)
            if place is None or place.buffer is not window.buffer or place.offset != window.offset:
                self.copy(part, window)
                makers.append(self.items[-1])
            for item in self.items_of(part):
                if isinstance(item, Task):
                    item.escapes = True
                makers.append(item)
            start = start + length
        self.makers[node] = makers

    def _reshape(self, node: Node) -> None:
        (x,) = node.operands
        place = build.view_ref(x, self.locate)
        if place is not None and place.contiguous:
            self.place_of(x)
            self.places[node] = Ref(place.buffer, place.offset, node.type.shape, row_major(node.type.shape))
            self.makers[node] = self.items_of(x)
            return
        whole = self.wanted.get(node) or self.new_buffer(node)
        if not whole.contiguous:
            whole = self.new_buffer(node)
        self.copy(x, Ref(whole.buffer, whole.offset, x.type.shape, row_major(x.type.shape)))
        self.places[node] = whole
        self.makers[node] = [self.items[-1]]

    def _set_slice(self, node: Node) -> None:
        x, v = node.operands
        whole = self.wanted.get(node) or self.new_buffer(node)
        self.copy(x, whole)
        first = self.items[-1]
        offset, strides = whole.offset, []
        for start, step, stride in zip(node.params["start"], node.params["step"], whole.strides, strict=True):
            offset = offset + start * stride
            strides.append(stride * step)
        self.copy(v, Ref(whole.buffer, offset, v.type.shape, tuple(strides)), after=[first])
        self.places[node] = whole
        self.makers[node] = [first, self.items[-1]]

    def _scatter(self, node: Node) -> None:
        from scanjit.schedule.scatter import scatter_task

        x = node.operands[0]
        whole = self.wanted.get(node) or self.new_buffer(node)
        self.copy(x, whole)
        first = self.items[-1]
        task = scatter_task(self, node, whole)
        task.needs[first] = False
        task.escapes = True
        self.places[node] = whole
        self.makers[node] = [first, task]

    # ---- statements -------------------------------------------------------------------------------------------------

    def statements(self) -> list[Statement]:
        """Everything that was scheduled, in order, fused."""
        from scanjit.schedule.fuse import fuse

        return fuse(self)

    def can_hold(self, ref: Ref) -> bool:
        """Whether a place is there (and the same at every step) before this region's loop begins."""
        from scanjit import types

        return (
            self.parent is not None
            and ref.buffer not in self.buffers
            and not (set(types.atoms(ref.offset)) & self.counters)
        )


def _bases(node: Node) -> list[Node]:
    """The node that a chain of views looks at, first; then the views."""
    chain = [node]
    while isinstance(chain[-1].op, View):
        chain.append(chain[-1].args[0])
    return chain[::-1]


def _read_from_memory(node: Node) -> Sequence[Node]:
    """The operands of an op that reads arrays, not values."""
    name = node.op.name
    if name in ("contract", "scan"):
        return node.operands
    if name in ("gather", "reshape"):
        return node.operands[:1]
    return ()


def _computed(node: Node) -> bool:
    """Whether a node is computed by a nest, into any place that one likes."""
    op = node.op
    return isinstance(op, Elementwise | Reduction) or op.name in (
        "contract",
        "gather",
        "argmax",
        "argmin",
        "concatenate",
    )


def _stretched(arg: Node, node: Node) -> bool:
    """Whether an elementwise node reads an operand more than once an element."""
    if arg.type.shape != node.type.shape:
        return True
    return any(view.op.name == "broadcast_to" for view in _bases(arg)[1:])


def _cost(node: Node) -> int:
    base = _bases(node)[0]
    return base.op.cost if isinstance(base.op, Elementwise) else EXPENSIVE


__all__ = ["Block", "Context", "Item", "NotSupportedError", "Region", "Task"]
