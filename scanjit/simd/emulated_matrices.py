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
"""The `rows` and `terms` for which this thread has set the sizes, and its `sums`."""
_LEAST = np.float32(2.0**-126)
"""Numbers closer to zero are taken for zero."""


def _begin(rows: int, terms: int) -> None:
    if not 1 <= rows <= MATRIX_ROWS:
        raise ValueError(f"matrices have 1 to {MATRIX_ROWS} rows, got {rows}")
    _SET.rows, _SET.terms = rows, terms


def _end() -> None:
    _SET.rows = _SET.terms = -1


def _begin_sums(memory: Allocations, count: int, sums: int, begun: int) -> None:
    """The elements of the sums, those of one register behind those of another one. Their kind shows when products are
    added."""
    _SET.sums = [
        memory.load(I32, PACKS, at).copy() if begun else np.zeros(PACKS, np.int32) for at in _rows(count, sums)
    ]


def _add(memory: Allocations, kind: str, first: int, stop: int, *operands: int) -> None:
    left, left_step, terms, right_step, *rights_at = operands
    if terms != _SET.terms:
        raise ValueError(f"the sizes are set for {_SET.terms} terms, not for {terms}")
    rows, (dtype, add) = _SET.rows, (F32, _add_pairs) if kind == "bf16" else (I32, partial(_add_quads, kind))
    begin, end = first * PACKS, min(stop * PACKS, terms)
    lefts = (
        [memory.load(I32, end - begin, left + row * left_step + 4 * begin).copy() for row in range(rows)]
        if begin < end
        else []
    )
    for k, right in enumerate(rights_at):
        own = range(k * rows, (k + 1) * rows)
        columns = [memory.load(I32, PACKS, right + i * right_step) for i in range(begin, end)]
        total = np.concatenate([_SET.sums[i] for i in own]).view(dtype.dtype)
        for done in range(0, end - begin, PACKS):
            some = range(done, min(done + PACKS, end - begin))
            total = add(total, [(np.repeat([a[i] for a in lefts], PACKS), np.tile(columns[i], rows)) for i in some])
        for i, found in zip(own, np.split(total.astype(dtype.dtype), rows), strict=True):
            _SET.sums[i] = found.copy().view(np.int32)


def _end_sums(memory: Allocations, count: int, sums: int) -> None:
    for at, found in zip(_rows(count, sums), _SET.sums, strict=True):
        memory.store(I32, at, found)


def _rows(count: int, sums: int) -> list[int]:
    """Where the rows of the sums lie, those of one register behind those of another one."""
    return [sums + MATRIX_ROW_BYTES * (row * count + k) for k in range(count) for row in range(_SET.rows)]


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
        return partial(_add, memory, name.rpartition("_")[2])
    if name in table.MATRIX_SUMS:
        return partial(_begin_sums if name.startswith("begin") else _end_sums, memory, table.MATRIX_SUMS[name])
    return _begin if name == "begin_matrices" else _end
