"""What this machine can do at most: multiply-adds and bytes a second, by kernels that do nothing else."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import numpy as np

from scanjit.runtime.addresses import address
from scanjit.runtime.kernels import kernel
from scanjit.simd import cpu

SIDE_BY_SIDE = 12
"""Enough to hide the latency of an fma, and few enough for the registers of any machine."""
ROUNDS = 4096
LEAST_SECONDS = 2e-4
"""A measurement takes at least this long."""


@functools.cache
def operations(dtype: str) -> float:
    """Floating-point operations a second of one core (an fma is two), side by side in registers."""
    lanes = cpu.lanes(dtype)
    kind, used = f"{'f64' if dtype == 'float64' else 'f32'}x{lanes}", range(SIDE_BY_SIDE)
    run = _kernel(
        f"limit_fma_{kind}",
        [
            f"from scanjit.simd import fma, load_{kind}, store",
            "",
            "",
            f"def limit_fma_{kind}(memory, rounds):",
            f"    x = load_{kind}(memory)",
            *(f"    a{i} = load_{kind}(memory + {64 * (i + 1)})" for i in used),
            "    for _ in range(rounds):",
            *(f"        a{i} = fma(a{i}, x, x)" for i in used),
            *(f"    store(memory + {64 * (i + 1)}, a{i})" for i in used),
        ],
    )
    memory = np.full(16 * (SIDE_BY_SIDE + 1), 0.5, dtype)
    return 2.0 * lanes * SIDE_BY_SIDE * ROUNDS / _fastest(lambda: run(address(memory), ROUNDS))


def bandwidth(nbytes: float) -> float:
    """Bytes a second that one core reads from about this much memory, over and over."""
    size = 1 << min(26, max(12, int(nbytes - 1).bit_length()))
    return _bandwidth(size)


@functools.cache
def _bandwidth(nbytes: int) -> float:
    step = cpu.vector_bytes()
    kind, used = f"f32x{step // 4}", range(8)
    run = _kernel(
        f"limit_read_{kind}",
        [
            f"from scanjit.simd import load_{kind}, store",
            "",
            "",
            f"def limit_read_{kind}(memory, nbytes, rounds):",
            *(f"    a{i} = load_{kind}(memory)" for i in used),
            "    for _ in range(rounds):",
            f"        for j in range(memory, memory + nbytes, {step * len(used)}):",
            *(f"            a{i} = a{i} + load_{kind}(j + {step * i})" for i in used),
            f"    store(memory, {' + '.join(f'a{i}' for i in used)})",
        ],
    )
    memory = np.zeros(nbytes // 4, np.float32)
    rounds = max(1, (1 << 22) // nbytes)
    return nbytes * rounds / _fastest(lambda: run(address(memory), nbytes, rounds))


def _kernel(name: str, lines: list[str]) -> Callable[..., None]:
    return kernel("\n".join([*lines, ""]), name).call


def _fastest(run: Callable[[], None]) -> float:
    """The least of several times, in seconds."""
    run()
    best, spent = float("inf"), 0.0
    while spent < 5 * LEAST_SECONDS:
        start = time.perf_counter()
        run()
        taken = time.perf_counter() - start
        best, spent = min(best, taken), spent + max(taken, 1e-6)
    return best
