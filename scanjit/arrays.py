"""What users give as arrays: NumPy's, those of libraries that NumPy reads, and tensors of bfloat16 of PyTorch."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from scanjit import errors

BFLOAT16 = "bfloat16"


def array_of(value: Any, refused: Callable[[str], Exception] | None = None) -> np.ndarray:
    """A value as an array, as `np.asarray` makes it. NumPy cannot read PyTorch's tensors of bfloat16, so their bits are
    read as integers.

    Parameters
    ----------
    value : object
    refused : function, optional
        The error for a value that is no array, such as a list of rows of different lengths, from NumPy's reason. By
        default, no error is raised, and the result is an array of objects.

    Examples
    --------
    >>> array_of([1, 2]), array_of([[1], [2, 3]]).dtype
    (array([1, 2]), dtype('O'))
    """
    try:
        dtype = getattr(value, "dtype", None)
        if not (dtype is None or isinstance(dtype, np.dtype)) and str(dtype) == "torch.bfloat16":
            return np.asarray(value.view(sys.modules["torch"].int16)).view(named_dtype(BFLOAT16))
        return np.asarray(value)
    except Exception as error:  # whatever an __array__ method may raise
        if errors.from_outside(error):
            raise
        if refused is not None:
            raise refused(str(error)) from None
        return np.asarray(None)


def named_dtype(name: type | str) -> np.dtype:
    """The NumPy dtype of a name, also if it is "bfloat16", which `ml_dtypes` gives.

    Raises
    ------
    TypeError
        If there is no such dtype.
    NotSupportedError
        If it is bfloat16, and `ml_dtypes` is not installed.
    """
    if name != BFLOAT16:
        return np.dtype(name)
    try:
        import ml_dtypes  # type: ignore[import-not-found, unused-ignore]  # an extra
    except ImportError:
        raise errors.NotSupportedError(
            "NumPy has no bfloat16: that of the package ml_dtypes is used, which is not installed",
            fix='pip install "scanjit[bfloat16]"',
        ) from None
    return np.dtype(ml_dtypes.bfloat16)


def check_unmasked(value: object, label: str) -> None:
    """Raise an error for an array of `numpy.ma` with masked entries, also in lists: NumPy would give the numbers
    beneath the mask.

    Parameters
    ----------
    value : object
    label : str
        What the value is, for the error.

    Raises
    ------
    ArgumentError
        If an entry is masked.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.check_unmasked(np.ma.array([1.0, 2.0], mask=[False, True]), "sequence 0")
    Traceback (most recent call last):
        ...
    scanjit.errors.ArgumentError: sequence 0 has masked entries, which have no value
      got:      1 of 2 entries are masked
      to do:    give them one, such as x.filled(np.nan)
      at:       ...
    """
    if isinstance(value, list | tuple):
        if any(issubclass(kind, list | tuple | np.ndarray) for kind in set(map(type, value))):
            for item in value:
                check_unmasked(item, label)
    elif isinstance(value, np.ndarray) and hasattr(value, "mask") and (count := np.ma.count_masked(value)):
        raise errors.ArgumentError(
            f"{label} has masked entries, which have no value",
            got=f"{count} of {value.size} entries are masked",
            fix="give them one, such as x.filled(np.nan)",
        )
