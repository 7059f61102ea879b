"""The log-likelihood of a GARCH(1,1) model: `h = p0 + p1*r**2 + p2*h`, summed `log(h) + r**2/h`; h begins with 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes, Work
from benchmarks.cases.common import Draw, grid, loop
from benchmarks.engines import jax, numba, plain, pytensor, scanjit


def data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """The parameters and the returns."""
    return {"p": np.array([0.1, 0.1, 0.8], dtype), "r": Draw(rng, dtype).normal(sizes["T"])}


def reference(p: Any, r: Any) -> Any:
    """The plain loop."""
    h = tape.stack(loop(lambda known, h: (known + p[2] * h,), p[0] + p[1] * r * r, (tape.Array(1.0),)))
    return (tape.log(h) + r * r / h).sum()


def by_scanjit(p: Any, r: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    def step(r_t: Any, h: Any) -> Any:
        h = p[0] + p[1] * r_t * r_t + p[2] * h
        return h, sj.log(h) + r_t * r_t / h

    return sj.scan(step, r, [1.0, None], unroll=unroll)[1].sum()


def by_jax(p: Any, r: Any) -> Any:
    """`lax.scan` over the variance alone, everything else for all steps at once."""
    from jax import numpy as jnp

    h = jax.scan(lambda known, h: (known + p[2] * h,), p[0] + p[1] * r * r, (jnp.ones((), r.dtype),))
    return (jnp.log(h) + r * r / h).sum()


def by_pytensor(p: Any, r: Any) -> Any:
    """`scan` over the variance alone."""
    import pytensor
    import pytensor.tensor as pt

    h = pytensor.scan(
        lambda known, h, p2: known + p2 * h,
        [p[0] + p[1] * r * r],
        [pt.ones((), dtype=r.dtype)],
        non_sequences=[p[2]],
        return_updates=False,
        strict=True,
    )
    return (pt.log(h) + r * r / h).sum()


CASES = [
    Case(
        name="GARCH(1,1)",
        group="custom",
        sizes=grid("T", (100_000,)),
        quick={"T": 300},
        data=data,
        reference=reference,
        make={
            "scanjit": scanjit.program(by_scanjit),
            "jax": jax.program(by_jax),
            "pytensor": pytensor.program(by_pytensor),
            "numba": numba.program("garch_numba"),
            "numpy": plain.program("garch_numpy"),
        },
        value=(),
        wrt=("p",),
        free={"r": {0: "T"}},
        work=lambda sizes, itemsize: Work(chain=sizes["T"]),
        dtypes=("float64",),
        scalar=True,
        absent={"torch": "an eager loop of 100,000 steps takes seconds"},
        starts=("forward", "gradient", "hessian"),
    )
]
