"""How systems of equations are computed: straight-line code for small matrices, factors for others.

Matrices of a known size of at most `SMALL` become elementwise ops on their entries, which fuse with the ops around them
and run over a batch in the lanes of vectors. All other systems become `cholesky`, `lu` and `triangular_solve`. LAPACK
computes these, but for batches of matrices that turn out to be small (`scanjit.codegen.small_matrices`).

The straight-line code is elimination with partial pivoting (an exchange of rows is a selection: there is no branch), so
it is as accurate as LAPACK: its solution is exact for a system that differs from the given one by a few units in the
last place, times the growth of the entries. Pivoting keeps that growth small. Closed forms (Cramer's rule) would be
shorter, but for ill-conditioned matrices they lose twice as many digits.
"""

import functools
import operator
from collections.abc import Sequence

import numpy as np

from scanjit.ir import Node, apply
from scanjit.ops.elementwise import SIGN, SQRT, where
from scanjit.ops.functions import LOG
from scanjit.ops.index import GATHER
from scanjit.ops.prod import PROD
from scanjit.ops.promotion import cast
from scanjit.ops.shape import CONCATENATE, IOTA, window
from scanjit.ops.stretch import SUM, full, zeros_like
from scanjit.ops.systems import CHOLESKY, DET, DET_SIGN, EXTRA, LOGABSDET, LU, SOLVE, TRIANGULAR_SOLVE, transposed
from scanjit.ops.view import DIMSHUFFLE
from scanjit.records import record
from scanjit.rewrite.engine import RuleTable

SMALL = 8
"""Matrices of at most this many rows become straight-line code."""
FEW = 24
"""Right sides of at most this many entries do so, too. Rows of larger ones are computed as a whole, with lanes along
them."""

Row = list[Node]

small = RuleTable()
large = RuleTable()


def _small_size(a: Node) -> int | None:
    """The number of rows (and columns) of matrices, if it is known and small; else None."""
    return next((n for n in a.type.shape[-2:] if isinstance(n, int) and n <= SMALL), None)


# ---- entries ---------------------------------------------------------------------------------------------------------


def _entries(x: Node, rows: int, columns: int | None) -> list[Row]:
    """The entries of matrices, each of the shape (*batch, 1, 1); or, without `columns`, the rows: (*batch, 1, columns).
    The axes of size 1 stay, so that everything is computed over one space."""
    lines = [window(x, x.ndim - 2, i, 1) for i in range(rows)]
    if columns is None:
        return [[line] for line in lines]
    return [[window(line, x.ndim - 1, j, 1) for j in range(columns)] for line in lines]


def _right_sides(b: Node, rows: int) -> list[Row]:
    """The rows of right sides; as single entries if there are few in all."""
    width = b.type.shape[-1]
    return _entries(b, rows, width if isinstance(width, int) and rows * width <= FEW else None)


def _assembled(rows: Sequence[Row]) -> Node:
    """The matrices with these entries, or rows."""
    ndim = rows[0][0].ndim
    lines = [row[0] if len(row) == 1 else CONCATENATE(*row, axis=ndim - 1) for row in rows]
    return lines[0] if len(lines) == 1 else CONCATENATE(*lines, axis=ndim - 2)


def _number(x: Node) -> Node:
    """One entry for each matrix, without the axes of rows and columns."""
    return DIMSHUFFLE(x, order=tuple(range(x.ndim - 2)))


def _reduced(entry: Node, found: Sequence[tuple[Node, Node]]) -> Node:
    """An entry minus the products of the pairs."""
    return functools.reduce(lambda total, pair: total - pair[0] * pair[1], found, entry)


# ---- straight-line code ----------------------------------------------------------------------------------------------


@record
class _Step:
    """A step of elimination: conditional exchanges of row `k` with later ones, then multiples of it are subtracted."""

    k: int
    exchanged: Sequence[tuple[int, Node]]
    """Rows of which each is exchanged with row `k` if its condition is true, one after the other."""
    factors: Sequence[tuple[int, Node]]
    """Rows, and the multiple of row `k` that is subtracted from each."""


def _exchange(rows: list[Row], k: int, i: int, condition: Node, first: int = 0) -> None:
    for j in range(first, len(rows[k])):
        above, below = rows[k][j], rows[i][j]
        rows[k][j], rows[i][j] = where(condition, below, above), where(condition, above, below)


