"""The random number generator of the package: initial values and the seeds of noise come from it.

By default it is NumPy's global generator, so `numpy.random.seed` makes a script reproducible. `set_rng` replaces it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

__all__ = ["get_rng", "new_seed", "set_rng", "using"]

_rng: Any = np.random
_rng_here: ContextVar[Any] = ContextVar("rng", default=None)
"""The generator of the `with using(rng)` block that the thread is in; None outside of one."""


def get_rng() -> Any:
    """The generator in use: that of the `with using(rng)` around, the last one given to `set_rng`, or `numpy.random`.

    Returns
    -------
    numpy.random.Generator, numpy.random.RandomState or the module numpy.random
        All have `normal`, `uniform` and `permutation` with the same arguments.

    Examples
    --------
    >>> from lasagne_like.random import get_rng
    >>> get_rng().uniform(size=(2, 3)).shape
    (2, 3)
    """
    return _rng if _rng_here.get() is None else _rng_here.get()


def set_rng(new_rng: Any) -> None:
    """Use another generator from now on, in the whole process.

    Parameters
    ----------
    new_rng : numpy.random.Generator, numpy.random.RandomState or the module numpy.random

    Examples
    --------
    >>> import numpy as np
    >>> import lasagne_like as lasagne
    >>> lasagne.random.set_rng(np.random.default_rng(1))
    >>> first = lasagne.init.Normal().sample((2, 3))
    >>> lasagne.random.set_rng(np.random.default_rng(1))
    >>> bool((lasagne.init.Normal().sample((2, 3)) == first).all())
    True
    >>> lasagne.random.set_rng(np.random)
    """
    _check(new_rng, "set_rng")
    global _rng
    _rng = new_rng


@contextmanager
def using(rng: Any) -> Iterator[None]:
    """Use another generator within a `with` block. Other threads, and code outside of the block, do not see it.

    Examples
    --------
    >>> import numpy as np
    >>> import lasagne_like as lasagne
    >>> with lasagne.random.using(np.random.default_rng(1)):
    ...     first = lasagne.init.Normal().sample((2, 3))
    >>> with lasagne.random.using(np.random.default_rng(1)):
    ...     bool((lasagne.init.Normal().sample((2, 3)) == first).all())
    True
    """
    _check(rng, "using")
    token = _rng_here.set(rng)
    try:
        yield
    finally:
        _rng_here.reset(token)


def _check(new_rng: Any, what: str) -> None:
    if not all(callable(getattr(new_rng, name, None)) for name in ("normal", "uniform", "permutation")):
        raise TypeError(
            f"{what} takes a generator of NumPy (numpy.random.default_rng(seed), numpy.random.RandomState(seed) or "
            f"numpy.random), got {new_rng!r}"
        )


def new_seed() -> int:
    """A seed drawn from the generator, for a stream of noise.

    Examples
    --------
    >>> from lasagne_like.random import new_seed
    >>> 0 < new_seed() < 2**31
    True
    """
    rng = get_rng()
    draw = rng.integers if hasattr(rng, "integers") else rng.randint
    return int(draw(1, 2147462579))
