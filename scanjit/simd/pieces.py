"""Loads and stores of some lanes of a vector where no instruction masks them: LLVM would branch at each lane.

If the mask has all lanes, that is a plain load or store. If it has the first lanes alone, as at the end of a row, they
are moved in pieces, each twice as long as the next one: 13 bytes are 8, 4 and 1. Other lanes are moved one by one.
"""

from collections.abc import Callable

from llvmlite import ir

from scanjit.kinds import Kind

from .llvm_calls import I64, call
from .llvm_values import element_type, indices, phi, vector_type

WORD = 8
"""Pieces of at most so many bytes are integers; longer ones are vectors of integers of so many bytes."""


def load_some(builder: ir.IRBuilder, kind: Kind, lanes: int, address: ir.Value, mask: ir.Value) -> ir.Value:
    """Consecutive elements where the mask is set, else 0."""
    form = vector_type(kind, lanes)
    function = _function(builder.module, "load", kind, lanes, form, [])
    whole, some = _by_mask(
        builder,
        mask,
        lambda: _load(builder, form, address, kind.size),
        lambda bits: builder.call(function, [address, bits]),
    )
    return phi(builder, whole, some)


def store_some(builder: ir.IRBuilder, kind: Kind, address: ir.Value, value: ir.Value, mask: ir.Value) -> None:
    """Consecutive elements where the mask is set."""
    function = _function(builder.module, "store", kind, value.type.count, ir.VoidType(), [value.type])
    _by_mask(
        builder,
        mask,
        lambda: _store(builder, value, address, kind.size),
        lambda bits: builder.call(function, [address, bits, value]),
    )


def _by_mask(
    b: ir.IRBuilder, mask: ir.Value, whole: Callable[[], ir.Value], some: Callable[[ir.Value], ir.Value]
) -> list[tuple[ir.Value, ir.Block]]:
    """Branch: what to do with all lanes, and with some of them, whose bits are given. Returns both results, each with
    its block."""
    number = ir.IntType(mask.type.count)
    bits = b.bitcast(mask, number)
    found = []
    with b.if_else(b.icmp_unsigned("==", bits, number(-1))) as (all_lanes, some_lanes):
        with all_lanes:
            found.append((whole(), b.block))
        with some_lanes:
            found.append((some(b.zext(bits, I64)), b.block))
    return found


def _function(
    module: ir.Module, what: str, kind: Kind, lanes: int, result: ir.Type, more: list[ir.Type]
) -> ir.Function:
    """The function that moves some lanes, but not all. It exists once in a module."""
    name = f"scanjit_{what}_some_{kind.name}x{lanes}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(result, [I64, I64, *more]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    address, bits = function.args[:2]
    form = vector_type(kind, lanes)
    place = b.alloca(form)
    b.store(function.args[2] if more else ir.Constant(form, None), place)
    first = b.icmp_unsigned("==", b.and_(bits, b.add(bits, I64(1))), I64(0))
    with b.if_then(first):
        nbytes = b.mul(call(b, "llvm.ctpop.i64", I64, [bits]), I64(kind.size))
        sizes = [kind.size << k for k in range(lanes.bit_length() - 1)]
        if more:
            _store_pieces(b, function.args[2], address, nbytes, sizes)
            b.ret_void()
        else:
            b.ret(b.bitcast(_load_pieces(b, address, nbytes, sizes), form))
    near = b.ptrtoint(place, I64)
    _one_by_one(b, kind, bits, *((near, address) if more else (address, near)))
    if more:
        b.ret_void()
    else:
        b.ret(b.load(place))
    return function


def _load_pieces(b: ir.IRBuilder, address: ir.Value, nbytes: ir.Value, sizes: list[int]) -> ir.Value:
    """The first bytes at an address. The last piece is the shortest one: it comes first, and moves up when another one
    comes in front of it."""
    found: ir.Value = ir.Constant(_form(sizes[0]), None)
    for size in sizes:
        alone, before = _pair(b, found, ir.Constant(_form(size), None), size), b.block
        with b.if_then(_has(b, nbytes, size)):
            piece = _load(b, _form(size), _place(b, address, nbytes, size), sizes[0])
            both, inside = _pair(b, piece, found, size), b.block
        found = phi(b, (alone, before), (both, inside))
    return found


