"""`eigh`, `qr` and `svd` of complex matrices, by those of real matrices.

Reflections turn a matrix into an upper triangle (`qr`); from both sides, they turn a Hermitian matrix into a
tridiagonal one, and any matrix into a bidiagonal one. These two have only real entries. The real op decomposes them,
and the reflections are undone on its vectors. (G. Golub and C. Van Loan, "Matrix Computations", chapters 5 and 8;
`zgeqrf`, `zhetrd`, `zgebrd`.)

A vector may be multiplied by any number of size 1. The number is chosen so that the sum of the entries, divided by
their places plus sqrt(2), is real and not negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from scanjit import ir, types
from scanjit.ir import COMPLEX, Node
from scanjit.ops.custom import CUSTOM, BackwardRule
from scanjit.ops.decompositions import (
    EIGH,
    SVD,
    left_right_values,
    of_eigenvectors,
    of_orthogonal_and_upper,
    of_singular_vectors,
    vectors_and_values,
)
from scanjit.ops.elementwise import ABS, SQRT, where
from scanjit.ops.parts import is_complex, pieces, size_squared
from scanjit.ops.promotion import cast
from scanjit.ops.shape import IOTA, window
from scanjit.ops.stretch import broadcast_to, zeros_like
from scanjit.ops.systems import adjoint, product, transposed
from scanjit.tensor.complex_numbers import conj, real
from scanjit.tensor.looping import looped
from scanjit.types import Dimension


def eigh(x: Node) -> tuple[Node, Node]:
    """The eigenvalues of Hermitian matrices, and their eigenvectors as columns."""
    n = x.type.shape[-1]
    tridiagonal, (left,) = _reduced("tridiagonal", x, types.maximum(n - 1, 0), _from_both_sides)
    i, j = _grid(n, n)
    rows, values = vectors_and_values(EIGH(where(abs(i - j) <= 1, real(tridiagonal), 0)))
    found = _restored(left, transposed(rows))
    values, vectors = _with_rule(lambda x, *given: of_eigenvectors(*given), [values, found], x)
    return values, vectors * conj(_turns(vectors))


def qr(x: Node) -> tuple[Node, Node]:
    """A matrix with orthonormal columns, and an upper triangle with a real diagonal."""
    m, n = x.type.shape[-2:]
    k = types.minimum(m, n)
    triangle, (left,) = _reduced("triangle", x, k, _from_left)
    i, j = _grid(k, n)
    upper = window(triangle, x.ndim - 2, 0, k)
    r = COMPLEX(where(i <= j, upper.args[0], 0), where(i < j, upper.args[1], 0))
    i, j = _grid(m, k)
    q = _restored(left, broadcast_to(cast(i == j, r.args[0].dtype), (*x.type.shape[:-1], k)))
    q, r = _with_rule(of_orthogonal_and_upper, [q, r], x)
    return q, r


def svd(x: Node) -> tuple[Node, Node, Node]:
    """The left singular vectors as columns, the singular values, and the adjoint right vectors."""
    m, n = x.type.shape[-2:]
    bidiagonal, (left, right) = _reduced("bidiagonal", x, types.minimum(m, n), _left_and_right)
    i, j = _grid(m, n)
    u, v, s = left_right_values(SVD(where((i == j) | (i + 1 == j), real(bidiagonal), 0)), m, n)
    u, v = (adjoint(_restored(by, transposed(of))) for by, of in ((left, u), (right, v)))
    u, v, s = _with_rule(lambda x, *given: of_singular_vectors(*given), [u, v, s], x)
    turns = transposed(_turns(transposed(v)))
    return adjoint(u * conj(turns)), s, v * conj(turns)


def _turns(vectors: Node) -> Node:
    """For each column, the number of size 1 by which it is divided, as described at the top of this file."""
    weights = 1 / (IOTA(length=vectors.type.shape[-2]) + math.sqrt(2))
    total = (vectors * cast(weights, vectors.args[0].dtype)[:, None]).sum(axis=-2, keepdims=True)
    size = ABS(total)
    return where(size == 0, 1, total / where(size == 0, 1, size))


# ---- reflections -----------------------------------------------------------------------------------------------------

_Reflections = tuple[Node, Node]
"""For each step of a loop, w and s of a reflection: `1 - s * w @ adjoint(w)`."""


def _reduced(
    name: str, x: Node, steps: Dimension, step: Callable[[Node, Node], tuple[Node, list[Node]]]
) -> tuple[Node, list[_Reflections]]:
    """Matrices after some steps, which reflect them; and the reflections. A matrix with an entry that is not finite
    becomes NaN."""
    unless_finite = (x.args[0] * 0 + x.args[1] * 0).sum(axis=(-2, -1), keepdims=True)
    given = COMPLEX(x.args[0] + unless_finite, x.args[1] + unless_finite)

    def one(rows: list[Node], before: list[Node]) -> tuple[list[Node], list[Node]]:
        after, made = step(before[0], rows[0])
        return [after], made

    (found,), stacks = looped(name, one, [IOTA(length=steps)], [given])
    return found, list(zip(stacks[::2], stacks[1::2], strict=True))


def _restored(reflections: _Reflections, vectors: Node) -> Node:
    """Vectors, in columns, on which the reflections are undone, the last one first."""

    def one(rows: list[Node], before: list[Node]) -> tuple[list[Node], list[Node]]:
        w, s = rows
        return [_reflected(before[0], w, conj(s))], []

    whole = COMPLEX(vectors, zeros_like(vectors))
    return looped("reflections", one, reflections, [whole], reverse=True)[0][0]


def _reflected(x: Node, w: Node, s: Node) -> Node:
    """`x - s * w @ adjoint(w) @ x`, for vectors w and numbers s."""
    column = w[..., None]
    return x - s[..., None, None] * column * product(adjoint(column), x)


def _from_left(a: Node, k: Node, first: Node | None = None) -> tuple[Node, list[Node]]:
    """Reflect column k onto row `first` (k): the entries below become 0."""
    column = where(IOTA(length=a.type.shape[-1]) == k, a, 0).sum(axis=-1)
    w, s = _reflection(column, k if first is None else first)
    return _reflected(a, w, s), [w, s]


def _from_both_sides(a: Node, k: Node) -> tuple[Node, list[Node]]:
    """Reflect column k of a Hermitian matrix onto row k + 1, and row k likewise."""
    a, (w, s) = _from_left(a, k, k + 1)
    return adjoint(_reflected(adjoint(a), w, s)), [w, s]


def _left_and_right(a: Node, k: Node) -> tuple[Node, list[Node]]:
    """Reflect column k onto row k, then row k onto column k + 1."""
    a, left = _from_left(a, k)
    turned, right = _from_left(adjoint(a), k, k + 1)
    return adjoint(turned), [*left, *right]


def _reflection(x: Node, first: Node) -> tuple[Node, Node]:
    """The reflection that turns vectors, from the entry `first` on, into a real number in this entry. Its sign is that
    of LAPACK: the opposite of the entry's sign; or the entry itself, if it is real and zeros follow."""
    place = IOTA(length=x.type.shape[-1])
    x = where(place >= first, x, 0)
    scale = (ABS(x.args[0]) + ABS(x.args[1])).sum(axis=-1)
    x = x / where(scale == 0, 1, scale)[..., None]
    pivot = where(place == first, x, 0).sum(axis=-1)
    across, up = pivot.args
    rest = size_squared(where(place > first, x, 0)).sum(axis=-1) + up * up
    size = SQRT(rest + across * across)
    end = where(rest == 0, across, where(across >= 0, -size, size))
    w = x - where(place == first, end[..., None], 0)
    return w, where(rest == 0, 0, 1 / where(rest == 0, 1, end * (end - pivot)))


