"""Expressions as Python writes them: its operators, how tightly they bind, and the parentheses that follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scanjit.ir import Op
from scanjit.ops import elementwise as ops, functions
from scanjit.ops.contraction import Labels

COMPARE, OR, XOR, AND, SUM, PRODUCT, UNARY, POWER, ATOM = range(9)
"""The levels of operators. The higher one binds tighter."""
INFIX: dict[Op, tuple[str, int]] = {
    ops.LESS: ("<", COMPARE),
    ops.LESS_EQUAL: ("<=", COMPARE),
    ops.GREATER: (">", COMPARE),
    ops.GREATER_EQUAL: (">=", COMPARE),
    ops.EQUAL: ("==", COMPARE),
    ops.NOT_EQUAL: ("!=", COMPARE),
    ops.OR: ("|", OR),
    ops.XOR: ("^", XOR),
    ops.AND: ("&", AND),
    ops.ADD: ("+", SUM),
    ops.SUB: ("-", SUM),
    ops.MUL: ("*", PRODUCT),
    ops.DIV: ("/", PRODUCT),
    ops.FLOORDIV: ("//", PRODUCT),
    ops.MOD: ("%", PRODUCT),
    functions.POW: ("**", POWER),
}
PREFIX: dict[Op, str] = {ops.NEG: "-", ops.INVERT: "~"}


class Text(NamedTuple):
    """An expression, and the level of its outermost operator."""

    text: str
    binds: int

    def within(self, level: int) -> str:
        """The expression as an operand of an operator of some level: in parentheses if it binds less tightly."""
        return self.text if self.binds >= level else f"({self.text})"

    def prefixed(self, sign: str) -> Text:
        """`-x` of an expression x; `-(-x)` of `-x`."""
        return Text(sign + self.within(UNARY + 1), UNARY)

    def transposed(self) -> Text:
        """`x.T` of an expression x."""
        return Text(f"{self.within(ATOM)}.T", ATOM)

    def indexed(self, indices: Sequence[str]) -> Text:
        """`x[i, j]` of an expression x, without the `:` at the end."""
        kept = list(indices)
        while len(kept) > 1 and kept[-1] == ":":
            kept.pop()
        return Text(f"{self.within(ATOM)}[{', '.join(kept)}]", ATOM)


def infix(op: Op, left: Text, right: Text) -> Text:
    """An operator between two operands. `a - b - c` is `(a - b) - c`, and `a < b < c` is not `(a < b) < c`."""
    sign, level = INFIX[op]
    if level == POWER:
        return Text(f"{left.within(ATOM)} ** {right.within(UNARY)}", level)
    return Text(f"{left.within(level + (level == COMPARE))} {sign} {right.within(level + 1)}", level)


def matrix_product(a: Text, b: Text, left: Labels, right: Labels, out: Labels) -> Text | None:
    """`a @ b`, perhaps with transposes, if the labels of the axes say so; None if they do not."""
    for one, rows in _both_ways(a, left):
        for other, columns in _both_ways(b, right):
            if _is_matmul(rows, columns, out):
                return Text(f"{one.within(PRODUCT)} @ {other.within(PRODUCT + 1)}", PRODUCT)
    return None


def subscripts(first: str, left: Labels, right: Labels, out: Labels) -> str:
    """The labels as `einsum` wants them: "ij,jk->ik" if the first letter is "i"."""
    names = ["".join(chr(ord(first) + label) for label in labels) for labels in (left, right, out)]
    return f"{names[0]},{names[1]}->{names[2]}"


def _both_ways(x: Text, labels: Labels) -> Iterator[tuple[Text, Labels]]:
    """An operand and, if it is a matrix, also its transpose."""
    yield x, labels
    if len(labels) == 2:
        yield x.transposed(), labels[::-1]


def _is_matmul(left: Labels, right: Labels, out: Labels) -> bool:
    """Whether these are the labels of `left @ right`."""
    if not left or not right:
        return False
    rows, batch, summed, columns = left[:-1], right[:-2], right[-2:][0], right[-2:][1:]
    aligned = not batch or rows[:-1][-len(batch) :] == batch
    return left[-1] == summed and summed not in out and out == rows + columns and aligned
