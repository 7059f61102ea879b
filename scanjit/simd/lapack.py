"""Calls of LAPACK and BLAS in generated code.

Fortran takes everything by address. Its integers have 32 or 64 bits, depending on how the library was built. The same
code is right for both: an integer is put into a slot of 64 bits, whose low half, read as 32 bits, is the same number
(all machines that kernels are made for are little-endian); and a slot for a result is 0 before the call. Only an array
of integers depends on their size: see `getrf`. After all of these come the lengths of the letters, which some compilers
of Fortran pass.

The symbols are our own. Whoever loads the code gives them addresses (`scanjit.runtime.lapack`).
"""

from collections.abc import Sequence

from llvmlite import ir

from scanjit.kinds import Kind

from .lanes import FORMATS
from .llvm_lanes import element_type
from .table import LAPACK

I8, I64 = ir.IntType(8), ir.IntType(64)
PREFIX = "scanjit_lapack_"
ROUTINES = tuple(letter + name for letter in "sd" for name in LAPACK)
"""What is called, by its name in Fortran."""
FUNCTIONS = {"potrf": 4, "getrf": 5, "geqrf": 7, "ormqr": 11, "syevd": 8, "gesdd": 12, "trsm": 10, "gemm": 11}
"""The names in generated code (followed by `_f32` or `_f64`), and the numbers of arguments, all integers:

- `info = potrf(upper, n, a, step)`: Cholesky factor of columns, in place; `info` is 0 if there is one;
- `info = getrf(m, n, a, step, pivots)`: LU factors of n columns of m numbers, m at least n, in place; at `pivots` n
  integers, counted from 1, side by side in as many bits as the library's integers have;
- `info = geqrf(m, n, a, step, factors, work, size)`: QR factors of n columns of m numbers, in place: R in the upper
  triangle, reflections below and in `min(m, n)` factors; the memory `work` has `size` numbers;
- `info = ormqr(trans, m, n, k, a, step, factors, c, c_step, work, size)`: multiply c (m by n) from the left by the
  product of k reflections, or by its transpose;
- `info = syevd(n, a, step, values, work, size, integers, count)`: eigenvectors, in place, and eigenvalues of a
  symmetric matrix, of which the lower triangle is read;
- `info = gesdd(m, n, a, step, values, u, u_step, v, v_step, work, size, integers)`: singular values and vectors; a is
  overwritten;
- `info = trsm(right, upper, trans, unit, m, n, a, step, b, b_step)`: a triangular system, b (m by n) in place;
- `info = gemm(trans_a, trans_b, m, n, k, a, a_step, b, b_step, c, c_step)`: take the product of a (m by k, or k by m if
  `trans_a`) and b (k by n, or n by k if `trans_b`) off c (m by n).
"""

LETTERS = {"geqrf": "", "ormqr": "L", "syevd": "VL", "gesdd": "S"}
"""The options that are always the same."""
ARGUMENTS = {"geqrf": "nnanaan", "ormqr": "nnnanaanan", "syevd": "nanaanan", "gesdd": "nnanaananana"}
"""Which other arguments are addresses (a), and which are numbers (n)."""


def _slot(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """The address of a number."""
    with builder.goto_entry_block():
        place = builder.alloca(value.type)
    builder.store(value, place)
    return builder.ptrtoint(place, I64)


def _letter(builder: ir.IRBuilder, flag: ir.Value, yes: str, no: str) -> ir.Value:
    """The address of a letter, chosen by a flag."""
    chosen = builder.select(builder.icmp_signed("!=", flag, I64(0)), I8(ord(yes)), I8(ord(no)))
    return _slot(builder, chosen)


def call(builder: ir.IRBuilder, name: str, kind: Kind, args: Sequence[ir.Value]) -> ir.Value:
    """Call one of `FUNCTIONS`; returns `info`."""
    symbol = f"{PREFIX}{FORMATS[kind.name].letter}{name}"
    info = _slot(builder, I64(0))
    if name == "potrf":
        upper, n, a, step = args
        given = [_letter(builder, upper, "U", "L"), _slot(builder, n), a, _slot(builder, step), info, I64(1)]
    elif name == "getrf":
        m, n, a, step, pivots = args
        given = [_slot(builder, m), _slot(builder, n), a, _slot(builder, step), pivots, info]
    elif name in LETTERS:
        flagged = name == "ormqr"  # its first argument chooses a letter
        letters = [_slot(builder, I8(ord(letter))) for letter in LETTERS[name]]
        letters += [_letter(builder, args[0], "T", "N")] if flagged else []
        numbers = zip(ARGUMENTS[name], args[flagged:], strict=True)
        given = [*letters, *(value if by == "a" else _slot(builder, value) for by, value in numbers), info]
        given += [I64(1)] * len(letters)
    elif name == "gemm":
        trans_a, trans_b, *sizes, a, a_step, b, b_step, c, c_step = args
        less, whole = (_slot(builder, ir.Constant(element_type(kind), sign)) for sign in (-1.0, 1.0))
        given = [_letter(builder, flag, "T", "N") for flag in (trans_a, trans_b)]
        given += [_slot(builder, size) for size in sizes]
        given += [less, a, _slot(builder, a_step), b, _slot(builder, b_step), whole, c, _slot(builder, c_step)]
        given += [I64(1)] * 2
    else:
        right, upper, trans, unit, m, n, a, step, b, b_step = args
        flags = ((right, "R", "L"), (upper, "U", "L"), (trans, "T", "N"), (unit, "U", "N"))
        one = _slot(builder, ir.Constant(element_type(kind), 1.0))
        given = [_letter(builder, *flag) for flag in flags]
        given += [_slot(builder, m), _slot(builder, n), one, a, _slot(builder, step), b, _slot(builder, b_step)]
        given += [I64(1)] * 4
    function = builder.module.globals.get(symbol)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), [I64] * len(given)), symbol)
    builder.call(function, given)
    return builder.load(builder.inttoptr(info, I64.as_pointer()))
