"""Reductions over axes. `mean`, `var`, `logsumexp`... are compositions of these, in `scanjit.tensor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from scanjit import errors, types
from scanjit.ir import Graph, Node, Op, free_variables, new_input, parts
from scanjit.ops.elementwise import FLOATS, INTS, cast, sample, where
from scanjit.ops.scan import scan_node
from scanjit.ops.shape import DIMSHUFFLE, RESHAPE, broadcast_to, full
from scanjit.types import Dimension, Type

NUMBERS = (*FLOATS, *INTS)
_EMPTY = "a reduction that has no value for nothing needs at least {left} element along axis {axis}, not {right}"


class Reduction(Op):
    """An associative reduction over `axes` (sorted, distinct, not negative; they are dropped).

    Parameters
    ----------
    combine : the expression in generated code that joins two partial results `{0}`, `{1}`; or a function of the dtype.
    horizontal : the SIMD function that reduces the lanes of one vector; or a function of the dtype.
    initial : what changes nothing when it is joined, as a function of the dtype.
    empty : whether that is the value of a reduction over nothing; else nothing is an error.
    """

    kind: ClassVar[str] = "reduction"
    never_fails = goes_anywhere = True

    def __init__(
        self,
        name: str,
        *,
        combine: str,
        horizontal: str,
        initial: Callable[[np.dtype], Any],
        function: Callable[..., Any],
        empty: bool = True,
        **rest: Any,
    ) -> None:
        def infer(x: Type, *, axes: tuple[int, ...]) -> Type:
            if list(axes) != sorted(set(axes)) or any(not 0 <= a < x.ndim for a in axes):
                raise errors.ShapeError(f"the axes of {name} must exist", got=axes, expected=f"axes of {x}")
            for axis in () if empty else axes:
                _need_some(x, axis)
            return x.with_shape([dim for a, dim in enumerate(x.shape) if a not in axes])

        def batch(args: Sequence[Node], batched: Sequence[bool], size: Dimension, *, axes: tuple[int, ...]) -> Any:
            return self(args[0], axes=tuple(a + 1 for a in axes)), True

        def samples(rng: np.random.Generator, dtype: str) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
            shapes: list[tuple[tuple[int, ...], tuple[int, ...]]]
            shapes = [((4,), (0,)), ((2, 3), (1,)), ((2, 3, 2), (0, 2)), ((2, 3), (0, 1)), ((1, 3), (0,)), ((2,), ())]
            shapes += [((0, 2), (0,)), ((2, 0), (0, 1))] if empty else [((2, 0), (0,))]
            for shape, axes in shapes:
                yield (sample(rng, shape, dtype),), {"axes": axes}

        def aligned(position: int, operand: Type, result: Type, *, axes: tuple[int, ...]) -> dict[int, int]:
            return {a: b for b, a in enumerate(a for a in range(operand.ndim) if a not in axes)}

        rest.setdefault("dtypes", NUMBERS)
        super().__init__(
            name,
            infer=infer,
            batch=batch,
            samples=samples,
            aligned=aligned,
            reference=lambda x, *, axes: np.asarray(function(x, axis=axes)),
            **rest,
        )
        self.combine, self.horizontal, self.initial, self.empty = combine, horizontal, initial, empty


def _need_some(x: Type, axis: int) -> None:
    """Something to reduce: known now, or checked at run time."""
    if x.shape[axis] == 0:
        raise errors.ShapeError(_EMPTY.format(left=1, right=0, axis=axis))
    types.require(1, x.shape[axis], _EMPTY.replace("{axis}", str(axis)), errors.ShapeError)


def expand(x: Node, axes: Sequence[int]) -> Node:
    """`x` with axes of size 1 where a reduction dropped `axes`."""
    if not axes:
        return x
    kept = iter(range(x.ndim))
    return DIMSHUFFLE(x, order=tuple(None if a in axes else next(kept) for a in range(x.ndim + len(axes))))


SUM: Reduction = Reduction(
    "sum",
    combine="{0} + {1}",
    horizontal="reduce_add",
    initial=lambda dtype: 0,
    function=lambda x, axis: np.add.reduce(x, axis=axis, dtype=x.dtype),
    vjp=lambda g, y, x, *, axes: (broadcast_to(expand(g, axes), x.type.shape),),
    jvp=lambda tangents, y, x, *, axes: None if tangents[0] is None else SUM(tangents[0], axes=axes),
    is_linear=True,
    doc="the sum over axes, in the dtype of the operand",
)


# ---- products --------------------------------------------------------------------------------------------------------


def _others(x: Node, axes: tuple[int, ...]) -> Node:
    """For each element the product of all others along `axes`: of those before it, times those after it.

    Without a division, so it is right (and so are its derivatives) where there are zeros.
    """
    rest = [a for a in range(x.ndim) if a not in axes]
    shape = x.type.shape
    moved = DIMSHUFFLE(x, order=(*axes, *rest))
    flat = RESHAPE(moved, shape=(types.product(shape[a] for a in axes), *(shape[a] for a in rest)))
    before, after = (_products_before(flat, reverse) for reverse in (False, True))
    back = RESHAPE(before * after, shape=moved.type.shape)
    return DIMSHUFFLE(back, order=tuple([*axes, *rest].index(a) for a in range(x.ndim)))


def _products_before(x: Node, reverse: bool) -> Node:
    """The products of the rows before each row (or, in reverse, after it)."""
    one = full(1, x.type.shape[1:], x.dtype)
    product, row = new_input(one.type), new_input(one.type)
    results = [product * row, product]
    sizes = free_variables(results, [product, row])  # what computed sizes are computed from
    body = Graph.of([product, row, *sizes], results)
    return parts(scan_node(body, [one], [x], sizes, x.type.shape[0], reverse=reverse))[1]


PROD = Reduction(
    "prod",
    combine="{0} * {1}",
    horizontal="reduce_mul",
    initial=lambda dtype: 1,
    function=lambda x, axis: np.multiply.reduce(x, axis=axis, dtype=x.dtype),
    vjp=lambda g, y, x, *, axes: (expand(g, axes) * _others(x, axes) if axes else g,),
    jvp=lambda tangents, y, x, *, axes: (
        tangents[0] if tangents[0] is None or not axes else SUM(tangents[0] * _others(x, axes), axes=axes)
    ),
    doc="the product over axes, in the dtype of the operand",
)


# ---- extremes --------------------------------------------------------------------------------------------------------


def _shares(y: Node, x: Node, axes: tuple[int, ...]) -> tuple[Node, Node]:
    """Which elements are the extreme one, and (with the axes kept) how many there are."""
    met = x == expand(y, axes)
    return met, expand(SUM(cast(met, x.dtype), axes=axes), axes)


def _extreme_vjp(g: Node, y: Node, x: Node, *, axes: tuple[int, ...]) -> tuple[Node]:
    met, count = _shares(y, x, axes)
    return (where(met, expand(g, axes) / count, 0),)


def _extreme_jvp(tangents: Sequence[Node | None], y: Node, x: Node, *, axes: tuple[int, ...]) -> Node | None:
    if tangents[0] is None:
        return None
    met, count = _shares(y, x, axes)
    return SUM(where(met, tangents[0] / count, 0), axes=axes)


def _lowest(dtype: np.dtype) -> Any:
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min


def _highest(dtype: np.dtype) -> Any:
    return np.inf if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max


MAX = Reduction(
    "max",
    combine="maximum({0}, {1})",
    horizontal="reduce_max",
    initial=_lowest,
    function=np.maximum.reduce,
    empty=False,
    vjp=_extreme_vjp,
    jvp=_extreme_jvp,
    doc="the largest over axes; NaN if there is one",
)
MIN = Reduction(
    "min",
    combine="minimum({0}, {1})",
    horizontal="reduce_min",
    initial=_highest,
    function=np.minimum.reduce,
    empty=False,
    vjp=_extreme_vjp,
    jvp=_extreme_jvp,
    doc="the smallest over axes; NaN if there is one",
)
ANY = Reduction(
    "any",
    combine="{0} | {1}",
    horizontal="reduce_or",
    initial=lambda dtype: False,
    function=np.logical_or.reduce,
    dtypes=("bool",),
    doc="whether any holds",
)
ALL = Reduction(
    "all",
    combine="{0} & {1}",
    horizontal="reduce_and",
    initial=lambda dtype: True,
    function=np.logical_and.reduce,
    dtypes=("bool",),
    doc="whether all hold",
)


# ---- positions -------------------------------------------------------------------------------------------------------


class ArgReduction(Op):
    """The position (int64) along one `axis` of the element that no other beats; the first of equal ones.

    Parameters
    ----------
    beats : the condition in generated code on which `{0}` takes the place of `{1}`, which comes before it. NaN beats
        every number, as in NumPy.
    """

    kind: ClassVar[str] = "argreduction"
    goes_anywhere = True

    def __init__(self, name: str, *, beats: str, function: Callable[..., Any], doc: str) -> None:
        def infer(x: Type, *, axis: int) -> Type:
            if not 0 <= axis < x.ndim:
                raise errors.ShapeError(f"the axis of {name} must exist", got=axis, expected=f"an axis of {x}")
            _need_some(x, axis)
            return Type(np.dtype("int64"), x.shape[:axis] + x.shape[axis + 1 :])

        def batch(args: Sequence[Node], batched: Sequence[bool], size: Dimension, *, axis: int) -> Any:
            return self(args[0], axis=axis + 1), True

        def samples(rng: np.random.Generator, dtype: str) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
            for shape, axis in (((5,), 0), ((2, 6), 1), ((3, 2), 0), ((1,), 0), ((2, 0, 3), 2)):
                yield (sample(rng, shape, dtype),), {"axis": axis}

        super().__init__(
            name,
            infer=infer,
            reference=lambda x, *, axis: np.asarray(function(x, axis=axis), np.int64),
            batch=batch,
            samples=samples,
            dtypes=NUMBERS,
            doc=doc,
        )
        self.beats = beats

    def text(self, dtype: np.dtype) -> str:
        """The condition in generated code for operands of a dtype."""
        if dtype.kind == "f":
            return f"({self.beats}) | (({{0}} != {{0}}) & ({{1}} == {{1}}))"
        return self.beats


ARGMAX = ArgReduction("argmax", beats="{0} > {1}", function=np.argmax, doc="the position of the largest")
ARGMIN = ArgReduction("argmin", beats="{0} < {1}", function=np.argmin, doc="the position of the smallest")
