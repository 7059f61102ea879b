"""How fast register tiles of each shape are on this processor: the table of `scanjit/target/measured.py`.

    python -m benchmarks tiles

For each number of products that share a left operand in one nest, every shape that may fit the registers computes the
same products, in interleaved rounds, on one thread.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

DEPTHS = (96, 320)
ROWS = 240
"""A multiple of the rows of all shapes."""
VECTORS = 24
"""Columns of each product, in vectors: a multiple of the vectors of all shapes."""
ROUNDS = 9
SECONDS = 0.004


def measure() -> dict[int, dict[tuple[int, int], float]]:
    """By number of products and shape: the part of the limit that is reached, the mean of the depths."""
    from scanjit.runtime import host, limits
    from scanjit.schedule.fuse.groups import FEW_REGISTERS, MOST_REDUCTIONS

    found: dict[int, dict[tuple[int, int], float]] = {}
    most_products = 1 if host.target().registers <= FEW_REGISTERS else MOST_REDUCTIONS  # each has a nest of its own
    for products in range(1, most_products + 1):
        most = host.target().most_sums // products
        candidates = [
            (rows, v) for v in (1, 2, 3, 4) for rows in (1, 2, 3, 4, 5, 6, 8) if most // 2 <= rows * v <= most
        ]
        paces = [_paces(products, depth, candidates) for depth in DEPTHS]
        limit = limits.operations("float32")
        found[products] = {
            shape: round(statistics.geometric_mean(pace[shape] for pace in paces) / limit, 2) for shape in candidates
        }
    return found


def _paces(products: int, depth: int, candidates: list[tuple[int, int]]) -> dict[tuple[int, int], float]:
    """Floating-point operations a second, in the median of the rounds: a processor's other work is part of it. Where
    two threads use one core, a tile of few sums loses more than one of many."""
    runs = {shape: _program(products, depth, shape) for shape in candidates}
    taken: dict[tuple[int, int], list[float]] = {shape: [] for shape in candidates}
    for _ in range(ROUNDS):
        for shape, run in runs.items():
            run()
            start, count = time.perf_counter(), 0
            while not count or time.perf_counter() - start < SECONDS:
                run()
                count += 1
            taken[shape].append((time.perf_counter() - start) / count)
    amount = 2.0 * depth * ROWS * products * _columns()
    return {shape: amount / statistics.median(times) for shape, times in taken.items()}


def _columns() -> int:
    from scanjit.runtime import host

    return VECTORS * host.target().lanes(4)


def _program(products: int, depth: int, shape: tuple[int, int]) -> Callable[[], Any]:
    """The largest of several products, at every element, in tiles of one shape."""
    import scanjit as sj
    from scanjit.runtime import host

    rng, columns = np.random.default_rng(0), _columns()
    x = sj.tensor(("rows", depth), "float32")
    weights = [sj.shared(rng.standard_normal((depth, columns)).astype("float32")) for _ in range(products)]
    largest = x @ weights[0]
    for weight in weights[1:]:
        largest = sj.maximum(largest, x @ weight)
    with host.using(replace(host.target(), tiles={products: {shape: 1.0}})):
        function = sj.function([x], largest)
    value = rng.standard_normal((ROWS, depth)).astype("float32")
    return lambda: function(value)


def main() -> int:
    """Print the table of this processor, the fastest shapes first."""
    import scanjit as sj
    from scanjit.runtime import host

    sj.config.threads = 1
    print(f'"{host.target().name} {host.target().vector_bytes}": {{')
    for products, speeds in measure().items():
        best = sorted(speeds.items(), key=lambda pair: -pair[1])
        print(f"    {products}: {{{', '.join(f'{shape}: {speed:.2f}' for shape, speed in best)}}},", flush=True)
    print("},")
    return 0
