"""`Lanes` on NumPy arrays: the emulator's values. Never imports Numba."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from scanjit.kinds import KINDS, Kind, integer_of

from .halves import converted
from .lanes import ARITHMETIC, COMPARISONS, Lanes

_BOOL = KINDS["bool"]


def to_kind(number: Any, kind: Kind) -> Any:
    """A Python number as a NumPy scalar of `kind`; integers wrap as compiled code wraps them."""
    if kind.integral:
        wrapped = int(number) & (2**kind.bits - 1)
        if kind.signed and wrapped >> (kind.bits - 1):
            wrapped -= 2**kind.bits
        number = wrapped
    return kind.dtype.type(number)


@final
class NumpyLanes(Lanes):
    """A vector value that holds a one-dimensional array.

    Parameters
    ----------
    array : numpy.ndarray
        One element a lane; never written to afterwards.
    kind : Kind
        Its element kind; `array` has that dtype.
    """

    __slots__ = ("array",)

    def __init__(self, array: npt.NDArray[Any], kind: Kind):
        self.array = array
        self.kind = kind
        self.lanes = len(array)

    def __repr__(self) -> str:
        return f"{self.type_name}({self.array.tolist()})"

    def like(self, other: Any) -> NumpyLanes:
        if type(other) is NumpyLanes and other.kind is self.kind and other.lanes == self.lanes:
            return other
        if type(other) is float and self.kind.floating:
            return NumpyLanes(splat_array(other, self.kind, self.lanes), self.kind)
        return super().like(other)

    def splat(self, number: Any, kind: Kind | None = None) -> NumpyLanes:
        kind = kind or self.kind
        return NumpyLanes(splat_array(number, kind, self.lanes), kind)

    def iota(self, kind: Kind) -> NumpyLanes:
        return NumpyLanes(np.arange(self.lanes, dtype=kind.dtype), kind)

    def arithmetic(self, op: str, other: NumpyLanes) -> NumpyLanes:
        return NumpyLanes(ARITHMETIC[op][1](self.array, other.array), self.kind)

    def compare(self, op: str, other: NumpyLanes) -> NumpyLanes:
        return NumpyLanes(COMPARISONS[op][1](self.array, other.array), _BOOL)

    def unary(self, op: str) -> NumpyLanes:
        if op not in ("neg", "abs") and not self.kind.floating:
            raise TypeError(f"{op} is not defined for {self.kind.name} vectors")
        function = np.negative if op == "neg" else getattr(np, op)
        return NumpyLanes(function(self.array), self.kind)

    def fma(self, b: NumpyLanes, c: NumpyLanes) -> NumpyLanes:
        return NumpyLanes(self.array * b.array + c.array, self.kind)

    @property
    def fuses(self) -> bool:
        return False  # as on a CPU without the instruction

    def extremum(self, op: str, b: NumpyLanes) -> NumpyLanes:
        return NumpyLanes(getattr(np, op)(self.array, b.array), self.kind)

    def two_product(self, b: NumpyLanes) -> tuple[NumpyLanes, NumpyLanes]:
        product = self * b
        return product, product.error_as_product(self, b)

    def choose(self, yes: NumpyLanes, no: NumpyLanes) -> NumpyLanes:
        return NumpyLanes(np.where(self.array, yes.array, no.array), yes.kind)

    def copysign(self, sign: NumpyLanes) -> NumpyLanes:
        return NumpyLanes(np.copysign(self.array, sign.array), self.kind)

    def cast(self, kind: Kind) -> NumpyLanes:
        if kind is self.kind:
            return self
        if self.kind.is_half or kind.is_half:
            return converted(self, kind)
        array = self.array
        if self.kind.floating and kind.integral:
            limits = np.iinfo(integer_of(max(kind.bits, 32)).dtype)
            whole = np.where(array == array, array, 0.0).astype(np.float64)
            inside = (whole >= limits.min) & (whole < -float(limits.min))
            edge = np.where(whole > 0, limits.max, limits.min)
            array = np.where(inside, np.where(inside, whole, 0.0).astype(np.int64), edge)
        return NumpyLanes(array.astype(kind.dtype), kind)

    def bitcast(self, kind: Kind) -> NumpyLanes:
        return NumpyLanes(self.array.view(kind.dtype), kind)

    def hidden(self) -> NumpyLanes:
        return self

    def lookup(self, table: Sequence[float] | Sequence[int], kind: Kind) -> NumpyLanes:
        return NumpyLanes(np.array(table, kind.dtype)[self.array & (len(table) - 1)], kind)

    def part(self, start: int, stop: int) -> NumpyLanes:
        return NumpyLanes(self.array[start:stop], self.kind)

    def any_lane(self) -> NumpyLanes:
        return NumpyLanes(self.array.any(keepdims=True), self.kind)

    def rescue(self, mask: NumpyLanes, slow: Callable[[], NumpyLanes]) -> NumpyLanes:
        return mask.choose(slow(), self) if mask.array.any() else self

    def either(self, usual: Callable[[], NumpyLanes], other: Callable[[], NumpyLanes]) -> NumpyLanes:
        return usual() if self.array[0] else other()  # one lane

    def apart(self, name: str, function: Callable[[NumpyLanes], NumpyLanes]) -> NumpyLanes:
        return function(self)

    def repeat(
        self, state: Sequence[NumpyLanes], busy: Callable[..., NumpyLanes], step: Callable[..., Sequence[NumpyLanes]]
    ) -> list[NumpyLanes]:
        current = list(state)
        while busy(*current).array.any():
            current = list(step(*current))
        return current

    def divide(self, other: NumpyLanes) -> NumpyLanes:
        quotient = self.array // other.array
        rest = self.array - quotient * other.array  # NumPy's floors
        return NumpyLanes(
            (quotient + ((rest != 0) & ((self.array < 0) != (other.array < 0)))).astype(self.kind.dtype), self.kind
        )


_SPLATS: dict[tuple[Any, ...], npt.NDArray[Any]] = {}


def splat_array(number: Any, kind: Kind, lanes: int) -> npt.NDArray[Any]:
    """An array of `lanes` copies, which nobody may write to: those of a program's literals are made once."""
    key = (number, type(number), kind.name, lanes)
    found = _SPLATS.get(key)
    if found is None:
        found = np.full(lanes, to_kind(number, kind), kind.dtype)
        found.flags.writeable = False
        if len(_SPLATS) > 5000:  # numbers of run time: start again
            _SPLATS.clear()
        if number != 0:  # 0.0 and -0.0 are one key
            _SPLATS[key] = found
    return found
