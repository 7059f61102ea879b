"""The lanes that a mask chooses: their bits, how many there are, and vectors that begin with them."""

from llvmlite import ir

from .llvm_calls import I1, I8, I32, I64, call
from .llvm_lanes import LlvmLanes
from .llvm_values import overload_suffix


def lane_bits(b: ir.IRBuilder, mask: LlvmLanes) -> ir.Value:
    """A mask as the bits of an integer: the first lane is the lowest bit."""
    return _bits(b, mask.value, mask.lanes)


def first_bit(b: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """The place of the lowest bit that is set, 64 if none is."""
    return call(b, "llvm.cttz.i64", I64, [bits, I1(0)])


def count_lanes(b: ir.IRBuilder, mask: LlvmLanes) -> ir.Value:
    """How many lanes of a mask are set."""
    return _count(b, mask.value, mask.lanes)


def compress(b: ir.IRBuilder, x: LlvmLanes, mask: ir.Value) -> LlvmLanes:
    """The chosen lanes, of 32 or 64 bits, in order; what follows them is not promised.

    They stay in a register: instructions that store some lanes to consecutive elements are slow on AMD's processors.
    A store of the whole vector, the next of which begins behind the chosen lanes, is as fast as any.
    """
    target, width = b.module.target, x.lanes * x.kind.bits
    if x.lanes == 1:
        return x
    if target.has_avx512 and 128 <= width <= 512:
        name = f"llvm.x86.avx512.mask.compress.{overload_suffix(x.kind, x.lanes)}"
        return LlvmLanes(b, call(b, name, x.value.type, [x.value, x.splat(0).value, mask]), x.kind, x.lanes)
    return to_ends(b, x, mask)


def to_ends(b: ir.IRBuilder, x: LlvmLanes, mask: ir.Value) -> LlvmLanes:
    """The chosen lanes, of 32 or 64 bits, in order from the first lane on; the others from the last lane backwards, so
    that they come in the reverse of their order."""
    target, width = b.module.target, x.lanes * x.kind.bits
    if x.lanes == 1:
        return x
    if target.has_avx512 and 128 <= width <= 512:
        others = compress(b, x, b.not_(mask)).value
        backwards = ir.Constant(ir.VectorType(I32, x.lanes), [*range(x.lanes - 1, -1, -1)])
        before = b.sub(b.shl(I64(1), _count(b, mask, x.lanes)), I64(1))
        front = b.bitcast(b.trunc(before, ir.IntType(x.lanes)), mask.type)
        found = b.select(front, compress(b, x, mask).value, b.shuffle_vector(others, others, backwards))
        return LlvmLanes(b, found, x.kind, x.lanes)
    if target.is_x86 and target.has("avx2") and width == 256:
        return _permuted(b, x, mask)
    return _moved(b, x, mask)


def _moved(b: ir.IRBuilder, x: LlvmLanes, mask: ir.Value) -> LlvmLanes:
    """The same by way of memory."""
    element = x.value.type.element
    with b.goto_entry_block():
        room = b.alloca(element, size=x.lanes)
    at: ir.Value = I64(0)
    for k in range(x.lanes):
        chosen = b.extract_element(mask, I32(k))
        place = b.select(chosen, at, b.add(at, I64(x.lanes - 1 - k)))
        b.store(b.extract_element(x.value, I32(k)), b.gep(room, [place], inbounds=True))
        at = b.add(at, b.zext(chosen, I64))
    found = b.load(b.bitcast(room, x.value.type.as_pointer()))
    found.align = x.kind.size
    return LlvmLanes(b, found, x.kind, x.lanes)


def _permuted(b: ir.IRBuilder, x: LlvmLanes, mask: ir.Value) -> LlvmLanes:
    """The same with a permutation from a table, which has one of eight elements of 32 bits for each mask."""
    form, eight = ir.ArrayType(I64, 1 << x.lanes), ir.VectorType(I32, 8)
    name, width = f"scanjit.chosen.{x.lanes}", x.kind.bits // 32
    table = b.module.globals.get(name)
    if table is None:
        table = ir.GlobalVariable(b.module, form, name)
        table.initializer = ir.Constant(form, [_places(chosen, x.lanes, width) for chosen in range(1 << x.lanes)])
        table.linkage, table.global_constant = "internal", True
    places = b.load(b.gep(table, [ir.Constant(I64, 0), _bits(b, mask, x.lanes)], inbounds=True))
    places = b.zext(b.bitcast(places, ir.VectorType(I8, 8)), eight)
    moved = call(b, "llvm.x86.avx2.permd", eight, [b.bitcast(x.value, eight), places])
    return LlvmLanes(b, b.bitcast(moved, x.value.type), x.kind, x.lanes)


def _places(chosen: int, lanes: int, width: int) -> int:
    """The places of the chosen lanes and of the others, each of `width` elements, as eight bytes."""
    ordered = sorted(range(lanes), key=lambda lane: lane if chosen >> lane & 1 else 2 * lanes - lane)
    found = [lane * width + part for lane in ordered for part in range(width)]
    return int.from_bytes(bytes(found), "little", signed=True)


def _count(b: ir.IRBuilder, mask: ir.Value, lanes: int) -> ir.Value:
    return call(b, "llvm.ctpop.i64", I64, [_bits(b, mask, lanes)])


def _bits(b: ir.IRBuilder, mask: ir.Value, lanes: int) -> ir.Value:
    """A mask as the bits of an int64."""
    together = mask if lanes == 1 else b.bitcast(mask, ir.IntType(lanes))
    return together if lanes == 64 else b.zext(together, I64)
