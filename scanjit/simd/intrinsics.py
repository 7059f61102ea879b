"""The functions and operators of vectors: which types they take, and the instructions that they become."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from scanjit.kinds import KINDS
from scanjit.ops.guest import PREFIX

from . import forms, guest, table
from .forms import Typing
from .lanes import COMPARISONS, check_operator
from .llvm_lanes import LlvmLanes, outlined
from .names import parse
from .operands import common, need, need_vector, operand
from .types import Signature, SimdType, mask_type, simd_type


class Intrinsic:
    """A function or an operator in generated code.

    Attributes
    ----------
    name : its public name; of an operator, one of those in `lanes.ARITHMETIC` and the like.
    typing : takes the types of arguments, returns the signature of the call, or raises TypeError.
    lowering : writes the instructions of a call: ``(builder, signature, values) -> value``, or None if there is no
        result.
    """

    def __init__(self, name: str, typing: Typing, lowering: Callable[..., Any]):
        self.name, self.typing, self.lowering = name, typing, lowering

    def __repr__(self) -> str:
        return f"<scanjit.simd.{self.name}>"

    def __call__(self, *args: Any) -> Any:
        """Only compiled code can call it; `scanjit.simd.emulate` runs the same program in plain Python."""
        raise TypeError(f"{self.name} is for compiled code; use scanjit.simd.emulate to run generated code as Python")


# ---- functions of the table ---------------------------------------------------------------------------------------


def _table_function(name: str) -> Intrinsic:
    function = table.FUNCTIONS[name]

    def typing(*args: Any) -> Any:
        need(len(args) == function.arity, f"takes {function.arity} operands, got {len(args)}")
        kind, lanes = (type_ := common(args)).kind, type_.lanes
        need(kind.family in function.families, f"not defined for {kind.name} vectors")
        if function.result in KINDS:
            return Signature(simd_type(KINDS[function.result], lanes), args)
        result = {"same": type_, "mask": mask_type(lanes), "one": simd_type(kind, 1)}[function.result]
        return Signature(result, args)

    def lowering(builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        type_ = common(sig.args)
        operands = [operand(builder, type_, t, v) for t, v in zip(sig.args, args, strict=True)]
        if function.inline:
            return function.evaluate(*operands).value
        return outlined(builder, name, function.evaluate, operands).value

    return Intrinsic(name, typing, lowering)


# ---- operators ----------------------------------------------------------------------------------------------------


UNARY = ("neg", "invert")


def _binary(name: str) -> Intrinsic:
    compares = name in COMPARISONS

    def typing(*args: Any) -> Any:
        type_ = common(args)
        check_operator(name, type_.kind)
        return Signature(mask_type(type_.lanes) if compares else type_, args)

    def lowering(builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        type_ = common(sig.args)
        a, b = (operand(builder, type_, t, v) for t, v in zip(sig.args, args, strict=True))
        return (a.compare(name, b) if compares else a.arithmetic(name, b)).value

    return Intrinsic(name, typing, lowering)


def _unary(name: str) -> Intrinsic:
    def typing(x: Any) -> Any:
        kind = need_vector(x).kind
        need(not kind.floating if name == "invert" else not kind.is_mask, f"{name} is not defined for {kind.name}")
        return Signature(x, (x,))

    def lowering(builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        x = LlvmLanes(builder, args[0], sig.args[0].kind, sig.args[0].lanes)
        return (~x if name == "invert" else -x).value

    return Intrinsic(name, typing, lowering)


@functools.cache
def operator_of(name: str) -> Intrinsic:
    """An operator: one of `ARITHMETIC` or `COMPARISONS` between two operands, or one of `UNARY`."""
    return _unary(name) if name in UNARY else _binary(name)


# ---- names -----------------------------------------------------------------------------------------------------------


def make(name: str) -> Intrinsic:
    """The compiled form of a public name; AttributeError for a name that is not public."""
    if name in table.FUNCTIONS:
        return _table_function(name)
    if name in ("select", "select_freely"):
        lowering = functools.partial(forms.select_lowering, freely=name == "select_freely")
        return Intrinsic(name, forms.select_typing, lowering)
    base, kind, lanes = parse(name)
    if base.startswith(PREFIX):
        result = None if kind is None or lanes is None else simd_type(kind, lanes)
        return Intrinsic(name, guest.typing(result), guest.lowering(base, result))
    if lanes is None:
        if name not in table.PLAIN and name not in table.SHUFFLES:
            raise AttributeError(f"scanjit.simd has no {name!r}")
        return _with_form(name, forms.FORMS[name], None)
    if base not in (table.LANES_ONLY if kind is None else table.SUFFIXED):
        raise AttributeError(f"scanjit.simd has no {name!r}")
    if base == "spread":
        return Intrinsic(name, functools.partial(forms.spread_typing, lanes), forms.splat_lowering)
    type_ = mask_type(lanes) if kind is None else simd_type(kind, lanes)
    if base == "splat":
        return Intrinsic(name, functools.partial(forms.splat_typing, type_), forms.splat_lowering)
    return _with_form(name, forms.FORMS[base], type_)


def _with_form(name: str, form: forms.Form, named: SimdType | None) -> Intrinsic:
    return Intrinsic(name, form.typed(named), form.lowered(named))
