"""Claims: which process compiles a kernel, when several want the same one at once.

A claim is a lock on one byte of the file `claims` in the directory of the cache; the kernel's key says on which byte.
The system ends it with the process that holds it, however that dies. If the system has no such locks, or the file
cannot be written, each process compiles for itself.
"""

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scanjit.errors import suppressed

PATIENCE = 60.0
"""After this many seconds nobody waits any longer: the process that holds the claim may have been stopped."""
_PAUSE = 0.01
"""Seconds between two looks whether a claim has ended."""


class Claims:
    """The claims of this process in a cache, for the time of a `with` statement.

    The locks belong to the process. So two of its threads must not claim the same kernel.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._file = -1
        self._locks: Any = None

    def __enter__(self) -> "Claims":
        with suppressed(OSError, ImportError):
            self._locks = importlib.import_module("fcntl")  # Windows has none
            if self._directory is not None:
                flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
                self._file = os.open(self._directory / "claims", flags, 0o600)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file >= 0:
            os.close(self._file)  # which ends all claims, too

    def take(self, stem: str) -> bool:
        """Claim a kernel. False if another process holds a claim to it."""
        if self._file < 0:
            return True
        try:
            self._locks.lockf(self._file, self._locks.LOCK_EX | self._locks.LOCK_NB, 1, _byte(stem))
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # a file system without locks
            return True
        return True

    def end(self, stem: str) -> None:
        """End a claim."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                self._locks.lockf(self._file, self._locks.LOCK_UN, 1, _byte(stem))

    def wait(self, stems: list[str], abandoned: Callable[[], bool]) -> Iterator[str]:
        """Yield each of these kernels once: claimed, as soon as nobody else holds a claim to it; or unclaimed, after
        `PATIENCE`. The rest is not yielded if nobody waits for us."""
        end, left = time.monotonic() + PATIENCE, list(stems)
        while left and not abandoned():
            stem = next((stem for stem in left if self.take(stem)), None)
            if stem is None and time.monotonic() > end:
                stem = left[0]
            if stem is None:
                time.sleep(_PAUSE)
            else:
                left.remove(stem)
                yield stem
                self.end(
                    stem
                )  # or two processes that wait for each other's kernels would wait until their patience ends


def _byte(stem: str) -> int:
    """The byte that stands for a kernel: 60 bits of its key."""
    return int(stem[-15:], 16)
