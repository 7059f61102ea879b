"""Fourier transforms of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.buffers import Rebase, Ref
from scanjit.schedule.nests.statement import Job, Reference, Traffic
from scanjit.types import Dimension


@record
class Fourier(Job):
    """Transform each row of pairs of `given` into `result`, with the help of `spare`, which has as many rows of
    `length` pairs. `table` has the powers of roots of unity that are needed (see `scanjit.ops.passes`). None has gaps.
    Where `half`, `length` pairs of real numbers are transformed to a half spectrum, or back, by the sign."""

    given: Ref
    result: Ref
    spare: Ref
    table: Ref
    sign: int
    length: Dimension
    half: bool = False

    @property
    def places(self) -> tuple[Ref, ...]:
        """All that it touches."""
        return self.given, self.result, self.spare, self.table

    @property
    def title(self) -> str:
        """What users call it."""
        return ("ifft", "irfft", "fft", "rfft")[2 * (self.sign < 0) + self.half]

    def refs(self) -> Iterator[Reference]:
        """Its places."""
        for ref in self.places:
            yield ref.buffer, ref.offset, ref is self.result or ref is self.spare

    def rebased(self, place: Rebase) -> Fourier:
        """The same rows at another place."""
        given, result, spare, table = (ref.rebased(place) for ref in self.places)
        return replace(self, given=given, result=result, spare=spare, table=table)

    @property
    def dtype(self) -> str:
        """The type of the parts."""
        return str(self.result.buffer.dtype)

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """Where its arrays lie, and their shapes."""
        return (self.length, *(dim for ref in self.places for dim in (ref.offset, *ref.shape)))

    @property
    def operations(self) -> Dimension:
        """As for rows of about 1,000 numbers: 50 for each number, which is a pair."""
        return 25 * types.product(self.result.shape)

    def traffic(self, shared: bool = False) -> tuple[Traffic, ...]:
        """All of its arrays; rows do not matter."""
        sized = [types.product(ref.shape) * ref.buffer.dtype.itemsize for ref in self.places]
        return tuple(Traffic(((nbytes,),), nbytes) for nbytes in sized)

    @property
    def pieces(self) -> Dimension:
        """Its rows."""
        return types.maximum(types.product(self.spare.shape[:-2]), 1)


@record
class RootsOfUnity(Job):
    """Fill the table of `Fourier` for rows of a length that is found when a function is called."""

    table: Ref
    length: Dimension

    @property
    def title(self) -> str:
        """What it makes."""
        return "roots"

    def refs(self) -> Iterator[Reference]:
        """The table."""
        yield self.table.buffer, self.table.offset, True

    def rebased(self, place: Rebase) -> RootsOfUnity:
        """The same at another place."""
        return replace(self, table=self.table.rebased(place))

    @property
    def dtype(self) -> str:
        """The type of the table."""
        return str(self.table.buffer.dtype)

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """Where the table lies, and its size."""
        return self.table.offset, *self.table.shape, self.length

    @property
    def operations(self) -> Dimension:
        """About 30 for a sine or cosine."""
        return 30 * types.product(self.table.shape)

    def traffic(self, shared: bool = False) -> tuple[Traffic, ...]:
        """The table."""
        nbytes = types.product(self.table.shape) * self.table.buffer.dtype.itemsize
        return (Traffic(((nbytes,),), nbytes),)
