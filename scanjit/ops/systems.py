"""Systems of linear equations and the factors that solve them: `solve`, `cholesky`, `triangular_solve`, `lu`,
determinants.

The last two axes are matrices, the axes before them a batch; all operands have the same batch. The derivatives use the
same ops, so there are derivatives of any order. A matrix without a solution (or factor) gives NaN in its own result;
nothing is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from scanjit import errors, types
from scanjit.ir import COMPLEX, Node, Op
from scanjit.ops.contraction import contract
from scanjit.ops.elementwise import where
from scanjit.ops.promotion import cast
from scanjit.ops.samples import FLOATS
from scanjit.ops.shape import CONCATENATE, IOTA, RESHAPE, window
from scanjit.ops.stretch import all_over_batch, broadcast_to
from scanjit.ops.view import DIMSHUFFLE
from scanjit.signatures import Array, OpFunction, Parameter, Samples
from scanjit.types import Dimension, Type

EXTRA = 3
"""The rows of the result of `lu` below the factors: the order, its inverse, the signs."""


# ---- matrices --------------------------------------------------------------------------------------------------------


def _square(a: Type, name: str) -> Dimension:
    """The size of square matrices."""
    if a.ndim < 2:
        raise errors.ShapeError(f"{name} takes matrices", got=a)
    if not a.kind.floating:
        raise errors.InternalError(f"{name} takes floats", got=a)
    rows, columns = a.shape[-2:]
    return types.equate(rows, columns, f"the matrix of {name}", shapes=(a.shape, (*a.shape[:-1], rows)))


def _system(a: Type, b: Type, name: str) -> Type:
    """The type of x in `a @ x = b`."""
    n = _square(a, name)
    if a.dtype != b.dtype or a.ndim != b.ndim:
        raise errors.InternalError(f"{name} takes operands of one dtype and batch", got=f"{a} and {b}")
    fitting = (*a.shape[:-2], n, b.shape[-1])
    what = f"the right side of {name} with matrices {types.shape_text(a.shape)}"
    shape = [types.equate(d, w, what, shapes=(b.shape, fitting)) for d, w in zip(b.shape, fitting, strict=True)]
    return b.with_shape(shape)


def transposed(x: Node) -> Node:
    """Matrices with rows and columns exchanged."""
    return DIMSHUFFLE(x, order=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def adjoint(x: Node) -> Node:
    """Matrices with rows and columns exchanged; complex ones conjugated too."""
    return COMPLEX(transposed(x.args[0]), -transposed(x.args[1])) if x.op is COMPLEX else transposed(x)


def product(a: Node, b: Node) -> Node:
    """Products of matrices, batch by batch."""
    batch = range(3, a.ndim + 1)
    return contract(a, b, [*batch, 0, 1], [*batch, 1, 2], [*batch, 0, 2])


def places(n: Dimension) -> tuple[Node, Node]:
    """The row (as a column) and the column (as a row) of each entry of a matrix."""
    at = IOTA(length=n)
    return DIMSHUFFLE(at, order=(0, None)), DIMSHUFFLE(at, order=(None, 0))


def identity(a: Node) -> Node:
    """The identity for each matrix of `a`."""
    rows, columns = places(a.type.shape[-1])
    return broadcast_to(cast(rows == columns, a.dtype), a.type.shape)


def _triangle(x: Node, lower: bool, strict: bool) -> Node:
    rows, columns = places(x.type.shape[-1])
    first, second = (rows, columns) if lower else (columns, rows)
    return where(first > second if strict else first >= second, x, 0)


def _lower_halved(x: Node) -> Node:
    """The lower triangle with half of the diagonal. For a symmetric matrix, this plus its transpose is the matrix."""
    rows, columns = places(x.type.shape[-1])
    return where(rows > columns, x, where(rows == columns, x * 0.5, 0))


def side_by_side(op: Op, a: Node, b: Node, count: int, **params: Parameter) -> Node:
    """Solve a system in which only the right sides have the first `count` axes of `b`. These axes become columns of one
    right side, so that each matrix is factored once."""
    ndim, columns = b.ndim, b.type.shape[:count]
    moved = DIMSHUFFLE(b, order=(*range(count, ndim - 1), *range(count), ndim - 1))
    rows, width = moved.type.shape[: ndim - 1 - count], b.type.shape[-1]
    x = op(a, RESHAPE(moved, shape=(*rows, types.product(columns) * width)), **params)
    parted = RESHAPE(x, shape=(*rows, *columns, width))
    return DIMSHUFFLE(parted, order=(*range(ndim - 1 - count, ndim - 1), *range(ndim - 1 - count), ndim - 1))


def _batch_of_systems(
    op: Op, args: Sequence[Node], batched: Sequence[bool], size: Dimension, **params: Parameter
) -> tuple[Node, bool]:
    if not batched[0]:
        return side_by_side(op, args[0], args[1], 1, **params), True
    return op(*all_over_batch(args, batched, size), **params), True


def _each(function: OpFunction[Array], *arrays: Array) -> Array:
    """Apply a function of NumPy to all matrices. If it raises for a matrix, the result of that matrix is NaN."""
    try:
        return np.asarray(function(*arrays))
    except np.linalg.LinAlgError:
        if arrays[0].ndim == 2:
            return np.full(arrays[-1].shape, np.nan, arrays[0].dtype)
        return np.stack([_each(function, *parts) for parts in zip(*arrays, strict=True)])


def _matrices(rng: np.random.Generator, dtype: str, *shapes: tuple[int, ...]) -> Iterator[Array]:
    """Random matrices with a dominant diagonal, so that none of their factors is nearly singular."""
    for shape in shapes:
        noise = rng.uniform(-1, 1, shape)
        yield np.asarray(noise + shape[-1] * np.eye(shape[-1]), dtype)


# ---- solve -----------------------------------------------------------------------------------------------------------


def _solve_reference(a: Array, b: Array, *, trans: bool) -> Array:
    return _each(np.linalg.solve, np.swapaxes(a, -1, -2) if trans else a, b)


def _solve_vjp(g: Node, x: Node, a: Node, b: Node, *, trans: bool) -> tuple[Node, Node]:
    of_b = SOLVE(a, g, trans=not trans)
    return -(product(x, transposed(of_b)) if trans else product(of_b, transposed(x))), of_b


def _solve_samples(rng: np.random.Generator, dtype: str) -> Samples:
    shapes: tuple[tuple[int, ...], ...] = ((3, 3), (2, 2, 2), (1, 1), (0, 0), (9, 9))
    for k, a in enumerate(_matrices(rng, dtype, *shapes)):
        b = rng.normal(size=(*a.shape[:-1], 2 if k else 1)).astype(dtype)
        yield (a[..., ::-1, :].copy() if k == 0 else a, b), {"trans": k % 2 == 1}


def _solve_of_complex(a: Node, b: Node, *, trans: bool) -> Node:
    """The real and the imaginary part of the solution are that of one real system, with twice as many rows."""
    (p, q), (u, v) = (transposed(a) if trans else a).args, b.args
    rows, n = p.ndim - 2, p.type.shape[-1]
    system = [CONCATENATE(*half, axis=rows + 1) for half in ((p, -q), (q, p))]
    found = SOLVE(CONCATENATE(*system, axis=rows), CONCATENATE(u, v, axis=rows), trans=False)
    return COMPLEX(window(found, rows, 0, n), window(found, rows, n, n))


SOLVE: Op = Op(
    "solve",
    never_fails=True,
    of_complex=_solve_of_complex,
    infer=lambda a, b, *, trans: _system(a, b, "solve"),
    reference=_solve_reference,
    vjp=_solve_vjp,
    batch=lambda *given, **params: _batch_of_systems(SOLVE, *given, **params),
    samples=_solve_samples,
    dtypes=FLOATS,
    doc="x in `a @ x = b` (`trans`: `a.T @ x = b`), for matrices; all of it NaN where a is singular",
)


# ---- triangular systems ----------------------------------------------------------------------------------------------


def _triangular_reference(a: Array, b: Array, *, lower: bool, trans: bool, unit: bool) -> Array:
    """Substitution, row after row."""
    n = a.shape[-1]
    x = b.copy()
    if trans:
        a, lower = np.swapaxes(a, -1, -2), not lower
    for i in range(n) if lower else reversed(range(n)):
        done = slice(0, i) if lower else slice(i + 1, n)
        x[..., i, :] -= np.einsum("...j,...jk->...k", a[..., i, done], x[..., done, :])
        if not unit:
            x[..., i, :] /= a[..., i, i, None]
    singular = (np.diagonal(a, axis1=-2, axis2=-1) == 0).any(-1) & (not unit)
    return np.where(singular[..., None, None], np.asarray(np.nan, x.dtype), x)


def _triangular_vjp(g: Node, x: Node, a: Node, b: Node, *, lower: bool, trans: bool, unit: bool) -> tuple[Node, Node]:
    of_b = TRIANGULAR_SOLVE(a, g, lower=lower, trans=not trans, unit=unit)
    of_a = product(x, transposed(of_b)) if trans else product(of_b, transposed(x))
    return -_triangle(of_a, lower, unit), of_b


def _interleaved(x: Node, y: Node, axis: int) -> Node:
    """The entries of two tensors in turn, along an axis."""
    order = (*range(axis + 1), None, *range(axis + 1, x.ndim))
    both = CONCATENATE(*(DIMSHUFFLE(part, order=order) for part in (x, y)), axis=axis + 1)
    shape = x.type.shape
    return RESHAPE(both, shape=(*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]))


def _triangular_of_complex(a: Node, b: Node, *, lower: bool, trans: bool, unit: bool) -> Node:
    """Each number is a block of a real system, `[[re, -im], [im, re]]`. If the diagonal is ones, that is a triangle."""
    if trans:
        a, lower = transposed(a), not lower
    i, j = places(a.type.shape[-1])
    if not unit:
        diagonal = where(i == j, a, 0).sum(-1)[..., None]
        singular = (diagonal == 0).any((-2, -1))[..., None, None]
        a, b = (x / where(diagonal == 0, 1, diagonal) for x in (a, b))
    (p, q), (real, imaginary) = (where(i == j, 0, part) for part in a.args), b.args
    *batch, n, columns = b.type.shape
    rows = len(batch) + 1
    system = _interleaved(_interleaved(p, -q, rows), _interleaved(q, p, rows), rows - 1)
    given = _interleaved(real, imaginary, rows - 1)
    found = RESHAPE(TRIANGULAR_SOLVE(system, given, lower=lower, trans=False, unit=True), shape=(*batch, n, 2, columns))
    order = (*range(rows), rows + 1)
    x = COMPLEX(*(DIMSHUFFLE(window(found, rows, k, 1), order=order) for k in (0, 1)))
    return x if unit else where(singular, np.nan, x)


def _triangular_samples(rng: np.random.Generator, dtype: str) -> Samples:
    flags = ((True, False, False), (False, True, False), (True, True, True), (False, False, True), (True, True, False))
    shapes: tuple[tuple[int, ...], ...] = ((3, 3), (2, 2, 2), (3, 3), (1, 0, 0), (9, 9))
    for a, (lower, trans, unit) in zip(_matrices(rng, dtype, *shapes), flags, strict=True):
        b = rng.normal(size=(*a.shape[:-1], 2)).astype(dtype)
        yield (a, b), {"lower": lower, "trans": trans, "unit": unit}


TRIANGULAR_SOLVE: Op = Op(
    "triangular_solve",
    never_fails=True,
    of_complex=_triangular_of_complex,
    infer=lambda a, b, *, lower, trans, unit: _system(a, b, "solve_triangular"),
    reference=_triangular_reference,
    vjp=_triangular_vjp,
    batch=lambda *given, **params: _batch_of_systems(TRIANGULAR_SOLVE, *given, **params),
    samples=_triangular_samples,
    dtypes=FLOATS,
    doc="x in `t @ x = b` (`trans`: `t.T @ x = b`), t being the lower or upper triangle of a, with ones on its "
    "diagonal if `unit`; all of it NaN where there is a zero on the diagonal",
)


# ---- cholesky --------------------------------------------------------------------------------------------------------


def _cholesky_reference(a: Array) -> Array:
    """NumPy's; where it raises, the lower triangle is NaN."""
    return np.tril(_each(np.linalg.cholesky, a)) if a.size else a.copy()


