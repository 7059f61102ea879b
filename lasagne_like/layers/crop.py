"""Cropping several tensors to a common size, for layers that merge them."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import scanjit as sj
from lasagne_like.utils import Shape

__all__ = ["autocrop", "autocrop_array_shapes"]

_MODES = (None, "lower", "center", "upper")


def _modes(cropping: Sequence[str | None], ndims: Sequence[int]) -> list[str | None]:
    """A mode for each axis."""
    if len(set(ndims)) > 1:
        raise ValueError(f"what is cropped must have the same number of dimensions, got {list(ndims)}")
    for mode in cropping:
        if mode not in _MODES:
            raise ValueError(f"there is no crop mode {mode!r}, expected one of {_MODES}")
    return [*cropping, *[None] * (ndims[0] - len(cropping))]


def autocrop(inputs: Sequence[Any], cropping: Sequence[str | None] | None) -> list[Any]:
    """Tensors cropped, axis by axis, to the smallest among them.

    Parameters
    ----------
    inputs : list of expressions
    cropping : sequence of modes, or None for none
        One for each of the first axes: None leaves an axis as it is; "lower" keeps its first, "upper" its last and
        "center" its middle entries.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.layers import autocrop
    >>> [x.shape for x in autocrop([sj.tensor((3, 8)), sj.tensor((3, 5))], [None, "center"])]
    [(3, 5), (3, 5)]
    """
    if cropping is None:
        return list(inputs)
    keys: list[list[slice]] = [[] for _ in inputs]
    for axis, mode in enumerate(_modes(cropping, [x.ndim for x in inputs])):
        sizes = [x.shape[axis] for x in inputs]
        for key, size in zip(keys, sizes, strict=True):
            key.append(slice(None) if mode is None else _window(mode, size, sizes))
    return [x[tuple(key)] for x, key in zip(inputs, keys, strict=True)]


def _window(mode: str, size: Any, sizes: Sequence[Any]) -> slice:
    """The part of an axis that stays: it is as long as the smallest of several sizes."""
    least = min(sizes) if all(isinstance(n, int) for n in sizes) else reduce(sj.minimum, sizes)
    start = 0 if mode == "lower" else size - least if mode == "upper" else (size - least) // 2
    return slice(start, start + least)


def autocrop_array_shapes(input_shapes: Sequence[Shape], cropping: Sequence[str | None] | None) -> list[Shape]:
    """The shapes that `autocrop` gives.

    Parameters
    ----------
    input_shapes : sequence of tuples
    cropping : as for `autocrop`

    Examples
    --------
    >>> from lasagne_like.layers import autocrop_array_shapes
    >>> autocrop_array_shapes([(1, 2, 3), (5, 4, None)], [None, "lower", "upper"])
    [(1, 2, None), (5, 2, None)]
    """
    if cropping is None:
        return list(input_shapes)
    modes = _modes(cropping, [len(shape) for shape in input_shapes])
    columns: list[tuple[int | None, ...]] = []
    for sizes, mode in zip(zip(*input_shapes, strict=True), modes, strict=True):
        known = [size for size in sizes if size is not None]
        least = min(known) if len(known) == len(sizes) else None
        columns.append(tuple(sizes) if mode is None else (least,) * len(sizes))
    return list(zip(*columns, strict=True))
