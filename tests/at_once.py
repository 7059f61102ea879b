"""Several threads that do the same at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

T = TypeVar("T")


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """What `work` gives for 0, 1 and so on, each in a thread of its own. All threads are there before the first one
    begins; what one of them raises is raised."""
    everybody = Barrier(count)

    def one(number: int) -> T:
        everybody.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))
