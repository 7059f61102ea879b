"""Tensors whose sizes a step computes, in memory whose size is known before.

Take a loop in a step that has at most 12 steps, and whose stack is cut to the rows of the steps that ran. The size of
everything computed from these rows is not known before. So it is computed for all 12 rows instead. The rows behind the
last one have any value. Sums leave them out, and ops that read or replace rows find the places of the rows that count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scanjit import ir, types
from scanjit.ir import PART, Node, apply, dim_node
from scanjit.ops import ArgReduction, Elementwise, Reduction
from scanjit.ops.contraction import CONTRACT
from scanjit.ops.elementwise import FLOORDIV, MAXIMUM, MINIMUM, MOD, WHERE
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.promotion import cast
from scanjit.ops.shape import CONCATENATE, IOTA, SET_SLICE, SLICE, window
from scanjit.ops.stretch import BROADCAST_TO, full
from scanjit.ops.view import DIMSHUFFLE, along, as_row
from scanjit.rewrite.match import window_of, window_set
from scanjit.types import Dimension

Limit = Callable[[Dimension], Dimension | None]


class Padded:
    """Tensors with sizes that are known before.

    Parameters
    ----------
    moves : tells whether a size is computed in the step.
    most : gives an upper bound of such a size that is known before; None if there is none.
    """

    def __init__(self, moves: Callable[[Dimension], bool], most: Limit) -> None:
        self._moves, self._most = moves, most
        self._made: dict[Node, Node | None] = {}

    def of(self, x: Node) -> Node | None:
        """`x` with more entries behind the last one of each axis whose size moves. None if they cannot be computed."""
        if not any(map(self._moves, x.type.shape)):
            return x
        if x not in self._made:
            self._made[x] = None if self._shape(x.type.shape) is None else self.read(x)
        return self._made[x]

    def _shape(self, shape: Sequence[Dimension]) -> tuple[Dimension, ...] | None:
        limits = [limit for dim in shape if (limit := self._size(dim)) is not None]
        return tuple(limits) if len(limits) == len(shape) else None

    def _size(self, dim: Dimension) -> Dimension | None:
        if not self._moves(dim):
            return dim
        limit = self._most(dim)
        return limit if limit is None or types.not_negative(limit) else types.maximum(limit, 0)

    def read(self, x: Node) -> Node | None:
        """`x` computed from operands with known sizes. None if that cannot be done."""
        if x.op is PART:
            return None
        made = [self.of(arg) for arg in x.operands]
        args = [arg for arg in made if arg is not None]
        if len(args) < len(made):
            return None
        if x.op is IOTA:
            return IOTA(length=self._size(x.params["length"]))
        if x.op is BROADCAST_TO:
            return BROADCAST_TO(args[0], shape=self._shape(x.type.shape)) if self._paired(x) else None
        if x.op is SLICE:
            return self._slice(x, args[0])
        if x.op is SET_SLICE:
            return self._set_slice(x, *args)
        if x.op is CONCATENATE:
            return self._concatenate(x, args)
        if x.op in (GATHER, SCATTER):
            return self._indexed(x, args)
        if isinstance(x.op, Reduction):
            return self._reduced(x, x.op, args[0])
        if isinstance(x.op, ArgReduction):
            (axis,) = axes = (x.params["axis"],)
            lowest = x.op.best.initial(args[0].dtype)
            found = x.op(self._only(x.operands[0], args[0], axes, lowest), axis=axis)
            return self._if_some(x.operands[0], axes, found)
        if x.op is CONTRACT:
            return self._contracted(x, args)
        if x.op is DIMSHUFFLE or (isinstance(x.op, Elementwise) and self._paired(x)):
            return x.op(*args, **x.params)
        return None

    def _same(self, a: Dimension, b: Dimension) -> bool:
        """Whether two equal sizes have the same limit. (Two sizes that only a run finds to be equal may have different
        limits.)"""
        return types.maximum(a, 0) == types.maximum(b, 0) or not (self._moves(a) or self._moves(b))

    def _paired(self, x: Node) -> bool:
        """Whether all operands have the sizes of the result, or 1."""
        return all(
            a == 1 or self._same(a, b)
            for arg in x.operands
            for a, b in zip(reversed(arg.type.shape), reversed(x.type.shape), strict=False)
        )

    # ---- rows that count ---------------------------------------------------------------------------------------------

    def _only(self, x: Node, padded: Node, axes: Sequence[int], filling: object) -> Node:
        """`padded`, which was made of `x`, with another value behind the last entries of some axes."""
        for axis in axes:
            if self._moves(dim := x.type.shape[axis]):
                counts = along(IOTA(length=padded.type.shape[axis]) < number(dim), axis, x.ndim)
                padded = apply(WHERE, counts, padded, full(filling, (), padded.dtype))
        return padded

    def _if_some(self, x: Node, axes: Sequence[int], result: Node) -> Node:
        """`result`, or an error where one of the axes has no entry."""
        for axis in axes:
            if self._moves(dim := x.type.shape[axis]):
                result = GATHER(as_row(result), apply(MINIMUM, number(dim), 1) - 1, axis=0)
        return result

    def _reduced(self, x: Node, op: Reduction, padded: Node) -> Node:
        axes = x.params["axes"]
        found = op(self._only(x.operands[0], padded, axes, op.initial(padded.dtype)), axes=axes)
        return found if op.empty else self._if_some(x.operands[0], axes, found)

    def _contracted(self, x: Node, args: Sequence[Node]) -> Node | None:
        left, right, out = (x.params[name] for name in ("left", "right", "out"))
        sizes = [
            dict(zip(labels, arg.type.shape, strict=True))
            for labels, arg in zip((left, right), x.operands, strict=True)
        ]
        if not all(self._same(sizes[0][label], sizes[1][label]) for label in set(left) & set(right)):
            return None
        summed = [[i for i, label in enumerate(labels) if label not in out] for labels in (left, right)]
        masked = [self._only(a, b, axes, 0) for a, b, axes in zip(x.operands, args, summed, strict=True)]
        return CONTRACT(*masked, **x.params)

    # ---- places ------------------------------------------------------------------------------------------------------

    def _slice(self, x: Node, padded: Node) -> Node | None:
        for axis, (start, count, step) in enumerate(window_of(x)):
            whole, given = x.operands[0].type.shape[axis], padded.type.shape[axis]
            size = self._size(count)
            if size is None:
                return None
            if not any(map(self._moves, (start, count, whole))) or (start == 0 and step == 1 and size == given):
                padded = window(padded, axis, start, size, step)
                continue
            at = IOTA(length=size)
            index = number(start) + at * step
            if self._moves(count):
                padded = _taken(padded, index, at < number(count), axis)
            else:
                padded = GATHER(padded, self._inside(index, whole, given), axis=axis)
        return padded

    def _inside(self, index: Node, size: Dimension, given: Dimension) -> Node:
        """The index for an axis with more entries. If it is out of bounds in an axis of this size, it is out of bounds
        there too."""
        return apply(WHERE, index < number(size), index, number(given)) if self._moves(size) else index

    def _set_slice(self, x: Node, padded: Node, value: Node) -> Node:
        mask: Node | None = None
        for axis, (start, count, step) in enumerate(window_set(x)):
            whole, given = x.type.shape[axis], padded.type.shape[axis]
            if (start, count, step) == (0, whole, 1):
                continue
            steps = IOTA(length=given) - number(start)
            at, rest = apply(FLOORDIV, steps, step), apply(MOD, steps, step)
            chosen = (rest == 0) & (at >= 0) & (at < number(count))
            value = _taken(value, at, chosen, axis)
            chosen = along(chosen, axis, x.ndim)
            mask = chosen if mask is None else mask & chosen
        return value if mask is None else apply(WHERE, mask, value, padded)

    def _concatenate(self, x: Node, args: Sequence[Node]) -> Node | None:
        axis = x.params["axis"]
        pairs = [pair for arg in x.operands for pair in zip(arg.type.shape, x.type.shape, strict=True)]
        if not all(self._same(*pair) for k, pair in enumerate(pairs) if k % x.ndim != axis):
            return None
        size = self._size(x.type.shape[axis])
        if size is None:
            return None
        found, begin, at = None, dim_node(0), IOTA(length=size)
        for given, arg in zip(x.operands, args, strict=True):
            end = begin + number(given.type.shape[axis])
            rows = _taken(arg, at - begin, (at >= begin) & (at < end), axis)
            found = rows if found is None else apply(WHERE, along(at < begin, axis, x.ndim), found, rows)
            begin = end
        return found

    def _indexed(self, x: Node, args: Sequence[Node]) -> Node | None:
        """An op with indices, which must have known sizes."""
        fixed = 1 if x.op is GATHER else 2
        axis, indices = x.params["axis"], x.operands[fixed:]
        if any(self._moves(dim) for index in indices for dim in index.type.shape):
            return None
        sizes = zip(x.operands[0].type.shape[axis:], args[0].type.shape[axis:], strict=True)
        places = [self._inside(index, *pair) for index, pair in zip(indices, sizes, strict=False)]
        return x.op(*args[:fixed], *places, **x.params)


def _taken(x: Node, index: Node, chosen: Node, axis: int) -> Node:
    """Entries of `x` along an axis where they are chosen; any others elsewhere, of which there may be none."""
    if not types.not_negative(x.type.shape[axis] - 1):
        shape = (*x.type.shape[:axis], 1, *x.type.shape[axis + 1 :])
        x = CONCATENATE(x, full(0, shape, x.dtype), axis=axis)
    return GATHER(x, apply(WHERE, chosen, index, 0), axis=axis)


def number(dim: Dimension) -> Node:
    """A dimension as a node, computed from the values that it depends on."""
    if isinstance(dim, int) or all(atom.kind == "size" for atom in types.atoms(dim)):
        return dim_node(dim)
    total: Node | None = None
    for monomial, factor in dim.terms:
        product = ir.constant(np.int64(factor))
        for atom in monomial:
            product = product * _number_of(atom)
        total = product if total is None else total + product
    assert total is not None
    return total


def _number_of(atom: types.Atom) -> Node:
    if atom.kind == "value":
        return cast(atom.node, "int64")
    if atom.kind in ("min", "max", "//", "%"):
        function = {"min": MINIMUM, "max": MAXIMUM, "//": FLOORDIV, "%": MOD}[atom.kind]
        return apply(function, *map(number, atom.args))
    return dim_node(types.dim_of(atom))
