"""The Numba types of vectors and masks. Importing this imports Numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import models, register_model

from scanjit.kinds import KINDS, Kind

from .llvm_lanes import vector_type


class SimdType(types.Type):
    """A vector of `lanes` elements of one kind; a mask if the kind is ``bool``.

    Make it with `simd_type`, so that equal types are one object.
    """

    def __init__(self, kind: Kind, lanes: int):
        self.kind = kind
        self.lanes = lanes
        super().__init__(name=f"simd_{kind.name}x{lanes}")


@register_model(SimdType)
class SimdModel(models.PrimitiveModel):
    """An LLVM vector; a mask is a vector of i1."""

    def __init__(self, manager: Any, fe_type: SimdType):
        llvm: ir.Type = vector_type(fe_type.kind, fe_type.lanes)
        super().__init__(manager, fe_type, llvm)


_TYPES: dict[tuple[str, int], SimdType] = {}


def simd_type(kind: Kind, lanes: int) -> SimdType:
    """The one type of vectors of `lanes` elements of `kind`."""
    key = (kind.name, lanes)
    if key not in _TYPES:
        _TYPES[key] = SimdType(kind, lanes)
    return _TYPES[key]


def mask_type(lanes: int) -> SimdType:
    """The type of masks of `lanes` lanes."""
    return simd_type(KINDS["bool"], lanes)
