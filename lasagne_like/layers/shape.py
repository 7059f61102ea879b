"""Layers that rearrange their input."""

import math
from collections.abc import Sequence
from typing import Any

import scanjit as sj
from lasagne_like.layers.base import Incoming, Layer
from lasagne_like.utils import Shape, int_types

__all__ = [
    "DimshuffleLayer",
    "FlattenLayer",
    "PadLayer",
    "ReshapeLayer",
    "SliceLayer",
    "dimshuffle",
    "flatten",
    "pad",
    "reshape",
]


def _product(sizes: Sequence[int | None]) -> int | None:
    """The product of sizes, None if one is not known."""
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else None


def _is_integer_scalar(size: Any) -> bool:
    """Whether a value is an expression that can be a size: an integer scalar, or a size of a tensor."""
    try:
        size = sj.as_tensor(size)
    except sj.ScanjitError:
        return False
    return size.ndim == 0 and size.type.kind.integral


class FlattenLayer(Layer):
    """The first `outdim - 1` axes as they are, and all others as one.

    Parameters
    ----------
    incoming : Layer or tuple
    outdim : int
        The number of axes of the output.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import FlattenLayer
    >>> FlattenLayer((None, 3, 4)).output_shape, FlattenLayer((2, 3, 4), outdim=1).output_shape
    ((None, 12), (24,))
    """

    def __init__(self, incoming: Incoming, outdim: int = 2, *, name: str | None = None) -> None:
        super().__init__(incoming, name=name)
        if not 1 <= outdim <= len(self.input_shape):
            raise ValueError(
                f"outdim must be between 1 and the dimensions of the input {self.input_shape}, got {outdim}"
            )
        self.outdim = outdim

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        return (*input_shape[: self.outdim - 1], _product(input_shape[self.outdim - 1 :]))

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return sj.flatten(input, self.outdim)


flatten = FlattenLayer


class ReshapeLayer(Layer):
    """The same elements, in row-major order, in another shape.

    Parameters
    ----------
    incoming : Layer or tuple
    shape : tuple
        Each entry is a size; `[i]` for the size of axis i of the input; -1, at most once, for the size that follows
        from the number of elements; or an integer scalar expression, such as a size of another expression
        (`x.shape[0]`).
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import ReshapeLayer
    >>> ReshapeLayer((None, 100, 20), ([0], [1], 5, -1)).output_shape
    (None, 100, 5, 4)
    """

    def __init__(self, incoming: Incoming, shape: Sequence[Any], *, name: str | None = None) -> None:
        super().__init__(incoming, name=name)
        self.shape = tuple(shape)
        for size in self.shape:
            if isinstance(size, list):
                if len(size) != 1 or not isinstance(size[0], int_types) or size[0] < 0:
                    raise ValueError(f"a reference to an axis of the input is [i] with i >= 0, got {size} in {shape}")
            elif not isinstance(size, int_types):
                if not _is_integer_scalar(size):
                    raise ValueError(f"sizes are ints, [i] or integer scalars, got {size!r} in {shape}")
            elif size == 0 or size < -1:
                raise ValueError(f"sizes must be positive or -1, got {size} in {shape}")
        if self._open() > 1:
            raise ValueError(f"only one size can be -1, got {shape}")
        self.get_output_shape_for(self.input_shape)  # raises errors now rather than later

    def _open(self) -> int:
        return sum(isinstance(size, int_types) and size == -1 for size in self.shape)

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        source: list[int | None] = list(input_shape)  # without the unknown sizes that a reference takes over
        target: list[int | None] = []
        output: list[int | None] = []
        for size in self.shape:
            if isinstance(size, list):
                if size[0] >= len(input_shape):
                    raise ValueError(f"shape {self.shape} refers to axis {size[0]} of an input of shape {input_shape}")
                own = input_shape[size[0]]
                output.append(own)
                if own is None and source[size[0]] is None:
                    source[size[0]] = 1
                else:
                    target.append(own)
            elif isinstance(size, int_types):
                output.append(int(size))
                target += [int(size)] if size != -1 else []
            else:
                output.append(None)
                target.append(None)
        have, need = _product(source), _product(target)
        known = have is not None and need is not None
        if known and (have % need if self._open() else have != need):  # type: ignore[operator]
            raise ValueError(f"an input of shape {input_shape} cannot be reshaped to {self.shape}: the sizes differ")
        missing = have // need if known else None  # type: ignore[operator]
        return tuple(missing if size == -1 else size for size in output)

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return sj.reshape(input, tuple(input.shape[s[0]] if isinstance(s, list) else s for s in self.shape))


reshape = ReshapeLayer


