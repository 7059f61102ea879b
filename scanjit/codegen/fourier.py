"""Fourier transforms as Python source: passes over a row, one for each factor of its length.

Before a pass, a row is an array of the shape (radix, left, done), with the frequencies of finished transforms along
`done`. The pass makes it (left, radix, done), which is (left, done) for the next pass, with `done` larger by the factor
`radix` (Stockham's order: nothing has to be sorted in the end). Each element is multiplied by a power of a root of
unity. Then short transforms follow.

Short rows are transformed side by side, as many as a vector has lanes (`scanjit.codegen.fourier_across`). The rest of
this file is about single rows. If the length is known, vectors lie along `done`; in the first pass, along `left`.

Between passes, a row is two planes: all real parts, then all imaginary parts. The first pass separates the pairs that
lie in memory, and the last one makes pairs again. Rows alternate between `spare` and the memory of the result. All rows
of a thread's piece use the same part of `spare`, which stays in the cache.

The spectrum of an even number of real numbers is made of that of pairs of neighbours, `_halves_joined`. An odd number
of real numbers is transformed as complex numbers are.

For a known length without large prime factors, each pass has its own code. For any other length, factors are found
when the function runs. If one of them is a large prime, the transform is a convolution with a chirp, `exp(pi i j j /
n)` (L. Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", 1970): two transforms
of a length `m` that has small factors, and between them a product with the transform of the chirp. The second one goes
backwards, for which the planes are exchanged. A single row of such a length is a matrix, whose columns are transformed
side by side by the passes for rows. The last pass is along the rows of the matrix.

`scanjit.ops.passes` says what lies in `table`.
"""

from collections.abc import Callable
from functools import partial

from scanjit.codegen.fourier_across import Across
from scanjit.codegen.lines import LOOK
from scanjit.codegen.names import suffix
from scanjit.codegen.pairs import Form, Pair, Pairs, Span
from scanjit.codegen.roots import find_length
from scanjit.codegen.source import Parameters, Source
from scanjit.ops.passes import LARGEST_FACTOR, Number, is_written_out, length_of_pairs, passes, table_of
from scanjit.schedule.nests import ALONE_BYTES, Fourier, NestLoop, Tile
from scanjit.target import Target


def fourier_source(job: Fourier, target: Target) -> Source:
    """The source of a function that transforms rows. Threads share the parts of the rows."""
    return _Writer(job, target.lanes(job.result.buffer.dtype.itemsize)).source()


