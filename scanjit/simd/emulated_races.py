"""Races: one thread of an emulated program writes a byte, another thread reads or writes it, and nothing orders the
two.

Only meetings order threads. Each thread counts its meetings. It also remembers a count of every other thread: that of
the last meeting with it, directly or through a third thread. All work of the other thread up to this count is complete.
For each byte, the emulator keeps the counts at which each thread last read it and wrote it. If such a count is higher
than the one that the running thread remembers, there is a race. So races are found in whatever order the threads happen
to run. (This is known as vector clocks.)
"""

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
        How many threads there are.
    """

    def __init__(self, threads: int):
        self.threads = threads
        self.running = 0
        self._heard = np.eye(threads, dtype=np.int32)
        """For each thread, the count that it knows of each thread. Its own entry is its present count."""
        self._last: dict[int, npt.NDArray[np.int32]] = {}
        """For each allocation, the counts at the last accesses: of reads and of writes, by thread and by byte."""

    def place(self) -> npt.NDArray[np.int32]:
        """The counts that are known at a meeting place: none yet."""
        return np.zeros(self.threads, np.int32)

    def tell(self, place: npt.NDArray[np.int32]) -> None:
        """Everything the running thread has done so far comes before what other threads do once they have heard of it
        at this place."""
        np.maximum(place, self._heard[self.running], out=place)
        self._heard[self.running, self.running] += 1

    def hear(self, place: npt.NDArray[np.int32]) -> None:
        """Everything that was told at this place comes before what the running thread does from now on."""
        np.maximum(self._heard[self.running], place, out=self._heard[self.running])

    def meet(self, threads: Iterable[int]) -> None:
        """These threads wait for each other: all that they did before comes before all that they do afterwards."""
        place, together, running = self.place(), list(threads), self.running
        for do in (self.tell, self.hear):
            for self.running in together:
                do(place)
        self.running = running

    def read(self, allocation: int, nbytes: int, where: Any) -> int | None:
        """Note that the running thread reads bytes of an allocation. Returns another thread that has written some of
        them and was not met since, or None."""
        return self._note(_READ, allocation, nbytes, where)

    def write(self, allocation: int, nbytes: int, where: Any) -> int | None:
        """Note that the running thread writes bytes of an allocation. Returns another thread that has read or written
        some of them and was not met since, or None."""
        return self._note(_WRITE, allocation, nbytes, where)

    def _note(self, access: int, allocation: int, nbytes: int, where: Any) -> int | None:
        last = self._last.get(allocation)
        if last is None:
            last = self._last[allocation] = np.zeros((2, self.threads, nbytes), np.int32)
        heard = self._heard[self.running]
        found = last[1 - access :, :, where] > heard[:, None]
        last[access, self.running, where] = heard[self.running]
        return int(found.any((0, 2)).argmax()) if found.any() else None