def _eliminated(a: list[Row]) -> list[_Step]:
    """Make `a` upper triangular, in place. The steps do not depend on right sides: equal matrices share their nodes."""
    n, steps = len(a), []
    for k in range(n):
        exchanged = []
        for i in range(k + 1, n):
            exchanged.append((i, abs(a[i][k]) > abs(a[k][k])))
            _exchange(a, k, *exchanged[-1], first=k)
        divisor = where(a[k][k] == 0, 1, a[k][k])  # if the pivot is 0, all entries below it are 0
        factors = [(i, a[i][k] / divisor) for i in range(k + 1, n)]
        for i, factor in factors:
            for j in range(k + 1, n):
                a[i][j] = a[i][j] - factor * a[k][j]
        steps.append(_Step(k, exchanged, factors))
    return steps


def _applied(steps: Sequence[_Step], b: list[Row]) -> list[Row]:
    """The right sides after the steps."""
    b = [list(row) for row in b]
    for step in steps:
        for i, condition in step.exchanged:
            _exchange(b, step.k, i, condition)
        for i, factor in step.factors:
            b[i] = [x - factor * y for x, y in zip(b[i], b[step.k], strict=True)]
    return b


def _applied_transposed(steps: Sequence[_Step], b: list[Row]) -> list[Row]:
    """The right sides after the transposes of the steps, the last one first."""
    b = [list(row) for row in b]
    for step in reversed(steps):
        b[step.k] = [_reduced(x, [(f, b[i][j]) for i, f in step.factors]) for j, x in enumerate(b[step.k])]
        for i, condition in reversed(step.exchanged):
            _exchange(b, step.k, i, condition)
    return b


def _exchanges_sign(steps: Sequence[_Step]) -> Node | None:
    """-1 if the number of exchanges is odd, else 1; None if there are no exchanges."""
    signs = [
        where(c, *(full(s, c.type.shape, f.dtype) for s in (-1, 1)))
        for step in steps
        for (_, c), (_, f) in zip(step.exchanged, step.factors, strict=True)
    ]
    return functools.reduce(operator.mul, signs) if signs else None


def _substituted(a: list[Row], b: list[Row], lower: bool, unit: bool, early: bool) -> list[Row]:
    """The solution of triangular systems. With `early` quotients, rows are divided by their pivots before anything is
    subtracted: these quotients do not wait for each other."""
    n = len(a)
    x: list[Row] = [[] for _ in range(n)]
    if early and not unit:
        pivots = [a[i][i] for i in range(n)]
        a, b = ([[x / p for x in row] for row, p in zip(rows, pivots, strict=True)] for rows in (a, b))
        unit = True
    for i in range(n) if lower else reversed(range(n)):
        done = range(i) if lower else range(i + 1, n)
        x[i] = [_reduced(entry, [(a[i][k], x[k][j]) for k in done]) for j, entry in enumerate(b[i])]
        if not unit:
            x[i] = [entry / a[i][i] for entry in x[i]]
    return x


def _unless(bad: Node, rows: list[Row]) -> list[Row]:
    """NaN for the matrices that are bad, the given rows for all others."""
    return [[where(bad, np.nan, entry) for entry in row] for row in rows]


def _any_zero(entries: Sequence[Node]) -> Node:
    return functools.reduce(operator.or_, [entry == 0 for entry in entries])


@small.rule(SOLVE)
def _solve_small(node: Node) -> Node | None:
    """solve(a, b) -> elimination with partial pivoting, entry by entry; of a.T by the same elimination"""
    return _solution(node, False)


@small.rule(TRIANGULAR_SOLVE)
def _triangular_small(node: Node) -> Node | None:
    """triangular_solve(a, b) -> substitution, entry by entry"""
    return _triangular_solution(node, False)


def with_early_quotients(node: Node) -> Node | None:
    """The solution of a small system that is known later than its matrix, entry by entry: all quotients of the matrix
    are there when the right side comes. None for other nodes."""
    if node.op is SOLVE:
        return _solution(node, True)
    return _triangular_solution(node, True) if node.op is TRIANGULAR_SOLVE else None


def _solution(node: Node, early: bool) -> Node | None:
    a, b = node.operands
    n = _small_size(a)
    if n is None:
        return None
    if n == 0 or b.type.shape[-1] == 0:
        return zeros_like(b)
    upper, right = _entries(a, n, n), _right_sides(b, n)
    steps = _eliminated(upper)
    if node.params["trans"]:  # a.T is the product of the transposed triangle and the inverses of the transposed steps
        lower = [list(column) for column in zip(*upper, strict=True)]
        found = _applied_transposed(steps, _substituted(lower, right, True, False, early))
    else:
        found = _substituted(upper, _applied(steps, right), False, False, early)
    return _assembled(_unless(_any_zero([upper[k][k] for k in range(n)]), found))


