"""Functions for exported modules. Each module gets copies of those that it uses, so they may use only NumPy and each
other."""

import math
from typing import Any

import numpy as np


def argument(value: Any, dtype: Any, shape: Any, name: str) -> np.ndarray:
    """A value as an array of a dtype. Numbers and lists take on the dtype. Arrays are converted if no value can be
    lost.

    `shape` holds the known sizes of the axes, and None for the others.
    """
    weak = isinstance(value, (bool, int, float, complex, list, tuple))
    array = np.asarray(value)
    if np.ma.is_masked(value):
        raise ValueError(f"{name} has masked entries, which have no value: give them one, such as x.filled(np.nan)")
    if array.dtype.kind not in "biufc" and array.dtype != dtype:
        raise TypeError(f"{name} must be an array of {np.dtype(dtype)}, got {array.dtype}")
    lossless = np.can_cast(array.dtype, dtype, "same_kind" if weak else "safe")
    if not lossless and not (array.dtype.kind in "iu" and np.dtype(dtype).kind in "fc"):
        raise TypeError(f"{name} must be an array of {np.dtype(dtype)}, got {array.dtype}: convert it with astype")
    if len(shape) != array.ndim or any(a is not None and a != b for a, b in zip(shape, array.shape)):  # noqa: B905
        raise ValueError(f"{name} must have the shape {shape} (None: any size), got {array.shape}")
    return array.astype(dtype)


def stored(z: np.ndarray) -> np.ndarray:
    """The array of floats that holds complex numbers: its last axis has the real and the imaginary parts."""
    return np.array(z, order="C").reshape((*z.shape, 1)).view(z.real.dtype)


def complex_numbers(x: np.ndarray) -> np.ndarray:
    """The complex numbers that an array of floats holds."""
    return np.array(x, order="C").view(np.result_type(x.dtype, np.complex64))[..., 0]


def equal(left: int, right: int, what: str) -> None:
    """Raise an error if two sizes differ."""
    if left != right:
        raise ValueError(f"{what} must be equal, got {left} and {right}")


def at_most(left: int, right: int, what: str) -> None:
    """Raise an error if size `left` is more than size `right`."""
    if left > right:
        raise ValueError(what.format(left=left, right=right))


def quotient(a: int, b: int) -> int:
    """The quotient of sizes, rounded down; 0 for a division by 0."""
    return a // b if b else 0


def remainder(a: int, b: int) -> int:
    """The remainder of the quotient of sizes that is rounded down; 0 for a division by 0."""
    return a % b if b else 0


def root(a: int) -> int:
    """The square root of a size, rounded up."""
    return math.isqrt(a - 1) + 1 if a > 0 else 0


def entries(x: np.ndarray, start: Any, length: Any, step: Any) -> Any:
    """The index of `length` entries of each axis from `start`, `step` apart; an error if they leave the array."""
    places = []
    for axis, (first, count, apart) in enumerate(zip(start, length, step)):  # noqa: B905
        last = first + apart * (count - 1)
        size = x.shape[axis]
        if count < 0 or (count and not (0 <= first < size and 0 <= last < size)):
            raise IndexError(f"{count} entries from {first}, {apart} apart, leave axis {axis} with size {size}")
        places.append(first + apart * np.arange(count))
    return np.ix_(*places)


def window(x: np.ndarray, start: Any, length: Any, step: Any) -> np.ndarray:
    """`length` entries of each axis from `start`, `step` apart; an error if they leave the array."""
    return np.asarray(x[entries(x, start, length, step)])


def set_window(x: np.ndarray, value: np.ndarray, start: Any, step: Any) -> np.ndarray:
    """A copy of `x` with the entries from `start`, `step` apart, replaced."""
    x, value = np.array(x), np.asarray(value)
    x[entries(x, start, value.shape, step)] = value
    return x


def indices(x: np.ndarray, index: Any, axis: int) -> Any:
    """The index of `x` for integer arrays that index its axes from `axis` on; an error if one is out of bounds."""
    arrays = [np.asarray(one) for one in index]
    for k, one in enumerate(arrays):
        size = x.shape[axis + k]
        if one.min() < 0 or one.max() >= size:
            bad = one[(one < 0) | (one >= size)].flat[0]
            raise IndexError(f"index {bad} is out of bounds for axis {axis + k} with size {size}")
    return (slice(None),) * axis + tuple(index)


def gather(x: np.ndarray, index: Any, axis: int) -> np.ndarray:
    """The entries of `x` at integer arrays that index its axes from `axis` on. No error if there are none."""
    shape = (*x.shape[:axis], *np.broadcast_shapes(*map(np.shape, index)), *x.shape[axis + len(index) :])
    return x[indices(x, index, axis)] if 0 not in shape else np.empty(shape, x.dtype)


def scatter(x: np.ndarray, value: np.ndarray, index: Any, axis: int, add: bool) -> np.ndarray:
    """A copy of `x` with a value added to (or put in place of) entries: see `gather`."""
    x = np.array(x)
    if not np.size(value):
        return x
    place = indices(x, index, axis)
    if add:
        np.add.at(x, place, value)
    else:
        x[place] = value
    return x


def make_sure(x: np.ndarray, condition: np.ndarray, message: str) -> np.ndarray:
    """`x`; an error with the message unless all elements of `condition` are True."""
    if not np.all(condition):
        raise AssertionError(message or "an assertion does not hold")
    return x


def printed(x: np.ndarray, message: str) -> np.ndarray:
    """Print `x` behind the message. Returns `x`."""
    print(message, x)
    return x
