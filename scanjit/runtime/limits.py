"""What this machine can do at most: multiply-adds side by side, one after the other, and reading memory, by kernels
that do nothing else. `f.profile()` asks for paces; the benchmarks take turns with the kernels."""

from __future__ import annotations

import functools
import time
from array import array
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scanjit.runtime import threads as team
from scanjit.runtime.addresses import address
from scanjit.runtime.kernels import kernel
from scanjit.simd import cpu

SIDE_BY_SIDE = 12
"""Enough to hide the latency of an fma, and few enough for the registers of any machine."""
ROUNDS = 1 << 17
CHAIN = 1 << 14
READ = 64 << 20
"""Bytes that a call reads, however small the array."""
SHORT = 16
"""What is asked for a pace, where the fastest of several calls counts, takes so many times less."""
SLOT = 4096
"""Bytes of memory for each thread."""
LINE = 64
"""Bytes of a line of the caches: no vector lies in two."""
LEAST_SECONDS = 1e-3
"""The calls of which the fastest counts take at least this long."""


class Measured(NamedTuple):
    """A call, and how much of what is limited it does."""

    call: Callable[[], None]
    amount: float


# ---- paces ---------------------------------------------------------------------------------------------------------


@functools.cache
def operations(dtype: str) -> float:
    """Floating-point operations a second of one core (an fma is two), side by side in registers."""
    return _pace(throughput(dtype, 1, ROUNDS // SHORT))


def bandwidth(nbytes: float) -> float:
    """Bytes a second that one core reads from about this much memory, over and over."""
    return _bandwidth(1 << min(26, max(12, int(nbytes - 1).bit_length())))


@functools.cache
def _bandwidth(nbytes: int) -> float:
    return _pace(stream("float32", 1, nbytes, READ // SHORT))


def _pace(measured: Measured) -> float:
    """The amount a second, by the fastest of several calls."""
    measured.call()
    best, spent = float("inf"), 0.0
    while spent < LEAST_SECONDS:
        start = time.perf_counter()
        measured.call()
        taken = time.perf_counter() - start
        best, spent = min(best, taken), spent + max(taken, 1e-6)
    return measured.amount / best


# ---- kernels -------------------------------------------------------------------------------------------------------


def throughput(dtype: str, threads: int, rounds: int = ROUNDS) -> Measured:
    """Multiply-adds as fast as the cores can, and how many floating-point operations these are."""
    lanes = cpu.lanes(dtype)
    amount = 2.0 * lanes * SIDE_BY_SIDE * rounds * threads
    return Measured(_fma(dtype, lanes, SIDE_BY_SIDE, rounds, threads), amount)


def latency(dtype: str) -> Measured:
    """Multiply-adds of which each needs the one before, and how many; on one thread, more would not help."""
    return Measured(_fma(dtype, 1, 1, CHAIN, 1), CHAIN)


def stream(dtype: str, threads: int, footprint: int, nbytes: int = READ) -> Measured:
    """Reading an array of `footprint` bytes again and again, about `nbytes` a call, and how many bytes are read."""
    lanes = cpu.lanes(dtype)
    step = SIDE_BY_SIDE * lanes * np.dtype(dtype).itemsize
    each = max(footprint // threads // step, 1) * step
    rounds = max(nbytes // (each * threads), 1)
    kind, used = _kind(dtype, lanes), range(SIDE_BY_SIDE)
    name = f"limit_stream_{kind}"
    lines = [
        f"from scanjit.simd import load_i64, load_{kind}, store",
        *_head(name),
        "    start = memory + number * size",
        *(f"    a{i} = load_{kind}(start + {i * step // SIDE_BY_SIDE})" for i in used),
        "    for _ in range(rounds):",
        f"        for at in range(start, start + size, {step}):",
        *(f"            a{i} = a{i} + load_{kind}(at + {i * step // SIDE_BY_SIDE})" for i in used),
        *(f"    store(start + {i * step // SIDE_BY_SIDE}, a{i})" for i in used),
        "",
    ]
    call = _on_all("\n".join(lines), name, _memory(dtype, each * threads, 0.0), each, rounds, threads)
    return Measured(call, float(rounds * each * threads))


def _fma(dtype: str, lanes: int, count: int, rounds: int, threads: int) -> Callable[[], None]:
    """`count` accumulators that stay in registers: a = a*x + x."""
    kind, used = _kind(dtype, lanes), range(count)
    name = f"limit_fma_{kind}_{count}"
    lines = [
        f"from scanjit.simd import fma, load_i64, load_{kind}, store",
        *_head(name),
        "    memory += number * size",
        f"    x = load_{kind}(memory)",
        *(f"    a{i} = load_{kind}(memory + {LINE * (i + 1)})" for i in used),
        "    for _ in range(rounds):",
        *(f"        a{i} = fma(a{i}, x, x)" for i in used),
        *(f"    store(memory + {LINE * (i + 1)}, a{i})" for i in used),
        "",
    ]
    return _on_all("\n".join(lines), name, _memory(dtype, SLOT * threads, 0.5), SLOT, rounds, threads)


def _head(name: str) -> list[str]:
    """The lines with which a kernel begins, a program of its own."""
    words = ("memory", "size", "rounds")
    loads = [f"    {word} = load_i64(table + {8 * i})" for i, word in enumerate(words)]
    return ["", "", f"def {name}(table, number, threads, line):", *loads]


def _kind(dtype: str, lanes: int) -> str:
    return f"{'f64' if dtype == 'float64' else 'f32'}x{lanes}"


def _memory(dtype: str, nbytes: int, value: float) -> np.ndarray:
    """Memory that begins with a line of the caches. It is written: pages that nobody wrote are all one page of zeros,
    which is read from the nearest cache, however many they are."""
    whole = np.empty(nbytes + LINE, np.uint8)
    start = -address(whole) % LINE
    memory = whole[start : start + nbytes].view(dtype)
    memory[...] = value
    return memory


def _on_all(source: str, name: str, memory: np.ndarray, size: int, rounds: int, threads: int) -> Callable[[], None]:
    """The kernel on all threads: each on its part of the memory."""
    program, run = kernel(source, name).address, team.running()
    table = array("q", [address(memory), size, rounds])

    def call() -> None:
        run(program, table.buffer_info()[0], threads)
        assert memory.size  # it lives as long as this function

    return call
