"""The measurements as a picture: bars against the best peer, and the part of the limit that is reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.engines import PEERS, TITLES
from benchmarks.measure import Row
from benchmarks.report import Report
from benchmarks.targets import best_peer, fraction, ratio
from scanjit.plot import library

KINDS = {
    "LSTM": "LSTM",
    "LSTM, ragged": "LSTM, mixed lengths",
    "layer-norm LSTM": "LSTM with layer norm",
    "selective scan (S6)": "selective scan (Mamba)",
    "neural ODE (RK4)": "neural ODE, Runge-Kutta",
    "biquad bank": "audio filters (biquads)",
    "Kalman filter": "Kalman filter's likelihood",
    "GARCH(1,1)": "GARCH(1,1) likelihood",
    "HMM forward, log space": "hidden Markov model",
    "CTC": "CTC loss",
}
"""A case of each kind of recurrence, and what a reader who does not know these benchmarks calls it."""

_COLOURS = {"forward": "#1b6ca8", "gradient": "#d9822b"}
_LABELS = {"forward": "forward", "gradient": "with gradient"}


def draw(report: Report, path: str) -> None:
    """Write the picture of a run; rows that nobody else computed are left out. Of a run of `kinds`, the letters can be
    read where the picture is 700 pixels wide, and the hardware's limits are left out.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    pairs = _pairs([row for row in report.rows if ratio(row) is not None])
    narrow = len(pairs) <= len(KINDS) and all(rows[0].case in KINDS for rows in pairs.values())
    labels = [KINDS[rows[0].case] for rows in pairs.values()] if narrow else list(pairs)
    size = (7.0, 1.2 + 0.42 * len(pairs)) if narrow else (9.5, 1.5 + 0.36 * len(pairs))
    letters = 8.5 if narrow else 6
    figure = library("figure").Figure(figsize=size, layout="constrained")
    speeds, *limits = figure.subplots(1, 1 if narrow else 2, sharey=True, squeeze=False)[0]
    for i, rows in enumerate(pairs.values()):
        for row in rows:
            y = i - 0.2 if row.kind == "forward" else i + 0.2
            _bar(speeds, y, row.kind, ratio(row) or 0, 1, f"x {TITLES[best_peer(row) or '']}", letters)
            part = fraction(row)
            if limits and part is not None:
                _bar(limits[0], y, row.kind, part, 0, "", letters)
    for axes in (speeds, *limits):
        axes.spines[["top", "right"]].set_visible(False)
        axes.axvline(1, color="black", linestyle=":", linewidth=1)
        axes.tick_params(labelsize=letters)
    if limits:
        limits[0].set_xlim(0, 1.15)
        limits[0].set_xlabel("part of the hardware's limit", fontsize=letters + 1)
    _finish_speeds(speeds, labels, letters)
    _name(figure, report, letters)
    with library("").rc_context({"svg.fonttype": "none", "svg.hashsalt": "scanjit"}):
        figure.savefig(path, **({"metadata": {"Date": None}} if path.endswith(".svg") else {"dpi": 150}))


def _pairs(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows by case and sizes: forward and gradient belong together."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        sizes = " ".join(f"{name}={value:,}" for name, value in row.sizes.items())
        wide = " float64" if row.dtype == "float64" else ""
        found.setdefault(f"{row.case}\n{sizes}{wide}", []).append(row)
    return found


def _bar(axes: Any, y: float, kind: str, value: float, start: float, unit: str, letters: float) -> None:
    axes.barh(y, value - start, left=start, height=0.36, color=_COLOURS[kind])
    place = {"xy": (max(value, start), y), "xytext": (3, 0), "textcoords": "offset points"}
    axes.annotate(f"{value:.2f}{unit}", **place, fontsize=letters, va="center")


def _finish_speeds(axes: Any, labels: Sequence[str], letters: float) -> None:
    """Bars begin at 1: those to the right are faster than the fastest peer, those to the left are slower."""
    axes.set_yticks(range(len(labels)), labels, fontsize=letters)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.5), high * letters / 3)
    axes.set_xlabel("how many times as fast as its fastest peer (1x: as fast)", fontsize=letters + 1)


def _name(figure: Any, report: Report, letters: float) -> None:
    """Say with whom it is compared, and which colour is what."""
    patch = library("patches").Patch
    handles = [patch(color=colour, label=_LABELS[kind]) for kind, colour in _COLOURS.items()]
    figure.legend(handles=handles, loc="outside lower left", fontsize=letters, ncols=2)
    there = {name for row in report.rows for name in row.times}
    peers = ", ".join(TITLES[name] for name in PEERS if name in there)
    threads = f"{report.threads} thread{'s' * (report.threads > 1)}"
    figure.suptitle(f"scanjit on {threads}, beside the fastest of {peers}", fontsize=letters + 1, x=0.02, ha="left")
