"""Slices that move: blocks of a long vector read and changed where they lie, a ring of rows, and a roll."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes
from benchmarks.cases.common import Draw, grid
from benchmarks.engines import jax, plain, scanjit

DEPTH = 16
"""How many rows the ring has."""
BACK = 5
"""How many steps before the row was written that a step reads."""


def blocks_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """A vector, and where the block of each step begins."""
    N, K, T = (sizes[name] for name in "NKT")
    return {"x": Draw(rng, dtype).normal(N), "at": rng.integers(0, N - K, T)}


# ---- the loops in NumPy ----------------------------------------------------------------------------------------------


def reads(x: Any, at: Any, width: int) -> Any:
    """Blocks of a vector, averaged."""
    h = np.zeros(width, x.dtype)
    for t in at:
        h = x.dtype.type(0.5) * h + x[t : t + width]
    return h


def writes(x: Any, at: Any, width: int) -> Any:
    """Blocks of a vector, changed where they lie."""
    h = x.copy()
    for t in at:
        h[t : t + width] = x.dtype.type(0.5) * h[t : t + width] + 1
    return h


def rings(xs: Any) -> Any:
    """Each row, and a part of what the one some steps before it has become."""
    ring, found = np.zeros((DEPTH, xs.shape[1]), xs.dtype), np.empty_like(xs)
    for t, row in enumerate(xs):
        found[t] = ring[t % DEPTH] = row + xs.dtype.type(0.9) * ring[(t - BACK) % DEPTH]
    return found


# ---- as users write them ---------------------------------------------------------------------------------------------


def _reads(width: int) -> Any:
    def ours(x: Any, at: Any, unroll: int | bool) -> Any:
        import scanjit as sj

        start = sj.zeros((width,), x.dtype)
        return sj.scan(lambda t, h: 0.5 * h + x[t : t + width], at, start, unroll=unroll)[-1]

    def by_jax(x: Any, at: Any) -> Any:
        from jax import lax, numpy as jnp

        step = lambda h, t: (0.5 * h + lax.dynamic_slice(x, (t,), (width,)), None)
        return lax.scan(step, jnp.zeros(width, x.dtype), at)[0]

    return ours, by_jax


def _writes(width: int) -> Any:
    def ours(x: Any, at: Any, unroll: int | bool) -> Any:
        import scanjit as sj

        return sj.scan(lambda t, h: h[t : t + width].set(0.5 * h[t : t + width] + 1), at, x, unroll=unroll)[-1]

    def by_jax(x: Any, at: Any) -> Any:
        from jax import lax

        def step(h: Any, t: Any) -> Any:
            return lax.dynamic_update_slice(h, 0.5 * lax.dynamic_slice(h, (t,), (width,)) + 1, (t,)), None

        return lax.scan(step, x, at)[0]

    return ours, by_jax


def rings_by_scanjit(xs: Any, unroll: int | bool) -> Any:
    """A carry of rows, of which a step sets one."""
    import scanjit as sj

    def step(row: Any, ring: Any, t: Any) -> Any:
        new = row + 0.9 * ring[(t - BACK) % DEPTH]
        return ring[t % DEPTH].set(new), t + 1, new

    return sj.scan(step, xs, [sj.zeros((DEPTH, xs.shape[1]), xs.dtype), 0, None], unroll=unroll)[2]


def rings_by_jax(xs: Any) -> Any:
    """The same."""
    from jax import lax, numpy as jnp

    def step(carry: Any, row: Any) -> Any:
        ring, t = carry
        new = row + 0.9 * ring[(t - BACK) % DEPTH]
        return (ring.at[t % DEPTH].set(new), t + 1), new

    return lax.scan(step, (jnp.zeros((DEPTH, xs.shape[1]), xs.dtype), 0), xs)[1]


def _rolled_by_scanjit(x: Any, by: Any, unroll: int | bool) -> Any:
    import scanjit as sj

    return sj.roll(x, by[0])


def _rolled_by_jax(x: Any, by: Any) -> Any:
    from jax import numpy as jnp

    return jnp.roll(x, by[0])


def _blocks(name: str, loop: Any, width: int, engines: Any, value: tuple[str, ...]) -> Case:
    """A loop over blocks of so many elements."""
    ours, by_jax = engines

    def numpy(x: Any, at: Any) -> Any:
        return loop(x, at, width)

    return Case(
        name=name,
        group="custom",
        sizes=grid("N K T", (1_000_000, width, 10_000)),
        quick={"N": 3 * width, "K": width, "T": 6},
        data=blocks_data,
        reference=lambda x, at: tape.Array(numpy(x.value, at)),
        make={"scanjit": scanjit.program(ours), "numpy": plain.direct(numpy), "jax": jax.program(by_jax)},
        value=value,
        free={"x": {0: "N"}, "at": {0: "T"}},
        tolerance=(1e-3, 1e-9),
        dtypes=("float32", "float64"),
        kinds=("forward",),
    )


CASES = [
    _blocks("reads that move", reads, 1024, _reads(1024), ("K",)),
    _blocks("writes that move", writes, 1024, _writes(1024), ("N",)),
    Case(
        name="ring of rows",
        group="custom",
        sizes=grid("T N", (10_000, 64), (10_000, 1024)),
        quick={"T": 40, "N": 6},
        data=lambda sizes, dtype, rng: {"xs": Draw(rng, dtype).normal(sizes["T"], sizes["N"])},
        reference=lambda xs: tape.Array(rings(xs.value)),
        make={
            "scanjit": scanjit.program(rings_by_scanjit),
            "numpy": plain.direct(rings),
            "jax": jax.program(rings_by_jax),
        },
        value=("T", "N"),
        free={"xs": {0: "T"}},
        tolerance=(1e-3, 1e-9),
        kinds=("forward",),
    ),
    Case(
        name="roll by a computed shift",
        group="custom",
        sizes=grid("N", (1_000_000,)),
        quick={"N": 37},
        data=lambda sizes, dtype, rng: {
            "x": Draw(rng, dtype).normal(sizes["N"]),
            "by": rng.integers(0, sizes["N"], 1),
        },
        reference=lambda x, by: tape.Array(np.roll(x.value, by[0])),
        make={
            "scanjit": scanjit.program(_rolled_by_scanjit),
            "numpy": plain.direct(lambda x, by: np.roll(x, by[0])),
            "jax": jax.program(_rolled_by_jax),
        },
        value=("N",),
        free={"x": {0: "N"}},
        tolerance=(1e-6, 1e-12),
        kinds=("forward",),
    ),
]
