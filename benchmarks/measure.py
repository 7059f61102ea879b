"""Measuring one task: everybody is checked, then has a turn in each round."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np

from benchmarks.case import Task, Work, check
from benchmarks.remote import Absent, Engine, EngineError
from benchmarks.worker import task_data

SLOW = 0.5
"""Who takes longer than so many seconds for a call has few turns."""
FEW = 3


@dataclass(frozen=True)
class Contender:
    """Who computes a task: an engine, and what is special about its program."""

    name: str
    engine: str
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Times:
    """What was measured of a contender: seconds of making it (with the compilation), of the first call, and of a call
    in each round; `error` is its largest difference from the reference."""

    error: float
    make: float
    first: float
    passed: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)

    @property
    def steady(self) -> float:
        """Seconds a call: the median of the rounds."""
        return median(self.passed)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Between them lay half of the rounds."""
        if len(self.passed) < 2:
            return self.steady, self.steady
        low, _, high = quantiles(self.passed, n=4, method="inclusive")
        return low, high


@dataclass
class Row:
    """A task, measured. `limit` is the time that the hardware allows, None if no limit is known; `absent` says for each
    contender that is not there why; `failed` those that gave wrong results or none."""

    case: str
    group: str
    kind: str
    dtype: str
    sizes: dict[str, int]
    limit: float | None
    limited_by: str
    scalar: bool
    times: dict[str, Times] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """A name that says all."""
        sizes = " ".join(f"{name}={value:,}" for name, value in self.sizes.items())
        return f"{self.case}, {self.kind}: {sizes}, {self.dtype}"


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    rounds: int = 11
    seconds: float = 0.04


def measured(task: Task, contenders: Sequence[Contender], engines: Mapping[str, Engine], effort: Effort) -> Row:
    """Check and time all contenders whose engine is running; `scanjit`'s worker also measures the limit."""
    row = Row(task.case.name, task.case.group, task.kind, task.dtype, task.sizes, None, "", task.case.scalar)
    chosen = [c for c in contenders if c.engine in engines and c.engine in task.case.make]
    for c in contenders:
        if c.engine in engines and c.engine in task.case.absent:
            row.absent[c.name] = task.case.absent[c.engine]
    ready = _prepared(task, chosen, engines, row)
    limits = _limits(task, engines.get("scanjit")) if ready else {}
    turns = [(c.name, engines[c.engine]) for c in ready] + [(key, engines["scanjit"]) for key in limits]
    paces = _rounds(turns, effort, row)
    # The best round: what the hardware can do is what it has done once.
    _set_limit(row, task.work(), {key: min(paces[key]) / amount for key, amount in limits.items()})
    for engine in {c.engine for c in chosen}:
        try:
            engines[engine].ask("drop")
        except EngineError as error:
            row.failed.setdefault(engine, str(error))
    return row


def _prepared(task: Task, chosen: Sequence[Contender], engines: Mapping[str, Engine], row: Row) -> list[Contender]:
    """Those whose programs were made and gave right results. All engines compile at once, each one program at a time,
    while the reference is computed."""
    made: dict[str, dict[str, Any]] = {}
    waiting = list(chosen)
    while waiting:
        batch = {c.engine: c for c in reversed(waiting)}
        waiting = [c for c in waiting if c not in batch.values()]
        sent = [c for c in batch.values() if _tried(row, c, lambda c: _send(task, c, engines[c.engine])) is not None]
        expected = _expected(task)
        for c in sent:
            answer = _tried(row, c, lambda c: engines[c.engine].receive())
            if answer is not None:
                made[c.name] = answer
    ready = []
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        path = str(Path(folder) / "results.npz")
        for c in chosen:
            if c.name in made:
                times = _tried(row, c, lambda c: _checked(task, c, engines[c.engine], path, expected))
                if times is not None:
                    row.times[c.name] = replace(times, make=made[c.name]["seconds"])
                    ready.append(c)
    return ready


def _tried(row: Row, c: Contender, order: Callable[[Contender], Any]) -> Any:
    """What the order gives; None, and an entry in the row, if the contender cannot do it or fails."""
    try:
        return order(c)
    except Absent as reason:
        row.absent[c.name] = str(reason)
    except (EngineError, AssertionError) as error:
        print(f"{row.title}: {c.name} FAILED: {error}", file=sys.stderr)
        row.failed[c.name] = str(error).splitlines()[0]
    return None


