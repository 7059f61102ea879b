"""Loads and stores as LLVM instructions. Only element alignment is assumed; off lanes never touch memory."""

from collections.abc import Sequence

from llvmlite import ir

from scanjit.kinds import KINDS, Kind

from .llvm_calls import I8, I32, I64, call
from .llvm_lanes import LlvmLanes
from .llvm_values import (
    constant,
    element_type,
    indices,
    internal,
    opaque,
    overload_suffix,
    phi,
    splat_scalar,
    splat_truth,
    vector_type,
)
from .pieces import load_some, store_some

LARGEST_INLINE = 8
"""The most rows of a square block that is transposed where it is needed. A call keeps LLVM from passing rows on in
registers, takes 20 instructions of its own, and saves no others but from 16 rows on."""


def _stored(kind: Kind) -> Kind:
    """The kind that elements have in memory if lanes have this kind."""
    return KINDS[kind.moved]


def _finish(builder: ir.IRBuilder, value: ir.Value, kind: Kind, lanes: int) -> LlvmLanes:
    return LlvmLanes(builder, value, _stored(kind), lanes).cast(kind)


def _memory_form(value: LlvmLanes) -> LlvmLanes:
    return value.cast(_stored(value.kind))


def pointer(builder: ir.IRBuilder, address: ir.Value, target: ir.Type) -> ir.Value:
    """An address as a pointer to `target`. (LLVM ignores the type of what is pointed to; llvmlite asks for it.)"""
    return builder.inttoptr(address, target.as_pointer())


def load(builder: ir.IRBuilder, kind: Kind, lanes: int, address: ir.Value) -> LlvmLanes:
    """Consecutive elements."""
    stored = _stored(kind)
    value = builder.load(pointer(builder, address, vector_type(stored, lanes)))
    value.align = stored.size
    return _finish(builder, value, kind, lanes)


def load_masked(builder: ir.IRBuilder, kind: Kind, lanes: int, address: ir.Value, mask: ir.Value) -> LlvmLanes:
    """Consecutive elements where the mask is set, else 0."""
    stored = _stored(kind)
    if lanes == 1:
        before = builder.block
        with builder.if_then(mask):
            value, inside = load(builder, stored, 1, address).value, builder.block
        return _finish(builder, phi(builder, (constant(stored, 1, 0), before), (value, inside)), kind, lanes)
    if not builder.module.target.masks(stored.size):
        return _finish(builder, load_some(builder, stored, lanes, address, mask), kind, lanes)
    place = pointer(builder, address, vector_type(stored, lanes))
    operands = [place, ir.Constant(I32, stored.size), mask, constant(stored, lanes, 0)]
    name = f"llvm.masked.load.{overload_suffix(stored, lanes)}.p0"
    return _finish(builder, call(builder, name, vector_type(stored, lanes), operands), kind, lanes)


def broadcast(builder: ir.IRBuilder, kind: Kind, lanes: int, address: ir.Value) -> LlvmLanes:
    """One element in every lane."""
    stored = _stored(kind)
    scalar = builder.load(pointer(builder, address, element_type(stored)))
    scalar.align = stored.size
    if kind.is_mask:
        truth = _finish(builder, scalar, kind, 1).value
        return LlvmLanes(builder, splat_truth(builder, truth, lanes), kind, lanes)
    return _finish(builder, splat_scalar(builder, scalar, lanes), kind, lanes)


def strided_offsets(builder: ir.IRBuilder, lanes: int, stride: ir.Value) -> ir.Value:
    """0, stride, 2*stride, ... in bytes."""
    counter = LlvmLanes(builder, constant(KINDS["i64"], lanes, 0), KINDS["i64"], lanes).iota(KINDS["i64"])
    return builder.mul(counter.value, splat_scalar(builder, stride, lanes))


def _pointers(builder: ir.IRBuilder, kind: Kind, lanes: int, address: ir.Value, offsets: ir.Value) -> ir.Value:
    addresses = builder.add(splat_scalar(builder, address, lanes), offsets)
    return builder.inttoptr(addresses, ir.VectorType(element_type(kind).as_pointer(), lanes))


