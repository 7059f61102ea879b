"""Sorting along the last axis: the elements in order, `sort`, and their places, `argsort`; some of these, `ranked` and
`argranked`, for which not all elements must be sorted; and places in sorted rows, `searched`. All functions that sort
are made of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ParamSpec

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, Op
from scanjit.kinds import kind_of
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.promotion import Elementwise
from scanjit.ops.samples import ANY_DTYPE, NUMBERS, numbered, sample
from scanjit.ops.shape import IOTA, RESHAPE
from scanjit.ops.stretch import broadcast_to, zeros_like
from scanjit.ops.view import along, moved_axis
from scanjit.signatures import Array, DType, Parameter, Samples
from scanjit.types import Dimension, Type

_P = ParamSpec("_P")


def _check(x: Type) -> None:
    if not x.ndim:
        raise errors.ShapeError("a scalar has no order", got=x, expected="a tensor with an axis to sort along")


def _infer_sort(x: Type) -> Type:
    _check(x)
    return x


def _as_places(infer: Callable[_P, Type]) -> Callable[_P, Type]:
    """The type of the places of elements, where `infer` gives the type of the elements."""
    return lambda *operands, **params: Type(np.dtype("int64"), infer(*operands, **params).shape)


def _argsort_reference(x: Array, *ranks: Array) -> Array:
    """NumPy's: stable, with NaN last. Sorted rows are partitioned at all ranks."""
    return np.argsort(x, axis=-1, kind="stable")


def _sort_reference(x: Array, *ranks: Array) -> Array:
    """NumPy's, with -0.0 before 0.0. Sorted rows are partitioned at all ranks."""
    if not np.issubdtype(x.dtype, np.floating):  # exports copy this source
        return np.sort(x, axis=-1)
    return np.take_along_axis(x, np.lexsort((~np.signbit(x), x)), -1)


def _infer_ranked(x: Type, ranks: Type) -> Type:
    _check(x)
    *rows, count = ranks.shape
    if ranks.ndim > x.ndim:
        raise errors.ShapeError("ranks have at most the axes of the tensor", got=f"{x} and {ranks}")
    found = [types.equate(a, b, "the first axes of a tensor and of ranks") for a, b in zip(x.shape, rows, strict=False)]
    return Type(x.dtype, (*found, *x.shape[len(rows) : -1], count))


def _ranked_reference(x: Array, ranks: Array) -> Array:
    """Some entries of the result of `sort`."""
    n = x.shape[-1]
    if not np.issubdtype(x.dtype, np.floating):  # exports copy this source
        found = np.sort(x, axis=-1)
    else:
        found = np.take_along_axis(x, np.lexsort((~np.signbit(x), x)), -1)
    ranks = ranks.reshape(*ranks.shape[:-1], *[1] * (x.ndim - ranks.ndim), ranks.shape[-1])
    shape = (*x.shape[:-1], ranks.shape[-1])
    return np.take_along_axis(found, np.clip(ranks, 0, n - 1), -1) if n else np.zeros(shape, x.dtype)


def _argranked_reference(x: Array, ranks: Array) -> Array:
    """Some entries of the result of `argsort`."""
    n = x.shape[-1]
    found = np.argsort(x, axis=-1, kind="stable")
    ranks = ranks.reshape(*ranks.shape[:-1], *[1] * (x.ndim - ranks.ndim), ranks.shape[-1])
    shape = (*x.shape[:-1], ranks.shape[-1])
    return np.take_along_axis(found, np.clip(ranks, 0, n - 1), -1) if n else np.zeros(shape, np.int64)


def _where_true_reference(x: Array) -> Array:
    places = np.argsort(~x, axis=-1, kind="stable")
    return np.where(np.take_along_axis(x, places, -1), places, -1)


def _infer_partitioned(x: Type, ranks: Type) -> Type:
    _infer_ranked(x, ranks)
    return x


def _partitioned_vjp(g: Node, y: Node, x: Node, ranks: Node) -> tuple[Node, None]:
    """An entry of a partitioned row was the element of the same rank."""
    return SCATTER(zeros_like(x), entries(g, ARGSORT(y)), *_before(x), ARGSORT(x), axis=0, add=True), None


