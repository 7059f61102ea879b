"""Layers that change the shape of their input: flatten, reshape, reorder axes, pad and slice."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.checks import check_number
from lasagne_like.layers.base import Incoming, Layer, axis_of, check_int
from lasagne_like.utils import Shape, int_types, is_expression

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
    """The product of sizes. None if one of them is None."""
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else None


def _is_integer_scalar(size: Any) -> bool:
    """Whether a value is an expression that may be a size: an integer scalar, or a size of a tensor."""
    try:
        size = sj.as_tensor(size)
    except sj.ScanjitError:
        return False
    return size.ndim == 0 and size.type.kind.integral


class FlattenLayer(Layer):
    """Flattens all axes behind the first `outdim - 1` to one.

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
        check_int(self, outdim, "outdim", 1, len(self.input_shape))
        self.outdim = outdim

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        return (*input_shape[: self.outdim - 1], _product(input_shape[self.outdim - 1 :]))

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return sj.flatten(input, self.outdim)


flatten = FlattenLayer


class ReshapeLayer(Layer):
    """Gives its input another shape. The elements are in row-major order.

    Parameters
    ----------
    incoming : Layer or tuple
    shape : tuple
        Each entry is one of: a positive int; `[i]`, the size of axis i of the input; an integer scalar expression, such
        as `x.shape[0]`; or -1, at most once: the size that follows from the number of elements.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import ReshapeLayer
    >>> ReshapeLayer((None, 100, 20), ([0], [1], 5, -1)).output_shape
    (None, 100, 5, 4)
    """

    def __init__(self, incoming: Incoming, shape: Sequence[Any], *, name: str | None = None) -> None:
        super().__init__(incoming, name=name)
        if not isinstance(shape, Iterable):
            raise ValueError(f"the shape of {self} must be a tuple with an entry for each axis, got {shape!r}")
        self.shape = tuple(shape)
        for size in self.shape:
            if isinstance(size, list):
                if len(size) != 1 or not isinstance(size[0], int_types) or size[0] < 0:
                    raise ValueError(
                        f"an entry [i] in the shape of {self} is the size of axis i of the input, with one int i >= 0; "
                        f"got {size} in {shape}"
                    )
            elif not isinstance(size, int_types):
                if not _is_integer_scalar(size):
                    raise ValueError(
                        f"an entry in the shape of {self} is an int, [i] or an integer scalar expression, got "
                        f"{size!r} in {shape}"
                    )
            elif size == 0 or size < -1:
                raise ValueError(f"a number in the shape of {self} must be positive or -1, got {size} in {shape}")
        if self._open() > 1:
            raise ValueError(f"the shape of {self} may have -1 once, got {shape}")
        self.get_output_shape_for(self.input_shape)  # if there is an error, it is raised now and not later

    def _open(self) -> int:
        return sum(isinstance(size, int_types) and size == -1 for size in self.shape)

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        source: list[int | None] = list(input_shape)  # an unknown size that an entry [i] takes over becomes 1
        target: list[int | None] = []
        output: list[int | None] = []
        for size in self.shape:
            if isinstance(size, list):
                if size[0] >= len(input_shape):
                    raise ValueError(
                        f"the shape {self.shape} of {self} has the entry {size}, but the input {input_shape} has no "
                        f"axis {size[0]}"
                    )
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
            raise ValueError(
                f"{self} cannot reshape an input of shape {input_shape} to {self.shape}: the numbers of elements differ"
            )
        missing = have // need if known else None  # type: ignore[operator]
        return tuple(missing if size == -1 else size for size in output)

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return sj.reshape(input, tuple(input.shape[s[0]] if isinstance(s, list) else s for s in self.shape))


reshape = ReshapeLayer


