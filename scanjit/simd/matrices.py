"""Products of small matrices in registers of their own: Intel's AMX.

There are eight registers. Each holds up to 16 rows of 64 bytes: 16 float32 or int32, or 16 packs of narrow numbers (see
`narrow`). An instruction adds to a matrix of sums the product of a left matrix, whose rows have up to 16 packs, and a
right one, which has a row of 16 columns for each pack:

    sums[row, column] += left[row, pack] * right[pack, column]    over all packs

The sizes of all registers are set beforehand, which takes as long as three products.
"""

from collections.abc import Sequence

from llvmlite import ir

from scanjit.target import MATRIX_ROW_BYTES

from .llvm_calls import I8, I64, call
from .llvm_values import internal

PACKS = MATRIX_ROW_BYTES // 4
"""How many packs a row of a left matrix holds."""
_LEFT, _RIGHT, _LAST_LEFT, _LAST_RIGHT = 4, 5, 6, 7
"""The registers of operands: those of whole matrices, and those of the last ones, which may hold fewer packs. Registers
0 to 3 hold sums."""
_PRODUCTS = {"bf16": "tdpbf16ps", "u8i8": "tdpbusd", "i8u8": "tdpbsud"}
"""The instructions, by the numbers in the packs. Integers of one of the operands have no sign: `u8`."""
_I16 = ir.IntType(16)


def begin(builder: ir.IRBuilder, rows: ir.Value, terms: ir.Value) -> None:
    """Set the sizes for left operands of 1 to 16 rows, with so many packs in each."""
    function, new = internal(builder.module, "scanjit_begin_matrices", ir.VoidType(), 2)
    if new:
        _write_begin(function)
    builder.call(function, [rows, terms])


def end(builder: ir.IRBuilder) -> None:
    """Empty the registers: while they hold something, the system saves 8 KB whenever another thread gets the core."""
    call(builder, "llvm.x86.tilerelease", ir.VoidType(), [])


def begin_sums(builder: ir.IRBuilder, count: int, sums: ir.Value, begun: ir.Value) -> None:
    """Begin so many sums: with those that lie side by side at the address `sums` (those of a row are 64 bytes for each
    right operand) if `begun` is 1, with zeros if it is 0."""
    with builder.if_else(builder.icmp_signed("==", begun, I64(0))) as (zeros, others):
        with zeros:
            for register in range(count):
                call(builder, "llvm.x86.tilezero", ir.VoidType(), [I8(register)])
        with others:
            _move_sums(builder, "tileloadd64", count, sums)


def add_products(builder: ir.IRBuilder, kind: str, operands: Sequence[ir.Value], rights: Sequence[ir.Value]) -> None:
    """Add products of one left operand and several right ones to the sums. The operands are the numbers of the first
    matrix of 16 packs and of the one behind the last, of which there may be fewer; the address of the left operand, and
    the bytes from row to row; the number of packs in each row; and the bytes between two rows of a right operand.
    `rights` are the addresses of the right ones."""
    name = f"scanjit_add_products{len(rights)}_{kind}"
    function, new = internal(builder.module, name, ir.VoidType(), len(operands) + len(rights), inline=True)
    if new:
        _write_products(function, _PRODUCTS[kind])
    builder.call(function, [*operands, *rights])


def end_sums(builder: ir.IRBuilder, count: int, sums: ir.Value) -> None:
    """Store so many sums side by side."""
    _move_sums(builder, "tilestored64", count, sums)


def _write_begin(function: ir.Function) -> None:
    b = ir.IRBuilder(function.append_basic_block("entry"))
    rows, terms = function.args
    form = ir.ArrayType(I8, 64)
    place = b.alloca(form)
    place.align = 64
    b.store(ir.Constant(form, None), place)
    start, last = b.ptrtoint(place, I64), _last(b, terms)

    def put(value: ir.Value, kind: ir.IntType, offset: int) -> None:
        b.store(b.trunc(value, kind), b.inttoptr(b.add(start, I64(offset)), kind.as_pointer())).align = 1

    put(I64(1), I8, 0)
    last_bytes = b.shl(last, I64(2))
    sizes = {
        _RIGHT: (I64(PACKS), I64(MATRIX_ROW_BYTES)),
        _LAST_LEFT: (rows, last_bytes),
        _LAST_RIGHT: (last, I64(MATRIX_ROW_BYTES)),
    }
    for register in range(8):
        height, nbytes = sizes.get(register, (rows, I64(MATRIX_ROW_BYTES)))
        put(nbytes, _I16, 16 + 2 * register)
        put(height, I8, 48 + register)
    call(b, "llvm.x86.ldtilecfg", ir.VoidType(), [b.bitcast(place, I8.as_pointer())])
    b.ret_void()


def _write_products(function: ir.Function, product: str) -> None:
    """Whole matrices are multiplied in a loop, then the last ones, which have 1 to 16 packs."""
    b = ir.IRBuilder(function.append_basic_block("entry"))
    first, stop, left, left_step, terms, right_step = function.args[:6]

    def add(lefts: int, rights: int, done: ir.Value) -> None:
        _move(b, "tileloadd64", lefts, b.add(left, b.shl(done, I64(2))), left_step)
        below = b.mul(done, right_step)
        for register, right in enumerate(function.args[6:]):
            _move(b, "tileloadd64", rights, b.add(right, below), right_step)
            call(b, f"llvm.x86.{product}", ir.VoidType(), [I8(register), I8(lefts), I8(rights)])

    whole = b.sub(terms, _last(b, terms))
    begin, wanted = b.mul(first, I64(PACKS)), b.mul(stop, I64(PACKS))
    end = b.select(b.icmp_signed("<", wanted, whole), wanted, whole)
    before, head = b.block, b.append_basic_block("head")
    body, after = b.append_basic_block("body"), b.append_basic_block("after")
    b.branch(head)
    b.position_at_end(head)
    done = b.phi(I64)
    done.add_incoming(begin, before)
    b.cbranch(b.icmp_signed("<", done, end), body, after)
    b.position_at_end(body)
    add(_LEFT, _RIGHT, done)
    done.add_incoming(b.add(done, I64(PACKS)), b.block)
    b.branch(head)
    b.position_at_end(after)
    reached = b.and_(b.icmp_signed("<=", begin, whole), b.icmp_signed(">", wanted, whole))
    with b.if_then(b.and_(reached, b.icmp_signed(">", terms, I64(0)))):
        add(_LAST_LEFT, _LAST_RIGHT, whole)
    b.ret_void()


def _move_sums(b: ir.IRBuilder, how: str, count: int, sums: ir.Value) -> None:
    for register in range(count):
        _move(b, how, register, b.add(sums, I64(MATRIX_ROW_BYTES * register)), I64(MATRIX_ROW_BYTES * count))


def _last(b: ir.IRBuilder, terms: ir.Value) -> ir.Value:
    """How many packs are left for the last matrices: 1 to 16."""
    return b.add(b.and_(b.sub(terms, I64(1)), I64(PACKS - 1)), I64(1))


def _move(b: ir.IRBuilder, how: str, register: int, address: ir.Value, step: ir.Value) -> None:
    """Load or store the rows of a register, which lie `step` bytes apart."""
    call(b, f"llvm.x86.{how}", ir.VoidType(), [I8(register), b.inttoptr(address, I8.as_pointer()), step])
