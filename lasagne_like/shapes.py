"""Shapes of which some sizes are not known before a call."""

from collections.abc import Iterable, Sequence
from typing import Any


def known_sizes(shape: Iterable[Any]) -> tuple[int | None, ...]:
    """The sizes of an expression. Those that are not known before a call are None.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.shapes import known_sizes
    >>> known_sizes(sj.matrix().shape), known_sizes(sj.constant([1.0, 2.0]).shape)
    ((None, None), (2,))
    """
    return tuple(size if isinstance(size, int) else None for size in shape)


def fits(a: Sequence[int | None], b: Sequence[int | None]) -> bool:
    """Whether two shapes can be shapes of the same tensor: as many axes, and no sizes that differ. None is any size.

    Examples
    --------
    >>> from lasagne_like.shapes import fits
    >>> fits((None, 3), (2, 3)), fits((None, 3), (2, 4)), fits((3,), (None, 3))
    (True, False, False)
    """
    return len(a) == len(b) and all(m is None or n is None or m == n for m, n in zip(a, b, strict=True))
