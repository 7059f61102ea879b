"""The exponential of matrices: a fraction of two polynomials near zero, squared as often as needed."""

from scanjit.ir import Node
from scanjit.loops.ifelse import ifelse
from scanjit.loops.scan import scan
from scanjit.ops.parts import pieces, size_squared
from scanjit.ops.systems import identity, product
from scanjit.symbol import TensorLike
from scanjit.tensor import arange, ceil, exp2, isfinite, log2, maximum, solve, sqrt, stop_gradient, where
from scanjit.tensor.linalg import matrix

NEAR = 5.371920351148152
"""Up to this norm, the fraction is exact to the rounding of float64 (N. Higham, "The scaling and squaring method for
the matrix exponential revisited", 2005, table 2.3)."""
MOST = 64
"""Matrices are halved at most this many times."""
_NUMBERS = (
    (64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600)
    + (670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1)
)  # fmt: skip
COEFFICIENTS = tuple(number / _NUMBERS[0] for number in _NUMBERS)
"""The coefficients of the polynomial p in `exp(x) = p(x) / p(-x)`, from the constant on."""


def expm(a: TensorLike) -> Node:
    """The exponentials of square matrices, as in `scipy.linalg`: `1 + a + a @ a / 2 + ...`.

    Parameters
    ----------
    a : tensor_like of shape (..., n, n)

    Returns
    -------
    Node
        Of the shape of `a`; NaN for a matrix with an entry that is not finite, or a norm above 1e19.

    Notes
    -----
    Each matrix is halved until its norm is small, then a Pade approximation of order 13 is squared as often. The loop
    over these squares ends where the largest matrix of a batch is done.

    Examples
    --------
    >>> import scanjit as sj
    >>> a = sj.matrix("a")
    >>> sj.function([a], sj.expm(a), mode="reference")([[0.0, 3.0], [0.0, 0.0]])
    array([[1., 3.],
           [0., 1.]])
    """
    x = matrix(a, "expm")
    if x.type.shape[-1] == 0:
        return x
    norm = stop_gradient(sqrt(size_squared(x).sum((-2, -1), keepdims=True)))
    fits = isfinite(norm) & (norm <= NEAR * 2.0**MOST)
    halvings = where(fits, maximum(ceil(log2(maximum(where(fits, norm, 0), NEAR) / NEAR)), 0), 0)
    power = _near(where(fits, x, 0) * exp2(-halvings))

    def square(k: Node, y: Node) -> Node:
        return ifelse((k < halvings).any(), lambda: where(k < halvings, product(y, y), y), y)

    return where(fits, scan(square, arange(MOST, dtype=norm.dtype), power)[-1], float("nan"))


def _near(x: Node) -> Node:
    """The exponential of matrices of small norm."""
    one = identity(pieces(x)[0])
    second = product(x, x)
    fourth = product(second, second)
    sixth = product(second, fourth)
    powers = (one, second, fourth, sixth)

    def polynomial(first: int) -> Node:
        """Every other term, as a polynomial of the square."""
        low, *higher = [COEFFICIENTS[k] for k in range(first, 14, 2)]
        c = [coefficient * power for coefficient, power in zip(higher, powers[1:] * 2, strict=True)]
        return low * one + c[0] + c[1] + c[2] + product(sixth, c[3] + c[4] + c[5])

    odd, even = product(x, polynomial(1)), polynomial(0)
    return solve(even - odd, even + odd)