class _Writer:
    """Writes the lines of a transform. `h` is the length of the transform of pairs, which for real numbers may be half
    of their number."""

    def __init__(self, job: Fourier, lanes: int) -> None:
        dtype = job.result.buffer.dtype
        self.job, self.dtype, self.lanes, self.sign, self.size = job, dtype, lanes, job.sign, dtype.itemsize
        self.parameters = Parameters()
        self.given, self.result, self.spare, self.table = (
            self.parameters.address(ref.buffer, ref.offset) for ref, _ in job.arrays
        )
        self.n, self.known, self.real = self.parameters.number(job.length), job.known is not None, job.real
        self.forth, self.back = job.given_form == "reals", job.result_form == "reals"
        self.whole = self.forth and job.result_form == "pairs"
        self.h: Number = "h"
        if job.known is not None:
            self.h = length_of_pairs(job.known) if job.real else job.known
        self.pairs = Pairs(dtype, lanes, job.sign, str(self.h) if self.known else "plane")
        self.across = Across(self.pairs, job, self.n, self.h)
        self.add, self.new, self.block = self.pairs.add, self.pairs.new, self.pairs.block

    def source(self) -> Source:
        """The loop over parts of the rows: blocks, or bands of blocks."""
        self.add(f"square = stack({2 * max(self.lanes, 8) ** 2 * self.size})")
        self.add(f"kept = stack({2 * LARGEST_FACTOR * self.lanes * self.size})")
        self.add(f"home = {self.spare} + begin*{self.parameters.number(self.job.spare.shape[-2])}*{2 * self.size}")
        if not self.known:
            self.add(*find_length(self.n, self.real, self.lanes), "stage = 0", "block = 0")
        blocks, block, rows, parts = map(
            self.parameters.number, (self.job.blocks, self.job.block, self.job.rows, self.job.pieces)
        )

        def part() -> None:
            self.add(f"row = {blocks}*part//{parts}*{block}")
            self.add(f"stop = min({blocks}*(part + 1)//{parts}*{block}, {rows})")
            self._tables()
            if self.job.known is not None:
                self.across.write(self._row)
                self.block("while row < stop:", partial(self._known_row, self.job.known))
            else:
                self._found_rows()

        self.block("for part in range(begin, end):", part)
        tile = Tile(split=NestLoop(self.job.pieces))
        return self.parameters.source(self.job.title, self.pairs.lines, ["begin", "end", "line"], tile=tile)

    def _row(self) -> None:
        """The addresses of the row `row`."""
        sizes = {"pairs": f"{self.n}*2", "reals": self.n, "half": f"({self.n}//2 + 1)*2"}
        places = ("given", self.given, self.job.given_form), ("result", self.result, self.job.result_form)
        for name, place, form in places:
            self.add(f"{name} = {place} + row*{sizes[form]}*{self.size}")

    def _tables(self) -> None:
        """The addresses in the table: of the roots for half spectra, of the chirp, and of the powers for passes."""
        if isinstance(self.h, int):
            self.add(f"powers = {self.table}", f"roots = powers + {table_of(self.h, self.dtype).size * self.size}")
            return
        self.add(f"roots = {self.table}", "chirp = roots")
        if self.real:
            self.block(f"if h != {self.n}:", lambda: self.add(f"chirp = roots + 2*(h + 1)*{self.size}"))
        self.add("powers = chirp")
        self.block("if m != h:", lambda: self.add(f"powers = chirp + 2*h*{self.size}"))

    # ---- passes of a known length ------------------------------------------------------------------------------------

    def _known_row(self, n: int) -> None:
        """The lines for one row."""
        self.add(*LOOK)
        self._row()
        self.add("spare = home", f"more = spare + {n}*{2 * self.size}", "table = powers")
        self._known(self.real and n % 2 == 1)
        self.add("row += 1")

    def _known(self, odd: bool) -> None:
        """The passes, one after the other; and before or after them, the lines that half spectra need."""
        h = int(self.h)
        plan, here = passes(h), "given"
        homes = ("more", "spare") if odd else ("result", "spare") if self.forth else ("spare", "result")
        if self.back:
            here = homes[(len(plan) + 1) % 2]
            (self._spread if odd else self._from_half)(here)
        for i, (radix, left, done, offset) in enumerate(plan):
            last = i == len(plan) - 1
            there = "result" if last and not self.forth else homes[(len(plan) - i) % 2]
            forms: tuple[Form, Form] = (
                "planes" if i or self.back else "reals" if odd else "pairs",
                "planes" if not last or self.forth else "reals" if odd else "pairs",
            )
            self.add(*LOOK)
            if done == 1:
                self._first_pass(radix, left, offset, here, there, forms)
            else:
                self._later_pass(radix, left, done, offset, here, there, forms[1])
            here = there
        if self.forth:
            (self._cut if odd else self._to_half)(here)
        if self.whole:
            self._mirrored()

    # ---- half spectra ------------------------------------------------------------------------------------------------

    def _halves_joined(self, here: str, span: Span, form: Form) -> tuple[Pair, Pair]:
        """Two pairs of vectors: `x + conj(y)`, and `x - conj(y)` times the powers from k on of the root of order 2h.
        Here x are the elements from k on, and y the elements from h - k down."""
        around = self.new(f"reversed_lanes({span.mask}, {span.mask})") if span.mask else ""
        x = self.pairs.element(here, span, form)
        y = self.pairs.element(here, Span(f"{self.h} - {span.wide - 1} - k", span.wide, around), form)
        y = self.new(f"reversed_lanes({y[0]}, {y[0]})"), self.new(f"reversed_lanes({y[1]}, {y[1]})")
        return self.pairs.joined(x, y, self.pairs.two_planes(f"roots + k*{self.size}", f"({self.h} + 1)", span))

    def _inner(self, change: Callable[[Span], None]) -> None:
        """A loop over the elements from 1 to h - 1."""
        self._each(self.h - 1 if isinstance(self.h, int) else f"{self.h} - 1", change, "k", 1)

    def _to_half(self, here: str) -> None:
        """The half spectrum of real numbers, from the transform of pairs. A pair is a number with an even index, as the
        real part, and the next number, as the imaginary part."""
        first = self.pairs.element(here, Span("0", 1))
        zero = self.new(f"splat_{suffix(self.dtype, 1)}(0.0)")
        for k, sign in (("0", "+"), (str(self.h), "-")):
            self.pairs.paired_store("result", Span(k, 1), (self.new(f"{first[0]} {sign} {first[1]}"), zero))

        def vectors(span: Span) -> None:
            (a, b), (c, d) = self._halves_joined(here, span, "planes")
            self.pairs.paired_store("result", span, (self.new(f"({a} + {d})*0.5"), self.new(f"({b} - {c})*0.5")))

        self._inner(vectors)

    def _from_half(self, there: str) -> None:
        """The inverse of `_to_half`, before the passes."""
        first, last = (self.pairs.element("given", Span(str(k), 1), "pairs") for k in (0, self.h))
        pair = self.new(f"{first[0]} + {last[0]}"), self.new(f"{first[0]} - {last[0]}")
        self.pairs.result(there, Span("0", 1), pair)

        def vectors(span: Span) -> None:
            (a, b), (c, d) = self._halves_joined("given", span, "pairs")
            self.pairs.result(there, span, (self.new(f"{a} - {d}"), self.new(f"{b} + {c}")))

        self._inner(vectors)

    def _cut(self, here: str) -> None:
        """The half spectrum of an odd number of real numbers: a part of the spectrum."""
        half: Number = int(self.n) // 2 + 1 if self.known else f"{self.n}//2 + 1"
        self._each(half, lambda span: self.pairs.paired_store("result", span, self.pairs.element(here, span)))
        self.add(f"store(result + {self.size}, splat_{suffix(self.dtype, 1)}(0.0))")

    def _spread(self, there: str) -> None:
        """The inverse of `_cut`, before the passes: frequencies beyond the half are conjugates."""

        def vectors(span: Span) -> None:
            pair = self.pairs.element("given", span, "pairs")
            self.pairs.result(there, span, pair)
            self._put_conjugates(there, span, pair, "planes")

        first = self.pairs.element("given", Span("0", 1), "pairs")
        self.pairs.result(there, Span("0", 1), (first[0], self.new(f"splat_{suffix(self.dtype, 1)}(0.0)")))
        self._each(int(self.n) // 2 if self.known else f"{self.n}//2", vectors, first=1)

    def _mirrored(self) -> None:
        """The frequencies of a result beyond the half: they are conjugates."""

        def vectors(span: Span) -> None:
            self._put_conjugates("result", span, self.pairs.element("result", span, "pairs"), "pairs")

        self._each((int(self.n) - 1) // 2 if self.known else f"({self.n} - 1)//2", vectors, first=1)

    def _put_conjugates(self, there: str, span: Span, pair: Pair, form: Form) -> None:
        """Store the conjugates of the elements from i on at the elements from n - i down."""
        around = self.new(f"reversed_lanes({span.mask}, {span.mask})") if span.mask else ""
        turned = self.new(f"reversed_lanes({pair[0]}, {pair[0]})"), self.new(f"-reversed_lanes({pair[1]}, {pair[1]})")
        self.pairs.result(there, Span(f"{self.n} - {span.wide - 1} - i", span.wide, around), turned, form)

    # ---- rows of a length that is found ------------------------------------------------------------------------------

    def _found_rows(self) -> None:
        """The rows, several side by side or one after the other. A row is transformed in one stage. As a convolution it
        takes two, and a stage before all rows of a thread's piece transforms the chirp. The passes of a stage run for a
        block of columns at a time, which are side by side as rows are; the last pass is for all of them."""
        lanes, size, across = self.lanes, self.size, self.across
        self.add(
            "apart = m // columns",
            "plane = m + 16",  # planes of 2048 numbers would share places of the cache
            f"room = (columns + {lanes - 1})//{lanes}*{lanes}*apart*{2 * size}",
            "flat = home",
            f"chirped = flat + (plane + {lanes * lanes})*{2 * size} + 2*room",
        )

        def rows() -> None:
            self.add(*LOOK)
            self._row()
            self.add("left = apart", "last = 1", "odd = 0", "beside = 0")
            if across.any:
                alone = [str(nbytes // (2 * size)) for nbytes in ALONE_BYTES]
                few = f"{self.n} <= {across.most} and m == h and row + {lanes} <= stop"
                self.block(f"if {few} and (columns != {lanes} or h <= {alone[0]} or h > {alone[1]}):", together)
            self.block("if beside == 0:", self._columns)
            across.found_passes()
            if across.any:
                self.block("if beside == 1:", across.take)
            self.block("else:" if across.any else "if beside == 0:", self._end_block)

        def together() -> None:
            self.add("beside = 1", "last = columns")
            across.bring()

        self.block("while row < stop:", rows)

    def _columns(self) -> None:
        """Begin a stage, and make vectors of a block of columns: of the rows of a matrix as long as the last factor."""

        def stage() -> None:
            self.block("if m == h:", self._brought)
            self.block("elif stage == 0:", self._chirp)
            self.block("elif stage % 2 == 1:", self._with_chirp)
            self.block("else:", self._multiplied)

        def copied(mask: str) -> None:
            element = self.pairs.element("flat", Span("i*columns + block", self.lanes, mask))
            self.across.put("here", "i", element)

        def some() -> None:
            self.add(f"mask = head_x{self.lanes}(columns - block)")
            self.block("for i in range(apart):", lambda: copied("mask"))

        self.block("if block == 0:", stage)
        self.add(f"here = flat + (plane + block*apart)*{2 * self.size}", "there = here + room")
        self.block(f"if columns == {self.lanes}:", lambda: self.block("for i in range(apart):", lambda: copied("")))
        self.block("else:", some)

    def _end_block(self) -> None:
        """End the passes of a block of columns, and behind the last one a stage."""

        def stage() -> None:
            self.add(f"here -= (block - {self.lanes})*apart*{2 * self.size}", "block = 0")
            self._last_pass()
            self.block("if m == h:", self._taken)
            self.block("elif stage == 0:", self._kept)
            self.block("elif stage % 2 == 0:", self._without_chirp)
            self.block("if m == h or stage % 2 == 0 and stage > 0:", lambda: self.add("row += 1"))
            self.add("stage += 1")

        self.add(f"block += {self.lanes}")
        self.block("if block >= columns:", stage)

    def _last_pass(self) -> None:
        """The pass from vectors of columns to planes, with vectors along the frequencies that are done. If columns fill
        a vector, squares are transposed. Their vectors are whole: what spills over the end of a frequency's part is
        overwritten by later stores, and zeros lie behind the columns and behind the table."""
        lanes, size, vector = self.lanes, self.size, self.lanes * self.size
        kind, every = suffix(self.dtype, lanes), f"range(0, apart, {lanes})"

        def turned(x: Pair, r: Number, span: Span) -> Pair:
            place = f"table + (2*({r} - 1)*apart + s)*{size}"
            return self.pairs.times(x, self.pairs.two_planes(place, "apart", span)) if r else x

        def put(k: Number, y: Pair, span: Span) -> None:
            self.pairs.result("flat", span._replace(start=f"{k}*apart + s"), y)

        def zero() -> None:
            self.across.put("here", "i", ("zero", "zero"))

        def squares() -> None:
            self.add(f"s = (apart - 1)//{lanes}*{lanes} - before")
            for part in (0, 1):
                there, here = f"square + {part * lanes * vector}", f"here + s*{2 * vector} + {part * vector}"
                self.add(f"transpose_{kind}({there}, {vector}, {here}, {2 * vector})")
            span, places = Span("s", lanes), [f"square + {r * vector}" for r in range(lanes)]
            xs = [self.pairs.two_planes(place, str(lanes * lanes), span) for place in places]
            for k, y in enumerate(self.pairs.short([turned(x, r, span) for r, x in enumerate(xs)])):
                put(k, y, span)

        def full() -> None:
            self.add(f"zero = splat_{kind}(0.0)")
            self.block(f"for i in range(apart, apart + {lanes - 1}):", zero)
            self.block(f"for before in {every}:", squares)

        def sums() -> None:
            span = Span("s", lanes, "mask")
            self.add(f"mask = head_x{lanes}(apart - s)")

            def given(r: Number) -> Pair:
                place = f"here + ({r})//{lanes}*apart*{2 * vector} + s*{2 * vector} + ({r}) % {lanes}*{size}"
                parts = [f"load_strided_{kind}({at}, {2 * vector}, mask)" for at in (place, f"{place} + {vector}")]
                return turned((self.new(parts[0]), self.new(parts[1])), r, span)

            self.pairs.sums("columns", "2*(columns - 1)*apart", lanes, given, lambda k, y: put(k, y, span))

        self.block(f"if columns == {lanes}:", full)
        self.block("else:", lambda: self.block(f"for s in {every}:", sums))

    def _each(self, count: Number, change: Callable[[Span], None], counter: str = "i", first: int = 0) -> None:
        """A loop over `count` elements of a row, from the `first` one on."""
        self.pairs.vectors(counter, count, self.pairs.wide_until(count), change, first)

    def _copied(self, source: str, form: Form, there: str, as_form: Form) -> None:
        """Copy the numbers of a row, which lie in another form there."""
        self._each(self.h, lambda span: self.pairs.result(there, span, self.pairs.element(source, span, form), as_form))

    def _brought(self) -> None:
        """Make planes of a row."""
        pairs, reals = (partial(self._copied, "given", form, "flat", "planes") for form in ("pairs", "reals"))
        if self.back:
            self.across.by_parity(partial(self._from_half, "flat"), partial(self._spread, "flat"))
        elif self.forth:
            self.across.by_parity(pairs, reals)
        else:
            pairs()

    def _taken(self) -> None:
        """Make the result of planes."""
        pairs, reals = (partial(self._copied, "flat", "planes", "result", form) for form in ("pairs", "reals"))
        if self.back:
            self.across.by_parity(pairs, reals)
        elif self.forth:
            self.across.by_parity(partial(self._to_half, "flat"), partial(self._cut, "flat"))
        else:
            pairs()
        if self.whole:
            self._mirrored()

    def _power(self, span: Span) -> Pair:
        """The chirp from i on, with a positive sign."""
        return self.pairs.two_planes(f"chirp + i*{self.size}", "h", span)

    def _chirp(self) -> None:
        """The chirp with the other sign, which is symmetric around 0."""

        def vectors(span: Span) -> None:
            real, imaginary = self._power(span)
            self.pairs.result("flat", span, (real, self.new(f"-{imaginary}") if self.sign > 0 else imaginary))

        self._each("h", vectors)
        self._zeros("m - 2*h + 1")

        def mirrored() -> None:
            self.pairs.result("flat", Span("m - i", 1), self.pairs.element("flat", Span("i", 1)))

        self.block("for i in range(1, h):", mirrored)

    def _zeros(self, count: str) -> None:
        """Store `count` zeros behind h elements."""
        self.add(f"more = {count}", f"zero = splat_{suffix(self.dtype, self.lanes)}(0.0)")

        def vectors(span: Span) -> None:
            self.pairs.result("flat", span._replace(start="h + i"), ("zero", "zero"))

        self._each("more", vectors)

    def _with_chirp(self) -> None:
        """A row times the chirp, with zeros behind it."""
        if self.real:
            self._brought()

        def vectors(span: Span) -> None:
            x = self.pairs.element("flat", span) if self.real else self.pairs.paired_load("given", span)
            self.pairs.result("flat", span, self.pairs.times(x, self._power(span)))

        self._each("h", vectors)
        self._zeros("m - h")

    def _kept(self) -> None:
        """Keep the transform of the chirp."""
        self._each("m", lambda span: self.pairs.result("chirped", span, self.pairs.element("flat", span)))

    def _multiplied(self) -> None:
        """The product with the transform of the chirp, with its planes exchanged."""

        def vectors(span: Span) -> None:
            (a, b), (c, d) = (self.pairs.element(name, span) for name in ("flat", "chirped"))
            self.pairs.result("flat", span, (self.new(f"{b}*{c} + {a}*{d}"), self.new(f"{a}*{c} - {b}*{d}")))

        self._each("m", vectors)

    def _without_chirp(self) -> None:
        """The result from the exchanged planes, times the chirp."""
        kind = suffix(self.dtype, self.lanes)
        self.add(f"share = splat_{kind}(1.0) / cast_{kind}(splat_i64x{self.lanes}(m))")

        def vectors(span: Span) -> None:
            imaginary, real = self.pairs.element("flat", span)
            x = self.new(f"{real}*share"), self.new(f"{imaginary}*share")
            y = self.pairs.times(x, self._power(span))
            if self.real:
                self.pairs.result("flat", span, y)
            else:
                self.pairs.paired_store("result", span, y)

        self._each("h", vectors)
        if self.real:
            self._taken()

    # ---- passes of a single row --------------------------------------------------------------------------------------

    def _first_pass(self, radix: int, left: int, offset: int, here: str, there: str, forms: tuple[Form, Form]) -> None:
        """The first pass, from `here` to `there`, with vectors along `left`. `forms` says how numbers lie at both. The
        powers of the pass begin at `offset` in the table. Squares of elements are transposed, so that whole vectors are
        stored."""
        wide = min(radix if radix in (4, 8) else self.lanes, self.pairs.wide_until(left))

        def transforms(span: Span) -> None:
            def given(r: Number) -> Pair:
                return self.pairs.element(here, span._replace(start=f"{r}*{left} + l"), forms[0])

            def put(k: Number, y: Pair) -> None:
                self.pairs.column(there, radix, k, span, y, forms[1])

            if not is_written_out(radix):
                self.pairs.sums(radix, offset, wide, given, put)
                return
            ys = self.pairs.short([given(r) for r in range(radix)])
            if wide == radix and not span.mask and forms[1] == "planes":
                self.pairs.transposed(ys, there, radix)
            else:
                for k, y in enumerate(ys):
                    put(k, y)

        self.pairs.vectors("l", left, wide, transforms)

    def _later_pass(self, radix: int, left: int, done: int, offset: int, here: str, there: str, form: Form) -> None:
        """A later pass, with vectors along `done`. The powers stay in registers for all of `left`."""
        wide = self.lanes
        while wide >= 2 * done:
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
                self.pairs.result(there, span._replace(start=f"(l*{radix} + {k})*{done} + s"), y, form)

            def written_out() -> None:
                first, *rest = [given(r) for r in range(radix)]
                for k, y in enumerate(self.pairs.short([first, *map(self.pairs.times, rest, powers)])):
                    put(k, y)

            every = f"for l in range({left}):"
            if is_written_out(radix):
                powers = [power(r) for r in range(1, radix)]
                self.block(every, written_out)
            else:
                start = f"{offset} + 2*({radix} - 1)*{done}"
                self.block(every, lambda: self.pairs.sums(radix, start, wide, turned, put))

        self.pairs.vectors("s", done, wide, columns)
