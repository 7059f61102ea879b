"""Calls of guests (see `scanjit.ops.guest`) in generated code.

`guest_7f31_f64x4(status, code, mask, x, y)` calls a function of two numbers for each lane in the mask, one lane after
the other; all other lanes are 0. `guest_7f31(status, code, a, b, c, n)` calls a function once, with the addresses of
its arguments and results, and with numbers. A guest that can fail gets the address of a status, and the code that it
stores there if it fails.

The symbols are our own. Whoever loads the code gives them addresses.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from scanjit.ops.guest import LINKED, is_checked

from .llvm_calls import I1, I8, I32, I64, declare
from .llvm_values import element_type, from_lanes, one_lane
from .operands import need, need_mask, need_vector
from .types import INT, NOTHING, Signature, SimdType


def typing(type_: SimdType | None) -> Callable[..., Signature]:
    """The signature of a guest: with a type, of one that is called for each lane and gives this type; without, of one
    that is called once."""

    def of_lanes(*args: Any) -> Signature:
        assert type_ is not None
        need(len(args) > 3 and args[0] is INT and args[1] is INT, "takes a status, a code, a mask, and vectors")
        need_mask(args[2], type_.lanes)
        need(all(need_vector(arg).lanes == type_.lanes for arg in args[3:]), f"takes vectors of {type_.lanes} lanes")
        return Signature(type_, args)

    def once(*args: Any) -> Signature:
        need(len(args) >= 2 and all(arg is INT for arg in args), "takes a status, a code, addresses and numbers")
        return Signature(NOTHING, args)

    return once if type_ is None else of_lanes


def lowering(symbol: str, type_: SimdType | None) -> Callable[..., Any]:
    """The instructions of a call."""

    def of_lanes(builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        assert type_ is not None
        _, _, inside, *values = args
        given = [*_checked(symbol, args), *(_passed(builder, one_lane(builder, value, I32(0))) for value in values)]
        result = I8 if type_.kind.is_mask else element_type(type_.kind)
        guest = declare(builder, LINKED + symbol, result, [value.type for value in given])
        places = [builder.alloca(result) for _ in range(type_.lanes)]
        for lane, place in enumerate(places):
            builder.store(ir.Constant(result, 0), place)
            with builder.if_then(one_lane(builder, inside, I32(lane))):
                lanes = (_passed(builder, one_lane(builder, value, I32(lane))) for value in values)
                builder.store(builder.call(guest, [*_checked(symbol, args), *lanes]), place)
        found = [builder.load(place) for place in places]
        if type_.kind.is_mask:
            found = [builder.icmp_unsigned("!=", value, I8(0)) for value in found]
        return from_lanes(builder, found)

    def once(builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> None:
        given = [*_checked(symbol, args), *args[2:]]
        builder.call(declare(builder, LINKED + symbol, ir.VoidType(), [I64] * len(given)), given)

    return once if type_ is None else of_lanes


def _checked(symbol: str, args: Sequence[ir.Value]) -> Sequence[ir.Value]:
    """The status and the code, for a guest that takes them."""
    return args[:2] if is_checked(symbol) else ()


def _passed(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """A number as C functions take it: a bool is a byte."""
    return builder.zext(value, I8) if value.type == I1 else value
