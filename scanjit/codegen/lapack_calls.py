"""Calls of LAPACK as Python source: a loop over the batch, and the work that LAPACK leaves to us.

Our rows are Fortran's columns, so LAPACK sees each matrix transposed: our lower triangle is its upper one, and a system
`t @ x = b` has t to the right of x.

A call of LAPACK cannot be stopped. So matrices are factored in blocks of columns, and systems are solved for some of
their right sides at a time: between two calls, the function looks whether it is to end. A matrix of at most `BLOCK`
columns takes one call. LAPACK does not compute batches of small matrices (`small_matrices`).
"""

from collections.abc import Callable, Sequence

from scanjit.codegen.lines import LOOK, indented
from scanjit.codegen.names import suffix
from scanjit.codegen.small_matrices import small_source
from scanjit.codegen.source import Parameters, Source
from scanjit.kinds import kind_of
from scanjit.schedule.nests import LapackCall, Ref
from scanjit.target import Target

BLOCK = 256
"""How many columns one call factors: with the rows of a matrix of 10,000, this takes about 50 ms."""
SOLVED = 2**31
"""About how many products one call computes if it solves a system for some of its right sides: this takes as long."""


def call_source(call: LapackCall, target: Target) -> Source:
    """The source of a function that runs a call for all matrices of a batch, one after the other."""
    writer = _CallWriter(call)
    lines, small = writer.lines(), small_source(call, target, writer.parameters)
    if small is not None:
        condition, straight = small
        lines = [f"    if {condition}:", *indented(straight, 2), "    else:", *indented(lines)]
    return writer.parameters.source(call.title, lines, ["line"])


