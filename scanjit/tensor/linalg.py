"""Systems of equations, factors, inverses and determinants of matrices, as in `numpy.linalg`.

Matrices are the last two axes, those before them a batch. Where matrices are known to be small while a function is
built (at most 8 rows), what is computed becomes straight-line code, which fuses with what is around it; others are
LAPACK's. Nothing is raised for the values of a matrix: what does not exist is NaN, for that matrix alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from scanjit import errors, types
from scanjit.ir import COMPLEX, Node, Op
from scanjit.ops.elementwise import where
from scanjit.ops.expect import SPECIFY_SHAPE
from scanjit.ops.parts import is_complex
from scanjit.ops.shape import window
from scanjit.ops.stretch import broadcast_to
from scanjit.ops.systems import (
    CHOLESKY,
    DET,
    DET_SIGN,
    LOGABSDET,
    SOLVE,
    TRIANGULAR_SOLVE,
    identity,
    product,
    side_by_side,
    transposed,
)
from scanjit.ops.view import DIMSHUFFLE
from scanjit.symbol import TensorLike
from scanjit.tensor import complex_matrices
from scanjit.tensor.complex_numbers import angle, conj
from scanjit.tensor.variables import floats, integer, promoted

__all__ = [
    "cho_solve",
    "cholesky",
    "det",
    "inv",
    "logdet",
    "matrix_power",
    "slogdet",
    "solve",
    "solve_triangular",
]


class Slogdet(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Node
    logabsdet: Node


def solve(a: TensorLike, b: TensorLike) -> Node:
    """x in `a @ x = b`.

    Parameters
    ----------
    a : tensor_like of shape (..., n, n)
    b : tensor_like of shape (n,), or (..., n, k)
        A vector, or matrices, as in NumPy 2: only what has one axis is a vector. Batches are broadcast.

    Returns
    -------
    Node
        Of shape (..., n) for a vector, else (..., n, k). All of the solution is NaN for a matrix that is singular (one
        for which elimination meets a pivot that is exactly 0).

    Raises
    ------
    ShapeError : the matrices are not square, or b has another number of rows; now, or when the function runs.

    Examples
    --------
    >>> import scanjit as sj
    >>> a, b = sj.matrix("a"), sj.vector("b")
    >>> f = sj.function([a, b], sj.solve(a, b), mode="reference")
    >>> f([[2.0, 0.0], [1.0, 1.0]], [2.0, 3.0])
    array([1., 2.])
    """
    return _solved(SOLVE, a, b, "solve", trans=False)


def solve_triangular(
    a: TensorLike, b: TensorLike, lower: bool = True, trans: bool = False, unit_diagonal: bool = False
) -> Node:
    """x in `t @ x = b`, where t is a triangle of a. The other triangle is not read.

    Parameters
    ----------
    a : tensor_like of shape (..., n, n)
    b : tensor_like of shape (n,), or (..., n, k)
        As for `solve`.
    lower : whether t is the lower triangle.
    trans : whether to solve `t.T @ x = b`.
    unit_diagonal : whether to take the diagonal of t for ones, whatever it is.

    Returns
    -------
    Node
        As of `solve`: NaN where there is a 0 on the diagonal.

    Examples
    --------
    >>> import scanjit as sj
    >>> a, b = sj.matrix("a"), sj.vector("b")
    >>> f = sj.function([a, b], sj.solve_triangular(a, b), mode="reference")
    >>> f([[2.0, 7.0], [1.0, 1.0]], [2.0, 3.0])
    array([1., 2.])
    """
    flags = {"lower": bool(lower), "trans": bool(trans), "unit": bool(unit_diagonal)}
    return _solved(TRIANGULAR_SOLVE, a, b, "solve_triangular", **flags)


def cho_solve(c_and_lower: tuple[TensorLike, bool], b: TensorLike) -> Node:
    """x in `a @ x = b`, with the Cholesky factor of a, as in `scipy.linalg`.

    Parameters
    ----------
    c_and_lower : tuple of a tensor_like of shape (..., n, n), and bool
        The factor, and whether it is the lower one: `(sj.cholesky(a), True)`.
    b : tensor_like of shape (n,), or (..., n, k)
        As for `solve`.

    Returns
    -------
    Node
        As of `solve`.

    Examples
    --------
    >>> import scanjit as sj
    >>> a, b = sj.matrix("a"), sj.vector("b")
    >>> f = sj.function([a, b], sj.cho_solve((sj.cholesky(a), True), b), mode="reference")
    >>> f([[4.0, 0.0], [0.0, 1.0]], [2.0, 3.0])
    array([0.5, 3. ])
    """
    given: object = c_and_lower
    if isinstance(given, Node) or not isinstance(given, Sequence) or len(given) != 2:
        raise errors.ArgumentError(
            "cho_solve takes a factor, and whether it is the lower one, as a tuple",
            got=repr(given),
            expected="(sj.cholesky(a), True)",
        )
    c, lower = given
    if lower:
        return _adjoint_solved(c, solve_triangular(c, b), lower=True)
    return solve_triangular(c, _adjoint_solved(c, b, lower=False), lower=False)


def _adjoint_solved(c: TensorLike, b: TensorLike, lower: bool) -> Node:
    """x in `conj(t.T) @ x = b`, where t is a triangle of c."""
    return conj(solve_triangular(c, conj(b), lower=lower, trans=True))


def _solved(op: Op, a: Any, b: Any, name: str, **flags: bool) -> Node:
    """The solution by an op, of operands of one dtype and batch."""
    a, b = floats(a, b)
    a = _square(a, name)
    if b.ndim == 0:
        raise errors.ShapeError(f"the right side of {name} is a vector or matrices", got=b.type)
    vector = b.ndim == 1
    if vector:
        n = a.type.shape[-1]
        types.equate(
            b.type.shape[0],
            n,
            f"the right side of {name} with matrices {types.shape_text(a.type.shape)}",
            (b.type.shape, (n,)),
        )
        b = DIMSHUFFLE(b, order=(0, None))
    if a.ndim == 2:
        return side_by_side(op, a, b, b.ndim - 2, **flags) if b.ndim > 2 else _as_given(op(a, b, **flags), vector)
    batch = types.broadcast([a.type.shape[:-2], b.type.shape[:-2]], f"batches of {name}")
    return _as_given(op(*(broadcast_to(y, (*batch, *y.type.shape[-2:])) for y in (a, b)), **flags), vector)


def _as_given(x: Node, vector: bool) -> Node:
    """Turn the solution for a vector, a matrix of one column, back into a vector."""
    return DIMSHUFFLE(x, order=tuple(range(x.ndim - 1))) if vector else x


def matrix(a: Any, name: str) -> Node:
    """Square matrices of floats, for a function of this name."""
    (node,) = floats(a)
    return _square(node, name)


def _square(a: Node, name: str) -> Node:
    """Matrices whose two sizes are one: an error of the function of this name, now or when it is called, if not."""
    if a.ndim < 2:
        raise errors.ShapeError(f"{name} takes matrices: the last two axes of a tensor", got=a.type)
    shape = (*a.type.shape[:-1], a.type.shape[-2])
    return a if a.type.shape == shape else SPECIFY_SHAPE(a, shape=shape, what=f"the matrix of {name}")


def inv(a: TensorLike) -> Node:
    """The inverses of square matrices; NaN for a singular one. To multiply by an inverse, `solve` is faster.

    Examples
    --------
    >>> import scanjit as sj
    >>> a = sj.matrix("a")
    >>> sj.function([a], sj.inv(a), mode="reference")([[2.0, 0.0], [0.0, 4.0]])
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    x = matrix(a, "inv")
    return SOLVE(x, identity(x), trans=False)


