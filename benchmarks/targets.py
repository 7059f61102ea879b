"""The targets, and what was measured against them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING

from benchmarks.engines import PEERS
from benchmarks.measure import Row

if TYPE_CHECKING:
    from benchmarks.report import Report


@dataclass(frozen=True)
class Target:
    """What is wanted, the numbers that were measured, and whether they are good; None if nothing was measured."""

    what: str
    wanted: str
    measured: str
    met: bool | None


def best_peer(row: Row) -> str | None:
    """The fastest of the peers that were measured."""
    there = [name for name in row.times if name in PEERS]
    return min(there, key=lambda name: row.times[name].steady, default=None)


def ratio(row: Row) -> float | None:
    """How often scanjit computes the row in the time of the best peer."""
    peer = best_peer(row)
    if peer is None or "scanjit" not in row.times:
        return None
    return row.times[peer].steady / row.times["scanjit"].steady


def fraction(row: Row) -> float | None:
    """The part of the hardware's limit that scanjit reaches."""
    return row.limit / row.times["scanjit"].steady if row.limit and "scanjit" in row.times else None


def targets(report: Report) -> list[Target]:
    """All of them."""
    rows = report.rows
    gated = [row for row in rows if row.group in ("lstm", "gru")]
    chains = [row for row in rows if row.case.startswith("chain of ")]
    custom = [row for row in rows if row.group == "custom" and row not in chains]
    large = [row for row in gated if row.sizes["B"] >= 16 and row.sizes["H"] >= 128]
    return [
        *_speed("LSTM and GRU, forward", _of(gated, "forward"), 1.0, 1.25),
        *_speed("LSTM and GRU, with gradient", _of(gated, "gradient"), 1.15, 1.7),
        *_speed("custom recurrences, forward", [r for r in _of(custom, "forward") if not r.scalar], 2.0),
        *_speed("scalar recurrences, forward", [r for r in _of(custom, "forward") if r.scalar], 4.0),
        *_speed("custom recurrences, with gradient", _of(custom, "gradient"), 3.0),
        _least("fraction of the fma limit, B >= 16, H >= 128, forward", _of(large, "forward"), fraction, 0.9),
        _layers([row for row in rows if row.group == "layers"]),
        *_starts(report),
        _memory(report),
        _identical(report),
    ]


def _of(rows: Sequence[Row], kind: str) -> list[Row]:
    return [row for row in rows if row.kind == kind]


def _speed(what: str, rows: Sequence[Row], least: float, mean: float | None = None) -> list[Target]:
    """Every row at least so often as fast as the best peer, and their geometric mean."""
    found = [_least(f"{what}: against the best peer, every row", rows, ratio, least, "x")]
    values = [value for value in map(ratio, rows) if value is not None]
    if mean is not None:
        middle = exp(sum(map(log, values)) / len(values)) if values else 0.0
        text = f"{middle:.2f}x of {len(values)} rows" if values else "-"
        found.append(Target(f"{what}: geometric mean", f">= {mean}x", text, middle >= mean if values else None))
    return found


def _least(
    what: str, rows: Sequence[Row], value: Callable[[Row], float | None], least: float, unit: str = ""
) -> Target:
    found = [number for row in rows if (number := value(row)) is not None]
    if not found:
        return Target(what, f">= {least}{unit}", "-", None)
    good = sum(number >= least for number in found)
    text = f"{min(found):.2f}{unit} to {max(found):.2f}{unit}; {good} of {len(found)} rows"
    return Target(what, f">= {least}{unit}", text, good == len(found))


def _layers(rows: Sequence[Row]) -> Target:
    found = [
        row.times["lasagne_like"].steady / row.times["scanjit"].steady
        for row in rows
        if {"lasagne_like", "scanjit"} <= set(row.times)
    ]
    what = "time of a prebuilt layer, relative to the same recurrence written with scan"
    if not found:
        return Target(what, "0.95 to 1.05", "-", None)
    low, high = min(found), max(found)
    return Target(what, "0.95 to 1.05", f"{low:.2f} to {high:.2f}", low >= 0.95 and high <= 1.05)


def _starts(report: Report) -> list[Target]:
    own = {(s.kind, s.variant): s for s in report.starts if s.engine == "scanjit" and s.case == "LSTM"}
    found = []

    def add(what: str, most: float, seconds: float | None, unit: str = "s", scale: float = 1.0) -> None:
        text = "-" if seconds is None else f"{seconds * scale:.3g} {unit}"
        found.append(Target(what, f"<= {most} {unit}", text, None if seconds is None else seconds * scale <= most))

    for kind, most in (("forward", 1.0), ("gradient", 2.5)):
        known = own.get((kind, ""))
        add(f"LSTM, {kind}: cold compile", most, known and known.cold)
        add(f"LSTM, {kind}: second process, from the cache", 0.3, known and known.warm)
    known = own.get(("gradient", ""))
    traced = known.trace + known.rewrite if known and known.trace is not None and known.rewrite is not None else None
    add("LSTM, gradient: trace and rewrite", 0.2, traced)
    known = own.get(("forward", "unroll=True"))
    add("LSTM of 100 steps, unroll=True: cold compile", 5.0, known and known.cold)
    known = own.get(("gradient", "unroll=True"))
    add("LSTM of 100 steps with gradient, unroll=True: cold compile", 5.0, known and known.cold)
    add("call of a compiled scalar function", 10.0, report.overhead, "us", 1e6)
    return found


def _memory(report: Report) -> Target:
    what = "memory of forward and backward, relative to the traces that the gradient needs"
    found = [used.ratio for used in report.memories if used.engine == "scanjit"]
    if not found:
        return Target(what, "<= 1.15", "-", None)
    return Target(what, "<= 1.15", ", ".join(f"{ratio:.2f}" for ratio in found), max(found) <= 1.15)


def _identical(report: Report) -> Target:
    what = "results do not depend on the number of threads"
    if not report.scaling:
        return Target(what, "the same bits", "-", None)
    good = sum(entry.identical for entry in report.scaling)
    return Target(what, "the same bits", f"{good} of {len(report.scaling)} programs", good == len(report.scaling))
