"""`Lanes` whose operations append LLVM instructions."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from llvmlite import ir

from scanjit.kinds import KINDS, Kind, integer_of
from scanjit.target import Target

from .halves import F16, F32, converted, without_payload
from .lanes import COMPARISONS, Lanes, format_of
from .llvm_calls import I1, I32, call, declare
from .llvm_values import (
    BFloat,
    TargetModule,
    constant,
    constant_list,
    element_type,
    from_lanes,
    indices,
    one_lane,
    opaque,
    overload_suffix,
    phi,
    vector_type,
)
from .numbers import Body
from .register_masks import chosen, compared, has_register, in_register

INLINE_LIMIT = 150  # instructions that usually run: a longer function stays a call, which costs spills but not code
SLOW = "slow"  # blocks of code that is rarely run
LONGEST_TABLE = 64  # bytes: AVX2, which permutes 32 at a time, takes longer than loads for a table of more
_PAIR_SUMS: dict[int, tuple[str, str | None]] = {
    128: ("sse2.pmadd.wd", None),
    256: ("avx2.pmadd.wd", "avx2.pmadd.ub.sw"),
    512: ("avx512.pmaddw.d.512", "avx512.pmaddubs.w.512"),
}
"""For the bits of a register of x86: what adds products of pairs of 16 bits, and of 8 bits where all processors have
it."""


def outlined(
    builder: ir.IRBuilder,
    name: str,
    function: Callable[..., Lanes],
    arguments: Sequence[LlvmLanes],
    inline: bool | None = None,
) -> LlvmLanes:
    """Call `function` through an internal function of the module, which is built once.

    Ten calls of tanh in a kernel are ten lines of text to build and parse; LLVM inlines what is short.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
        Where the call goes.
    name : str
        Names the function, together with the argument types.
    function : callable
        Takes and returns `Lanes`.
    arguments : sequence of LlvmLanes
        The operands.
    inline : bool, optional
        Whether LLVM must or must not inline it; by default its length decides.
    """
    symbol = f"scanjit.{name}." + ".".join(a.type_name for a in arguments)
    module = builder.module
    found = module.globals.get(symbol)
    if found is None:
        # The result type is known only after the body is built: build it in a scratch function of the right arguments,
        # then set the type. llvmlite computes text late, so this is safe.
        found = ir.Function(module, ir.FunctionType(ir.VoidType(), [a.value.type for a in arguments]), symbol)
        found.linkage = "internal"
        body = Body(found) if module.reads_numbers else ir.IRBuilder(found.append_basic_block("entry"))
        result = function(*(LlvmLanes(body, v, a.kind, a.lanes) for v, a in zip(found.args, arguments, strict=True)))
        assert isinstance(result, LlvmLanes)
        body.ret(result.value)
        operands = body.end() if isinstance(body, Body) else set()
        found.ftype.return_type = result.value.type
        found.return_value.type = result.value.type
        found.scanjit_result = (result.kind, result.lanes)
        if inline is None:
            usual = (block.instructions for block in found.blocks if not block.name.startswith(SLOW))
            inline = sum(each not in operands and not _hides(each) for some in usual for each in some) <= INLINE_LIMIT
        found.attributes.add("alwaysinline" if inline else "noinline")
        found.attributes.add("nounwind")
    kind, lanes = found.scanjit_result
    return LlvmLanes(builder, builder.call(found, [a.value for a in arguments]), kind, lanes)


def _hides(instruction: ir.Instruction) -> bool:
    """Whether it only hides a value from LLVM, and is nothing for the processor."""
    return isinstance(instruction, ir.CallInstr) and isinstance(instruction.callee, ir.InlineAsm)


@final
class LlvmLanes(Lanes):
    """A vector value under construction.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
        Where instructions go.
    value : llvmlite.ir.Value
        The vector; masks are vectors of i1.
    kind, lanes : Kind, int
        Its type.
    """

    __slots__ = ("builder", "value")

    def __init__(self, builder: ir.IRBuilder, value: ir.Value, kind: Kind, lanes: int):
        self.builder = builder
        self.value = value
        self.kind = kind
        self.lanes = lanes

    @property
    def _target(self) -> Target:
        module: TargetModule = self.builder.module
        return module.target

    def _new(self, value: ir.Value, kind: Kind | None = None, lanes: int | None = None) -> LlvmLanes:
        return LlvmLanes(self.builder, value, kind or self.kind, lanes or self.lanes)

    def _intrinsic(self, name: str, *operands: ir.Value) -> LlvmLanes:
        full = f"llvm.{name}.{overload_suffix(self.kind, self.lanes)}"
        return self._new(call(self.builder, full, self.value.type, [self.value, *operands]))

    def splat(self, number: Any, kind: Kind | None = None) -> LlvmLanes:
        kind, b = kind or self.kind, self.builder
        if isinstance(b, Body) and b.reads(kind, self.lanes):
            return self._new(b.number(kind, self.lanes, number), kind)
        return self._new(constant(kind, self.lanes, number), kind)

    def iota(self, kind: Kind) -> LlvmLanes:
        return self._new(constant_list(kind, range(self.lanes)), kind)

    def arithmetic(self, op: str, other: LlvmLanes) -> LlvmLanes:
        b, x, y = self.builder, self.value, other.value
        if self.kind.floating:
            return self._new(getattr(b, "f" + op)(x, y))
        if op in ("shl", "shr"):
            return self._shift(op, other)
        emit = {"add": b.add, "sub": b.sub, "mul": b.mul, "and": b.and_, "or": b.or_, "xor": b.xor}[op]
        found = emit(x, y)
        if has_register(x) or has_register(y):
            found.in_register = emit(in_register(b, x), in_register(b, y))
        return self._new(found)

    def _shift(self, op: str, other: LlvmLanes) -> LlvmLanes:
        b, signed = self.builder, self.kind.signed
        emit = b.shl if op == "shl" else b.ashr if signed else b.lshr
        if isinstance(other.value, ir.Constant):  # a literal of the program: in range by inspection
            return self._new(emit(self.value, other.value))
        inside = b.icmp_unsigned("<", other.value, constant(self.kind, self.lanes, self.kind.bits))
        last = constant(self.kind, self.lanes, self.kind.bits - 1)
        if op == "shr" and signed:
            return self._new(emit(self.value, b.select(inside, other.value, last)))
        shifted = emit(self.value, b.and_(other.value, last))
        return self._new(b.select(inside, shifted, constant(self.kind, self.lanes, 0)))

    def compare(self, op: str, other: LlvmLanes) -> LlvmLanes:
        b = self.builder
        if self.kind.floating:
            emit = b.fcmp_unordered if op == "ne" else b.fcmp_ordered
        else:
            emit = b.icmp_signed if self.kind.signed else b.icmp_unsigned
        found = emit(COMPARISONS[op][0], self.value, other.value)
        if self.lanes == 1 and self.kind.floating and self._target.is_x86:
            compared(b, op, self.value, other.value, found)
        return self._new(found, KINDS["bool"])

    def unary(self, op: str) -> LlvmLanes:
        if self.kind.floating:
            if op == "neg":
                return self._new(self.builder.fneg(self.value))
            return self._intrinsic({"abs": "fabs"}.get(op, op))
        if op == "neg":
            return self._new(self.builder.neg(self.value))
        if op != "abs":
            raise TypeError(f"{op} is not defined for {self.kind.name} vectors")
        return self._intrinsic("abs", ir.Constant(I1, 0)) if self.kind.signed else self

    def fma(self, b: LlvmLanes, c: LlvmLanes) -> LlvmLanes:
        if self.kind.floating and self.fuses:
            return self._intrinsic("fma", b.value, c.value)
        product = self.arithmetic("mul", b)
        return product.arithmetic("add", c)

    @property
    def fuses(self) -> bool:
        return self._target.has_fma

    def extremum(self, op: str, b: LlvmLanes) -> LlvmLanes:
        # LLVM would join the conditions of two selections, and take those of one lane through integers.
        name = f"llvm.{op}.{overload_suffix(self.kind, self.lanes)}"
        function = declare(self.builder, name, self.value.type, [self.value.type] * 2)
        return self._new(self.builder.call(function, [self.value, b.value], fastmath=("nsz",)))

    def foreseen_extremum(self, op: str, b: LlvmLanes) -> LlvmLanes:
        if self.lanes > 1 or not self._target.is_x86:
            return self.extremum(op, b)
        # The instruction gives the second operand if either is NaN. A processor foresees whether the first one is.
        taken = self < b if op == "minimum" else self > b
        return (self == self).either(lambda: taken.choose(self, b, freely=True), lambda: self)

    def two_product(self, b: LlvmLanes) -> tuple[LlvmLanes, LlvmLanes]:
        product = self * b
        if self.fuses:
            return product, self.fma(b, -product)
        return product, product.error_as_product(self, b)

    def choose(self, yes: LlvmLanes, no: LlvmLanes, freely: bool = False) -> LlvmLanes:
        floats = yes.kind.floating and not yes.kind.is_half
        if yes.kind.is_mask:
            if self.lanes > 1:
                return (self & yes) | (~self & no)
            # LLVM would make a branch of that, too
            return no.arithmetic("xor", self.arithmetic("and", yes.arithmetic("xor", no)))
        compared = has_register(self.value)
        moved = self.lanes == 1 and not compared and self._target.is_x86 and not self._target.has_avx512
        if floats and (moved or (compared and not freely)):
            return yes._new(chosen(self.builder, self.value, yes.value, no.value))
        found = self.builder.select(self.value, yes.value, no.value)
        # LLVM makes branches of some choices, which take 15 cycles where they are hard to predict, as those of states
        # are. But whether a float is a new maximum, whose place is chosen, is easy to predict.
        if self.lanes == 1 and (floats or not compared):
            found.set_metadata("unpredictable", self.builder.module.add_metadata([]))
        return yes._new(found)

    def copysign(self, sign: LlvmLanes) -> LlvmLanes:
        return self._intrinsic("copysign", sign.value)

    def cast(self, kind: Kind) -> LlvmLanes:
        source, b = self.kind, self.builder
        if source is kind:
            return self
        if source.is_half or kind.is_half:
            return self._with_half(kind)
        target = vector_type(kind, self.lanes)
        if kind.is_mask:
            return self._new(self.compare("ne", self.splat(0)).value, kind)
        if source.floating and kind.floating:
            return self._new((b.fpext if kind.bits > source.bits else b.fptrunc)(self.value, target), kind)
        if kind.floating:
            return self._new((b.sitofp if source.signed else b.uitofp)(self.value, target), kind)
        if source.floating:
            return self._truncated(integer_of(max(kind.bits, 32))).cast(kind)
        if source.bits == kind.bits:
            return self._new(self.value, kind)
        emit = b.trunc if kind.bits < source.bits else b.sext if source.signed else b.zext
        return self._new(emit(self.value, target), kind)

    def _with_half(self, kind: Kind) -> LlvmLanes:
        """Conversions from or to a half: of float16 and float32 by instructions, where x86-64 has them."""
        b, half = self.builder, ir.HalfType() if self.lanes == 1 else ir.VectorType(ir.HalfType(), self.lanes)
        if self._target.has("f16c") and self.kind is F16:
            wide = b.fpext(b.bitcast(self.value, half), vector_type(F32, self.lanes))
            return self._new(wide, F32).cast(kind)
        if self._target.has("f16c") and self.kind is F32 and kind is F16:
            return self._new(b.fptrunc(without_payload(self).value, half), F32).bitcast(kind)
        return converted(self, kind)

    def _truncated(self, kind: Kind) -> LlvmLanes:
        """Signed integers: NaN becomes 0, and a number beyond their range becomes the nearest integer. x86-64 has no
        such instruction for vectors; LLVM's own code would convert one lane after the other."""
        b, wanted = self.builder, vector_type(kind, self.lanes)
        if self.lanes == 1 or not self._target.is_x86:
            name = f"llvm.fptosi.sat.{overload_suffix(kind, self.lanes)}.{overload_suffix(self.kind, self.lanes)}"
            return self._new(call(b, name, wanted, [self.value]), kind)
        beyond = 2.0 ** (kind.bits - 1)
        largest = float(min(np.nextafter(self.kind.dtype.type(beyond), self.kind.dtype.type(0)), beyond - 1))
        low, high, none = (constant(self.kind, self.lanes, x) for x in (-beyond, largest, 0.0))
        number = b.select(b.fcmp_ordered("==", self.value, self.value), self.value, none)
        held = b.select(b.fcmp_ordered(">", number, low), number, low)
        whole = b.fptosi(b.select(b.fcmp_ordered("<", held, high), held, high), wanted)
        if largest == beyond - 1:
            return self._new(whole, kind)
        over = b.fcmp_ordered(">=", number, constant(self.kind, self.lanes, beyond))
        return self._new(b.select(over, constant(kind, self.lanes, 2 ** (kind.bits - 1) - 1), whole), kind)

    def bitcast(self, kind: Kind) -> LlvmLanes:
        return self._new(self.builder.bitcast(self.value, vector_type(kind, self.lanes)), kind)

    def hidden(self) -> LlvmLanes:
        return self._new(opaque(self.builder, self.value))

    def part(self, start: int, stop: int) -> LlvmLanes:
        if stop - start == 1:
            return self._new(one_lane(self.builder, self.value, I32(start)), lanes=1)
        undefined = ir.Constant(self.value.type, ir.Undefined)
        return self._new(
            self.builder.shuffle_vector(self.value, undefined, indices(range(start, stop))), lanes=stop - start
        )

    def lookup(self, table: Sequence[float] | Sequence[int], kind: Kind) -> LlvmLanes:
        words = np.array(table, kind.dtype).view(self.kind.dtype).tolist()
        width, target = self.lanes * self.kind.bits, self._target
        # From a long table, loads take less time, and tables share places.
        loads = self.lanes == 1 or (len(table) * self.kind.size > LONGEST_TABLE and not target.has_avx512)
        if loads or not (target.is_x86 and target.has("avx2")):
            return self._loaded(words).bitcast(kind)
        if width > (512 if target.has_avx512 else 256):
            return join([half.lookup(table, kind) for half in self.halves()])
        if width < 256 or (
            target.has_avx512 and self.lanes < 8 and len(table) > 8
        ):  # a register holds more of the table
            return join([self, self]).lookup(table, kind).part(0, self.lanes)
        return self._permuted(words).bitcast(kind)

    def _loaded(self, words: Sequence[int]) -> LlvmLanes:
        """The words at these positions, modulo their number, from memory."""
        b, element, module = self.builder, element_type(self.kind), self.builder.module
        form = ir.ArrayType(element, len(words))
        name = f"scanjit.table.{zlib.crc32(repr((self.kind.name, *words)).encode()):08x}"
        found = module.globals.get(name)
        if found is None:
            found = ir.GlobalVariable(module, form, name)
            found.initializer = ir.Constant(form, list(words))
            found.linkage, found.global_constant = "internal", True
        places = (self & (len(words) - 1)).value
        indexed = ([ir.Constant(element, 0), one_lane(b, places, I32(k))] for k in range(self.lanes))
        return self._new(from_lanes(b, [b.load(b.gep(found, index, inbounds=True)) for index in indexed]))

    def _permuted(self, words: Sequence[int]) -> LlvmLanes:
        """The words at these positions, modulo their number, from registers; this vector has 256 or 512 bits."""
        wide_tables, suffix = self._target.has_avx512, {32: "s", 64: "d"}[self.kind.bits]
        if len(words) > (2 * self.lanes if wide_tables else 256 // self.kind.bits):
            half = len(words) // 2
            return ((self & half) != 0).choose(self._permuted(words[half:]), self._permuted(words[:half]))
        if len(words) > self.lanes:
            parts = (constant_list(self.kind, part) for part in (words[: self.lanes], words[self.lanes :]))
            name = f"llvm.x86.avx512.vpermi2var.{'d' if suffix == 's' else 'q'}.{self.lanes * self.kind.bits}"
            return self._new(call(self.builder, name, self.value.type, [next(parts), self.value, next(parts)]))
        if suffix == "d" and not wide_tables:
            # AVX2 permutes 32 bits at a time: the halves of word k are at 2k and 2k + 1
            twice = (self & (len(words) - 1)) << 1
            places = (twice | (twice << 32) | (1 << 32)).value
            halves = [half for word in words for half in (word & 0xFFFFFFFF, word >> 32 & 0xFFFFFFFF)]
            return LlvmLanes(self.builder, places, self.kind, self.lanes)._permuted_by("avx2.permd", I32, halves)
        narrow = self.lanes * self.kind.bits == 256
        name = "avx2.permd" if narrow and suffix == "s" else f"avx512.permvar.{suffix}i.{256 if narrow else 512}"
        return self._permuted_by(name, element_type(self.kind), words)

    def _permuted_by(self, name: str, element: ir.Type, words: Sequence[int]) -> LlvmLanes:
        """The instruction `name` with this vector, taken as positions of the width of `element`, and a table of words,
        which is repeated until it fills a register."""
        b, kind = self.builder, KINDS[f"i{element.width}"]
        lanes = self.lanes * self.kind.bits // kind.bits
        table = constant_list(kind, [*words] * (lanes // len(words)))
        places = b.bitcast(self.value, table.type)
        return self._new(b.bitcast(call(b, f"llvm.x86.{name}", table.type, [table, places]), self.value.type))

    def any_lane(self) -> LlvmLanes:
        return self._new(self.any(), lanes=1)

    def any(self) -> ir.Value:
        """Whether a lane of this mask is set, as i1."""
        if self.lanes == 1:
            return self.value
        return call(self.builder, f"llvm.vector.reduce.or.v{self.lanes}i1", I1, [self.value])

    @property
    def branches(self) -> bool:
        return self.lanes == 1 or not self._target.has_avx512

    def rescue(self, mask: LlvmLanes, slow: Callable[[], LlvmLanes]) -> LlvmLanes:
        b = self.builder
        needed = mask.any()
        before = b.block
        slow_block, done = b.append_basic_block(SLOW), b.append_basic_block("done")
        b.cbranch(needed, slow_block, done).set_weights([1, 1000])
        b.position_at_end(slow_block)
        rescued = mask.choose(slow(), self)
        after = b.block
        b.branch(done)
        b.position_at_end(done)
        return self._new(phi(b, (self.value, before), (rescued.value, after)))

    def either(self, usual: Callable[[], LlvmLanes], other: Callable[[], LlvmLanes]) -> LlvmLanes:
        b = self.builder
        usual_block, slow_block, done = map(b.append_basic_block, ("usual", SLOW, "done"))
        b.cbranch(self.value, usual_block, slow_block).set_weights([1000, 1])
        found: list[tuple[ir.Value, ir.Block]] = []
        for block, function in ((usual_block, usual), (slow_block, other)):
            b.position_at_end(block)
            result = function()
            found.append((result.value, b.block))
            b.branch(done)
        b.position_at_end(done)
        return result._new(phi(b, *found))

    def apart(self, name: str, function: Callable[..., Lanes]) -> LlvmLanes:
        return outlined(self.builder, name, function, [self], inline=False)

    def repeat(
        self, state: Sequence[LlvmLanes], busy: Callable[..., LlvmLanes], step: Callable[..., Sequence[LlvmLanes]]
    ) -> list[LlvmLanes]:
        b = self.builder
        before, head = b.block, b.append_basic_block("while")
        body, done = b.append_basic_block("body"), b.append_basic_block("done")
        b.branch(head)
        b.position_at_end(head)
        phis = [phi(b, (item.value, before)) for item in state]
        current = [item._new(found) for item, found in zip(state, phis, strict=True)]
        mask = busy(*current)
        b.cbranch(mask.any(), body, done)
        b.position_at_end(body)
        following = step(*current)
        for found, item in zip(phis, following, strict=True):
            found.add_incoming(item.value, b.block)
        b.branch(head)
        b.position_at_end(done)
        return current

    def divide(self, other: LlvmLanes) -> LlvmLanes:
        b = self.builder
        return self._new((b.sdiv if self.kind.signed else b.udiv)(self.value, other.value))

    def scale(self, exponent: LlvmLanes) -> LlvmLanes | None:
        if self.lanes * self.kind.bits < 128 or not self._target.has_avx512:
            return None
        return self._in_registers(512, LlvmLanes._scalef, exponent)

    def dot_pairs(self, left: LlvmLanes, right: LlvmLanes) -> LlvmLanes | None:
        target, pair = self._target, ir.VectorType(BFloat(), 2)
        if target.is_arm64 and target.has("bf16"):  # two fused multiply-adds; `bfdot` and `bfmmla` round otherwise
            second = self._dot("aarch64.neon.bfmlalt", 128, pair, left, right)
            return second._dot("aarch64.neon.bfmlalb", 128, pair, left, right)
        if not (target.has_avx512 and target.has("avx512bf16")):
            return None
        return self._dot("x86.avx512bf16.dpbf16ps.{bits}", 512, pair, left, right)

    def dot_quads(self, left: LlvmLanes, right: LlvmLanes) -> LlvmLanes | None:
        target = self._target
        if target.is_arm64 and target.multiplies_quads:
            quad = ir.VectorType(ir.IntType(8), 4)
            return self._dot("aarch64.neon.usdot.v{lanes}i32.v{bytes}i8", 128, quad, left, right)
        if not target.is_x86:
            return None
        if target.multiplies_quads:
            most = 512 if target.has_avx512 and target.has("avx512vnni") else 256
            return self._dot("x86.avx512.vpdpbusd.{bits}", most, I32, left, right)
        most = 512 if target.has_avx512 and target.has("avx512bw") else 256 if target.has("avx2") else 128
        return self._in_registers(most, LlvmLanes._plus_quads, left, right)

    def _plus_quads(self, left: LlvmLanes, right: LlvmLanes) -> LlvmLanes:
        """`dot_quads` of a register without VNNI: two bytes of a quad are widened to 16 bits, then the other two.

        (`vpmaddubsw` multiplies bytes, but keeps the sum of two products in 16 bits, which is too few. Here it
        multiplies every other byte by 1, which widens it in one instruction.)"""
        b, shorts, octets = self.builder, *(ir.VectorType(ir.IntType(n), 32 // n * self.lanes) for n in (16, 8))
        low, eight = (ir.Constant(shorts, [number] * shorts.count) for number in (0xFF, 8))
        x, y = (b.bitcast(operand.value, shorts) for operand in (left, right))
        add, widen = _PAIR_SUMS[32 * self.lanes]
        if widen is None:
            even = b.ashr(b.shl(y, eight), eight)
        else:
            every_other = ir.Constant(octets, [1, 0] * shorts.count)
            even = call(b, f"llvm.x86.{widen}", shorts, [every_other, b.bitcast(right.value, octets)])
        first, second = (
            self._new(call(b, f"llvm.x86.{add}", self.value.type, pair))
            for pair in ((b.and_(x, low), even), (b.lshr(x, eight), b.ashr(y, eight)))
        )
        return self + (first + second)

    def _dot(self, name: str, most: int, lane: ir.Type, left: LlvmLanes, right: LlvmLanes) -> LlvmLanes:
        """An instruction that adds products of parts of lanes, for registers of 128 to `most` bits. LLVM wants its
        operands as vectors of the elements of `lane`."""
        part, count = (lane.element, lane.count) if isinstance(lane, ir.VectorType) else (lane, 1)

        def made(total: LlvmLanes, *operands: LlvmLanes) -> LlvmLanes:
            b, width, form = total.builder, total.lanes * total.kind.bits, ir.VectorType(part, count * total.lanes)
            values = [total.value, *(b.bitcast(x.value, form) for x in operands)]
            named = name.format(bits=width, lanes=total.lanes, bytes=width // 8)
            return total._new(call(b, f"llvm.{named}", total.value.type, values))

        return self._in_registers(most, made, left, right)

    def _in_registers(self, most: int, make: Callable[..., LlvmLanes], *others: LlvmLanes) -> LlvmLanes:
        """What `make` makes of vectors that fill registers of 128 to `most` bits."""
        width = self.lanes * self.kind.bits
        if width > most:
            halves = zip(*(x.halves() for x in (self, *others)), strict=True)
            return join([a._in_registers(most, make, *rest) for a, *rest in halves])
        if width < 128:  # one lane is computed as all are
            twice = [join([x, x]) for x in (self, *others)]
            return twice[0]._in_registers(most, make, *twice[1:]).part(0, self.lanes)
        return make(self, *others)

    def _scalef(self, exponent: LlvmLanes) -> LlvmLanes:
        width = self.lanes * self.kind.bits
        mask = ir.Constant(ir.IntType(max(self.lanes, 8)), -1)
        operands = [self.value, exponent.value, self.value, mask]
        if width == 512:
            operands.append(ir.Constant(I32, 4))  # the rounding mode of the thread
        name = f"llvm.x86.avx512.mask.scalef.p{format_of(self).letter}.{width}"
        return self._new(call(self.builder, name, self.value.type, operands))


def join(parts: Sequence[LlvmLanes]) -> LlvmLanes:
    """Concatenate vectors of one type; their number is a power of two."""
    if len(parts) == 1:
        return parts[0]
    if parts[0].lanes == 1:
        return parts[0]._new(from_lanes(parts[0].builder, [part.value for part in parts]), lanes=len(parts))
    while len(parts) > 1:
        lanes = parts[0].lanes * 2
        parts = [
            a._new(a.builder.shuffle_vector(a.value, b.value, indices(range(lanes))), lanes=lanes)
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]
