"""Sums over time of what a loop stacks: a batch of GARCH likelihoods, each with parameters of its own and returns along
a row, their Hessians, and the squares of many leaky states."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes
from benchmarks.cases.common import Draw, grid, loop
from benchmarks.cases.garch import by_jax, by_scanjit
from benchmarks.engines import jax, scanjit

TORCH = {"torch": "an eager loop of many steps, each of which is several calls"}


def series(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """The parameters of each series, and its returns."""
    p = np.array([0.1, 0.1, 0.8], dtype) * Draw(rng, dtype).uniform(0.9, 1.1, sizes["N"], 3)
    return {"p": p.astype(dtype), "r": Draw(rng, dtype).normal(sizes["N"], sizes["T"])}


def likelihoods(p: Any, r: Any) -> Any:
    """The plain loop over all series at once."""
    h, total = 1.0, 0.0
    for t in range(r.shape[1]):
        square = r[:, t] * r[:, t]
        h = p[:, 0] + p[:, 1] * square + p[:, 2] * h
        total = total + (tape.log(h) + square / h).sum()
    return total


def curvature(p: Any, r: Any) -> Any:
    """The sum of the squares of all second derivatives, which go along with the loop."""
    n = r.shape[0]
    one, zero = np.ones(n), np.zeros(n)
    h: Any = one
    first: list[Any] = [zero] * 3
    second: list[list[Any]] = [[zero] * 3 for _ in range(3)]
    total: list[list[Any]] = [[zero] * 3 for _ in range(3)]
    for t in range(r.shape[1]):
        square = r[:, t] * r[:, t]
        second = [
            [p[:, 2] * second[i][j] + (i == 2) * first[j] + (j == 2) * first[i] for j in range(3)] for i in range(3)
        ]
        first = [p[:, 2] * d + own for d, own in zip(first, (one, square, h), strict=True)]
        h = p[:, 0] + p[:, 1] * square + p[:, 2] * h
        slope, bend = 1 / h - square / (h * h), 2 * square / (h * h * h) - 1 / (h * h)
        total = [[total[i][j] + slope * second[i][j] + bend * first[i] * first[j] for j in range(3)] for i in range(3)]
    return sum((entry * entry).sum() for row in total for entry in row)


def likelihoods_by_scanjit(p: Any, r: Any, unroll: int | bool) -> Any:
    """`vmap` of the likelihood of one series."""
    import scanjit as sj

    return sj.vmap(lambda p, r: by_scanjit(p, r, unroll))(p, r).sum()


def curvature_by_scanjit(p: Any, r: Any, unroll: int | bool) -> Any:
    """`vmap` of the Hessian of one series."""
    import scanjit as sj

    return (sj.vmap(lambda p, r: sj.hessian(by_scanjit(p, r, unroll), p))(p, r) ** 2).sum()


def likelihoods_by_jax(p: Any, r: Any) -> Any:
    """`vmap` of the likelihood of one series."""
    import jax

    return jax.vmap(by_jax)(p, r).sum()


def curvature_by_jax(p: Any, r: Any) -> Any:
    """`vmap` of the Hessian of one series."""
    import jax

    return (jax.vmap(jax.hessian(by_jax))(p, r) ** 2).sum()


def states(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """The decay of each state, and what comes in."""
    draw = Draw(rng, dtype)
    return {"a": draw.uniform(0.5, 0.9, sizes["N"]), "x": draw.normal(sizes["T"], sizes["N"])}


def squares(a: Any, x: Any) -> Any:
    """The plain loop."""
    return (tape.stack(loop(lambda x_t, h: (tape.tanh(a * h + x_t),), x, (np.zeros(x.shape[1]),))) ** 2).sum()


def squares_by_scanjit(a: Any, x: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    return (sj.scan(lambda x, h: sj.tanh(a * h + x), x, sj.zeros_like(a), unroll=unroll) ** 2).sum()


def squares_by_jax(a: Any, x: Any) -> Any:
    """`lax.scan`."""
    from jax import numpy as jnp

    return (jax.scan(lambda x_t, h: (jnp.tanh(a * h + x_t),), x, (jnp.zeros_like(a),)) ** 2).sum()


CASES = [
    Case(
        name="batch of likelihoods",
        group="custom",
        sizes=grid("N T", (2000, 1000)),
        quick={"N": 9, "T": 20},
        data=series,
        reference=likelihoods,
        make={"scanjit": scanjit.program(likelihoods_by_scanjit), "jax": jax.program(likelihoods_by_jax)},
        wrt=("p",),
        free={"p": {0: "N"}, "r": {0: "N", 1: "T"}},
        dtypes=("float64",),
        absent=TORCH,
    ),
    Case(
        name="Hessians of a batch",
        group="custom",
        sizes=grid("N T", (2000, 1000)),
        quick={"N": 9, "T": 20},
        data=series,
        reference=curvature,
        make={"scanjit": scanjit.program(curvature_by_scanjit), "jax": jax.program(curvature_by_jax)},
        free={"p": {0: "N"}, "r": {0: "N", 1: "T"}},
        dtypes=("float64",),
        absent=TORCH,
        kinds=("forward",),
    ),
    Case(
        name="squares of a stack",
        group="custom",
        sizes=grid("N T", (4096, 500)),
        quick={"N": 9, "T": 20},
        data=states,
        reference=squares,
        make={"scanjit": scanjit.program(squares_by_scanjit), "jax": jax.program(squares_by_jax)},
        wrt=("a", "x"),
        free={"a": {0: "N"}, "x": {0: "T", 1: "N"}},
        dtypes=("float32",),
        absent=TORCH,
    ),
]
