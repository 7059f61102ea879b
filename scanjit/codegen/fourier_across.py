"""Fourier transforms of short rows side by side, as Python source: as many rows as a vector has lanes.

An element is two vectors: real parts of one number of each row, then imaginary parts. Rows are brought into this
order by transposing square blocks of what lies in memory, and their spectra are taken back in the same way. So passes
need no shuffles, and each one is a loop over elements, whose powers of a root of unity are the same for all rows.

The transform of an odd number n of real numbers needs half of the work of complex ones: after each pass, the
frequencies `done - s` are the conjugates of the frequencies s. Each pass computes s up to the half. It stores the
conjugates of those of its results that are frequencies beyond the half.
"""

from collections.abc import Callable
from functools import partial

from scanjit.codegen.lines import LOOK
from scanjit.codegen.names import suffix
from scanjit.codegen.pairs import Pair, Pairs
from scanjit.codegen.roots import choose_radix
from scanjit.codegen.square import SIDES, turned
from scanjit.ops.passes import FOUND, Number, is_written_out, passes
from scanjit.schedule.nests import Fourier, most_across


class Across:
    """Writes the transform of rows side by side. The variables are those of `scanjit.codegen.fourier`."""

    def __init__(self, pairs: Pairs, job: Fourier, n: str, h: Number) -> None:
        length = job.known
        self.pairs, self.length, self.n, self.h = pairs, length, n, h
        self.lanes, self.size = pairs.lanes, pairs.size
        self.vector = self.lanes * self.size
        self.kind = suffix(pairs.dtype, self.lanes)
        self.forth, self.back = job.given_form == "reals", job.result_form == "reals"
        self.whole = self.forth and job.result_form == "pairs"
        self.most = most_across(job.length, job.real)
        if length is not None:
            self.most = length if length <= self.most else 0
        self.floats: dict[str, Number] = {"pairs": f"2*{n}", "reals": n, "half": f"2*({n}//2 + 1)"}
        """How many floats a row has in each form."""
        if length is not None:
            self.floats = {"pairs": 2 * length, "reals": length, "half": 2 * (length // 2 + 1)}
        self.folded = self.forth and (length is None or length % 2 == 1)
        """Whether passes compute half of the frequencies: always, or if the variable `odd` is 1."""
        self.add, self.new, self.block = pairs.add, pairs.new, pairs.block

    @property
    def any(self) -> bool:
        """Whether rows are transformed side by side."""
        return self.most > 0 and self.lanes >= min(SIDES)

    def write(self, row: Callable[[], None]) -> None:
        """Transform the rows of a known length from `row` on, as long as there are enough of them for a vector. `row`
        writes the addresses of a row."""

        def rows() -> None:
            self.add(*LOOK)
            row()
            self.bring()
            self._known(int(self.h))
            self.take()

        if self.any:
            self.block(f"while row + {self.lanes} <= stop:", rows)

    def found_passes(self) -> None:
        """The passes of a length that is found when a function runs, from `here`, by way of `there`, back to `here`:
        those of the factors of `left`, and behind them one of the factor `last`."""
        self.add("table = powers", "done = 1")
        radices = (16, *FOUND) if self.lanes == 16 else FOUND

        def of_radix(radix: Number) -> None:
            if radix in (8, 4):  # others may multiply by ones
                self.block("if done == 1:", lambda: self._pass(radix, "rest", 1, 0))
                self.block("else:", lambda: self._pass(radix, "rest", "done", 0))
            else:
                self._pass(radix, "rest", "done", 0)

        def turn() -> None:
            self.add(*LOOK, "radix = last")
            self.block("if left > 1:", lambda: self.add(*choose_radix(), "left = left // radix"))
            self.block("else:", lambda: self.add("last = 1"))
            self.add("rest = left*last")
            word = "if"
            for radix in radices:
                self.block(f"{word} radix == {radix}:", partial(of_radix, radix))
                word = "elif"
            self.block("else:", lambda: of_radix("radix"))
            self.add(f"table += 2*(radix - 1)*done*{self.size}")
            self.block("if radix % 2 == 1:", lambda: self.add(f"table += 2*radix*{self.size}"))
            self.add("done = done*radix")
            self._swap()

        self.block("while left*last > 1:", turn)

    # ---- before and after the passes ---------------------------------------------------------------------------------

    def bring(self) -> None:
        """Make vectors of the rows, and begin with half spectra."""
        self.add("table = powers", "here = home", f"there = home + {self.n}*{2 * self.vector}")
        if self.length is None and self.forth:
            self.add(f"odd = h // max({self.n}, 1)")
        if self.back:
            self._turned("half", self.vector, into=True)
            self.by_parity(self._from_half, self._spread)
        elif self.forth:

            def odd() -> None:
                self._turned("reals", 2 * self.vector, into=True)
                zero = f"store(here + i*{2 * self.vector} + {self.vector}, splat_{self.kind}(0.0))"
                self.block(f"for i in range({self.n}):", lambda: self.add(zero))

            self.by_parity(lambda: self._turned("reals", self.vector, into=True), odd)
        else:
            self._turned("pairs", self.vector, into=True)

    def take(self) -> None:
        """Make the result of vectors, and end with half spectra."""
        if self.back:
            self.by_parity(
                lambda: self._turned("reals", self.vector, into=False),
                lambda: self._turned("reals", 2 * self.vector, into=False),
            )
        elif self.forth:
            zero = f"store(here + {self.vector}, splat_{self.kind}(0.0))"
            self.by_parity(self._to_half, lambda: self.add(zero))
            if self.whole:
                self._mirrored(f"({self.n} - 1)//2")
            self._turned("pairs" if self.whole else "half", self.vector, into=False)
        else:
            self._turned("pairs", self.vector, into=False)
        self.add(f"row += {self.lanes}")

    def by_parity(self, even: Callable[[], None], odd: Callable[[], None]) -> None:
        """Lines for an even number of real numbers, and for an odd one."""
        if self.length is not None:
            (odd if self.length % 2 else even)()
            return
        self.block(f"if h != {self.n}:", even)
        self.block("else:", odd)

    def _turned(self, form: str, apart: int, into: bool) -> None:
        """Make vectors `here`, which lie `apart`, of rows in a form, or the result of such vectors."""
        kind, rows = self.pairs.dtype.kind + str(8 * self.size), "given" if into else "result"
        self.add(*turned(kind, self.size, self.lanes, self.floats[form], rows, "here", apart, into))

    def _swap(self) -> None:
        """What was computed there is here."""
        self.add("other = here", "here = there", "there = other")

    # ---- half spectra ------------------------------------------------------------------------------------------------

    def _element(self, base: str, i: str) -> Pair:
        """Load element i of all rows."""
        place = f"{base} + ({i})*{2 * self.vector}"
        return self.pairs.load(place, self.lanes, ""), self.pairs.load(f"{place} + {self.vector}", self.lanes, "")

    def put(self, base: str, i: str, pair: Pair) -> None:
        """Store element i of all rows."""
        place = f"{base} + ({i})*{2 * self.vector}"
        self.add(f"store({place}, {pair[0]})", f"store({place} + {self.vector}, {pair[1]})")

    def _broadcast(self, place: str, apart: str) -> Pair:
        """A power from a table, in all lanes."""
        real, imaginary = (
            self.new(f"broadcast_{self.kind}({place}{more})") for more in ("", f" + {apart}*{self.size}")
        )
        return real, imaginary

    def _halves_joined(self) -> tuple[Pair, Pair]:
        """Of the elements x = k and y = h - k: `x + conj(y)`; and `x - conj(y)` times the power k of the root of order
        2h."""
        x, y = self._element("here", "k"), self._element("here", f"{self.h} - k")
        return self.pairs.joined(x, y, self._broadcast(f"roots + k*{self.size}", f"({self.h} + 1)"))

    def _to_half(self) -> None:
        """The half spectrum of real numbers, from the transform of pairs of neighbours."""
        first, zero = self._element("here", "0"), self.new(f"splat_{self.kind}(0.0)")
        self.put("there", "0", (self.new(f"{first[0]} + {first[1]}"), zero))
        self.put("there", str(self.h), (self.new(f"{first[0]} - {first[1]}"), zero))

        def both() -> None:
            (a, b), (c, d) = self._halves_joined()
            self.put("there", "k", (self.new(f"({a} + {d})*0.5"), self.new(f"({b} - {c})*0.5")))
            self.put("there", f"{self.h} - k", (self.new(f"({a} - {d})*0.5"), self.new(f"({b} + {c})*-0.5")))

        self.block(f"for k in range(1, {self.h}//2 + 1):", both)
        self._swap()

    def _from_half(self) -> None:
        """The inverse of `_to_half`, before the passes."""
        first, last = self._element("here", "0"), self._element("here", str(self.h))
        self.put("there", "0", (self.new(f"{first[0]} + {last[0]}"), self.new(f"{first[0]} - {last[0]}")))

        def both() -> None:
            (a, b), (c, d) = self._halves_joined()
            self.put("there", "k", (self.new(f"{a} - {d}"), self.new(f"{b} + {c}")))
            self.put("there", f"{self.h} - k", (self.new(f"{a} + {d}"), self.new(f"{c} - {b}")))

        self.block(f"for k in range(1, {self.h}//2 + 1):", both)
        self._swap()

    def _spread(self) -> None:
        """The whole spectrum of a half one: frequencies beyond the half are conjugates."""
        self.add(f"store(here + {self.vector}, splat_{self.kind}(0.0))")
        self._mirrored(f"{self.n}//2")

    def _mirrored(self, last: str) -> None:
        """Elements beyond the half: conjugates of those from 1 to `last`."""

        def mirrored() -> None:
            a, b = self._element("here", "k")
            self.put("here", f"{self.n} - k", (a, self.new(f"-{b}")))

        self.block(f"for k in range(1, {last} + 1):", mirrored)

    # ---- passes ------------------------------------------------------------------------------------------------------

    def _known(self, h: int) -> None:
        """The passes for a known length."""
        for radix, left, done, offset in passes(h):
            if radix > 1:
                self._pass(radix, left, done, offset)
                self._swap()

    def _pass(self, radix: Number, left: Number, done: Number, offset: int) -> None:
        """One pass from `here` to `there`, in the order of elements in memory. The powers of the pass begin at `offset`
        in the table."""
        later = done != 1

        def element() -> None:
            def power(r: Number) -> Pair:
                return self._broadcast(f"table + ({offset} + 2*({r} - 1)*{done} + s)*{self.size}", str(done))

            def given(r: Number) -> Pair:
                return self._element("here", f"({r}*{left} + l)*{done} + s" if later else f"{r}*{left} + l")

            def turned(r: Number) -> Pair:
                return self.pairs.times(given(r), power(r)) if r and later else given(r)

            def put(k: Number, y: Pair) -> None:
                self._put_frequency(radix, done, k, y)

            if radix == 16 or is_written_out(radix):
                for k, y in enumerate(self.pairs.short([turned(r) for r in range(int(radix))])):
                    put(k, y)
            else:
                start = f"{offset} + 2*({radix} - 1)*{done}" if later else str(offset)
                self.pairs.sums(radix, start, self.lanes, turned, put)

        columns = str(done)
        if later and self.folded:
            columns = str(done // 2 + 1) if isinstance(done, int) else "done - odd*(done//2)"
        self.block(f"for l in range({left}):", lambda: self.block(f"for s in range({columns}):", element))

    def _put_frequency(self, radix: Number, done: Number, k: Number, y: Pair) -> None:
        """Store frequency k of a short transform. If real numbers are transformed, its conjugate is stored instead if
        it is beyond the half."""
        plain = f"(l*{radix} + {k})*{done} + s"
        if not self.folded or (isinstance(k, int) and isinstance(radix, int) and 2 * k < radix):
            self.put("there", plain, y)
            return
        whole = f"{radix}*{done}"
        if self.length is not None and isinstance(k, int):
            self.put("there", f"l*{whole} + {whole} - {k}*{done} - s", (y[0], self.new(f"-{y[1]}")))
            return
        beyond = "odd" if self.length is None else "1"
        self.add(f"beyond = {beyond}*min(2*{k}//{radix}, 1)")
        self.add(f"at = {plain} + beyond*((2*l + 1)*{whole} - 2*({plain}))")
        sign = self.new(f"cast_{self.kind}(splat_i64x{self.lanes}(1 - 2*beyond))")
        self.put("there", "at", (y[0], self.new(f"{y[1]}*{sign}")))
