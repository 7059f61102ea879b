"""Recurrences whose state only scales and adds: SRU, minGRU, and a selective state space (S6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes, Work
from benchmarks.cases.common import SEQUENCE, Draw, grid, loop, split
from benchmarks.engines import jax, scanjit, torch

# ---- SRU: c = f*c + (1-f)*a, h = r*tanh(c) + (1-r)*s, with a, f, r, s from x alone -----------------------------------


def sru_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Inputs and weights."""
    T, B, I, H = (sizes[name] for name in "TBIH")
    draw = Draw(rng, dtype)
    return {"x": draw.normal(T, B, I), "W": draw.matrix(I, 4 * H), "b": draw.normal(2 * H, scale=0.1)}


def _sru_step(sigmoid: Any, tanh: Any) -> Any:
    def step(z: Any, c: Any, b: Any) -> Any:
        a, f, r, s = split(z, 4)
        bf, br = split(b, 2)
        f, r = sigmoid(f + bf), sigmoid(r + br)
        c = f * c + (1 - f) * a
        return r * tanh(c) + (1 - r) * s, c

    return step


def sru_reference(x: Any, W: Any, b: Any) -> Any:
    """The plain loop."""
    step, zeros = _sru_step(tape.sigmoid, tape.tanh), tape.Array(np.zeros((x.shape[1], W.shape[1] // 4)))
    return tape.stack(loop(lambda z, h, c: step(z, c, b), x @ W, (None, zeros)))


def sru_by_scanjit(x: Any, W: Any, b: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    step = _sru_step(sj.sigmoid, sj.tanh)
    c = sj.zeros((x.shape[1], W.shape[1] // 4), x.dtype)
    return sj.scan(lambda x_t, c: step(x_t @ W, c, b), x, [None, c], unroll=unroll)[0]


def sru_by_jax(x: Any, W: Any, b: Any) -> Any:
    """`lax.scan` over the state alone, everything else for all steps at once."""
    from jax import nn, numpy as jnp

    a, f, r, s = jnp.split(x @ W, 4, axis=-1)
    bf, br = jnp.split(b, 2)
    f, r = nn.sigmoid(f + bf), nn.sigmoid(r + br)
    c = jax.scan(_scaled_and_added, (f, (1 - f) * a), (jnp.zeros(a.shape[1:], x.dtype),))
    return r * jnp.tanh(c) + (1 - r) * s


def sru_by_torch(x: Any, W: Any, b: Any) -> Any:
    """A loop over the state alone, everything else for all steps at once."""
    import torch as library

    a, f, r, s = (x @ W).chunk(4, -1)
    bf, br = b.chunk(2)
    f, r = library.sigmoid(f + bf), library.sigmoid(r + br)
    c = library.stack(loop(lambda row, c: (library.addcmul(row[1], row[0], c),), _rows(f, (1 - f) * a), (_first(a),)))
    return r * library.tanh(c) + (1 - r) * s


def _scaled_and_added(row: Any, state: Any) -> Any:
    return (row[0] * state + row[1],)


def _rows(*arrays: Any) -> list[Any]:
    return list(zip(*(array.unbind(0) for array in arrays), strict=True))


def _first(x: Any) -> Any:
    return x.new_zeros(x.shape[1:])


def _sru_work(sizes: Sizes, itemsize: int) -> Work:
    T, B, I, H = (sizes[name] for name in "TBIH")
    return Work(8.0 * T * B * I * H)


# ---- minGRU: h = (1-z)*h + z*g, with z and g from x alone ------------------------------------------------------------


def mingru_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Inputs and weights."""
    T, B, I, H = (sizes[name] for name in "TBIH")
    draw = Draw(rng, dtype)
    return {"x": draw.normal(T, B, I), "W": draw.matrix(I, 2 * H), "b": draw.normal(2 * H, scale=0.1)}


def mingru_reference(x: Any, W: Any, b: Any) -> Any:
    """The plain loop."""

    def step(row: Any, h: Any) -> tuple[Any]:
        z, g = split(row, 2)
        z = tape.sigmoid(z)
        return ((1 - z) * h + z * g,)

    return tape.stack(loop(step, x @ W + b, (tape.Array(np.zeros((x.shape[1], W.shape[1] // 2))),)))


def mingru_by_scanjit(x: Any, W: Any, b: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    def step(x_t: Any, h: Any) -> Any:
        z, g = split(x_t @ W + b, 2)
        z = sj.sigmoid(z)
        return (1 - z) * h + z * g

    return sj.scan(step, x, sj.zeros((x.shape[1], W.shape[1] // 2), x.dtype), unroll=unroll)


def mingru_by_jax(x: Any, W: Any, b: Any) -> Any:
    """`lax.scan` over the state alone."""
    from jax import nn, numpy as jnp

    z, g = jnp.split(x @ W + b, 2, axis=-1)
    z = nn.sigmoid(z)
    return jax.scan(_scaled_and_added, (1 - z, z * g), (jnp.zeros(g.shape[1:], x.dtype),))


def mingru_by_torch(x: Any, W: Any, b: Any) -> Any:
    """A loop over the state alone."""
    import torch as library

    z, g = (x @ W + b).chunk(2, -1)
    z = library.sigmoid(z)
    return library.stack(loop(lambda row, h: (library.addcmul(row[1], row[0], h),), _rows(1 - z, z * g), (_first(g),)))


def _mingru_work(sizes: Sizes, itemsize: int) -> Work:
    T, B, I, H = (sizes[name] for name in "TBIH")
    return Work(4.0 * T * B * I * H)


# ---- S6: h = exp(d*A)*h + (d*u)*B, y = h.C + D*u; d = softplus(.) ----------------------------------------------------


def s6_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """The inputs that a selective scan gets: u and the step before its softplus (T, B, D), B and C (T, B, N)."""
    T, B, D, N = (sizes[name] for name in "TBDN")
    draw = Draw(rng, dtype)
    return {
        "u": draw.normal(T, B, D),
        "delta": draw.normal(T, B, D, scale=0.5),
        "A": -np.tile(np.arange(1, N + 1), (D, 1)).astype(dtype),
        "Bs": draw.normal(T, B, N),
        "Cs": draw.normal(T, B, N),
        "skip": draw.normal(D),
    }


def s6_reference(u: Any, delta: Any, A: Any, Bs: Any, Cs: Any, skip: Any) -> Any:
    """The plain loop."""
    (T, B, D), N = u.shape, A.shape[1]
    d = tape.softplus(delta)
    du, h, found = d * u, tape.Array(np.zeros((B, D, N))), []
    for t in range(T):
        decay = tape.exp(d[t].reshape(B, D, 1) * A)
        h = decay * h + du[t].reshape(B, D, 1) * Bs[t].reshape(B, 1, N)
        found.append((h * Cs[t].reshape(B, 1, N)).sum(-1))
    return tape.stack(found) + skip * u


def s6_by_scanjit(u: Any, delta: Any, A: Any, Bs: Any, Cs: Any, skip: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    def step(u_t: Any, delta_t: Any, b_t: Any, c_t: Any, h: Any) -> Any:
        d = sj.softplus(delta_t)
        h = sj.exp(d[:, :, None] * A) * h + (d * u_t)[:, :, None] * b_t[:, None, :]
        return (h * c_t[:, None, :]).sum(-1) + skip * u_t, h

    h = sj.zeros((u.shape[1], u.shape[2], A.shape[1]), u.dtype)
    return sj.scan(step, [u, delta, Bs, Cs], [None, h], unroll=unroll)[0]


def s6_by_jax(u: Any, delta: Any, A: Any, Bs: Any, Cs: Any, skip: Any) -> Any:
    """`lax.scan`, with what has no state and is small before the loop."""
    from jax import lax, nn, numpy as jnp

    d = nn.softplus(delta)

    def body(h: Any, row: Any) -> Any:
        d_t, du_t, b_t, c_t = row
        h = jnp.exp(d_t[:, :, None] * A) * h + du_t[:, :, None] * b_t[:, None, :]
        return h, (h * c_t[:, None, :]).sum(-1)

    h = jnp.zeros((*u.shape[1:], A.shape[1]), u.dtype)
    return lax.scan(body, h, (d, d * u, Bs, Cs))[1] + skip * u


def s6_by_torch(u: Any, delta: Any, A: Any, Bs: Any, Cs: Any, skip: Any) -> Any:
    """A loop over the state alone."""
    import torch as library

    d = library.nn.functional.softplus(delta)
    h, found = u.new_zeros(*u.shape[1:], A.shape[1]), []
    for d_t, du_t, b_t, c_t in _rows(d, d * u, Bs, Cs):
        h = library.addcmul(du_t[:, :, None] * b_t[:, None, :], library.exp(d_t[:, :, None] * A), h)
        found.append(library.bmm(h, c_t[:, :, None])[:, :, 0])
    return library.stack(found) + skip * u


CASES = [
    Case(
        name="SRU",
        group="custom",
        sizes=grid("B T I H", (32, 256, 256, 256)),
        quick={"B": 3, "T": 5, "I": 4, "H": 18},
        data=sru_data,
        reference=sru_reference,
        make={
            "scanjit": scanjit.program(sru_by_scanjit),
            "torch": torch.program(sru_by_torch),
            "jax": jax.program(sru_by_jax),
        },
        value=("T", "B", "H"),
        wrt=("x", "W", "b"),
        weights=("W", "b"),
        free={"x": SEQUENCE},
        work=_sru_work,
    ),
    Case(
        name="minGRU",
        group="custom",
        sizes=grid("B T I H", (32, 256, 256, 256)),
        quick={"B": 3, "T": 5, "I": 4, "H": 18},
        data=mingru_data,
        reference=mingru_reference,
        make={
            "scanjit": scanjit.program(mingru_by_scanjit),
            "torch": torch.program(mingru_by_torch),
            "jax": jax.program(mingru_by_jax),
        },
        value=("T", "B", "H"),
        wrt=("x", "W", "b"),
        weights=("W", "b"),
        free={"x": SEQUENCE},
        work=_mingru_work,
    ),
    Case(
        name="selective scan (S6)",
        group="custom",
        sizes=grid("B T D N", (4, 512, 128, 16)),
        quick={"B": 2, "T": 5, "D": 6, "N": 4},
        data=s6_data,
        reference=s6_reference,
        make={
            "scanjit": scanjit.program(s6_by_scanjit),
            "torch": torch.program(s6_by_torch),
            "jax": jax.program(s6_by_jax),
        },
        value=("T", "B", "D"),
        wrt=("u", "delta", "A", "Bs", "Cs", "skip"),
        weights=("A", "skip"),
        free={name: SEQUENCE for name in ("u", "delta", "Bs", "Cs")},
    ),
]
