"""Walks over graphs of things that depend on each other: nodes, values of a nest, sizes.

They keep a stack of their own: Python's is too short for a chain of ten thousand ops."""

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, MutableMapping, Sequence
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")


def bottom_up(roots: Iterable[Item], below: Callable[[Item], Sequence[Item]], stop: Container[Item] = ()) -> list[Item]:
    """The roots and everything that they depend on. Each item comes once, after the items that it depends on.

    Parameters
    ----------
    roots : where to begin.
    below : `below(item)` gives the items that an item depends on, in the order in which the walk is to meet them.
    stop : items beyond which the walk does not go.

    Examples
    --------
    >>> bottom_up([6], lambda n: [d for d in (2, 3) if n % d == 0 and n > d])
    [2, 3, 6]
    """
    done: dict[Item, None] = {}
    path: list[tuple[Item, Iterator[Item]]] = []
    """The items around the one that is being walked, each with the items that are still to come beside it."""
    coming = iter(roots)
    while True:
        for item in coming:
            if item in done:
                continue
            if item not in stop and (others := below(item)):
                path.append((item, coming))
                coming = iter(others)
                break
            done[item] = None
        else:
            if not path:
                return list(done)
            item, coming = path.pop()
            done[item] = None


def top_down(roots: Iterable[Item], below: Callable[[Item], Iterable[Item]]) -> Iterator[Item]:
    """The roots and everything that they lead to. Each item comes once, before the items that only it leads to; these
    may lead back to it.

    Parameters
    ----------
    roots : where to begin. The last one comes first.
    below : `below(item)` gives the items to which an item leads. It is asked after the item has come.

    Examples
    --------
    >>> list(top_down([6], lambda n: [n // 2, n + 1] if n < 8 else []))
    [6, 7, 8, 3, 4, 5, 2, 1, 0]
    """
    met: set[Item] = set()
    left = list(roots)
    while left:
        item = left.pop()
        if item not in met:
            met.add(item)
            yield item
            left += below(item)


def fold(
    root: Item,
    below: Callable[[Item], Sequence[Item]],
    make: Callable[[Item, list[Result]], Result],
    done: MutableMapping[Item, Result],
) -> Result:
    """The result of `root`. `make(item, results)` gets an item and the results of the items that it depends on.

    Parameters
    ----------
    root : the item to make.
    below : `below(item)` gives what an item depends on.
    make : called once for each item that is not in `done`.
    done : the results that are known. Those that are made are added.

    Examples
    --------
    >>> fold(5, lambda n: [n - 1, n - 2], lambda n, results: sum(results), {0: 0, 1: 1})
    5
    """
    stack: list[tuple[Item, Sequence[Item] | None]] = [(root, None)]
    while stack:
        item, others = stack.pop()
        if item in done:
            continue
        if others is None:
            others = below(item)
            stack.append((item, others))
            stack.extend([(other, None) for other in reversed(others) if other not in done])
        else:
            done[item] = make(item, [done[other] for other in others])
    return done[root]


def grown(start: Iterable[int], more: Callable[[Sequence[int]], Iterable[int]]) -> list[int]:
    """The smallest set of numbers that contains `start` and all of `more(the set)`, in order.

    Examples
    --------
    >>> grown([3], lambda numbers: [n // 2 for n in numbers])
    [0, 1, 3]
    """
    return settled(start, more, lambda numbers: numbers)[0]


def settled(
    start: Iterable[int], make: Callable[[Sequence[int]], Result], more: Callable[[Result], Iterable[int]]
) -> tuple[list[int], Result]:
    """The smallest set of numbers that contains `start` and all of `more(make(the set))`; and what `make` made of
    it."""
    found = sorted(set(start))
    while True:
        made = make(found)
        grown = sorted({*found, *more(made)})
        if grown == found:
            return found, made
        found = grown
