"""Facts about values: `expect` states bounds on sizes, `specify_shape` states sizes, and `via` states that two
computations give the same value."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, Op
from scanjit.ops.view import View
from scanjit.signatures import Samples
from scanjit.types import Dimension, Type

Bound = tuple[Dimension, Dimension, str]
"""`(left, right, text)`: `left <= right` must hold; the text is the error, with `{left}` and `{right}` in it."""

NEGATIVE = "n_steps is {right}: a scan cannot run a negative number of steps"
"""The error for `0 <= length` of a scan."""


_ERRORS: Mapping[str, type[errors.ScanjitError]] = {"scan": errors.ScanError, "shape": errors.ShapeError}
"""Maps the word that a node has for it to the class of the error if a bound does not hold."""


def _infer(x: Type, *, bounds: tuple[Bound, ...], error: str = "scan") -> Type:
    for left, right, text in bounds:
        types.require(left, right, text, _ERRORS[error])
    return x


def _samples(rng: np.random.Generator, dtype: str) -> Samples:
    yield (rng.normal(size=(3, 2)).astype(dtype),), {"bounds": ((2, 3, "there are {right} rows, {left} are needed"),)}


EXPECT = View(
    "expect",
    infer=_infer,
    reference=lambda x, **params: x,
    access=lambda shape, **params: [(0, ((axis, 1),)) for axis in range(len(shape))],
    vjp=lambda g, y, x, **params: (g,),
    jvp=lambda tangents, y, x, **params: tangents[0],
    batch_params=lambda size, **params: params,
    samples=_samples,
    doc="the operand itself; the inference of its type states bounds on sizes, with the words of the error",
)


def expect(x: Node, *bounds: Bound, error: str = "scan") -> Node:
    """`x` with the bounds that are not certain to hold; `x` itself if all are certain."""
    kept = tuple(bound for bound in bounds if not types.not_negative(bound[1] - bound[0]))
    return EXPECT(x, bounds=kept, error=error) if kept else x


# ---- specify_shape ---------------------------------------------------------------------------------------------------


def _specify_infer(x: Type, *, shape: tuple[Dimension, ...], what: str) -> Type:
    if x.ndim != len(shape):
        raise types.other_shape(what, (x.shape, shape))
    for found, wanted in zip(x.shape, shape, strict=True):
        types.equate(found, wanted, what, shapes=(x.shape, shape))
    return x.with_shape(shape)


SPECIFY_SHAPE = View(
    "specify_shape",
    infer=_specify_infer,
    reference=lambda x, *, shape, what: x,
    access=lambda given, *, shape, what: [(0, ((axis, 1),)) for axis in range(len(given))],
    vjp=lambda g, y, x, *, shape, what: (g,),
    batch_params=lambda size, *, shape, what: {"shape": (size, *shape), "what": what},
    samples=lambda rng, dtype: [((rng.normal(size=(3, 1)).astype(dtype),), {"shape": (3, 1), "what": "x"})],
    doc="the operand itself, which must have this shape; `what` names it in the error",
)


# ---- via -------------------------------------------------------------------------------------------------------------


def _via_infer(x: Type, y: Type) -> Type:
    types.agree(x, y, "two computations of one value")
    return x


VIA = Op(
    "via",
    infer=_via_infer,
    reference=lambda x, y: x,
    vjp=lambda g, out, x, y: (None, g),
    batch_params=lambda size: {},
    by_parts=True,
    has_constant_slope=True,
    doc="the first operand; the second is another computation of the same value, which is the one to differentiate",
)