def cholesky(a: TensorLike, *, upper: bool = False) -> Node:
    """The lower triangular factor L in `L @ L.T = a`, for symmetric positive definite matrices; for complex ones,
    `L @ conj(L.T)`.

    Parameters
    ----------
    a : tensor_like of shape (..., n, n)
        Only the symmetric (Hermitian) part `(a + conj(a.T)) / 2` counts, so that gradients are symmetric. (NumPy looks
        at the lower triangle alone; for symmetric matrices that is the same.)
    upper : whether to give `conj(L.T)`.

    Returns
    -------
    Node
        Of the shape of `a`. Where a matrix is not positive definite, the triangle is NaN.

    Examples
    --------
    >>> import scanjit as sj
    >>> a = sj.matrix("a")
    >>> sj.function([a], sj.cholesky(a), mode="reference")([[4.0, 2.0], [2.0, 2.0]])
    array([[2., 0.],
           [1., 1.]])
    """
    x = matrix(a, "cholesky")
    factor = complex_matrices.cholesky_factor if is_complex(x) else CHOLESKY
    lower = factor((x + transposed(conj(x))) * 0.5)
    return transposed(conj(lower)) if upper else lower


def det(a: TensorLike) -> Node:
    """The determinants of square matrices. (For their logarithms, which do not overflow, see `slogdet`.)

    Notes
    -----
    The gradient of matrices of at most 3 rows is exact; of larger ones it needs the inverse, and is NaN where that does
    not exist.

    Examples
    --------
    >>> import scanjit as sj
    >>> a = sj.matrix("a")
    >>> sj.function([a], sj.det(a), mode="reference")([[2.0, 1.0], [1.0, 3.0]])
    array(5.)
    """
    x = matrix(a, "det")
    n = x.type.shape[-1]
    if isinstance(n, int) and 1 <= n <= 3:
        return _expanded(x, n)
    return complex_matrices.determinant(x) if is_complex(x) else DET(x)


