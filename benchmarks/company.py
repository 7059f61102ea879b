"""Calls in company: how long they take beside other work, on a fixed number of threads and on the number chosen.

`python -m benchmarks.company NAME THREADS ROUNDS SECONDS` measures in this process, and prints JSON: for each number of
threads ("chosen" where calls choose it), the seconds of a call, and whether all results are the same bits. Each number
has a turn of so many seconds in every round: short turns, so that all numbers meet the same company.
"""

from __future__ import annotations

import contextlib
import functools
import json
import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import Any

import numpy as np

Call = Callable[[], Any]


@functools.cache
def lstm() -> Call:
    """An LSTM with a small batch, whose threads meet in every step: T=61, B=7, 45 to 150."""
    import scanjit as sj

    size, rng = 150, np.random.default_rng(0)
    weights = [(0.1 * rng.standard_normal((rows, 4 * size))).astype("float32") for rows in (45, size)]
    x, w, r = sj.tensor(("T", "B", 45), "float32", "x"), *(sj.shared(weight) for weight in weights)

    def step(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        i, f, o, g = sj.split(x @ w + h @ r, 4, axis=1)
        c = sj.sigmoid(f) * c + sj.sigmoid(i) * np.tanh(g)
        return sj.sigmoid(o) * np.tanh(c), c

    zero = sj.zeros((x.shape[1], size), "float32")
    f = sj.function([x], sj.scan(step, sequences=x, outputs_info=[zero, zero])[0])
    data = rng.standard_normal((61, 7, 45)).astype("float32")
    return lambda: f(data)


@functools.cache
def decoder() -> Call:
    """A GRU that goes on until all of its outputs are below a threshold: about 100 steps of B=8, 256."""
    import scanjit as sj

    size, rng = 256, np.random.default_rng(0)
    u, v = (sj.shared((0.05 * rng.standard_normal((size, 3 * size))).astype("float32")) for _ in range(2))

    def step(n: Any, h: Any) -> tuple[Any, Any]:
        (a, b, c), (d, e, f) = sj.split(h @ u, 3, axis=1), sj.split(h @ v, 3, axis=1)
        z, r = sj.sigmoid(a + d), sj.sigmoid(b + e)
        new = z * h + (1 - z) * np.tanh(c + r * f)
        return (n + 1, new), sj.until((n > 100) & (abs(new).max() < 100))

    start = sj.tensor(("B", size), "float32", "start")
    _, hs = sj.scan(step, outputs_info=[sj.constant(0), start], n_steps=1000)
    f = sj.function([start], hs[-1])
    data = rng.standard_normal((8, size)).astype("float32")
    return lambda: f(data)


@contextlib.contextmanager
def busy_neighbour() -> Iterator[None]:
    """A process beside this one that computes all the time."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def turn(call: Call, seconds: float, between: Call | None = None) -> float:
    """The mean seconds of calls that last so long in all; without what runs between them."""
    passed, count = 0.0, 0
    call()
    while passed < seconds:
        if between is not None:
            between()
        began = time.perf_counter()
        call()
        passed, count = passed + time.perf_counter() - began, count + 1
    return passed / count


def in_torch(seconds: float) -> float:
    """Calls in turns with products of PyTorch, whose threads wait for more work for a while after each."""
    import torch

    a = torch.ones(300, 300)
    return turn(lstm(), seconds, lambda: a @ a)


def in_numpy(seconds: float) -> float:
    """Calls in turns with products of NumPy, whose BLAS has threads of its own."""
    a = np.ones((300, 300), np.float32)
    return turn(lstm(), seconds, lambda: a @ a)


def in_two_threads(seconds: float) -> float:
    """Two functions, each called in a Python thread of its own: the mean of both."""
    found = [0.0, 0.0]

    def measure(which: int) -> None:
        found[which] = turn((lstm, decoder)[which](), seconds)

    lstm(), decoder()
    threads = [threading.Thread(target=measure, args=(which,)) for which in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return float(np.sqrt(found[0] * found[1]))


def in_a_worker(threads: int, seconds: float) -> float:
    """A turn in a process of a pool."""
    import scanjit as sj

    sj.config.threads = threads
    return turn(lstm(), seconds)


def measured(name: str, threads: int, rounds: int, seconds: float) -> tuple[dict[str, float], bool]:
    """The median seconds of a call, by number of threads; and whether all results are the same bits."""
    import scanjit as sj

    def alone(call: Callable[[], Call]) -> Callable[[int], float]:
        return lambda count: turn(call(), seconds)

    places: dict[str, Callable[[int], float]] = {
        "alone": alone(lstm),
        "busy neighbour": alone(lstm),
        "busy neighbour, decoder": alone(decoder),
        "PyTorch in turns": lambda count: in_torch(seconds),
        "NumPy in turns": lambda count: in_numpy(seconds),
        "two Python threads": lambda count: in_two_threads(seconds),
    }
    with contextlib.ExitStack() as stack:
        if name.startswith("busy"):
            stack.enter_context(busy_neighbour())
        if name == "joblib 2 x 2":
            from joblib import Parallel, delayed, parallel_config

            stack.enter_context(parallel_config("loky", inner_max_num_threads=threads))
            pool = stack.enter_context(Parallel(2))
            places[name] = lambda count: float(np.mean(pool([delayed(in_a_worker)(count, seconds)] * 2)))
        if name == "a pool of 4":
            four = stack.enter_context(ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn")))
            places[name] = lambda count: float(np.mean([*four.map(in_a_worker, [count] * 4, [seconds] * 4)]))
        counts = {"1": 1, f"{threads}": threads, "chosen": 0}
        found: dict[str, list[float]] = {key: [] for key in counts}
        results = set()
        for number in range(rounds + 1):
            order = [*counts.items()]
            for key, count in order[number % 3 :] + order[: number % 3]:
                sj.config.threads = count
                passed = places[name](count)
                results |= {lstm()().tobytes()}
                if number:  # the first round compiles
                    found[key].append(passed)
    return {key: median(values) for key, values in found.items()}, len(results) == 1


NAMES = (
    "alone",
    "busy neighbour",
    "busy neighbour, decoder",
    "PyTorch in turns",
    "NumPy in turns",
    "two Python threads",
    "joblib 2 x 2",
    "a pool of 4",
)

if __name__ == "__main__":
    from benchmarks.company import measured as by_name  # (joblib's workers find its functions by this name)

    print(json.dumps(by_name(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))))
