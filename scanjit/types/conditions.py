"""Conditions on dimensions that type inference cannot decide, so that a call must check them."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from scanjit import errors
from scanjit.scoped import scoped
from scanjit.types.dims import Dimension, not_negative, rank


class Condition(NamedTuple):
    """A condition that type inference cannot decide, so that a run must check it: `left == right` or `left <= right`.

    For `==`, `what` says what the two dimensions are. For `<=`, `what` is the text of the error, with `{left}` and
    `{right}` for the values. `shapes` holds the two shapes that the dimensions belong to, if the error should show
    them.
    """

    kind: str
    left: Dimension
    right: Dimension
    what: str
    error: type[errors.ScanjitError] = errors.ShapeError
    shapes: Shapes | None = None


Shapes = tuple[tuple[Dimension, ...], tuple[Dimension, ...]]
"""The shape that a tensor has, and the shape that it should have."""


def shape_text(shape: Sequence[object]) -> str:
    """A shape as Python writes it: `(n, 3)`, `(n,)`."""
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def other_shape(what: str, shapes: Sequence[Sequence[object]], where: str | None = None) -> errors.ShapeError:
    """The error for a tensor that should have another shape."""
    got, expected = map(shape_text, shapes)
    return errors.ShapeError(f"{what} has another shape than it should", got=got, expected=expected, where=where)


_collector: contextvars.ContextVar[list[Condition] | None] = contextvars.ContextVar("collector", default=None)


def collecting() -> AbstractContextManager[list[Condition]]:
    """Collect the conditions that inference relies on without being able to decide them."""
    return scoped(_collector, list[Condition]())


def equate(left: Dimension, right: Dimension, what: str, shapes: Shapes | None = None) -> Dimension:
    """Require two dimensions to be equal: an error if they cannot be, a condition to check at run time if they may be.

    Returns the more specific of the two. `what` names the dimensions in the error. With `shapes`, `what` names the
    tensor that has the first shape.
    """
    if left == right:
        return left
    if isinstance(left - right, int):  # the same symbols, another constant: never equal
        if shapes is not None:
            raise other_shape(what, shapes)
        raise errors.ShapeError(f"{what} must be equal", got=f"{left} and {right}")
    found = _collector.get()
    if found is not None:
        found.append(Condition("==", left, right, what, shapes=shapes))
    if isinstance(left, int) or isinstance(right, int):
        return left if isinstance(left, int) else right
    return min(left, right, key=rank)


def require(
    left: Dimension, right: Dimension, what: str, error: type[errors.ScanjitError] = errors.OutOfBoundsError
) -> None:
    """Require `left <= right`: an error if it cannot hold, a condition to check at run time if it may.

    `what` is the text of the error, with `{left}` and `{right}` for the values. Names that users chose are `escaped` in
    it.
    """
    if not_negative(right - left):
        return
    if not_negative(left - right - 1):
        raise error(what.format(left=left, right=right))
    found = _collector.get()
    if found is not None:
        found.append(Condition("<=", left, right, what, error))


def escaped(text: str) -> str:
    """A text with its braces doubled, to be put into a text with placeholders."""
    return text.replace("{", "{{").replace("}", "}}")


def broadcast(shapes: Sequence[tuple[Dimension, ...]], what: str = "operands") -> tuple[Dimension, ...]:
    """The shape to which shapes broadcast, as in NumPy. Only a dimension known to be 1 is stretched."""
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    ndim = max(map(len, shapes), default=0)
    result: list[Dimension] = [1] * ndim
    for shape in shapes:
        for axis, dim in enumerate(shape, start=ndim - len(shape)):
            if result[axis] == 1:
                result[axis] = dim
            elif dim != 1:
                try:
                    result[axis] = equate(result[axis], dim, f"dimension {axis} of the {what}")
                except errors.ShapeError:
                    listed = " and ".join(f"({', '.join(map(str, s))})" for s in shapes)
                    raise errors.ShapeError(
                        f"the shapes of the {what} do not broadcast",
                        got=listed,
                        expected=f"equal sizes in dimension {axis}, not {result[axis]} and {dim}",
                    ) from None
    return tuple(result)
