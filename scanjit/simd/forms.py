"""Functions on vectors that are not arithmetic: loads, stores, casts, masks, single lanes, meetings of threads.

`FORMS` is a table. A row says in words what a function takes and gives, and how it becomes instructions.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from llvmlite import ir

from scanjit.kinds import KINDS

from . import chosen, lapack, matrices, memory, narrow, sharing, table
from .llvm_calls import I32, I64
from .llvm_lanes import LlvmLanes, join
from .llvm_values import indices, one_lane, opaque, splat_scalar, splat_truth
from .operands import common, is_number, need, need_mask, need_vector, operand, splat
from .types import BOOL, FLOAT, INT, NOTHING, Signature, SimdType, mask_type, simd_type

Typing = Callable[..., Signature]
Lowering = Callable[[ir.IRBuilder, Any, Sequence[ir.Value]], ir.Value]


class Form(NamedTuple):
    """What a function takes and gives, and how it becomes instructions.

    The *type* of a call is the vector type in the function's name (`load_f32x8`), or else that of its first vector
    (`store`). In names such as `head_x8`, which say the lanes only, it is a mask.

    Attributes
    ----------
    takes : a word for each argument: an "int"; a "mask" with as many lanes as the type; "offsets", int64 in as many
        lanes; "packed", int32 in as many lanes; the "same" type; any "vector".
    gives : a word for the result: "nothing", an "int", a "bool", a "mask", the "same" type, "one" lane of it, or
        "twice" its lanes.
    lower : a function of the builder, the type and the operands. It returns the result. Vectors are `LlvmLanes`, other
        operands are values of LLVM's.
    check : raises a TypeError if the type and the types of the arguments do not go together.
    """

    takes: str
    gives: str
    lower: Callable[..., Any]
    check: Callable[..., None] = lambda type_, *args: None

    def typed(self, named: SimdType | None) -> Typing:
        """The typing of a function: from the types of its arguments to the signature of the call."""
        words = self.takes.split()

        def typing(*args: Any) -> Any:
            need(len(args) == len(words), f"takes {len(words)} arguments, got {len(args)}")
            type_ = _type_of(words, args, named)
            for word, given in zip(words, args, strict=True):
                _check(word, given, type_)
            self.check(type_, *args)
            return Signature(_RESULTS[self.gives](type_), args)

        return typing

    def lowered(self, named: SimdType | None) -> Lowering:
        """The lowering of a function, which writes the instructions of a call."""
        words = self.takes.split()

        def lowering(builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
            operands = [
                LlvmLanes(builder, value, given.kind, given.lanes) if word in ("vector", "same", "packed") else value
                for word, given, value in zip(words, sig.args, args, strict=True)
            ]
            result = self.lower(builder, _type_of(words, sig.args, named), *operands)
            return result.value if isinstance(result, LlvmLanes) else result

        return lowering


def _type_of(words: Sequence[str], args: Sequence[Any], named: SimdType | None) -> Any:
    """The type of a call (see `Form`). None for a call without vectors."""
    return named or next((given for word, given in zip(words, args, strict=True) if word == "vector"), None)


def _check(word: str, given: Any, type_: Any) -> None:
    """Raise a TypeError unless an argument is of the type that a word of a form names."""
    if word == "int":
        need(given is INT, f"expected an integer, got {given}")
    elif word == "vector":
        need_vector(given)
    elif word == "mask":
        need_mask(given, need_vector(type_).lanes)
    else:
        kind = {"offsets": "i64", "packed": "i32"}.get(word)
        wanted = type_ if kind is None else simd_type(KINDS[kind], need_vector(type_).lanes)
        need(given is wanted, f"expected {wanted}, got {given}")


_RESULTS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda type_: NOTHING,
    "int": lambda type_: INT,
    "bool": lambda type_: BOOL,
    "mask": lambda type_: mask_type(type_.lanes),
    "same": lambda type_: type_,
    "one": lambda type_: simd_type(type_.kind, 1),
    "twice": lambda type_: simd_type(type_.kind, 2 * type_.lanes),
}


# ---- instructions ----------------------------------------------------------------------------------------------------


def _iota(b: ir.IRBuilder, type_: SimdType, start: ir.Value) -> LlvmLanes:
    first = LlvmLanes(b, splat(b, type_.kind, type_.lanes, start), type_.kind, type_.lanes)
    return first.arithmetic("add", first.iota(type_.kind))


def _head(b: ir.IRBuilder, type_: SimdType, count: ir.Value) -> ir.Value:
    """A mask of the first `count` lanes.

    The comparison is made in 8 bits, where one register holds all lanes, so the count is first clamped to 0..lanes. It
    is made in 16 lanes at least, and the rest is cut off: LLVM takes the other bits of a mask register for zero.
    """
    kind, lanes, wide = KINDS["i8"], type_.lanes, max(type_.lanes, 16)
    if lanes == 1:
        return b.icmp_signed(">", count, I64(0))
    zero, top = ir.Constant(I64, 0), ir.Constant(I64, lanes)
    count = b.select(b.icmp_signed("<", count, zero), zero, count)
    count = b.select(b.icmp_signed(">", count, top), top, count)
    bound = LlvmLanes(b, splat(b, kind, wide, count), kind, wide)
    mask = bound.iota(kind).compare("lt", bound).value
    if wide == lanes:
        return mask
    first = ir.Constant(ir.VectorType(I32, lanes), [ir.Constant(I32, i) for i in range(lanes)])
    return b.shuffle_vector(mask, mask, first)


def _load_strided(b: ir.IRBuilder, type_: SimdType, address: ir.Value, stride: ir.Value, mask: ir.Value) -> LlvmLanes:
    offsets = memory.strided_offsets(b, type_.lanes, stride)
    return memory.gather(b, type_.kind, type_.lanes, address, offsets, mask)


def _store_strided(
    b: ir.IRBuilder, type_: SimdType, address: ir.Value, stride: ir.Value, value: LlvmLanes, mask: ir.Value
) -> None:
    memory.scatter(b, address, memory.strided_offsets(b, type_.lanes, stride), value, mask)


def _lane(b: ir.IRBuilder, type_: SimdType, x: LlvmLanes, k: ir.Value) -> ir.Value:
    return one_lane(b, x.value, b.trunc(k, I32))


def _lane_i64(b: ir.IRBuilder, type_: SimdType, x: LlvmLanes, k: ir.Value) -> ir.Value:
    scalar = one_lane(b, x.value, b.trunc(k, I32))
    if scalar.type.width == 64:
        return scalar
    return (b.sext if x.kind.signed else b.zext)(scalar, I64)


def _first_in_all(b: ir.IRBuilder, x: LlvmLanes, lanes: int) -> ir.Value:
    """The first lane of a vector in every lane of another one."""
    return (splat_truth if x.kind.is_mask else splat_scalar)(b, one_lane(b, x.value, I32(0)), lanes)


def _shuffle(lanes: Callable[[int], list[int]], b: ir.IRBuilder, type_: SimdType, *both: LlvmLanes) -> ir.Value:
    chosen = lanes(type_.lanes)
    return b.shuffle_vector(*(x.value for x in both), indices(chosen)) if len(chosen) > 1 else both[chosen[0]].value


# ---- what goes together ----------------------------------------------------------------------------------------------


def _check_bitcast(type_: SimdType, x: SimdType) -> None:
    need(not x.kind.is_mask and not type_.kind.is_mask, "masks have no bits in memory; cast them")
    need(x.lanes == type_.lanes and x.kind.bits == type_.kind.bits, f"{x.name} has other lanes")


def _check_shuffle(fewest: int, type_: SimdType, *_: SimdType) -> None:
    need(type_.lanes >= fewest, f"{type_.name} has fewer than {fewest} lanes")


def _check_mask(type_: SimdType, mask: SimdType) -> None:
    need_mask(mask, type_.lanes)


def _only(*kinds: str) -> Callable[..., None]:
    """A check that elements are of one of these kinds."""
    return lambda type_, *args: need(type_.kind.name in kinds, f"not defined for {type_.kind.name}")


# ---- the table -------------------------------------------------------------------------------------------------------

_of_words = _only("i32", "i64", "f32", "f64")
FORMS: dict[str, Form] = {
    # of the type in their names
    "load": Form("int", "same", lambda b, t, at: memory.load(b, t.kind, t.lanes, at)),
    "load_masked": Form("int mask", "same", lambda b, t, *args: memory.load_masked(b, t.kind, t.lanes, *args)),
    "broadcast": Form("int", "same", lambda b, t, at: memory.broadcast(b, t.kind, t.lanes, at)),
    "load_strided": Form("int int mask", "same", _load_strided),
    "load_every_second": Form("int mask", "same", lambda b, t, *args: memory.load_every(2, b, t.kind, t.lanes, *args)),
    "load_every_fourth": Form("int mask", "same", lambda b, t, *args: memory.load_every(4, b, t.kind, t.lanes, *args)),
    "load_backwards": Form("int mask", "same", lambda b, t, *args: memory.load_backwards(b, t.kind, t.lanes, *args)),
    "gather": Form("int offsets mask", "same", lambda b, t, *args: memory.gather(b, t.kind, t.lanes, *args)),
    "transpose": Form("int int int int", "nothing", lambda b, t, *args: memory.transpose(b, t.kind, t.lanes, args)),
    "iota": Form("int", "same", _iota, _only("i8", "i16", "i32", "i64", "u8")),
    "cast": Form(
        "vector",
        "same",
        lambda b, t, x: x.cast(t.kind),
        lambda t, x: need(x.lanes == t.lanes, f"{x.name} has not {t.lanes} lanes"),
    ),
    "bitcast": Form("vector", "same", lambda b, t, x: x.bitcast(t.kind), _check_bitcast),
    # of so many lanes
    "head": Form("int", "mask", _head),
    # of the type of their first vector
    "store": Form("int vector", "nothing", lambda b, t, *args: memory.store(b, *args)),
    "store_masked": Form("int vector mask", "nothing", lambda b, t, *args: memory.store_masked(b, *args)),
    "store_strided": Form("int int vector mask", "nothing", _store_strided),
    "scatter": Form("int offsets vector mask", "nothing", lambda b, t, *args: memory.scatter(b, *args)),
    "any_of": Form("vector", "bool", lambda b, t, mask: mask.any(), _check_mask),
    "all_of": Form("vector", "bool", lambda b, t, mask: b.not_((~mask).any()), _check_mask),
    "count_lanes": Form("vector", "int", lambda b, t, mask: chosen.count_lanes(b, mask), _check_mask),
    "lane_bits": Form("vector", "int", lambda b, t, mask: chosen.lane_bits(b, mask), _check_mask),
    "compress": Form("vector mask", "same", lambda b, t, *args: chosen.compress(b, *args), _of_words),
    "to_ends": Form("vector mask", "same", lambda b, t, *args: chosen.to_ends(b, *args), _of_words),
    "lane": Form("vector int", "one", _lane),
    "lane0": Form("vector", "one", lambda b, t, x: _first_in_all(b, x, 1)),
    "lane_i64": Form(
        "vector int", "int", _lane_i64, lambda t, x, k: need(not x.kind.floating, f"{x.name} holds no integers")
    ),
    "concat_lanes": Form("vector same", "twice", lambda b, t, *parts: join(parts)),
    "dot_bf16": Form("vector packed packed", "same", lambda b, t, *args: narrow.dot_bf16(*args), _only("f32")),
    "dot_apart": Form("vector same same packed", "same", lambda b, t, *args: narrow.dot_apart(*args), _only("f32")),
    "dot_i8": Form("vector packed packed", "same", lambda b, t, *args: narrow.dot_i8(*args), _only("i32")),
    "opaque": Form("vector", "same", lambda b, t, x: opaque(b, x.value)),
    # without vectors
    "first_bit": Form("int", "int", lambda b, t, bits: chosen.first_bit(b, bits)),
    "load_i64": Form("int", "int", lambda b, t, at: memory.load_i64(b, at)),
    "store_i64": Form("int int", "nothing", lambda b, t, *args: memory.store_i64(b, *args)),
    "report": Form("int int", "nothing", lambda b, t, *args: memory.store_i64(b, *args)),
    "peek_i64": Form("int", "int", lambda b, t, at: memory.peek_i64(b, at)),
    "prefetch": Form("int", "nothing", lambda b, t, at: memory.prefetch(b, at)),
    "barrier": Form("int int int int", "nothing", lambda b, t, *args: sharing.barrier(b, *args)),
    "first_share": Form("int " * 5, "int", lambda b, t, *args: sharing.first_share(b, *args)),
    "next_share": Form("int " * 5, "int", lambda b, t, *args: sharing.next_share(b, *args)),
    "wait_for_first": Form("int int int int", "nothing", lambda b, t, *args: sharing.wait_for_first(b, *args)),
    "first_piece": Form("int " * 8, "int", lambda b, t, *args: sharing.first_piece(b, *args)),
    "piece_end": Form("int", "int", lambda b, t, line: sharing.piece_end(b, line)),
    "next_piece": Form("int", "int", lambda b, t, line: sharing.next_piece(b, line)),
    "interrupted": Form("int", "bool", lambda b, t, line: sharing.interrupted(b, line)),
    "interrupted_at": Form("int int int int", "bool", lambda b, t, *args: sharing.interrupted(b, *args)),
    "begin_loop": Form("int int int", "nothing", lambda b, t, *args: sharing.begin_loop(b, *args)),
    "count_steps": Form("int int", "nothing", lambda b, t, *args: sharing.count_steps(b, *args)),
    "end_loop": Form("int", "nothing", lambda b, t, line: sharing.end_loop(b, line)),
    "keep_branch": Form("", "nothing", lambda b, t: memory.keep_branch(b)),
    "clock": Form("", "int", lambda b, t: memory.clock(b)),
    "pause": Form("", "nothing", lambda b, t: sharing.pause(b)),
    "begin_matrices": Form("int int", "nothing", lambda b, t, *args: matrices.begin(b, *args)),
    "end_matrices": Form("", "nothing", lambda b, t: matrices.end(b)),
    "stack": Form("int", "int", lambda b, t, nbytes: memory.stack(b, nbytes)),
}
"""By name, without the suffix that says a type."""
FORMS |= {
    f"{name}_{kind}": Form(
        "int " * lapack.arity(name),
        "int",
        lambda b, t, *args, name=name, kind=kind: lapack.call(b, name, KINDS[kind], args),
    )
    for name in table.LAPACK
    for kind in ("f32", "f64")
}
FORMS |= {
    name: Form(
        "int " * (6 + count),
        "nothing",
        lambda b, t, *args, name=name: matrices.add_products(b, name.rpartition("_")[2], args[:6], args[6:]),
    )
    for name, count in table.MATRICES.items()
}
FORMS |= {
    f"begin_sums{n}": Form("int int", "nothing", lambda b, t, *args, n=n: matrices.begin_sums(b, n, *args))
    for n in range(1, 5)
}
FORMS |= {
    f"end_sums{n}": Form("int", "nothing", lambda b, t, sums, n=n: matrices.end_sums(b, n, sums)) for n in range(1, 5)
}
FORMS |= {
    name: Form("vector same", "same", partial(_shuffle, lanes), partial(_check_shuffle, fewest))
    for name, (fewest, lanes) in table.SHUFFLES.items()
}


# ---- those that take numbers, and a spread, whose result has another type than its operand ---------------------------


def select_typing(mask: Any, yes: Any, no: Any) -> Any:
    """The signature of `select`: of the two values, one may be a number."""
    type_ = common((yes, no))
    need_mask(mask, type_.lanes)
    return Signature(type_, (mask, yes, no))


def select_lowering(b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value], freely: bool = False) -> ir.Value:
    """The instructions of `select`; and of `select_freely`, of which LLVM may make a branch or an extremum."""
    mask, pair = sig.args[0], zip(sig.args[1:], args[1:], strict=True)
    yes, no = (operand(b, sig.result, type_, value) for type_, value in pair)
    return operand(b, mask, mask, args[0]).choose(yes, no, freely).value


def splat_typing(type_: SimdType, value: Any) -> Any:
    """The signature of `splat`: it takes a number, or one lane."""
    kind = type_.kind
    if value is not simd_type(kind, 1):
        need(is_number(value), f"expected a number or a vector of one {kind.name}, got {value}")
        need(kind.floating or value is not FLOAT, f"a float for {kind.name} lanes")
    return Signature(type_, (value,))


def spread_typing(lanes: int, x: Any) -> Any:
    """The signature of `spread`: it takes one lane of any kind."""
    need(need_vector(x).lanes == 1, f"expected one lane, got {x}")
    return Signature(simd_type(x.kind, lanes), (x,))


def splat_lowering(b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    """The instructions of `splat` and `spread`."""
    type_, (given,), (value,) = sig.result, sig.args, args
    if isinstance(given, SimdType):
        return _first_in_all(b, LlvmLanes(b, value, given.kind, 1), type_.lanes)
    return splat(b, type_.kind, type_.lanes, value)
