"""What the hardware allows: multiply-adds side by side, one after the other, and reading from the caches, by kernels
that do nothing else, on as many threads as the engines have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SIDE_BY_SIDE = 12
"""Enough to hide the latency of an fma, and few enough for the registers of any machine."""
ROUNDS = 1 << 17
CHAIN = 1 << 14
READ = 64 << 20
"""Bytes that a call reads, however small the array."""
SLOT = 4096
"""Bytes of memory for each thread."""

Measured = tuple[Callable[[], None], float]
"""A call, and how much of what is limited it does."""


def throughput(dtype: str, threads: int) -> Measured:
    """Multiply-adds as fast as the cores can, and how many floating-point operations these are."""
    from scanjit.simd import cpu

    lanes = cpu.lanes(dtype)
    return _fma(dtype, lanes, SIDE_BY_SIDE, ROUNDS, threads), 2.0 * lanes * SIDE_BY_SIDE * ROUNDS * threads


def latency(dtype: str, threads: int) -> Measured:
    """Multiply-adds of which each needs the one before, and how many; on one thread, more would not help."""
    return _fma(dtype, 1, 1, CHAIN, 1), CHAIN


def stream(dtype: str, threads: int, footprint: int) -> Measured:
    """Reading an array of so many bytes again and again, and how many bytes are read."""
    from scanjit.simd import cpu

    lanes = cpu.lanes(dtype)
    step = SIDE_BY_SIDE * lanes * np.dtype(dtype).itemsize
    each = max(footprint // threads // step, 1) * step
    rounds = max(READ // (each * threads), 1)
    kind, used = _kind(dtype, lanes), range(SIDE_BY_SIDE)
    name = f"benchmark_stream_{kind}"
    lines = [
        f"from scanjit.simd import load_{kind}, store",
        "",
        "",
        f"def {name}(memory, number, count, rounds):",
        "    start = memory + number * count",
        *(f"    a{i} = load_{kind}(start + {i * step // SIDE_BY_SIDE})" for i in used),
        "    for _ in range(rounds):",
        f"        for at in range(start, start + count, {step}):",
        *(f"            a{i} = a{i} + load_{kind}(at + {i * step // SIDE_BY_SIDE})" for i in used),
        *(f"    store(start + {i * step // SIDE_BY_SIDE}, a{i})" for i in used),
        "",
    ]
    memory = np.zeros(each * threads + 64, np.uint8)
    return _run("\n".join(lines), name, memory, each, rounds, threads), float(rounds * each * threads)


def _fma(dtype: str, lanes: int, count: int, rounds: int, threads: int) -> Callable[[], None]:
    """`count` accumulators that stay in registers: a = a*x + x."""
    kind, used = _kind(dtype, lanes), range(count)
    name = f"benchmark_fma_{kind}_{count}"
    lines = [
        f"from scanjit.simd import fma, load_{kind}, store",
        "",
        "",
        f"def {name}(memory, number, slot, rounds):",
        "    memory += number * slot",
        f"    x = load_{kind}(memory)",
        *(f"    a{i} = load_{kind}(memory + {64 * (i + 1)})" for i in used),
        "    for _ in range(rounds):",
        *(f"        a{i} = fma(a{i}, x, x)" for i in used),
        *(f"    store(memory + {64 * (i + 1)}, a{i})" for i in used),
        "",
    ]
    memory = np.full(SLOT * threads // 4, 0.5, dtype)
    return _run("\n".join(lines), name, memory, SLOT, rounds, threads)


def _kind(dtype: str, lanes: int) -> str:
    return f"{'f32' if dtype == 'float32' else 'f64'}x{lanes}"


def _run(source: str, name: str, memory: np.ndarray, size: int, rounds: int, threads: int) -> Callable[[], None]:
    """The kernel on all threads: each on its part of the memory."""
    from scanjit.runtime import threads as team
    from scanjit.runtime.kernels import kernel

    run = kernel(source, name).call
    if threads == 1:
        return lambda: run(memory.ctypes.data, 0, size, rounds)
    return lambda: team.run(lambda address, number, _: run(address, number, size, rounds), memory.ctypes.data, threads)
