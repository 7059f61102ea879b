"""Initializers: the values with which the parameters of layers start.

An initializer is called with a shape and gives an array of `scanjit.config.floatX`. Its numbers come from
`lasagne_like.random.get_rng()`.
"""

from abc import ABC
from collections.abc import Callable
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.checks import check_number
from lasagne_like.random import get_rng
from lasagne_like.shown import Shown
from lasagne_like.utils import floatX, is_expression

__all__ = [
    "Constant",
    "Glorot",
    "GlorotNormal",
    "GlorotUniform",
    "He",
    "HeNormal",
    "HeUniform",
    "Initializer",
    "Normal",
    "Orthogonal",
    "Sparse",
    "Uniform",
]


class Initializer(Shown):
    """The base of all initializers: a subclass says how to `sample`.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.init import Initializer
    >>> class Identity(Initializer):
    ...     def sample(self, shape):
    ...         return np.eye(*shape)
    >>> Identity()((2, 2))
    array([[1., 0.],
           [0., 1.]])
    """

    def __call__(self, shape: tuple[int, ...]) -> np.ndarray:
        """Same as `sample`."""
        return self.sample(shape)

    def sample(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array of this shape, of dtype `scanjit.config.floatX`."""
        raise NotImplementedError(f"{type(self).__name__} does not define sample(shape)")


class Normal(Initializer):
    """Numbers from the normal distribution with a mean and a standard deviation.

    Parameters
    ----------
    std, mean : float

    Examples
    --------
    >>> from lasagne_like.init import Normal
    >>> Normal(std=0.1).sample((2, 3)).shape
    (2, 3)
    """

    def __init__(self, std: float = 0.01, mean: float = 0.0) -> None:
        _check_moments(self, std, mean)
        self.std, self.mean = std, mean

    def sample(self, shape: tuple[int, ...]) -> np.ndarray:
        return floatX(get_rng().normal(self.mean, self.std, size=shape))


class Uniform(Initializer):
    """Numbers from a uniform distribution.

    Parameters
    ----------
    range : float or pair of floats
        The bounds, `-range` and `range` if it is a number. Not used if `std` is given.
    std : float, optional
        The standard deviation: the bounds are then `mean - sqrt(3) * std` and `mean + sqrt(3) * std`.
    mean : float
        Used with `std`.

    Examples
    --------
    >>> from lasagne_like.init import Uniform
    >>> Uniform(0.5).range, Uniform((0, 1)).range
    ((-0.5, 0.5), (0, 1))
    """

    range: tuple[float, float]

    def __init__(self, range: Any = 0.01, std: float | None = None, mean: float = 0.0) -> None:
        if std is not None:
            _check_moments(self, std, mean)
            half = float(np.sqrt(3) * std)
            self.range = (mean - half, mean + half)
        else:
            several = isinstance(range, tuple | list)
            bounds = tuple(range) if several else (range,)
            if several and len(bounds) != 2:
                raise ValueError(f"range of {type(self).__name__} must be a number or two bounds, got {range!r}")
            for bound in bounds:
                check_number(type(self).__name__, bound, "range", least=-np.inf)
            self.range = (bounds[0], bounds[1]) if several else (-range, range)

    def sample(self, shape: tuple[int, ...]) -> np.ndarray:
        return floatX(get_rng().uniform(low=self.range[0], high=self.range[1], size=shape))


def _check_moments(owner: Initializer, std: Any, mean: Any = 0) -> None:
    """Raise an error if these are no standard deviation and mean."""
    check_number(type(owner).__name__, std, "std")
    check_number(type(owner).__name__, mean, "mean", least=-np.inf)


def _gain(owner: Initializer, gain: Any) -> float:
    """A gain as a number: "relu" means sqrt(2)."""
    if isinstance(gain, str):
        if gain != "relu":
            raise ValueError(f"gain must be a number or 'relu', got {gain!r}")
        return float(np.sqrt(2))
    check_number(type(owner).__name__, gain, "gain", least=-np.inf)
    return gain


class _Scaled(Initializer, ABC):
    """The base of `Glorot` and `He`: a distribution whose standard deviation depends on the shape."""

    def __init__(self, initializer: Callable[..., Initializer], gain: Any = 1.0, c01b: bool = False) -> None:
        given: object = initializer
        if isinstance(given, Initializer) or not callable(given):
            raise TypeError(
                f"initializer of {type(self).__name__} must be a class or function that makes an initializer from a "
                f"standard deviation, such as Normal, got {given!r}"
            )
        self.initializer, self.gain, self.c01b = initializer, _gain(self, gain), c01b

    def variance(self, shape: tuple[int, ...]) -> float:
        """The variance for a gain of 1."""
        raise NotImplementedError

    def sample(self, shape: tuple[int, ...]) -> np.ndarray:
        if len(shape) < 2 or (self.c01b and len(shape) != 4):
            needed = "4 dimensions (c01b)" if self.c01b else "2 or more dimensions"
            raise RuntimeError(f"{type(self).__name__} needs a shape of {needed}, got {tuple(shape)}")
        return self.initializer(std=self.gain * float(np.sqrt(self.variance(shape)))).sample(shape)


class Glorot(_Scaled):
    """Glorot's (Xavier's) initialization: variance `gain**2 * 2 / (fan_in + fan_out)`.

    Parameters
    ----------
    initializer : callable
        Makes an initializer from a standard deviation: `Normal` or `Uniform`.
    gain : float or "relu"
        1 for linear and sigmoid units, "relu" (the square root of 2) for rectifiers, `sqrt(2 / (1 + a**2))` for leaky
        ones with leakiness a.
    c01b : bool
        Whether the shape is (channels, rows, columns, filters). Else the first two sizes are the fans, and the product
        of the others is multiplied with both.

    References
    ----------
    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", AISTATS 2010.

    Examples
    --------
    >>> from lasagne_like.init import Glorot, Normal
    >>> Glorot(Normal, gain="relu").sample((20, 10)).shape
    (20, 10)
    """

    def variance(self, shape: tuple[int, ...]) -> float:
        n1, n2 = (shape[0], shape[3]) if self.c01b else shape[:2]
        field = np.prod(shape[1:3] if self.c01b else shape[2:])
        return 2.0 / float((n1 + n2) * field)


class GlorotNormal(Glorot):
    """`Glorot` with the normal distribution.

    Parameters
    ----------
    gain, c01b : as for `Glorot`

    Examples
    --------
    >>> from lasagne_like.init import GlorotNormal
    >>> GlorotNormal("relu").sample((20, 10)).shape
    (20, 10)
    """

    def __init__(self, gain: Any = 1.0, c01b: bool = False) -> None:
        super().__init__(Normal, gain, c01b)


class GlorotUniform(Glorot):
    """`Glorot` with the uniform distribution: bounds `+- gain * sqrt(6 / (fan_in + fan_out))`.

    Parameters
    ----------
    gain, c01b : as for `Glorot`

    Examples
    --------
    >>> from lasagne_like.init import GlorotUniform
    >>> float(abs(GlorotUniform().sample((2, 4))).max()) <= 1.0
    True
    """

    def __init__(self, gain: Any = 1.0, c01b: bool = False) -> None:
        super().__init__(Uniform, gain, c01b)


class He(_Scaled):
    """He's initialization: variance `gain**2 / fan_in`.

    Parameters
    ----------
    initializer, gain : as for `Glorot`
    c01b : bool
        Whether the shape is (channels, rows, columns, filters). Else the fan-in is the first size of a matrix, and the
        product of all but the first size of filters.

    References
    ----------
    He et al., "Delving deep into rectifiers", ICCV 2015.

    Examples
    --------
    >>> from lasagne_like.init import He, Uniform
    >>> He(Uniform).sample((20, 10)).shape
    (20, 10)
    """

    def variance(self, shape: tuple[int, ...]) -> float:
        fan_in = np.prod(shape[:3]) if self.c01b else shape[0] if len(shape) == 2 else np.prod(shape[1:])
        return 1.0 / float(fan_in)


class HeNormal(He):
    """`He` with the normal distribution.

    Parameters
    ----------
    gain, c01b : as for `He`

    Examples
    --------
    >>> from lasagne_like.init import HeNormal
    >>> HeNormal("relu").sample((20, 10)).shape
    (20, 10)
    """

    def __init__(self, gain: Any = 1.0, c01b: bool = False) -> None:
        super().__init__(Normal, gain, c01b)


class HeUniform(He):
    """`He` with the uniform distribution.

    Parameters
    ----------
    gain, c01b : as for `He`

    Examples
    --------
    >>> from lasagne_like.init import HeUniform
    >>> float(abs(HeUniform().sample((3, 10))).max()) <= 1.0
    True
    """

    def __init__(self, gain: Any = 1.0, c01b: bool = False) -> None:
        super().__init__(Uniform, gain, c01b)


class Constant(Initializer):
    """One number everywhere.

    Examples
    --------
    >>> from lasagne_like.init import Constant
    >>> Constant(0.5).sample((2,))
    array([0.5, 0.5])
    """

    def __init__(self, val: Any = 0.0) -> None:
        if not is_expression(val) and np.asarray(val).dtype.kind not in "biuf":
            raise TypeError(f"val of {type(self).__name__} must be a number, got {val!r}")
        self.val = val

    def sample(self, shape: tuple[int, ...]) -> np.ndarray:
        try:
            return np.full(shape, self.val, sj.config.floatX)
        except ValueError:
            what = f"val of {type(self).__name__}"
            raise ValueError(f"{what} has shape {np.shape(self.val)}, which does not fit {tuple(shape)}") from None


class Sparse(Initializer):
    """Matrices of zeros with normally distributed numbers at a few random places of each column.

    Parameters
    ----------
    sparsity : float
        The fraction of each column that is not zero.
    std : float
        The standard deviation of the numbers that are not zero.

    Examples
    --------
    >>> from lasagne_like.init import Sparse
    >>> (Sparse(0.5).sample((4, 3)) != 0).sum(axis=0)
    array([2, 2, 2])
    """

    def __init__(self, sparsity: float = 0.1, std: float = 0.01) -> None:
        check_number(type(self).__name__, sparsity, "sparsity", most=1)
        _check_moments(self, std)
        self.sparsity, self.std = sparsity, std

    def sample(self, shape: tuple[int, ...]) -> np.ndarray:
        if len(shape) != 2:
            raise RuntimeError(f"Sparse needs a shape of 2 dimensions, got {tuple(shape)}")
        rows, columns = shape
        count = int(self.sparsity * rows)
        result = np.zeros(shape)
        for column in range(columns):
            places = get_rng().permutation(rows)[:count]
            result[places, column] = get_rng().normal(0.0, self.std, size=count)
        return floatX(result)


class Orthogonal(Initializer):
    """A matrix whose rows or columns (whichever are fewer) are orthogonal to each other and of length `gain`.

    With more than two dimensions, all but the first count as one.

    Parameters
    ----------
    gain : float or "relu"

    References
    ----------
    Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep linear neural
    networks", 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.init import Orthogonal
    >>> w = Orthogonal().sample((3, 3))
    >>> bool(np.allclose(w @ w.T, np.eye(3)))
    True
    """

    def __init__(self, gain: Any = 1.0) -> None:
        self.gain = _gain(self, gain)

    def sample(self, shape: tuple[int, ...]) -> np.ndarray:
        if len(shape) < 2:
            raise RuntimeError(f"Orthogonal needs a shape of 2 or more dimensions, got {tuple(shape)}")
        flat = (shape[0], int(np.prod(shape[1:])))
        left, _, right = np.linalg.svd(get_rng().normal(0.0, 1.0, flat), full_matrices=False)
        basis = left if left.shape == flat else right
        return floatX(self.gain * basis.reshape(shape))
