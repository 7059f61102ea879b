"""Cropping several tensors to a common size, for layers that merge them."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import scanjit as sj
from lasagne_like.utils import Shape

__all__ = ["autocrop", "autocrop_array_shapes"]

_MODES = (None, "lower", "center", "upper")


def modes_of(cropping: Sequence[str | None], ndims: Sequence[int]) -> list[str | None]:
    """The mode of each axis. Axes behind the given modes have None."""
    if not isinstance(cropping, list | tuple):
        raise ValueError(f"cropping is a list with a mode for each axis, each one of {_MODES}, got {cropping!r}")
    if len(set(ndims)) > 1:
        raise ValueError(f"cropping needs inputs with equal numbers of dimensions, got {list(ndims)}")
    if len(cropping) > ndims[0]:
        raise ValueError(f"cropping has a mode for each axis, got {len(cropping)} for inputs of {ndims[0]} dimensions")
    for mode in cropping:
        if mode not in _MODES:
            raise ValueError(f"a mode of cropping is one of {_MODES}, got {mode!r}")
    return [*cropping, *[None] * (ndims[0] - len(cropping))]


def autocrop(inputs: Sequence[Any], cropping: Sequence[str | None] | None) -> list[Any]:
    """Tensors that are cropped along some axes to the size of the smallest among them.

    Parameters
    ----------
    inputs : list of expressions
        With equal numbers of dimensions.
    cropping : sequence of "lower", "center", "upper" and None, or None
        The mode of each of the first axes. "lower" keeps the first entries, "center" the middle ones and "upper" the
        last ones. None does not crop.

    Returns
    -------
    list of expressions

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
    for axis, mode in enumerate(modes_of(cropping, [x.ndim for x in inputs])):
        sizes = [x.shape[axis] for x in inputs]
        for key, size in zip(keys, sizes, strict=True):
            key.append(slice(None) if mode is None else _window(mode, size, sizes))
    return [x[tuple(key)] for x, key in zip(inputs, keys, strict=True)]


def _window(mode: str, size: Any, sizes: Sequence[Any]) -> slice:
    """The entries of an axis of `size` entries that are kept: as many as the smallest of `sizes`."""
    least = min(sizes) if all(isinstance(n, int) for n in sizes) else reduce(sj.minimum, sizes)
    start = 0 if mode == "lower" else size - least if mode == "upper" else (size - least) // 2
    return slice(start, start + least)


def autocrop_array_shapes(input_shapes: Sequence[Shape], cropping: Sequence[str | None] | None) -> list[Shape]:
    """The shapes of the results of `autocrop`.

    Parameters
    ----------
    input_shapes : sequence of tuples of ints and None
    cropping : as for `autocrop`

    Returns
    -------
    list of tuples
        A size is None if one of the sizes that it depends on is None.

    Examples
    --------
    >>> from lasagne_like.layers import autocrop_array_shapes
    >>> autocrop_array_shapes([(1, 2, 3), (5, 4, None)], [None, "lower", "upper"])
    [(1, 2, None), (5, 2, None)]
    """
    if cropping is None:
        return list(input_shapes)
    modes = modes_of(cropping, [len(shape) for shape in input_shapes])
    columns: list[tuple[int | None, ...]] = []
    for sizes, mode in zip(zip(*input_shapes, strict=True), modes, strict=True):
        known = [size for size in sizes if size is not None]
        least = min(known) if len(known) == len(sizes) else None
        columns.append(tuple(sizes) if mode is None else (least,) * len(sizes))
    return list(zip(*columns, strict=True))
