"""Systems of equations in random programs."""

from __future__ import annotations

import scanjit as st
from scanjit.ir import Node, dim_node
from tests.fuzz.builder import Builder

LARGEST = 1500
"""More entries than this are not solved for."""


def _clean(b: Builder, *shape: object) -> Node:
    """Something of a shape without NaN: which of a solution is NaN then is not promised."""
    x = b.some("f")
    return b.fitted(st.tanh(st.where(st.isnan(x), x.dtype.type(0), x)), shape)  # type: ignore[arg-type]


def system(b: Builder) -> Node | None:
    """Solutions, inverses, factors and determinants of matrices with a dominant diagonal."""
    n, k = b.dim(), b.dim()
    lead = (b.dim(),) if b.chance(0.3) else ()
    if b.count((*lead, n, n)) > LARGEST or b.count((*lead, n, k)) > LARGEST:
        return None
    noise = st.tanh(_clean(b, *lead, n, n)) / st.cast(dim_node(n) + 1, "float32")
    a = noise + st.eye(n, dtype=noise.dtype) * noise.dtype.type(1.5)
    way = b.rnd.randrange(6)
    if way == 0:
        return b.tame(st.solve(a, st.cast(_clean(b, *b.rnd.choice((lead, ())), n, k), a.dtype)))
    if way == 1:
        flags = {name: b.chance(0.5) for name in ("lower", "trans", "unit_diagonal")}
        return b.tame(st.solve_triangular(a, st.cast(_clean(b, *lead, n, k), a.dtype), **flags))
    return b.tame((st.inv, st.cholesky, st.det, lambda x: st.slogdet(x).logabsdet)[way - 2](a))