def gather(
    builder: ir.IRBuilder, kind: Kind, lanes: int, address: ir.Value, offsets: ir.Value, mask: ir.Value
) -> LlvmLanes:
    """Elements at ``address + offsets`` where the mask is set, else 0."""
    if lanes == 1:
        return load_masked(builder, kind, lanes, builder.add(address, offsets), mask)
    stored = _stored(kind)
    operands = [
        _pointers(builder, stored, lanes, address, offsets),
        ir.Constant(I32, stored.size),
        mask,
        constant(stored, lanes, 0),
    ]
    name = f"llvm.masked.gather.{overload_suffix(stored, lanes)}.v{lanes}p0"
    return _finish(builder, call(builder, name, vector_type(stored, lanes), operands), kind, lanes)


def load_every(
    step: int, builder: ir.IRBuilder, kind: Kind, lanes: int, address: ir.Value, mask: ir.Value
) -> LlvmLanes:
    """Every second or fourth element where the mask is set, else 0. Where a processor masks parts of loads, some loads
    and shuffles are several times as fast as a gather."""
    stored, target = _stored(kind), builder.module.target
    if lanes == 1 or stored.bits < 32 or not (target.is_x86 and target.has("avx2")):
        offsets = strided_offsets(builder, lanes, I64(step * stored.size))
        return gather(builder, kind, lanes, address, offsets, mask)
    parts, off = [], ir.Constant(mask.type, None)
    for first in range(0, step * lanes, lanes):  # the elements from here on: the first of each `step` is wanted
        chosen = [k // step if k % step == 0 else lanes for k in range(first, first + lanes)]
        place = builder.add(address, I64(first * stored.size))
        wanted = builder.shuffle_vector(mask, off, indices(chosen))
        parts.append(load_masked(builder, stored, lanes, place, wanted).value)
    evens = indices(range(0, 2 * lanes, 2))
    while len(parts) > 1:
        parts = [builder.shuffle_vector(*pair, evens) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return _finish(builder, parts[0], kind, lanes)


def load_backwards(builder: ir.IRBuilder, kind: Kind, lanes: int, address: ir.Value, mask: ir.Value) -> LlvmLanes:
    """The element at an address, and those before it, the nearest first, where the mask is set, else 0."""
    stored, turned = _stored(kind), indices(range(lanes - 1, -1, -1))
    first = builder.add(address, I64((1 - lanes) * stored.size))
    wanted = mask if lanes == 1 else builder.shuffle_vector(mask, mask, turned)
    value = load_masked(builder, stored, lanes, first, wanted).value
    value = value if lanes == 1 else builder.shuffle_vector(value, value, turned)
    return _finish(builder, value, kind, lanes)


def store(builder: ir.IRBuilder, address: ir.Value, value: LlvmLanes) -> None:
    """Consecutive elements."""
    value = _memory_form(value)
    builder.store(value.value, pointer(builder, address, value.value.type)).align = value.kind.size


def store_masked(builder: ir.IRBuilder, address: ir.Value, value: LlvmLanes, mask: ir.Value) -> None:
    """Consecutive elements where the mask is set."""
    if value.lanes == 1:
        with builder.if_then(mask):
            store(builder, address, value)
        return
    value = _memory_form(value)
    if not builder.module.target.masks(value.kind.size):
        store_some(builder, value.kind, address, value.value, mask)
        return
    if value.kind.bits < 32:
        value = _hidden_from_llvm(builder, value)
    operands = [value.value, pointer(builder, address, value.value.type), ir.Constant(I32, value.kind.size), mask]
    call(builder, f"llvm.masked.store.{overload_suffix(value.kind, value.lanes)}.p0", ir.VoidType(), operands)


def _hidden_from_llvm(builder: ir.IRBuilder, value: LlvmLanes) -> LlvmLanes:
    """The same lanes, hidden from LLVM. It would merge a truncation and a masked store: if it knows that the mask has
    one lane, into one store of four bytes."""
    bits = value.lanes * value.kind.bits
    if bits > 64:
        return LlvmLanes(builder, opaque(builder, value.value), value.kind, value.lanes)
    if not builder.module.target.is_x86:
        return value
    number = ir.IntType(bits)
    hidden = builder.asm(ir.FunctionType(number, [number]), "", "=r,0", [builder.bitcast(value.value, number)], False)
    return LlvmLanes(builder, builder.bitcast(hidden, value.value.type), value.kind, value.lanes)


def scatter(builder: ir.IRBuilder, address: ir.Value, offsets: ir.Value, value: LlvmLanes, mask: ir.Value) -> None:
    """Elements to ``address + offsets`` in the order of lanes."""
    if value.lanes == 1:
        return store_masked(builder, builder.add(address, offsets), value, mask)
    value = _memory_form(value)
    pointers = _pointers(builder, value.kind, value.lanes, address, offsets)
    operands = [value.value, pointers, ir.Constant(I32, value.kind.size), mask]
    name = f"llvm.masked.scatter.{overload_suffix(value.kind, value.lanes)}.v{value.lanes}p0"
    call(builder, name, ir.VoidType(), operands)


def load_i64(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """One 64-bit integer as a scalar."""
    value = builder.load(pointer(builder, address, I64))
    value.align = 8
    return value


def peek_i64(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """The same, where another thread may write it meanwhile: either the integer before, or the one after."""
    if builder.module.target.alone:
        return load_i64(builder, address)
    return builder.load_atomic(pointer(builder, address, I64), "monotonic", 8)


def prefetch(builder: ir.IRBuilder, address: ir.Value) -> None:
    """Fetch what lies at an address into the caches. Nothing is read, so it may be any address."""
    read, near, data = (ir.Constant(I32, number) for number in (0, 3, 1))
    call(builder, "llvm.prefetch.p0", ir.VoidType(), [pointer(builder, address, I8), read, near, data])


def store_i64(builder: ir.IRBuilder, address: ir.Value, value: ir.Value) -> None:
    """One 64-bit integer."""
    builder.store(value, pointer(builder, address, I64)).align = 8


def transpose(builder: ir.IRBuilder, kind: Kind, lanes: int, operands: Sequence[ir.Value]) -> None:
    """Copy a square block: row i is `lanes` elements at `source + i*source_step`; lane j of all rows goes to
    `target + j*target_step`. The operands are target, target_step, source, source_step (steps in bytes)."""
    builder.call(_transpose_function(builder.module, _stored(kind), lanes), operands)


def _transpose_function(module: ir.Module, kind: Kind, lanes: int) -> ir.Function:
    """The copying itself, written once in a module: blocks of 1, 2, 4... lanes change places across the diagonal."""
    name, inline = f"scanjit_transpose_{kind.name}x{lanes}", lanes <= LARGEST_INLINE
    function, new = internal(module, name, ir.VoidType(), 4, inline)
    if not new:
        return function
    b = ir.IRBuilder(function.append_basic_block("entry"))
    target, target_step, source, source_step = function.args
    rows = [load(b, kind, lanes, b.add(source, b.mul(source_step, I64(i)))).value for i in range(lanes)]
    size = 1
    while size < lanes:
        low = [lane + lanes - size if lane & size else lane for lane in range(lanes)]
        high = [lane + lanes if lane & size else lane + size for lane in range(lanes)]
        for i in (i for i in range(lanes) if not i & size):
            pair = rows[i], rows[i + size]
            rows[i], rows[i + size] = (b.shuffle_vector(*pair, indices(chosen)) for chosen in (low, high))
        size *= 2
    for i, row in enumerate(rows):
        store(b, b.add(target, b.mul(target_step, I64(i))), LlvmLanes(b, row, kind, lanes))
    b.ret_void()
    return function


def keep_branch(builder: ir.IRBuilder) -> None:
    """Nothing, but LLVM cannot move it to another side of a branch. So the branch stays."""
    builder.asm(ir.FunctionType(ir.VoidType(), []), "", "", [], True)


def clock(builder: ir.IRBuilder) -> ir.Value:
    """The time in ticks of the processor's own clock. It is nearly free to read, and has no unit."""
    name = "llvm.readcyclecounter" if builder.module.target.is_x86 else "llvm.readsteadycounter"
    return call(builder, name, I64, [])


def stack(builder: ir.IRBuilder, nbytes: ir.Value) -> ir.Value:
    """The address of `nbytes` bytes, a known number, that belong to this run of the function."""
    with builder.goto_entry_block():
        place = builder.alloca(I8, nbytes)
    place.align = 64
    return builder.ptrtoint(place, I64)
