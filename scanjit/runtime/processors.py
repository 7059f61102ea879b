"""Decides how many threads a call may use.

`config.threads` (or `SCANJIT_NUM_THREADS`) decides where it is set. Else it is the least of
- the processors that this process may run on (its affinity),
- the processor time that its control groups give it (the quota of a container),
- `OMP_NUM_THREADS`, which pools of processes such as joblib's and Dask's set for their workers,
- what `threadpoolctl.threadpool_limits` allows (see `threadpool`).

All are asked for anew where they could have changed: a child of a pool may be given other limits than its parent.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from scanjit.config import MOST_THREADS, config

QUOTA_SECONDS = 1.0
"""How long a quota is remembered. It is in files, and reading them takes longer than a short call."""

_environment = getattr(os.environ, "_data", os.environ)  # to ask os.environ for what is not there takes 1 µs
_key = os.environ.encodekey("OMP_NUM_THREADS") if _environment is not os.environ else "OMP_NUM_THREADS"
_limit: int | None = None
_quota: tuple[float, int] = (-math.inf, MOST_THREADS)
"""The time at which the quota was read, and the quota."""


def count() -> int:
    """The number of threads that large programs use: at most `MOST_THREADS`, for which there is scratch memory."""
    return config.threads or allowed()


def allowed() -> int:
    """The number of threads where the user has set none."""
    found = available()
    return found if _limit is None else min(_limit, found)


def limit(threads: int) -> None:
    """Use at most so many threads, unless the user sets a number. A limit of `available()` or more removes the
    limit."""
    global _limit
    _limit = None if threads >= available() else max(threads, 1)


def available() -> int:
    """The number of threads without `limit`."""
    global _quota
    try:
        found = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        found = os.cpu_count() or 1
    asked = _environment.get(_key)
    if asked is not None:
        found = min(found, _first_number(os.fsdecode(asked)) or found)
    now = time.monotonic()
    if now - _quota[0] > QUOTA_SECONDS:
        _quota = now, quota() or MOST_THREADS
    return min(found, _quota[1], MOST_THREADS)


def _first_number(text: str) -> int | None:
    """The first number in `OMP_NUM_THREADS`, which may list one for each level of nesting. None if it is not above
    0."""
    first = text.split(",")[0].strip()
    return int(first[:9]) or None if first.isascii() and first.isdigit() else None


# ---- control groups --------------------------------------------------------------------------------------------------


def quota(root: Path = Path("/")) -> int | None:
    """How many processors' time the control groups allow this process, rounded up; None without a quota.

    Parameters
    ----------
    root : the folder that has `proc` and `sys` (another one in tests).
    """
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    found = []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:  # version 2
            places = [root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified"]
            found += [_version_2(folder) for place in places for folder in _upwards(place, path)]
        elif "cpu" in controllers.split(","):
            places = [root / "sys/fs/cgroup" / name for name in (controllers, "cpu")]
            found += [_version_1(folder) for place in places for folder in _upwards(place, path)]
    return max(1, math.ceil(min(rates))) if (rates := [rate for rate in found if rate is not None]) else None


def _upwards(place: Path, path: str) -> Iterator[Path]:
    """The folders of a group and of the groups around it. A container may show the outermost one only."""
    group = PurePosixPath(path.lstrip("/"))
    if ".." in group.parts:
        group = PurePosixPath()
    for part in (group, *group.parents):
        yield place / part


def _version_2(folder: Path) -> float | None:
    return _rate(*[*_words(folder / "cpu.max"), "", ""][:2])


def _version_1(folder: Path) -> float | None:
    return _rate(*[*_words(folder / "cpu.cfs_quota_us"), ""][:1], *[*_words(folder / "cpu.cfs_period_us"), ""][:1])


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").split()
    except OSError:
        return []


def _rate(time_: str, period: str) -> float | None:
    """The quota in processors: microseconds of processor time, divided by the microseconds of a period."""
    return int(time_) / int(period) if time_.isdecimal() and period.isdecimal() and int(period) else None
