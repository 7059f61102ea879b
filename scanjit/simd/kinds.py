"""Element kinds and the names built from them: ``f32x16``, ``i64x8``, ``boolx4``."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np


class Kind(NamedTuple):
    """What one lane holds.

    Attributes
    ----------
    name : str
        Short name used in suffixes, such as ``"f32"``; ``"bool"`` is a mask.
    bits : int
        Size of one element in memory, in bits (a mask's element is one byte there).
    family : str
        ``"f"`` float, ``"i"`` signed, ``"u"`` unsigned, ``"b"`` mask.
    dtype : numpy.dtype
        The NumPy dtype of one element in memory.
    """

    name: str
    bits: int
    family: str
    dtype: np.dtype

    @property
    def size(self) -> int:
        """Bytes of one element in memory."""
        return self.bits // 8

    @property
    def floating(self) -> bool:
        """Whether this is a floating-point kind."""
        return self.family == "f"

    @property
    def integral(self) -> bool:
        """Whether this is an integer kind (masks are not)."""
        return self.family in "iu"


# fmt: off
KINDS = {
    name: Kind(name, bits, name[0], np.dtype(dtype))
    for name, bits, dtype in (
        ("f32", 32, "float32"), ("f64", 64, "float64"),
        ("i8", 8, "int8"), ("i16", 16, "int16"), ("i32", 32, "int32"), ("i64", 64, "int64"),
        ("u8", 8, "uint8"), ("bool", 8, "bool"),
    )
}
# fmt: on
BY_DTYPE = {kind.dtype.name: kind for kind in KINDS.values()}
SIGNED_OF_BITS = {kind.bits: kind for kind in KINDS.values() if kind.family == "i"}
MAX_LANES = 64

_SUFFIX = re.compile(r"(?P<base>[a-z][a-z0-9_]*?)_(?P<kind>f32|f64|i8|i16|i32|i64|u8|bool)?x(?P<lanes>[0-9]+)")


def kind_of(name: object) -> Kind:
    """Find a kind by its short name (``"f32"``), NumPy dtype or dtype name (``"float32"``)."""
    if isinstance(name, Kind):
        return name
    if isinstance(name, str) and name in KINDS:
        return KINDS[name]
    found = BY_DTYPE.get(np.dtype(name).name)  # type: ignore[call-overload]
    if found is None:
        raise ValueError(f"no SIMD element kind for {name!r}; known: {', '.join(KINDS)}")
    return found


class Suffixed(NamedTuple):
    """A public name taken apart: ``load_f32x16`` is ``("load", f32, 16)``."""

    base: str
    kind: Kind | None
    lanes: int | None


def parse(name: str) -> Suffixed:
    """Split a public name into its base, element kind and lanes.

    Parameters
    ----------
    name : str
        Such as ``"exp"`` (no suffix), ``"head_x16"`` (lanes only) or ``"load_f32x16"``.

    Returns
    -------
    Suffixed
        Kind and lanes are None where the name does not state them.
    """
    match = _SUFFIX.fullmatch(name)
    if match is None:
        return Suffixed(name, None, None)
    lanes = int(match["lanes"])
    if not 1 <= lanes <= MAX_LANES or lanes & (lanes - 1):
        raise ValueError(f"{name}: lanes must be a power of two from 1 to {MAX_LANES}, got {lanes}")
    return Suffixed(match["base"], KINDS[match["kind"]] if match["kind"] else None, lanes)


def type_name(kind: Kind, lanes: int) -> str:
    """The suffix of a vector type, such as ``"f32x16"``."""
    return f"{kind.name}x{lanes}"
