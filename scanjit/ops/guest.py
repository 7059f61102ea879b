"""Guests: functions that users compiled themselves, as ops. `guest` applies one to each element, `guest_call` to whole
arrays. Users make them with `scanjit.from_numba`, which also says what their derivatives are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from scanjit import errors
from scanjit.ir import Op
from scanjit.ops.promotion import Elementwise
from scanjit.signatures import Array, DType

PREFIX, UNCHECKED, PASSING = "guest_", "guest_c_", "_here"
"""The beginnings of the names of guests in generated code: of all guests, and of those that cannot report that they
failed. And the ending of names that mean something only in this process."""
LINKED = "scanjit_"
"""The beginning of their symbols in object code, before these names."""


def is_checked(symbol: str) -> bool:
    """Whether a guest first takes the address of a status and a code, and stores the code there if it fails."""
    return not symbol.startswith(UNCHECKED)


class Guest(ABC):
    """A compiled function, for arguments of certain dtypes. The user promises that it is pure.

    Parameters
    ----------
    name : its name for users.
    symbol : its name in generated code. Two guests with one symbol do the same.
    arguments, dtypes : the dtypes of its arguments, and those of its results.
    ranks : the ranks of its arguments, then those of its results; empty for a guest that is applied to each element.
    """

    def __init__(
        self, name: str, symbol: str, arguments: Sequence[DType], dtypes: Sequence[DType], ranks: Sequence[int]
    ) -> None:
        self.name, self.symbol = name, symbol
        self.arguments, self.dtypes, self.ranks = tuple(arguments), tuple(dtypes), tuple(ranks)
        GUESTS.setdefault(symbol, self)

    @property
    def passes(self) -> bool:
        """Whether its symbol means something only in this process, so that no kernel with it may be kept on disk."""
        return self.symbol.endswith(PASSING)

    @abstractmethod
    def address(self) -> int:
        """The address of its code. It is compiled when this is first asked for, and stays until the process ends."""

    @abstractmethod
    def results(self, arguments: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> Sequence[Array]:
        """Its results of these shapes, computed in Python: numbers for numbers, arrays for arrays."""

    def __call__(self, arguments: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> tuple[Array, ...]:
        """Its results of these shapes, computed in Python; a FunctionError if it raises, or returns something else."""
        try:
            found = self.results([x if np.ndim(x) else x[()] for x in arguments], shapes)
        except errors.not_from_signal_handler(Exception) as error:
            raise self.failed(f"{type(error).__name__}: {error}") from error
        got = tuple(map(np.shape, found))
        if got != tuple(shapes):
            raise self.failed(f"results of shapes {got}, not {tuple(shapes)}")
        return tuple(np.asarray(value).astype(dtype) for value, dtype in zip(found, self.dtypes, strict=True))

    def failed(self, what: str, where: str | None = None) -> errors.FunctionError:
        """The error for a call that failed."""
        return errors.FunctionError(f"{self.name}, a function given to from_numba, failed", got=what, where=where)

    def __repr__(self) -> str:
        return self.name


GUESTS: dict[str, Guest] = {}
"""The guests of this process, by their symbols."""


def _each(*arrays: Array, guest: Guest) -> Array:
    arrays = np.broadcast_arrays(*arrays)
    found = np.empty(arrays[0].shape, guest.dtypes[0])
    for place in np.ndindex(found.shape):
        (found[place],) = guest([array[place] for array in arrays], [()])
    return found


GUEST = Elementwise(
    "guest",
    lower=lambda *_, guest: f"{guest.symbol}_{{T}}({{report}}, {{operands}})",
    result=lambda *_, guest: guest.dtypes[0],
    own_dtypes=True,
    reference=_each,
    samples=None,
    cost=60,
    never_fails=False,
    stays_finite=(),
    doc="a compiled function of the user's, applied to each element",
)
CALL = Op(
    "guest_call",
    infer=lambda *operands, guest, types: types,
    reference=lambda *arrays, guest, types: guest(
        [np.ascontiguousarray(array) if array.ndim else array for array in arrays], [type_.shape for type_ in types]
    ),
    doc="a compiled function of the user's, applied to whole arrays",
)