def _cholesky_vjp(g: Node, factor: Node, a: Node) -> tuple[Node]:
    """I. Murray, "Differentiation of the Cholesky decomposition" (2016), equation 10, for the lower triangle alone."""
    inner = TRIANGULAR_SOLVE(factor, _lower_halved(product(transposed(factor), g)), lower=True, trans=True, unit=False)
    both = TRIANGULAR_SOLVE(factor, transposed(inner), lower=True, trans=True, unit=False)
    return (_lower_halved(both + transposed(both)),)


def _cholesky_samples(rng: np.random.Generator, dtype: str) -> Samples:
    for a in _matrices(rng, dtype, (3, 3), (2, 2, 2), (1, 1), (2, 0, 0), (9, 9)):
        yield (a,), {}


def of_matrices(name: str, last: Callable[[Dimension], tuple[Dimension, ...]], what: str = "", **rest: Parameter) -> Op:
    """An op of square matrices. `last(n)` are the last two sizes of its result, instead of n rows and n columns. `what`
    is its name in errors, if it is not `name`."""

    def infer(a: Type) -> Type:
        n = _square(a, what or name)
        return a.with_shape((*a.shape[:-2], *last(n)))

    return Op(name, infer=infer, batch_params=lambda size: {}, dtypes=FLOATS, never_fails=True, **rest)


