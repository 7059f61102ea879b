"""Matrices to test with, and all of `numpy.linalg` that is offered on symbols as one function."""

from __future__ import annotations

from typing import Any

import numpy as np

import scanjit as sj
from scanjit.ir import Node

MODES = ("reference", "emulate")


def spd(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Symmetric positive definite matrices that are far from singular."""
    root = rng.normal(size=(*shape, shape[-1]))
    return root @ np.swapaxes(root, -1, -2) / max(shape[-1], 1) + np.eye(shape[-1])


def everything(a: Node, b: Node) -> list[Node]:
    """All functions, of matrices and right sides."""
    return [
        sj.solve(a, b),
        sj.inv(a),
        sj.det(a),
        *sj.slogdet(a),
        sj.cholesky(a @ sj.swapaxes(a, -1, -2)),
        sj.solve_triangular(a, b),
        sj.solve_triangular(a, b, lower=False, trans=True, unit_diagonal=True),
    ]


def in_numpy(a: np.ndarray, b: np.ndarray) -> list[Any]:
    """The same by NumPy."""
    upper = np.triu(a, 1) + np.eye(a.shape[-1])
    return [
        np.linalg.solve(a, b),
        np.linalg.inv(a),
        np.linalg.det(a),
        *np.linalg.slogdet(a),
        np.linalg.cholesky(a @ np.swapaxes(a, -1, -2)),
        np.linalg.solve(np.tril(a), b),
        np.linalg.solve(np.swapaxes(upper, -1, -2), b),
    ]


def regular(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Matrices far from singular, as are both of their triangles. The largest entries are not on the diagonal, so that
    rows have to change places."""
    n = shape[-1]
    return rng.uniform(-1, 1, size=(*shape, n)) / max(n, 1) + np.eye(n) + 1.5 * np.eye(n)[::-1]
