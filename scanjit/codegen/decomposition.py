"""Decompositions of many small matrices as Python source: one matrix in each lane.

`qr` reflects columns as LAPACK does (Householder). `eigh` rotates pairs of rows and columns until the entries beside
the diagonal are negligible in all lanes (Jacobi). `svd` rotates pairs of columns until they are orthogonal (one-sided
Jacobi, Hestenes); the `qr` of these columns then gives left vectors, also for columns that are zero.

Numbers are scaled by powers of two, so that no square overflows. The entries of matrices of at most `UNROLLED` rows and
columns are variables. Those of larger matrices lie on the stack, and loops go over them.
"""

from collections.abc import Callable

import numpy as np

from scanjit.codegen.lines import LOOK, indented
from scanjit.codegen.names import suffix
from scanjit.codegen.source import Parameters, Source
from scanjit.schedule.nests import Decomposition, NestLoop, Tile
from scanjit.schedule.nests.lapack import BLOCK
from scanjit.target import Target

UNROLLED = 3
"""Up to this size, every entry is a variable."""
SHORT = 8
"""LLVM may unroll loops that end here at most. Others end at a number that it does not know."""
SWEEPS = 40
"""Rotations end after this many rounds over all pairs. Five to eight are usual."""

Index = int | str
Body = Callable[[Index], list[str]]


def decomposition_source(job: Decomposition, target: Target) -> Source:
    """The source of a function that decomposes the matrices of some blocks."""
    return _Writer(job, target.lanes(job.given.buffer.dtype.itemsize)).source()


def _sum(left: Index, right: Index) -> Index:
    """The sum of two indices: a number, or its text."""
    return left + right if isinstance(left, int) and isinstance(right, int) else f"{left} + {right}"


class _Entries:
    """The entries of a matrix in each lane: variables, or vectors on the stack."""

    def __init__(self, name: str, rows: int, columns: int, kind: str, width: int | None) -> None:
        self.name, self.columns, self.kind, self.width = name, columns, kind, width
        """`width` is the bytes of a vector, or None for variables."""
        self.home = [] if width is None else [f"{name} = stack({max(rows * columns, 1) * width})"]

    def _place(self, i: Index, j: Index) -> str:
        return f"{self.name} + (({i})*{self.columns} + {j})*{self.width}"

    def get(self, i: Index, j: Index) -> str:
        """An expression for an entry."""
        return f"{self.name}_{i}_{j}" if self.width is None else f"load_{self.kind}({self._place(i, j)})"

    def put(self, i: Index, j: Index, value: str) -> str:
        """A line that gives an entry a value."""
        return f"{self.name}_{i}_{j} = {value}" if self.width is None else f"store({self._place(i, j)}, {value})"

    def both(self, p: tuple[Index, Index], q: tuple[Index, Index], first: str, second: str) -> list[str]:
        """Lines that change two entries. `first` and `second` are their new values, in terms of their old values `u`
        and `v`."""
        return [f"u = {self.get(*p)}", f"v = {self.get(*q)}", self.put(*p, first), self.put(*q, second)]