class DimshuffleLayer(Layer):
    """Puts the axes in another order, and adds new axes of size 1.

    Parameters
    ----------
    incoming : Layer or tuple
    pattern : tuple
        For each axis of the output: the number of an axis of the input, or "x" for a new axis. An axis of the input
        that is not in the pattern must have size 1.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import DimshuffleLayer
    >>> DimshuffleLayer((2, 3, 5, 7), (3, 2, 1, "x", 0)).output_shape
    (7, 5, 3, 1, 2)
    """

    def __init__(self, incoming: Incoming, pattern: Sequence[Any], *, name: str | None = None) -> None:
        super().__init__(incoming, name=name)
        if not isinstance(pattern, Iterable):
            raise ValueError(f"the pattern of {self} must be a tuple with an entry for each axis, got {pattern!r}")
        used = [entry for entry in pattern if not (isinstance(entry, str) and entry == "x")]
        if not all(isinstance(entry, int_types) for entry in used):
            raise ValueError(f"the pattern of {self} must have numbers of axes and 'x', got {pattern}")
        if len(set(used)) != len(used):
            raise ValueError(f"the pattern of {self} may have each axis once, got {pattern}")
        self.pattern = tuple(pattern)
        self.get_output_shape_for(self.input_shape)  # if there is an error, it is raised now and not later

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        output: list[int | None] = []
        for entry in self.pattern:
            if entry == "x":
                output.append(1)
            elif 0 <= entry < len(input_shape):
                output.append(input_shape[entry])
            else:
                raise ValueError(
                    f"the pattern {self.pattern} of {self} has axis {entry}, but the input has shape {input_shape}"
                )
        for axis, size in enumerate(input_shape):
            if axis not in self.pattern and size not in (1, None):
                raise ValueError(
                    f"the pattern {self.pattern} of {self} leaves out axis {axis} of the input {input_shape}, but only "
                    "an axis of size 1 can be left out"
                )
        return tuple(output)

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return sj.dimshuffle(input, *self.pattern)


dimshuffle = DimshuffleLayer


class PadLayer(Layer):
    """Pads its input with a value.

    Parameters
    ----------
    incoming : Layer or tuple
    width : int, sequence of ints, or sequence of pairs of ints
        The number of entries that are added to each axis behind the first `batch_ndim`. An int is the number on both
        sides of all axes. In a sequence, each axis has an int for both sides, or a pair: the numbers before and after
        the axis. Axes for which the sequence has no entry are not padded.
    val : float
        The value of the new entries.
    batch_ndim : int
        The number of axes, from the first on, that are not padded.
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
        check_number(self, val, "val", -np.inf)
        self.width, self.val, self.batch_ndim = width, val, batch_ndim
        self._widths(len(self.input_shape))  # if there is an error, it is raised now and not later

    def _widths(self, ndim: int) -> list[tuple[int, int]]:
        """For each axis, the numbers of new entries before and after it."""
        check_int(self, self.batch_ndim, "batch_ndim", 0, ndim)
        count = ndim - self.batch_ndim
        given = list(self.width) if isinstance(self.width, Iterable) else [self.width] * count
        if len(given) > count:
            raise ValueError(
                f"width of {self} has {len(given)} entries, but there are {count} axes behind the first "
                f"{self.batch_ndim}: got {self.width} for an input of {ndim} dimensions"
            )
        pairs = [tuple(w) if isinstance(w, Iterable) else (w, w) for w in given]
        if not all(len(pair) == 2 and all(isinstance(w, int_types) and int(w) >= 0 for w in pair) for pair in pairs):
            raise ValueError(f"width of {self} must have ints of 0 or more, or pairs of them, got {self.width!r}")
        return [(0, 0)] * self.batch_ndim + pairs + [(0, 0)] * (count - len(pairs))

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        widths = self._widths(len(input_shape))
        return tuple(n if n is None else n + a + b for n, (a, b) in zip(input_shape, widths, strict=True))

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return sj.pad(input, self._widths(input.ndim), constant_values=self.val)


pad = PadLayer


def _parts(indices: slice) -> list[Any]:
    """The ints or expressions that a slice consists of."""
    return [part for part in (indices.start, indices.stop, indices.step) if part is not None]


class SliceLayer(Layer):
    """Selects a part of its input along one axis.

    Parameters
    ----------
    incoming : Layer or tuple
    indices : int or slice
        An int selects one entry, and the output does not have the axis.
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
        self.slice, self.axis = indices, axis_of(self, axis, self.input_shape)
        parts = _parts(indices) if isinstance(indices, slice) else [indices]
        if not all(map(_is_integer_scalar, parts)) or (isinstance(indices, slice) and indices.step == 0):
            raise ValueError(f"indices of {self} must be an int or a slice of ints, got {indices!r}")
        size = self.input_shape[self.axis]
        if isinstance(indices, int_types) and size is not None:
            check_int(self, indices, "indices", -size, size - 1)

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        size = input_shape[self.axis]
        kept: Shape = ()
        if isinstance(self.slice, slice):
            unknown = any(map(is_expression, _parts(self.slice)))
            kept = (None if size is None or unknown else len(range(size)[self.slice]),)
        return (*input_shape[: self.axis], *kept, *input_shape[self.axis + 1 :])

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return input[(slice(None),) * self.axis + (self.slice,)]
