"""Graph nodes as values of the loop-nest IR.

A node is read at an *index map*: for each of its axes, an offset and a stride for each loop. Views change the map,
elementwise ops hand it on, and a node that lies in memory becomes a load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from scanjit import ir
from scanjit.errors import InternalError
from scanjit.ir import OPS, Node
from scanjit.ops import Elementwise, Reduction, View
from scanjit.schedule.program import (
    Access,
    Apply,
    Buffer,
    Fetch,
    Index,
    Literal,
    Load,
    Loop,
    Position,
    Reduce,
    Ref,
    Register,
    Value,
    operands,
)
from scanjit.types import Dimension

Axis = tuple[Dimension, tuple[tuple[Loop, Dimension], ...]]
IndexMap = tuple[Axis, ...]
FIXED: Axis = (0, ())
POSITIONS = Buffer(np.dtype("int64"), (), "temporary", "positions")
"""Stands for the buffer of a position: what is affine in counters is treated as an access."""


def identity(loops: Sequence[Loop]) -> IndexMap:
    """The map of a node whose axes are the loops themselves."""
    return tuple((0, ((loop, 1),)) for loop in loops)


class NotInline(Exception):
    """A node has to lie in memory to be read like this."""


class Builder:
    """Makes values of nodes.

    Parameters
    ----------
    space : the loops over which values are computed.
    locate : the `Ref` of a node that lies in memory, None for one that does not.
    code : a number for a node whose indices are checked at run time.
    """

    def __init__(
        self, space: Sequence[Loop], locate: Callable[[Node], Ref | None], code: Callable[[Node], int]
    ) -> None:
        self.space, self.locate, self.code = space, locate, code
        self.registers: dict[Node, Register] = {}
        """Carries of a nest with time inside."""
        self.stacked: dict[Node, tuple[Ref, Loop]] = {}
        """Rows of sequences, in a nest with time inside: the sequence, and the loop over time."""
        self.origins: dict[Access, tuple[Node, bool]] = {}
        """Of every access: the node that is read, and whether at just the point that is being computed."""
        self._memo: dict[tuple[Node, IndexMap], Value] = {}
        self._reduce_loops: dict[tuple[Dimension, ...], tuple[Loop, ...]] = {}

    def root(self, node: Node, at: IndexMap) -> Value:
        """The value of a node that is to be computed here, even if it has a place in memory."""
        return self._compute(node, at)

    def value(self, node: Node, at: IndexMap) -> Value:
        """The value of a node at an index map."""
        key = (node, at)
        if key not in self._memo:
            self._memo[key] = self._find(node, at)
        return self._memo[key]

    def _find(self, node: Node, at: IndexMap) -> Value:
        if node in self.registers:
            self._at_own_point(node, at)
            return self.registers[node]
        if node in self.stacked:
            whole, time = self.stacked[node]
            return Load(node.dtype, place(whole, ((0, ((time, 1),)), *at)))
        ref = self.locate(node)
        return self._compute(node, at) if ref is None else self._load(node, ref, at)

    def _at_own_point(self, node: Node, at: IndexMap) -> None:
        """A register holds the element of its own lane only."""
        if at != tuple(
            FIXED if dim == 1 else own for dim, own in zip(node.type.shape, identity(self.space), strict=True)
        ):
            if at != identity(self.space):
                raise NotInline

    def _load(self, node: Node, ref: Ref, at: IndexMap) -> Load:
        load = Load(node.dtype, place(ref, at))
        self.origins[load.access] = node, self._is_own_point(node, at)
        return load

    def _is_own_point(self, node: Node, at: IndexMap) -> bool:
        """Whether a map is that of the very point that is being computed. An axis of size 1 has one entry, however it
        is read."""
        own = identity(self.space)
        return len(at) == len(own) and all(
            a == o or (dim == 1 and a == FIXED) for a, o, dim in zip(at, own, node.type.shape, strict=True)
        )

    def _compute(self, node: Node, at: IndexMap) -> Value:
        op = node.op
        if isinstance(op, Elementwise):
            args = tuple(self.value(arg, broadcast_map(arg, node, at)) for arg in node.operands)
            return Apply(node.dtype, op, args, node.params)
        if isinstance(op, View):
            return self.value(node.args[0], view_map(node, at))
        if op is ir.CONSTANT and node.ndim == 0:
            return Literal(node.dtype, node.params["data"].array[()])
        if op is ir.SIZE:
            return Position(node.dtype, node.params["dim"], {})
        if op.name == "iota":
            return Position(node.dtype, at[0][0], dict(at[0][1]))
        if op.name == "gather":
            return self._gather(node, at)
        if isinstance(op, Reduction) or op.name in ("argmax", "argmin"):
            return self._reduction(node, at)
        if op.name in ("contract", "contract_where"):
            return self._contraction(node, at)
        ref = self.locate(node)
        if ref is not None:
            return self._load(node, ref, at)
        raise NotInline(op.name)

    def _gather(self, node: Node, at: IndexMap) -> Value:
        x, *indices = node.operands
        axis = node.params["axis"]
        ndim = node.ndim - (x.ndim - len(indices))
        middle = at[axis : axis + ndim]
        ref = self.reference(x)
        found = []
        for k, index in enumerate(indices):
            own = tuple(
                FIXED if dim == 1 and middle[a][1] else middle[a]
                for a, dim in enumerate(index.type.shape, start=ndim - index.ndim)
            )
            found.append(Index(self.value(index, own), ref.strides[axis + k], ref.shape[axis + k]))
        whole = (*at[:axis], *[FIXED] * len(indices), *at[axis + ndim :])
        access = place(ref, whole)
        self.origins[access] = x, False
        over = tuple(dict.fromkeys(loop for _, terms in middle for loop, _ in terms))
        return Fetch(node.dtype, access, tuple(found), self.code(node), over)

    def _reduction(self, node: Node, at: IndexMap) -> Value:
        (x,) = node.operands
        axes = node.params["axes"] if "axes" in node.params else (node.params["axis"],)
        loops = self._loops(tuple(x.type.shape[a] for a in axes))
        rest = iter(at)
        inner = tuple((0, ((loops[axes.index(a)], 1),)) if a in axes else next(rest) for a in range(x.ndim))
        return Reduce(node.dtype, node.op, loops, self.value(x, inner))

    def _contraction(self, node: Node, at: IndexMap) -> Value:
        a, b, *masks = node.operands
        left, right, out = (node.params[k] for k in ("left", "right", "out"))
        summed = [label for label in left if label not in out]
        sizes = dict(zip((*left, *right), (*a.type.shape, *b.type.shape), strict=True))
        loops = self._loops(tuple(sizes[label] for label in summed))
        where: dict[int, Axis] = dict(zip(out, at, strict=True))
        where |= {label: (0, ((loop, 1),)) for label, loop in zip(summed, loops, strict=True)}
        factors = tuple(self.value(x, tuple(where[label] for label in labels)) for x, labels in ((a, left), (b, right)))
        boolean = node.dtype.kind == "b"
        product = Apply(node.dtype, OPS["and" if boolean else "mul"], factors, {})
        guard = self.value(masks[0], tuple(where[label] for label in node.params["where"])) if masks else None
        op = OPS["any" if boolean else "sum"]
        return Reduce(node.dtype, op, loops, product, guard=guard) if loops else product

    def _loops(self, sizes: tuple[Dimension, ...]) -> tuple[Loop, ...]:
        if sizes not in self._reduce_loops:
            self._reduce_loops[sizes] = tuple(Loop(size) for size in sizes)
        return self._reduce_loops[sizes]

    def reference(self, node: Node) -> Ref:
        """Where a node lies: in memory itself, or as a view of something that does."""
        ref = view_ref(node, self.locate)
        if ref is None:
            raise NotInline(node.op.name)
        return ref


def place(ref: Ref, at: IndexMap) -> Access:
    """The access that reads a place in memory at an index map."""
    offset = ref.offset
    strides: dict[Loop, Dimension] = {}
    for (start, terms), step in zip(at, ref.strides, strict=True):
        offset = offset + start * step
        for loop, stride in terms:
            total = strides.get(loop, 0) + stride * step
            strides[loop] = total
    return Access(ref.buffer, offset, {loop: s for loop, s in strides.items() if s != 0})


def broadcast_map(arg: Node, node: Node, at: IndexMap) -> IndexMap:
    """The map of an operand that is broadcast to the shape of an elementwise node."""
    lead = node.ndim - arg.ndim
    return tuple(FIXED if dim == 1 else at[lead + axis] for axis, dim in enumerate(arg.type.shape))


def view_map(node: Node, at: IndexMap) -> IndexMap:
    """The map at which a view reads its operand."""
    shape = node.args[0].type.shape
    result = []
    for start, terms in node.op.access(shape, **node.params):  # type: ignore[attr-defined]
        offset: Dimension = start
        strides: dict[Loop, Dimension] = {}
        for axis, step in terms:
            offset = offset + at[axis][0] * step
            for loop, stride in at[axis][1]:
                strides[loop] = strides.get(loop, 0) + stride * step
        result.append((offset, tuple(strides.items())))
    return tuple(result)


def view_ref(node: Node, locate: Callable[[Node], Ref | None]) -> Ref | None:
    """Where a node lies if it is in memory, or is a view of something in memory; else None."""
    ref = locate(node)
    if ref is not None or not isinstance(node.op, View):
        return ref
    base = view_ref(node.args[0], locate)
    if base is None:
        return None
    offset, strides = base.offset, [0] * node.ndim
    for (start, terms), step in zip(node.op.access(base.shape, **node.params), base.strides, strict=True):
        offset = offset + start * step
        for axis, factor in terms:
            strides[axis] = strides[axis] + factor * step
    return Ref(base.buffer, offset, node.type.shape, tuple(strides))


def substitute(
    roots: Sequence[Value],
    replace: Mapping[Value, Value],
    access: Callable[[Access], Access],
    loops: Callable[[Loop], Loop],
) -> Callable[[Value], Value]:
    """Values with some replaced, every access changed and every loop renamed; returns the map from old to new."""
    done: dict[Value, Value] = {}

    def get(value: Value) -> Value:
        return done[final(value)]

    def final(value: Value) -> Value:
        while value in replace:
            value = replace[value]
        return value

    stack = [(final(root), False) for root in roots]
    while stack:
        value, ready = stack.pop()
        if ready:
            done[value] = _rebuilt(value, get, access, loops)
        elif value not in done:
            stack.append((value, True))
            stack.extend((final(arg), False) for arg in operands(value))
    return get


def _rebuilt(
    value: Value, get: Callable[[Value], Value], access: Callable[[Access], Access], loops: Callable[[Loop], Loop]
) -> Value:
    if isinstance(value, Load):
        return Load(value.dtype, access(value.access), value.when)
    if isinstance(value, Apply):
        return Apply(value.dtype, value.op, tuple(map(get, value.args)), value.params)
    if isinstance(value, Fetch):
        indices = tuple(Index(get(i.value), i.stride, i.size) for i in value.indices)
        over = tuple(dict.fromkeys(map(loops, value.over)))
        return Fetch(value.dtype, access(value.access), indices, value.code, over)
    if isinstance(value, Position):
        moved = access(Access(POSITIONS, value.offset, value.strides))
        return Position(value.dtype, moved.offset, moved.strides)
    if isinstance(value, Reduce):
        merged = tuple(loop for loop in dict.fromkeys(map(loops, value.loops)) if loop.size != 1)
        init = None if value.init is None else get(value.init)
        if merged:
            guard = None if value.guard is None else get(value.guard)
            return Reduce(value.dtype, value.op, merged, get(value.body), init, guard)
        if init is not None:
            return Apply(value.dtype, OPS["add"], (init, get(value.body)), {})
        return get(value.body) if isinstance(value.op, Reduction) else Literal(value.dtype, 0)
    if isinstance(value, Register):
        return Register(value.dtype, get(value.init), value.index)
    if isinstance(value, Literal):
        return value
    raise InternalError(f"unknown value {value!r}")
