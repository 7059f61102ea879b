"""The abstract vector on which every operation of the package is written.

A function over `Lanes` is written once. The LLVM backend (`llvm_lanes.py`) turns it into instructions; the NumPy
backend (`numpy_lanes.py`) runs it in the emulator. So both take the same branches and round in the same places, except
that `Lanes.fma` rounds twice on machines without such an instruction. No function may rely on its single rounding:
`Lanes.two_product` is exact everywhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from scanjit.kinds import KINDS, Kind, integer_of

from .names import type_name

Number = int | float | bool
ARITHMETIC: dict[str, tuple[str, np.ufunc]] = {
    "add": ("+", np.add),
    "sub": ("-", np.subtract),
    "mul": ("*", np.multiply),
    "div": ("/", np.true_divide),
    "and": ("&", np.bitwise_and),
    "or": ("|", np.bitwise_or),
    "xor": ("^", np.bitwise_xor),
    "shl": ("<<", np.left_shift),
    "shr": (">>", np.right_shift),
}
COMPARISONS: dict[str, tuple[str, np.ufunc]] = {
    "lt": ("<", np.less),
    "le": ("<=", np.less_equal),
    "gt": (">", np.greater),
    "ge": (">=", np.greater_equal),
    "eq": ("==", np.equal),
    "ne": ("!=", np.not_equal),
}
"""Maps the name of an operator to its sign in Python and to NumPy's function."""


def check_operator(op: str, kind: Kind) -> None:
    """Raise TypeError where `op` means nothing for elements of `kind`."""
    if kind.is_half:
        bad = True
    elif kind.floating:
        bad = op in ("and", "or", "xor", "shl", "shr")
    elif kind.integral:
        bad = op == "div"
    else:
        bad = op not in ("and", "or", "xor", "eq", "ne")
    if bad:
        raise TypeError(f"operator {(ARITHMETIC | COMPARISONS)[op][0]} is not defined for {kind.name} vectors")


