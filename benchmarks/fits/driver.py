"""Thousands of fits, beside what people fit one by one: `python -m benchmarks fits [--only CASE] [--quick]`.

    python -m benchmarks environment jaxopt arch statsmodels statsforecast
    python -m benchmarks fits --only GARCH

Every engine runs in a process of its own, and they take turns; who waits for a turn sleeps. All get the same series.
Slow engines get the first of them only, since their time is proportional to the number. The command fails if an engine
finds likelihoods that are better than ours, or usually finds others.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.fits.engines import MAKERS, Maker
from benchmarks.remote import ROOT, Absent, interpreter

ROUNDS = 3
WORSE = 1e-4
"""A likelihood is as good as ours if it is not lower by more than this part of it."""


class Row(NamedTuple):
    """What was measured of an engine: its series, seconds a fit, how many of its likelihoods are lower than ours and
    how many are higher, by more than `WORSE`, and the median of the differences."""

    title: str
    series: int
    seconds: float
    lower: int
    higher: int
    difference: float


class _Worker:
    """A process with an engine, ready to be asked for a call."""

    def __init__(self, python: str, case: str, title: str, count: int, folder: Path) -> None:
        self.count, file = count, folder / f"{title}.npy"
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.fits.worker", case, title, str(count), str(file)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()
        self.likelihoods = np.load(file)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Absent(f"the process has ended with status {self._process.wait()}")
        return line

    def seconds(self) -> float:
        """A call."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return float(self._answer())

    def close(self) -> None:
        """End the process. Processes of its own may still hold its output, so this does not wait for its end."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


def measure(case: str, given: Mapping[str, str], quick: bool) -> Iterator[Row | str]:
    """All engines of a case, ours first; and why others are left out."""
    workers: dict[str, _Worker] = {}
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        try:
            for title, maker in MAKERS[case].items():
                try:
                    python = interpreter(maker.package, given)
                    workers[title] = _Worker(python, case, title, _count(maker, quick), Path(folder))
                except Absent as reason:
                    yield f"{title} is left out: {reason}"
            turns = [{title: worker.seconds() for title, worker in workers.items()} for _ in range(ROUNDS)]
        finally:
            for worker in workers.values():
                worker.close()
    best = next(iter(workers.values())).likelihoods
    for title, worker in workers.items():
        ahead = (worker.likelihoods - best[: worker.count]) / abs(best[: worker.count])
        seconds = median(turn[title] for turn in turns) / worker.count
        lower, higher = int((ahead < -WORSE).sum()), int((ahead > WORSE).sum())
        yield Row(title, worker.count, seconds, lower, higher, float(np.median(ahead)))


def _count(maker: Maker, quick: bool) -> int:
    return min(maker.series, 20) if quick else maker.series


def main(words: Sequence[str] = ()) -> int:
    """Print a table for each case. Returns 1 if somebody's likelihoods are not ours."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks fits", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases with this in their name")
    parser.add_argument("--quick", action="store_true", help="few series: to see that it works")
    parser.add_argument("--python", action="append", default=[], metavar="PACKAGE=PATH", help="a package's interpreter")
    options = parser.parse_args(words)
    given = dict(pair.split("=", 1) for pair in options.python)
    failed = False
    for case in MAKERS:
        if options.only in case:
            print(f"{case}: milliseconds a fit, median of {ROUNDS} turns; load {os.getloadavg()[0]:.1f}", flush=True)
            print(f"  {'':<28}{'series':>8}{'ms':>10}{'ratio':>8}   likelihoods that differ: lower, higher")
            ours = 0.0
            for row in measure(case, given, options.quick):
                if isinstance(row, str):
                    print(f"  {row}", flush=True)
                    continue
                ours = ours or row.seconds
                failed |= row.higher > row.series // 50 or abs(row.difference) > WORSE
                times = f"{1e3 * row.seconds:>10.4f}{row.seconds / ours:>8.1f}"
                print(f"  {row.title:<28}{row.series:>8}{times}   {row.lower}, {row.higher}", flush=True)
            print(flush=True)
    return int(failed)
