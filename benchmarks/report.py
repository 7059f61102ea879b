"""Results as JSON and back, and as Markdown."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.engines import TITLES
from benchmarks.measure import Row, Times, settle
from benchmarks.memory import Memory
from benchmarks.startup import Start
from benchmarks.targets import Target, best_peer, fraction, ratio, targets
from benchmarks.threads import Scaling

RESULTS = Path(__file__).absolute().parent / "RESULTS.md"


@dataclass
class Report:
    """All that was measured, where, and what was left out and why."""

    threads: int
    facts: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    scaling: list[Scaling] = field(default_factory=list)
    overhead: float | None = None


def main(arguments: Sequence[str]) -> int:
    """`python -m benchmarks report results.json ...`: the Markdown of one or several runs, or a picture of one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks report", description=main.__doc__)
    parser.add_argument("files", nargs="+", metavar="JSON", help="what --json wrote")
    parser.add_argument("--output", metavar="FILE", help="the Markdown (default: benchmarks/RESULTS.md)")
    parser.add_argument("--plot", metavar="FILE", help="draw the first run (.svg, .png), which needs matplotlib")
    options = parser.parse_args(arguments)
    reports = [load(path) for path in options.files]
    output = options.output or ("" if options.plot else str(RESULTS))
    if output:
        Path(output).write_text(markdown(reports), encoding="utf-8")
        print(f"wrote {output}")
    if options.plot:
        from benchmarks import picture

        picture.draw(reports[0], options.plot)
        print(f"wrote {options.plot}")
    return 0


# ---- JSON ------------------------------------------------------------------------------------------------------------


def save(report: Report, path: str) -> None:
    """Write everything, the times of all rounds too."""
    Path(path).write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")


def load(path: str) -> Report:
    """What `save` wrote."""
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    parts: dict[str, Callable[[dict[str, Any]], Any]] = {
        "rows": _row,
        "starts": lambda entry: Start(**entry),
        "memories": lambda entry: Memory(**entry),
        "scaling": lambda entry: Scaling(**entry),
    }
    report = Report(**{key: [parts[key](e) for e in value] if key in parts else value for key, value in data.items()})
    settle(report.rows)
    return report


def _row(data: dict[str, Any]) -> Row:
    return Row(**{**data, "times": {name: Times(**times) for name, times in data["times"].items()}})


# ---- Markdown --------------------------------------------------------------------------------------------------------


def markdown(reports: Sequence[Report]) -> str:
    """The whole file: the targets of each run, then its tables."""
    parts = ["# Results", _INTRODUCTION]
    for report in reports:
        parts += [f"## Targets, {_threads(report)}", head(report), targets_text(report)]
    for report in reports:
        parts += [f"## Measurements, {_threads(report)}", tail(report, "###"), *map(row_text, report.rows)]
    return "\n\n".join(part for part in parts if part) + "\n"


_INTRODUCTION = """\
Written by `python -m benchmarks report`. Times are of one call with everything it needs: with gradient, the value and
the gradients of the inputs and all weights, from weights that are new (packing them is part of the call). All engines
compute from the same arrays; their results were compared with a plain loop in float64 before anything was timed.
*Speed* is how often scanjit computes a row in the time of the fastest peer. *Of the limit* is the part of what the
processor's multiply-add units (or its caches, or the latency of an fma) allow, measured in the same run, in the same
row or, where a row was disturbed, in most rows. A loop that was written by hand for Numba is shown where there is one,
and is no peer."""


def _threads(report: Report) -> str:
    return f"{report.threads} thread{'s' * (report.threads > 1)}"


def head(report: Report) -> str:
    """Where and with what."""
    versions = ", ".join(f"{TITLES[name]} {version}".strip() for name, version in report.versions.items())
    lines = [versions, *report.facts]
    lines += [f"FAILED: {row.title}: {who}: {reason}" for row in report.rows for who, reason in row.failed.items()]
    return "\n".join([*(f"- {line}" for line in lines), *lacks(report)])


def lacks(report: Report) -> list[str]:
    """What was left out and what failed, beside rows."""
    lines = [f"{TITLES.get(name, name)}: left out, {reason}" for name, reason in report.skipped.items()]
    lines += [f"FAILED: {name}: {reason}" for name, reason in report.failed.items()]
    return [f"- {line}" for line in lines]


def targets_text(report: Report) -> str:
    """The targets as a table, then the rows that miss them."""
    verdicts = {True: "met", False: "**missed**", None: "not measured"}

    def line(target: Target) -> list[str]:
        return [target.what, target.wanted, target.measured, verdicts[target.met]]

    parts = [table(["target", "wanted", "measured", ""], [line(target) for target in targets(report)])]
    compared = [row for row in report.rows if ratio(row) is not None]
    if compared:
        parts.append(table(["row", "best peer", "speed", "of the limit"], [_summary(row) for row in compared]))
    return "\n\n".join(parts)


