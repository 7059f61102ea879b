"""Where and with what was measured."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from benchmarks.measure import Effort


def facts(threads: int, effort: Effort, quick: bool) -> list[str]:
    """The machine and the method, in words."""
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "not known"
    return [
        f"{cpu()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        f"Python {platform.python_version()}",
        f"at most {threads} thread{'s' * (threads > 1)} an engine; {effort.rounds} interleaved rounds of"
        f" {effort.seconds * 1e3:.0f} ms a contender; wall clock, medians (quartiles)",
        f"load of the machine at the start: {load}",
        *(["tiny sizes, to see that it works: the numbers say nothing"] if quick else []),
    ]


def cpu() -> str:
    """The name of the processor, and what LLVM calls it where llvmlite is there; clouds often tell only half."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    try:
        from llvmlite import binding
    except ImportError:
        return name
    return f"{name} ({binding.get_host_cpu_name()})"
