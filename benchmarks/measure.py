"""Measuring: rounds in which everybody has a turn, and processes that start from nothing.

Times are processor time, which for one thread is the time that passes, less what other processes of the machine took.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Times:
    """Seconds a call, one number for each round: processor time, and time that passed."""

    used: list[float] = field(default_factory=list)
    passed: list[float] = field(default_factory=list)

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Of the processor time: a half of the rounds lay between the first and the last, the median is in between."""
        if len(self.used) < 2:
            return self.used[0], self.used[0], self.used[0]
        low, middle, high = quantiles(self.used, n=4, method="inclusive")
        return low, middle, high


def rounds(calls: Mapping[str, Callable[[], object]], count: int, seconds: float) -> dict[str, Times]:
    """Measure each call.

    In every round each has a turn of about `seconds`, after a call that does not count and brings its data back into
    the caches. Whoever begins changes from round to round.
    """
    repeats = {name: _repeats(call, seconds) for name, call in calls.items()}
    times = {name: Times() for name in calls}
    names = list(calls)
    gc.collect()
    gc.disable()
    try:
        for turn in range(count):
            for i in range(len(names)):
                name = names[(turn + i) % len(names)]
                call, n = calls[name], repeats[name]
                call()
                began, start = time.perf_counter(), time.process_time()
                for _ in range(n):
                    call()
                used, passed = time.process_time() - start, time.perf_counter() - began
                times[name].used.append(used / n)
                times[name].passed.append(passed / n)
    finally:
        gc.enable()
    return times


def _repeats(call: Callable[[], object], seconds: float) -> int:
    """How many calls fill a turn."""
    call()
    start = time.perf_counter()
    call()
    return max(1, int(seconds / max(time.perf_counter() - start, 1e-7)))


@dataclass
class Fresh:
    """Seconds in processes of their own: imports, what happens before the first call, the first call."""

    imports: float
    make: float
    first: float


@dataclass
class Start:
    """A contender's first time in a process: with an empty cache, and with a full one."""

    cold: Fresh
    warm: Fresh


def start(case: str, kind: str, contender: str, mode: str, quick: bool, repeats: int) -> Start:
    """Run a contender in processes of its own, one after the other: each time with no cache, then with the cache that
    this left. The medians of all."""
    cold: list[Fresh] = []
    warm: list[Fresh] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
            for results in (cold, warm):
                results.append(_fresh([case, kind, contender, mode, "quick" if quick else "full"], folder))
    return Start(_medians(cold), _medians(warm))


def _medians(results: list[Fresh]) -> Fresh:
    return Fresh(*(median(getattr(r, name) for r in results) for name in ("imports", "make", "first")))


def _fresh(arguments: list[str], cache: str) -> Fresh:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "SCANJIT_CACHE_DIR": cache, "NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-m", "benchmarks.fresh", *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return Fresh(**json.loads(done.stdout))


@dataclass
class Row:
    """What was measured of a contender."""

    contender: str
    error: float
    times: Times
    start: Start | None = None

    @property
    def steady(self) -> float:
        """Seconds a call: the median of the rounds."""
        return self.times.quartiles[1]


@dataclass
class Table:
    """One task: its rows, and the time that the limit of the hardware allows (`rate`: GFLOP/s, if it is one)."""

    case: str
    kind: str
    title: str
    limit: float
    limited_by: str
    flops: int
    rows: list[Row] = field(default_factory=list)

    def row(self, contender: str) -> Row | None:
        """The row of a contender, if there is one."""
        return next((row for row in self.rows if row.contender == contender), None)


def installed(package: str) -> bool:
    """Whether a package is there, without importing it."""
    return importlib.util.find_spec(package) is not None