class _Writer:
    """Writes the lines of a function."""

    def __init__(self, job: Decomposition, lanes: int) -> None:
        self.job, self.lanes = job, lanes
        self.m, self.n = job.sizes
        self.parameters = Parameters()
        dtype = job.given.buffer.dtype
        self.size, self.kind, self.float = dtype.itemsize, suffix(dtype, lanes), np.finfo(dtype)
        self.unrolled = max(self.m, self.n) <= UNROLLED
        self._loops = 0

    def source(self) -> Source:
        """The loop over vectors of matrices."""
        job, parameters = self.job, self.parameters
        count = parameters.number(job.count)
        given, result = (parameters.address(ref.buffer, ref.offset) for ref, _ in job.arrays)
        homes, lines = WRITERS[job.routine](self)
        whole = job.result.shape[-2:]
        lines = [
            *homes,
            "once = min(end, 1)",  # this is 1, but LLVM does not know it
            f"for matrix in range(begin*{BLOCK}, min(end*{BLOCK}, {count}), {self.lanes}):",
            *indented(LOOK),
            f"    inside = head_x{self.lanes}({count} - matrix)",
            f"    first = {given} + matrix*{self.m * self.n * self.size}",
            f"    target = {result} + matrix*{whole[0] * whole[1] * self.size}",
            *indented(lines),
        ]
        return parameters.source(
            job.title, indented(lines), ["begin", "end", "line"], tile=Tile(split=NestLoop(job.pieces))
        )

    # ---- text --------------------------------------------------------------------------------------------------------

    def _entries(self, name: str, rows: int, columns: int) -> _Entries:
        return _Entries(name, rows, columns, self.kind, None if self.unrolled else self.lanes * self.size)

    def _each(self, start: Index, stop: int, body: Body) -> list[str]:
        """The lines of a body for each index of a range: one after the other, or in a loop."""
        if self.unrolled:
            assert isinstance(start, int)
            return [line for index in range(start, stop) for line in body(index)]
        self._loops += 1
        name = f"i{self._loops}"
        lines = body(name)
        self._loops -= 1
        end = f"{stop}*once" if stop > SHORT else stop
        return [f"for {name} in range({start}, {end}):", *indented(lines)] if lines else []

    def _pairs(self, n: int, body: Callable[[Index, Index], list[str]]) -> list[str]:
        """The lines of a body for each pair of indices below n, the first one smaller."""
        return self._each(0, n - 1, lambda p: self._each(_sum(p, 1), n, lambda q: body(p, q)))

    def _splat(self, value: str) -> str:
        return f"splat_{self.kind}({value})"

    def _loaded(self, i: Index, j: Index) -> str:
        """Entry (i, j) of the given matrices."""
        step = self.m * self.n * self.size
        return f"load_strided_{self.kind}(first + (({i})*{self.n} + {j})*{self.size}, {step}, inside)"

    def _stored(self, i: Index, j: Index, value: str) -> str:
        """A line that stores entry (i, j) of the results. All are NaN if an entry of the matrix is not finite."""
        rows, columns = self.job.result.shape[-2:]
        place = f"target + (({i})*{columns} + {j})*{self.size}"
        return f"store_strided({place}, {rows * columns * self.size}, select(finite, {value}, nan), inside)"

    def _power(self, name: str, largest: str) -> list[str]:
        """`up`, a power of two that scales the largest number to at least 1 and less than 2, and `down`, its
        inverse."""
        bits, fraction, smallest = self.size * 8, self.float.nmant, float(self.float.tiny)
        mask = (1 << (bits - 1)) - (1 << fraction)
        exponent = f"bitcast_i{bits}x{self.lanes}(maximum({largest}, {smallest!r})) & {mask}"
        return [f"down{name} = bitcast_{self.kind}({exponent})", f"up{name} = 1.0 / down{name}"]

    def _scaled(self, into: _Entries, wide: bool, triangle: bool = False) -> list[str]:
        """Read matrices into `into` (transposed, if `wide`), and scale them. With `triangle`, only the upper triangle
        is read. A matrix with an entry that is not finite is read as 0."""
        rows, columns = (self.n, self.m) if wide else (self.m, self.n)

        def read(i: Index, j: Index) -> list[str]:
            at = (j, i) if wide else (i, j)
            looked = ["largest = maximum(largest, abs(x))", "finite = finite & (x - x == 0.0)"]
            lines = [f"x = {self._loaded(*at)}", *looked, into.put(i, j, "x")]
            return [*lines, into.put(j, i, "x")] if triangle and i != j else lines

        def made_small(i: Index, j: Index) -> list[str]:
            return [into.put(i, j, f"select(finite, {into.get(i, j)} * up, 0.0)")]

        return [
            f"largest = {self._splat('0.0')}",
            "finite = largest == largest",
            *self._each(0, rows, lambda i: self._each(i if triangle else 0, columns, lambda j: read(i, j))),
            "largest = select(finite, largest, 0.0)",
            *self._power("", "largest"),
            *self._each(0, rows, lambda i: self._each(0, columns, lambda j: made_small(i, j))),
        ]

    def _identity(self, into: _Entries, rows: int, columns: int) -> list[str]:
        lines = self._each(0, rows, lambda i: self._each(0, columns, lambda j: [into.put(i, j, self._splat("0.0"))]))
        return lines + self._each(0, min(rows, columns), lambda i: [into.put(i, i, self._splat("1.0"))])

    # ---- rotations ---------------------------------------------------------------------------------------------------

    def _angle(self) -> list[str]:
        """The cosine `c`, sine `s` and tangent `t` of the rotation that makes `x`, the entry beside `low` and `high` on
        the diagonal, 0. `open` says in which lanes `x` (compared to both) or the angle is not negligible."""
        eps, root = (2.0**-power for power in (self.float.nmant, (self.float.nmant + 3) // 2))
        return [
            "none = x == 0.0",
            "slope = (high - low) / select(none, 1.0, x + x)",
            "t = copysign(1.0 / (abs(slope) + sqrt(fma(slope, slope, 1.0))), slope)",
            "t = select(none, 0.0, select(going, t, 0.0))",
            "c = 1.0 / sqrt(fma(t, t, 1.0))",
            "s = t * c",
            "beside = sqrt(abs(low)) * sqrt(abs(high))",
            f"open = open | (abs(x) > {root} * beside) | ((abs(t) > {root}) & (abs(x) > {eps} * beside))",
        ]

    def _turned(self, of: _Entries, columns: int, p: Index, q: Index) -> list[str]:
        """Rotate two rows."""
        return self._each(0, columns, lambda i: of.both((p, i), (q, i), "c * u - s * v", "s * u + c * v"))

    def _sweeps(self, n: int, rotate: Callable[[Index, Index], list[str]]) -> list[str]:
        """Rotate all pairs, until nothing is open in any lane. A lane in which nothing was open stays as it is, so that
        no matrix depends on the matrices in other lanes."""
        return [
            f"left = {SWEEPS if n > 1 else 0}",
            f"going = {self._splat('0.0')} == 0.0",
            "while left > 0:",
            "    left = left - 1",
            f"    open = {self._splat('0.0')} != 0.0",
            *indented(self._pairs(n, rotate)),
            "    going = going & open",
            "    if not any_of(going):",
            "        left = 0",
        ]

    def _sorted(self, n: int, values: _Entries, rising: bool, *others: tuple[_Entries, int]) -> list[str]:
        """Sort `values` (one row), and the rows of others in the same order."""
        sorted_ = "select(later, v, u)", "select(later, u, v)"

        def compared(p: Index, q: Index) -> list[str]:
            lines = [f"later = {values.get(0, p)} {'>' if rising else '<'} {values.get(0, q)}"]
            lines += values.both((0, p), (0, q), *sorted_)
            for of, columns in others:
                lines += self._each(0, columns, lambda i, of=of: of.both((p, i), (q, i), *sorted_))  # type: ignore[misc]
            return lines

        return self._pairs(n, compared)

    def _sign(self, of: _Entries, k: Index, columns: int) -> list[str]:
        """`sign`: 1 or -1, by the rule of `scanjit.ops.decompositions.signed`."""
        lines = [f"total = {self._splat('0.0')}", f"place = {self._splat(repr(2**0.5))}"]
        lines += self._each(0, columns, lambda i: [f"total = total + {of.get(k, i)} / place", "place = place + 1.0"])
        return [*lines, f"sign = select(total < 0.0, {self._splat('-1.0')}, 1.0)"]

    def _squares(self, of: _Entries, k: Index, start: Index, columns: int) -> list[str]:
        """`total`: the sum of the squares of a row from `start` on, times `up_k`. This power of two scales `most` and
        all of them."""
        return [
            *self._each(start, columns, lambda i: [f"most = maximum(most, abs({of.get(k, i)}))"]),
            *self._power("_k", "most"),
            f"total = {self._splat('0.0')}",
            *self._each(start, columns, lambda i: [f"x = {of.get(k, i)} * up_k", "total = fma(x, x, total)"]),
        ]

    # ---- reflections -------------------------------------------------------------------------------------------------

    def _reflected(self, w: _Entries, taus: _Entries, columns: int, length: int) -> list[str]:
        """Turn the columns (rows of `w`) into R by reflections. Below the diagonal, `w` then has the vectors of the
        reflections, whose first entry is 1, and `taus` has their factors."""

        def step(k: Index) -> list[str]:
            after = _sum(k, 1)

            return [
                f"most = abs({w.get(k, k)})",
                *self._squares(w, k, after, length),
                f"head = {w.get(k, k)} * up_k",
                "flat = total == 0.0",
                "norm = select(flat, head, -copysign(sqrt(fma(head, head, total)), head))",
                "tau = select(flat, 0.0, (norm - head) / select(flat, 1.0, norm))",
                "rate = select(flat, 0.0, up_k / select(flat, 1.0, head - norm))",
                *self._each(after, length, lambda i: [w.put(k, i, f"{w.get(k, i)} * rate")]),
                w.put(k, k, "norm * down_k"),
                taus.put(0, k, "tau"),
                *self._each(after, columns, lambda j: self._applied(w, k, "tau", w, j, length)),
            ]

        return self._each(0, min(columns, length), step)

    def _applied(self, w: _Entries, k: Index, tau: str, to: _Entries, j: Index, length: int) -> list[str]:
        """Apply the reflection whose vector is row k of `w`, from column k on, to row j of `to`."""
        after = _sum(k, 1)
        return [
            f"along = {to.get(j, k)}",
            *self._each(after, length, lambda i: [f"along = fma({w.get(k, i)}, {to.get(j, i)}, along)"]),
            f"along = along * {tau}",
            to.put(j, k, f"{to.get(j, k)} - along"),
            *self._each(after, length, lambda i: [to.put(j, i, f"fma(-along, {w.get(k, i)}, {to.get(j, i)})")]),
        ]

    def _orthogonal(self, w: _Entries, taus: _Entries, q: _Entries, count: int, length: int) -> list[str]:
        """Make columns of Q (rows of `q`) from the reflections, the last reflection first."""

        def step(back: Index) -> list[str]:
            k: Index = count - 1 - back if isinstance(back, int) else f"{count - 1} - {back}"
            return self._each(k, count, lambda j: self._applied(w, k, taus.get(0, k), q, j, length))

        return [*self._identity(q, count, length), *self._each(0, count, step)]

    # ---- routines ----------------------------------------------------------------------------------------------------

    def eigh(self) -> tuple[list[str], list[str]]:
        """The eigenvectors as rows, and the eigenvalues below them."""
        n, vectors = self.n, self.job.vectors
        a, v, values = self._entries("entries", n, n), self._entries("vectors", n, n), self._entries("values", 1, n)

        def rotate(p: Index, q: Index) -> list[str]:
            def one(i: Index) -> list[str]:
                if self.unrolled and i in (p, q):
                    return []
                lines = [
                    f"u = {a.get(i, p)}",
                    f"v = {a.get(i, q)}",
                    "x = c * u - s * v",
                    "y = s * u + c * v",
                    *(a.put(*at, "x") for at in ((i, p), (p, i))),
                    *(a.put(*at, "y") for at in ((i, q), (q, i))),
                ]
                return lines if self.unrolled else [f"if {i} != {p} and {i} != {q}:", *indented(lines)]

            return [
                f"x = {a.get(p, q)}",
                f"low = {a.get(p, p)}",
                f"high = {a.get(q, q)}",
                *self._angle(),
                a.put(p, p, "low - t * x"),
                a.put(q, q, "high + t * x"),
                *(a.put(*at, self._splat("0.0")) for at in ((p, q), (q, p))),
                *self._each(0, n, one),
                *(self._turned(v, n, p, q) if vectors else []),
            ]

        def given(k: Index) -> list[str]:
            value = self._stored(n, k, f"{values.get(0, k)} * down")
            if not vectors:
                return [value]
            vector = self._each(0, n, lambda i: [self._stored(k, i, f"sign * {v.get(k, i)}")])
            return [*self._sign(v, k, n), *vector, value]

        return [*a.home, *(v.home if vectors else []), *values.home], [
            *self._scaled(a, wide=False, triangle=True),
            *(self._identity(v, n, n) if vectors else []),
            *self._sweeps(n, rotate),
            *self._each(0, n, lambda k: [values.put(0, k, a.get(k, k))]),
            *self._sorted(n, values, True, *([(v, n)] if vectors else [])),
            *self._each(0, n, given),
        ]

    def qr(self) -> tuple[list[str], list[str]]:
        """Q.T and R side by side."""
        m, n = self.m, self.n
        count = min(m, n)
        w, q, taus = self._entries("columns", n, m), self._entries("basis", count, m), self._entries("taus", 1, count)

        def upper(i: Index) -> list[str]:
            zeros = self._each(0, n, lambda j: [self._stored(i, _sum(m, j), self._splat("0.0"))])
            return zeros + self._each(i, n, lambda j: [self._stored(i, _sum(m, j), f"{w.get(j, i)} * down")])

        return [*w.home, *q.home, *taus.home], [
            *self._scaled(w, wide=True),
            *self._reflected(w, taus, n, m),
            *self._orthogonal(w, taus, q, count, m),
            *self._each(0, count, lambda k: self._each(0, m, lambda i: [self._stored(k, i, q.get(k, i))])),
            *self._each(0, count, upper),
        ]

    def svd(self) -> tuple[list[str], list[str]]:
        """U.T, V.T and the singular values side by side. A wide matrix is transposed, so that U and V change places."""
        wide, vectors = self.m < self.n, self.job.vectors
        high, count = max(self.m, self.n), min(self.m, self.n)
        w, q = self._entries("columns", count, high), self._entries("basis", count, high)
        v = self._entries("vectors", count, count)
        values, taus = self._entries("values", 1, count), self._entries("taus", 1, count)

        def rotate(a: Index, b: Index) -> list[str]:
            def summed(i: Index) -> list[str]:
                lines = [f"u = {w.get(a, i)}", f"v = {w.get(b, i)}"]
                return [*lines, "low = fma(u, u, low)", "high = fma(v, v, high)", "x = fma(u, v, x)"]

            zero = self._splat("0.0")
            sums = [f"low = {zero}", f"high = {zero}", f"x = {zero}", *self._each(0, high, summed)]
            turned = self._turned(v, count, a, b) if vectors else []
            return [*sums, *self._angle(), *self._turned(w, high, a, b), *turned]

        def norm(k: Index) -> list[str]:
            return [
                f"most = {self._splat('0.0')}",
                *self._squares(w, k, 0, high),
                values.put(0, k, "sqrt(total) * down_k"),
            ]

        def given(k: Index) -> list[str]:
            value = self._stored(k, self.m + self.n, f"{values.get(0, k)} * down")
            if not vectors:
                return [value]
            turned = f"copysign({self._splat('1.0')}, {w.get(k, k)})"  # R's diagonal holds the norm with this sign
            signs = {v: "sign", q: f"sign * {turned}"}
            left, right = (v, q) if wide else (q, v)
            return [
                *self._sign(right, k, self.n),
                *([f"sign = {signs[q]}"] if wide else []),
                *self._each(0, self.m, lambda i: [self._stored(k, i, f"{signs[left]} * {left.get(k, i)}")]),
                *self._each(
                    0, self.n, lambda i: [self._stored(k, _sum(self.m, i), f"{signs[right]} * {right.get(k, i)}")]
                ),
                value,
            ]

        bases = [*self._reflected(w, taus, count, high), *self._orthogonal(w, taus, q, count, high)]
        return [*w.home, *(v.home + q.home if vectors else []), *values.home, *(taus.home if vectors else [])], [
            *self._scaled(w, wide=not wide),
            *(self._identity(v, count, count) if vectors else []),
            *self._sweeps(count, rotate),
            *self._each(0, count, norm),
            *self._sorted(count, values, False, *([(w, high), (v, count)] if vectors else [])),
            *(bases if vectors else []),
            *self._each(0, count, given),
        ]


WRITERS: dict[str, Callable[[_Writer], tuple[list[str], list[str]]]] = {
    "eigh": _Writer.eigh,
    "qr": _Writer.qr,
    "svd": _Writer.svd,
}
"""For each routine, the function that returns two lists of lines: those that reserve the stack, and those that
decompose a vector of matrices."""
