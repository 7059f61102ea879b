"""Determinants and Cholesky factors of complex matrices, made of ops on their real parts.

A determinant is the product of the pivots of elimination, a loop over columns. A Cholesky factor is that of a real
matrix in which each number is a block: `[[re, -im], [im, re]]`. Its diagonal is real, so its blocks are triangles too.
"""

from __future__ import annotations

from collections.abc import Sequence

from scanjit import ir
from scanjit.ir import COMPLEX, Node
from scanjit.ops.custom import CUSTOM, BackwardRule
from scanjit.ops.elementwise import ABS, where
from scanjit.ops.functions import LOG
from scanjit.ops.promotion import cast
from scanjit.ops.shape import IOTA
from scanjit.ops.stretch import full
from scanjit.ops.systems import CHOLESKY, SOLVE, identity, places, transposed
from scanjit.tensor.complex_numbers import conj, imag, real
from scanjit.tensor.joining import stack
from scanjit.tensor.looping import looped
from scanjit.tensor.reductions import argmax
from scanjit.tensor.shapes import reshape


def cholesky_factor(x: Node) -> Node:
    """The lower triangular factor of Hermitian matrices."""
    p, q = x.args
    *batch, n, _ = x.type.shape
    blocks = stack([stack([p, -q], axis=-1), stack([q, p], axis=-1)], axis=-3)
    found = CHOLESKY(reshape(blocks, (*batch, 2 * n, 2 * n)))
    parted = reshape(found, (*batch, n, 2, n, 2))
    return COMPLEX(parted[..., 0, :, 0], parted[..., 1, :, 0])


def determinant(x: Node) -> Node:
    """The determinants of matrices."""
    found = _eliminated(x)[0]
    return COMPLEX(*ir.parts(CUSTOM(*found.args, *x.args, results=2, rule=_OF_DETERMINANT)))


def sign_and_log(x: Node) -> tuple[Node, Node]:
    """The determinants of matrices, divided by their sizes, and the logarithms of these sizes."""
    _, sign, log = _eliminated(x)
    real, imaginary, size = ir.parts(CUSTOM(*sign.args, log, *x.args, results=3, rule=_OF_LOGARITHM))
    return COMPLEX(real, imaginary), size


def _eliminated(x: Node) -> tuple[Node, Node, Node]:
    """The determinants; divided by their sizes; and the logarithms of these."""
    n, batch, dtype = x.type.shape[-1], x.type.shape[:-2], x.args[0].dtype
    one, zero = (full(value, batch, dtype) for value in (1, 0))
    given = [x, COMPLEX(one, zero), COMPLEX(one, zero), zero]
    (_, det, sign, log), _ = looped(
        "elimination", lambda rows, before: (_step(*rows, *before), []), [IOTA(length=n)], given
    )
    return det, sign, log


def _step(k: Node, a: Node, det: Node, sign: Node, log: Node) -> list[Node]:
    """Exchange row k with the row that has the largest entry in column k, and subtract multiples of it from the rows
    below."""
    rows, columns = places(a.type.shape[-1])
    column = where(columns == k, a, 0).sum(axis=-1)
    index = rows[:, 0]
    best = argmax(where(index < k, -1, real(column) ** 2 + imag(column) ** 2), axis=-1)
    chosen = rows == best[..., None, None]
    pivots, others = (where(mask, a, 0).sum(axis=-2)[..., None, :] for mask in (chosen, rows == k))
    a = where(rows == k, pivots, where(chosen, others, a))
    pivot = where(columns == k, pivots, 0).sum(axis=(-2, -1))
    divisor = where(pivot == 0, 1, pivot)
    factors = where(columns == k, a, 0).sum(axis=-1)[..., None] / divisor[..., None, None]
    a = where(rows > k, a - factors * pivots, a)
    size = ABS(pivot)
    turn = cast(best == k, size.dtype) * 2 - 1
    return [a, det * pivot * turn, sign * (pivot / where(size == 0, 1, size)) * turn, log + LOG(size)]


def _inverse(a: Sequence[Node]) -> Node:
    """The conjugates of the transposed inverses."""
    x = COMPLEX(*a)
    one = identity(a[0])
    return conj(transposed(SOLVE(x, COMPLEX(one, one * 0), trans=False)))


def _backward_of_determinant(g: Sequence[Node], det: Sequence[Node], a: Sequence[Node]) -> Sequence[Node]:
    """`g * conj(det)`, times the conjugate of the transposed inverse."""
    return ((COMPLEX(*g) * conj(COMPLEX(*det)))[..., None, None] * _inverse(a)).args


def _backward_of_logarithm(g: Sequence[Node], found: Sequence[Node], a: Sequence[Node]) -> Sequence[Node]:
    """By the trace of `inv(a) @ da`: its real part changes the logarithm, its imaginary part turns the sign."""
    turn = found[0] * g[1] - found[1] * g[0]
    return (COMPLEX(g[2], turn)[..., None, None] * _inverse(a)).args


_OF_DETERMINANT, _OF_LOGARITHM = BackwardRule(_backward_of_determinant), BackwardRule(_backward_of_logarithm)
