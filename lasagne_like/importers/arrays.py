"""Named arrays of other libraries. They are taken one by one, with checks whose errors name the array."""

import difflib
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.utils import Shape, fits

__all__ = ["Arrays", "as_array"]


class Arrays:
    """A mapping of names to arrays (or to tensors of PyTorch or TensorFlow), read with checks.

    Parameters
    ----------
    given : mapping
    what : str
        The name of the mapping in errors.

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
        """The array with a name, which must have a shape (None: any size). Errors say `why` it must.

        Raises
        ------
        KeyError
            If there is no such array; the error lists similar names.
        ValueError
            If it has another shape, or holds no numbers.
        """
        if name not in self.given:
            raise KeyError(f"{self.what} have no {name!r}; there are {_listed(self.given, name)}")
        self.taken.add(name)
        return checked(self.given[name], name, shape, why)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the array of a name."""
        if name not in self.given:
            raise KeyError(f"{self.what} have no {name!r}; there are {_listed(self.given, name)}")
        return tuple(np.shape(as_array(self.given[name], name)))

    def check_all_taken(self, names: Iterable[str]) -> None:
        """Raise an error if nobody has taken some of the names."""
        left = sorted(set(names) - self.taken)
        if left:
            raise ValueError(f"{self.what} have variables that are not known: {', '.join(map(repr, left))}")


def as_array(value: Any, name: str) -> np.ndarray:
    """A tensor of any library as an array; PyTorch's parameters too.

    Parameters
    ----------
    value : array, number, or a tensor on the CPU
    name : str
        For errors.

    Examples
    --------
    >>> from lasagne_like.importers import as_array
    >>> as_array([1.0, 2.0], "b")
    array([1., 2.])
    """
    value = value.detach().cpu() if hasattr(value, "detach") else value
    if getattr(value, "dtype", None) is not None and str(value.dtype).endswith("bfloat16") and hasattr(value, "float"):
        value = value.float()  # PyTorch's, for which NumPy has no dtype
    try:
        array = np.asarray(value)
    except Exception as error:  # the __array__ of another library may raise anything
        if sj.from_signal_handler(error):
            raise
        raise ValueError(f"{name} is not an array: {error}") from None
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} has dtype {array.dtype}, should hold real numbers")
    return array


def checked(value: Any, name: str, shape: Shape, why: str = "") -> np.ndarray:
    """A value as an array that must have a shape (None: any size). If it is not finite, there is a warning."""
    array = as_array(value, name)
    if not fits(shape, array.shape):
        wanted = f"({', '.join('any' if size is None else str(size) for size in shape)}{',' * (len(shape) == 1)})"
        raise ValueError(f"{name} has shape {array.shape}, should be {wanted}{f': {why}' if why else ''}")
    if 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape}: an axis of size 0")
    bad = array.size - int(np.isfinite(array).sum())
    if bad:
        warnings.warn(f"{name} has {bad} of {array.size} values that are NaN or infinite", RuntimeWarning, stacklevel=3)
    return array


def _listed(given: Mapping[str, Any], name: str) -> str:
    """The names of a mapping, the most similar to a given one first."""
    known = sorted(map(str, given))
    alike = difflib.get_close_matches(name, known, 6, 0)
    names = alike + [other for other in known if other not in alike]
    return (", ".join(map(repr, names[:6])) + (f" and {len(names) - 6} more" if len(names) > 6 else "")) or "none"
