"""The measurements as a picture: bars against the best peer, and the part of the limit that is reached."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any

from benchmarks.engines import TITLES
from benchmarks.measure import Row
from benchmarks.report import Report
from benchmarks.targets import best_peer, fraction, ratio

_COLOURS = {"forward": "#1b6ca8", "gradient": "#d9822b"}
_LABELS = {"forward": "forward", "gradient": "with gradient"}


def draw(report: Report, path: str, cases: Sequence[str] = ()) -> None:
    """Write the picture of a run; rows that nobody else computed are left out. With `cases`: one row for each of them,
    of its first sizes, in letters that can be read in a narrow column.

    Raises
    ------
    SystemExit
        If matplotlib is not installed.
    """
    if not importlib.util.find_spec("matplotlib"):
        raise SystemExit("the picture needs matplotlib: pip install 'scanjit[plot]'")
    pairs = _pairs([row for row in report.rows if ratio(row) is not None])
    if cases:
        first = {rows[0].case: rows for rows in reversed(pairs.values())}
        pairs = {name: first[name] for name in cases}
    size = (7.0, 1.2 + 0.42 * len(pairs)) if cases else (9.5, 1.5 + 0.36 * len(pairs))
    small, tall = (8.5, 10) if cases else (6, 8)
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=size, layout="constrained")
    speeds, fractions = figure.subplots(1, 2, sharey=True, width_ratios=[2, 1])
    for i, rows in enumerate(pairs.values()):
        for row in rows:
            y = i - 0.2 if row.kind == "forward" else i + 0.2
            _speed(speeds, y, row, small)
            part = fraction(row)
            if part is not None:
                fractions.barh(y, part, height=0.36, color=_COLOURS[row.kind])
                fractions.text(part, y, f" {part:.2f}", fontsize=small, va="center")
    _finish(report, figure, speeds, fractions, list(pairs), small, tall)
    with importlib.import_module("matplotlib").rc_context({"svg.fonttype": "none", "svg.hashsalt": "scanjit"}):
        figure.savefig(path, **({"metadata": {"Date": None}} if path.endswith(".svg") else {"dpi": 150}))


def _pairs(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows by case and sizes: forward and gradient belong together."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        sizes = " ".join(f"{name}={value:,}" for name, value in row.sizes.items())
        wide = " float64" if row.dtype == "float64" else ""
        found.setdefault(f"{row.case}\n{sizes}{wide}", []).append(row)
    return found


def _speed(axes: Any, y: float, row: Row, letters: float) -> None:
    speed = ratio(row) or 0
    axes.barh(y, speed, height=0.36, color=_COLOURS[row.kind])
    axes.text(speed, y, f" {speed:.2f}x {TITLES[best_peer(row) or '']}", fontsize=letters, va="center")


def _finish(
    report: Report, figure: Any, speeds: Any, fractions: Any, labels: list[str], small: float, tall: float
) -> None:
    for axes in (speeds, fractions):
        axes.spines[["top", "right"]].set_visible(False)
        axes.axvline(1, color="black", linestyle=":", linewidth=1)
        axes.tick_params(labelsize=small)
    speeds.set_yticks(range(len(labels)), labels, fontsize=small)
    speeds.invert_yaxis()
    speeds.set_xscale("log")
    _, high = speeds.get_xlim()
    speeds.set_xlim(right=high * small / 3)
    speeds.set_xlabel("speed relative to the fastest peer (log scale; 1: as fast)", fontsize=tall)
    fractions.set_xlim(0, 1.15)
    fractions.set_xlabel("part of the hardware's limit", fontsize=tall)
    from_kinds = importlib.import_module("matplotlib.patches").Patch
    handles = [from_kinds(color=colour, label=_LABELS[kind]) for kind, colour in _COLOURS.items()]
    figure.legend(handles=handles, loc="outside upper right", fontsize=small, ncols=2)
    threads = f"{report.threads} thread{'s' * (report.threads > 1)}"
    figure.suptitle(f"scanjit beside its fastest peer, {threads}", fontsize=10, x=0.02, ha="left")
