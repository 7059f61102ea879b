"""What users write around a computation, in random programs: `vmap`, and functions of their own."""

from __future__ import annotations

from typing import Any

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
