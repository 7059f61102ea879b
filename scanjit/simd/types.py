"""The types of values in generated code."""

from typing import NamedTuple

from llvmlite import ir

from scanjit.kinds import KINDS, Kind

from .llvm_calls import F64, I1, I64
from .llvm_values import vector_type
from .register_masks import IN_REGISTER


class ScalarType:
    """The type of numbers that Python has too. Each has one object: `INT`, `FLOAT`, `BOOL`; and `NOTHING` for calls
    without a result."""

    def __init__(self, name: str, llvm: ir.Type):
        self.name, self.llvm, self.text = name, llvm, str(llvm)

    def __repr__(self) -> str:
        return self.name


class SimdType:
    """The type of vectors of `lanes` elements of one kind, or of masks if the kind is ``bool``.

    Make it with `simd_type`, so that equal types are one object. `llvm` is what LLVM calls it, `text` the same as text.
    """

    def __init__(self, kind: Kind, lanes: int, llvm: ir.Type | None = None):
        self.kind, self.lanes, self.name = kind, lanes, f"simd_{kind.name}x{lanes}"
        self.llvm = llvm or vector_type(kind, lanes)
        self.text = str(self.llvm)

    def __repr__(self) -> str:
        return self.name


Type = ScalarType | SimdType
INT, FLOAT = ScalarType("an integer", I64), ScalarType("a float", F64)
BOOL, NOTHING = ScalarType("a condition", I1), ScalarType("nothing", ir.VoidType())


class Signature(NamedTuple):
    """The types of a call: of its result, and of its arguments."""

    result: Type
    args: tuple[Type, ...]


_made: dict[tuple[Kind, int], SimdType] = {}


def simd_type(kind: Kind, lanes: int) -> SimdType:
    """The one type of vectors of `lanes` elements of `kind`, for all threads."""
    return _made.get((kind, lanes)) or _made.setdefault((kind, lanes), SimdType(kind, lanes))


def mask_type(lanes: int) -> SimdType:
    """The type of masks of `lanes` lanes."""
    return simd_type(KINDS["bool"], lanes)


HELD_MASK = SimdType(KINDS["bool"], 1, ir.LiteralStructType([I1, IN_REGISTER]))
"""The type of a mask of one lane in both of its forms (see `register_masks`). Functions take and give it in place of
`mask_type(1)`."""