def _partitioned_jvp(tangents: Sequence[Node], y: Node, x: Node, ranks: Node) -> Node:
    moved = entries(tangents[0], ARGSORT(x))
    return SCATTER(zeros_like(y), moved, *_before(x), ARGSORT(y), axis=0, add=True)


def _partitioned_batch(op: Op, args: Sequence[Node], batched: Sequence[bool], size: Dimension) -> tuple[Node, bool]:
    """A batch of `op`, which partitions rows. If ranks are a vector for all examples, they are one for all rows."""
    x, ranks = args
    if not batched[0]:
        x = broadcast_to(x, (size, *x.type.shape))
    if not batched[1] and ranks.ndim > 1:
        ranks = broadcast_to(ranks, (size, *ranks.type.shape))
    return op(x, ranks), True


def comes_before(a: Node, v: Node, side: str) -> Node:
    """Whether elements of a sorted row come before numbers in an order in which NaN is last. On the "right" side, equal
    elements do."""
    if side == "right":
        return (a <= v) | (v != v) if a.type.kind.floating else a <= v
    return (a < v) | ((v != v) & (a == a)) if a.type.kind.floating else a < v


def _infer_searched(rows: Type, v: Type, *, side: str) -> Type:
    _check(rows)
    if rows.dtype != v.dtype or rows.kind.is_mask or v.ndim < rows.ndim - 1:
        raise errors.InternalError("searched takes rows, and numbers of their dtype for each", got=f"{rows} and {v}")
    before = zip(rows.shape[:-1], v.shape, strict=False)
    shape = [types.equate(*pair, "the first axes of sorted rows and of what is looked for in them") for pair in before]
    return Type(np.dtype("int64"), (*shape, *v.shape[len(shape) :]))


def _searched_reference(rows: Array, v: Array, *, side: Parameter) -> Array:
    """NumPy's `searchsorted` in each row."""
    if rows.ndim == 1:
        return np.asarray(np.searchsorted(rows, v, side=side), np.int64)
    found = np.empty(v.shape, np.int64)
    for place in np.ndindex(*rows.shape[:-1]):
        found[place] = np.searchsorted(rows[place], v[place], side=side)
    return found


def _searched_batch(args: Sequence[Node], batched: Sequence[bool], size: Dimension, *, side: str) -> tuple[Node, bool]:
    """A batch of rows is more rows. In rows that are the same for all examples, these are looked for together."""
    rows, v = args
    if batched[0]:
        return SEARCHED(rows, v if batched[1] else broadcast_to(v, (size, *v.type.shape)), side=side), True
    last = rows.ndim - 1
    return moved_axis(SEARCHED(rows, moved_axis(v, 0, last), side=side), last, 0), True


def _searched_samples(rng: np.random.Generator, dtype: str) -> Samples:
    for shape, many in (((5,), (7,)), ((40,), (3, 30)), ((0,), (2,)), ((1,), ()), ((300,), (20,)), ((2, 3, 50), (4,))):
        rows, v = np.sort(sample(rng, shape, dtype)), sample(rng, (*shape[:-1], *many), dtype)
        if kind_of(rows.dtype).floating and rows.size > 2:
            rows[..., -2:] = np.nan
            v.flat[0], v.flat[-1] = np.nan, rows.flat[0]
        for side in ("left", "right"):
            yield (rows, v), {"side": side}
            yield (rows, np.sort(v, axis=None).reshape(v.shape)), {"side": side}


def entries(rows: Node, places: Node) -> Node:
    """The elements of rows at places that differ between rows."""
    return GATHER(rows, *_before(rows), places, axis=0)


def _before(rows: Node) -> list[Node]:
    """The indices of all axes but the last."""
    return [along(IOTA(length=n), a, rows.ndim) for a, n in enumerate(rows.type.shape[:-1])]


def _places(x: Node, ranks: Sequence[Node]) -> Node:
    """The places of the elements in the result of `sort`; with ranks, in the result of `ranked`."""
    return ARGRANKED(x, *ranks) if ranks else ARGSORT(x)


