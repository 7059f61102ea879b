"""Graph nodes as values of the loop-nest IR.

A node is read at an *index map*: for each of its axes, an offset and a stride for each loop. Views change the map,
elementwise ops hand it on, and a node that lies in memory becomes a load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scanjit import ir
from scanjit.ir import Node
from scanjit.ops import Elementwise, Reduction, View
from scanjit.ops.elementwise import AND, MUL
from scanjit.ops.index import GATHER
from scanjit.ops.linalg import Contraction
from scanjit.ops.reduce import ANY, ArgReduction
from scanjit.ops.shape import IOTA
from scanjit.ops.stretch import SUM
from scanjit.schedule.nests import (
    Access,
    Apply,
    Fetch,
    Index,
    Literal,
    Load,
    NestLoop,
    Position,
    Reduce,
    Ref,
    Register,
    Value,
)
from scanjit.types import Dimension
from scanjit.walks import fold

Axis = tuple[Dimension, tuple[tuple[NestLoop, Dimension], ...]]
IndexMap = tuple[Axis, ...]
FIXED: Axis = (0, ())


def identity(loops: Sequence[NestLoop]) -> IndexMap:
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
        self, space: Sequence[NestLoop], locate: Callable[[Node], Ref | None], code: Callable[[Node], int]
    ) -> None:
        self.space, self.locate, self.code = space, locate, code
        self.registers: dict[Node, Register] = {}
        """Carries of a nest with time."""
        self.stacked: dict[Node, tuple[Ref, NestLoop]] = {}
        """Rows of sequences, in a nest with time: the sequence, and the loop over time."""
        self.origins: dict[Access, tuple[Node, bool]] = {}
        """Of every access: the node that is read, and whether at just the point that is being computed."""
        self._memo: dict[tuple[Node, IndexMap], Value] = {}
        self._reduce_loops: dict[tuple[Dimension, ...], tuple[NestLoop, ...]] = {}

    def root(self, node: Node, at: IndexMap) -> Value:
        """The value of a node that is to be computed here, even if it has a place in memory."""
        return self._computed(node, at, [self.value(*read) for read in self._operands(node, at)])

    def value(self, node: Node, at: IndexMap) -> Value:
        """The value of a node at an index map."""
        return fold((node, at), self._read, self._made, self._memo)

    def _read(self, key: tuple[Node, IndexMap]) -> Sequence[tuple[Node, IndexMap]]:
        """What a value is computed from, and at which maps; nothing, if the node is not computed here."""
        node, at = key
        if node in self.registers or node in self.stacked or self.locate(node) is not None:
            return ()
        return self._operands(node, at)

    def _made(self, key: tuple[Node, IndexMap], values: list[Value]) -> Value:
        node, at = key
        if node in self.registers:
            self._at_own_point(node, at)
            return self.registers[node]
        if node in self.stacked:
            whole, time = self.stacked[node]
            return Load(node.dtype, place(whole, ((0, ((time, 1),)), *at)))
        ref = self.locate(node)
        return self._computed(node, at, values) if ref is None else self._load(node, ref, at)

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

    def _operands(self, node: Node, at: IndexMap) -> Sequence[tuple[Node, IndexMap]]:
        """What an op reads at a point, and at which maps."""
        op = node.op
        if isinstance(op, Elementwise):
            return [(arg, broadcast_map(arg, node, at)) for arg in node.operands]
        if isinstance(op, View):
            return [(node.args[0], view_map(node, at))]
        if op is GATHER:
            return list(zip(node.operands[1:], self._index_maps(node, at), strict=True))
        if isinstance(op, Reduction | ArgReduction):
            axes, loops = self._summed(node)
            rest = iter(at)
            x = node.operands[0]
            return [(x, tuple((0, ((loops[axes.index(a)], 1),)) if a in axes else next(rest) for a in range(x.ndim)))]
        if isinstance(op, Contraction):
            where: dict[int, Axis] = dict(zip(node.params["out"], at, strict=True))
            where |= {label: (0, ((loop, 1),)) for label, loop in zip(*self._summed(node), strict=True)}
            labels = [node.params[k] for k in ("left", "right", "where") if k in node.params]
            return [(x, tuple(where[label] for label in own)) for x, own in zip(node.operands, labels, strict=True)]
        return ()

    def _computed(self, node: Node, at: IndexMap, values: list[Value]) -> Value:
        """The value of an op at a point, from the values of its operands there."""
        op = node.op
        if isinstance(op, Elementwise):
            return Apply(node.dtype, op, tuple(values), node.params)
        if isinstance(op, View):
            return values[0]
        if op is ir.CONSTANT and node.ndim == 0:
            return Literal(node.dtype, node.params["data"].array[()])
        if op is ir.SIZE:
            return Position(node.dtype, node.params["dim"], {})
        if op is IOTA:
            return Position(node.dtype, at[0][0], dict(at[0][1]))
        if op is GATHER:
            return self._gathered(node, at, values)
        if isinstance(op, Reduction | ArgReduction):
            return Reduce(node.dtype, op, self._summed(node)[1], values[0])
        if isinstance(op, Contraction):
            return self._contraction(node, values)
        ref = self.locate(node)
        if ref is not None:
            return self._load(node, ref, at)
        raise NotInline(op.name)

    def _index_maps(self, node: Node, at: IndexMap) -> list[IndexMap]:
        """The maps at which a gather reads its indices."""
        x, *indices = node.operands
        ndim = node.ndim - (x.ndim - len(indices))
        middle = at[node.params["axis"] :][:ndim]
        return [
            tuple(
                FIXED if dim == 1 and middle[a][1] else middle[a]
                for a, dim in enumerate(index.type.shape, start=ndim - index.ndim)
            )
            for index in indices
        ]

    def _gathered(self, node: Node, at: IndexMap, values: list[Value]) -> Value:
        x, axis, ndim = node.operands[0], node.params["axis"], node.ndim - (node.operands[0].ndim - len(values))
        ref = self.reference(x)
        found = [Index(value, ref.strides[axis + k], ref.shape[axis + k]) for k, value in enumerate(values)]
        access = place(ref, (*at[:axis], *[FIXED] * len(values), *at[axis + ndim :]))
        self.origins[access] = x, False
        over = tuple(dict.fromkeys(loop for _, terms in at[axis : axis + ndim] for loop, _ in terms))
        return Fetch(node.dtype, access, tuple(found), self.code(node), over)

    def _summed(self, node: Node) -> tuple[Sequence[int], tuple[NestLoop, ...]]:
        """The axes (or, of a contraction, the labels) that an op sums over, and the loops over them."""
        if "axes" in node.params or "axis" in node.params:
            axes = node.params["axes"] if "axes" in node.params else (node.params["axis"],)
            return axes, self._loops(tuple(node.operands[0].type.shape[a] for a in axes))
        a, b = node.operands[:2]
        left, right, out = (node.params[k] for k in ("left", "right", "out"))
        summed = [label for label in left if label not in out]
        sizes = dict(zip((*left, *right), (*a.type.shape, *b.type.shape), strict=True))
        return summed, self._loops(tuple(sizes[label] for label in summed))

    def _contraction(self, node: Node, values: list[Value]) -> Value:
        loops = self._summed(node)[1]
        boolean = node.dtype.kind == "b"
        product = Apply(node.dtype, AND if boolean else MUL, tuple(values[:2]), {})
        op = ANY if boolean else SUM
        return Reduce(node.dtype, op, loops, product, guard=(*values, None)[2]) if loops else product

    def _loops(self, sizes: tuple[Dimension, ...]) -> tuple[NestLoop, ...]:
        if sizes not in self._reduce_loops:
            self._reduce_loops[sizes] = tuple(NestLoop(size) for size in sizes)
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
    strides: dict[NestLoop, Dimension] = {}
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
        strides: dict[NestLoop, Dimension] = {}
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
