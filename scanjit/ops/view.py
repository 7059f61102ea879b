"""Views: ops that compute and move no value. All other files of ops build on the view `dimshuffle`."""

from collections.abc import Sequence

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, Op
from scanjit.ops.samples import ANY_DTYPE, sampled
from scanjit.signatures import Array, OpFunction, Parameter
from scanjit.types import Dimension, Type

Access = tuple[Dimension, tuple[tuple[int, Dimension], ...]]
"""The index at which an axis of a view's operand is read: an offset, and the strides of those axes of the view that it
depends on."""


class View(Op):
    """An op whose result is its operand, read at an affine index.

    `access(shape, **params)` says, for each axis of the operand (of that shape), at which index it is read:
    `offset + sum(stride * index of the view's axis)`. `shows_all` says whether every element of the operand is in the
    view: a slice and windows may leave some out. `repeats` says whether the view may have an element several times.
    """

    moves_data = never_fails = is_linear = True

    def __init__(
        self,
        name: str,
        *,
        access: OpFunction[Sequence[Access]],
        shows_all: bool = True,
        repeats: bool = False,
        **rest: Parameter,
    ) -> None:
        super().__init__(name, aligned=self._aligned, **rest)
        self.access, self.shows_all, self.repeats = access, shows_all, repeats

    def _aligned(self, position: int, operand: Type, result: Type, **params: Parameter) -> dict[int, int]:
        """Maps each axis of the operand that one axis of the view reads whole and in order to that axis."""
        found = {}
        for axis, (start, terms) in enumerate(self.access(operand.shape, **params)):
            whole = len(terms) == 1 and terms[0][1] == 1 and isinstance(start, int) and start == 0
            if whole and operand.shape[axis] == result.shape[terms[0][0]] and operand.shape[axis] != 1:
                found[axis] = terms[0][0]
        return found


# ---- dimshuffle: transposes, new axes of size 1, axes of size 1 dropped ----------------------------------------------


def _dimshuffle_infer(x: Type, *, order: tuple[int | None, ...]) -> Type:
    used = [axis for axis in order if axis is not None]
    if len(set(used)) != len(used) or any(not 0 <= axis < x.ndim for axis in used):
        raise errors.ShapeError("axes must be distinct and exist", got=order, expected=f"axes of a {x.ndim}-d tensor")
    for axis in set(range(x.ndim)) - set(used):
        types.equate(x.shape[axis], 1, f"the size of axis {axis}, which is dropped, and 1")
    return x.with_shape([1 if axis is None else x.shape[axis] for axis in order])


def _dimshuffle_vjp(g: Node, y: Node, x: Node, *, order: tuple[int | None, ...]) -> tuple[Node]:
    back = tuple(order.index(axis) if axis in order else None for axis in range(x.ndim))
    return (DIMSHUFFLE(g, order=back),)


def _dimshuffle_reference(x: Array, *, order: tuple[int | None, ...]) -> Array:
    dropped = tuple(axis for axis in range(x.ndim) if axis not in order)
    kept = [axis for axis in range(x.ndim) if axis in order]
    moved = np.squeeze(x, dropped).transpose([kept.index(axis) for axis in order if axis is not None])
    return moved[(*(None if axis is None else slice(None) for axis in order), ...)]  # an array also without axes


DIMSHUFFLE = View(
    "dimshuffle",
    infer=_dimshuffle_infer,
    reference=_dimshuffle_reference,
    access=lambda shape, *, order: [
        (0, ((order.index(axis), 1),)) if axis in order else (0, ()) for axis in range(len(shape))
    ],
    vjp=_dimshuffle_vjp,
    batch_params=lambda size, *, order: {"order": (0, *(None if axis is None else axis + 1 for axis in order))},
    samples=sampled(
        ((2, 3), {"order": (1, 0)}),
        ((2, 3), {"order": (None, 0, None, 1)}),
        ((1, 3, 1), {"order": (1,)}),
        ((2, 1, 3), {"order": (2, None, 0)}),
        ((), {"order": (None, None)}),
        ((0, 2), {"order": (1, 0)}),
    ),
    dtypes=ANY_DTYPE,
    doc="axes in another order; `None` makes a new axis of size 1; axes of size 1 may be left out",
)


def along(vector: Node, axis: int, ndim: int) -> Node:
    """A vector along one of `ndim` axes. The others have size 1."""
    return DIMSHUFFLE(vector, order=tuple(0 if a == axis else None for a in range(ndim)))


def as_row(x: Node) -> Node:
    """A tensor with one row, which is `x`."""
    return DIMSHUFFLE(x, order=(None, *range(x.ndim)))


def only_row(x: Node) -> Node:
    """The row of a tensor that has one."""
    return DIMSHUFFLE(x, order=tuple(range(1, x.ndim)))


def reordered(x: Node, order: Sequence[int | None]) -> Node:
    """`x` with its axes in another order; None stands for a new axis of size 1."""
    return x if tuple(order) == tuple(range(x.ndim)) else DIMSHUFFLE(x, order=tuple(order))


def moved_axis(x: Node, source: int, target: int) -> Node:
    """`x` with one axis moved, the others in order."""
    order = [a for a in range(x.ndim) if a != source]
    order.insert(target, source)
    return reordered(x, order)