class _CallWriter:
    """Writes the lines of a call."""

    def __init__(self, call: LapackCall) -> None:
        self.call = call
        self.parameters = Parameters()
        self.number = self.parameters.number
        self.dtype = call.places[0].buffer.dtype
        self.kind = suffix(self.dtype, 1)
        self.size = self.dtype.itemsize
        self.lapack = kind_of(self.dtype).name

    def lines(self) -> list[str]:
        """The loops over the batch. Inside, `m0`, `m1`, ... are the addresses of the current matrices."""
        batched = [ref for ref in self.call.places if len(ref.shape) > 1]
        lines, depth = [], 1
        bases = [self.parameters.address(ref.buffer, ref.offset) for ref in self.call.places]
        for axis, size in enumerate(batched[0].shape[:-2]):
            lines.append("    " * depth + f"for i{axis} in range({self.number(size)}):")
            depth += 1
        if depth > 1:
            lines += indented(LOOK, depth)
        for k, (ref, base) in enumerate(zip(self.call.places, bases, strict=True)):
            steps = ref.strides[:-2] if len(ref.shape) > 1 else ()
            moved = [f" + i{axis}*{self.number(step * self.size)}" for axis, step in enumerate(steps)]
            lines.append("    " * depth + f"m{k} = {base}{''.join(moved)}")
        return lines + indented(WRITERS[self.call.routine](self), depth)

    # ---- routines ---------------------------------------------------------------------------------------------------

    def leading(self, ref: Ref) -> str:
        """The distance of two rows, in elements. LAPACK wants at least 1."""
        step = ref.strides[-2]
        return str(max(step, 1)) if isinstance(step, int) else f"max({self.number(step)}, 1)"

    def stored(self, address: str, value: str) -> str:
        """A line that stores a number."""
        return f"store({address}, splat_{self.kind}({value}))"

    def blocks(self, n: str, step: str, factor: Sequence[str], beside: Sequence[str], rest: Sequence[str]) -> list[str]:
        """Factor a matrix by blocks of columns. `factor` are the lines that factor the block of `wide` columns from `k`
        on, whose first entry on the diagonal is at `corner`. `beside` computes the columns beside it, from `first` on.
        `rest` subtracts the product of both from the rest of the matrix, `columns` columns from `j` on at a time."""
        lines = [
            f"for k in range(0, {n}, {BLOCK}):",
            *indented(LOOK),
            f"    wide = min({BLOCK}, {n} - k)",
            "    first = k + wide",
            f"    corner = m0 + k*{step} + k*{self.size}",
            *indented(factor),
            f"    beside = m0 + first*{step} + k*{self.size}",
            *indented(beside),
            f"    for j in range(first, {n}, {BLOCK}):",
            *indented(LOOK, 2),
            f"        columns = min({BLOCK}, {n} - j)",
            *indented(rest, 2),
        ]
        return lines

    def cholesky(self) -> list[str]:
        """The factor in the lower triangle, zeros above. If there is no factor, the lower triangle is NaN."""
        (whole,) = self.call.places
        n, step, lead = self.number(whole.shape[-1]), self.number(whole.strides[-2] * self.size), self.leading(whole)
        block = f"m0 + j*{step} + k*{self.size}, {lead}, m0 + j*{step} + first*{self.size}, {lead}"
        return [
            "bad = 0",
            *self.blocks(
                n,
                step,
                [f"info = potrf_{self.lapack}(1, wide, corner, {lead})", "if info != 0:", "    bad = 1"],
                [f"info = trsm_{self.lapack}(0, 1, 1, 0, wide, {n} - first, corner, {lead}, beside, {lead})"],
                [f"info = gemm_{self.lapack}(1, 0, j + columns - first, columns, wide, beside, {lead}, {block})"],
            ),
            f"for i in range({n}):",
            f"    row = m0 + i*{step}",
            f"    for j in range(i + 1, {n}):",
            f"        {self.stored(f'row + j*{self.size}', '0.0')}",
            "    if bad != 0:",
            "        for j in range(i + 1):",
            f"            {self.stored(f'row + j*{self.size}', 'nan')}",
        ]

    def lu(self) -> list[str]:
        """The factors, and the rows below them: the order of columns, its inverse, and the signs of exchanges."""
        whole, _ = self.call.places
        n, step, lead = self.number(whole.shape[-1]), self.number(whole.strides[-2] * self.size), self.leading(whole)
        below = f"m0 + k*{step} + first*{self.size}"
        block = f"m0 + j*{step} + k*{self.size}, {lead}, m0 + j*{step} + first*{self.size}, {lead}"
        return [
            f"order = m1 + {n}*8",
            f"last = m0 + {n}*{step}",
            f"inverse = last + {step}",
            f"signs = inverse + {step}",
            f"for i in range({n}):",
            "    store_i64(order + i*8, i)",
            *self.blocks(
                n,
                step,
                [f"info = getrf_{self.lapack}({n} - k, wide, corner, {lead}, m1 + k*8)", *self.exchanges(n, step)],
                [f"info = trsm_{self.lapack}(0, 0, 0, 1, wide, {n} - first, corner, {lead}, beside, {lead})"],
                [f"info = gemm_{self.lapack}(0, 0, {n} - first, columns, wide, {below}, {lead}, {block})"],
            ),
            f"for i in range({n}):",
            "    column = load_i64(order + i*8)",
            f"    store(last + i*{self.size}, cast_{self.kind}(splat_i64x1(column)))",
            f"    store(inverse + column*{self.size}, cast_{self.kind}(splat_i64x1(i)))",
        ]

    def exchanges(self, n: str, step: str) -> list[str]:
        """Read which columns a block has exchanged, note it, and exchange the same columns in all rows beside the
        block."""
        entry = [f"row + {i}*{self.size}" for i in ("i", "other")]
        return [
            "if wide > 1 and load_i64(m1 + k*8) >> 32 != 0:",  # two integers of 32 bits, each at least 1
            "    for back in range(wide):",
            "        i = wide - 1 - back",
            "        pair = load_i64(m1 + k*8 + (i >> 1)*8)",
            "        store_i64(m1 + (k + i)*8, (pair >> 32*(i & 1)) & 4294967295)",
            "for i in range(k, first):",
            f"    other = min(max(load_i64(m1 + i*8) - 1 + k, i), {n} - 1)",
            "    store_i64(m1 + i*8, other)",
            f"    {self.stored(f'signs + i*{self.size}', '1.0')}",
            "    if other != i:",
            f"        {self.stored(f'signs + i*{self.size}', '-1.0')}",
            "        kept = load_i64(order + i*8)",
            "        store_i64(order + i*8, load_i64(order + other*8))",
            "        store_i64(order + other*8, kept)",
            f"for at in range({n}):",
            "    if at < k or at >= first:",
            f"        row = m0 + at*{step}",
            "        for i in range(k, first):",
            "            other = load_i64(m1 + i*8)",
            f"            one = load_{self.kind}({entry[0]})",
            f"            store({entry[0]}, load_{self.kind}({entry[1]}))",
            f"            store({entry[1]}, one)",
        ]

    def triangular_solve(self) -> list[str]:
        """Solve in place, by blocks of unknowns. The result is NaN if there is a zero on the diagonal."""
        t, x = self.call.places
        lower, trans, unit = (int(self.call.flags[name]) for name in ("lower", "trans", "unit"))
        n, columns = (self.number(dim) for dim in x.shape[-2:])
        across, row = (self.number(ref.strides[-2] * self.size) for ref in (t, x))
        step, lead = self.leading(t), self.leading(x)
        if lower != trans:
            begin, rest, count = "begin", "first", f"{n} - first"
        else:
            begin, rest, count = f"({n} - 1)//{BLOCK}*{BLOCK} - begin", "0", "k"
        beside = f"k*{across} + {rest}*{self.size}" if trans else f"{rest}*{across} + k*{self.size}"
        block = f"1, {lower}, {trans}, {unit}, some, wide, corner, {step}, right, {lead}"
        others = f"0, {trans}, some, {count}, wide, right, {lead}, m0 + {beside}, {step}, rest, {lead}"
        lines = [
            f"most = max({SOLVED // BLOCK} // max({n}, 1), {BLOCK})",
            f"for j in range(0, {columns}, most):",
            f"    some = min(most, {columns} - j)",
            f"    for begin in range(0, {n}, {BLOCK}):",
            *indented(LOOK, 2),
            f"        k = {begin}",
            f"        wide = min({BLOCK}, {n} - k)",
            "        first = k + wide",
            f"        corner = m0 + k*{across} + k*{self.size}",
            f"        right = m1 + k*{row} + j*{self.size}",
            f"        info = trsm_{self.lapack}({block})",
            f"        rest = m1 + {rest}*{row} + j*{self.size}",
            f"        info = gemm_{self.lapack}({others})",
        ]
        if unit:
            return lines
        diagonal = self.number((t.strides[-2] + 1) * self.size)
        return [
            *lines,
            "bad = 0",
            f"for i in range({n}):",
            f"    if any_of(load_{self.kind}(m0 + i*{diagonal}) == 0.0):",
            "        bad = 1",
            *self.nothing(x, "m1"),
        ]

    def unless_finite(self, rows: str, columns: str, step: str, address: str) -> list[str]:
        """Look for entries that are not finite. `bad` is 1 if there is one."""
        return [
            "bad = 0",
            f"for i in range({rows}):",
            f"    for j in range({columns}):",
            f"        entry = load_{self.kind}({address} + i*{step} + j*{self.size})",
            "        if any_of(entry - entry != 0.0):",
            "            bad = 1",
        ]

    def nothing(self, whole: Ref, place: str = "m0") -> list[str]:
        """Set all of the result to NaN if `bad` is not 0."""
        rows, columns = (self.number(dim) for dim in whole.shape[-2:])
        place = f"{place} + i*{self.number(whole.strides[-2] * self.size)} + j*{self.size}"
        return [
            "if bad != 0:",
            f"    for i in range({rows}):",
            f"        for j in range({columns}):",
            f"            {self.stored(place, 'nan')}",
        ]

    def signed(self, rows: str, columns: str, step: str, address: str, others: Sequence[tuple[str, str]]) -> list[str]:
        """Give rows at an address the signs that `scanjit.ops.decompositions.signed` chooses. `others` get the same
        signs: the address of row i, and how many numbers lie there."""
        turned = [
            line
            for place, count in ((f"{address} + i*{step}", columns), *others)
            for line in (
                f"        for j in range({count}):",
                f"            entry = load_{self.kind}({place} + j*{self.size})",
                f"            store({place} + j*{self.size}, 0.0 - entry)",
            )
        ]
        return [
            f"for i in range({rows}):",
            f"    total = splat_{self.kind}(0.0)",
            f"    place = splat_{self.kind}({2**0.5!r})",
            f"    for j in range({columns}):",
            f"        total = total + load_{self.kind}({address} + i*{step} + j*{self.size}) / place",
            "        place = place + 1.0",
            "    if any_of(total < 0.0):",
            *turned,
        ]

    def eigh(self) -> list[str]:
        """The eigenvectors as rows, and the eigenvalues below them, or these alone. This is one call, which cannot be
        stopped."""
        whole, work, integers = self.call.places
        vectors = self.call.flags["vectors"]
        n, step = self.number(whole.shape[-1]), self.number(whole.strides[-2] * self.size)
        size, count = (self.number(ref.shape[0]) for ref in (work, integers))
        given = f"{int(vectors)}, {n}, m0, {self.leading(whole)}, m0 + {n}*{step}, m1, {size}, m2, {count}"
        return [
            *self.unless_finite(n, n, step, "m0"),
            "if bad == 0:",
            f"    bad = syevd_{self.lapack}({given})",
            *(self.signed(n, n, step, "m0", []) if vectors else []),
            *self.nothing(whole),
        ]

    def qr(self) -> list[str]:
        """Q and R. The copy at `m1` is factored by blocks of columns. Then R is read from it, and its reflections are
        applied to the columns of the identity, the last block first."""
        whole, columns, work, _ = self.call.places
        n, m = (self.number(dim) for dim in columns.shape[-2:])
        count, size = self.number(whole.shape[-2]), self.number(work.shape[0])
        step, across = (self.number(ref.strides[-2] * self.size) for ref in (whole, columns))
        lead, high = self.leading(whole), self.leading(columns)
        block = [
            f"wide = min({BLOCK}, {count} - k)",
            f"corner = m1 + k*{across} + k*{self.size}",
            f"factors = m3 + k*{self.size}",
        ]
        reflected = f"{m} - k, some, wide, corner, {high}, factors"

        def applied(trans: int, first: str, end: str, target: str) -> list[str]:
            return [
                f"for j in range({first}, {end}, {BLOCK}):",
                *indented(LOOK),
                f"    some = min({BLOCK}, {end} - j)",
                f"    info = ormqr_{self.lapack}({trans}, {reflected}, {target}, m2, {size})",
            ]

        return [
            *self.unless_finite(n, m, across, "m1"),
            f"for k in range(0, {count}, {BLOCK}):",
            *indented([*LOOK, *block]),
            f"    info = geqrf_{self.lapack}({m} - k, wide, corner, {high}, factors, m2, {size})",
            *indented(applied(1, "k + wide", n, f"m1 + j*{across} + k*{self.size}, {high}")),
            f"for i in range({count}):",
            f"    for j in range({m}):",
            f"        {self.stored(f'm0 + i*{step} + j*{self.size}', '0.0')}",
            f"    {self.stored(f'm0 + i*{step} + i*{self.size}', '1.0')}",
            f"    for j in range({n}):",
            f"        place = m0 + i*{step} + ({m} + j)*{self.size}",
            f"        {self.stored('place', '0.0')}",
            "        if j >= i:",
            f"            store(place, load_{self.kind}(m1 + j*{across} + i*{self.size}))",
            f"for begin in range(0, {count}, {BLOCK}):",
            *indented(LOOK),
            f"    k = ({count} - 1)//{BLOCK}*{BLOCK} - begin",
            *indented(block),
            *indented(applied(0, "k", count, f"m0 + j*{step} + k*{self.size}, {lead}")),
            *self.nothing(whole),
        ]

    def svd(self) -> list[str]:
        """The left vectors go to the first columns, as rows; right vectors and singular values beside them. Without
        vectors, there are the values alone. This is one call, which cannot be stopped."""
        whole, columns, work, *_ = self.call.places
        vectors = self.call.flags["vectors"]
        n, m = (self.number(dim) for dim in columns.shape[-2:])
        count, size = self.number(whole.shape[-2]), self.number(work.shape[0])
        step, across = (self.number(ref.strides[-2] * self.size) for ref in (whole, columns))
        given = (
            f"{int(vectors)}, {m}, {n}, m1, {self.leading(columns)}, m3, m0, {self.leading(whole)}, m4, max({count}, 1)"
        )
        placed = [
            f"        for j in range({n}):",
            f"            store(right + j*{self.size}, load_{self.kind}(m4 + (j*{count} + i)*{self.size}))",
        ]
        turned = indented(self.signed(f"{count}", n, step, f"m0 + {m}*{self.size}", [(f"m0 + i*{step}", m)]))
        return [
            *self.unless_finite(n, m, across, "m1"),
            "if bad == 0:",
            f"    bad = gesdd_{self.lapack}({given}, m2, {size}, m5)",
            "if bad == 0:",
            f"    for i in range({count}):",
            f"        right = m0 + i*{step} + {m}*{self.size}",
            *(placed if vectors else []),
            f"        store(right + {n}*{self.size}, load_{self.kind}(m3 + i*{self.size}))",
            *(turned if vectors else []),
            *self.nothing(whole),
        ]


WRITERS: dict[str, Callable[[_CallWriter], list[str]]] = {
    "cholesky": _CallWriter.cholesky,
    "lu": _CallWriter.lu,
    "eigh": _CallWriter.eigh,
    "qr": _CallWriter.qr,
    "svd": _CallWriter.svd,
    "triangular_solve": _CallWriter.triangular_solve,
}
