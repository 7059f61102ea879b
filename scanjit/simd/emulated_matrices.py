"""The functions of `scanjit.simd.matrices` with NumPy, on checked memory."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from scanjit.kinds import KINDS
from scanjit.target import MATRIX_ROW_BYTES, MATRIX_ROWS

from . import table
from .emulated_memory import Allocations
from .lanes import Lanes, fma
from .matrices import PACKS
from .narrow import pair_of
from .numpy_lanes import NumpyLanes

F32, I32 = KINDS["f32"], KINDS["i32"]
_SET = threading.local()
"""The `rows` and `terms` for which this thread has set the sizes."""
_LEAST = np.float32(2.0**-126)
"""Numbers closer to zero are taken for zero."""


def _begin(rows: int, terms: int) -> None:
    if not 1 <= rows <= MATRIX_ROWS:
        raise ValueError(f"matrices have 1 to {MATRIX_ROWS} rows, got {rows}")
    _SET.rows, _SET.terms = rows, terms


def _end() -> None:
    _SET.rows = _SET.terms = -1


def _multiply(memory: Allocations, kind: str, sums: int, begun: int, *operands: int) -> None:
    left, left_step, terms, right_step, *rights_at = operands
    if terms != _SET.terms:
        raise ValueError(f"the sizes are set for {_SET.terms} terms, not for {terms}")
    rows, (dtype, add) = _SET.rows, (F32, _add_pairs) if kind == "bf16" else (I32, partial(_add_quads, kind))
    lefts = [memory.load(I32, terms, left + row * left_step).copy() for row in range(rows)] if terms else []
    for k, right in enumerate(rights_at):
        columns = [memory.load(I32, PACKS, right + i * right_step) for i in range(terms)]
        places = [sums + MATRIX_ROW_BYTES * (row * len(rights_at) + k) for row in range(rows)]
        total = np.concatenate([memory.load(dtype, PACKS, at) for at in places] if begun else [np.zeros(PACKS * rows)])
        total = total.astype(dtype.dtype)
        for first in range(0, terms, PACKS):
            some = range(first, min(first + PACKS, terms))
            total = add(total, [(np.repeat([a[i] for a in lefts], PACKS), np.tile(columns[i], rows)) for i in some])
        for at, found in zip(places, np.split(total, rows), strict=True):
            memory.store(dtype, at, found.copy())


def _add_pairs(total: Any, packs: list[tuple[Any, Any]]) -> Any:
    """The total, plus the products of all first numbers, and those of all second numbers."""
    parts: list[Lanes] = [NumpyLanes(np.zeros_like(total), F32)] * 2
    for a, b in packs:
        numbers = zip(parts, *(pair_of(NumpyLanes(x.astype(np.int32), I32)) for x in (a, b)), strict=True)
        parts = [_flushed(fma(_flushed(x), _flushed(y), part)) for part, x, y in numbers]
    first, second = parts
    return _flushed(NumpyLanes(total, F32) + _flushed(first + second)).array


def _add_quads(kind: str, total: Any, packs: list[tuple[Any, Any]]) -> Any:
    """The total, plus the products of all integers, which are exact: those of one operand have no sign."""
    lefts, rights = (np.array(some, np.int32) for some in zip(*packs, strict=True))
    bare, signed = (lefts, rights) if kind == "u8i8" else (rights, lefts)
    parts = [((bare >> k) & 0xFF) * ((signed << (24 - k)) >> 24) for k in range(0, 32, 8)]
    return total + np.add.reduce(parts, axis=(0, 1), dtype=np.int32)


def _flushed(x: Lanes) -> Any:
    array = x.array  # type: ignore[attr-defined]
    return NumpyLanes(np.where(np.abs(array) < _LEAST, np.copysign(np.float32(0), array), array), F32)


def resolve(name: str, memory: Allocations) -> Callable[..., None]:
    """The emulation of a function."""
    if name in table.MATRICES:
        return partial(_multiply, memory, name.rpartition("_")[2])
    return _begin if name == "begin_matrices" else _end
