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


def decomposed(b: Builder) -> Node | None:
    """What a matrix decomposes into, joined to what neither signs nor the order of equal values change."""
    n = b.rnd.choice((1, 2, 3))
    lead = (b.dim(),) if b.chance(0.3) else ()
    noise = _clean(b, *lead, n, n)
    spread = st.as_tensor([1.0, 3.0, 6.0][:n]).astype(noise.dtype) * st.eye(n, dtype=noise.dtype)
    a = noise * noise.dtype.type(0.1) + spread
    way = b.rnd.randrange(11)
    if way == 7:
        return b.tame(st.pinv(a))
    if way == 8:
        return b.tame(st.lstsq(a, st.cast(_clean(b, *lead, n, 2), a.dtype)).x if b.chance(0.7) else st.pinv(a[..., :1]))
    if way == 9:
        return b.tame(st.kron(a, st.cast(_clean(b, 2, n), a.dtype)))
    if way == 10:
        factor = st.cholesky(st.matmul(a, st.swapaxes(a, -1, -2)))
        return b.tame(st.cho_solve((factor, True), st.cast(_clean(b, *lead, n, 2), a.dtype)))
    if way == 0:
        return b.tame(st.expm(a * a.dtype.type(0.3)))
    if way == 1:
        return st.logdet(a)
    if way == 2:
        return b.tame(st.matrix_power(a * a.dtype.type(0.2), b.rnd.choice((0, 1, 2, 3))))
    if way == 3:
        return st.eigvalsh((a + st.swapaxes(a, -1, -2)) * a.dtype.type(0.5))
    if way == 4:
        values, vectors = st.eigh((a + st.swapaxes(a, -1, -2)) * a.dtype.type(0.5))
        return b.tame(st.matmul(vectors * st.tanh(values)[..., None, :], st.swapaxes(vectors, -1, -2)))
    if way == 5:
        return st.svd(a, compute_uv=False)
    q, r = st.qr(a)
    return b.tame(st.matmul(q, r)) if b.chance(0.3) else st.abs(r)


def of_complex(b: Builder) -> Node:
    """What a complex matrix decomposes into, joined to what the phases of vectors do not change."""
    n = b.rnd.choice((1, 2, 3))
    lead = (b.dim(),) if b.chance(0.3) else ()
    noise = _clean(b, *lead, n, n)
    other = st.cast(_clean(b, *lead, n, n), noise.dtype)
    spread = st.as_tensor([1.0, 3.0, 6.0][:n]).astype(noise.dtype) * st.eye(n, dtype=noise.dtype)
    z = (noise + 1j * other) * noise.dtype.type(0.1) + spread
    both = (z + st.conj(st.swapaxes(z, -1, -2))) * noise.dtype.type(0.5)
    way = b.rnd.randrange(6)
    if way == 0:
        return st.eigvalsh(both)
    if way == 1:
        values, vectors = st.eigh(both)
        z = st.matmul(vectors * st.tanh(values)[..., None, :], st.conj(st.swapaxes(vectors, -1, -2)))
    elif way == 2:
        return st.svdvals(z)
    elif way == 3:
        u, _, vh = st.svd(z)
        z = st.matmul(u, vh)
    elif way == 4:
        z = st.pinv(z)
    else:
        q, r = st.qr(z)
        z = st.matmul(q, r) if b.chance(0.3) else r * q
    return b.tame(st.real(z) + 2 * st.imag(z))
