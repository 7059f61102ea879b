"""One thread and several: how long a call takes, and whether the results are the same to the last bit."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.case import Task
from benchmarks.measure import Effort
from benchmarks.remote import Engine
from benchmarks.worker import task_data


@dataclass
class Scaling:
    """Seconds a call of scanjit by number of threads, and whether all results were identical."""

    title: str
    seconds: dict[str, float]
    identical: bool


def scaling(task: Task, engine: Engine, counts: tuple[int, ...], effort: Effort) -> Scaling:
    """With each number of threads, in interleaved rounds in one process."""
    results = []
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        for count in counts:
            data = task_data(replace(task, threads=count))
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