class DimshuffleLayer(Layer):
    """The axes in another order, with new ones of size 1.

    Parameters
    ----------
    incoming : Layer or tuple
    pattern : tuple
        For each axis of the output the number of an axis of the input, or "x" for a new one. Only axes of size 1 can
        be left out.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import DimshuffleLayer
    >>> DimshuffleLayer((2, 3, 5, 7), (3, 2, 1, "x", 0)).output_shape
    (7, 5, 3, 1, 2)
    """

    def __init__(self, incoming: Incoming, pattern: Sequence[Any], *, name: str | None = None) -> None:
        super().__init__(incoming, name=name)
        used = [entry for entry in pattern if not (isinstance(entry, str) and entry == "x")]
        if not all(isinstance(entry, int_types) for entry in used):
            raise ValueError(f"a pattern has numbers of axes and 'x', got {pattern}")
        if len(set(used)) != len(used):
            raise ValueError(f"a pattern names each axis once, got {pattern}")
        self.pattern = tuple(pattern)
        self.get_output_shape_for(self.input_shape)  # raises errors now rather than later

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        output: list[int | None] = []
        for entry in self.pattern:
            if entry == "x":
                output.append(1)
            elif 0 <= entry < len(input_shape):
                output.append(input_shape[entry])
            else:
                raise ValueError(f"pattern {self.pattern} has axis {entry}, but the input has shape {input_shape}")
        for axis, size in enumerate(input_shape):
            if axis not in self.pattern and size not in (1, None):
                raise ValueError(
                    f"pattern {self.pattern} leaves out axis {axis} of an input of shape {input_shape}, which is not "
                    "of size 1"
                )
        return tuple(output)

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return sj.dimshuffle(input, *self.pattern)


dimshuffle = DimshuffleLayer


class PadLayer(Layer):
    """Pads its input with one value along all but the first axes.

    Parameters
    ----------
    incoming : Layer or tuple
    width : int, sequence of ints, or sequence of pairs of ints
        How many on both sides of every axis, on both sides of each axis, or before and after each axis.
    val : float
    batch_ndim : int
        How many axes are not padded, from the first on.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import PadLayer
    >>> PadLayer((None, 3, 8), [(2, 0)]).output_shape
    (None, 3, 10)
    """

    def __init__(
        self, incoming: Incoming, width: Any, val: Any = 0, batch_ndim: int = 2, *, name: str | None = None
    ) -> None:
        super().__init__(incoming, name=name)
        self.width, self.val, self.batch_ndim = width, val, batch_ndim
        self._widths(len(self.input_shape))  # raises errors now rather than later

    def _widths(self, ndim: int) -> list[tuple[int, int]]:
        """The numbers of entries before and after each axis."""
        count = ndim - self.batch_ndim
        given = [self.width] * count if isinstance(self.width, int_types) else list(self.width)
        if len(given) > count:
            raise ValueError(f"{len(given)} widths for {count} axes behind the first {self.batch_ndim}: {self.width}")
        pairs = [(w, w) if isinstance(w, int_types) else tuple(w) for w in given]
        return [(0, 0)] * self.batch_ndim + pairs + [(0, 0)] * (count - len(pairs))

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        widths = self._widths(len(input_shape))
        return tuple(n if n is None else n + a + b for n, (a, b) in zip(input_shape, widths, strict=True))

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return sj.pad(input, self._widths(input.ndim), constant_values=self.val)


pad = PadLayer


class SliceLayer(Layer):
    """Part of its input along one axis.

    Parameters
    ----------
    incoming : Layer or tuple
    indices : int or slice
        An int takes one entry and drops the axis.
    axis : int
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import SliceLayer
    >>> SliceLayer((2, 3, 4), 0, axis=1).output_shape, SliceLayer((2, 3, 4), slice(-2, None)).output_shape
    ((2, 4), (2, 3, 2))
    """

    def __init__(self, incoming: Incoming, indices: Any, axis: int = -1, *, name: str | None = None) -> None:
        super().__init__(incoming, name=name)
        self.slice, self.axis = indices, axis
        if not -len(self.input_shape) <= axis < len(self.input_shape):
            raise ValueError(f"there is no axis {axis} in an input of shape {self.input_shape}")

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        axis = self.axis % len(input_shape)
        size = input_shape[axis]
        kept: Shape = ()
        if isinstance(self.slice, slice):
            kept = (None if size is None else len(range(*self.slice.indices(size))),)
        return (*input_shape[:axis], *kept, *input_shape[axis + 1 :])

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return input[(slice(None),) * (self.axis % input.ndim) + (self.slice,)]
