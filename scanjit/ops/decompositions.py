"""Decompositions of matrices: `eigh`, `qr`, `svd`. Each op gives all factors side by side in one tensor.

The last two axes are matrices, the axes before them a batch. The derivatives are made of ops with derivatives. A
derivative divides by differences of eigenvalues (or of squares of singular values). If two of them are equal, the
quotient is left out (0). That is right if the result does not depend on which vectors of the common space were chosen.

The ops take real matrices. The gradients of complex ones, in PyTorch's convention, have the same formulas.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scanjit import errors, types
from scanjit.ir import COMPLEX, Node, Op
from scanjit.ops.elementwise import where
from scanjit.ops.samples import FLOATS
from scanjit.ops.shape import CONCATENATE, window
from scanjit.ops.systems import SOLVE, adjoint, of_matrices, places, product, transposed
from scanjit.ops.view import DIMSHUFFLE
from scanjit.signatures import Array, Samples
from scanjit.types import Dimension, Type


def _each(function: Callable[[Array], Array], a: Array, like: tuple[int, ...]) -> Array:
    """Apply a function to each matrix. Its result has the shape `like`. It is NaN for a matrix with an entry that is
    not finite, or for which the function raises."""
    result = np.full((*a.shape[:-2], *like), np.nan, a.dtype)
    for index in np.ndindex(*a.shape[:-2]):
        try:
            if np.isfinite(a[index]).all():
                result[index] = function(a[index])
        except np.linalg.LinAlgError:
            pass
    return result


def _quotient(x: Node, y: Node) -> Node:
    """x / y; 0 where y is 0."""
    return where(y == 0, 0, x / where(y == 0, 1, y))


def _row(x: Node) -> Node:
    """Vectors as matrices of one row."""
    return DIMSHUFFLE(x, order=(*range(x.ndim - 1), None, x.ndim - 1))


def _column(x: Node) -> Node:
    """Vectors as matrices of one column."""
    return DIMSHUFFLE(x, order=(*range(x.ndim), None))


def _diagonal_of(values: Node, x: Node) -> Node:
    """Vectors on the diagonals of matrices like those of `x`, zeros beside."""
    rows, columns = places(x.type.shape[-1])
    return where(rows == columns, _row(values), 0)


def signed(vectors: Array) -> Array:
    """1 or -1 for each row. With this sign, the sum of its entries, divided by their places plus sqrt(2), is not
    negative. So the result does not depend on the routine that computed the vectors. (No vector of rational numbers has
    the sum 0.)"""
    sums = vectors @ (1 / (np.arange(vectors.shape[-1]) + np.sqrt(2))).astype(vectors.dtype)
    return np.where(sums < 0, -1, 1).astype(vectors.dtype)[..., None]


# ---- eigh ------------------------------------------------------------------------------------------------------------


def vectors_and_values(whole: Node) -> tuple[Node, Node]:
    """The eigenvectors of `eigh`, as rows, and the eigenvalues."""
    n, axis = whole.type.shape[-1], whole.ndim - 2
    return window(whole, axis, 0, n), DIMSHUFFLE(window(whole, axis, n, 1), order=(*range(axis), axis + 1))


def _eigh_reference(a: Array) -> Array:
    def one(x: Array) -> Array:
        values, vectors = np.linalg.eigh(x.T)
        return np.concatenate([vectors.T * signed(vectors.T), values[None]])

    n = a.shape[-1]
    return _each(one, a, (n + 1, n))


def of_eigenvectors(values: Node, vectors: Node, of_values: Node, of_vectors: Node) -> Node:
    """The gradient of matrices, given their eigenvalues, their eigenvectors as columns, and the gradients of both."""
    turned = product(adjoint(vectors), of_vectors)
    inner = _quotient((turned - adjoint(turned)) * 0.5, _row(values) - _column(values))
    return product(vectors, product(inner + _diagonal_of(of_values, turned), adjoint(vectors)))


def _eigh_vjp(g: Node, y: Node, a: Node) -> tuple[Node]:
    (of_rows, of_values), (rows, values) = vectors_and_values(g), vectors_and_values(y)
    whole = of_eigenvectors(values, transposed(rows), of_values, transposed(of_rows))
    i, j = places(a.type.shape[-1])
    both = whole + transposed(whole)
    return (where(i < j, both, where(i == j, both * 0.5, 0)),)


def _eigh_samples(rng: np.random.Generator, dtype: str) -> Samples:
    for shape in ((3, 3), (2, 2, 2), (1, 1), (2, 0, 0), (4, 4)):
        n = shape[-1]
        noise = rng.uniform(-0.1, 0.1, shape) + np.diag(np.arange(n) / 2)
        yield ((noise + np.swapaxes(noise, -1, -2)).astype(dtype),), {}


EIGH = of_matrices(
    "eigh",
    lambda n: (n + 1, n),
    reference=_eigh_reference,
    vjp=_eigh_vjp,
    samples=_eigh_samples,
    doc="the eigenvectors of symmetric matrices, as rows, and below them the eigenvalues, from the smallest on; "
    "from the upper triangle; NaN where an entry is not finite",
)


# ---- qr and svd ------------------------------------------------------------------------------------------------------


def _of_any(name: str, wider: int, **rest: object) -> Op:
    """An op of matrices of m rows and n columns, whose result has `min(m, n)` rows and `m + n + wider` columns."""

    def infer(a: Type) -> Type:
        if a.ndim < 2:
            raise errors.ShapeError(f"{name} takes matrices: the last two axes of a tensor", got=a)
        m, n = a.shape[-2:]
        return a.with_shape((*a.shape[:-2], types.minimum(m, n), m + n + wider))

    return Op(name, infer=infer, batch_params=lambda size: {}, dtypes=FLOATS, never_fails=True, **rest)  # type: ignore[arg-type]


def _samples(rng: np.random.Generator, dtype: str) -> Samples:
    for shape in ((3, 3), (4, 2), (2, 2, 4), (1, 1), (2, 0, 3), (2, 0), (5, 4)):
        m, n = shape[-2:]
        yield ((rng.uniform(-0.3, 0.3, shape) + np.eye(m, n) * np.arange(1, n + 1)).astype(dtype),), {}


def _parts(whole: Node, m: Dimension, n: Dimension) -> tuple[Node, Node]:
    """The first m columns, and the next n."""
    axis = whole.ndim - 1
    return window(whole, axis, 0, m), window(whole, axis, m, n)


def orthogonal_and_upper(whole: Node, m: Dimension, n: Dimension) -> tuple[Node, Node]:
    """The factors of `qr`: Q, and R."""
    q, r = _parts(whole, m, n)
    return transposed(q), r


def _qr_reference(a: Array) -> Array:
    m, n = a.shape[-2:]
    return _each(lambda x: np.concatenate([np.linalg.qr(x)[0].T, np.linalg.qr(x)[1]], 1), a, (min(m, n), m + n))


def of_orthogonal_and_upper(a: Node, q: Node, r: Node, of_q: Node, of_r: Node) -> Node:
    """The gradient of matrices `a`, given the factors of `qr` and their gradients.

    S. Walter, L. Lehmann and R. Lamour, "On evaluating higher-order derivatives of the QR decomposition" (2012), for
    the first columns, as many as there are rows. The others are a product: `a[:, k:] = Q @ R[:, k:]`. The diagonal of R
    is real."""
    m, n = a.type.shape[-2:]
    k, last = types.minimum(m, n), a.ndim - 1
    rest, of_rest = (window(x, last, k, n - k) for x in (a, of_r))
    of_q = of_q + product(rest, adjoint(of_rest))
    square, of_square = (window(x, last, 0, k) for x in (r, of_r))
    inner = product(square, adjoint(of_square)) - product(adjoint(of_q), q)
    i, j = places(k)
    below, diagonal = where(i > j, inner, 0), where(i == j, (inner + adjoint(inner)) * 0.5, 0)
    of_first = adjoint(SOLVE(square, adjoint(of_q + product(q, below + adjoint(below) + diagonal)), trans=False))
    return CONCATENATE(of_first, product(q, of_rest), axis=last)


def _qr_vjp(g: Node, y: Node, a: Node) -> tuple[Node]:
    m, n = a.type.shape[-2:]
    return (of_orthogonal_and_upper(a, *orthogonal_and_upper(y, m, n), *orthogonal_and_upper(g, m, n)),)


QR = _of_any(
    "qr",
    0,
    reference=_qr_reference,
    vjp=_qr_vjp,
    samples=_samples,
    doc="the factors in `a = Q @ R`: `Q.T` and R side by side; NaN where an entry is not finite",
)


def left_right_values(whole: Node, m: Dimension, n: Dimension) -> tuple[Node, Node, Node]:
    """The factors of `svd`: the transposed left vectors, the transposed right vectors, the singular values."""
    left, right = _parts(whole, m, n)
    return left, right, DIMSHUFFLE(window(whole, whole.ndim - 1, m + n, 1), order=tuple(range(whole.ndim - 1)))


def _svd_reference(a: Array) -> Array:
    def one(x: Array) -> Array:
        u, s, v = np.linalg.svd(x, full_matrices=False)
        return np.concatenate([u.T * signed(v), v * signed(v), s[:, None]], 1)

    m, n = a.shape[-2:]
    return _each(one, a, (min(m, n), m + n + 1))


def of_singular_vectors(u: Node, v: Node, s: Node, of_u: Node, of_v: Node, of_s: Node) -> Node:
    """The gradient of matrices, given the adjoint left vectors, the adjoint right vectors, the singular values, and the
    gradients of all three."""
    row, column = _row(s), _column(s)
    gaps = (row - column) * (row + column)
    along_u, along_v = product(u, adjoint(of_u)), product(v, adjoint(of_v))
    turned_u, turned_v = (x - adjoint(x) for x in (along_u, along_v))
    middle = _quotient(turned_u, gaps) * row + column * _quotient(turned_v, gaps) + _diagonal_of(of_s, along_u)
    if u.op is COMPLEX:  # a left vector may turn against its right one
        i, j = places(s.type.shape[-1])
        middle = middle + where(i == j, _quotient(turned_u * 0.5, row), 0)
    beside_u = _quotient(of_u - product(adjoint(along_u), u), column)
    beside_v = _quotient(of_v - product(adjoint(along_v), v), column)
    inner = product(middle, v) + beside_v
    return product(adjoint(u), inner) + product(adjoint(beside_u), v)


def _svd_vjp(g: Node, y: Node, a: Node) -> tuple[Node]:
    m, n = a.type.shape[-2:]
    return (of_singular_vectors(*left_right_values(y, m, n), *left_right_values(g, m, n)),)


SVD = _of_any(
    "svd",
    1,
    reference=_svd_reference,
    vjp=_svd_vjp,
    samples=_samples,
    doc="the factors in `a = U @ diag(s) @ V.T`: `U.T`, `V.T` and s side by side, s from the largest on; NaN where an "
    "entry is not finite",
)
