"""What Numba sees: one callable object a name, whose lowering emits the whole operation.

Numba types and lowers one call instead of the thirty statements of a polynomial; that is where compile time goes.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core.errors import TypingError
from numba.core.imputils import lower_constant
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model, typeof_impl

from scanjit.kinds import KINDS

from . import forms, table
from .forms import Lowering, Typing
from .lanes import ARITHMETIC, COMPARISONS, check_operator
from .llvm_lanes import CONTRACT, LlvmLanes, outlined
from .names import parse
from .operands import common, need, need_vector, operand, types
from .types import SimdType, mask_type, simd_type


class Intrinsic:
    """A public name as Numba's front end finds it among a generated file's globals.

    Parameters
    ----------
    name : str
        The public name.
    typing : callable
        Takes the argument types, returns a signature or raises TypeError.
    lowering : callable
        ``(builder, signature, values) -> value`` or None for a statement.
    """

    def __init__(self, name: str, typing: Typing, lowering: Callable[..., Any]):
        self.name = name
        self.typing = typing
        self.lowering = lowering
        self.numba_type = IntrinsicType(self)
        self._signatures: dict[tuple[Any, ...], Any] = {}
        _register_lowering(self, lowering)

    def __repr__(self) -> str:
        return f"<scanjit.simd.{self.name}>"

    def __call__(self, *args: Any) -> Any:
        """Only compiled code can call it; `scanjit.simd.emulate` runs the same program in plain Python."""
        raise TypeError(f"{self.name} is for compiled code; use scanjit.simd.emulate to run generated code as Python")

    def signature(self, args: Sequence[Any]) -> Any:
        """The signature for these argument types."""
        key = tuple(types.unliteral(a) for a in args)
        found = self._signatures.get(key)
        if found is None:
            try:
                found = self._signatures[key] = self.typing(*key)
            except TypeError as error:
                listed = ", ".join(map(str, key))
                raise TypingError(f"{self.name}({listed}): {error}") from None
        return found


class IntrinsicType(types.Callable, types.Opaque):
    """The Numba type of one `Intrinsic`."""

    def __init__(self, intrinsic: Intrinsic):
        self.intrinsic = intrinsic
        super().__init__(f"scanjit.simd.{intrinsic.name}")

    def get_call_type(self, context: Any, args: Sequence[Any], kws: Any) -> Any:
        """Called by type inference."""
        if kws:
            raise TypingError(f"{self.intrinsic.name} takes no keyword arguments")
        return self.intrinsic.signature(args)

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        """Called for error messages."""
        return [], True

    def get_impl_key(self, sig: Any) -> Intrinsic:
        """Called by lowering."""
        return self.intrinsic


register_model(IntrinsicType)(models.OpaqueModel)


@typeof_impl.register(Intrinsic)
def _typeof_intrinsic(value: Intrinsic, context: Any) -> IntrinsicType:
    return value.numba_type


@lower_constant(IntrinsicType)
def _lower_intrinsic(context: Any, builder: ir.IRBuilder, type_: IntrinsicType, value: Intrinsic) -> ir.Value:
    return context.get_dummy_value()


def _register_lowering(key: Any, lowering: Lowering) -> None:
    def implementation(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        result = lowering(builder, sig, args)
        return context.get_dummy_value() if result is None else result

    lower_builtin(key, types.VarArg(types.Any))(implementation)


# ---- functions of the table ---------------------------------------------------------------------------------------


def _table_function(name: str) -> Intrinsic:
    function = table.FUNCTIONS[name]

    def typing(*args: Any) -> Any:
        need(len(args) == function.arity, f"takes {function.arity} operands, got {len(args)}")
        kind, lanes = (type_ := common(args)).kind, type_.lanes
        need(kind.family in function.families, f"not defined for {kind.name} vectors")
        if function.result in KINDS:
            return signature(simd_type(KINDS[function.result], lanes), *args)
        result = {"same": type_, "mask": mask_type(lanes), "one": simd_type(kind, 1)}[function.result]
        return signature(result, *args)

    def lowering(builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        type_ = common(sig.args)
        flags = CONTRACT if function.inline else ()
        operands = [operand(builder, type_, t, v, flags) for t, v in zip(sig.args, args, strict=True)]
        if function.inline:
            return function.evaluate(*operands).value
        return outlined(builder, name, function.evaluate, operands).value

    return Intrinsic(name, typing, lowering)


# ---- operators ----------------------------------------------------------------------------------------------------


def _operator_parts(name: str) -> tuple[Typing, Lowering]:
    compares = name in COMPARISONS

    def typing(*args: Any) -> Any:
        type_ = common(args)
        check_operator(name, type_.kind)
        return signature(mask_type(type_.lanes) if compares else type_, *args)

    def lowering(builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        type_ = common(sig.args)
        a, b = (operand(builder, type_, t, v, CONTRACT) for t, v in zip(sig.args, args, strict=True))
        return (a.compare(name, b) if compares else a.arithmetic(name, b)).value

    return typing, lowering


def _register_operator(function: Any, name: str, arity: int, typing: Typing, lowering: Lowering) -> None:
    key = f"scanjit.simd operator {name}"
    _register_lowering(key, lowering)

    class Template(AbstractTemplate):
        def generic(self, args: Sequence[Any], kws: Any) -> Any:
            if len(args) != arity or not any(isinstance(a, SimdType) for a in args):
                return None
            try:
                return typing(*(types.unliteral(a) for a in args))
            except TypeError as error:
                raise TypingError(str(error)) from None

        def get_impl_key(self, sig: Any) -> str:
            return key

    infer_global(function)(Template)


def _unary_parts(name: str) -> tuple[Typing, Lowering]:
    def typing(x: Any) -> Any:
        kind = need_vector(x).kind
        need(not kind.floating if name == "invert" else not kind.is_mask, f"{name} is not defined for {kind.name}")
        return signature(x, x)

    def lowering(builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        x = LlvmLanes(builder, args[0], sig.args[0].kind, sig.args[0].lanes)
        return (~x if name == "invert" else -x if name == "neg" else x).value

    return typing, lowering


def _register_operators() -> None:
    named = {"and": "and_", "or": "or_", "div": "truediv", "shl": "lshift", "shr": "rshift"}
    for name in (*ARITHMETIC, *COMPARISONS):
        _register_operator(getattr(operator, named.get(name, name)), name, 2, *_operator_parts(name))
    for name in ("neg", "pos", "invert"):
        _register_operator(getattr(operator, name), name, 1, *_unary_parts(name))


# ---- names -----------------------------------------------------------------------------------------------------------


def make(name: str) -> Intrinsic:
    """The compiled form of a public name; AttributeError for a name that is not public."""
    if name in table.FUNCTIONS:
        return _table_function(name)
    if name == "select":
        return Intrinsic(name, forms.select_typing, forms.select_lowering)
    base, kind, lanes = parse(name)
    if lanes is None:
        if name not in table.PLAIN and name not in table.SLIDES:
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


_register_operators()
