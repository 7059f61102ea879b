"""Blocks that begin at computed places, in random programs: in a step they are read and written where they lie."""

from __future__ import annotations

import scanjit as st
from scanjit.ir import Node, dim_node
from tests.fuzz.builder import Builder


def _start(b: Builder, size: object, width: int) -> Node:
    """A computed place where a block of so many entries may begin."""
    given = b.steady("iu")
    given = st.cast(b.fitted(given, ()), "int64")
    places = size - width + 1 if isinstance(size, int) else dim_node(size) - width + 1  # type: ignore[arg-type]
    made = given % places
    if given in b.exact:
        b.exact.add(made)
    return made


def moving(b: Builder) -> Node | None:
    """`x[t:t+k]`, its `set` and `inc`, `dynamic_slice` and `roll`, all at computed places."""
    x = b.need(lambda n: 0 < n.ndim < 4, "f" if b.chance(0.85) else "")
    axis = b.rnd.randrange(x.ndim)
    size = x.type.shape[axis]
    if b.number(size) < 1:  # with the planned sizes, one that is computed may even be negative
        return None
    way = b.rnd.randrange(6)
    if way == 0:
        return st.roll(x, _start(b, size, 1) - b.rnd.choice((0, 1, 2)), axis)
    width = b.rnd.randint(1, min(b.number(size), 4))
    if way == 1 or b.depth == 0:  # outside of steps a slice is clipped, as in NumPy; a block is not
        widths = [width if a == axis else b.rnd.choice((0, 1, 1)) for a in range(x.ndim)]
        if any(b.number(n) < w for n, w in zip(x.type.shape, widths, strict=True)):
            return None
        starts = [_start(b, n, w) for n, w in zip(x.type.shape, widths, strict=True)]
        block = st.dynamic_slice(x, starts, widths)
    else:
        t = _start(b, size, width)
        block = x[(*[slice(None)] * axis, t if way == 2 else slice(t, t + width))]
    if x.dtype.kind != "f" or way == 5:
        return block
    value = b.fitted(b.some("f"), block.type.shape, x.dtype)
    return block.set(value) if b.chance(0.5) else block.inc(value)
