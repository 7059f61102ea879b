"""Reductions that choose: the largest or smallest element, `any`, `all`, and the positions of the largest and the
smallest.

Compositions of reductions (`mean`, `var`, `logsumexp`...) are in `scanjit.tensor`."""

from __future__ import annotations

import numpy as np

from scanjit import errors
from scanjit.ir import Node, Op, apply
from scanjit.kinds import kind_of
from scanjit.ops.elementwise import (
    ABS,
    ADD,
    CLIP,
    DIV,
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    MAXIMUM,
    MINIMUM,
    MUL,
    NEG,
    SUB,
    WHERE,
    where,
)
from scanjit.ops.promotion import Elementwise, cast
from scanjit.ops.reduction import Reduction, need_some
from scanjit.ops.samples import NUMBERS, sample
from scanjit.ops.stretch import SUM, expand
from scanjit.ops.view import View
from scanjit.signatures import Array, OpFunction, Parameter, Samples
from scanjit.types import Type
from scanjit.walks import bottom_up

# ---- extremes --------------------------------------------------------------------------------------------------------


def _extreme_vjp(g: Node, y: Node, x: Node, *, axes: tuple[int, ...]) -> tuple[Node]:
    met = x == expand(y, axes)
    count = expand(SUM(cast(met, x.dtype), axes=axes), axes)
    return (where(met, expand(g, axes) / count, 0),)


def compared_with_extreme(node: Node) -> Node | None:
    """The floats that a node compares with the largest or the smallest of them, as the gradient of `max` does, if they
    must be the ones among which that was found. None for other nodes, and for floats that have the same bits wherever
    they are computed. Of `a * b + c`, the product may be rounded or not, in one place so and in another otherwise: if
    it is computed twice, none may equal the largest one."""
    if node.op is not EQUAL or not kind_of(node.args[0].dtype).floating:
        return None
    x, y = map(_viewed, node.args)
    if y.op not in (MAX, MIN):
        x, y = y, x
    if y.op not in (MAX, MIN) or not isinstance(x.op, Elementwise):
        return None
    parts = bottom_up([x], lambda part: part.args if isinstance(part.op, Elementwise | View) else ())
    found = {part.op for part in parts if isinstance(part.op, Elementwise)}
    return None if found <= _SAME_BITS or found <= _SAME_BITS - {ADD, SUB} | {MUL, DIV} else x


def _viewed(x: Node) -> Node:
    """What a chain of views looks at."""
    while isinstance(x.op, View):
        x = x.args[0]
    return x


def _extreme(name: str, pairwise: Elementwise, **rest: Parameter) -> Reduction:
    return Reduction(
        name,
        join=lambda a, b: apply(pairwise, a, b),
        combine=pairwise.name + "({0}, {1})",
        **rest,
    )


MAX = _extreme(
    "max",
    MAXIMUM,
    horizontal="reduce_max",
    initial=lambda dtype: kind_of(dtype).limits[0],
    function=np.maximum.reduce,
    empty=False,
    vjp=_extreme_vjp,
    doc="the largest over axes; NaN if there is one",
)
MIN = _extreme(
    "min",
    MINIMUM,
    horizontal="reduce_min",
    initial=lambda dtype: kind_of(dtype).limits[1],
    function=np.minimum.reduce,
    empty=False,
    vjp=_extreme_vjp,
    doc="the smallest over axes; NaN if there is one",
)


_SAME_BITS = {ADD, SUB, NEG, ABS, MAXIMUM, MINIMUM, WHERE, CLIP, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL}
"""Ops of which no two become one operation."""


def _supremum(x: Array, axis: tuple[int, ...]) -> Array:
    return np.maximum.reduce(x, axis=axis, initial=kind_of(x.dtype).limits[0])


SUPREMUM = _extreme(
    "supremum",
    MAXIMUM,
    horizontal="reduce_max",
    initial=lambda dtype: kind_of(dtype).limits[0],
    function=_supremum,
    doc="the largest over axes; the lowest value of the dtype if there is none, NaN if there is one",
)
ANY = Reduction(
    "any",
    join=lambda a, b: a | b,
    combine="{0} | {1}",
    horizontal="reduce_or",
    initial=lambda dtype: False,
    function=np.logical_or.reduce,
    dtypes=("bool",),
    doc="whether any holds",
)
ALL = Reduction(
    "all",
    join=lambda a, b: a & b,
    combine="{0} & {1}",
    horizontal="reduce_and",
    initial=lambda dtype: True,
    function=np.logical_and.reduce,
    dtypes=("bool",),
    doc="whether all hold",
)


# ---- positions -------------------------------------------------------------------------------------------------------


FEW_PLACES = 8
"""In a step of a loop, the position of an extreme element among at most this many is found without vectors: a step
waits longer for a vector, whose elements it may have just stored one by one."""
FEW_TRUTHS = 32
"""So is the position of the first one, among at most this many, of which something is true: what follows is not looked
at."""


class ArgReduction(Op):
    """The position (int64) along one `axis` of the best element; of equal elements, the first.

    Parameters
    ----------
    best : the reduction that gives the best element.
    sign : the operator in generated code that says whether one element is better than another. NaN is better than
        every number, as in NumPy.
    """

    never_fails = goes_anywhere = True

    def __init__(self, name: str, best: Reduction, *, sign: str, function: OpFunction[Parameter], doc: str) -> None:
        def infer(x: Type, *, axis: int) -> Type:
            if not 0 <= axis < x.ndim:
                raise errors.ShapeError(f"the axis of {name} must exist", got=axis, expected=f"an axis of {x}")
            need_some(x, axis, name)
            return Type(np.dtype("int64"), x.shape[:axis] + x.shape[axis + 1 :])

        def samples(rng: np.random.Generator, dtype: str) -> Samples:
            for shape, axis in (((5,), 0), ((2, 6), 1), ((3, 2), 0), ((1,), 0), ((2, 0, 3), 2), ((3, 21), 1)):
                yield (sample(rng, shape, dtype),), {"axis": axis}

        super().__init__(
            name,
            infer=infer,
            reference=lambda x, *, axis: np.asarray(function(x, axis=axis), np.int64),
            batch_params=lambda size, *, axis: {"axis": axis + 1},
            samples=samples,
            dtypes=NUMBERS,
            doc=doc,
        )
        self.best, self.sign = best, sign


ARGMAX = ArgReduction("argmax", MAX, sign=">", function=np.argmax, doc="the position of the largest")
ARGMIN = ArgReduction("argmin", MIN, sign="<", function=np.argmin, doc="the position of the smallest")
