"""Masks of one lane in vector registers, for x86.

With AVX-512, LLVM makes a bit of the comparison of two floats. To select a float by bits that were joined, it moves
them through an integer register and a register of masks. This takes ten cycles, for which the next step of a recurrence
waits. In a vector register, each operation takes one. So a mask has both forms, of which LLVM drops what nobody uses:
the bit is the value, and `in_register` is an attribute of it.

Without AVX-512, LLVM makes branches of it to select several floats by one comparison, or a float by a comparison of
integers. A branch takes 15 cycles where it is hard to predict. So masks have both forms there, too, except those that
loops carry; where a mask has no form in a vector register, its bit is moved there.
"""

from llvmlite import ir

from .llvm_calls import F64, I1, I8, I32, I64, call

IN_REGISTER = ir.VectorType(I64, 2)
"""The type of the mask. In its first lane all bits are set, or none."""
_CODES = {"eq": 0, "lt": 1, "le": 2, "ne": 4}
"""What x86 calls the comparisons that it has."""
_SWAPPED = {"gt": "lt", "ge": "le"}


def has_register(mask: ir.Value) -> bool:
    """Whether a mask of one lane has its form in a vector register."""
    return hasattr(mask, "in_register")


def in_register(builder: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    """A mask in a vector register: the form that it has, or one that is made of its bit."""
    return mask.in_register if has_register(mask) else builder.sext(_first_of(builder, mask, 2), IN_REGISTER)


def compared(builder: ir.IRBuilder, op: str, x: ir.Value, y: ir.Value, bit: ir.Value) -> None:
    """Give the result of a comparison of two floats its form in a vector register. If LLVM finds that both floats are
    constants, it makes this of the bit: it does not know what the instruction does."""
    lanes = _lanes(x)
    constant = [call(builder, f"llvm.is.constant.f{128 // lanes}", I1, [each]) for each in (x, y)]
    a, b = (_first_of(builder, each, lanes) for each in ((y, x) if op in _SWAPPED else (x, y)))
    name = "sse2.cmp.sd" if lanes == 2 else "sse.cmp.ss"
    found = call(builder, f"llvm.x86.{name}", a.type, [a, b, I8(_CODES[_SWAPPED.get(op, op)])])
    if lanes == 4:
        found = builder.shuffle_vector(found, found, ir.Constant(ir.VectorType(I32, 4), [0] * 4))
    found = builder.bitcast(found, IN_REGISTER)
    bit.in_register = builder.select(builder.and_(*constant), in_register(builder, bit), found)


def chosen(builder: ir.IRBuilder, mask: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
    """One of two floats."""
    lanes, held = _lanes(yes), in_register(builder, mask)
    a, b = (_first_of(builder, each, lanes) for each in (yes, no))
    if builder.module.target.has_avx512:
        a, b = (builder.bitcast(each, IN_REGISTER) for each in (a, b))
        found = builder.or_(builder.and_(held, a), builder.and_(builder.not_(held), b))
        found = builder.bitcast(found, ir.VectorType(yes.type, lanes))
    else:
        bits = builder.bitcast(held, ir.VectorType(ir.IntType(128 // lanes), lanes))
        found = builder.select(builder.icmp_signed("<", bits, ir.Constant(bits.type, [0] * lanes)), a, b)
    return builder.extract_element(found, I32(0))


def _first_of(builder: ir.IRBuilder, scalar: ir.Value, lanes: int) -> ir.Value:
    """A vector whose first lane is this scalar."""
    return builder.insert_element(ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined), scalar, I32(0))


def _lanes(x: ir.Value) -> int:
    """How many floats of this type a register of 128 bits holds."""
    return 2 if x.type == F64 else 4
