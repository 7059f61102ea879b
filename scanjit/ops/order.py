"""The order of the elements along the last axis: `argsort`. All that sorts is made of it, and has its derivatives from
the `gather` that follows."""

from collections.abc import Sequence

import numpy as np

from scanjit import errors
from scanjit.ir import Node, Op
from scanjit.kinds import kind_of
from scanjit.ops.samples import ANY_DTYPE, sample
from scanjit.signatures import Array, Samples
from scanjit.types import Dimension, Type


def _infer(x: Type) -> Type:
    if not x.ndim:
        raise errors.ShapeError("a scalar has no order", got=x, expected="a tensor with an axis to sort along")
    return Type(np.dtype("int64"), x.shape)


def _argsort_reference(x: Array) -> Array:
    """NumPy's: stable, with NaN last."""
    return np.argsort(x, axis=-1, kind="stable")


def _batch(args: Sequence[Node], batched: Sequence[bool], size: Dimension) -> tuple[Node, bool]:
    return ARGSORT(*args), True


def _samples(rng: np.random.Generator, dtype: str) -> Samples:
    for shape in ((5,), (2, 3, 60), (3, 1), (2, 0), (0, 4), (300,)):
        x = sample(rng, shape, dtype)
        if kind_of(x.dtype).floating and x.size > 4:
            x.flat[[1, 3]], x.flat[2], x.flat[4] = np.nan, -0.0, 0.0
        yield (x,), {}


ARGSORT: Op = Op(
    "argsort",
    infer=_infer,
    reference=_argsort_reference,
    batch=_batch,
    samples=_samples,
    dtypes=ANY_DTYPE,
    never_fails=True,
    reads_memory="all",
    doc="the places of the elements along the last axis, the smallest first; equal ones in order, NaN last",
)
