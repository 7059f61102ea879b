"""Worker threads: asleep between calls, they run a program's main function together with the thread that calls it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from scanjit.config import config
from scanjit.schedule.parallel import MOST_THREADS


class _Worker(threading.Thread):
    """A thread that runs one job at a time."""

    def __init__(self, number: int) -> None:
        super().__init__(name=f"scanjit-{number}", daemon=True)
        self.number = number
        self.wake, self.done = threading.Semaphore(0), threading.Semaphore(0)
        self.job: tuple[Callable[..., None], int, int] | None = None
        self.start()

    def run(self) -> None:
        while True:
            self.wake.acquire()
            assert self.job is not None
            function, table, threads = self.job
            function(table, self.number, threads)
            self.done.release()


class _Team:
    """The workers of a process. One program uses them at a time; what runs meanwhile does so on its own thread."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        self.workers: list[_Worker] = []

    def run(self, function: Callable[..., None], table: int, threads: int) -> None:
        """`function(table, i, threads)` on as many threads, i = 0 on the caller's; on that alone if the team is
        busy."""
        if threads < 2 or not self.busy.acquire(blocking=False):
            function(table, 0, 1)
            return
        try:
            while len(self.workers) < threads - 1:
                self.workers.append(_Worker(len(self.workers) + 1))
            helpers = self.workers[: threads - 1]
            for worker in helpers:
                worker.job = (function, table, threads)
                worker.wake.release()
            function(table, 0, threads)
            _wait(helpers)
        finally:
            self.busy.release()


def _wait(workers: list[_Worker]) -> None:
    """Wait for all, even if a signal interrupts it: until then they use the memory of the call."""
    interrupt: BaseException | None = None
    for worker in workers:
        while True:
            try:
                worker.done.acquire()
                break
            except BaseException as error:
                interrupt = error
    if interrupt is not None:
        raise interrupt


_team = _Team()


def _after_fork() -> None:
    global _team
    _team = _Team()  # the child has none of its parent's threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def run(function: Callable[..., None], table: int, threads: int) -> None:
    """Run a program's main function on `threads` threads."""
    _team.run(function, table, threads)


def count() -> int:
    """How many threads large programs use: `config.threads`, or all processors of this process if it is 0; never more
    than there is scratch memory for."""
    if config.threads:
        return config.threads
    try:
        found = len(os.sched_getaffinity(0))
    except AttributeError:
        found = os.cpu_count() or 1
    return min(found, MOST_THREADS)
