"""Chains of one function, `h = f(0.5*h + x)`: each step waits for the one before, so that only the function's latency
counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes
from benchmarks.cases.common import loop
from benchmarks.engines import jax, numba, scanjit


def data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """The series."""
    return {"x": rng.standard_normal(sizes["T"]).astype(dtype)}


def by_scanjit(f: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """As a user writes it."""

    def run(x: Any, unroll: int | bool) -> Any:
        import scanjit as sj

        return sj.scan(lambda x_t, h: f(sj, 0.5 * h + x_t), x, sj.zeros((), x.dtype), unroll=unroll)

    return run


def by_jax(f: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """`lax.scan`."""

    def run(x: Any) -> Any:
        from jax import nn, numpy as jnp

        class names:
            exp, log, tanh, sigmoid, softplus = jnp.exp, jnp.log, jnp.tanh, nn.sigmoid, nn.softplus

        return jax.scan(lambda x_t, h: (f(names, 0.5 * h + x_t),), x, (jnp.zeros((), x.dtype),))

    return run


def reference(f: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The plain loop."""

    def run(x: Any) -> Any:
        return tape.stack(loop(lambda x_t, h: (f(tape, h * 0.5 + x_t),), x, (tape.Array(np.zeros(())),)))

    return run


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "exp": lambda m, u: m.exp(-(u * u)),
    "sigmoid": lambda m, u: m.sigmoid(u),
    "log": lambda m, u: m.log(u * u + 1.0),
    "tanh": lambda m, u: m.tanh(u),
    "softplus": lambda m, u: m.softplus(u),
}
"""By name, of a module with functions of their names, and the argument."""

CASES = [
    Case(
        name=f"chain of {name}",
        group="custom",
        sizes=[{"T": 20_000}],
        quick={"T": 100},
        data=data,
        reference=reference(f),
        make={
            "scanjit": scanjit.program(by_scanjit(f)),
            "jax": jax.program(by_jax(f)),
            "numba": numba.program("chains_numba", name),
        },
        value=("T",),
        wrt=("x",),
        free={"x": {0: "T"}},
        dtypes=("float64", "float32"),
        scalar=True,
    )
    for name, f in FUNCTIONS.items()
]