def _triangular_solution(node: Node, early: bool) -> Node | None:
    a, b = node.operands
    lower, trans, unit = (node.params[name] for name in ("lower", "trans", "unit"))
    n = _small_size(a)
    if n is None:
        return None
    if n == 0 or b.type.shape[-1] == 0:
        return zeros_like(b)
    left = _entries(transposed(a) if trans else a, n, n)
    found = _substituted(left, _right_sides(b, n), lower != trans, unit, early)
    return _assembled(found if unit else _unless(_any_zero([left[i][i] for i in range(n)]), found))


@small.rule(CHOLESKY)
def _cholesky_small(node: Node) -> Node | None:
    """cholesky(a) -> column after column, entry by entry"""
    (a,) = node.operands
    n = _small_size(a)
    if n is None:
        return None
    if n == 0:
        return zeros_like(a)
    given = _entries(a, n, n)
    zero = zeros_like(given[0][0])
    factor = [[zero] * n for _ in range(n)]
    positive = []
    for j in range(n):
        square = _reduced(given[j][j], [(factor[j][k], factor[j][k]) for k in range(j)])
        positive.append(square > 0)
        factor[j][j] = apply(SQRT, square)
        for i in range(j + 1, n):
            rest = _reduced(given[i][j], [(factor[i][k], factor[j][k]) for k in range(j)])
            factor[i][j] = rest / factor[j][j]
    bad = ~functools.reduce(operator.and_, positive)
    rows = [_unless(bad, [row[: i + 1]])[0] + row[i + 1 :] for i, row in enumerate(factor)]
    return _assembled(rows)


@small.rule(DET, LOGABSDET, DET_SIGN)
def _determinant_small(node: Node) -> Node | None:
    """det(a) -> the product of the pivots; logabsdet(a) -> the sum of their logarithms; det_sign(a) -> their signs"""
    (a,) = node.operands
    n = _small_size(a)
    if not n:
        return None
    upper = _entries(a, n, n)
    sign = _exchanges_sign(_eliminated(upper))
    pivots = [upper[k][k] for k in range(n)]
    if node.op is LOGABSDET:
        return _number(functools.reduce(operator.add, [apply(LOG, abs(pivot)) for pivot in pivots]))
    factors = pivots if node.op is DET else [apply(SIGN, pivot) for pivot in pivots]
    return _number(functools.reduce(operator.mul, factors if sign is None else [sign, *factors]))


# ---- factors ---------------------------------------------------------------------------------------------------------


def _factors(a: Node) -> tuple[Node, list[Node]]:
    """The factors of `lu` in one matrix, and the further rows of its result."""
    n, whole = a.type.shape[-1], LU(a)
    rows = [window(whole, a.ndim - 2, n + k, 1) for k in range(EXTRA)]
    order = (*range(a.ndim - 2), a.ndim - 1)
    return window(whole, a.ndim - 2, 0, n), [DIMSHUFFLE(row, order=order) for row in rows]


def _taken(b: Node, order: Node) -> Node:
    """The rows of each matrix in another order."""
    batch = order.ndim - 1
    before = [
        DIMSHUFFLE(IOTA(length=b.type.shape[d]), order=(*[None] * d, 0, *[None] * (batch - d))) for d in range(batch)
    ]
    return GATHER(b, *before, cast(order, "int64"), axis=0)


def _triangular(a: Node, b: Node, lower: bool, trans: bool) -> Node:
    return TRIANGULAR_SOLVE(a, b, lower=lower, trans=trans, unit=not lower)


@large.rule(SOLVE)
def _solve_by_factors(node: Node) -> Node | None:
    """solve(a, b) -> two triangular systems with the factors of a"""
    a, b = node.operands
    if _small_size(a) is not None:
        return None
    factors, (order, inverse, _) = _factors(a)
    if node.params["trans"]:
        return _triangular(factors, _triangular(factors, _taken(b, order), False, True), True, True)
    return _taken(_triangular(factors, _triangular(factors, b, True, False), False, False), inverse)


@large.rule(DET, LOGABSDET, DET_SIGN)
def _determinant_by_factors(node: Node) -> Node | None:
    """det(a) -> the product of the diagonal of a factor, and of the signs of the exchanges; logabsdet(a) -> the sum of
    the logarithms of that diagonal; det_sign(a) -> the product of its signs, and of those of the exchanges"""
    (a,) = node.operands
    if _small_size(a):
        return None
    factors, (_, _, signs) = _factors(a)
    at, axes = IOTA(length=a.type.shape[-1]), (a.ndim - 2,)
    diagonal = GATHER(factors, at, at, axis=a.ndim - 2)
    if node.op is LOGABSDET:
        return SUM(apply(LOG, abs(diagonal)), axes=axes)
    return PROD((diagonal if node.op is DET else apply(SIGN, diagonal)) * signs, axes=axes)
