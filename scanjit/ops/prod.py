"""The product over axes. Its derivative runs a scan instead of dividing, so that it is right where elements are
zero."""

from collections.abc import Sequence

import numpy as np

from scanjit import types
from scanjit.ir import COMPLEX, Graph, Node, free_variables, new_input, parts
from scanjit.ops.reduction import Reduction
from scanjit.ops.scan import scan_node
from scanjit.ops.shape import RESHAPE, SET_SLICE
from scanjit.ops.stretch import expand, full
from scanjit.ops.view import DIMSHUFFLE


def _others(x: Node, axes: tuple[int, ...]) -> Node:
    """For each element, the product of all other elements along `axes`: the elements before it times the elements after
    it.

    There is no division, so the product and its derivatives are right where elements are zero.
    """
    rest = [a for a in range(x.ndim) if a not in axes]
    shape = x.type.shape
    moved = DIMSHUFFLE(x, order=(*axes, *rest))
    flat = RESHAPE(moved, shape=(types.product(shape[a] for a in axes), *(shape[a] for a in rest)))
    before, after = (_products_before(flat, reverse) for reverse in (False, True))
    back = RESHAPE(before * after, shape=moved.type.shape)
    return DIMSHUFFLE(back, order=tuple([*axes, *rest].index(a) for a in range(x.ndim)))


def _products_before(x: Node, reverse: bool) -> Node:
    """The products of the rows before each row (or, in reverse, after it)."""
    one = full(1, x.type.shape[1:], x.dtype)
    product, row = new_input(one.type), new_input(one.type)
    results = [product * row, product]
    sizes = free_variables(results, [product, row])  # the values that computed sizes depend on
    body = Graph.of([product, row, *sizes], results)
    return parts(scan_node(body, [one], [x], sizes, x.type.shape[0], reverse=reverse))[1]


SIDE_BY_SIDE = 16
"""So many products of complex numbers are computed side by side if no other axes fill vectors."""


def _product_of_complex(x: Node, *, axes: tuple[int, ...]) -> Node:
    """The product of complex numbers: a scan, whose state is the product of the elements so far. If a row has few
    numbers, several rows are multiplied side by side, and the products by halves."""
    order = (*axes, *(a for a in range(x.ndim) if a not in axes))
    moved = x.type.with_shape([x.type.shape[a] for a in order])
    n, rest = types.product(moved.shape[: len(axes)]), moved.shape[len(axes) :]
    rows = [RESHAPE(DIMSHUFFLE(part, order=order), shape=(n, *rest)) for part in x.args]
    width = types.product(rest)
    if not (isinstance(width, int) and width < SIDE_BY_SIDE):
        return COMPLEX(*_products_of(rows))
    steps = (n + SIDE_BY_SIDE - 1) // SIDE_BY_SIDE
    ones = [full(value, (steps * SIDE_BY_SIDE, *rest), row.dtype) for value, row in zip((1, 0), rows, strict=True)]
    whole = {"start": (0,) * (1 + len(rest)), "step": (1,) * (1 + len(rest))}
    filled = [SET_SLICE(*pair, **whole) for pair in zip(ones, rows, strict=True)]
    found = COMPLEX(*_products_of([RESHAPE(row, shape=(steps, SIDE_BY_SIDE, *rest)) for row in filled]))
    half = SIDE_BY_SIDE // 2
    while half:
        found = found[:half] * found[half:]
        half //= 2
    return found[0]


def _products_of(rows: Sequence[Node]) -> Sequence[Node]:
    """The product of rows of complex numbers, from their two parts, as two parts."""
    start = [full(value, rows[0].type.shape[1:], rows[0].dtype) for value in (1, 0)]
    given = [new_input(start[0].type) for _ in range(4)]
    after = COMPLEX(*given[:2]) * COMPLEX(*given[2:])
    sizes = free_variables(after.args, given)
    body = Graph.of([*given, *sizes], after.args)
    return parts(scan_node(body, start, rows, sizes, rows[0].type.shape[0]))


PROD = Reduction(
    "prod",
    join=lambda a, b: a * b,
    combine="{0} * {1}",
    horizontal="reduce_mul",
    initial=lambda dtype: 1,
    function=lambda x, axis: np.multiply.reduce(x, axis=axis, dtype=x.dtype),
    of_complex=_product_of_complex,
    vjp=lambda g, y, x, *, axes: (expand(g, axes) * _others(x, axes) if axes else g,),
    doc="the product over axes, in the dtype of the operand",
)
