"""The functions of vectors for Numba. After `import scanjit.numba`, a function that `numba.njit` compiles may call
those of `scanjit.simd`. Generated code is such a function: what `f.source` shows, Numba compiles as it stands.

Examples
--------
>>> import numba, numpy as np, scanjit.numba
>>> from scanjit.simd import load_f64x4, store, tanh
>>> @numba.njit
... def tanh_of_four(source, target):
...     store(target, tanh(load_f64x4(source)))
>>> x, y = np.arange(4.0), np.zeros(4)
>>> tanh_of_four(x.ctypes.data, y.ctypes.data)
>>> bool(np.abs(y - np.tanh(x)).max() < 1e-15)
True
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import types as _types
from numba.core.errors import TypingError
from numba.core.imputils import lower_constant
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model, typeof_impl

from scanjit.runtime import host
from scanjit.runtime.native import native
from scanjit.simd.intrinsics import UNARY, Intrinsic, operator_of
from scanjit.simd.lanes import ARITHMETIC, COMPARISONS
from scanjit.simd.types import BOOL, FLOAT, INT, NOTHING, SimdType, Type

types: Any = _types  # Numba's stubs lack half of it
native()  # gives LLVM the addresses of the functions with which threads share work


class VectorType(types.Type):
    """Numba's type of vectors of one of our types."""

    def __init__(self, simd: SimdType):
        self.simd = simd
        super().__init__(simd.name)


@register_model(VectorType)
class VectorModel(models.PrimitiveModel):
    """A vector of LLVM's; a mask is a vector of i1."""

    def __init__(self, manager: Any, fe_type: VectorType):
        super().__init__(manager, fe_type, fe_type.simd.llvm)


class IntrinsicType(types.Callable, types.Opaque):
    """Numba's type of one of our functions."""

    def __init__(self, intrinsic: Intrinsic):
        self.intrinsic = intrinsic
        super().__init__(f"scanjit.simd.{intrinsic.name}")

    def get_call_type(self, context: Any, args: Sequence[Any], kws: Any) -> Any:
        """Called by type inference."""
        if kws:
            raise TypingError(f"{self.intrinsic.name} takes no keyword arguments")
        return _numba_signature(self.intrinsic, args)

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        """Called for error messages."""
        return [], True

    def get_impl_key(self, sig: Any) -> tuple[str, str]:
        """Called by lowering."""
        return _lowered(self.intrinsic)


register_model(IntrinsicType)(models.OpaqueModel)


@typeof_impl.register(Intrinsic)
def _typeof_intrinsic(value: Intrinsic, context: Any) -> IntrinsicType:
    return IntrinsicType(value)


@lower_constant(IntrinsicType)
def _lower_intrinsic(context: Any, builder: ir.IRBuilder, type_: IntrinsicType, value: Intrinsic) -> ir.Value:
    return context.get_dummy_value()


_OURS = ((types.Boolean, BOOL), (types.Integer, INT), (types.Float, FLOAT))
_NUMBAS = {BOOL: types.boolean, INT: types.int64, FLOAT: types.float64, NOTHING: types.none}


def _ours(type_: Any) -> Type:
    """Our type for one of Numba's types; TypingError if there is none."""
    if isinstance(type_, VectorType):
        return type_.simd
    for numbas, ours in _OURS:
        if isinstance(type_, numbas):
            return ours
    raise TypingError(f"scanjit.simd knows no {type_}")


def _numbas(type_: Type) -> Any:
    """Numba's type for one of our types."""
    return VectorType(type_) if isinstance(type_, SimdType) else _NUMBAS[type_]


def _numba_signature(intrinsic: Intrinsic, args: Sequence[Any]) -> Any:
    try:
        found = intrinsic.typing(*map(_ours, args))
    except TypeError as error:
        raise TypingError(f"{intrinsic.name}({', '.join(map(str, args))}): {error}") from None
    return signature(*map(_numbas, (found.result, *found.args)))


_known: set[tuple[str, str]] = set()


def _lowered(intrinsic: Intrinsic) -> tuple[str, str]:
    """The key under which Numba finds how a function is lowered."""
    key = ("scanjit.simd", intrinsic.name)
    if key not in _known:
        _known.add(key)

        def lower(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
            builder.module.target = host.target()  # some functions choose their instructions by it
            builder.module.reads_numbers = False
            result = intrinsic.lowering(builder, intrinsic.typing(*map(_ours, sig.args)), args)
            return context.get_dummy_value() if result is None else result

        lower_builtin(key, types.VarArg(types.Any))(lower)
    return key


def _register(function: Any, intrinsic: Intrinsic, arity: int) -> None:
    """Make an operator known to Numba for vectors."""

    class Template(AbstractTemplate):
        def generic(self, args: Sequence[Any], kws: Any) -> Any:
            if len(args) == arity and any(isinstance(each, VectorType) for each in args):
                return _numba_signature(intrinsic, args)
            return None

        def get_impl_key(self, sig: Any) -> tuple[str, str]:
            return _lowered(intrinsic)

    infer_global(function)(Template)


_PYTHONS = {"and": "and_", "or": "or_", "div": "truediv", "shl": "lshift", "shr": "rshift"}
for _name in (*ARITHMETIC, *COMPARISONS, *UNARY):
    _register(getattr(operator, _PYTHONS.get(_name, _name)), operator_of(_name), 1 if _name in UNARY else 2)
