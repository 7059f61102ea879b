"""Races: what one thread of an emulated program writes and another one touches, though nothing orders the two.

Threads are ordered by the places where they meet alone. Each counts its meetings, and knows of each other thread up to
which count it has heard of it, directly or through others. For each byte it is noted at which count each thread last
read and wrote it: an access conflicts with one by another thread of which this thread has not heard. So a race is found
in whatever order the threads happen to run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

_READ, _WRITE = 0, 1


class Races:
    """The accesses of threads to some allocations. `running` is the thread that makes the next ones.

    Parameters
    ----------
    threads : int
        How many there are.
    """

    def __init__(self, threads: int):
        self.threads = threads
        self.running = 0
        self._heard = np.eye(threads, dtype=np.int32)
        """For each thread, up to which count it has heard of each: of itself up to now."""
        self._last: dict[int, npt.NDArray[np.int32]] = {}
        """For each allocation the counts of the last accesses: reads and writes, by thread, by byte."""

    def meet(self, threads: Iterable[int]) -> None:
        """These threads wait for each other: what they did before comes before what they do after it."""
        together = list(threads)
        self._heard[together] = self._heard[together].max(0)
        self._heard[together, together] += 1

    def read(self, allocation: int, nbytes: int, where: Any) -> int | None:
        """Note that the running thread reads bytes of an allocation. Returns another thread that wrote some of them and
        was not met since, or None."""
        return self._note(_READ, allocation, nbytes, where)

    def write(self, allocation: int, nbytes: int, where: Any) -> int | None:
        """Note that the running thread writes bytes of an allocation. Returns another thread that read or wrote some of
        them and was not met since, or None."""
        return self._note(_WRITE, allocation, nbytes, where)

    def _note(self, access: int, allocation: int, nbytes: int, where: Any) -> int | None:
        last = self._last.get(allocation)
        if last is None:
            last = self._last[allocation] = np.zeros((2, self.threads, nbytes), np.int32)
        heard = self._heard[self.running]
        found = last[1 - access :, :, where] > heard[:, None]
        last[access, self.running, where] = heard[self.running]
        return int(found.any((0, 2)).argmax()) if found.any() else None