class Lanes(ABC):
    """A vector of `lanes` elements of one kind."""

    __slots__ = ("kind", "lanes")
    kind: Kind
    lanes: int
    __hash__ = None  # type: ignore[assignment]

    # ---- what a backend gives -------------------------------------------------------------------------------------

    @abstractmethod
    def splat(self, number: Any, kind: Kind | None = None) -> Self:
        """The number in every lane, as `kind` (by default the kind of this vector)."""

    @abstractmethod
    def iota(self, kind: Kind) -> Self:
        """0, 1, 2, ... as `kind`."""

    @abstractmethod
    def arithmetic(self, op: str, other: Self) -> Self:
        """One of `ARITHMETIC`; both sides have one type. Shifts by the width or more give what NumPy gives."""

    @abstractmethod
    def compare(self, op: str, other: Self) -> Self:
        """One of `COMPARISONS`: false on NaN, except ``ne``."""

    @abstractmethod
    def unary(self, op: str) -> Self:
        """One of ``neg abs sqrt floor ceil trunc rint`` on floats (neg on ints too)."""

    @abstractmethod
    def fma(self, b: Self, c: Self) -> Self:
        """``self * b + c``, rounded once where the CPU can."""

    @property
    @abstractmethod
    def fuses(self) -> bool:
        """Whether `fma` of floats is rounded once."""

    @abstractmethod
    def extremum(self, op: str, b: Self) -> Self:
        """The ``minimum`` or the ``maximum`` of two floats: NaN if either is; of two zeros, either."""

    @abstractmethod
    def two_product(self, b: Self) -> tuple[Self, Self]:
        """The rounded product and its exact rounding error (no overflow or underflow assumed)."""

    @abstractmethod
    def choose(self, yes: Self, no: Self) -> Self:
        """This mask selects `yes` or `no`."""

    @abstractmethod
    def copysign(self, sign: Self) -> Self:
        """The magnitude of this and the sign of `sign`."""

    @abstractmethod
    def cast(self, kind: Kind) -> Self:
        """Convert elements; float to int truncates, saturates at 32 or 64 bits, gives 0 for NaN, then wraps."""

    @abstractmethod
    def bitcast(self, kind: Kind) -> Self:
        """The same bits as elements of `kind`."""

    @abstractmethod
    def hidden(self) -> Self:
        """The same lanes, hidden from LLVM: it does not look for what is known of their bits."""

    @abstractmethod
    def part(self, start: int, stop: int) -> Self:
        """Lanes `start` to `stop`."""

    @abstractmethod
    def any_lane(self) -> Self:
        """One lane: whether a lane of this mask is set."""

    @abstractmethod
    def rescue(self, mask: Self, slow: Callable[[], Self]) -> Self:
        """This value, but ``slow()`` in the lanes of `mask`; `slow` costs nothing when no lane needs it."""

    @abstractmethod
    def either(self, usual: Callable[[], Self], other: Callable[[], Self]) -> Self:
        """``usual()`` if this mask of one lane is set, else ``other()``; only one of the two is computed."""

    @abstractmethod
    def apart(self, name: str, function: Callable[[Self], Self]) -> Self:
        """``function(self)``; machine code has the function once, and calls it."""

    @abstractmethod
    def repeat(
        self, state: Sequence[Self], busy: Callable[..., Self], step: Callable[..., Sequence[Self]]
    ) -> list[Self]:
        """``while any(busy(*state)): state = step(*state)``."""

    @abstractmethod
    def divide(self, other: Self) -> Self:
        """Truncated integer quotient; `other` has no zeros, and no -1."""

    @abstractmethod
    def lookup(self, table: Sequence[float] | Sequence[int], kind: Kind) -> Self:
        """The elements of a table at these integers, modulo the length of the table, a power of two. `kind` has as many
        bits as the integers."""

    def foreseen_extremum(self, op: str, b: Self) -> Self:
        """`extremum` of one lane, for which a loop waits, if NaN is rare."""
        return self.extremum(op, b)

    def scale(self, exponent: Self) -> Self | None:
        """``self * 2**floor(exponent)`` if the CPU has such an instruction, else None."""
        return None

    def dot_pairs(self, left: Self, right: Self) -> Self | None:
        """This float32, plus the products of two pairs of bfloat16, if the CPU has such an instruction; else None."""
        return None

    def dot_quads(self, left: Self, right: Self) -> Self | None:
        """This int32, plus the products of four uint8 and four int8, if the CPU has such an instruction; else None."""
        return None

    @property
    def branches(self) -> bool:
        """Whether long work that few arguments need is better done in a branch than in all lanes."""
        return self.lanes == 1

    # ---- what follows from it -------------------------------------------------------------------------------------

    @property
    def type_name(self) -> str:
        """Such as ``"f32x16"``."""
        return type_name(self.kind, self.lanes)

    def halves(self) -> tuple[Self, Self]:
        """The lower and the upper half of the lanes."""
        half = self.lanes // 2
        return self.part(0, half), self.part(half, self.lanes)

    def like(self, other: Self | Number) -> Self:
        """`other` as a vector of this type: numbers are splatted, another vector type is an error."""
        if not isinstance(other, Lanes):
            if isinstance(other, float) and not self.kind.floating:
                raise TypeError(f"a float operand with {self.type_name}")
            return self.splat(other)
        if other.kind is not self.kind or other.lanes != self.lanes:
            raise TypeError(f"operands are {self.type_name} and {other.type_name}; cast one of them")
        return other

    def _operator(self, op: str, other: Any, reflected: bool = False) -> Self:
        check_operator(op, self.kind)
        other = self.like(other)
        return other.arithmetic(op, self) if reflected else self.arithmetic(op, other)

    def _comparison(self, op: str, other: Any) -> Self:
        check_operator(op, self.kind)
        return self.compare(op, self.like(other))

    # fmt: off
    def __add__(self, other: Any) -> Self: return self._operator("add", other)
    def __radd__(self, other: Any) -> Self: return self._operator("add", other, True)
    def __sub__(self, other: Any) -> Self: return self._operator("sub", other)
    def __rsub__(self, other: Any) -> Self: return self._operator("sub", other, True)
    def __mul__(self, other: Any) -> Self: return self._operator("mul", other)
    def __rmul__(self, other: Any) -> Self: return self._operator("mul", other, True)
    def __truediv__(self, other: Any) -> Self: return self._operator("div", other)
    def __rtruediv__(self, other: Any) -> Self: return self._operator("div", other, True)
    def __and__(self, other: Any) -> Self: return self._operator("and", other)
    def __rand__(self, other: Any) -> Self: return self._operator("and", other, True)
    def __or__(self, other: Any) -> Self: return self._operator("or", other)
    def __ror__(self, other: Any) -> Self: return self._operator("or", other, True)
    def __xor__(self, other: Any) -> Self: return self._operator("xor", other)
    def __rxor__(self, other: Any) -> Self: return self._operator("xor", other, True)
    def __lshift__(self, other: Any) -> Self: return self._operator("shl", other)
    def __rlshift__(self, other: Any) -> Self: return self._operator("shl", other, True)
    def __rshift__(self, other: Any) -> Self: return self._operator("shr", other)
    def __rrshift__(self, other: Any) -> Self: return self._operator("shr", other, True)
    def __lt__(self, other: Any) -> Self: return self._comparison("lt", other)
    def __le__(self, other: Any) -> Self: return self._comparison("le", other)
    def __gt__(self, other: Any) -> Self: return self._comparison("gt", other)
    def __ge__(self, other: Any) -> Self: return self._comparison("ge", other)
    def __eq__(self, other: Any) -> Self: return self._comparison("eq", other)  # type: ignore[override]
    def __ne__(self, other: Any) -> Self: return self._comparison("ne", other)  # type: ignore[override]
    # fmt: on

    def __neg__(self) -> Self:
        if self.kind.is_mask:
            raise TypeError("operator - is not defined for masks")
        return self.unary("neg")

    def __invert__(self) -> Self:
        if self.kind.floating:
            raise TypeError(f"operator ~ is not defined for {self.kind.name} vectors")
        return self.arithmetic("xor", self.splat(True if self.kind.is_mask else -1))

    def error_as_product(self, a: Self, b: Self) -> Self:
        """The rounding error of this product ``a * b`` without fma, as Dekker computes it: both factors are split into
        halves whose products are exact."""
        (a_high, a_low), (b_high, b_low) = a._split(), b._split()
        return ((a_high * b_high - self) + a_high * b_low + a_low * b_high) + a_low * b_low

    def _split(self) -> tuple[Self, Self]:
        t = self * format_of(self).splitter
        high = t - (t - self)
        return high, self - high

    def __bool__(self) -> bool:
        raise TypeError("a vector has no truth value; use any_of(mask) or all_of(mask)")


