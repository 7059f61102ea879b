"""The one driver: checks everybody, measures everybody, prints a table for each task."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from benchmarks import limit, measure, report
from benchmarks.cases import CASES
from benchmarks.measure import Row, Table, Times
from benchmarks.report import Report
from benchmarks.task import Contender, Task, check, check_reference, wide


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see `--help`."""
    options = _parser().parse_args(arguments)
    if options.plot:
        report.check_matplotlib()
    result = report.load(options.read) if options.read else _run(options)
    if options.read:
        print(report.markdown(result))
    if options.json:
        report.save(result, options.json)
    if options.plot:
        report.draw(result, options.plot)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"which ({', '.join(CASES)}; default: all)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes and few rounds: to see that it works")
    parser.add_argument("--rounds", type=int, help="rounds in which each contender has a turn (default 30)")
    parser.add_argument("--no-fresh", action="store_true", help="do not measure cold compile and warm load")
    parser.add_argument("--no-numba-peer", action="store_true", help="leave out the loops by hand for Numba")
    parser.add_argument("--mode", default="numba", help="scanjit's mode (default numba)")
    parser.add_argument("--json", metavar="FILE", help="write all measurements")
    parser.add_argument("--plot", metavar="FILE", help="draw them (.svg, .png); needs matplotlib")
    parser.add_argument("--read", metavar="FILE", help="measure nothing: take what --json wrote")
    return parser


def _run(options: argparse.Namespace) -> Report:
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        raise SystemExit(f"there is no case {unknown[0]!r}; there are {', '.join(CASES)}")
    count = options.rounds or (3 if options.quick else 30)
    seconds = 0.002 if options.quick else 0.05
    result = Report(
        report.facts(
            f"{count} interleaved rounds of {seconds * 1e3:.0f} ms a contender; processor time: medians, quartiles"
        )
    )
    if options.no_numba_peer:
        result.skipped.append("the loops for Numba were left out, as asked")
    if not measure.installed("torch"):
        result.skipped.append("PyTorch is not installed: not compared")
    print(report.markdown(result), flush=True)
    for name in options.cases or CASES:
        for task in CASES[name](options.quick).tasks(options.mode):
            table = _measured(name, task, options, count, seconds)
            print(report.table_text(table) + "\n", flush=True)
            result.tables.append(table)
    return result


def _measured(name: str, task: Task, options: argparse.Namespace, count: int, seconds: float) -> Table:
    """One task: checked, timed in rounds, and started from nothing."""
    check_reference(task)
    expected = task.reference(*wide(task.arguments))
    contenders = [c for c in task.contenders if not (options.no_numba_peer and c.package == "numba")]
    calls, rows = {}, []
    for contender in contenders:
        call = calls[contender.name] = _bound(contender, task)
        rows.append(Row(contender.name, check(task, contender.name, call(), expected), Times()))
    reached, work = _limit(task)
    times = measure.rounds({**calls, "limit": reached}, count, seconds)
    for row in rows:
        row.times = times[row.contender]
    pace = times["limit"].quartiles[1] / work
    amount = task.flops or task.chain
    table = Table(task.case, task.kind, task.title, pace * amount, _described(task, pace), task.flops, rows)
    if not options.no_fresh:
        for row in rows:
            row.start = _start(name, task, row.contender, options)
    return table


def _bound(contender: Contender, task: Task) -> Callable[[], list]:
    function = contender.make()
    return lambda: function(*task.arguments)


def _limit(task: Task) -> tuple[Callable[[], None], int]:
    dtype = str(task.arguments[0].dtype)
    return limit.throughput(dtype) if task.flops else limit.latency(dtype)


def _described(task: Task, pace: float) -> str:
    if task.flops:
        return f"{task.flops / 1e9:.3g} GFLOP at {1e-9 / pace:.0f} GFLOP/s, the fma rate of the same rounds"
    return f"{task.chain:,} fmas of which each needs the one before, {pace * 1e9:.2f} ns each in the same rounds"


def _start(name: str, task: Task, contender: str, options: argparse.Namespace) -> measure.Start:
    print(f"{task.title}: {contender} in processes of its own", file=sys.stderr)
    return measure.start(name, task.kind, contender, options.mode, options.quick, 1 if options.quick else 3)
