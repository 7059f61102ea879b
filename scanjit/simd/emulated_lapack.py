"""The routines of `scanjit.simd.lapack` with NumPy, on checked memory."""

from collections.abc import Callable
from typing import Any

import numpy as np

from scanjit.kinds import KINDS, Kind

from .emulated_memory import Allocations

I64 = KINDS["i64"]


def _columns(memory: Allocations, kind: Kind, rows: int, columns: int, a: int, step: int) -> Any:
    """A matrix of Fortran's order, as an array of its own."""
    lines = [memory.load(kind, rows, a + j * step * kind.size) for j in range(columns if rows else 0)]
    return np.array(lines, kind.dtype).reshape(columns, rows).T.copy()


def _put(memory: Allocations, kind: Kind, values: Any, a: int, step: int) -> None:
    for j in range(values.shape[1] if len(values) else 0):
        memory.store(kind, a + j * step * kind.size, values[:, j].copy())


def potrf(memory: Allocations, kind: Kind, *operands: int) -> int:
    """Cholesky factor, in place; returns 0 if there is one."""
    upper, n, a, step = operands
    values = _columns(memory, kind, n, n, a, step)
    triangle = np.triu(values).T if upper else np.tril(values)
    try:
        factor = np.linalg.cholesky(triangle)
    except np.linalg.LinAlgError:
        return 1
    mask = np.triu(np.ones((n, n), bool)) if upper else np.tril(np.ones((n, n), bool))
    _put(memory, kind, np.where(mask, factor.T if upper else factor, values), a, step)
    return 0


def getrf(memory: Allocations, kind: Kind, *operands: int) -> int:
    """LU factors with partial pivoting, in place; returns the first column without a pivot, counted from 1, or 0."""
    m, n, a, step, pivots = operands
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


def trsm(memory: Allocations, kind: Kind, *operands: int) -> int:
    """A triangular system, in place."""
    right, upper, trans, unit, m, n, a, step, b, b_step = operands
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


def gemm(memory: Allocations, kind: Kind, *operands: int) -> int:
    """A product, subtracted from a matrix in place."""
    trans_a, trans_b, m, n, k, a, a_step, b, b_step, c, c_step = operands
    left = _columns(memory, kind, k, m, a, a_step).T if trans_a else _columns(memory, kind, m, k, a, a_step)
    right = _columns(memory, kind, n, k, b, b_step).T if trans_b else _columns(memory, kind, k, n, b, b_step)
    _put(memory, kind, _columns(memory, kind, m, n, c, c_step) - left @ right, c, c_step)
    return 0


def geqrf(memory: Allocations, kind: Kind, *operands: int) -> int:
    """QR factors, in place, by reflections `1 - factor * v * v.T`, each v with a first entry of 1."""
    m, n, a, step, factors, *_ = operands
    x = _columns(memory, kind, m, n, a, step)
    for k in range(min(m, n)):
        first, norm = x[k, k], np.linalg.norm(x[k:, k])
        factor = np.zeros(1, kind.dtype)
        if np.any(x[k + 1 :, k]):
            whole = -np.copysign(norm, first)
            factor[0] = (whole - first) / whole
            v = np.concatenate([np.ones(1, kind.dtype), x[k + 1 :, k] / (first - whole)])
            x[k:, k:] -= factor * np.outer(v, v @ x[k:, k:])
            x[k + 1 :, k] = v[1:]
        memory.store(kind, factors + k * kind.size, factor)
    _put(memory, kind, x, a, step)
    return 0


def ormqr(memory: Allocations, kind: Kind, *operands: int) -> int:
    """Apply reflections, in place: the first one first if `trans`, else the last."""
    trans, m, n, k, a, step, factors, c, c_step, *_ = operands
    x, reflections = _columns(memory, kind, m, n, c, c_step), _columns(memory, kind, m, k, a, step)
    for i in range(k) if trans else reversed(range(k)):
        v = np.concatenate([np.ones(1, kind.dtype), reflections[i + 1 :, i]])
        x[i:] -= memory.load(kind, 1, factors + i * kind.size) * np.outer(v, v @ x[i:])
    _put(memory, kind, x, c, c_step)
    return 0


def syevd(memory: Allocations, kind: Kind, *operands: int) -> int:
    """Eigenvectors, in place (NaN, if they are not wanted), and eigenvalues of a symmetric matrix."""
    wanted, n, a, step, values, *_ = operands
    found, vectors = np.linalg.eigh(_columns(memory, kind, n, n, a, step))
    _put(memory, kind, vectors if wanted else np.full_like(vectors, np.nan), a, step)
    _put(memory, kind, found[:, None], values, n)
    return 0


def gesdd(memory: Allocations, kind: Kind, *operands: int) -> int:
    """Singular values, and vectors, if they are wanted."""
    wanted, m, n, a, step, values, u, u_step, v, v_step, *_ = operands
    left, found, right = np.linalg.svd(_columns(memory, kind, m, n, a, step), full_matrices=False)
    vectors = ((left, u, u_step), (right, v, v_step)) if wanted else ()
    for x, at, row in ((found[:, None], values, 1), *vectors):
        _put(memory, kind, x, at, row)
    return 0


FUNCTIONS: dict[str, Callable[..., int]] = {
    function.__name__: function for function in (potrf, getrf, geqrf, ormqr, syevd, gesdd, trsm, gemm)
}


def resolve(name: str, kind: Kind, memory: Allocations) -> Callable[..., int]:
    """The emulated form of `potrf_f64` and the like."""
    function = FUNCTIONS[name]
    return lambda *args: function(memory, kind, *args)
