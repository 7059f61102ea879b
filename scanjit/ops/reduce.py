"""Reductions over axes. `mean`, `var`, `logsumexp`... are compositions of these, in `scanjit.tensor`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from scanjit import errors
from scanjit.ir import Node, Op
from scanjit.ops.shape import DIMSHUFFLE, broadcast_to
from scanjit.types import Dimension, Type


class Reduction(Op):
    """An associative reduction over `axes` (sorted, distinct, not negative; they are dropped).

    Parameters
    ----------
    combine : the expression in generated code that joins two partial results `{0}`, `{1}`.
    initial : the value of a reduction over nothing, as a function of the dtype; None where there is none (an error).
    horizontal : the SIMD function that reduces the lanes of one vector.
    """

    kind: ClassVar[str] = "reduction"

    def __init__(
        self,
        name: str,
        *,
        combine: str,
        horizontal: str,
        initial: Callable[[np.dtype], Any],
        function: Callable[..., Any],
        **rest: Any,
    ) -> None:
        def infer(x: Type, *, axes: tuple[int, ...]) -> Type:
            if list(axes) != sorted(set(axes)) or any(not 0 <= a < x.ndim for a in axes):
                raise errors.ShapeError(f"the axes of {name} must exist", got=axes, expected=f"axes of {x}")
            return x.with_shape([dim for a, dim in enumerate(x.shape) if a not in axes])

        def batch(args: Sequence[Node], batched: Sequence[bool], size: Dimension, *, axes: tuple[int, ...]):
            return self(args[0], axes=tuple(a + 1 for a in axes)), True

        super().__init__(name, infer=infer, batch=batch, reference=lambda x, *, axes: function(x, axis=axes), **rest)
        self.combine, self.horizontal, self.initial = combine, horizontal, initial


def expand(x: Node, axes: Sequence[int]) -> Node:
    """`x` with axes of size 1 where a reduction dropped `axes`."""
    kept = iter(range(x.ndim))
    return DIMSHUFFLE(x, order=tuple(None if a in axes else next(kept) for a in range(x.ndim + len(axes))))


SUM = Reduction(
    "sum",
    combine="{0} + {1}",
    horizontal="reduce_add",
    initial=lambda dtype: 0,
    function=lambda x, axis: np.add.reduce(x, axis=axis, dtype=x.dtype),
    vjp=lambda g, y, x, *, axes: (broadcast_to(expand(g, axes), x.type.shape),),
    jvp=lambda tangents, y, x, *, axes: None if tangents[0] is None else SUM(tangents[0], axes=axes),
    doc="the sum over axes, in the dtype of the operand",
)
