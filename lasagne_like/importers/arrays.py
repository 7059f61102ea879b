"""Named arrays of other libraries, with checks whose errors name the array."""

import difflib
import sys
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.shapes import fits
from lasagne_like.utils import Shape

__all__ = ["Arrays", "as_array"]


class Arrays:
    """A mapping from names to arrays (or to tensors of PyTorch or TensorFlow), which checks the arrays that are taken.

    Parameters
    ----------
    given : mapping
    what : str
        The name of the mapping in error messages.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.importers import Arrays
    >>> arrays = Arrays({"W": np.zeros((2, 3))}, "the weights")
    >>> arrays.take("W", (3, 2))
    Traceback (most recent call last):
        ...
    ValueError: W has shape (2, 3), should be (3, 2)
    """

    def __init__(self, given: Mapping[str, Any], what: str) -> None:
        if not isinstance(given, Mapping):
            raise TypeError(f"{what} must be a mapping from names to arrays, got a {type(given).__name__}")
        self.given, self.what = given, what
        self.taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def take(self, name: str, shape: Shape, why: str = "") -> np.ndarray:
        """The array `name`, after a check of its shape. None in `shape` allows any size. Errors add the reason `why`.

        Raises
        ------
        KeyError
            If there is no such array. The error lists the names, with similar ones first.
        ValueError
            If the array has another shape, or if it does not have real numbers.
        """
        array = checked(self._found(name), name, shape, why)
        self.taken.add(name)
        return array

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the array `name`."""
        return as_array(self._found(name), name).shape

    def _found(self, name: str) -> Any:
        if name not in self.given:
            raise KeyError(f"there is no {name!r} in {self.what}; there are {listed(self.given, name)}")
        return self.given[name]

    def check_all_taken(self, names: Iterable[str]) -> None:
        """Raise an error if one of `names` has not been taken."""
        left = sorted(set(names) - self.taken)
        if left:
            raise ValueError(f"this format does not have these names in {self.what}: {', '.join(map(repr, left))}")


def as_array(value: Any, name: str) -> np.ndarray:
    """A tensor of any library as an array of NumPy. It may be a parameter of PyTorch.

    Parameters
    ----------
    value : array, number, or a tensor on the CPU
    name : str
        The name of the tensor in error messages.

    Examples
    --------
    >>> from lasagne_like.importers import as_array
    >>> as_array([1.0, 2.0], "b")
    array([1., 2.])
    """
    sj.check_unmasked(value, name)
    value = value.detach().cpu() if hasattr(value, "detach") else value
    if is_bfloat16(value):  # NumPy has no such dtype
        value = value.float() if hasattr(value, "float") else value.astype("float32")
    try:
        array = np.asarray(value)
    except sj.not_from_signal_handler(Exception) as error:  # the __array__ of another library may raise anything
        raise ValueError(f"{name} is not an array: {error}") from None
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must have real numbers, got dtype {array.dtype}")
    return array


def is_bfloat16(value: Any) -> bool:
    """Whether a tensor of any library holds floats of 16 bits that have the range of a float32."""
    return str(getattr(value, "dtype", None)).endswith("bfloat16")


def checked(value: Any, name: str, shape: Shape, why: str = "") -> np.ndarray:
    """A value as an array, after a check of its shape. None in `shape` allows any size. A value that is not finite
    gives a warning."""
    array = as_array(value, name)
    if not fits(shape, array.shape):
        wanted = f"({', '.join('any' if size is None else str(size) for size in shape)}{',' * (len(shape) == 1)})"
        raise ValueError(f"{name} has shape {array.shape}, should be {wanted}{f': {why}' if why else ''}")
    if 0 in array.shape:
        raise ValueError(f"{name} must have no axis of size 0, got shape {array.shape}")
    bad = array.size - int(np.isfinite(array).sum())
    if bad:
        what = f"{name} has {bad} of {array.size} values that are NaN or infinite"
        warnings.warn(what, RuntimeWarning, stacklevel=_levels_below_the_user())
    return array


def _levels_below_the_user() -> int:
    """How many frames of this package lie below the line that the user wrote, with that of the caller."""
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == "lasagne_like":
        frame, levels = frame.f_back, levels + 1
    return levels


def listed(given: Mapping[str, Any], name: str) -> str:
    """Some of the names of a mapping, those that are most similar to `name` first, for errors."""
    known = sorted(map(str, given))
    alike = difflib.get_close_matches(name, known, 6, 0)
    names = alike + [other for other in known if other not in alike]
    return (", ".join(map(repr, names[:6])) + (f" and {len(names) - 6} more" if len(names) > 6 else "")) or "none"
