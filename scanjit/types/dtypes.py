"""Dtypes: which there are, and which one results from several."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from scanjit import errors
from scanjit.arrays import named_dtype
from scanjit.kinds import COMPLEX, KINDS, is_inexact, kind_of
from scanjit.signatures import DType

DTYPES = tuple(kind.dtype for kind in KINDS.values())
"""The dtypes of arrays in memory. Complex numbers lie there as pairs of floats."""


def dtype_of(name: object) -> DType:
    """A supported dtype from its name, or an error that lists them. The order of bytes is the machine's own."""
    try:
        return kind_of(named_dtype(cast(str, name)).newbyteorder("=")).dtype
    except (TypeError, ValueError):
        known = (*DTYPES, "bfloat16", *(kind.dtype for kind in COMPLEX))
        expected = "one of " + ", ".join(map(str, known))
        fix = "convert it, as by x.astype('int64'): uint8 is the only dtype of integers without a sign"
        fix = fix if "uint" in str(name) else ""
        raise errors.DtypeError("this dtype is not supported", got=repr(name), expected=expected, fix=fix) from None


def is_in_memory(dtype: object) -> bool:
    """Whether arrays in memory may have a dtype."""
    return dtype in DTYPES or any(dtype == kind.dtype for kind in list(KINDS.values()) if kind.is_half)


class DtypeName(str):
    """The name of a dtype that serves as the dtype itself: it has its attributes, and `==` compares dtypes.

    Examples
    --------
    >>> import numpy as np
    >>> dtype = DtypeName("float32")
    >>> dtype.startswith("float"), dtype == np.float32, dtype.itemsize
    (True, True, 4)
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> object:
        return getattr(np.dtype(str(self)), name)

    def __eq__(self, other: object) -> bool:
        return np.dtype(str(self)) == (str(other) if isinstance(other, str) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


_SCALARS = {"b": bool | np.bool_, "i": int, "f": float, "c": complex}
"""The kinds of Python's numbers. A bool is an int too."""


def promote(dtypes: Sequence[DType], scalars: Sequence[bool | int | float | complex] = ()) -> DType:
    """The dtype of an operation, as NumPy 2 finds it: Python scalars are weak. Floats stay within float64."""
    kinds = {next(k for k, t in _SCALARS.items() if isinstance(s, t)) for s in scalars}
    if "c" in kinds:
        return np.result_type(promote(dtypes, [0.0]) if dtypes else np.float64, np.complex64)
    if not dtypes:
        return np.dtype("float64" if "f" in kinds else "int64" if "i" in kinds else "bool")
    dtype = dtypes[0] if len(set(dtypes)) == 1 else _common(dtypes)
    if "f" in kinds and not kind_of(dtype).inexact:
        return np.dtype("float64")
    if "i" in kinds and kind_of(dtype).is_mask:
        return np.dtype("int64")
    return dtype


def of_arguments(dtypes: Sequence[DType], weak: Sequence[bool], default: DType | None = None) -> list[DType]:
    """The dtypes of the arguments of a call. Those that are weak, such as Python numbers, have no dtype of their own.

    A weak float takes the dtype of the floats that are not weak. Without such, it takes `default`, or keeps its own. A
    weak complex number takes the complex dtype with parts of this dtype.
    """
    weak_floats = [is_weak and is_inexact(dtype) for dtype, is_weak in zip(dtypes, weak, strict=True)]
    if not any(weak_floats):
        return list(dtypes)
    strong = [dtype for dtype, is_weak in zip(dtypes, weak, strict=True) if is_inexact(dtype) and not is_weak]
    common = promote([_part(dtype) if _is_complex(dtype) else dtype for dtype in strong]) if strong else default
    if common is None:
        return list(dtypes)
    return [
        dtype if not is_weak else np.result_type(common, np.complex64) if _is_complex(dtype) else common
        for dtype, is_weak in zip(dtypes, weak_floats, strict=True)
    ]


def _is_complex(dtype: DType) -> bool:
    return issubclass(dtype.type, np.complexfloating)


def _part(dtype: DType) -> DType:
    """The dtype of the two parts of a complex number."""
    return np.empty(0, dtype).real.dtype


def _common(dtypes: Sequence[DType]) -> DType:
    """The dtype that can hold the values of several dtypes, as NumPy finds it. With integers, a bfloat16 counts as a
    float16. With a float16, both become float32."""
    halves = {dtype for dtype in dtypes if kind_of(dtype).is_half}
    if not halves:
        return np.result_type(*dtypes)
    of_numpy = np.dtype("float32" if len(halves) > 1 else "float16")
    found = np.result_type(*(of_numpy if dtype in halves else dtype for dtype in dtypes))
    return halves.pop() if kind_of(found).is_half else found
