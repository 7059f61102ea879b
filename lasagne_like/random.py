"""The random number generator of the package: initial values and the seeds of noise come from it.

By default it is NumPy's global one, so `numpy.random.seed` makes a script reproducible. `set_rng` puts a generator
of its own in its place.
"""

from typing import Any

import numpy as np

__all__ = ["get_rng", "new_seed", "set_rng"]

_rng: Any = np.random


def get_rng() -> Any:
    """The generator in use: the last one given to `set_rng`, or the module `numpy.random`.

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
    return _rng


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
    if not all(callable(getattr(new_rng, name, None)) for name in ("normal", "uniform", "permutation")):
        raise TypeError(
            f"set_rng takes a generator of NumPy (numpy.random.default_rng(seed), numpy.random.RandomState(seed) or "
            f"numpy.random), got {new_rng!r}"
        )
    global _rng
    _rng = new_rng


def new_seed() -> int:
    """A seed drawn from the generator, for a stream of noise.

    Examples
    --------
    >>> from lasagne_like.random import new_seed
    >>> 0 < new_seed() < 2**31
    True
    """
    draw = _rng.integers if hasattr(_rng, "integers") else _rng.randint
    return int(draw(1, 2147462579))