def _store_pieces(b: ir.IRBuilder, value: ir.Value, address: ir.Value, nbytes: ir.Value, sizes: list[int]) -> None:
    """Store the first bytes of a vector."""
    left = b.bitcast(value, _form(2 * sizes[-1]))
    for size in reversed(sizes):
        low, high = _halves(b, left, size)
        has = _has(b, nbytes, size)
        with b.if_then(has):
            _store(b, low, _place(b, address, nbytes, size), sizes[0])
        left = b.select(has, high, low)


def _one_by_one(b: ir.IRBuilder, kind: Kind, bits: ir.Value, source: ir.Value, target: ir.Value) -> None:
    """Copy the elements whose bits are set. There is at least one."""
    before, loop = b.block, b.append_basic_block("loop")
    b.branch(loop)
    b.position_at_end(loop)
    left = b.phi(I64)
    offset = b.mul(call(b, "llvm.cttz.i64", I64, [left, ir.Constant(ir.IntType(1), 1)]), I64(kind.size))
    element = _load(b, element_type(kind), b.add(source, offset), kind.size)
    _store(b, element, b.add(target, offset), kind.size)
    following = b.and_(left, b.sub(left, I64(1)))
    left.add_incoming(bits, before)
    left.add_incoming(following, loop)
    done = b.append_basic_block("done")
    b.cbranch(b.icmp_unsigned("!=", following, I64(0)), loop, done)
    b.position_at_end(done)


# ---- bytes -----------------------------------------------------------------------------------------------------------


def _form(size: int) -> ir.Type:
    """The type of so many bytes."""
    return ir.IntType(8 * size) if size <= WORD else ir.VectorType(I64, size // WORD)


def _has(b: ir.IRBuilder, nbytes: ir.Value, size: int) -> ir.Value:
    """Whether a piece of a size is one of those that so many bytes consist of."""
    return b.icmp_unsigned("!=", b.and_(nbytes, I64(size)), I64(0))


def _place(b: ir.IRBuilder, address: ir.Value, nbytes: ir.Value, size: int) -> ir.Value:
    """The address of this piece: longer ones come before it."""
    return b.add(address, b.and_(nbytes, I64(-2 * size)))


def _pair(b: ir.IRBuilder, low: ir.Value, high: ir.Value, size: int) -> ir.Value:
    """Two pieces of a size as one of twice the size."""
    form = _form(2 * size)
    if size < WORD:
        return b.or_(b.zext(low, form), b.shl(b.zext(high, form), form(8 * size)))
    if size == WORD:
        first = b.insert_element(ir.Constant(form, ir.Undefined), low, ir.IntType(32)(0))
        return b.insert_element(first, high, ir.IntType(32)(1))
    return b.shuffle_vector(low, high, indices(range(form.count)))


def _halves(b: ir.IRBuilder, value: ir.Value, size: int) -> tuple[ir.Value, ir.Value]:
    """The opposite of `_pair`."""
    if size < WORD:
        form = _form(size)
        return b.trunc(value, form), b.trunc(b.lshr(value, value.type(8 * size)), form)
    if size == WORD:
        return b.extract_element(value, ir.IntType(32)(0)), b.extract_element(value, ir.IntType(32)(1))
    half = size // WORD
    low, high = (b.shuffle_vector(value, value, indices(range(k, k + half))) for k in (0, half))
    return low, high


def _load(b: ir.IRBuilder, form: ir.Type, address: ir.Value, align: int) -> ir.Value:
    found = b.load(b.inttoptr(address, form.as_pointer()))
    found.align = align
    return found


def _store(b: ir.IRBuilder, value: ir.Value, address: ir.Value, align: int) -> ir.Value:
    found = b.store(value, b.inttoptr(address, value.type.as_pointer()))
    found.align = align
    return found
