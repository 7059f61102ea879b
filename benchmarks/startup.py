"""What happens before the first call: in fresh processes, with an empty cache and with the one that this left."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from benchmarks.case import Task
from benchmarks.remote import Absent, Engine, EngineError, interpreter
from benchmarks.worker import task_data


@dataclass
class Start:
    """Seconds, with an empty cache and with a full one: importing, making (tracing and compiling), the first call."""

    case: str
    kind: str
    engine: str
    variant: str
    imports: float
    cold: float
    warm: float
    cold_first: float
    warm_first: float
    trace: float | None = None
    rewrite: float | None = None


def start(task: Task, engine: str, given: Mapping[str, str], repeats: int, variant: str = "") -> Start:
    """Medians of so many times cold and then warm."""
    found: list[dict[str, Any]] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
            cold, warm = (_fresh(task, engine, given, folder) for _ in range(2))
            found.append({"imports": warm["imports"], "cold": cold["make"], "warm": warm["make"]})
            found[-1] |= {"cold_first": cold["first"], "warm_first": warm["first"]}
    middle = {name: median(values[name] for values in found) for name in found[0]}
    result = Start(task.case.name, task.kind, engine, variant, **middle)
    if engine == "scanjit" and not variant:
        traced = _traced(task, given)
        result = replace(result, trace=traced["trace"], rewrite=traced["rewrite"])
    return result


def starts(
    task: Task,
    engines: Sequence[str],
    given: Mapping[str, str],
    repeats: int,
    failed: dict[str, str],
    variant: str = "",
) -> list[Start]:
    """Of all engines that are there. One that takes long is started once only."""
    found = []
    for engine in engines:
        if engine in task.case.make:
            try:
                times = 1 if engine in ("pytensor", "tensorflow") else repeats
                found.append(start(task, engine, given, times, variant))
            except Absent:
                continue
            except (EngineError, OSError) as error:
                failed[f"starting {engine}, {task.title}"] = str(error).splitlines()[0]
    return found


def overhead(given: Mapping[str, str]) -> float:
    """Seconds a call of scanjit's smallest function."""
    worker = Engine("scanjit", interpreter("scanjit", given), 1)
    try:
        return worker.ask("overhead")["seconds"]
    finally:
        worker.close()


def _fresh(task: Task, engine: str, given: Mapping[str, str], cache: str) -> dict[str, float]:
    worker = Engine(engine, interpreter(engine, given), task.threads, _caches(cache))
    try:
        made = worker.ask("make", key="it", case=task.case.name, task=task_data(task))
        first = worker.ask("first", key="it", path=f"{cache}/results.npz")
        return {"imports": worker.hello["seconds"], "make": made["seconds"], "first": first["seconds"]}
    finally:
        worker.close()


def _traced(task: Task, given: Mapping[str, str]) -> dict[str, Any]:
    worker = Engine("scanjit", interpreter("scanjit", given), 1)
    try:
        return worker.ask("trace", case=task.case.name, task=task_data(task))
    finally:
        worker.close()


def _caches(folder: str) -> dict[str, str]:
    """Everybody's cache on disk in this folder."""
    return {
        "SCANJIT_CACHE_DIR": f"{folder}/scanjit",
        "NUMBA_CACHE_DIR": f"{folder}/numba",
        "PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor",
        "JAX_COMPILATION_CACHE_DIR": f"{folder}/jax",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
