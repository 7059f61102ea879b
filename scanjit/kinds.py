"""How numbers are kept in memory, and in which type they are computed: one table.

An array has a NumPy dtype: that is its storage. A lane of a vector has a `Kind`: that is the type of the computation.
For most dtypes both are the same. A bool is kept as a byte (`moved`) and computed as one bit of a mask. Floats of 16
bits, the *halves*, are moved and kept as they are, but all computations with them are in float32.
"""

from typing import NamedTuple

import numpy as np

from scanjit.arrays import BFLOAT16, named_dtype
from scanjit.signatures import DType


class Kind(NamedTuple):
    """The type in which a lane is computed, and how it is kept in memory.

    Attributes
    ----------
    name : its name in generated code: "f32"; "bool" is a mask.
    family : "f" for floats, "i" for integers with a sign, "u" for those without, "b" for masks; "c" for complex
        numbers, which no lane holds: they are computed as two floats.
    bits : the bits of a lane; 1 for a mask.
    dtype : the NumPy dtype of arrays whose elements are computed in it.
    moved : the name of the kind that loads and stores move: "u8" for masks, else its own name.
    """

    name: str
    family: str
    bits: int
    dtype: DType
    moved: str

    @property
    def size(self) -> int:
        """Bytes of one element in memory."""
        return self.dtype.itemsize

    @property
    def floating(self) -> bool:
        """Whether it has fractions, infinities and NaN."""
        return self.family == "f"

    @property
    def is_half(self) -> bool:
        """Whether it is a float of 16 bits. Lanes hold its bits, and no arithmetic is done with them."""
        return self.floating and self.bits == 16

    @property
    def is_complex(self) -> bool:
        """Whether it is a pair of floats."""
        return self.family == "c"

    @property
    def inexact(self) -> bool:
        """Whether it has fractions: floats and complex numbers."""
        return self.family in ("f", "c")

    @property
    def integral(self) -> bool:
        """Whether it is an integer (masks are not)."""
        return self.family in ("i", "u")

    @property
    def signed(self) -> bool:
        """Whether it is an integer that may be negative."""
        return self.family == "i"

    @property
    def is_mask(self) -> bool:
        """Whether it is true or false."""
        return self.family == "b"

    @property
    def never_negative(self) -> bool:
        """Whether none of its values is below zero: it is an integer without a sign, or a mask."""
        return self.family in ("u", "b")

    @property
    def order(self) -> int:
        """Its place in the order of masks, integers, floats, complex numbers. A value of an earlier one can become a
        value of a later one."""
        return {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}[self.family]

    @property
    def largest(self) -> float:
        """The largest finite number, of floats."""
        return float(np.nextafter(np.array(np.inf, self.dtype), np.array(0, self.dtype)))

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest value: infinities for floats, False and True for masks."""
        if self.integral:
            return np.iinfo(self.dtype).min, np.iinfo(self.dtype).max
        return (-np.inf, np.inf) if self.floating else (False, True)


KINDS: dict[str, Kind] = {
    name: Kind(name, name[0], bits, np.dtype(dtype), moved)
    for dtype, name, bits, moved in (
        ("bool", "bool", 1, "u8"),
        ("int8", "i8", 8, "i8"),
        ("int16", "i16", 16, "i16"),
        ("int32", "i32", 32, "i32"),
        ("int64", "i64", 64, "i64"),
        ("uint8", "u8", 8, "u8"),
        ("float16", "f16", 16, "f16"),
        ("float32", "f32", 32, "f32"),
        ("float64", "f64", 64, "f64"),
    )
}
"""The kinds of lanes, by name. The row of bfloat16 is made when it is first asked for: NumPy has no such dtype, so
`ml_dtypes` is imported then."""
COMPLEX = tuple(
    Kind(np.dtype(name).str[1:], "c", 8 * np.dtype(name).itemsize, np.dtype(name), part)
    for name, part in (("complex64", "f32"), ("complex128", "f64"))
)
"""The kinds of complex numbers. `moved` names the kind of each of the two floats of a number."""
_OF_DTYPE: dict[object, Kind] = {kind.dtype: kind for kind in (*KINDS.values(), *COMPLEX)}


def kind_of(dtype: np.dtype | type | str | Kind) -> Kind:
    """The kind that elements of a dtype are computed in.

    Parameters
    ----------
    dtype : a NumPy dtype, what names one ("float32"), or the name of a kind ("f32").

    Examples
    --------
    >>> kind_of("float32").name, kind_of("bool").moved
    ('f32', 'u8')
    """
    found = _OF_DTYPE.get(dtype)  # nearly always a dtype: graphs ask for the kinds of types all the time
    if found is not None:
        return found
    if isinstance(dtype, Kind):
        return dtype
    if isinstance(dtype, str) and dtype in KINDS:
        return KINDS[dtype]
    if not isinstance(dtype, np.dtype):
        found = _OF_DTYPE.get(named_dtype(dtype))
    if found is None and isinstance(dtype, np.dtype) and dtype.name == BFLOAT16:
        found = _OF_DTYPE[dtype] = KINDS["bf16"] = Kind("bf16", "f", 16, np.dtype(dtype.type), "bf16")
    if found is None:
        raise ValueError(f"no element kind for {dtype!r}; known: {', '.join(KINDS)}")
    return found


def integer_of(bits: int) -> Kind:
    """The kind of integers with a sign that have this many bits."""
    return next(kind for kind in KINDS.values() if kind.signed and kind.bits == bits)


def is_inexact(dtype: np.dtype) -> bool:
    """Whether elements of a NumPy dtype, which may be none of ours, are floats or complex numbers."""
    return dtype.kind in "fc" or dtype.name == BFLOAT16


def holds_numbers(dtype: np.dtype) -> bool:
    """Whether elements of a NumPy dtype, which may be none of ours, are numbers or bools.

    Examples
    --------
    >>> holds_numbers(np.dtype("float16")), holds_numbers(np.dtype("datetime64"))
    (True, False)
    """
    return dtype.kind in "biufc" or dtype.name == BFLOAT16
