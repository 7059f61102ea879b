"""What users write around a computation, in random programs: `vmap`, and functions of their own."""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy

import scanjit as st
from scanjit import errors
from scanjit.ir import Node
from tests.fuzz.builder import Builder


def batched(b: Builder) -> Node | None:
    """`vmap` of a random function of a row; what it captures has no such axis."""
    x = b.pick(lambda n: n.ndim > 0, "f")
    if x is None or b.depth:
        return None
    axis = b.rnd.randrange(x.ndim)
    captured = [b.some("f") for _ in range(b.rnd.choice((0, 0, 1, 2)))]
    size = b.rnd.choice((1, 2, 3, 4))

    def of_row(row: Node) -> Node:
        inner = Builder(b.rnd, [*captured, row], b.dims, b.sizes, b.depth + 1, b.exact)
        if row.ndim == 0 or b.chance(0.8):
            inner.add(inner.tame(row))
        inner.grow(size)
        return inner.some("f")

    try:
        made: Any = st.vmap(of_row, axis)(x)
    except errors.NotSupportedError as error:
        if "a size that differs between the examples" not in str(error):
            raise
        return None  # each row would have a result of another size
    return made if made.ndim <= 4 and b.count(made.type.shape) <= 1500 else None


def _damped(x: Any, y: Any) -> Any:
    return x / (1 + x * x) + 0.5 * y


def _damped_vjp(g: Node, z: Node, x: Node, y: Node) -> tuple[Node, Node]:
    return g * (1 - x * x) / (1 + x * x) ** 2, 0.5 * g


def _echo(x: Any) -> Any:
    found = x.copy()
    for at in numpy.ndindex(x.shape):  # Numba compiles slices of arrays for ten times as long
        if at[0] > 0:
            found[at] += 0.5 * x[(at[0] - 1,) + at[1:]]
    return found


def _echo_vjp(g: Node, y: Node, x: Node) -> Node:
    return g + 0.5 * st.concatenate([g, st.zeros_like(g)])[1:][: g.shape[0]]


@cache
def _compiled(dtype: str) -> Any:
    """A function of numbers of a dtype, and one of arrays."""
    of_numbers = st.from_numba(numba.njit(_damped), result=dtype, vjp=_damped_vjp)
    return of_numbers, st.from_numba(numba.njit(_echo), result=lambda x: x, vjp=_echo_vjp)


def guest(b: Builder) -> Node:
    """A function that Numba compiled, of numbers or of arrays, with its derivative."""
    x = b.some("f")
    of_numbers, of_arrays = _compiled(str(x.dtype))
    if x.ndim and b.chance(0.5):
        return of_arrays(x)
    return of_numbers(x, st.cast(b.mate(x, "f"), x.dtype))
