"""Names that are built from kinds and numbers of lanes: ``f32x16``, ``i64x8``, ``boolx4``."""

import re
from typing import NamedTuple

from scanjit.kinds import KINDS, Kind

MAX_LANES = 64

_SUFFIX = re.compile(r"(?P<base>[a-z][a-z0-9_]*?)_(?P<kind>[a-z]+[0-9]*)?x(?P<lanes>[0-9]+)")


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
    if match is None or (match["kind"] or "bool") not in KINDS:
        return Suffixed(name, None, None)
    lanes = int(match["lanes"])
    if not 1 <= lanes <= MAX_LANES or lanes & (lanes - 1):
        raise ValueError(f"{name}: lanes must be a power of two from 1 to {MAX_LANES}, got {lanes}")
    return Suffixed(match["base"], KINDS[match["kind"]] if match["kind"] else None, lanes)


def type_name(kind: Kind, lanes: int) -> str:
    """The suffix of a vector type, such as ``"f32x16"``."""
    return f"{kind.name}x{lanes}"
