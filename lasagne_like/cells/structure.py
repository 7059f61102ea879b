"""Structures: tuples, lists, dicts, named tuples and dataclasses of tensors or of shapes, nested in any way.

A plain tuple of ints and None is a shape, which is a leaf. So `(3,)` is one shape, and `((3,), (4,))` is a tuple of two
shapes. None is a structure without leaves, such as the state of a cell that has no state.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from scanjit import ShapeError


def is_shape(value: Any) -> bool:
    """Whether a value is one shape, and not a structure of shapes.

    Examples
    --------
    >>> is_shape((3, None)), is_shape(((3,), (4,)))
    (True, False)
    """
    return type(value) is tuple and all(size is None or isinstance(size, int | np.integer) for size in value)


def flatten(value: Any) -> list[Any]:
    """The leaves of a structure, in order.

    Examples
    --------
    >>> flatten({"h": (3,), "c": ((4,), (5,))})
    [(3,), (4,), (5,)]
    """
    return [leaf for _, leaf in _walk(value, "")]


def paths(value: Any) -> list[str]:
    """The path of each leaf of a structure: names and numbers, with dots between them. The path of a single leaf is "".

    Examples
    --------
    >>> paths({"h": (3,), "c": ((4,), (5,))})
    ['h', 'c.0', 'c.1']
    """
    return [path for path, _ in _walk(value, "")]


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    children = children_of(value)
    if children is None:
        yield path, value
        return
    for name, child in children:
        yield from _walk(child, f"{path}.{name}" if path else str(name))


def children_of(value: Any) -> list[tuple[Any, Any]] | None:
    """The children of a structure, with their names. None for a leaf."""
    if value is None:
        return []
    if is_shape(value):
        return None
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, tuple | list):
        return list(zip(getattr(value, "_fields", range(len(value))), value, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return None


def unflatten(like: Any, leaves: Sequence[Any]) -> Any:
    """The structure of `like` with other leaves.

    Examples
    --------
    >>> unflatten({"h": (3,), "c": ((4,), (5,))}, [1, 2, 3])
    {'h': 1, 'c': (2, 3)}
    """
    remaining = iter(leaves)
    result = _built(like, remaining)
    if next(remaining, None) is not None:
        raise ShapeError("more values than the structure has leaves", got=len(leaves), expected=len(flatten(like)))
    return result


def _built(like: Any, leaves: Iterator[Any]) -> Any:
    children = children_of(like)
    if children is None:
        return next(leaves)
    if like is None:
        return None
    values = [_built(child, leaves) for _, child in children]
    if isinstance(like, dict):
        return dict(zip(like, values, strict=True))
    if hasattr(like, "_fields"):
        return type(like)(*values)
    if isinstance(like, tuple | list):
        return type(like)(values)
    return type(like)(**dict(zip((name for name, _ in children), values, strict=True)))


def transform(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """Apply a function to the leaves of equal structures.

    Examples
    --------
    >>> transform(lambda shape: len(shape), {"h": (3,), "c": (4, 5)})
    {'h': 1, 'c': 2}
    """
    lists = [flatten(first), *(matched(first, other, "structure") for other in others)]
    return unflatten(first, [function(*leaves) for leaves in zip(*lists, strict=True)])


def over_rows(function: Callable[[Any], Any], x: Any, axes: int) -> Any:
    """A function of rows (rows, ...), applied to a tensor with any number of leading axes before its last `axes`.

    Examples
    --------
    >>> import scanjit as sj
    >>> over_rows(lambda rows: rows.sum(1), sj.tensor((2, 3, 4)), 1).shape
    (2, 3)
    """
    leading = x.shape[: x.ndim - axes]
    if len(leading) == 1:
        return function(x)
    found = function(x.reshape((math.prod(leading), *x.shape[len(leading) :])))
    return found.reshape((*leading, *found.shape[1:]))


def matched(like: Any, value: Any, what: str) -> list[Any]:
    """The leaves of a value that must have the structure of `like`.

    Raises
    ------
    ShapeError
        If the value has another structure.
    """
    wanted, found = paths(like), paths(value)
    if wanted != found:
        raise ShapeError(
            f"the {what} does not have the structure that is needed",
            got=f"{len(found)} tensors: {', '.join(path or '(one tensor)' for path in found)}",
            expected=f"{len(wanted)} tensors: {', '.join(path or '(one tensor)' for path in wanted)}",
        )
    return flatten(value)
