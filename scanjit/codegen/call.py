"""Calls of LAPACK as Python source: a loop over the batch, and what LAPACK leaves to do.

Rows of ours are columns of Fortran's: it sees each matrix transposed. So the lower triangle is its upper one, and a
system `t @ x = b` is one with t to the right of x.
"""

from __future__ import annotations

from collections.abc import Callable

from scanjit.codegen.names import suffix
from scanjit.codegen.source import Parameters, Source
from scanjit.kinds import kind_of
from scanjit.schedule.nests import LapackCall, Ref


def call_source(call: LapackCall) -> Source:
    """The source of a function that computes a call for all matrices of a batch, one after the other."""
    writer = _CallWriter(call)
    return writer.parameters.source(call.title, writer.lines(), ["line"])


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
        """The loops over the batch; inside, `m0`, `m1`... are the addresses of the operands' matrices."""
        batched = [ref for ref in self.call.places if len(ref.shape) > 1]
        lines, depth = [], 1
        bases = [self.parameters.address(ref.buffer, ref.offset) for ref in self.call.places]
        for axis, size in enumerate(batched[0].shape[:-2]):
            lines.append("    " * depth + f"for i{axis} in range({self.number(size)}):")
            depth += 1
        if depth > 1:
            lines += ["    " * depth + "if interrupted(line):", "    " * depth + "    return"]
        for k, (ref, base) in enumerate(zip(self.call.places, bases, strict=True)):
            steps = ref.strides[:-2] if len(ref.shape) > 1 else ()
            moved = [f" + i{axis}*{self.number(step * self.size)}" for axis, step in enumerate(steps)]
            lines.append("    " * depth + f"m{k} = {base}{''.join(moved)}")
        return lines + ["    " * depth + line for line in WRITERS[self.call.routine](self)]

    # ---- routines ---------------------------------------------------------------------------------------------------

    def leading(self, ref: Ref) -> str:
        """How far apart the rows are, in elements: for LAPACK at least 1."""
        step = ref.strides[-2]
        return str(max(step, 1)) if isinstance(step, int) else f"max({self.number(step)}, 1)"

    def stored(self, address: str, value: str) -> str:
        """A line that stores a number."""
        return f"store({address}, splat_{self.kind}({value}))"

    def cholesky(self) -> list[str]:
        """The factor in the lower triangle, zeros above; NaN in the lower triangle if there is none."""
        (whole,) = self.call.places
        n, step = self.number(whole.shape[-1]), self.number(whole.strides[-2] * self.size)
        return [
            f"info = potrf_{self.lapack}(1, {n}, m0, {self.leading(whole)})",
            f"for i in range({n}):",
            f"    row = m0 + i*{step}",
            f"    for j in range(i + 1, {n}):",
            f"        {self.stored(f'row + j*{self.size}', '0.0')}",
            "    if info != 0:",
            "        for j in range(i + 1):",
            f"            {self.stored(f'row + j*{self.size}', 'nan')}",
        ]

    def lu(self) -> list[str]:
        """The factors, and the rows below them: the order of columns, its inverse, and the signs of exchanges."""
        whole, _ = self.call.places
        n, step = self.number(whole.shape[-1]), self.number(whole.strides[-2] * self.size)
        return [
            f"info = getrf_{self.lapack}({n}, m0, {self.leading(whole)}, m1)",
            f"if {n} > 1 and load_i64(m1) >> 32 != 0:",  # two integers of 32 bits, each at least 1
            f"    for k in range({n}):",
            f"        i = {n} - 1 - k",
            "        pair = load_i64(m1 + (i >> 1)*8)",
            "        store_i64(m1 + i*8, (pair >> 32*(i & 1)) & 4294967295)",
            f"order = m1 + {n}*8",
            f"last = m0 + {n}*{step}",
            f"inverse = last + {step}",
            f"signs = inverse + {step}",
            f"for i in range({n}):",
            "    store_i64(order + i*8, i)",
            f"for i in range({n}):",
            f"    other = min(max(load_i64(m1 + i*8) - 1, i), {n} - 1)",
            f"    {self.stored(f'signs + i*{self.size}', '1.0')}",
            "    if other != i:",
            f"        {self.stored(f'signs + i*{self.size}', '-1.0')}",
            "        kept = load_i64(order + i*8)",
            "        store_i64(order + i*8, load_i64(order + other*8))",
            "        store_i64(order + other*8, kept)",
            f"for i in range({n}):",
            "    column = load_i64(order + i*8)",
            f"    store(last + i*{self.size}, cast_{self.kind}(splat_i64x1(column)))",
            f"    store(inverse + column*{self.size}, cast_{self.kind}(splat_i64x1(i)))",
        ]

    def triangular_solve(self) -> list[str]:
        """Solve in place; NaN if there is a zero on the diagonal."""
        t, x = self.call.places
        lower, trans, unit = (int(self.call.flags[name]) for name in ("lower", "trans", "unit"))
        n, columns = (self.number(dim) for dim in x.shape[-2:])
        row = self.number(x.strides[-2] * self.size)
        flags = f"1, {lower}, {trans}, {unit}"
        lines = [
            f"info = trsm_{self.lapack}({flags}, {columns}, {n}, m0, {self.leading(t)}, m1, {self.leading(x)})",
        ]
        if unit:
            return lines
        step = self.number((t.strides[-2] + 1) * self.size)
        return [
            *lines,
            "singular = 0",
            f"for i in range({n}):",
            f"    if any_of(load_{self.kind}(m0 + i*{step}) == 0.0):",
            "        singular = 1",
            "if singular != 0:",
            f"    for i in range({n}):",
            f"        for j in range({columns}):",
            f"            {self.stored(f'm1 + i*{row} + j*{self.size}', 'nan')}",
        ]


WRITERS: dict[str, Callable[[_CallWriter], list[str]]] = {
    "cholesky": _CallWriter.cholesky,
    "lu": _CallWriter.lu,
    "triangular_solve": _CallWriter.triangular_solve,
}
