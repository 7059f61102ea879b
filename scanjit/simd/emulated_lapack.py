"""What `scanjit.simd.lapack` calls, with NumPy, on checked memory."""

from collections.abc import Callable
from typing import Any

import numpy as np

from scanjit.kinds import KINDS, Kind

from .emulated_memory import Memory

I64 = KINDS["i64"]


def _columns(memory: Memory, kind: Kind, rows: int, columns: int, a: int, step: int) -> Any:
    """A matrix of Fortran's order, as an array of its own."""
    lines = [memory.load(kind, rows, a + j * step * kind.size) for j in range(columns if rows else 0)]
    return np.array(lines, kind.dtype).reshape(columns, rows).T.copy()


def _put(memory: Memory, kind: Kind, values: Any, a: int, step: int) -> None:
    for j in range(values.shape[1] if len(values) else 0):
        memory.store(kind, a + j * step * kind.size, values[:, j].copy())


def potrf(memory: Memory, kind: Kind, upper: int, n: int, a: int, step: int) -> int:
    """Cholesky factor, in place; returns 0 if there is one."""
    values = _columns(memory, kind, n, n, a, step)
    triangle = np.triu(values).T if upper else np.tril(values)
    try:
        factor = np.linalg.cholesky(triangle)
    except np.linalg.LinAlgError:
        return 1
    mask = np.triu(np.ones((n, n), bool)) if upper else np.tril(np.ones((n, n), bool))
    _put(memory, kind, np.where(mask, factor.T if upper else factor, values), a, step)
    return 0


def getrf(memory: Memory, kind: Kind, m: int, n: int, a: int, step: int, pivots: int) -> int:
    """LU factors with partial pivoting, in place; returns the first column without a pivot, counted from 1, or 0."""
    f, info = _columns(memory, kind, m, n, a, step), 0
    for k in range(n):
        best = k + int(np.argmax(np.abs(f[k:, k])))
        memory.store_i64(pivots + 8 * k, best + 1)
        if f[best, k] == 0:
            info = info or k + 1
            continue
        f[[k, best]] = f[[best, k]]
        f[k + 1 :, k] /= f[k, k]
        f[k + 1 :, k + 1 :] -= np.outer(f[k + 1 :, k], f[k, k + 1 :])
    _put(memory, kind, f, a, step)
    return info


def trsm(
    memory: Memory,
    kind: Kind,
    right: int,
    upper: int,
    trans: int,
    unit: int,
    m: int,
    n: int,
    a: int,
    step: int,
    b: int,
    b_step: int,
) -> int:
    """A triangular system, in place."""
    size = n if right else m
    t, x = _columns(memory, kind, size, size, a, step), _columns(memory, kind, m, n, b, b_step)
    t = np.triu(t) if upper else np.tril(t)
    if unit:
        np.fill_diagonal(t, 1)
    t = t.T if bool(trans) != bool(right) else t  # x @ t = b is t.T @ x.T = b.T
    lines = x.T if right else x
    lower = not np.triu(t, 1).any()
    for i in range(size) if lower else reversed(range(size)):
        done = slice(0, i) if lower else slice(i + 1, size)
        lines[i] = (lines[i] - t[i, done] @ lines[done]) / t[i, i]
    _put(memory, kind, x, b, b_step)
    return 0


def gemm(
    memory: Memory,
    kind: Kind,
    trans_a: int,
    trans_b: int,
    m: int,
    n: int,
    k: int,
    a: int,
    a_step: int,
    b: int,
    b_step: int,
    c: int,
    c_step: int,
) -> int:
    """A product, taken off a matrix in place."""
    left = _columns(memory, kind, k, m, a, a_step).T if trans_a else _columns(memory, kind, m, k, a, a_step)
    right = _columns(memory, kind, n, k, b, b_step).T if trans_b else _columns(memory, kind, k, n, b, b_step)
    _put(memory, kind, _columns(memory, kind, m, n, c, c_step) - left @ right, c, c_step)
    return 0


FUNCTIONS: dict[str, Callable[..., int]] = {"potrf": potrf, "getrf": getrf, "trsm": trsm, "gemm": gemm}


def resolve(name: str, kind: Kind, memory: Memory) -> Callable[..., int]:
    """The emulated form of `potrf_f64` and the like."""
    function = FUNCTIONS[name]
    return lambda *args: function(memory, kind, *args)
