"""One thread and several, alone and in company: how long a call takes, and whether the results are the same bits."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.case import Task
from benchmarks.measure import Effort
from benchmarks.remote import ROOT, Absent, Engine, EngineError
from benchmarks.worker import task_data


@dataclass
class Scaling:
    """Seconds a call of scanjit by number of threads ("chosen" where calls choose it), and whether all results were
    identical."""

    title: str
    seconds: dict[str, float]
    identical: bool


def scaling(task: Task, engine: Engine, counts: tuple[int, ...], effort: Effort) -> Scaling:
    """With each number of threads, in interleaved rounds in one process."""
    results = []
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        for count in counts:
            data = task_data(replace(task, threads=count, fixed=True))
            engine.ask("make", key=f"{count}", case=task.case.name, task=data)
            path = Path(folder) / f"{count}.npz"
            engine.ask("first", key=f"{count}", path=str(path))
            with np.load(path) as found:
                results.append([found[name].tobytes() for name in found.files])
    times: dict[str, list[float]] = {f"{count}": [] for count in counts}
    for turn in range(effort.rounds):
        for i in range(len(counts)):
            key = f"{counts[(turn + i) % len(counts)]}"
            times[key].append(engine.ask("time", key=key, seconds=effort.seconds)["passed"])
    engine.ask("drop")
    identical = all(found == results[0] for found in results)
    return Scaling(task.title, {key: median(values) for key, values in times.items()}, identical)


def in_company(name: str, threads: int, python: str, effort: Effort) -> Scaling:
    """One thread, several and as many as calls choose, beside other work (see `company`).

    Raises
    ------
    Absent
        If something that it needs is not installed.
    EngineError
        If it fails.
    """
    rounds, seconds = 2 * effort.rounds, 3 * effort.seconds
    order = [python, "-m", "benchmarks.company", name, f"{threads}", f"{rounds}", f"{seconds}"]
    environment = {key: value for key, value in os.environ.items() if not key.endswith("NUM_THREADS")}
    done = subprocess.run(order, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it failed"])[-1]
        missing = re.fullmatch(r"ModuleNotFoundError: No module named '(\w+)'", reason)
        if missing:
            raise Absent(f"not installed (`{python} -m pip install {missing[1]}`)")
        raise EngineError(reason)
    seconds, identical = json.loads(done.stdout.splitlines()[-1])
    return Scaling(f"LSTM, {name}: T=61 B=7 N=45 H=150, float32", seconds, identical)
