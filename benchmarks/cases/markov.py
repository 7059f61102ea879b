"""The log-likelihood of a regression with two regimes, between which a Markov chain switches (Hamilton, 1989)."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes
from benchmarks.cases.common import Draw, grid
from benchmarks.engines import jax, scanjit


def data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """The parameters (levels, slopes, logarithms of the spreads, logits of staying), and the data y of x."""
    draw = Draw(rng, dtype)
    p = np.array([-0.5, 0.5, 1.0, -1.0, 0.1, -0.2, 1.5, 2.0], dtype)
    return {"p": p, "x": draw.normal(sizes["T"]), "y": draw.normal(sizes["T"])}


def _step(x: Any, y: Any, chance: Any, level: Any, slope: Any, spread: Any, stay: Any, exp: Any) -> Any:
    """The chances of the regimes after `y` was seen, and how likely it was."""
    surprise = (y - level - slope * x) / spread
    joint = (stay * chance + ((1 - stay) * chance)[::-1]) * exp(-0.5 * surprise * surprise) / spread
    total = joint.sum()
    return joint / total, total


def _parameters(p: Any, exp: Any, sigmoid: Any) -> tuple[Any, ...]:
    return p[0:2], p[2:4], exp(p[4:6]), sigmoid(p[6:8])


def reference(p: Any, x: Any, y: Any) -> Any:
    """The plain loop."""
    parameters = _parameters(p, tape.exp, tape.sigmoid)
    chance, sum_of_logs = tape.Array([0.5, 0.5]), tape.Array(0.0)
    for t in range(x.shape[0]):
        chance, total = _step(x[t], y[t], chance, *parameters, tape.exp)
        sum_of_logs = sum_of_logs + tape.log(total)
    return sum_of_logs


def by_scanjit(p: Any, x: Any, y: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    parameters = _parameters(p, sj.exp, sj.sigmoid)
    step = lambda x_t, y_t, chance: _step(x_t, y_t, chance, *parameters, sj.exp)
    start = sj.as_tensor(np.array([0.5, 0.5], p.dtype))
    return sj.log(sj.scan(step, [x, y], [start, None], unroll=unroll)[1]).sum()


def by_jax(p: Any, x: Any, y: Any) -> Any:
    """`lax.scan`."""
    from jax import lax, nn, numpy as jnp

    parameters = _parameters(p, jnp.exp, nn.sigmoid)
    step = lambda chance, row: _step(*row, chance, *parameters, jnp.exp)
    return jnp.log(lax.scan(step, jnp.array([0.5, 0.5], p.dtype), (x, y))[1]).sum()


CASES = [
    Case(
        name="Markov regression",
        group="custom",
        sizes=grid("T", (10_000,)),
        quick={"T": 30},
        data=data,
        reference=reference,
        make={"scanjit": scanjit.program(by_scanjit), "jax": jax.program(by_jax)},
        wrt=("p",),
        free={"x": {0: "T"}, "y": {0: "T"}},
        tolerance=(1e-3, 1e-8),
        dtypes=("float64",),
        absent={"torch": "an eager loop of 10,000 steps takes seconds"},
        starts=("forward", "gradient", "hessian"),
    )
]
