"""Memory of forward and backward together, in fresh processes, against what the gradient has to keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.case import Task
from benchmarks.remote import Absent, Engine, EngineError, interpreter
from benchmarks.worker import task_data


@dataclass
class Memory:
    """Bytes: by how much the process grew in its first call with a gradient, what of this are results, and what the
    gradient needs of every step and cannot compute again cheaply."""

    title: str
    engine: str
    peak: int
    results: int
    traces: int

    @property
    def ratio(self) -> float:
        """What was used besides the results, relative to what is needed."""
        return (self.peak - self.results) / self.traces


def lstm_traces(task: Task) -> int:
    """Four gates and a cell; the outputs are results."""
    sizes = task.sizes
    return 5 * sizes["T"] * sizes["B"] * sizes["H"] * (4 if task.dtype == "float32" else 8)


def memories(task: Task, engines: Sequence[str], given: Mapping[str, str], failed: dict[str, str]) -> list[Memory]:
    """Of all engines that are there and have gradients."""
    found = []
    for engine in engines:
        if engine in task.case.make:
            try:
                found.append(_memory(task, engine, given))
            except Absent:
                continue
            except (EngineError, OSError) as error:
                failed[f"memory of {engine}, {task.title}"] = str(error).splitlines()[0]
    return found


def _memory(task: Task, engine: str, given: Mapping[str, str]) -> Memory:
    worker = Engine(engine, interpreter(engine, given), task.threads)
    try:
        worker.ask("make", key="it", case=task.case.name, task=task_data(task))
        used = worker.ask("memory", key="it")
        return Memory(task.title, engine, used["peak"], used["results"], lstm_traces(task))
    finally:
        worker.close()