def _vjp(g: Node, y: Node, x: Node, *ranks: Node) -> tuple[Node | None, ...]:
    return SCATTER(zeros_like(x), g, *_before(x), _places(x, ranks), axis=0, add=True), *[None] * len(ranks)


def _jvp(tangents: Sequence[Node], y: Node, x: Node, *ranks: Node) -> Node:
    return entries(tangents[0], _places(x, ranks))


def _batched(op: Op, args: Sequence[Node], batched: Sequence[bool], size: Dimension) -> tuple[Node, bool]:
    """A batch of `op`, which gives entries of sorted rows. Ranks of several examples are looked up together if the rows
    are the same."""
    x, ranks = args
    if not batched[1] and ranks.ndim > 1:
        ranks = broadcast_to(ranks, (size, *ranks.type.shape))
    if batched[0]:
        return op(x, ranks), True
    *rows, count = ranks.type.shape[1:]
    together = RESHAPE(moved_axis(ranks, 0, ranks.ndim - 2), shape=(*rows, size * count))
    found = RESHAPE(op(x, together), shape=(*x.type.shape[:-1], size, count))
    return moved_axis(found, x.ndim - 1, 0), True


def _samples(rng: np.random.Generator, dtype: str) -> Samples:
    for shape in ((5,), (2, 3, 60), (3, 1), (2, 0), (0, 4), (300,)):
        x = sample(rng, shape, dtype)
        if kind_of(x.dtype).floating and x.size > 4:
            x.flat[[1, 3]], x.flat[2], x.flat[4] = np.nan, -0.0, 0.0
        yield (x,), {}


def _distinct_samples(rng: np.random.Generator, dtype: str) -> Samples:
    """Numbers without equal ones, at which the function would have no slope."""
    for shape in ((5,), (2, 3, 20), (3, 1), (2, 0), (0, 4), (40, 3)):
        yield (rng.permutation(numbered(shape, dtype).ravel()).reshape(shape),), {}


def _ranked_samples(rng: np.random.Generator, dtype: str) -> Samples:
    """Some entries, and one of them twice; those of long rows are among many others. Other ones of each row."""
    yield from _partitioned_samples(rng, dtype)
    x = rng.permutation(numbered((2, 700), dtype).ravel()).reshape(2, 700)
    yield (x, np.array([350, 349])), {}
    yield (x, np.array([[350, 349], [3, 600]])), {}


