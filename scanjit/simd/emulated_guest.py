"""Calls of guests (see `scanjit.simd.guest`) in plain Python, on checked memory."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from scanjit.errors import FunctionError
from scanjit.kinds import kind_of
from scanjit.ops.guest import GUESTS, Guest

from .emulated_memory import Allocations
from .names import Suffixed
from .numpy_lanes import NumpyLanes


def resolve(name: Suffixed, memory: Allocations) -> Callable[..., Any]:
    """The emulated form of a guest."""
    guest, kind, lanes = GUESTS[name.base], name.kind, name.lanes

    def of_lanes(status: int, code: int, mask: NumpyLanes, *operands: NumpyLanes) -> NumpyLanes:
        assert kind is not None and lanes is not None
        found = np.zeros(lanes, kind.dtype)
        for lane in np.flatnonzero(mask.array):
            try:
                (found[lane],) = guest([operand.array[lane] for operand in operands], [()])
            except FunctionError:
                memory.store_i64(status, code)
        return NumpyLanes(found, kind)

    def once(status: int, code: int, *numbers: int) -> None:
        try:
            _call(guest, memory, numbers)
        except FunctionError:
            memory.store_i64(status, code)

    return once if kind is None else of_lanes


def _call(guest: Guest, memory: Allocations, numbers: Sequence[int]) -> None:
    """Call a guest once, with the addresses of its arguments and results, and then all their sizes."""
    places, sizes = numbers[: len(guest.ranks)], iter(numbers[len(guest.ranks) :])
    shapes = [tuple(next(sizes) for _ in range(rank)) for rank in guest.ranks]
    count = len(guest.arguments)
    given = [
        memory.load(kind_of(dtype), prod(shape), place).reshape(shape) if prod(shape) else np.zeros(shape, dtype)
        for dtype, place, shape in zip(guest.arguments, places[:count], shapes[:count], strict=True)
    ]
    for place, array in zip(places[count:], guest(given, shapes[count:]), strict=True):
        if array.size:
            memory.store(kind_of(array.dtype), place, array.reshape(-1))
