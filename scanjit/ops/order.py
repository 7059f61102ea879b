"""The elements in order along the last axis, `sort`, and their places, `argsort`. All that sorts is made of these."""

from collections.abc import Sequence

import numpy as np

from scanjit import errors
from scanjit.ir import Node, Op
from scanjit.kinds import kind_of
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.samples import ANY_DTYPE, numbered, sample
from scanjit.ops.shape import IOTA
from scanjit.ops.stretch import zeros_like
from scanjit.ops.view import along
from scanjit.signatures import Array, Samples
from scanjit.types import Dimension, Type


def _check(x: Type) -> None:
    if not x.ndim:
        raise errors.ShapeError("a scalar has no order", got=x, expected="a tensor with an axis to sort along")


def _infer_sort(x: Type) -> Type:
    _check(x)
    return x


def _infer_argsort(x: Type) -> Type:
    _check(x)
    return Type(np.dtype("int64"), x.shape)


def _argsort_reference(x: Array) -> Array:
    """NumPy's: stable, with NaN last."""
    return np.argsort(x, axis=-1, kind="stable")


def _sort_reference(x: Array) -> Array:
    """NumPy's, with -0.0 before 0.0."""
    if not np.issubdtype(x.dtype, np.floating):  # exports copy this source
        return np.sort(x, axis=-1)
    return np.take_along_axis(x, np.lexsort((~np.signbit(x), x)), -1)


def entries(rows: Node, places: Node) -> Node:
    """The elements of rows at places that differ between rows."""
    return GATHER(rows, *_before(rows), places, axis=0)


def _before(rows: Node) -> list[Node]:
    """The indices of all axes but the last."""
    return [along(IOTA(length=n), a, rows.ndim) for a, n in enumerate(rows.type.shape[:-1])]


def _sort_vjp(g: Node, y: Node, x: Node) -> tuple[Node]:
    return (SCATTER(zeros_like(x), g, *_before(x), ARGSORT(x), axis=0, add=True),)


def _sort_jvp(tangents: Sequence[Node | None], y: Node, x: Node) -> Node | None:
    (tangent,) = tangents
    return None if tangent is None else entries(tangent, ARGSORT(x))


def _sort_batch(args: Sequence[Node], batched: Sequence[bool], size: Dimension) -> tuple[Node, bool]:
    return SORT(*args), True


def _argsort_batch(args: Sequence[Node], batched: Sequence[bool], size: Dimension) -> tuple[Node, bool]:
    return ARGSORT(*args), True


def _samples(rng: np.random.Generator, dtype: str) -> Samples:
    for shape in ((5,), (2, 3, 60), (3, 1), (2, 0), (0, 4), (300,)):
        x = sample(rng, shape, dtype)
        if kind_of(x.dtype).floating and x.size > 4:
            x.flat[[1, 3]], x.flat[2], x.flat[4] = np.nan, -0.0, 0.0
        yield (x,), {}


def _apart(rng: np.random.Generator, dtype: str) -> Samples:
    """Without equal elements, between which there is no slope."""
    for shape in ((5,), (2, 3, 20), (3, 1), (2, 0), (0, 4), (40, 3)):
        yield (rng.permutation(numbered(shape, dtype).ravel()).reshape(shape),), {}


SORT: Op = Op(
    "sort",
    infer=_infer_sort,
    reference=_sort_reference,
    vjp=_sort_vjp,
    jvp=_sort_jvp,
    batch=_sort_batch,
    samples=_apart,
    dtypes=ANY_DTYPE,
    never_fails=True,
    reads_memory="all",
    doc="the elements along the last axis in order, the smallest first, -0.0 before 0.0, NaN last",
)
ARGSORT: Op = Op(
    "argsort",
    infer=_infer_argsort,
    reference=_argsort_reference,
    batch=_argsort_batch,
    samples=_samples,
    dtypes=ANY_DTYPE,
    never_fails=True,
    reads_memory="all",
    doc="the places of the elements along the last axis, the smallest first; equal ones in order, NaN last",
)
