"""What the hardware allows: multiply-adds side by side, and one after the other, by kernels that do nothing else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SIDE_BY_SIDE = 12
"""Enough to hide the latency of an fma, and few enough for the registers of any machine."""
ROUNDS = 4096
CHAIN = 16384


def throughput(dtype: str) -> tuple[Callable[[], None], int]:
    """A call that does multiply-adds as fast as one core can, and how many floating-point operations it does."""
    from scanjit.simd import cpu

    lanes = cpu.lanes(dtype)
    return _kernel(dtype, lanes, SIDE_BY_SIDE, ROUNDS), 2 * lanes * SIDE_BY_SIDE * ROUNDS


def latency(dtype: str) -> tuple[Callable[[], None], int]:
    """A call that does multiply-adds of which each needs the one before, and how many."""
    return _kernel(dtype, 1, 1, CHAIN), CHAIN


def _kernel(dtype: str, lanes: int, count: int, rounds: int) -> Callable[[], None]:
    """`count` accumulators that stay in registers: a = a*x + x."""
    from scanjit.runtime.kernels import kernel

    kind = f"{'f32' if dtype == 'float32' else 'f64'}x{lanes}"
    name, used = f"benchmark_fma_{kind}_{count}", range(count)
    lines = [
        f"from scanjit.simd import fma, load_{kind}, store",
        "",
        "",
        f"def {name}(memory, rounds):",
        f"    x = load_{kind}(memory)",
        *(f"    a{i} = load_{kind}(memory + {64 * (i + 1)})" for i in used),
        "    for _ in range(rounds):",
        *(f"        a{i} = fma(a{i}, x, x)" for i in used),
        *(f"    store(memory + {64 * (i + 1)}, a{i})" for i in used),
        "",
    ]
    run = kernel("\n".join(lines), name).call
    memory = np.full(16 * (count + 1), 0.5, dtype)
    return lambda: run(memory.ctypes.data, rounds)