def _summary(row: Row) -> list[str]:
    peer, speed, part = best_peer(row), ratio(row), fraction(row)
    return [row.title, TITLES[peer or ""], f"{speed:.2f}x", "" if part is None else f"{part:.2f}"]


def row_text(row: Row) -> str:
    """One row as a table of its contenders. Columns in which nothing was measured are left out."""
    peer = best_peer(row)
    columns: list[tuple[str, Callable[[Times], str]]] = [
        ("steady, ms", lambda times: ms(times.steady)),
        ("quartiles", lambda times: "–".join(map(ms, times.quartiles))),
        ("of the limit", lambda times: f"{row.limit / times.steady:.2f}" if row.limit else ""),
        ("speed", lambda times: f"{row.times[peer].steady / times.steady:.2f}" if peer else ""),
        ("make, s", lambda times: f"{times.make:.2f}"),
        ("first call, ms", lambda times: ms(times.first)),
        ("error", lambda times: f"{times.error:.0e}"),
    ]
    timed = {name: times for name, times in row.times.items() if times.passed}
    kept = [column for column in columns if any(column[1](times) for times in timed.values())]
    lines = [[TITLES.get(name, name), *(text(times) for _, text in kept)] for name, times in timed.items()]
    parts = [f"### {row.title}"]
    if row.limit:
        parts.append(f"Limit: {ms(row.limit)} ms, {row.limited_by}.")
    parts.append(table(["", *(name for name, _ in kept)], lines))
    notes = [f"{TITLES.get(name, name)}: {reason}" for name, reason in row.absent.items()]
    notes += [f"{TITLES.get(name, name)} FAILED: {reason}" for name, reason in row.failed.items()]
    return "\n\n".join([*parts, *(["; ".join(notes) + "."] if notes else [])])


def tail(report: Report, level: str = "###") -> str:
    """What is no row: starting, memory, threads."""
    parts = []
    if report.starts:
        parts.append(f"{level} Before the first call: an empty cache, then a second process")
        parts.append(starts_text(report.starts))
    if report.overhead is not None:
        parts.append(f"A call of a compiled function of one number takes {report.overhead * 1e6:.1f} us.")
    if report.memories:
        columns = ["", "", "growth, MB", "of it results", "traces needed", "growth without results / traces"]
        parts += [f"{level} Memory of the first call", table(columns, map(_memory, report.memories))]
    if report.scaling:
        counts = list(dict.fromkeys(count for entry in report.scaling for count in entry.seconds))
        columns = ["", *(f"{count} thread(s), ms".replace("chosen thread(s)", "chosen") for count in counts), "results"]
        parts += [f"{level} Threads", table(columns, (_scaling(entry, counts) for entry in report.scaling))]
    return "\n\n".join(parts)


def _memory(memory: Memory) -> list[str]:
    sizes = (f"{size / 1e6:.1f}" for size in (memory.peak, memory.results, memory.traces))
    return [TITLES[memory.engine], memory.title, *sizes, f"{memory.ratio:.2f}"]


def _scaling(entry: Scaling, counts: Sequence[str]) -> list[str]:
    verdict = "identical" if entry.identical else "**different**"
    return [entry.title, *(ms(entry.seconds[count]) if count in entry.seconds else "" for count in counts), verdict]


def starts_text(starts: Iterable[Start]) -> str:
    """A table of how long it takes until the first call."""
    both = ["{}, s", "{}, CPU s", "{}: first call, ms"]
    times = [column.format(name) for name in ("cold", "warm") for column in both]
    return table(["", "imports, s", *times, "trace, s", "rewrite, s", "kernels", "lines"], map(_start, starts))


def _start(start: Start) -> list[str]:
    some = lambda value, form: "" if value is None else format(value, form)
    return [
        f"{TITLES[start.engine]}{', ' + start.variant if start.variant else ''}: {start.case}, {start.kind}",
        f"{start.imports:.2f}",
        *(f"{start.cold:.2f}", some(start.cold_used, ".2f"), ms(start.cold_first)),
        *(f"{start.warm:.2f}", some(start.warm_used, ".2f"), ms(start.warm_first)),
        *(some(value, ".3f") for value in (start.trace, start.rewrite)),
        *(some(value, ",") for value in (start.kernels, start.lines)),
    ]


def table(columns: Sequence[str], lines: Iterable[list[str]]) -> str:
    """A table in Markdown, laid out to be read as text too."""
    rows = [list(columns), ["---", *["---:"] * (len(columns) - 1)], *lines]
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    return "\n".join("| " + " | ".join(_padded(row, widths)) + " |" for row in rows)


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = zip(row, widths, strict=True)
    return [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]


def ms(seconds: float) -> str:
    """Milliseconds, three digits."""
    value = seconds * 1e3
    return f"{value:.{3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0}f}"
