"""Decides how many threads a call may use.

`config.threads` (or `SCANJIT_NUM_THREADS`) decides where it is set. Else it is the least of
- the processors that this process may run on (its affinity),
- the processor time that its control groups give it (the quota of a container),
- `OMP_NUM_THREADS`, which pools of processes such as joblib's and Dask's set for their workers,
- what `threadpoolctl.threadpool_limits` allows (see `threadpool`).

A process that `multiprocessing` started shares the processors with the other children of its parent, because `Pool` and
`ProcessPoolExecutor` set no limits: two workers on 8 processors use 4 threads each, a `Process` that is alone uses 8.
A worker uses all that it is allowed if `OMP_NUM_THREADS` is set, or if its affinity is not its parent's. Systems other
than Linux do not say how many children there are: there, each uses all processors.

`sharing` says a number for the calls of one thread instead, where somebody knows better who shares the processors.

Each of these is read again when it may have changed: a child of a pool may have other limits than its parent.
"""

import math
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path, PurePosixPath

from scanjit.config import MOST_THREADS, config
from scanjit.errors import not_from_signal_handler, suppressed
from scanjit.runtime.caches import text_of
from scanjit.scoped import scoped

KNOWN_SECONDS = 1.0
"""What was read of the quota and of the workers is believed for this many seconds. Reading their files takes longer
than a short call."""

_environment = getattr(os.environ, "_data", os.environ)  # asking os.environ for a missing name takes 1 µs
_key = os.environ.encodekey("OMP_NUM_THREADS") if _environment is not os.environ else "OMP_NUM_THREADS"
_limit: int | None = None
_chosen_threads: ContextVar[int | None] = ContextVar("threads", default=None)
_Known = tuple[float, int, int]
_UNKNOWN: _Known = (-math.inf, MOST_THREADS, 1)
_known: _Known = _UNKNOWN
"""When the files were read, the quota, and how many workers shared the processors."""


def count() -> int:
    """The number of threads that large programs use: at most `MOST_THREADS`, for which there is scratch memory."""
    return config.threads or allowed()


def allowed() -> int:
    """The number of threads where the user has set none."""
    found = available()
    return found if _limit is None else min(_limit, found)


def limit(threads: int) -> None:
    """Use at most this many threads, unless the user sets a number. A limit of `available()` or more removes the
    limit."""
    global _limit
    _limit = None if threads >= available() else max(threads, 1)


def available() -> int:
    """How many threads there may be if nobody limits them."""
    given = _chosen_threads.get()
    if given is not None:
        return given
    found, sharing = _processors()
    asked = _environment.get(_key)
    number = None if asked is None else _first_number(os.fsdecode(asked))
    return max(found // sharing, 1) if number is None else min(found, number)


def sharing(threads: int) -> AbstractContextManager[object]:
    """A context in which a call uses one part of the processors, if `threads` threads use one part each: at least one
    processor, whatever `OMP_NUM_THREADS` says."""
    return scoped(_chosen_threads, max(_processors()[0] // max(threads, 1), 1))


def _processors() -> tuple[int, int]:
    """How many processors this process may use, and how many workers share them."""
    global _known
    try:
        found = len(os.sched_getaffinity(0))
    except not_from_signal_handler(AttributeError, OSError):
        found = os.cpu_count() or 1
    now = time.monotonic()
    if now - _known[0] > KNOWN_SECONDS:
        _known = now, quota() or MOST_THREADS, workers()
    _, most, sharing = _known
    return min(found, most, MOST_THREADS), sharing


def _first_number(text: str) -> int | None:
    """The first number in `OMP_NUM_THREADS`, which may list one for each level of nesting. None if it is not above
    0."""
    first = text.split(",")[0].strip()
    return int(first[:9]) or None if first.isascii() and first.isdigit() else None


# ---- pools of processes ----------------------------------------------------------------------------------------------


def workers(root: Path = Path("/")) -> int:
    """How many workers of our parent share the processors, this process included; 1 if this process is no worker.

    The workers are the children of our parent that run the same command as this process. Forked children have their
    parent's command. The commands of spawned ones differ in numbers alone. What `multiprocessing` starts for its own
    use has another command.

    Parameters
    ----------
    root : where `proc` is.
    """
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None:
        return 1
    own, parent = str(os.getpid()), str(os.getppid())
    everybody: list[str] = []
    with suppressed(AttributeError, OSError):
        if os.sched_getaffinity(0) == os.sched_getaffinity(os.getppid()):
            everybody = [name for name in os.listdir(root / "proc") if name.isdecimal()]
    if not everybody:
        return 1
    command = _command(root / "proc" / own)
    same = [
        pid for pid in everybody if _parent(root / "proc" / pid) == parent and _command(root / "proc" / pid) == command
    ]
    return max(len(same), 1)


def _parent(process: Path) -> str:
    """The number of a process's parent: the second word after the name, which is in brackets."""
    return [*text_of(process / "stat").rpartition(")")[2].split(), "", ""][1]


def _command(process: Path) -> str:
    """What a process runs, without the numbers in it."""
    return re.sub(r"\d+", "", text_of(process / "cmdline"))


def _forget() -> None:
    global _known
    _known = _UNKNOWN


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


# ---- control groups --------------------------------------------------------------------------------------------------


def quota(root: Path = Path("/")) -> int | None:
    """The time that control groups allow this process, in processors, rounded up; None without a quota. A quota of 150
    ms in each 100 ms is 2 processors.

    Parameters
    ----------
    root : the folder that has `proc` and `sys` (another one in tests).
    """
    found = []
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers or "cpu" in controllers.split(","):
            places = (controllers, "cpu") if controllers else ("", "unified")  # of version 1, and of version 2
            found += [_rate(folder) for place in places for folder in _upwards(root / "sys/fs/cgroup" / place, path)]
    return max(1, math.ceil(min(rates))) if (rates := [rate for rate in found if rate is not None]) else None


def _upwards(place: Path, path: str) -> Iterator[Path]:
    """The folder of a group, then those of the groups around it. In a container there may be only the outermost one."""
    group = PurePosixPath(path.lstrip("/"))
    if ".." in group.parts:
        group = PurePosixPath()
    for part in (group, *group.parents):
        yield place / part


def _rate(folder: Path) -> float | None:
    """The quota of a group in processors: microseconds of processor time, divided by the microseconds of a period. Both
    are in one file, or, of version 1, each in its own."""
    files = (text_of(folder / name) for name in ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"))
    time_, period, *_ = [*" ".join(files).split(), "", ""]
    return int(time_) / int(period) if time_.isdecimal() and period.isdecimal() and int(period) else None
