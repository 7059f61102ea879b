"""Worker threads: asleep between calls, they run a program's main function together with the thread that calls it.

A signal (Ctrl-C) may raise an exception anywhere in the Python code of the calling thread. Once a worker is awake, the
others must do their parts too: it waits for them where they meet. So what follows may be done twice without harm, is
done again after an exception, and the exception is raised when all have finished.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from scanjit.config import MOST_THREADS, config

Job = tuple[Callable[..., None], int, int]
"""The function, the address of its table, and the number of threads; each job is an object of its own."""


class _Worker(threading.Thread):
    """A thread that runs one job at a time, each job once however often it is woken."""

    def __init__(self, number: int) -> None:
        super().__init__(name=f"scanjit-{number}", daemon=True)
        self.number = number
        self.wake, self.done = threading.Semaphore(0), threading.Semaphore(0)
        self.job: Job | None = None
        self.finished: Job | None = None
        self.start()

    def run(self) -> None:
        while True:
            self.wake.acquire()
            job = self.job
            if job is None or job is self.finished:
                continue
            function, table, threads = job
            function(table, self.number, threads)
            self.finished = job
            self.done.release()


class _Team:
    """The workers of a process. One program uses them at a time; what runs meanwhile does so on its own thread."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        self.workers: list[_Worker] = []

    def run(self, function: Callable[..., None], table: int, threads: int) -> None:
        """`function(table, i, threads)` on as many threads, i = 0 on the caller's; on that alone if the team is
        busy. The function is compiled: it raises nothing."""
        if threads < 2 or not self.busy.acquire(blocking=False):
            function(table, 0, 1)
            return
        try:
            while len(self.workers) < threads - 1:
                self.workers.append(_Worker(len(self.workers) + 1))
            _work(self.workers[: threads - 1], (function, table, threads))
        finally:
            self.busy.release()


def _work(workers: list[_Worker], job: Job) -> None:
    """Do a job together with workers, whatever interrupts it."""
    function, table, threads = job
    interrupt: BaseException | None = None
    done: list[None] = []
    while not done:
        try:
            for worker in workers:
                worker.job = job
                worker.wake.release()
            done.extend(
                map(function, (table,), (0,), (threads,))
            )  # no signal comes between the call and the note of it
        except BaseException as error:
            interrupt = error
    for worker in workers:
        while True:
            try:
                worker.done.acquire()
            except BaseException as error:
                interrupt = error
            if worker.finished is job:
                break
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
