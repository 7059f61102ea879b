"""The class of ops that reduce axes: `sum` in `stretch`, `max` and others in `reduce`, `prod` in `prod`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, Op
from scanjit.ops.samples import NUMBERS, sample
from scanjit.signatures import DType, OpFunction, Parameter, Samples
from scanjit.types import Type


class Reduction(Op):
    """An associative reduction over `axes` (sorted, distinct, not negative; they are dropped).

    Parameters
    ----------
    join : a function that joins two partial results, as nodes.
    combine : the same as an expression in generated code, with `{0}` and `{1}` for the two.
    horizontal : the SIMD function that reduces the lanes of one vector; or a function of the dtype.
    initial : the neutral value (0 for a sum), as a function of the dtype.
    empty : whether a reduction over no elements gives `initial`; if not, it is an error.

    Attributes
    ----------
    keeps_zero : whether the result is zero if all reduced elements are zero.
    """

    never_fails = goes_anywhere = True

    def __init__(
        self,
        name: str,
        *,
        join: Callable[[Node, Node], Node],
        combine: str,
        horizontal: str,
        initial: Callable[[DType], float],
        function: OpFunction[Parameter],
        empty: bool = True,
        **rest: Parameter,
    ) -> None:
        def infer(x: Type, *, axes: tuple[int, ...]) -> Type:
            if list(axes) != sorted(set(axes)) or any(not 0 <= a < x.ndim for a in axes):
                raise errors.ShapeError(f"the axes of {name} must exist", got=axes, expected=f"axes of {x}")
            for axis in () if empty else axes:
                need_some(x, axis, name)
            return x.with_shape([dim for a, dim in enumerate(x.shape) if a not in axes])

        def samples(rng: np.random.Generator, dtype: str) -> Samples:
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
            batch_params=lambda size, *, axes: {"axes": tuple(a + 1 for a in axes)},
            samples=samples,
            aligned=aligned,
            reference=lambda x, *, axes: np.asarray(function(x, axis=axes)),
            **rest,
        )
        self.join, self.combine, self.horizontal, self.initial, self.empty = join, combine, horizontal, initial, empty
        self.keeps_zero = not empty or not initial(np.dtype(self.dtypes[0]))


def need_some(x: Type, axis: int, name: str) -> None:
    """Require an element to reduce. If it is not certain that there is one, this is checked at run time."""
    types.require(
        1, x.shape[axis], f"{name} needs at least {{left}} element along axis {axis}, not {{right}}", errors.ShapeError
    )
