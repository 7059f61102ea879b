"""Calls of LAPACK and BLAS in generated code.

Fortran takes everything by address. Its integers have 32 or 64 bits, depending on how the library was built. The same
code is right for both: an integer is put into a slot of 64 bits, whose low half, read as 32 bits, is the same number
(all machines that kernels are made for are little-endian); and a slot for a result is 0 before the call. Only an array
of integers depends on their size: see `getrf`. After all of these come the lengths of the letters, which some compilers
of Fortran pass.

The symbols are our own. Whoever loads the code gives them addresses (`scanjit.runtime.lapack`).
"""

from collections.abc import Iterator, Sequence

from llvmlite import ir

from scanjit.kinds import Kind

from .lanes import FORMATS
from .llvm_calls import call as call_function
from .llvm_values import element_type
from .table import LAPACK

I8, I64 = ir.IntType(8), ir.IntType(64)
PREFIX = "scanjit_lapack_"
ROUTINES = tuple(letter + name for letter in "sd" for name in LAPACK)
"""The routines that are called, by their Fortran names."""
SIGNATURES = {
    "potrf": "U/L n a n info",
    "getrf": "n n a n a info",
    "geqrf": "n n a n a a n info",
    "ormqr": "L T/N n n n a n a a n a n info",
    "syevd": "V/N L n a n a a n a n info",
    "gesdd": "S/N n n a n a a n a n a n a info",
    "trsm": "R/L U/L T/N U/N n n 1 a n a n",
    "gemm": "T/N T/N n n n -1 a n a n 1 a n",
}
"""The names in generated code (followed by `_f32` or `_f64`), and what Fortran takes.: a letter that is
always the same (L), a letter that a flag chooses (U/L), an address (a), a number (n), a factor (1 or -1), a place for
`info`. Flags, addresses and numbers are the arguments in generated code, all integers:

- `info = potrf(upper, n, a, step)`: Cholesky factor of columns, in place; `info` is 0 if there is one;
- `info = getrf(m, n, a, step, pivots)`: LU factors of n columns of m numbers, m at least n, in place; at `pivots` n
  integers, counted from 1, side by side in as many bits as the library's integers have;
- `info = geqrf(m, n, a, step, factors, work, size)`: QR factors of n columns of m numbers, in place: R in the upper
  triangle, reflections below and in `min(m, n)` factors; the memory `work` has `size` numbers;
- `info = ormqr(trans, m, n, k, a, step, factors, c, c_step, work, size)`: multiply c (m by n) from the left by the
  product of k reflections, or by its transpose;
- `info = syevd(vectors, n, a, step, values, work, size, integers, count)`: eigenvectors (if `vectors`), in place, and
  eigenvalues of a symmetric matrix, of which the lower triangle is read; a is overwritten;
- `info = gesdd(vectors, m, n, a, step, values, u, u_step, v, v_step, work, size, integers)`: singular values and (if
  `vectors`) vectors; a is overwritten;
- `info = trsm(right, upper, trans, unit, m, n, a, step, b, b_step)`: a triangular system, b (m by n) in place;
- `info = gemm(trans_a, trans_b, m, n, k, a, a_step, b, b_step, c, c_step)`: take the product of a (m by k, or k by m if
  `trans_a`) and b (k by n, or n by k if `trans_b`) off c (m by n).
"""


def _slot(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """The address of a number."""
    with builder.goto_entry_block():
        place = builder.alloca(value.type)
    builder.store(value, place)
    return builder.ptrtoint(place, I64)


def _argument(builder: ir.IRBuilder, kind: Kind, word: str, given: Iterator[ir.Value]) -> ir.Value:
    """The argument that Fortran gets at a place of its signature that has this word."""
    if word == "a":
        return next(given)
    if word == "n":
        return _slot(builder, next(given))
    if not word.isupper():
        return _slot(builder, ir.Constant(element_type(kind), float(word)))
    letter, _, other = word.partition("/")
    if not other:
        return _slot(builder, I8(ord(letter)))
    chosen = builder.icmp_signed("!=", next(given), I64(0))
    return _slot(builder, builder.select(chosen, I8(ord(letter)), I8(ord(other))))


def arity(name: str) -> int:
    """How many arguments a routine has in generated code."""
    return sum(word in "an" or "/" in word for word in SIGNATURES[name].split())


def call(builder: ir.IRBuilder, name: str, kind: Kind, args: Sequence[ir.Value]) -> ir.Value:
    """Call a routine; returns `info`."""
    words, given = SIGNATURES[name].split(), iter(args)
    info = _slot(builder, I64(0))
    arguments = [info if word == "info" else _argument(builder, kind, word, given) for word in words]
    arguments += [I64(1)] * sum(map(str.isupper, words))
    symbol = f"{PREFIX}{FORMATS[kind.name].letter}{name}"
    call_function(builder, symbol, ir.VoidType(), arguments)
    return builder.load(builder.inttoptr(info, I64.as_pointer()))
