"""Decompositions of matrices, as in `numpy.linalg`: `eigh`, `qr`, `svd`.

Matrices are the last two axes, those before them a batch. Matrices of at most 16 rows and columns, both known while a
function is built, are decomposed side by side in the lanes of vectors; but of a batch that is known to have at most
three, only those of at most 8 (or 12, of three). LAPACK decomposes all others, one after the other. Complex matrices
are first turned into real ones by reflections, in a loop over their columns.

No error is raised for the values of a matrix: the factors of a matrix with an entry that is not finite are NaN.
"""

from __future__ import annotations

from typing import NamedTuple

from scanjit import errors, types
from scanjit.ir import Node
from scanjit.ops.decompositions import EIGH, QR, SVD, left_right_values, orthogonal_and_upper, vectors_and_values
from scanjit.ops.parts import is_complex
from scanjit.ops.systems import adjoint, transposed
from scanjit.symbol import TensorLike
from scanjit.tensor import complex_decompositions
from scanjit.tensor.linalg import matrix
from scanjit.tensor.variables import floats

__all__ = ["eigh", "eigvalsh", "qr", "svd", "svdvals"]


class Eigh(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Node
    eigenvectors: Node


class Qr(NamedTuple):
    """A matrix with orthonormal columns, and an upper triangle."""

    Q: Node
    R: Node


class Svd(NamedTuple):
    """Left singular vectors as columns, singular values, right singular vectors as rows."""

    U: Node
    S: Node
    Vh: Node


def eigh(a: TensorLike) -> Eigh:
    """The eigenvalues and eigenvectors of symmetric (complex: Hermitian) matrices: `a @ V = V * w`.

    Parameters
    ----------
    a : tensor_like of shape (..., n, n)
        Only the symmetric part `(a + conj(a.T)) / 2` counts, so that gradients are symmetric.

    Returns
    -------
    tuple of Node
        `(eigenvalues, eigenvectors)`: w of shape (..., n), from the smallest on; V of shape (..., n, n), the vectors
        in its columns. The sign (complex: the phase) of a vector v is the one for which
        `(v / (arange(n) + sqrt(2))).sum()` is real and not negative, whatever the size and the machine. NumPy's may
        differ.

    Notes
    -----
    The gradient of the eigenvalues always exists. That of the vectors divides by differences of eigenvalues. For two
    eigenvalues that are equal, to the last bit, the quotient is taken for 0: right for losses that do not depend on
    which vectors of the common space were chosen and treat both values alike, such as a projection onto that space.
    For eigenvalues that are nearly equal, the gradient of the vectors is as large and as inexact as the quotient.

    Examples
    --------
    >>> import scanjit as sj
    >>> a = sj.matrix("a")
    >>> sj.function([a], sj.eigh(a).eigenvalues, mode="reference")([[2.0, 0.0], [0.0, 1.0]])
    array([1., 2.])
    """
    x = matrix(a, "eigh")
    whole = (x + adjoint(x)) * 0.5
    if is_complex(x):
        return Eigh(*complex_decompositions.eigh(whole))
    rows, values = vectors_and_values(EIGH(whole))
    return Eigh(values, transposed(rows))


def eigvalsh(a: TensorLike) -> Node:
    """The eigenvalues of symmetric matrices, from the smallest on. See `eigh`.

    Examples
    --------
    >>> import scanjit as sj
    >>> a = sj.matrix("a")
    >>> sj.function([a], sj.eigvalsh(a), mode="reference")([[2.0, 0.0], [0.0, 1.0]])
    array([1., 2.])
    """
    return eigh(a).eigenvalues


def matrices(a: TensorLike, name: str) -> Node:
    """Matrices of floats, of any sizes, for a function of this name."""
    (x,) = floats(a)
    if x.ndim < 2:
        raise errors.ShapeError(f"{name} takes matrices: the last two axes of a tensor", got=x.type)
    return x


def _check_whole(x: Node, square: bool, what: str, fix: str) -> None:
    """Raise an error unless the matrices have at least as many columns as rows, or are square."""
    rows, columns = x.type.shape[-2:]
    if types.minimum(rows, columns) != rows or (square and rows != columns):
        raise errors.NotSupportedError(what, got=x.type, fix=fix)


def qr(a: TensorLike, mode: str = "reduced") -> Qr | Node:
    """Matrices with orthonormal columns, and upper triangles: `a = Q @ R`.

    Parameters
    ----------
    a : tensor_like of shape (..., m, n)
    mode : "reduced", "r" for R alone, or "complete".
        "complete" is the same as "reduced" where there are at least as many columns as rows; where there are fewer, or
        that is not known, it is an error: the further columns of Q are any basis of what is left, without a gradient.

    Returns
    -------
    tuple of Node, or Node
        `(Q, R)`, of shapes (..., m, k) and (..., k, n), with k the smaller of m and n. Signs are as in NumPy: the
        diagonal of R is real, and may be negative.

    Notes
    -----
    The gradient exists where the first k columns of `a` are independent.

    Examples
    --------
    >>> import scanjit as sj
    >>> a = sj.matrix("a")
    >>> q, r = sj.qr(a)
    >>> sj.function([a], abs(r), mode="reference")([[3.0, 1.0], [4.0, 2.0]])
    array([[5. , 2.2],
           [0. , 0.4]])
    """
    errors.check_known("mode of qr", mode, ("reduced", "complete", "r"))
    x = matrices(a, "qr")
    if mode == "complete":
        _check_whole(x, False, "qr gives as many columns of Q as there are columns", 'mode="reduced"')
    q, r = complex_decompositions.qr(x) if is_complex(x) else orthogonal_and_upper(QR(x), *x.type.shape[-2:])
    return r if mode == "r" else Qr(q, r)


def svd(a: TensorLike, full_matrices: bool = False, compute_uv: bool = True) -> Svd | Node:
    """The singular values and vectors of matrices: `a = U * s @ Vh`.

    Parameters
    ----------
    a : tensor_like of shape (..., m, n)
    full_matrices : False: k vectors on each side, with k the smaller of m and n. Unlike in NumPy, that is the default.
        True is the same for square matrices. For others, or where that is not known, it is an error: the further
        vectors are any basis of what is left, without a gradient.
    compute_uv : whether to give vectors, or the singular values alone.

    Returns
    -------
    tuple of Node, or Node
        `(U, S, Vh)`, of shapes (..., m, k), (..., k), from the largest value on, and (..., k, n). The rows of Vh have
        the signs that `eigh` gives its vectors.

    Notes
    -----
    The gradient of vectors divides by singular values and by the differences of their squares. A quotient by 0 is
    taken for 0, as in `eigh`.

    Examples
    --------
    >>> import scanjit as sj
    >>> a = sj.matrix("a")
    >>> sj.function([a], sj.svd(a).S, mode="reference")([[3.0, 0.0], [0.0, -4.0], [0.0, 0.0]])
    array([4., 3.])
    """
    x = matrices(a, "svd")
    if full_matrices:
        _check_whole(x, True, "svd gives as many vectors as there are singular values", "full_matrices=False")
    if is_complex(x):
        found = Svd(*complex_decompositions.svd(x))
        return found if compute_uv else found.S
    left, right, values = left_right_values(SVD(x), *x.type.shape[-2:])
    return Svd(transposed(left), values, right) if compute_uv else values


def svdvals(a: TensorLike) -> Node:
    """The singular values of matrices, from the largest on. See `svd`.

    Examples
    --------
    >>> import scanjit as sj
    >>> a = sj.matrix("a")
    >>> sj.function([a], sj.svdvals(a), mode="reference")([[3.0, 0.0], [0.0, -4.0]])
    array([4., 3.])
    """
    _, values, _ = svd(a)
    return values
