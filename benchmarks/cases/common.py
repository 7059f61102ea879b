"""What the cases share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SEQUENCE = {0: "T", 1: "B"}
"""The free axes of a sequence."""


class Draw:
    """Random numbers of one dtype."""

    def __init__(self, rng: np.random.Generator, dtype: str) -> None:
        self.rng, self.dtype = rng, dtype

    def normal(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        """Normally distributed: the same numbers in both dtypes, but for rounding."""
        return (self.rng.standard_normal(shape) * scale).astype(self.dtype)

    def matrix(self, rows: int, columns: int) -> np.ndarray:
        """A weight: products with it keep the size of what they are given."""
        return self.normal(rows, columns, scale=rows**-0.5)

    def uniform(self, low: float, high: float, *shape: int) -> np.ndarray:
        """Evenly distributed."""
        return self.rng.uniform(low, high, shape).astype(self.dtype)


def grid(names: str, *rows: tuple[int, ...]) -> list[dict[str, int]]:
    """Sizes: the names once, then the numbers."""
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


def split(z: Any, count: int) -> list[Any]:
    """The gates, which lie side by side: for everything that has slices."""
    width = z.shape[-1] // count
    return [z[..., k * width : (k + 1) * width] for k in range(count)]


def reordered(weights: np.ndarray, order: str, wanted: str) -> np.ndarray:
    """Gates along the last axis, in another order."""
    parts = dict(zip(order, np.split(weights, len(order), axis=-1), strict=True))
    return np.concatenate([parts[gate] for gate in wanted], axis=-1)


def gate_flops(sizes: Any, gates: int) -> float:
    """Of the products of a recurrent layer with so many gates: input I, state H."""
    return 2.0 * gates * sizes["T"] * sizes["B"] * sizes["H"] * (sizes["I"] + sizes["H"])


def loop(step: Callable[..., Any], rows: Any, state: Any) -> list[Any]:
    """What `state = step(row, *state)` gives first, at each row: for arrays that record or run as they come."""
    found = []
    for i in range(len(rows) if isinstance(rows, list) else rows.shape[0]):
        state = step(rows[i], *state)
        found.append(state[0])
    return found
