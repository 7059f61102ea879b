"""Triangular roots of covariances, of sizes that are known and small: each element is a formula."""

from __future__ import annotations

from scanjit.ir import Node
from scanjit.tensor import sqrt, stack, where


def root(matrix: Node) -> Node:
    """The lower triangular matrix whose product with its transpose is `matrix`. Zeros on its diagonal are right too."""
    n = len(matrix)
    rows: list[list[Node]] = [[] for _ in range(n)]
    zero = 0 * matrix[0, 0]
    for i in range(n):
        for j in range(i):
            rest = matrix[i, j] - sum(rows[i][k] * rows[j][k] for k in range(j))
            rows[i].append(_over(rest, rows[j][j]))
        rows[i].append(_root(matrix[i, i] - sum(value * value for value in rows[i])))
    return stack([stack(row + [zero] * (n - len(row))) for row in rows])


def lower(rows: Node) -> Node:
    """The lower triangular matrix whose product with its transpose is that of `rows`: by Gram and Schmidt."""
    n = len(rows)
    units: list[Node] = []
    result = []
    zero = 0 * rows[0, 0]
    for i in range(n):
        row, shares = rows[i], []
        for unit in units:
            shares.append(row @ unit)
            row = row - shares[-1] * unit
        size = _root(row @ row)
        units.append(_over(row, size))
        result.append(stack([*shares, size, *[zero] * (n - 1 - i)]))
    return stack(result)


def _root(square: Node) -> Node:
    positive = square > 0
    return where(positive, sqrt(where(positive, square, 1)), 0)


def _over(value: Node, size: Node) -> Node:
    """The quotient; 0 where the divisor is 0."""
    return where(size > 0, value / where(size > 0, size, 1), 0)
