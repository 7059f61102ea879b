"""Fourier transforms as Python source: passes over a row, one for each factor of its length.

Before a pass, a row is an array of the shape (radix, left, done), with the frequencies of finished transforms along
`done`. The pass makes it (left, radix, done), which is (left, done) for the next pass, with `done` larger by the factor
`radix` (Stockham's order: nothing has to be sorted in the end). Each element is multiplied by a power of a root of
unity. Then short transforms follow, in full vectors along `done`; in the first pass, along `left`.

Between passes, a row is two planes: all real parts, then all imaginary parts. The first pass separates the pairs that
lie in memory, and the last one makes pairs again. Rows alternate between `spare` and the memory of the result. All rows
of a thread's piece use the same part of `spare`, which stays in the cache.

For a known length, each pass has its own code. For any other length, factors are found when the function runs. If one
of them is a large prime, the transform is a convolution with a chirp, `exp(pi i j j / n)` (L. Bluestein, "A linear
filtering approach to the computation of discrete Fourier transform", 1970): two transforms of a length `m` that has
small factors, and between them a product with the transform of the chirp. The second one goes backwards, for which the
planes are exchanged.

`scanjit.ops.passes` says what lies in `table`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from scanjit import types
from scanjit.codegen.lines import LOOK, indented
from scanjit.codegen.names import suffix
from scanjit.codegen.pairs import Pair, Pairs, Span
from scanjit.codegen.source import Parameters, Source
from scanjit.ops.passes import FOUND, LARGEST_FACTOR, Number, factors, is_written_out, table_of
from scanjit.schedule.nests import Fourier, NestLoop, RootsOfUnity, Tile
from scanjit.target import Target

Given = Callable[[Number], Pair]
Put = Callable[[Number, Pair], None]


def fourier_source(job: Fourier, target: Target) -> Source:
    """The source of a function that transforms rows. Threads share the rows."""
    return _Writer(job, target.lanes(job.result.buffer.dtype.itemsize)).source(job)


def roots_source(job: RootsOfUnity, target: Target) -> Source:
    """The source of a function that fills a table for rows of a length that is known only when it runs."""
    parameters = Parameters()
    table, n = parameters.address(job.table.buffer, job.table.offset), parameters.number(job.length)
    dtype = job.table.buffer.dtype
    size, wide = dtype.itemsize, min(target.lanes(dtype.itemsize), 8)
    places, value = f"iota_i64x{wide}(first)", f"cast_{suffix(dtype, wide)}({{}}(angle))"

    def row(count: str, turns: str, whole: str) -> list[str]:
        """The roots for `turns`, of which each is one part of `whole`."""
        return [
            f"for first in range(0, {count}, {wide}):",
            f"    angle = cast_f64x{wide}({turns}) / cast_f64x{wide}(splat_i64x{wide}({whole})) * 6.283185307179586",
            f"    mask = head_x{wide}({count} - first)",
            f"    store_masked(place + first*{size}, {value.format('cos')}, mask)",
            f"    store_masked(place + {count}*{size} + first*{size}, {value.format('sin')}, mask)",
            f"place += 2*{count}*{size}",
        ]

    lines = [
        *_find_length(n),
        f"place = {table}",
        f"if m != {n}:",
        *indented(row(n, f"mod({places}*{places}, splat_i64x{wide}(2*{n}))", f"2*{n}")),
        "left = m",
        "done = 1",
        "while left > 1:",
        *indented(LOOK),
        *indented(_choose_radix()),
        "    whole = radix*done",
        "    if done > 1:",
        "        for j in range(1, radix):",
        *indented(row("done", f"{places}*j", "whole"), 3),
        f"    if radix > {max(FOUND)}:",
        *indented(row("radix", f"{places}*done", "whole"), 2),
        "    left = left // radix",
        "    done = whole",
    ]
    return parameters.source(job.title, indented(lines), ["line"])


def _find_length(n: str) -> list[str]:
    """Find `m`: the length n; or, if a factor of n is a large prime, the length of a convolution.

    This is the first multiple of 4 from 2 n - 1 on whose factors are all small.
    """
    return [
        f"m = {n}",
        f"left = {n}",
        "while left > 1:",
        *indented(_choose_radix()),
        f"    if radix > {LARGEST_FACTOR}:",
        "        m = 0",
        "    left = left // radix",
        f"if m < {n}:",
        f"    m = (2*{n} + 2)//4*4 - 4",
        "    left = 0",
        "    while left != 1:",
        "        m = m + 4",
        "        left = m",
        *(
            line
            for radix in FOUND
            for line in (f"        while left % {radix} == 0:", f"            left = left // {radix}")
        ),
    ]


def _choose_radix() -> list[str]:
    """Find the next factor of `left`."""
    lines, word = [], "if"
    for radix in FOUND:
        lines += [f"{word} left % {radix} == 0:", f"    radix = {radix}"]
        word = "elif"
    return [
        *lines,
        "else:",
        "    radix = 7",
        "    while radix*radix <= left and left % radix != 0:",
        "        radix += 2",
        "    if radix*radix > left:",
        "        radix = left",
    ]


class _Writer:
    """Writes the lines of a transform."""

    def __init__(self, job: Fourier, lanes: int) -> None:
        dtype = job.result.buffer.dtype
        self.dtype, self.lanes, self.sign, self.size = dtype, lanes, job.sign, dtype.itemsize
        self.parameters = Parameters()
        self.places = [self.parameters.address(ref.buffer, ref.offset) for ref, _ in job.arrays]
        self.n, self.known = self.parameters.number(job.length), isinstance(job.length, int)
        self.pairs = Pairs(dtype, lanes, job.sign, self.n if self.known else "plane")
        self.add, self.new, self.block = self.pairs.add, self.pairs.new, self.pairs.block

    def source(self, job: Fourier) -> Source:
        """The loop over rows."""
        length = job.length
        self.add(f"square = stack({2 * 8 * 8 * self.size})")
        if isinstance(length, int):
            self.block("for row in range(begin, end):", partial(self._known_row, job, length))
        else:
            self.add(*_find_length(self.n))
            self.block("for band in range(begin, end):", partial(self._band, job))
        tile = Tile(split=NestLoop(types.minimum(job.rows, job.pieces)))
        return self.parameters.source(job.title, self.pairs.lines, ["begin", "end", "line"], tile=tile)

    # ---- passes -----------------------------------------------------------------------------------------------------

    def _row(self, job: Fourier, row: str) -> None:
        """The addresses of a row."""
        for name, place, longer in zip(
            ("given", "result"), self.places, (job.half and job.sign > 0, job.half and job.sign < 0), strict=False
        ):
            self.add(f"{name} = {place} + ({row})*{f'({self.n} + 1)' if longer else self.n}*{2 * self.size}")

    def _known_row(self, job: Fourier, length: int) -> None:
        """The lines for one row of a known length."""
        self.add(*LOOK)
        self._row(job, "row")
        *_, spare, table = self.places
        self.add(f"spare = {spare} + begin*{self.n}*{2 * self.size}", f"table = {table}")
        self._known(length, job.half)

    def _known(self, n: int, half: bool) -> None:
        """The passes for a known length, one after the other; and before or after them, the lines that half spectra
        need."""
        plan, done, here, offset = factors(n), 1, "given", 0
        forth, back = half and self.sign < 0, half and self.sign > 0
        end = "spare" if forth else "result"
        other = "result" if forth else "spare"
        whole = table_of(n, self.dtype).size
        if back:
            here = end if len(plan) % 2 == 0 else other
            self._from_half(n, whole, here)
        for i, radix in enumerate(plan):
            last = i == len(plan) - 1
            there = end if (len(plan) - i) % 2 else other
            self.add(*LOOK)
            self._pass(radix, n // radix // done, done, offset, here, there, (i == 0 and not back, last and not forth))
            offset += (0 if done == 1 else 2 * (radix - 1) * done) + (0 if is_written_out(radix) else 2 * radix)
            done, here = done * radix, there
        if forth:
            self._to_half(n, whole)

    def _halves_joined(self, here: str, n: int, whole: int, span: Span, paired: bool) -> tuple[Pair, Pair]:
        """For the elements x from k on, and the elements y from n - k down: `x + conj(y)`; and `x - conj(y)` times the
        powers of the root of order 2n from k on."""
        around = self.new(f"reversed_lanes({span.mask}, {span.mask})") if span.mask else ""
        x = self.pairs.element(here, span, paired)
        y = self.pairs.element(here, Span(f"{n - span.wide + 1} - k", span.wide, around), paired)
        y = self.new(f"reversed_lanes({y[0]}, {y[0]})"), self.new(f"reversed_lanes({y[1]}, {y[1]})")
        power = self.pairs.two_planes(f"table + ({whole} + k)*{self.size}", str(n + 1), span)
        total = self.new(f"{x[0]} + {y[0]}"), self.new(f"{x[1]} - {y[1]}")
        return total, self.pairs.times((self.new(f"{x[0]} - {y[0]}"), self.new(f"{x[1]} + {y[1]}")), power)

    def _to_half(self, n: int, whole: int) -> None:
        """The half spectrum of real numbers, of which those with even and odd index were transformed as real and
        imaginary parts."""
        first = self.pairs.element("spare", Span("0", 1))
        zero = self.new(f"splat_{suffix(self.dtype, 1)}(0.0)")
        for k, sign in ((0, "+"), (n, "-")):
            self.pairs.paired_store("result", Span(str(k), 1), (self.new(f"{first[0]} {sign} {first[1]}"), zero))

        def vectors(span: Span) -> None:
            (a, b), (c, d) = self._halves_joined("spare", n, whole, span, False)
            pair = self.new(f"({a} + {d})*0.5"), self.new(f"({b} - {c})*0.5")
            self.pairs.paired_store("result", span, pair)

        self.pairs.vectors("k", n - 1, self.pairs.wide_until(n - 1), vectors, 1)

    def _from_half(self, n: int, whole: int, there: str) -> None:
        """The inverse of `_to_half`, before the passes."""
        first, last = (self.pairs.element("given", Span(k, 1), True) for k in ("0", str(n)))
        pair = self.new(f"{first[0]} + {last[0]}"), self.new(f"{first[0]} - {last[0]}")
        self.pairs.result(there, Span("0", 1), pair)

        def vectors(span: Span) -> None:
            (a, b), (c, d) = self._halves_joined("given", n, whole, span, True)
            self.pairs.result(there, span, (self.new(f"{a} - {d}"), self.new(f"{b} + {c}")))

        self.pairs.vectors("k", n - 1, self.pairs.wide_until(n - 1), vectors, 1)

    def _band(self, job: Fourier) -> None:
        """Rows of a length that is known only at run time, in turns. A row takes one turn. As a convolution it takes
        two, and a turn before all rows transforms the chirp."""
        rows, bands, n, size = self.parameters.number(job.rows), self.parameters.number(job.pieces), self.n, self.size
        *_, spare, table = self.places
        self.add(
            f"low = {rows}*band//{bands}",
            f"turns = {rows}*(band + 1)//{bands} - low",
            f"here = {spare} + band*{18 * size}*{n}",
            "plane = m + 16*min(m//64, 1)",  # planes of 2048 numbers would share places of the cache
            f"there = here + plane*{2 * size}",
            f"kept = there + plane*{2 * size}",
            f"powers = {table}",
        )
        self.block(f"if m != {n}:", lambda: self.add("turns = 2*turns + 1", f"powers = powers + {n}*{2 * size}"))

        def turn() -> None:
            self.add(*LOOK, "row = low + turn")
            self.block(f"if m != {n}:", lambda: self.add("row = low + (max(turn, 1) - 1)//2"))
            self._row(job, "row")
            self.block(f"if m == {n}:", self._parted)
            self.block("elif turn == 0:", partial(self._chirp, table))
            self.block("elif turn % 2 == 1:", partial(self._with_chirp, table))
            self.block("else:", self._multiplied)
            self._found()
            self.block(f"if m == {n}:", self._paired)
            self.block("elif turn == 0:", self._kept)
            self.block("elif turn % 2 == 0:", partial(self._without_chirp, table))

        self.block("for turn in range(turns):", turn)

    def _found(self) -> None:
        """The passes from `here`, by way of `there`, back to `here`."""
        size = self.size
        self.add("table = powers", "done = 1", "left = m")

        def one() -> None:
            self.add(*LOOK, *_choose_radix(), "left = left // radix")
            word = "if"
            for radix in FOUND:
                self.block(f"{word} radix == {radix}:", partial(self._either, radix))
                word = "elif"
            self.block("else:", lambda: self._either(0))
            self.block("if done > 1:", lambda: self.add(f"table += 2*(radix - 1)*done*{size}"))
            self.block(f"if radix > {max(FOUND)}:", lambda: self.add(f"table += 2*radix*{size}"))
            self.add("done = done*radix", "other = here", "here = there", "there = other")

        self.block("while left > 1:", one)

    # ---- before and after the passes of a length that is found -----------------------------------------------------

    def _each(self, count: str, change: Callable[[Span], None]) -> None:
        """A loop over `count` elements of a row."""
        self.pairs.vectors("i", count, self.lanes, change)

    def _parted(self) -> None:
        """Separate the pairs of a row into planes."""
        self._each(self.n, lambda span: self.pairs.result("here", span, self.pairs.paired_load("given", span)))

    def _paired(self) -> None:
        """Make pairs of the planes of a row."""
        self._each(self.n, lambda span: self.pairs.paired_store("result", span, self.pairs.element("here", span)))

    def _power(self, table: str, span: Span) -> Pair:
        """The chirp from i on, with a positive sign."""
        return self.pairs.two_planes(f"{table} + i*{self.size}", self.n, span)

    def _chirp(self, table: str) -> None:
        """The chirp with the other sign, which is symmetric around 0."""

        def vectors(span: Span) -> None:
            real, imaginary = self._power(table, span)
            self.pairs.result("here", span, (real, self.new(f"-{imaginary}") if self.sign > 0 else imaginary))

        self._each(self.n, vectors)
        self._zeros(self.n, f"m - 2*{self.n} + 1")

        def mirrored() -> None:
            self.pairs.result("here", Span("m - i", 1), self.pairs.element("here", Span("i", 1)))

        self.block(f"for i in range(1, {self.n}):", mirrored)

    def _zeros(self, start: str, count: str) -> None:
        """Store `count` zeros from `start` on."""
        self.add(f"more = {count}", f"zero = splat_{suffix(self.dtype, self.lanes)}(0.0)")

        def vectors(span: Span) -> None:
            self.pairs.result("here", span._replace(start=f"{start} + i"), ("zero", "zero"))

        self._each("more", vectors)

    def _with_chirp(self, table: str) -> None:
        """A row times the chirp, with zeros behind it."""

        def vectors(span: Span) -> None:
            x = self.pairs.paired_load("given", span)
            self.pairs.result("here", span, self.pairs.times(x, self._power(table, span)))

        self._each(self.n, vectors)
        self._zeros(self.n, f"m - {self.n}")

    def _kept(self) -> None:
        """Keep the transform of the chirp."""
        self._each("m", lambda span: self.pairs.result("kept", span, self.pairs.element("here", span)))

    def _multiplied(self) -> None:
        """The product with the transform of the chirp, with its planes exchanged."""

        def vectors(span: Span) -> None:
            (a, b), (c, d) = (self.pairs.element(name, span) for name in ("here", "kept"))
            self.pairs.result("here", span, (self.new(f"{b}*{c} + {a}*{d}"), self.new(f"{a}*{c} - {b}*{d}")))

        self._each("m", vectors)

    def _without_chirp(self, table: str) -> None:
        """Pairs from the exchanged planes, times the chirp."""
        kind = suffix(self.dtype, self.lanes)
        self.add(f"share = splat_{kind}(1.0) / cast_{kind}(splat_i64x{self.lanes}(m))")

        def vectors(span: Span) -> None:
            imaginary, real = self.pairs.element("here", span)
            x = self.new(f"{real}*share"), self.new(f"{imaginary}*share")
            self.pairs.paired_store("result", span, self.pairs.times(x, self._power(table, span)))

        self._each(self.n, vectors)

    def _either(self, radix: int) -> None:
        """A pass of a row of unknown length: the first pass, or a later one."""
        name: Number = radix or "radix"
        self.block("if done == 1:", lambda: self._pass(name, "left", 1, 0, "here", "there", (False, False)))
        self.block("else:", lambda: self._pass(name, "left", "done", 0, "here", "there", (False, False)))

    def _pass(
        self, radix: Number, left: Number, done: Number, offset: int, here: str, there: str, paired: tuple[bool, bool]
    ) -> None:
        """One pass from `here` to `there`. `paired` says of both whether they hold pairs. The powers of the pass begin
        at `offset` in the table."""
        if done == 1:
            self._first_pass(radix, left, offset, here, there, paired)
        else:
            self._later_pass(radix, left, done, offset, here, there, paired[1])

    def _first_pass(
        self, radix: Number, left: Number, offset: int, here: str, there: str, paired: tuple[bool, bool]
    ) -> None:
        """The first pass, with vectors along `left`. Squares of elements are transposed, so that whole vectors are
        stored."""
        wide = radix if isinstance(radix, int) and radix in (4, 8) and radix <= self.lanes else self.lanes
        if isinstance(left, int):
            wide = min(wide, self.pairs.wide_until(left))

        def transforms(span: Span) -> None:
            def given(r: Number) -> Pair:
                return self.pairs.element(here, span._replace(start=f"{r}*{left} + l"), paired[0])

            def put(k: Number, y: Pair) -> None:
                self.pairs.column(there, radix, k, span, y, paired[1])

            if not is_written_out(radix):
                self._sums(radix, offset, wide, given, put)
                return
            ys = self.pairs.short([given(r) for r in range(int(radix))])
            if wide == radix and not span.mask and not paired[1]:
                self.pairs.transposed(ys, there, radix)
            else:
                for k, y in enumerate(ys):
                    put(k, y)

        self.pairs.vectors("l", left, wide, transforms)

    def _later_pass(
        self, radix: Number, left: Number, done: Number, offset: int, here: str, there: str, paired: bool
    ) -> None:
        """A later pass, with vectors along `done`. The powers stay in registers for all of `left`."""
        wide = self.lanes
        while isinstance(done, int) and wide >= 2 * done:
            wide //= 2

        def columns(span: Span) -> None:
            def power(r: Number) -> Pair:
                place = f"table + ({offset} + 2*({r} - 1)*{done} + s)*{self.size}"
                return self.pairs.two_planes(place, str(done), span)

            def given(r: Number) -> Pair:
                return self.pairs.element(here, span._replace(start=f"({r}*{left} + l)*{done} + s"))

            def turned(r: Number) -> Pair:
                return self.pairs.times(given(r), power(r)) if r else given(r)

            def put(k: Number, y: Pair) -> None:
                self.pairs.result(there, span._replace(start=f"(l*{radix} + {k})*{done} + s"), y, paired)

            def written_out() -> None:
                first, *rest = [given(r) for r in range(int(radix))]
                for k, y in enumerate(self.pairs.short([first, *map(self.pairs.times, rest, powers)])):
                    put(k, y)

            every = f"for l in range({left}):"
            if is_written_out(radix):
                powers = [power(r) for r in range(1, int(radix))]
                self.block(every, written_out)
            else:
                start = f"{offset} + 2*({radix} - 1)*{done}"
                self.block(every, lambda: self._sums(radix, start, wide, turned, put))

        self.pairs.vectors("s", done, wide, columns)

    def _sums(self, radix: int | str, start: int | str, wide: int, given: Given, put: Put) -> None:
        """The transform of `radix` elements, in which each frequency is a sum. The powers of the root begin at
        `start`."""
        real, imaginary = f"real{wide}", f"imaginary{wide}"
        kind, signs = suffix(self.dtype, wide), "-+" if self.sign > 0 else "+-"

        def term() -> None:
            self.add("turn += k")
            self.block(f"if turn >= {radix}:", lambda: self.add(f"turn -= {radix}"))
            a, b = given("r")
            place = f"table + ({start} + turn)*{self.size}"
            c = self.new(f"broadcast_{kind}({place})")
            d = self.new(f"broadcast_{kind}({place} + {radix}*{self.size})")
            self.add(f"{real} = {real} + ({a}*{c} {signs[0]} {b}*{d})")
            self.add(f"{imaginary} = {imaginary} + ({b}*{c} {signs[1]} {a}*{d})")

        def frequency() -> None:
            first = given(0)
            self.add(f"{real} = {first[0]}", f"{imaginary} = {first[1]}", "turn = 0")
            self.block(f"for r in range(1, {radix}):", term)
            put("k", (real, imaginary))

        self.block(f"for k in range({radix}):", frequency)
