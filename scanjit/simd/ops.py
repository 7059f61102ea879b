"""What Numba sees: one callable object a name, whose lowering emits the whole operation.

Numba types and lowers one call instead of the thirty statements of a polynomial; that is where compile time goes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types as _types
from numba.core.errors import TypingError
from numba.core.imputils import lower_constant
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model, typeof_impl

from scanjit.kinds import KINDS, Kind

from . import lapack, memory, table
from .lanes import ARITHMETIC, COMPARISONS, Lanes, check_operator
from .llvm_lanes import (
    CONTRACT,
    FLOATS,
    I1,
    I32,
    I64,
    LlvmLanes,
    constant,
    element_type,
    indices,
    join,
    outlined,
    splat_scalar,
    vector_type,
)
from .names import parse, type_name
from .types import SimdType, mask_type, simd_type

types: Any = _types  # Numba's stubs lack half of it
Lowering = Callable[[ir.IRBuilder, Any, Sequence[ir.Value]], ir.Value]
Typing = Callable[..., Any]
BOOL, INT64 = KINDS["bool"], KINDS["i64"]
INT = types.int64


class Op:
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
        self.numba_type = OpType(self)
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


class OpType(types.Callable, types.Opaque):
    """The Numba type of one `Op`."""

    def __init__(self, op: Op):
        self.op = op
        super().__init__(f"scanjit.simd.{op.name}")

    def get_call_type(self, context: Any, args: Sequence[Any], kws: Any) -> Any:
        """Called by type inference."""
        if kws:
            raise TypingError(f"{self.op.name} takes no keyword arguments")
        return self.op.signature(args)

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        """Called for error messages."""
        return [], True

    def get_impl_key(self, sig: Any) -> Op:
        """Called by lowering."""
        return self.op


register_model(OpType)(models.OpaqueModel)


@typeof_impl.register(Op)
def _typeof_op(value: Op, context: Any) -> OpType:
    return value.numba_type


@lower_constant(OpType)
def _lower_op(context: Any, builder: ir.IRBuilder, type_: OpType, value: Op) -> ir.Value:
    return context.get_dummy_value()


def _register_lowering(key: Any, lowering: Lowering) -> None:
    def implementation(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        result = lowering(builder, sig, args)
        return context.get_dummy_value() if result is None else result

    lower_builtin(key, types.VarArg(types.Any))(implementation)


# ---- operands -----------------------------------------------------------------------------------------------------


def _is_number(type_: Any) -> bool:
    return isinstance(type_, (types.Integer, types.Float, types.Boolean))


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise TypeError(message)


def _need_int(*args: Any) -> None:
    for type_ in args:
        _need(isinstance(type_, types.Integer), f"expected an integer, got {type_}")


def _need_mask(type_: Any, lanes: int) -> None:
    _need(type_ is mask_type(lanes), f"expected a mask of {lanes} lanes, got {type_}")


def _need_vector(type_: Any) -> SimdType:
    if not isinstance(type_, SimdType):
        raise TypeError(f"expected a vector, got {type_}")
    return type_


def _common(args: Sequence[Any]) -> SimdType:
    """The one vector type among the operands; the others are numbers that it can take."""
    vectors = [a for a in args if isinstance(a, SimdType)]
    _need(bool(vectors), "no operand is a vector")
    first = vectors[0]
    for other in vectors[1:]:
        _need(other is first, f"operands are {first.name} and {other.name}; cast one of them")
    for other in args:
        if other is not first:
            _need(_is_number(other), f"{other} is neither a vector nor a number")
            _need(first.kind.floating or not isinstance(other, types.Float), f"a float operand with {first.name}")
    return first


def _splat(builder: ir.IRBuilder, kind: Kind, lanes: int, value: ir.Value) -> ir.Value:
    """A scalar as a vector; literals become constants at once."""
    if isinstance(value, ir.Constant) and isinstance(value.constant, (bool, int, float)):
        number = value.constant
        return constant(kind, lanes, bool(number) if kind.is_mask else number)
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


def _operand(
    builder: ir.IRBuilder, common: SimdType, type_: Any, value: ir.Value, flags: tuple[str, ...] = ()
) -> LlvmLanes:
    if type_ is not common:
        value = _splat(builder, common.kind, common.lanes, value)
    return LlvmLanes(builder, value, common.kind, common.lanes, flags)


def _vector(builder: ir.IRBuilder, type_: SimdType, value: ir.Value) -> LlvmLanes:
    return LlvmLanes(builder, value, type_.kind, type_.lanes)


# ---- functions of the table ---------------------------------------------------------------------------------------


def _table_op(name: str) -> Op:
    function = table.FUNCTIONS[name]

    def typing(*args: Any) -> Any:
        _need(len(args) == function.arity, f"takes {function.arity} operands, got {len(args)}")
        common = _common(args)
        _need(common.kind.family in function.families, f"not defined for {common.kind.name} vectors")
        if function.result in KINDS:
            return signature(simd_type(KINDS[function.result], common.lanes), *args)
        result = {"same": common, "mask": mask_type(common.lanes), "one": simd_type(common.kind, 1)}[function.result]
        return signature(result, *args)

    def lowering(builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        common = _common(sig.args)
        flags = CONTRACT if function.inline else ()
        operands = [_operand(builder, common, t, v, flags) for t, v in zip(sig.args, args, strict=True)]
        if function.inline:
            result = function.evaluate(*operands)
            assert isinstance(result, LlvmLanes)
            return result.value
        return outlined(builder, name, function.evaluate, operands).value

    return Op(name, typing, lowering)


# ---- operators ----------------------------------------------------------------------------------------------------


def _operator_parts(name: str) -> tuple[Typing, Lowering]:
    compares = name in COMPARISONS

    def typing(*args: Any) -> Any:
        common = _common(args)
        check_operator(name, common.kind)
        return signature(mask_type(common.lanes) if compares else common, *args)

    def lowering(builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        common = _common(sig.args)
        a, b = (_operand(builder, common, t, v, CONTRACT) for t, v in zip(sig.args, args, strict=True))
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
        kind = _need_vector(x).kind
        _need(not kind.floating if name == "invert" else not kind.is_mask, f"{name} is not defined for {kind.name}")
        return signature(x, x)

    def lowering(builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        x: Lanes = _vector(builder, sig.args[0], args[0])
        result = ~x if name == "invert" else -x if name == "neg" else x
        assert isinstance(result, LlvmLanes)
        return result.value

    return typing, lowering


def _register_operators() -> None:
    named = {"and": "and_", "or": "or_", "div": "truediv", "shl": "lshift", "shr": "rshift"}
    for name in (*ARITHMETIC, *COMPARISONS):
        _register_operator(getattr(operator, named.get(name, name)), name, 2, *_operator_parts(name))
    for name in ("neg", "pos", "invert"):
        _register_operator(getattr(operator, name), name, 1, *_unary_parts(name))


# ---- names with a type suffix -------------------------------------------------------------------------------------


def _suffixed_op(name: str, base: str, kind: Kind, lanes: int) -> Op:
    vector, mask, offsets = simd_type(kind, lanes), mask_type(lanes), simd_type(INT64, lanes)

    if base in ("load", "broadcast"):
        emit = {"load": memory.load, "broadcast": memory.broadcast}[base]

        def typing(address: Any) -> Any:
            _need_int(address)
            return signature(vector, INT)

        return Op(name, typing, lambda b, sig, args: emit(b, kind, lanes, args[0]).value)
    if base == "load_masked":

        def typing_masked(address: Any, given: Any) -> Any:
            _need_int(address)
            _need_mask(given, lanes)
            return signature(vector, INT, mask)

        return Op(name, typing_masked, lambda b, sig, args: memory.load_masked(b, kind, lanes, *args).value)
    if base == "load_strided":

        def typing_strided(address: Any, stride: Any, given: Any) -> Any:
            _need_int(address, stride)
            _need_mask(given, lanes)
            return signature(vector, INT, INT, mask)

        return Op(
            name,
            typing_strided,
            lambda b, sig, args: (
                memory.gather(b, kind, lanes, args[0], memory.strided_offsets(b, lanes, args[1]), args[2]).value
            ),
        )
    if base == "gather":

        def typing_gather(address: Any, given_offsets: Any, given: Any) -> Any:
            _need_int(address)
            _need(given_offsets is offsets, f"expected offsets {offsets.name}, got {given_offsets}")
            _need_mask(given, lanes)
            return signature(vector, INT, offsets, mask)

        return Op(name, typing_gather, lambda b, sig, args: memory.gather(b, kind, lanes, *args).value)
    if base == "transpose":

        def typing_transpose(target: Any, target_step: Any, source: Any, source_step: Any) -> Any:
            _need_int(target, target_step, source, source_step)
            return signature(types.none, INT, INT, INT, INT)

        return Op(name, typing_transpose, lambda b, sig, args: memory.transpose(b, kind, lanes, list(args)))
    if base == "splat":
        return _splat_op(name, kind, lanes)
    if base == "iota":

        def typing_iota(start: Any) -> Any:
            _need_int(start)
            _need(kind.integral, f"not defined for {kind.name}")
            return signature(vector, INT)

        def lower_iota(b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
            first = LlvmLanes(b, _splat(b, kind, lanes, args[0]), kind, lanes)
            return first.arithmetic("add", first.iota(kind)).value

        return Op(name, typing_iota, lower_iota)
    if base == "cast":

        def typing_cast(x: Any) -> Any:
            _need(_need_vector(x).lanes == lanes, f"{x.name} has not {lanes} lanes")
            return signature(vector, x)

        return Op(name, typing_cast, lambda b, sig, args: _vector(b, sig.args[0], args[0]).cast(kind).value)

    def typing_bitcast(x: Any) -> Any:
        given = _need_vector(x)
        _need(not given.kind.is_mask and not kind.is_mask, "masks have no bits in memory; cast them")
        _need(given.lanes == lanes and given.kind.bits == kind.bits, f"{given.name} has other lanes")
        return signature(vector, x)

    return Op(name, typing_bitcast, lambda b, sig, args: _vector(b, sig.args[0], args[0]).bitcast(kind).value)


def _splat_op(name: str, kind: Kind, lanes: int) -> Op:
    vector, single = simd_type(kind, lanes), simd_type(kind, 1)

    def typing(value: Any) -> Any:
        if value is single:
            return signature(vector, single)
        _need(_is_number(value), f"expected a number or a vector of one {kind.name}, got {value}")
        _need(kind.floating or not isinstance(value, types.Float), f"a float for {kind.name} lanes")
        return signature(vector, value)

    def lowering(b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        if isinstance(sig.args[0], SimdType):
            return _spread(b, args[0], lanes)
        return _splat(b, kind, lanes, args[0])

    return Op(name, typing, lowering)


def _spread(b: ir.IRBuilder, vector: ir.Value, lanes: int) -> ir.Value:
    return splat_scalar(b, b.extract_element(vector, ir.Constant(I32, 0)), lanes)


def _lanes_op(name: str, base: str, lanes: int) -> Op:
    if base == "head":

        def typing(count: Any) -> Any:
            _need_int(count)
            return signature(mask_type(lanes), INT)

        def lowering(b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
            # Compare in 8 bits, where a register holds all lanes: the count is clamped to 0..lanes first. At least 16
            # of them, although they are cut off: LLVM takes the other bits of a mask register for zero.
            kind, wide = KINDS["i8"], max(lanes, 16)
            count = args[0]
            zero, top = ir.Constant(I64, 0), ir.Constant(I64, lanes)
            count = b.select(b.icmp_signed("<", count, zero), zero, count)
            count = b.select(b.icmp_signed(">", count, top), top, count)
            bound = LlvmLanes(b, _splat(b, kind, wide, count), kind, wide)
            mask = bound.iota(kind).compare("lt", bound).value
            if wide == lanes:
                return mask
            first = ir.Constant(ir.VectorType(I32, lanes), [ir.Constant(I32, i) for i in range(lanes)])
            return b.shuffle_vector(mask, mask, first)

        return Op(name, typing, lowering)

    def typing_spread(x: Any) -> Any:
        _need(_need_vector(x).lanes == 1, f"expected one lane, got {x.name}")
        return signature(simd_type(x.kind, lanes), x)

    return Op(name, typing_spread, lambda b, sig, args: _spread(b, args[0], lanes))


# ---- plain names --------------------------------------------------------------------------------------------------


def _plain_op(name: str) -> Op:
    typing, lowering = _PLAIN[name]
    return Op(name, typing, lowering)


def _typing_store(address: Any, value: Any) -> Any:
    _need_int(address)
    return signature(types.none, INT, _need_vector(value))


def _typing_store_masked(address: Any, value: Any, mask: Any) -> Any:
    _need_int(address)
    _need_mask(mask, _need_vector(value).lanes)
    return signature(types.none, INT, value, mask)


def _typing_store_strided(address: Any, stride: Any, value: Any, mask: Any) -> Any:
    _need_int(address, stride)
    _need_mask(mask, _need_vector(value).lanes)
    return signature(types.none, INT, INT, value, mask)


def _typing_scatter(address: Any, offsets: Any, value: Any, mask: Any) -> Any:
    _need_int(address)
    lanes = _need_vector(value).lanes
    _need(offsets is simd_type(INT64, lanes), f"expected offsets simd_i64x{lanes}, got {offsets}")
    _need_mask(mask, lanes)
    return signature(types.none, INT, offsets, value, mask)


def _lower_store_strided(b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> None:
    value = _vector(b, sig.args[2], args[2])
    memory.scatter(b, args[0], memory.strided_offsets(b, value.lanes, args[1]), value, args[3])


def _typing_load_i64(address: Any) -> Any:
    _need_int(address)
    return signature(INT, INT)


def _typing_store_i64(address: Any, value: Any) -> Any:
    _need_int(address, value)
    return signature(types.none, INT, INT)


def _typing_barrier(address: Any, threads: Any, line: Any) -> Any:
    _need_int(address, threads, line)
    return signature(types.none, INT, INT, INT)


def _typing_interrupted(line: Any) -> Any:
    _need_int(line)
    return signature(types.boolean, INT)


def _typing_select(mask: Any, yes: Any, no: Any) -> Any:
    common = _common((yes, no))
    _need_mask(mask, common.lanes)
    return signature(common, mask, yes, no)


def _lower_select(b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    common = sig.return_type
    yes, no = (_operand(b, common, t, v).value for t, v in zip(sig.args[1:], args[1:], strict=True))
    return b.select(args[0], yes, no)


def _typing_mask_to_bool(mask: Any) -> Any:
    _need_mask(mask, _need_vector(mask).lanes)
    return signature(types.boolean, mask)


def _lower_all_of(b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    inverted = ~_vector(b, sig.args[0], args[0])
    assert isinstance(inverted, LlvmLanes)
    return b.not_(inverted.any())


def _typing_lane(x: Any, k: Any) -> Any:
    _need_int(k)
    return signature(simd_type(_need_vector(x).kind, 1), x, INT)


def _lower_lane(b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    return splat_scalar(b, b.extract_element(args[0], b.trunc(args[1], I32)), 1)


def _typing_lane_i64(x: Any, k: Any) -> Any:
    _need_int(k)
    _need(not _need_vector(x).kind.floating, f"{x.name} holds no integers")
    return signature(INT, x, INT)


def _lower_lane_i64(b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    scalar = b.extract_element(args[0], b.trunc(args[1], I32))
    if scalar.type.width == 64:
        return scalar
    return (b.sext if sig.args[0].kind.signed else b.zext)(scalar, I64)


def _typing_clock() -> Any:
    return signature(INT)


def _typing_lane0(x: Any) -> Any:
    return signature(simd_type(_need_vector(x).kind, 1), x)


def _typing_opaque(x: Any) -> Any:
    return signature(_need_vector(x), x)


def _typing_concat(a: Any, b: Any) -> Any:
    _need(_need_vector(a) is b, f"operands are {a} and {b}")
    return signature(simd_type(a.kind, a.lanes * 2), a, b)


def _slide(b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value], up: bool, count: int) -> ir.Value:
    lanes = sig.args[0].lanes
    first, second = (args[1], args[0]) if up else (args[0], args[1])
    start = lanes - count if up else count
    return b.shuffle_vector(first, second, indices(range(start, start + lanes)))


_PLAIN: dict[str, tuple[Typing, Callable[..., Any]]] = {
    "store": (_typing_store, lambda b, sig, a: memory.store(b, a[0], _vector(b, sig.args[1], a[1]))),
    "store_masked": (
        _typing_store_masked,
        lambda b, sig, a: memory.store_masked(b, a[0], _vector(b, sig.args[1], a[1]), a[2]),
    ),
    "store_strided": (_typing_store_strided, _lower_store_strided),
    "scatter": (_typing_scatter, lambda b, sig, a: memory.scatter(b, a[0], a[1], _vector(b, sig.args[2], a[2]), a[3])),
    "load_i64": (_typing_load_i64, lambda b, sig, a: memory.load_i64(b, a[0])),
    "store_i64": (_typing_store_i64, lambda b, sig, a: memory.store_i64(b, a[0], a[1])),
    "barrier": (_typing_barrier, lambda b, sig, a: memory.barrier(b, a[0], a[1], a[2])),
    "interrupted": (_typing_interrupted, lambda b, sig, a: memory.interrupted(b, a[0])),
    "clock": (_typing_clock, lambda b, sig, a: memory.clock(b)),
    "select": (_typing_select, _lower_select),
    "any_of": (_typing_mask_to_bool, lambda b, sig, a: _vector(b, sig.args[0], a[0]).any()),
    "all_of": (_typing_mask_to_bool, _lower_all_of),
    "lane": (_typing_lane, _lower_lane),
    "lane0": (_typing_lane0, lambda b, sig, a: _spread(b, a[0], 1)),
    "lane_i64": (_typing_lane_i64, _lower_lane_i64),
    "opaque": (_typing_opaque, lambda b, sig, a: memory.opaque(b, a[0])),
    "concat_lanes": (
        _typing_concat,
        lambda b, sig, a: join([_vector(b, t, v) for t, v in zip(sig.args, a, strict=True)]).value,
    ),
}


def _lapack(routine: str, kind: Kind) -> tuple[Typing, Callable[..., Any]]:
    def typing(*args: Any) -> Any:
        _need_int(*args)
        _need(len(args) == lapack.FUNCTIONS[routine], f"{len(args)} arguments")
        return signature(INT, *[INT] * len(args))

    return typing, lambda b, sig, a: lapack.call(b, routine, kind, a)


_PLAIN |= {f"{name}_{kind}": _lapack(name, KINDS[kind]) for name in lapack.FUNCTIONS for kind in ("f32", "f64")}


def _slide_op(name: str) -> Op:
    up, count = table.SLIDES[name]

    def typing(x: Any, other: Any) -> Any:
        _need(_need_vector(x) is other, f"operands are {x} and {other}")
        _need(x.lanes > count, f"{x.name} has no {count} lanes to spare")
        return signature(x, x, other)

    return Op(name, typing, lambda b, sig, args: _slide(b, sig, args, up, count))


def make(name: str) -> Op:
    """The compiled form of a public name; AttributeError for a name that is not public."""
    if name in table.FUNCTIONS:
        return _table_op(name)
    if name in _PLAIN:
        return _plain_op(name)
    if name in table.SLIDES:
        return _slide_op(name)
    parsed = parse(name)
    if parsed.lanes is not None:
        if parsed.base in table.SUFFIXED and parsed.kind is not None:
            return _suffixed_op(name, parsed.base, parsed.kind, parsed.lanes)
        if parsed.base in table.LANES_ONLY and parsed.kind is None:
            return _lanes_op(name, parsed.base, parsed.lanes)
    raise AttributeError(f"scanjit.simd has no {name!r}")


_register_operators()

__all__ = ["BOOL", "I1", "Op", "make", "type_name", "vector_type"]
