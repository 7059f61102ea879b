"""The operands of functions on vectors: which types they may have, and their values as vectors."""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from scanjit.kinds import Kind

from .llvm_lanes import LlvmLanes
from .llvm_values import FLOATS, constant, element_type, splat_scalar
from .types import BOOL, FLOAT, INT, SimdType, mask_type


def need(condition: bool, message: str) -> None:
    """Raise a TypeError unless the condition holds."""
    if not condition:
        raise TypeError(message)


def need_mask(type_: Any, lanes: int) -> None:
    """Raise a TypeError unless the type is a mask of so many lanes."""
    need(type_ is mask_type(lanes), f"expected a mask of {lanes} lanes, got {type_}")


def need_vector(type_: Any) -> SimdType:
    """The type, if it is a vector."""
    if not isinstance(type_, SimdType):
        raise TypeError(f"expected a vector, got {type_}")
    return type_


def is_number(type_: Any) -> bool:
    """Whether values of this type are Python's numbers."""
    return type_ in (INT, FLOAT, BOOL)


def common(args: Sequence[Any]) -> SimdType:
    """The one vector type among the operands. The others must be numbers that lanes of this type can hold."""
    vectors = [a for a in args if isinstance(a, SimdType)]
    need(bool(vectors), "no operand is a vector")
    first = vectors[0]
    for other in vectors[1:]:
        need(other is first, f"operands are {first.name} and {other.name}; cast one of them")
    for other in args:
        if other is not first:
            need(is_number(other), f"{other} is neither a vector nor a number")
            need(first.kind.floating or other is not FLOAT, f"a float operand with {first.name}")
    return first


def splat(builder: ir.IRBuilder, kind: Kind, lanes: int, value: ir.Value) -> ir.Value:
    """A scalar in every lane. Literals become constants at once."""
    if isinstance(value, ir.Constant) and isinstance(value.constant, (bool, int, float)):
        return constant(kind, lanes, value.constant)
    target = element_type(kind)
    if isinstance(value.type, ir.IntType):
        if kind.is_mask:
            value = builder.icmp_unsigned("!=", value, ir.Constant(value.type, 0))
        elif kind.floating:
            value = (builder.uitofp if value.type.width == 1 else builder.sitofp)(value, target)
        elif value.type.width > kind.bits:
            value = builder.trunc(value, target)
        elif value.type.width < kind.bits:
            value = (builder.zext if value.type.width == 1 else builder.sext)(value, target)
    elif value.type != target:
        given = next(bits for bits, type_ in FLOATS.items() if type_ == value.type)
        value = (builder.fptrunc if given > kind.bits else builder.fpext)(value, target)
    return splat_scalar(builder, value, lanes)


def operand(builder: ir.IRBuilder, wanted: SimdType, type_: Any, value: ir.Value) -> LlvmLanes:
    """An operand as a vector of the wanted type, which it has or, if it is a number, gets."""
    if type_ is not wanted:
        value = splat(builder, wanted.kind, wanted.lanes, value)
    return LlvmLanes(builder, value, wanted.kind, wanted.lanes)