def _grid(m: Dimension, n: Dimension) -> tuple[Node, Node]:
    """The row (as a column) and the column (as a row) of each entry."""
    return IOTA(length=m)[:, None], IOTA(length=n)[None, :]


# ---- derivatives -----------------------------------------------------------------------------------------------------


Backward = Callable[..., Node]
"""A function of matrices, of results that follow from them, and of the gradients of these. It gives the gradient of the
matrices, as of real ones."""


def _with_rule(backward: Backward, values: Sequence[Node], x: Node) -> list[Node]:
    """The values, with a derivative by x."""
    flat, pairs = pieces(*values), [is_complex(y) for y in values]

    def rule(cotangents: Sequence[Node], results: Sequence[Node], arguments: Sequence[Node]) -> Sequence[Node]:
        return backward(COMPLEX(*arguments), *_grouped(results, pairs), *_grouped(cotangents, pairs)).args

    return _grouped(ir.parts(CUSTOM(*flat, *x.args, results=len(flat), rule=BackwardRule(rule))), pairs)


def _grouped(flat: Sequence[Node], pairs: Sequence[bool]) -> list[Node]:
    """Complex numbers from two parts each where `pairs` says so."""
    parts = iter(flat)
    return [COMPLEX(next(parts), next(parts)) if pair else next(parts) for pair in pairs]
