"""An engine in a process of its own: `python -m benchmarks.worker ENGINE THREADS`.

It takes orders as lines of JSON from its input, one at a time, and answers each with a line on its output. So every
engine can have an interpreter and packages of its own, and its threads are its own; whoever has no turn is stopped.
"""

from __future__ import annotations

import os
import sys
import time

BEGIN = time.perf_counter()


def settle(threads: int) -> None:
    """At most so many threads, whatever library computes; to be done before any is loaded.

    scanjit is left to choose how many of them it uses, as in a user's process.
    """
    for name in ("OPENBLAS", "MKL", "OMP", "BLIS", "VECLIB_MAXIMUM", "NUMBA"):
        os.environ[f"{name}_NUM_THREADS"] = str(threads)
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(threads)
    os.environ["TF_NUM_INTEROP_THREADS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if hasattr(os, "sched_setaffinity"):  # XLA counts the processors that it may use
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


if __name__ == "__main__":
    settle(int(sys.argv[2]))

import dataclasses  # noqa: E402
import gc  # noqa: E402
import importlib  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import traceback  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

from benchmarks.case import Program, Task  # noqa: E402
from benchmarks.cases import find  # noqa: E402
from benchmarks.engines import PACKAGES  # noqa: E402

SETTLING = 0.2
"""For so many seconds a program is called before it is measured."""


class Worker:
    """Programs by key, and what can be done with them. Each method answers an order."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.programs: dict[str, Program] = {}
        self.repeats: dict[str, int] = {}

    def hello(self) -> dict[str, Any]:
        """Import the library: its version, that of Python, and how long that took since the process began."""
        module = importlib.import_module(PACKAGES[self.engine])
        version = f"{getattr(module, '__version__', '').partition('-')[0]} (Python {platform.python_version()})"
        return {"version": version.strip(), "seconds": time.perf_counter() - BEGIN}

    def make(self, key: str, case: str, task: dict[str, Any]) -> dict[str, Any]:
        """Trace and compile."""
        full = Task(find(case), **task)
        start, used = time.perf_counter(), time.process_time()
        self.programs[key] = full.case.make[self.engine](full)
        return {"seconds": time.perf_counter() - start, "used": time.process_time() - used}

    def limit(self, key: str, name: str, arguments: list[Any]) -> dict[str, Any]:
        """Make a call of a kernel that shows what the hardware allows."""
        call, amount = getattr(importlib.import_module("scanjit.runtime.limits"), name)(*arguments)
        self.programs[key] = Program(call, lambda results: [])
        return {"amount": amount}

    def first(self, key: str, path: str) -> dict[str, Any]:
        """Call once and write the results to a file."""
        program = self.programs[key]
        start = time.perf_counter()
        results = program.call()
        seconds = time.perf_counter() - start
        np.savez(path, *program.read(results))
        return {"seconds": seconds}

    def time(self, key: str, seconds: float) -> dict[str, Any]:
        """Call for about so long, after a call that does not count and brings its data back into the caches."""
        call = self.programs[key].call
        count = self._count(key, call, seconds)
        call()
        used, began = time.process_time(), time.perf_counter()
        for _ in range(count):
            call()
        passed, used = time.perf_counter() - began, time.process_time() - used
        return {"passed": passed / count, "used": used / count}

    def _count(self, key: str, call: Callable[[], Any], seconds: float) -> int:
        """How many calls fill a turn. Before the first turn, a program is called for a while. So what it tries out in
        its first calls is over: scanjit tries numbers of threads, others algorithms."""
        if key not in self.repeats:
            best, first, calls = float("inf"), time.perf_counter(), 0
            while calls < 3 or time.perf_counter() - first < SETTLING:
                began = time.perf_counter()
                call()
                best, calls = min(best, time.perf_counter() - began), calls + 1
                if best > seconds:
                    break
            self.repeats[key] = max(1, int(seconds / max(best, 1e-7)))
        return self.repeats[key]

    def memory(self, key: str) -> dict[str, Any]:
        """Call for the first time: the bytes that memory grew by at the peak, and those of the results."""
        if not Path("/proc/self/clear_refs").exists():
            raise NotImplementedError("memory is measured on Linux only")
        program = self.programs[key]
        before = _resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins here
        results = program.call()
        peak = _resident("VmHWM")
        return {"peak": peak - before, "results": sum(array.nbytes for array in program.read(results))}

    def trace(self, case: str, task: dict[str, Any]) -> dict[str, Any]:
        """Build scanjit's graph, with its gradient if there is one, and rewrite it: the seconds of both."""
        from scanjit.rewrite import run

        full = Task(find(case), **task)
        make = full.case.make["scanjit"]
        full.arguments()
        start = time.perf_counter()
        _, outputs, _ = make.graph(full)  # type: ignore[attr-defined]
        traced = time.perf_counter()
        run(outputs)
        return {"trace": traced - start, "rewrite": time.perf_counter() - traced}

    def overhead(self) -> dict[str, Any]:
        """Seconds a call of a compiled function of one number."""
        import scanjit as sj

        x = sj.dscalar("x")
        function, value = sj.function([x], 2 * x), np.array(1.0)
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(10_000):
                function(value)
            best = min(best, (time.perf_counter() - start) / 10_000)
        return {"seconds": best}

    def drop(self) -> dict[str, Any]:
        """Forget all programs."""
        self.programs.clear()
        self.repeats.clear()
        gc.collect()
        return {}


def _resident(name: str) -> int:
    """Bytes, of what Linux says about this process."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith(name))


def task_data(task: Task) -> dict[str, Any]:
    """A task as `Worker.make` gets it."""
    return {field.name: getattr(task, field.name) for field in dataclasses.fields(task) if field.name != "case"}


def main(engine: str, threads: str) -> None:
    """Answer orders until there are no more."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    worker = Worker(engine)
    gc.disable()
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = getattr(worker, order.pop("do"))(**order)
        except Exception as error:
            kind = "absent" if isinstance(error, NotImplementedError | ImportError) else "error"
            answer = {kind: f"{type(error).__name__}: {error}"[:2000], "traceback": traceback.format_exc()[-4000:]}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
