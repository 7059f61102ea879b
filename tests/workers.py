"""The worker threads of this process, as their memory shows them."""

from __future__ import annotations

import ctypes

from scanjit.config import MOST_THREADS
from scanjit.runtime.native import LineFields, native


class _Slot(ctypes.Structure):
    _fields_ = [
        ("line", LineFields),
        *((name, ctypes.c_int64) for name in ("wake", "done", "program", "table", "number", "threads", "given")),
        ("empty", ctypes.c_int64),
    ]


class _Team(ctypes.Structure):
    _fields_ = [
        ("clock", ctypes.c_int64 * 16),
        *((name, ctypes.c_int64) for name in ("busy", "stop", "workers", "place")),
        ("empty", ctypes.c_int64 * 4),
        ("slots", _Slot * MOST_THREADS),
    ]


def _team() -> _Team:
    return _Team.from_address(native().team)


def busy() -> bool:
    """Whether a program uses the workers."""
    return _team().busy != 0


def count() -> int:
    """How many workers have been started."""
    return int(_team().workers)


def nobody_works() -> bool:
    """Whether no program uses the workers, and none of them runs one."""
    team = _team()
    return not team.busy and not any(slot.table for slot in team.slots[: team.workers])
