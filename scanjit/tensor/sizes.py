"""Sizes that are at hand while a function is traced, for code that needs ints: unpacking (`a, b = x`) and `len(x)`.

Code that traces a function for given arrays knows their sizes. A graph depends on them only if something asks.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar

from scanjit import types
from scanjit.scoped import scoped
from scanjit.types import Atom, Dimension


class AtHand:
    """The sizes of the arrays that a function is traced for, and which of them it asked for."""

    def __init__(self, sizes: Mapping[Atom, int]) -> None:
        self.sizes = sizes
        self.asked: set[Atom] = set()


_tracing: ContextVar[AtHand | None] = ContextVar("sizes", default=None)


def known(sizes: Mapping[Atom, int]) -> AbstractContextManager[AtHand]:
    """Make these sizes available to `at_hand` while inside."""
    return scoped(_tracing, AtHand(sizes))


def at_hand(dim: Dimension) -> int | None:
    """A size as a number, if it is known or at hand; the graph is then right for this size alone.

    Examples
    --------
    >>> from scanjit.types import as_atom, size
    >>> n = size()
    >>> with known({as_atom(n): 3}) as sizes:
    ...     print(at_hand(2 * n + 1), len(sizes.asked))
    7 1
    >>> print(at_hand(n), at_hand(5))
    None 5
    """
    if isinstance(dim, int):
        return dim
    here = _tracing.get()
    found = None if here is None else types.substitute(dim, here.sizes)
    if here is None or not isinstance(found, int):
        return None
    here.asked.update(atom for atom in types.atoms(dim) if atom in here.sizes)
    return found
