"""The one driver: checks everybody, measures everybody, prints a table for each case.

    python -m benchmarks lstm gru --peers torch,jax --threads 2 --json results.json
    python -m benchmarks report results.json
    python -m benchmarks kinds --json kinds.json
    python -m benchmarks report kinds.json --plot docs/kinds.svg
    python -m benchmarks environment torch jax onnxruntime openvino tensorflow pytensor
    python -m benchmarks tiles
    python -m benchmarks columns
    python -m benchmarks models
    python -m benchmarks libraries
    python -m benchmarks fits

Every engine runs in a process of its own, and is stopped while others are timed. `kinds` measures ten recurrences,
one of each kind; README has their picture. `special` are recurrences that some library is made for: SciPy, torchlpc,
xlstm, TiRex 2. `environment` makes a virtual environment for each peer that is named, of the newest Python here on
which the peer can be installed; where there is none, an engine runs on this Python if it is installed here.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks import (
    columns,
    company,
    facts,
    libraries,
    memory,
    models,
    picture,
    remote,
    report,
    startup,
    threads,
    tiles,
)
from benchmarks.case import Case, Task
from benchmarks.cases import all_cases, find
from benchmarks.engines import BY_HAND, OWN, PEERS, SPECIAL, TITLES
from benchmarks.fits import driver as fits
from benchmarks.measure import Contender, Effort, measured
from benchmarks.remote import Absent, Engine, EngineError
from benchmarks.report import Report

GROUPS = (
    *("lstm", "gru", "custom", "ragged", "stack", "layers", "streaming", "convolution", "wide", "byhand", "narrow"),
    "special",
)
"""What consists of cases; the other words of the command line measure something else than steady time."""
EVERYTHING = (*GROUPS, "compile", "memory", "threads", "unroll")
"""What is measured if nothing is named."""
WORDS = (*EVERYTHING, "kinds")

ALONE = {"tiles": tiles.main, "columns": columns.main, "models": models.main}
"""What prints a table of its own."""

UNROLLED: dict[str, int | bool] = {"unroll=8": 8, "unroll=True": True}
"""How loops are unrolled where that is compared."""
WRITTEN_OUT = ("LSTM", "tanh RNN", "GARCH(1,1)")
"""The cases of which it is compared."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see `--help`. Returns 1 if somebody's results were wrong."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["report"]:
        return report.main(words[1:])
    if words[:1] == ["environment"]:
        for engine in words[1:]:
            remote.make_environment(engine)
        return 0
    if words[:1] == ["fits"]:
        return fits.main(words[1:])
    if words[:1] and words[0] in ALONE:
        return ALONE[words[0]]()
    if words[:1] == ["libraries"]:
        return libraries.main(words[1:])
    options = _parser().parse_args(words)
    for word in options.words:
        if word not in WORDS:
            others = ", ".join(["report", "environment", "fits", "libraries", *ALONE])
            raise SystemExit(f"there is no {word!r}; there are {', '.join(WORDS)}, and {others}")
    result = _Run(options).run()
    if options.json:
        report.save(result, options.json)
    return 1 if result.failed or any(row.failed for row in result.rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="WHAT", help=f"{', '.join(WORDS)}; default: all but kinds")
    parser.add_argument("--peers", help=f"whom to compare with: some of {','.join(PEERS)} (default: all), or none")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of each engine (default: all cores)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes and few rounds: to see that it works")
    parser.add_argument("--only", default="", metavar="TEXT", help="only rows with this in their title")
    parser.add_argument("--rounds", type=int, help="rounds in which everybody has a turn (default 11)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="rows that would begin later are left out")
    parser.add_argument("--unroll-scan", action="store_true", help="scanjit without loops: unroll=True")
    parser.add_argument("--python", action="append", default=[], metavar="ENGINE=PATH", help="an engine's interpreter")
    parser.add_argument("--pytensor-python", metavar="PATH", help="PyTensor's interpreter")
    parser.add_argument("--mode", default="numba", help="scanjit's mode (default numba)")
    parser.add_argument("--json", metavar="FILE", help="write all measurements, for `report`")
    return parser


class _Run:
    """One run of the driver."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.quick = options, options.quick
        self.given = dict(pair.split("=", 1) for pair in options.python)
        if options.pytensor_python:
            self.given["pytensor"] = options.pytensor_python
        self.effort = Effort(options.rounds or 3, 0.002) if self.quick else Effort(options.rounds or 11)
        self.words = options.words or list(EVERYTHING)
        self.peers = self._peers()
        self.result = Report(threads=options.threads)
        self.begin = time.perf_counter()

    def _peers(self) -> list[str]:
        """Those that were asked for; else all, in a quick run without PyTensor, which compiles for a minute."""
        if self.options.peers is None:
            return [
                *(peer for peer in PEERS if not (self.quick and peer == "pytensor")),
                *BY_HAND,
                *(SPECIAL if "special" in self.words else ()),
            ]
        named = [name for name in self.options.peers.split(",") if name not in ("", "none")]
        unknown = set(named) - set(TITLES)
        if unknown:
            raise SystemExit(f"there is no peer {sorted(unknown)[0]!r}; there are {', '.join(PEERS)} and numba")
        return named

    def run(self) -> Report:
        """Everything that was asked for."""
        names = ["scanjit", *self.peers, *(OWN[word] for word in self.words if word in OWN)]
        with remote.started(names, self.options.threads, self.given, self.result.skipped) as engines:
            if "scanjit" not in engines:
                raise SystemExit(f"scanjit does not start: {self.result.skipped['scanjit']}")
            self.result.versions = {name: engine.hello["version"] for name, engine in engines.items()}
            self.result.facts = facts.facts(self.options.threads, self.effort, self.quick)
            print(report.head(self.result), flush=True)
            told = report.lacks(self.result)
            for group in GROUPS:
                if group in self.words:
                    self._rows(self._tasks(group), engines)
            if "kinds" in self.words:
                self._rows(self._some(*picture.KINDS), engines)
            if "unroll" in self.words:
                self._unroll(engines)
            if "threads" in self.words:
                self._threads(engines["scanjit"])
            there = list(engines)
        if "compile" in self.words:
            self._compile(there)
        if "memory" in self.words:
            self._memory(there)
        self.result.facts.append(f"the whole run took {(time.perf_counter() - self.begin) / 60:.1f} minutes")
        print(report.tail(self.result))
        print("\n".join(line for line in report.lacks(self.result) if line not in told), flush=True)
        return self.result

    def _tasks(self, group: str) -> list[Task]:
        tasks = [task for case in all_cases() if case.group == group for task in case.tasks(self.quick)]
        return self._chosen(tasks)

    def _chosen(self, tasks: Sequence[Task]) -> list[Task]:
        """Those that were asked for, as they were asked for."""
        own = [task for task in tasks if self.options.only in task.title]
        return [replace(task, threads=self.options.threads, mode=self.options.mode) for task in own]

    def _rows(self, tasks: Sequence[Task], engines: Mapping[str, Engine]) -> None:
        changes = {"unroll": True} if self.options.unroll_scan else {}
        everybody = [Contender("scanjit", "scanjit", changes)]
        everybody += [Contender(name, name) for name in engines if name != "scanjit"]
        for i, task in enumerate(tasks):
            if time.perf_counter() - self.begin > 60 * self.options.minutes:
                self.result.skipped[f"{task.case.group}, the last {len(tasks) - i} rows"] = "the time was over"
                return
            row = measured(task, everybody, engines, self.effort)
            print(report.row_text(row) + "\n", flush=True)
            self.result.rows.append(row)

    def _unroll(self, engines: Mapping[str, Engine]) -> None:
        variants = {"loop": False, **UNROLLED}
        everybody = [Contender(name, "scanjit", {"unroll": unroll}) for name, unroll in variants.items()]
        for task in self._some(*WRITTEN_OUT):
            row = replace(measured(task, everybody, engines, self.effort), group="unroll")
            print(report.row_text(row) + "\n", flush=True)
            self.result.rows.append(row)

    def _threads(self, engine: Engine) -> None:
        counts = tuple(dict.fromkeys((1, max(self.options.threads, 2))))
        for task in self._some("LSTM", "GRU", "layer-norm LSTM", "selective scan (S6)", "minGRU"):
            try:
                self.result.scaling.append(threads.scaling(task, engine, counts, self.effort))
            except EngineError as error:
                self.result.failed[f"threads, {task.title}"] = str(error).splitlines()[0]
        python = remote.interpreter("scanjit", self.given)
        for name in company.NAMES:
            if self.options.only in name and not self.quick:
                try:
                    self.result.scaling.append(threads.in_company(name, counts[-1], python, self.effort))
                except Absent as reason:
                    self.result.skipped[f"threads, {name}"] = str(reason)
                except EngineError as error:
                    self.result.failed[f"threads, {name}"] = str(error).splitlines()[0]

    def _compile(self, engines: Sequence[str]) -> None:
        repeats = 1 if self.quick else 3
        compilers = [name for name in engines if name not in ("torch", "numpy", *OWN.values())]
        for case in all_cases():
            for task in self._chosen([Task(case, self._usual(case), case.dtypes[0], kind) for kind in case.starts]):
                self._starts(task, compilers, repeats)
        for task in self._some(*WRITTEN_OUT):
            for name, unroll in UNROLLED.items():
                self._starts(replace(task, unroll=unroll), ["scanjit"], 1, name)
        self.result.overhead = startup.overhead(self.given)

    def _starts(self, task: Task, engines: Sequence[str], repeats: int, variant: str = "") -> None:
        found = startup.starts(task, engines, self.given, repeats, variant, self.result.skipped, self.result.failed)
        self.result.starts += found
        print(report.starts_text(found) + "\n", flush=True)

    def _memory(self, engines: Sequence[str]) -> None:
        """Of the longest row of the LSTM, whose traces are large beside what a process needs anyway."""
        chosen = [name for name in engines if name in ("scanjit", "torch", "jax", "tensorflow")]
        case = find("LSTM")
        sizes = case.quick if self.quick else max(case.sizes, key=lambda sizes: sizes["T"])
        for task in self._chosen([Task(case, sizes, case.dtypes[0], "gradient")]):
            self.result.memories += memory.memories(task, chosen, self.given, self.result.failed)

    def _some(self, *names: str) -> list[Task]:
        """One row of each of these cases, forward and with gradient."""
        kinds = ("forward", "gradient")
        cases = map(find, names)
        return self._chosen([Task(case, self._usual(case), case.dtypes[0], kind) for case in cases for kind in kinds])

    def _usual(self, case: Case) -> dict[str, int]:
        """The sizes of the row that stands for a case: of the LSTM the third, where all engines are in their stride."""
        return case.quick if self.quick else case.sizes[2] if len(case.sizes) > 2 else case.sizes[0]
