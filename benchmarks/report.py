"""Results as Markdown, as JSON and back, and as a picture."""

from __future__ import annotations

import importlib
import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import Fresh, Row, Start, Table, Times, installed

PEER = "Numba loop"
"""Whom the last column compares with."""


@dataclass
class Report:
    """All that was measured, where, and what was left out."""

    facts: list[str]
    tables: list[Table] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def facts(note: str) -> list[str]:
    """Versions and the machine."""
    from importlib.metadata import PackageNotFoundError, version

    import scanjit
    from scanjit.simd import cpu

    versions = [f"scanjit {scanjit.__version__}", f"Python {platform.python_version()}"]
    for package in ("numpy", "numba", "llvmlite", "scipy", "torch"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return [
        ", ".join(versions),
        f"{_cpu()}, vectors of {cpu.vector_bytes()} bytes, {platform.system()} {platform.machine()}; one thread each",
        note,
        f"load of the machine at the start: {_load()}",
    ]


def _load() -> str:
    """How many processes wanted to run in the last minute."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "not known"


def _cpu() -> str:
    """The name of the processor, and what LLVM calls it; clouds often tell only half of the first."""
    from llvmlite import binding

    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{name} ({binding.get_host_cpu_name()}), {os.cpu_count()} cores"


# ---- Markdown --------------------------------------------------------------------------------------------------------


def markdown(report: Report) -> str:
    """The whole report."""
    parts = ["\n".join(f"- {fact}" for fact in [*report.facts, *report.skipped])]
    parts += [table_text(table) for table in report.tables]
    return "\n\n".join(parts) + "\n"


def table_text(table: Table) -> str:
    """One table. Columns in which nothing was measured are left out."""
    peer = table.row(PEER)
    columns: list[tuple[str, Callable[[Row], str]]] = [
        ("", lambda row: row.contender),
        ("steady, ms", lambda row: _ms(row.steady)),
        ("quartiles", lambda row: f"{_ms(row.times.quartiles[0])}–{_ms(row.times.quartiles[2])}"),
        ("passed, ms", lambda row: _ms(median(row.times.passed))),
        ("GFLOP/s", lambda row: f"{table.flops / row.steady / 1e9:.0f}" if table.flops else ""),
        ("of the limit", lambda row: f"{table.limit / row.steady:.2f}"),
        (f"× {PEER}", lambda row: f"{peer.steady / row.steady:.2f}" if peer else ""),
        ("imports, s", lambda row: f"{row.start.warm.imports:.2f}" if row.start else ""),
        ("cold compile, s", lambda row: f"{row.start.cold.make:.2f}" if row.start else ""),
        ("warm load, s", lambda row: f"{row.start.warm.make:.2f}" if row.start else ""),
        ("first call, ms", lambda row: _ms(row.start.warm.first) if row.start else ""),
        ("error", lambda row: f"{row.error:.0e}"),
    ]
    cells = [[text(row) for row in table.rows] for _, text in columns]
    kept = [i for i, column in enumerate(cells) if any(column)]
    lines = [[columns[i][0] for i in kept], ["---", *["---:"] * (len(kept) - 1)]]
    lines += [[cells[i][n] for i in kept] for n in range(len(table.rows))]
    widths = [max(len(line[i]) for line in lines) for i in range(len(kept))]
    rows = ["| " + " | ".join(_padded(line, widths)) + " |" for line in lines]
    return "\n".join([f"### {table.title}", "", f"Limit: {_ms(table.limit)} ms, {table.limited_by}.", "", *rows])


def _padded(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = zip(line, widths, strict=True)
    return [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]


def _ms(seconds: float) -> str:
    """Milliseconds, three digits."""
    value = seconds * 1e3
    return (
        f"{value:.3f}"
        if value < 1
        else f"{value:.2f}"
        if value < 10
        else f"{value:.1f}"
        if value < 100
        else f"{value:.0f}"
    )


# ---- JSON ------------------------------------------------------------------------------------------------------------


def save(report: Report, path: str) -> None:
    """Write everything, the times of all rounds too."""
    Path(path).write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")


def load(path: str) -> Report:
    """What `save` wrote."""
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    return Report(data["facts"], [_table(table) for table in data["tables"]], data["skipped"])


def _table(data: dict[str, Any]) -> Table:
    rows = []
    for row in data.pop("rows"):
        start, times = row.pop("start"), Times(**row.pop("times"))
        fresh = start and Start(*(Fresh(**start[name]) for name in ("cold", "warm")))
        rows.append(Row(**row, times=times, start=fresh))
    return Table(**data, rows=rows)


# ---- the picture -----------------------------------------------------------------------------------------------------

_COLOURS = {"scanjit": "#1b6ca8", "Numba loop": "#d9822b", "NumPy loop": "#8a8a8a"}


def check_matplotlib() -> None:
    """SystemExit with what to do, unless the picture can be drawn."""
    if not installed("matplotlib"):
        raise SystemExit("the picture needs matplotlib: pip install 'scanjit[docs]'")


def draw(report: Report, path: str) -> None:
    """Bars: how often each computes a task in the time in which the loop for Numba does it once."""
    cases = list(dict.fromkeys(table.case for table in report.tables))
    kinds = list(dict.fromkeys(table.kind for table in report.tables))
    size = (1.2 + 3.9 * len(cases), 0.9 + 1.75 * len(kinds))
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(kinds), len(cases), squeeze=False, sharey=True)
    for table in report.tables:
        _panel(axes[kinds.index(table.kind)][cases.index(table.case)], table)
    figure.suptitle(f"Speed of one core: {PEER} = 1, longer is faster", fontsize=11)
    with importlib.import_module("matplotlib").rc_context({"svg.fonttype": "none", "svg.hashsalt": "scanjit"}):
        figure.savefig(path, **({"metadata": {"Date": None}} if path.endswith(".svg") else {}))


def _panel(axes: Any, table: Table) -> None:
    peer = table.row(PEER)
    unit = peer.steady if peer else table.limit
    rows = table.rows[::-1]
    speeds = [unit / row.steady for row in rows]
    colours = [next(c for name, c in _COLOURS.items() if row.contender.startswith(name)) for row in rows]
    axes.barh([row.contender for row in rows], speeds, color=colours, height=0.72)
    axes.set_title(table.title.partition(", float")[0], fontsize=9)
    if table.flops:
        axes.axvline(unit / table.limit, color="black", linestyle=":", linewidth=1)
        axes.text(unit / table.limit, -0.42, " fma limit", fontsize=7, ha="left", va="center")
    longest = max([*speeds, unit / table.limit if table.flops else 0])
    axes.set_xlim(0, longest * 1.12)
    for i, (row, speed) in enumerate(zip(rows, speeds, strict=True)):
        text = f" {speed:.{1 if speed >= 1 else 2}f}×  {_ms(row.steady)} ms "
        inside = speed > longest / 3
        style = {"ha": "right", "color": "white"} if inside else {"ha": "left"}
        axes.text(speed, i, text, fontsize=7, va="center", **style)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
