"""Measures the most that this machine can do.

Three kernels do nothing but one thing: independent multiply-adds, multiply-adds each of which waits for the one before,
and reads of memory. `f.profile()` uses the rates. The benchmarks run these kernels in turns with the code that they
measure.
"""

import functools
import time
from array import array
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scanjit.runtime import host
from scanjit.runtime.addresses import address
from scanjit.runtime.kernels import kernel
from scanjit.runtime.native import running, silent

SIDE_BY_SIDE = 12
"""How many multiply-adds run side by side: enough to hide the latency of an fma, and few enough for the registers of
any machine."""
ROUNDS = 1 << 17
CHAIN = 1 << 14
READ = 64 << 20
"""Bytes that a call reads, however small the array."""
SHORT = 16
"""Calls that find a rate do this many times less work than those that are measured. The fastest one counts."""
SLOT = 4096
"""Bytes of memory for each thread."""
LINE = 64
"""Bytes of a cache line. Memory is aligned to it, so that no vector lies in two lines."""
LEAST_SECONDS, LEAST_CALLS = 1e-3, 8
"""Calls are repeated for at least this many seconds, and at least this often, to find the fastest. A call during which
the system runs something else may take ten milliseconds."""


class MeasuredCall(NamedTuple):
    """A call, and its amount of work: operations or bytes."""

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


def _pace(measured: MeasuredCall) -> float:
    """Work per second, in the fastest of several calls."""
    measured.call()
    best, spent, calls = float("inf"), 0.0, 0
    while spent < LEAST_SECONDS or calls < LEAST_CALLS:
        start = time.perf_counter()
        measured.call()
        taken = time.perf_counter() - start
        best, spent, calls = min(best, taken), spent + max(taken, 1e-6), calls + 1
    return measured.amount / best


# ---- kernels -------------------------------------------------------------------------------------------------------


def throughput(dtype: str, threads: int, rounds: int = ROUNDS) -> MeasuredCall:
    """A call of independent multiply-adds, and its number of floating-point operations."""
    lanes = host.target().lanes(np.dtype(dtype).itemsize)
    amount = 2.0 * lanes * SIDE_BY_SIDE * rounds * threads
    return MeasuredCall(_fma(dtype, lanes, SIDE_BY_SIDE, rounds, threads), amount)


def latency(dtype: str) -> MeasuredCall:
    """A call of multiply-adds of which each needs the one before, and their number. It uses one thread."""
    return MeasuredCall(_fma(dtype, 1, 1, CHAIN, 1), CHAIN)


def stream(dtype: str, threads: int, footprint: int, nbytes: int = READ) -> MeasuredCall:
    """A call that reads an array of `footprint` bytes again and again, about `nbytes` in all; and the exact number."""
    lanes = host.target().lanes(np.dtype(dtype).itemsize)
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
    return MeasuredCall(call, float(rounds * each * threads))


def _fma(dtype: str, lanes: int, count: int, rounds: int, threads: int) -> Callable[[], None]:
    """A kernel with `count` accumulators in registers, each of which repeats a = a*x + x."""
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
    """The first lines of such a kernel."""
    words = ("memory", "size", "rounds")
    loads = [f"    {word} = load_i64(table + {8 * i})" for i, word in enumerate(words)]
    return ["", "", f"def {name}(table, number, threads, line):", *loads]


def _kind(dtype: str, lanes: int) -> str:
    return f"{'f64' if dtype == 'float64' else 'f32'}x{lanes}"


def _memory(dtype: str, nbytes: int, value: float) -> np.ndarray:
    """Memory aligned to a cache line, filled once. The system maps all pages that nobody has written to one page of
    zeros, which would always be read from the nearest cache."""
    whole = np.empty(nbytes + LINE, np.uint8)
    start = -address(whole) % LINE
    memory = whole[start : start + nbytes].view(dtype)
    memory[...] = value
    return memory


def _on_all(source: str, name: str, memory: np.ndarray, size: int, rounds: int, threads: int) -> Callable[[], None]:
    """Run the kernel on all threads, each on its own part of the memory."""
    program, run = kernel(source, name).address, running()
    table, places = array("q", [0, size, rounds]), array("q", [1, 0, 0])

    def call() -> None:
        run(program, table.buffer_info()[0], threads, silent, places.buffer_info()[0], [memory])

    return call