CHOLESKY = of_matrices(
    "cholesky",
    lambda n: (n, n),
    reference=_cholesky_reference,
    vjp=_cholesky_vjp,
    samples=_cholesky_samples,
    doc="lower triangular L with `L @ L.T = a`, from the lower triangle of a; NaN (its lower triangle) where a is not "
    "positive definite",
)


# ---- lu --------------------------------------------------------------------------------------------------------------


def _lu_reference(a: Array) -> Array:
    """Elimination with exchanges of columns."""
    n, batch = a.shape[-1], a.shape[:-2]
    result = np.empty((*batch, n + EXTRA, n), a.dtype)
    for index in np.ndindex(*batch):
        f, order, signs = a[index].copy(), np.arange(n), np.ones(n)
        for k in range(n):
            best = k + int(np.argmax(np.abs(f[k, k:])))
            if best != k:
                f[:, [k, best]], order[[k, best]], signs[k] = f[:, [best, k]], order[[best, k]], -1
            if f[k, k] != 0:
                f[k, k + 1 :] /= f[k, k]
                f[k + 1 :, k + 1 :] -= np.outer(f[k + 1 :, k], f[k, k + 1 :])
        result[index] = np.concatenate([f, order[None], np.argsort(order)[None], signs[None]])
    return result


def _lu_samples(rng: np.random.Generator, dtype: str) -> Samples:
    for a in _matrices(rng, dtype, (3, 3), (2, 2, 2), (1, 1), (2, 0, 0), (9, 9)):
        yield (a[..., ::-1].copy(),), {}


