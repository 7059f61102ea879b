"""Whether it costs anything to know sizes: an elementwise recurrence over many widths, known and unknown.

    python -m benchmarks columns

Two carries that need each other, through tanh and sigmoid, in float32; the value, and value and gradient. For each
number of columns, the function that knows it and the one that does not compute the same in interleaved rounds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

COLUMNS = (8, 16, 40, 64, 255, 256, 257, 1000, 1024, 4096, 4099, 16384, 65536, 65537)
ELEMENTS = 2**21
"""So many elements go through a call, about, but at least so many steps:"""
STEPS = 64
ROUNDS = 11


class Width(NamedTuple):
    """Nanoseconds an element, of the fastest round."""

    columns: int
    gradient: bool
    known: float
    unknown: float


def measure() -> Iterator[Width]:
    """All widths, value and then gradient of each."""
    anything = {gradient: _function("N", gradient) for gradient in (False, True)}
    for columns in COLUMNS:
        steps = max(ELEMENTS // columns, STEPS)
        rng = np.random.default_rng(columns)
        shapes = ((steps, columns), *((columns,) for _ in range(4)))
        arguments = [rng.standard_normal(shape).astype("float32") for shape in shapes]
        for gradient in (False, True):
            known, unknown = _fastest([_function(columns, gradient), anything[gradient]], arguments)
            yield Width(columns, gradient, *(1e9 * seconds / (steps * columns) for seconds in (known, unknown)))


def _fastest(functions: Sequence[Callable[..., Any]], arguments: Sequence[np.ndarray]) -> list[float]:
    best = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function(*arguments)
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def _function(columns: int | str, gradient: bool) -> Callable[..., Any]:
    import scanjit as sj

    x = sj.tensor(("T", columns), "float32", "x")
    a, b, h, c = (sj.tensor((columns,), "float32", name) for name in "abhc")

    def step(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        gate = sj.sigmoid(x + a * h)
        c = gate * c + (1 - gate) * sj.tanh(x + b * h)
        return sj.tanh(c) * gate, c

    y, _ = sj.scan(step, sequences=x, outputs_info=[h, c])
    inputs = [x, a, b, h, c]
    return sj.function(inputs, [y, *sj.grad((y * y).sum(), inputs)] if gradient else [y])


def main() -> int:
    """Print the table."""
    import scanjit as sj

    sj.config.threads = threads = os.cpu_count() or 1
    print(f"ns an element, {threads} threads\n\n{'columns':>8} {'':>8} {'known':>7} {'unknown':>8} {'ratio':>6}")
    for columns, gradient, known, unknown in measure():
        kind = "gradient" if gradient else "value"
        print(f"{columns:>8} {kind:>8} {known:>7.2f} {unknown:>8.2f} {known / unknown:>6.2f}", flush=True)
    return 0
