"""LLVM's types, constants and small pieces of code, from which `Lanes` are made."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from scanjit.kinds import Kind
from scanjit.target import Target

from .llvm_calls import F32, F64, I32, I64

FLOATS = {32: F32, 64: F64}
"""By the number of bits."""


class BFloat(ir.Type):
    """LLVM's type of bfloat16, which llvmlite has not."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat)

    def __hash__(self) -> int:
        return hash(BFloat)


class TargetModule(ir.Module):
    """A module of LLVM's, which knows what target its code is for: some operations choose their instructions by it.
    Functions in it may read numbers from memory (see `simd.numbers`)."""

    def __init__(self, name: str, target: Target, reads_numbers: bool):
        super().__init__(name)
        self.target, self.triple, self.reads_numbers = target, target.triple, reads_numbers


@functools.cache
def element_type(kind: Kind) -> ir.Type:
    """LLVM type of one lane in a register (i1 for masks, i16 for the bits of halves)."""
    return FLOATS[kind.bits] if kind.floating and not kind.is_half else ir.IntType(kind.bits)


@functools.cache
def vector_type(kind: Kind, lanes: int) -> ir.Type:
    """LLVM type of a vector in a register. One lane is a scalar: LLVM knows more of scalars than of vectors of one
    element. It chooses between branches and selections by what they cost, for example."""
    return element_type(kind) if lanes == 1 else ir.VectorType(element_type(kind), lanes)


@functools.cache
def overload_suffix(kind: Kind, lanes: int) -> str:
    """How LLVM's intrinsics spell this type: ``v16f32``."""
    letter = "f" if kind.floating and not kind.is_half else "i"
    return f"{f'v{lanes}' if lanes > 1 else ''}{letter}{kind.bits}"


def _element_text(kind: Kind, number: Any) -> str:
    if kind.is_mask:
        return "true" if number else "false"
    if kind.is_half:
        return str(np.array(number, kind.dtype).view(np.int16))
    if kind.floating:
        return str(element_type(kind).format_constant(float(number)))
    wrapped = int(number) & (2**kind.bits - 1)
    return str(wrapped - 2**kind.bits if wrapped >> (kind.bits - 1) else wrapped)


class TextConstant(ir.Constant):
    """A constant that is written as given (llvmlite would copy the text into every lane)."""

    def __init__(self, type_: ir.Type, text: str):
        self.type = type_
        self.constant = text

    def _get_reference(self) -> str:
        return str(self.constant)


def constant(kind: Kind, lanes: int, number: Any) -> ir.Value:
    """The number in every lane. The short spelling matters: constants are most of the text that LLVM parses."""
    if lanes == 1:
        return TextConstant(element_type(kind), _element_text(kind, number))
    return TextConstant(vector_type(kind, lanes), f"splat ({element_type(kind)} {_element_text(kind, number)})")


def constant_list(kind: Kind, numbers: Sequence[Any]) -> ir.Value:
    """A vector of these numbers."""
    if len(numbers) == 1:
        return constant(kind, 1, numbers[0])
    items = ", ".join(f"{element_type(kind)} {_element_text(kind, number)}" for number in numbers)
    return TextConstant(vector_type(kind, len(numbers)), f"<{items}>")


def indices(numbers: Sequence[int]) -> ir.Value:
    """A constant for shufflevector."""
    return ir.Constant(ir.VectorType(I32, len(numbers)), list(numbers))


def internal(
    module: ir.Module, name: str, result: ir.Type, operands: int, inline: bool = False
) -> tuple[ir.Function, bool]:
    """A function of integers that is called from many places and exists once in a module; and whether it is new
    there. With `inline`, LLVM puts a copy into each place."""
    if name in module.globals:
        return module.globals[name], False
    function = ir.Function(module, ir.FunctionType(result, [I64] * operands), name)
    function.linkage = "internal"
    function.attributes.add("alwaysinline" if inline else "noinline")
    return function, True


def phi(builder: ir.IRBuilder, *incoming: tuple[ir.Value, ir.Block]) -> ir.PhiInstr:
    """The value for the block from which control comes here: one of `incoming`."""
    found = builder.phi(incoming[0][0].type)
    for value, block in incoming:
        found.add_incoming(value, block)
    return found


def splat_scalar(builder: ir.IRBuilder, scalar: ir.Value, lanes: int) -> ir.Value:
    """A scalar in every lane."""
    if lanes == 1:
        return scalar
    undefined = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, undefined, indices([0] * lanes))


def splat_truth(builder: ir.IRBuilder, truth: ir.Value, lanes: int) -> ir.Value:
    """A truth value in every lane of a mask. LLVM would make a mask of bytes, and widen it, where it could copy the
    sign of a number into lanes as wide as those that are chosen."""
    target = builder.module.target
    if lanes == 1 or not target.is_x86 or target.has_avx512:
        return splat_scalar(builder, truth, lanes)
    bits = ir.IntType(min(max(8 * target.register_bytes // lanes, 8), 64))
    signs = opaque(builder, splat_scalar(builder, builder.sext(truth, bits), lanes))
    return builder.icmp_signed("<", signs, ir.Constant(signs.type, [0] * lanes))


def one_lane(builder: ir.IRBuilder, value: ir.Value, place: ir.Value) -> ir.Value:
    """A lane of a vector as a scalar."""
    return builder.extract_element(value, place) if isinstance(value.type, ir.VectorType) else value


def from_lanes(builder: ir.IRBuilder, scalars: Sequence[ir.Value]) -> ir.Value:
    """A vector of some scalars."""
    if len(scalars) == 1:
        return scalars[0]
    result = ir.Constant(ir.VectorType(scalars[0].type, len(scalars)), ir.Undefined)
    for k, scalar in enumerate(scalars):
        result = builder.insert_element(result, scalar, I32(k))
    return result


def opaque(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """The same value, hidden from LLVM if a register holds just it. If LLVM knew that zeros are moved into a vector's
    lanes, it would choose an instruction that takes several times as long."""
    target, kind = builder.module.target, value.type
    if not target.is_x86:
        return value
    if isinstance(kind, ir.VectorType):
        element = kind.element
        width = kind.count * (element.width if isinstance(element, ir.IntType) else {F32: 32, F64: 64}.get(element, 16))
        if width == 64:  # LLVM has no register for two floats
            return builder.bitcast(opaque(builder, builder.bitcast(value, F64)), kind)
        if not 128 <= width <= 8 * target.vector_bytes:
            return value
        if width > 8 * target.register_bytes:
            parts = range(kind.count // 2), range(kind.count // 2, kind.count)
            halves = [opaque(builder, builder.shuffle_vector(value, value, indices(part))) for part in parts]
            return builder.shuffle_vector(*halves, indices(range(kind.count)))
    elif isinstance(kind, ir.IntType) and kind.width < 32:  # without AVX-512, no register holds just this
        return builder.trunc(opaque(builder, builder.zext(value, I32)), kind)
    form = "=r,0" if isinstance(kind, ir.IntType) else "=v,0"
    return builder.asm(ir.FunctionType(kind, [kind]), "", form, [value], False)