LU = of_matrices(
    "lu",
    lambda n: (n + EXTRA, n),
    reference=_lu_reference,
    samples=_lu_samples,
    doc="`a[:, order] = L @ U`, U with ones on its diagonal: the factors in one matrix, and as further rows the order, "
    "its inverse, and -1 for each exchange of columns (else 1)",
)
"""The op of which `solve` and determinants are made if LAPACK computes them. LAPACK sees our rows as columns."""


# ---- determinants ----------------------------------------------------------------------------------------------------


def _stretched(x: Node) -> Node:
    """Turn one number for each matrix into matrices of one row and one column."""
    return DIMSHUFFLE(x, order=(*range(x.ndim), None, None))


def _inverse_transposed(a: Node) -> Node:
    return SOLVE(a, identity(a), trans=True)


def _det_samples(rng: np.random.Generator, dtype: str) -> Samples:
    for k, a in enumerate(_matrices(rng, dtype, (3, 3), (2, 4, 4), (1, 1), (9, 9), (0, 0))):
        yield ((a / 4 if k else -a[::-1]).astype(dtype),), {}


DET = of_matrices(
    "det",
    lambda n: (),
    reference=lambda a: np.asarray(np.linalg.det(a), a.dtype),
    vjp=lambda g, y, a: (_stretched(g * y) * _inverse_transposed(a),),
    samples=_det_samples,
    doc="the determinant; its derivative needs the inverse, and is NaN where there is none",
)
LOGABSDET = of_matrices(
    "logabsdet",
    lambda n: (),
    "slogdet",
    reference=lambda a: np.asarray(np.linalg.slogdet(a)[1], a.dtype),
    vjp=lambda g, y, a: (_stretched(g) * _inverse_transposed(a),),
    samples=_det_samples,
    doc="the logarithm of the absolute value of the determinant; -inf for a singular matrix",
)
DET_SIGN = of_matrices(
    "det_sign",
    lambda n: (),
    "slogdet",
    reference=lambda a: np.asarray(np.linalg.slogdet(a)[0], a.dtype),
    samples=_det_samples,
    doc="the sign of the determinant; 0 for a singular matrix",
)
