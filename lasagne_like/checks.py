"""Checks of arguments."""

import numbers
from collections.abc import Collection
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.utils import as_expression, int_types, is_expression


def is_count(value: Any) -> bool:
    """Whether a value is a whole number of at least 1.

    Examples
    --------
    >>> from lasagne_like.checks import is_count
    >>> is_count(3), is_count(0), is_count(2.0), is_count(True)
    (True, False, False, False)
    """
    return not isinstance(value, bool) and isinstance(value, numbers.Integral) and int(value) >= 1


def checked_lengths(given: Any, batch: Any, most: Any, what: str, counted: str = "steps") -> sj.Node:
    """The lengths of sequences as a symbol of shape (batch,). Each call checks that they are from 0 to `most`.

    Parameters
    ----------
    given : expression of integers
    batch, most : int or size
    what, counted : str
        What the lengths are, and what they count, for the error.

    Raises
    ------
    TypeError
        If they are not integers (batch,).

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.checks import checked_lengths
    >>> n = sj.ivector("n")
    >>> f = sj.function([n], checked_lengths(n, 2, 5, "input_lengths"), mode="reference")
    >>> f([0, 5])
    array([0, 5], dtype=int32)
    """
    lengths = as_expression(given)
    if lengths.ndim != 1 or not lengths.type.kind.integral:
        raise TypeError(f"{what} must be integers (batch,), such as sj.ivector(), got {lengths!r}")
    lengths = sj.specify_shape(lengths, (batch,), what)
    inside = sj.logical_and(lengths >= 0, lengths <= most)
    return sj.assert_(inside, lengths, f"{what} must be from 0 to the number of {counted}")


def check_number(owner: Any, value: Any, what: str, least: float = 0, most: float = np.inf) -> None:
    """Raise an error if an argument is a number below `least` or above `most`, or neither a number nor an expression.

    Parameters
    ----------
    owner : object
        What the argument is of, for the error.
    value : object
    what : str
        The name of the argument.
    least, most : float

    Examples
    --------
    >>> from lasagne_like.checks import check_number
    >>> check_number("Normal", "wide", "std")
    Traceback (most recent call last):
        ...
    ValueError: std of Normal must be a number that is at least 0, got 'wide'
    """
    if is_expression(value):
        return
    if not isinstance(value, int | float | np.number | np.ndarray) or np.ndim(value) or not least <= value <= most:
        bounds = [f"{word} {end}" for word, end in (("least", least), ("most", most)) if abs(end) != np.inf]
        that_is = f" that is at {' and at '.join(bounds)}" if bounds else ""
        raise ValueError(f"{what} of {owner} must be a number{that_is}, got {value!r}")


def check_choice(value: Any, what: str, known: Collection[Any]) -> None:
    """Raise an error if an argument is none of the known values."""
    if value not in known:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, known))}, got {value!r}")


def checked_count(value: Any, what: str) -> int:
    """An argument as an int. It is an error if it is no whole number of at least 1."""
    if not is_count(value):
        raise ValueError(f"{what} must be a whole number of at least 1, got {value!r}")
    return int(value)


def check_top_k(k: Any, what: str, classes: Any = None) -> None:
    """Raise an error if a number of most probable classes is no int of 1 or more, or above the number of `classes`."""
    most = int(classes) if isinstance(classes, int) else np.inf
    if not isinstance(k, int_types) or not 1 <= int(k) <= most:
        most_of = "" if most == np.inf else f" and at most {most}, the number of classes"
        raise ValueError(f"{what} must be an int that is at least 1{most_of}; got {k!r}")
