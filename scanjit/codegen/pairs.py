"""Lines on pairs of vectors, the real and the imaginary parts of complex numbers: where they lie, products, and Fourier
transforms of a few numbers.

In memory lie pairs; or two planes, all real parts, then all imaginary parts; or real parts alone.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from scanjit.codegen.lines import loaded, stored
from scanjit.codegen.names import suffix
from scanjit.ops.passes import Number
from scanjit.signatures import DType

Pair = tuple[str, str]
"""The names of a real and an imaginary part."""
Form = Literal["pairs", "planes", "reals"]
"""How numbers lie in memory. Those that are read as `reals` have imaginary parts of 0."""

Given = Callable[[Number], Pair]
"""Loads an element of a short transform."""
Put = Callable[[Number, Pair], None]
"""Stores an element of a short transform."""


class Span(NamedTuple):
    """Consecutive elements: the index of the first, how many a vector holds, and a mask if some are left out."""

    start: str
    wide: int
    mask: str = ""


class Pairs:
    """Writes lines on pairs.

    Parameters
    ----------
    dtype : the dtype of the parts.
    lanes : how many lanes a vector has.
    sign : the sign of the exponent of a transform.
    plane : how many elements a plane has.
    """

    def __init__(self, dtype: DType, lanes: int, sign: int, plane: str) -> None:
        self.dtype, self.lanes, self.sign, self.plane, self.size = dtype, lanes, sign, plane, dtype.itemsize
        self.lines: list[str] = []
        self.depth = 1
        self.names = 0

    def add(self, *lines: str) -> None:
        """Write lines."""
        self.lines += ["    " * self.depth + line for line in lines]

    def new(self, value: str) -> str:
        """Give a value a name."""
        self.names += 1
        self.add(f"v{self.names} = {value}")
        return f"v{self.names}"

    def block(self, head: str, write: Callable[[], None]) -> None:
        """Write a block."""
        self.add(head)
        self.depth += 1
        write()
        self.depth -= 1

    def vectors(self, name: str, count: Number, wide: int, body: Callable[[Span], None], first: int = 0) -> None:
        """A loop over `count` elements in vectors, from `first` on. The last vector has a mask if it is not full."""
        full, part = Span(name, wide), Span(name, wide, f"mask{wide}")
        if isinstance(count, int):
            whole = count // wide * wide
            if whole:
                self.block(f"for {name} in range({first}, {first + whole}, {wide}):", lambda: body(full))
            if count > whole:
                self.add(f"{name} = {first + whole}", f"{part.mask} = head_x{wide}({count - whole})")
                body(part)
            return
        self.add(f"whole = ({count}) // {wide} * {wide}")
        start, stop = ("0", "whole") if not first else (str(first), f"{first} + whole")
        self.block(f"for {name} in range({start}, {stop}, {wide}):", lambda: body(full))
        if wide > 1:

            def rest() -> None:
                self.add(f"{name} = {stop}", f"{part.mask} = head_x{wide}({count} - whole)")
                body(part)

            self.block(f"if whole < {count}:", rest)

    def wide_until(self, count: Number) -> int:
        """As many lanes as `count` elements fill."""
        if not isinstance(count, int):
            return self.lanes
        return min(self.lanes, 1 << max(count - 1, 0).bit_length())

    # ---- memory -----------------------------------------------------------------------------------------------------

    def load(self, place: str, wide: int, mask: str) -> str:
        """Load a vector, and give it a name."""
        return self.new(loaded(suffix(self.dtype, wide), place, mask))

    def _halves(self, base: str, span: Span) -> list[tuple[str, str]]:
        """The places and masks of the two vectors that hold pairs."""
        start, wide, mask = span
        place = f"{base} + ({start})*{2 * self.size}"
        if mask:
            self.add(f"low{wide} = paired_low({mask}, {mask})", f"high{wide} = paired_high({mask}, {mask})")
        masks = (f"low{wide}", f"high{wide}") if mask else ("", "")
        return list(zip((place, f"{place} + {wide * self.size}"), masks, strict=True))

    def paired_load(self, base: str, span: Span) -> Pair:
        """Load pairs that lie in memory."""
        both = ", ".join([self.load(place, span.wide, half) for place, half in self._halves(base, span)])
        return self.new(f"evens({both})"), self.new(f"odds({both})")

    def paired_store(self, base: str, span: Span, pair: Pair) -> None:
        """Store pairs as they lie in memory."""
        for (place, half), name in zip(self._halves(base, span), ("paired_low", "paired_high"), strict=True):
            self.add(stored(place, f"{name}({', '.join(pair)})", half))

    def two_planes(self, place: str, apart: str, span: Span) -> Pair:
        """Load two vectors. The second lies `apart` elements behind the first."""
        real, imaginary = (self.load(place + more, span.wide, span.mask) for more in ("", f" + {apart}*{self.size}"))
        return real, imaginary

    def element(self, base: str, span: Span, form: Form = "planes") -> Pair:
        """Load numbers as they lie in memory."""
        if form == "pairs":
            return self.paired_load(base, span)
        place = f"{base} + ({span.start})*{self.size}"
        if form == "reals":
            return self.load(place, span.wide, span.mask), self.new(f"splat_{suffix(self.dtype, span.wide)}(0.0)")
        return self.two_planes(place, self.plane, span)

    def result(self, base: str, span: Span, pair: Pair, form: Form = "planes") -> None:
        """Store numbers as they are to lie in memory."""
        if form == "pairs":
            self.paired_store(base, span, pair)
            return
        place = f"{base} + ({span.start})*{self.size}"
        for value, more in self._stored(pair, f" + {self.plane}*{self.size}", form):
            self.add(stored(place + more, value, span.mask))

    def _stored(self, pair: Pair, apart: str, form: Form) -> list[tuple[str, str]]:
        """The parts that are stored, and how far behind the first one."""
        return [(pair[0], "")] if form == "reals" else [(pair[0], ""), (pair[1], apart)]

    def column(self, base: str, radix: int | str, k: int | str, span: Span, pair: Pair, form: Form) -> None:
        """Store one frequency `k` of the first pass, in which each lane has another place along `left`."""
        each, apart = (2 * self.size, str(self.size)) if form == "pairs" else (self.size, f"{self.plane}*{self.size}")
        mask = span.mask or f"head_x{span.wide}({span.wide})"
        place = f"{base} + (l*{radix} + {k})*{each}"
        for value, more in self._stored(pair, f" + {apart}", form):
            self.add(f"store_strided({place}{more}, {radix}*{each}, {value}, {mask})")

    def transposed(self, ys: Sequence[Pair], there: str, radix: int) -> None:
        """Store a square of elements that the first pass has made."""
        for part in (0, 1):
            for k, y in enumerate(ys):
                self.add(f"store(square + {(part * 8 + k) * 8 * self.size}, {y[part]})")
            place = f"{there} + l*{radix * self.size}" + (f" + {self.plane}*{self.size}" if part else "")
            operands = f"{place}, {radix * self.size}, square + {part * 64 * self.size}, {8 * self.size}"
            self.add(f"transpose_{suffix(self.dtype, radix)}({operands})")

    # ---- arithmetic -------------------------------------------------------------------------------------------------

    def times(self, x: Pair, w: Pair) -> Pair:
        """A product with a power from the table, which holds powers for positive signs."""
        (a, b), (c, d) = x, w
        signs = "-+" if self.sign > 0 else "+-"
        return self.new(f"{a}*{c} {signs[0]} {b}*{d}"), self.new(f"{b}*{c} {signs[1]} {a}*{d}")

    def plus(self, x: Pair, y: Pair, sign: str = "+") -> Pair:
        """A sum, or a difference."""
        return self.new(f"{x[0]} {sign} {y[0]}"), self.new(f"{x[1]} {sign} {y[1]}")

    def joined(self, x: Pair, y: Pair, power: Pair) -> tuple[Pair, Pair]:
        """`x + conj(y)`, and `x - conj(y)` times a power."""
        total = self.new(f"{x[0]} + {y[0]}"), self.new(f"{x[1]} - {y[1]}")
        return total, self.times((self.new(f"{x[0]} - {y[0]}"), self.new(f"{x[1]} + {y[1]}")), power)

    def sums(self, radix: Number, start: Number, wide: int, given: Given, put: Put) -> None:
        """The transform of an odd number of elements, in which each frequency is a sum. The powers of the root begin at
        `start` of the table. Sums and differences of elements at opposite places are kept on the stack."""
        kind, half, vector = suffix(self.dtype, wide), f"range(1, {radix}//2 + 1)", wide * self.size
        even, odd = (f"a{wide}", f"b{wide}"), (f"c{wide}", f"d{wide}")

        def start_at(first: Pair) -> None:
            self.add(f"{even[0]} = {first[0]}", f"{even[1]} = {first[1]}")

        def folded() -> None:
            x, y = given("r"), given(f"({radix} - r)")
            total = self.plus(x, y)
            for i, part in enumerate([*total, *self.plus(x, y, "-")]):
                self.add(f"store(kept + r*{4 * vector} + {i * vector}, {part})")
            start_at((f"{even[0]} + {total[0]}", f"{even[1]} + {total[1]}"))

        def term() -> None:
            self.add("turn += k")
            self.block(f"if turn >= {radix}:", lambda: self.add(f"turn -= {radix}"))
            place = f"table + ({start} + turn)*{self.size}"
            cos, sin = (self.new(f"broadcast_{kind}({place}{more})") for more in ("", f" + {radix}*{self.size}"))
            for i, (name, power) in enumerate(zip((*even, *odd), (cos, cos, sin, sin), strict=True)):
                x = self.load(f"kept + r*{4 * vector} + {i * vector}", wide, "")
                self.add(f"{name} = {name} + {x}*{power}")

        def frequency() -> None:
            start_at(first)
            self.add(*(f"{name} = splat_{kind}(0.0)" for name in odd), "turn = 0")
            self.block(f"for r in {half}:", term)
            (a, b), (c, d) = even, odd
            low, high = (
                (self.new(f"{a} - {d}"), self.new(f"{b} + {c}")),
                (self.new(f"{a} + {d}"), self.new(f"{b} - {c}")),
            )
            for k, y in zip(("k", f"({radix} - k)"), (low, high) if self.sign > 0 else (high, low), strict=True):
                put(k, y)

        first = given(0)
        start_at(first)
        self.block(f"for r in {half}:", folded)
        put(0, even)
        self.block(f"for k in {half}:", frequency)

    def _turned(self, x: Pair, power: int, n: int) -> Pair:
        """`x` times a power of the n-th root of unity. A quarter of a turn exchanges the parts."""
        quarters, rest = divmod(4 * (power % n), n)
        if rest and 2 * rest != n:
            angle = math.pi * rest / (2 * n)
            x = self.times(x, (repr(math.cos(angle)), repr(math.sin(angle))))
        elif rest:
            half = repr(math.sqrt(0.5))
            minus, plus = (self.new(f"({x[0]} {sign} {x[1]})*{half}") for sign in "-+")
            x = (minus, plus) if self.sign > 0 else (plus, self.new(f"({x[1]} - {x[0]})*{half}"))
        for _ in range(quarters if self.sign > 0 else -quarters % 4):
            x = (self.new(f"-{x[1]}"), x[0])
        return x

    def short(self, xs: Sequence[Pair]) -> list[Pair]:
        """The transform of a few numbers, written out."""
        n = len(xs)
        if n <= 2:
            return list(xs) if n == 1 else [self.plus(xs[0], xs[1], sign) for sign in "+-"]
        if n % 2:
            return self._odd(xs)
        even, odd = self.short(xs[::2]), self.short(xs[1::2])
        odd = [self._turned(y, k, n) for k, y in enumerate(odd)]
        pairs = list(zip(even, odd, strict=True))
        return [self.plus(*pair) for pair in pairs] + [self.plus(*pair, "-") for pair in pairs]

    def _odd(self, xs: Sequence[Pair]) -> list[Pair]:
        """The transform of an odd number of elements. Sums and differences of elements at opposite places have real
        factors."""
        n, first = len(xs), xs[0]
        pairs = [(xs[j], xs[n - j]) for j in range(1, n // 2 + 1)]
        sums, gaps = ([self.plus(*pair, sign) for pair in pairs] for sign in "+-")
        total = first
        for x in sums:
            total = self.plus(total, x)
        low, high = [total], []
        for k in range(1, n // 2 + 1):
            angles = [2 * math.pi * (j * k % n) / n for j in range(1, n // 2 + 1)]
            even, odd = (
                [start[p] + "".join(f" + {x[p]}*{f(a)!r}" for x, a in zip(given, angles, strict=True)) for p in (0, 1)]
                for start, given, f in ((first, sums, math.cos), (("0.0", "0.0"), gaps, self._sine))
            )
            (a, b), (c, d) = ((self.new(part[0]), self.new(part[1])) for part in (even, odd))
            low.append((self.new(f"{a} - {d}"), self.new(f"{b} + {c}")))
            high.append((self.new(f"{a} + {d}"), self.new(f"{b} - {c}")))
        return low + high[::-1]

    def _sine(self, angle: float) -> float:
        return self.sign * math.sin(angle)
