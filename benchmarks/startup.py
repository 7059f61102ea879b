"""What happens before the first call: in fresh processes, with an empty cache and with the one that this left."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.case import Task
from benchmarks.remote import Absent, Engine, EngineError, interpreter
from benchmarks.worker import task_data

REST = 0.2
"""Seconds between two processes."""


@dataclass
class Start:
    """Seconds, with an empty cache and with a full one: importing, making (tracing and compiling), the first call;
    `used` are those of the processor, on all threads, while it made. And what scanjit made: the kernels, and the lines
    of their source."""

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
    kernels: int | None = None
    lines: int | None = None
    cold_used: float | None = None
    warm_used: float | None = None


def starts(
    task: Task,
    engines: Sequence[str],
    given: Mapping[str, str],
    repeats: int,
    variant: str,
    skipped: dict[str, str],
    failed: dict[str, str],
) -> list[Start]:
    """Medians of all engines that have a program. They take turns; one that takes long has one turn."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in engines if name in task.case.make}
    for turn in range(repeats):
        for engine in list(found):
            if turn and engine in ("pytensor", "tensorflow"):
                continue
            try:
                found[engine].append(_turn(task, engine, given))
            except Absent as reason:
                skipped[f"{engine}, {task.title}"] = str(reason)
                del found[engine]
            except (EngineError, OSError) as error:
                failed[f"starting {engine}, {task.title}"] = str(error).splitlines()[0]
                del found[engine]
    return [_middle(task, engine, variant, turns, given) for engine, turns in found.items()]


def _turn(task: Task, engine: str, given: Mapping[str, str]) -> dict[str, float]:
    """Seconds of a process with an empty cache, and of the next one."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        cold, warm = (_fresh(task, engine, given, folder) for _ in range(2))
        sources = [path.read_text(encoding="utf-8") for path in Path(folder, "scanjit").glob("*.py")]
    found = {"imports": warm["imports"], "cold": cold["make"], "warm": warm["make"]}
    found |= {f"cold_{name}": cold[name] for name in ("used", "first")}
    found |= {f"warm_{name}": warm[name] for name in ("used", "first")}
    if sources:
        found |= {"kernels": len(sources), "lines": sum(source.count("\n") for source in sources)}
    return found


def _middle(
    task: Task, engine: str, variant: str, turns: Sequence[dict[str, float]], given: Mapping[str, str]
) -> Start:
    middle: dict[str, Any] = {name: median(turn[name] for turn in turns) for name in turns[0]}
    traced: dict[str, Any] = {}
    if engine == "scanjit" and not variant and hasattr(task.case.make[engine], "graph"):
        traced = _traced(task, given)
    return Start(task.case.name, task.kind, engine, variant, **middle, **traced)


def overhead(given: Mapping[str, str]) -> float:
    """Seconds a call of scanjit's smallest function."""
    worker = Engine("scanjit", interpreter("scanjit", given), 1)
    try:
        return worker.ask("overhead")["seconds"]
    finally:
        worker.close()


def _fresh(task: Task, engine: str, given: Mapping[str, str], cache: str) -> dict[str, float]:
    time.sleep(REST)
    worker = Engine(engine, interpreter(engine, given), task.threads, _caches(cache))
    try:
        made = worker.ask("make", key="it", case=task.case.name, task=task_data(task))
        first = worker.ask("first", key="it", path=f"{cache}/results.npz")
        seconds = {"imports": worker.hello["seconds"], "make": made["seconds"], "used": made["used"]}
        return {**seconds, "first": first["seconds"]}
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