def fma(a: Lanes, b: Lanes | Number, c: Lanes | Number) -> Lanes:
    """``a*b + c``; numbers are splatted."""
    return a.fma(a.like(b), a.like(c))


def select(mask: Lanes, yes: Any, no: Any) -> Lanes:
    """`yes` where the mask is set, else `no`; one of them may be a number."""
    if isinstance(yes, Lanes):
        no = yes.like(no)
    elif isinstance(no, Lanes):
        yes = no.like(yes)
    else:
        raise TypeError("no operand of select is a vector")
    if not mask.kind.is_mask or mask.lanes != yes.lanes:
        raise TypeError(f"select needs a mask of {yes.lanes} lanes, got {mask.type_name}")
    return mask.choose(yes, no)


def polynomial(x: Lanes, coefficients: Sequence[Lanes | float]) -> Lanes:
    """The polynomial in `x` with the highest power's coefficient first, by Estrin's scheme.

    Its longest path has as many steps as the number of coefficients has binary digits; Horner's has one for each
    coefficient. A loop over time waits for the path, other loops for the number of instructions, which is nearly equal.
    """
    terms: list[Lanes | float] = [*reversed(coefficients)]
    power = x
    while len(terms) > 3:
        terms, power = _paired(terms, power), power * power
    high = fma(power, terms[2], terms[1]) if len(terms) == 3 else terms[1]
    return fma(power, high, terms[0])


def _paired(terms: Sequence[Lanes | float], power: Lanes) -> list[Lanes | float]:
    """``terms[k] + power*terms[k + 1]`` for every second k; a last term without a partner stays."""
    joined = [_pair(power, a, b) for a, b in zip(terms[::2], terms[1::2], strict=False)]
    return joined + list(terms[len(terms) & ~1 :])


def _pair(power: Lanes, a: Lanes | float, b: Lanes | float) -> Lanes:
    """``a + power*b``; without the operations that a 0 and a 1 make superfluous."""
    if not (isinstance(b, float) and b == 1.0):
        return fma(power, b, a)
    return power if isinstance(a, float) and a == 0.0 else power + a


def abs_(x: Lanes) -> Lanes:
    """Magnitude; clears the sign of a float's zero and NaN."""
    return x.unary("abs")


def sqrt(x: Lanes) -> Lanes:
    """Square root, correctly rounded."""
    return x.unary("sqrt")


def rint(x: Lanes) -> Lanes:
    """The nearest whole number, ties to even."""
    return x.unary("rint")


def bits(x: Lanes) -> Lanes:
    """A float's bits as signed integers."""
    return x.bitcast(integer_of(x.kind.bits))


def wide(x: Lanes) -> Lanes:
    """The same values as float64."""
    return x.cast(KINDS["f64"])


class FloatFormat:
    """Facts about a float kind that bit-level functions need."""

    def __init__(self, kind: str, mantissa: int, bias: int, letter: str, short: bool):
        self.kind = KINDS[kind]
        self.short = short  # results that are computed in float64 and rounded need no more care
        self.mantissa = mantissa
        self.bias = bias
        self.letter = letter  # of LAPACK's functions, and of x86's instructions
        self.magic = (
            1.5 * 2.0**mantissa
        )  # x + magic - magic rounds x to a whole number, kept in the low bits of x + magic
        self.magic_bits = ((bias + mantissa) << mantissa) | (1 << (mantissa - 1))
        self.smallest_normal = 2.0 ** (1 - bias)
        self.eps = 2.0**-mantissa
        self.splitter = 2.0 ** ((mantissa + 2) // 2) + 1  # x * splitter splits x into two halves


FORMATS = {"f32": FloatFormat("f32", 23, 127, "s", True), "f64": FloatFormat("f64", 52, 1023, "d", False)}


def format_of(x: Lanes) -> FloatFormat:
    """The format of a float vector's elements."""
    return FORMATS[x.kind.name]