def _partitioned_samples(rng: np.random.Generator, dtype: str) -> Samples:
    """Rows so short that they are sorted: longer ones have more than one right result."""
    for (x,), _ in _distinct_samples(rng, dtype):
        if x.shape[-1]:
            yield (x, np.array([x.shape[-1] // 2, 0, x.shape[-1] - 1, 0])), {}
    yield (rng.permutation(numbered((3, 2, 5), dtype).ravel()).reshape(3, 2, 5), np.array([[1], [4], [0]])), {}


def _where_true_samples(rng: np.random.Generator, dtype: str) -> Samples:
    for shape in ((5,), (2, 3, 60), (3, 1), (2, 0), (0, 4), (300,), (64,)):
        yield (sample(rng, shape, dtype),), {}


def _sorting(name: str, dtypes: Sequence[str] = ANY_DTYPE, **rest: Parameter) -> Op:
    return Op(name, dtypes=dtypes, never_fails=True, reads_memory="all", **rest)


SORT = _sorting(
    "sort",
    infer=_infer_sort,
    reference=_sort_reference,
    vjp=_vjp,
    jvp=_jvp,
    batch_params=lambda size: {},
    samples=_distinct_samples,
    doc="the elements along the last axis in order, the smallest first, -0.0 before 0.0, NaN last",
)


def _turned(text: str, dtype: DType) -> str:
    """The text of integers of which the negative ones, a sign and a magnitude, are turned: they have an order then.
    Twice, it is what it was."""
    bits = 8 * dtype.itemsize
    return f"{text} ^ (({text} >> {bits - 1}) & {2 ** (bits - 1) - 1})"


def _word_reference(x: Array) -> Array:
    words = x.view(f"int{8 * x.itemsize}")
    most = np.iinfo(words.dtype).max
    return np.where(np.isnan(x), most, np.where(words < 0, words ^ most, words))


def _unword_reference(words: Array) -> Array:
    return np.where(words < 0, words ^ np.iinfo(words.dtype).max, words).view(f"float{8 * words.itemsize}")


WORD = Elementwise(
    "word",
    lower=lambda x: f"select(isnan({{0}}), {2 ** (8 * x.itemsize - 1) - 1}, {_turned('bitcast_{T}({0})', x)})",
    result=lambda x: f"int{8 * x.itemsize}",
    takes="f",
    reference=_word_reference,
    cost=5,
    doc="an integer as large as a float; the integers are in the order in which `sort` puts the floats",
)
UNWORD = Elementwise(
    "unword",
    lower=lambda words: f"bitcast_{{T}}({_turned('{0}', words)})",
    result=lambda words: f"float{8 * words.itemsize}",
    takes="i",
    dtypes=("int64", "int32"),
    reference=_unword_reference,
    cost=4,
    doc="the float that an integer was made of by `word`",
)
ARGSORT = _sorting(
    "argsort",
    infer=_as_places(_infer_sort),
    reference=_argsort_reference,
    batch_params=lambda size: {},
    samples=_samples,
    doc="the places of the elements along the last axis, the smallest first; equal ones in order, NaN last",
)
RANKED: Op = _sorting(
    "ranked",
    infer=_infer_ranked,
    reference=_ranked_reference,
    vjp=_vjp,
    jvp=_jvp,
    batch=lambda *given: _batched(RANKED, *given),
    samples=_ranked_samples,
    doc="`sort(x)[..., ranks]`: a vector of int64 says which elements, or one for each entry of the first axes. Those"
    " beyond an end are the first or the last",
)
ARGRANKED: Op = _sorting(
    "argranked",
    infer=_as_places(_infer_ranked),
    reference=_argranked_reference,
    batch=lambda *given: _batched(ARGRANKED, *given),
    samples=_ranked_samples,
    doc="`argsort(x)[..., ranks]`: the places of what `ranked` gives",
)
PARTITION: Op = _sorting(
    "partition",
    infer=_infer_partitioned,
    reference=_sort_reference,
    vjp=_partitioned_vjp,
    jvp=_partitioned_jvp,
    batch=lambda *given: _partitioned_batch(PARTITION, *given),
    samples=_partitioned_samples,
    doc="the elements along the last axis; those of some ranks (as those of `ranked`) are where they are in order, the"
    " smaller ones before them and the larger ones behind, in no order of their own",
)
ARGPARTITION: Op = _sorting(
    "argpartition",
    infer=_as_places(_infer_partitioned),
    reference=_argsort_reference,
    batch=lambda *given: _partitioned_batch(ARGPARTITION, *given),
    samples=_partitioned_samples,
    doc="the places of the elements in a row that is partitioned, as by `partition`",
)
WHERE_TRUE = _sorting(
    "where_true",
    dtypes=("bool",),
    infer=_as_places(_infer_sort),
    reference=_where_true_reference,
    batch_params=lambda size: {},
    samples=_where_true_samples,
    doc="the places of the elements along the last axis that are true, in order, and then -1",
)
SEARCHED: Op = Op(
    "searched",
    infer=_infer_searched,
    reference=_searched_reference,
    batch=_searched_batch,
    samples=_searched_samples,
    aligned=lambda position, operand, result, *, side: {a: a for a in range(operand.ndim - (position == 0))},
    dtypes=NUMBERS,
    never_fails=True,
    reads_memory="first",
    goes_anywhere=True,
    doc="how many elements of a sorted row come before each number, NaN last. The last axis has the rows; the first"
    ' axes of the numbers are the other axes. On the `side` "right", elements that are equal come before',
)


def exchanges(n: int) -> Iterator[tuple[int, int]]:
    """Pairs of places: if each pair is put in order, one after the other, all of `n` elements are. This is Batcher's
    merge exchange (D. E. Knuth, The Art of Computer Programming, volume 3, algorithm 5.2.2M)."""
    top = 1 << max(n - 1, 1).bit_length() - 1
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while d > 0:
            yield from ((i, i + d) for i in range(n - d) if i & p == r)
            d, q, r = q - p, q >> 1, p
        p >>= 1