def _expanded(x: Node, n: int) -> Node:
    """The determinant by cofactors. Its error is a few units in the last place of the sum of the absolute products: no
    more than what rounding of the entries makes of it, but the relative error of a small difference is large."""
    order = tuple(range(x.ndim - 2))

    def entry(i: int, j: int) -> Node:
        return DIMSHUFFLE(window(window(x, x.ndim - 2, i, 1), x.ndim - 1, j, 1), order=order)

    def minor(i: int, j: int) -> Node:
        """The determinant of columns i and j in the last two rows."""
        return entry(n - 2, i) * entry(n - 1, j) - entry(n - 2, j) * entry(n - 1, i)

    if n == 1:
        return entry(0, 0)
    if n == 2:
        return minor(0, 1)
    return entry(0, 0) * minor(1, 2) - entry(0, 1) * minor(0, 2) + entry(0, 2) * minor(0, 1)


def slogdet(a: TensorLike) -> Slogdet:
    """The signs of the determinants of square matrices, and the logarithms of their absolute values.

    Returns
    -------
    tuple of Node
        `(sign, logabsdet)`; for a singular matrix 0 and -inf. The sign of a complex determinant has the
        size 1. The gradient of `logabsdet` is the transposed inverse.

    Examples
    --------
    >>> import scanjit as sj
    >>> a = sj.matrix("a")
    >>> sign, logabsdet = sj.slogdet(a)
    >>> sj.function([a], [sign, sj.exp(logabsdet)], mode="reference")([[0.0, 2.0], [3.0, 0.0]])
    [array(-1.), array(6.)]
    """
    x = matrix(a, "slogdet")
    return Slogdet(*complex_matrices.sign_and_log(x)) if is_complex(x) else Slogdet(DET_SIGN(x), LOGABSDET(x))


def logdet(a: TensorLike) -> Node:
    """The logarithms of the determinants of square matrices: -inf for a singular one, NaN for a negative determinant
    (of complex matrices: a logarithm whose imaginary part is the angle).

    Examples
    --------
    >>> import scanjit as sj
    >>> a = sj.matrix("a")
    >>> sj.function([a], sj.exp(sj.logdet(a)), mode="reference")([[2.0, 0.0], [0.0, 3.0]])
    array(6.)
    """
    sign, logabsdet = slogdet(a)
    if is_complex(sign):
        return COMPLEX(logabsdet, angle(sign))
    return where(sign < 0, float("nan"), logabsdet)


def matrix_power(a: TensorLike, n: int) -> Node:
    """Square matrices times themselves: `a @ a @ a` for n = 3, the identity for 0, the power of the inverse below.

    Parameters
    ----------
    a : tensor_like of shape (..., m, m)
        Integers stay integers, unless n is negative.
    n : a Python integer. The power is about `log2(n)` squares, and as many further products at most.

    Examples
    --------
    >>> import scanjit as sj
    >>> a = sj.matrix("a")
    >>> sj.function([a], sj.matrix_power(a, 3), mode="reference")([[1.0, 1.0], [0.0, 1.0]])
    array([[1., 3.],
           [0., 1.]])
    """
    n = integer(n, "the exponent of matrix_power")
    (square,) = promoted([a])
    square = _square(square, "matrix_power")
    if n < 0:
        square, n = inv(square), -n
    if n == 0:  # the shape of the identity is checked, as nothing reads the matrices
        return SPECIFY_SHAPE(identity(square), shape=promoted([a])[0].type.shape, what="the matrix of matrix_power")
    power = None
    while n:
        if n & 1:
            power = square if power is None else product(power, square)
        n >>= 1
        if n:
            square = product(square, square)
    assert power is not None
    return power