def _send(task: Task, c: Contender, engine: Engine) -> bool:
    engine.send("make", key=c.name, case=task.case.name, task=task_data(replace(task, **c.changes)))
    return True


def _checked(task: Task, c: Contender, engine: Engine, path: str, expected: list[np.ndarray]) -> Times:
    first = engine.ask("first", key=c.name, path=path)
    return Times(check(task, c.name, _read(path), expected), 0.0, first["seconds"])


_known: dict[str, list[np.ndarray]] = {}
"""The reference's results of the row that was computed last, by its title with gradient."""


def _expected(task: Task) -> list[np.ndarray]:
    """What the reference says, computed once for the value alone and with gradient."""
    full = replace(task, kind="gradient") if "gradient" in task.case.kinds else task
    if full.title not in _known:
        _known.clear()
        _known[full.title] = full.expected()
    return _known[full.title] if task.gradient else _known[full.title][:1]


def _read(path: str) -> list[np.ndarray]:
    with np.load(path) as data:
        return [data[f"arr_{i}"] for i in range(len(data.files))]


def _rounds(turns: Sequence[tuple[str, Engine]], effort: Effort, row: Row) -> dict[str, list[float]]:
    """Seconds a call of everybody, in each round; who begins changes from round to round. Slow ones have few turns."""
    found: dict[str, list[float]] = {name: [] for name, _ in turns}
    for turn in range(effort.rounds):
        for i in range(len(turns)):
            name, engine = turns[(turn + i) % len(turns)]
            if len(found[name]) >= FEW and median(found[name]) > SLOW:
                continue
            answer = engine.ask("time", key=name, seconds=effort.seconds)
            found[name].append(answer["passed"])
            if name in row.times:
                row.times[name].passed.append(answer["passed"])
                row.times[name].used.append(answer["used"])
    return found


# ---- the limit -------------------------------------------------------------------------------------------------------


def _limits(task: Task, engine: Engine | None) -> dict[str, float]:
    """The kernels that show what the hardware can do, by key, with the amounts that they do."""
    work = task.work()
    if engine is None:
        return {}
    orders = {
        "flops": (work.flops, "throughput", [task.dtype, task.threads]),
        "stream": (work.stream, "stream", [task.dtype, task.threads, int(work.footprint)]),
        "chain": (work.chain, "latency", [task.dtype]),
    }
    return {
        key: engine.ask("limit", key=key, name=name, arguments=arguments)["amount"]
        for key, (amount, name, arguments) in orders.items()
        if amount
    }


def _set_limit(row: Row, work: Work, paces: Mapping[str, float]) -> None:
    """The slowest of what has to be done, at the paces that were measured (seconds for one of each)."""
    if not paces:
        return
    seconds = {key: getattr(work, key) * pace for key, pace in paces.items()}
    worst = max(seconds, key=lambda key: seconds[key])
    row.limit = seconds[worst]
    row.limited_by = {
        "flops": lambda: f"{work.flops / 1e9:.3g} GFLOP at {1e-9 / paces[worst]:.0f} GFLOP/s",
        "stream": lambda: f"{work.stream / 1e6:.3g} MB from the caches at {1e-9 / paces[worst]:.0f} GB/s",
        "chain": lambda: f"{work.chain:,.0f} fmas, each after the one before, at {paces[worst] * 1e9:.2f} ns",
    }[worst]()


_OPERATIONS = re.compile(r"(?P<amount>\S+) GFLOP at (?P<pace>\S+) GFLOP/s")


def settle(rows: Sequence[Row]) -> None:
    """Raise limits of multiply-adds to what was measured in most rows of their dtype: a kernel that was much slower in
    one row was disturbed."""
    found = [(row, match) for row in rows if (match := _OPERATIONS.match(row.limited_by))]
    paces: dict[str, float] = {}
    for dtype in {row.dtype for row, _ in found}:
        paces[dtype] = median(float(match["pace"]) for row, match in found if row.dtype == dtype)
    for row, match in found:
        pace = max(float(match["pace"]), paces[row.dtype])
        row.limit = float(match["amount"]) / pace
        row.limited_by = f"{match['amount']} GFLOP at {pace:.0f} GFLOP/s"
