"""A neural ODE, `dy/dt = tanh(y @ W + b) @ V`, by Runge and Kutta's method of fourth order with fixed steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes, Work
from benchmarks.cases.common import Draw, grid, loop
from benchmarks.engines import jax, scanjit, torch

STEP = 0.05


def data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Where the curves begin, and the weights; `steps` only says how many there are."""
    B, D, H = (sizes[name] for name in "BDH")
    draw = Draw(rng, dtype)
    return {
        "y": draw.normal(B, D),
        "W": draw.matrix(D, H),
        "b": draw.normal(H, scale=0.1),
        "V": draw.matrix(H, D),
        "steps": np.full(sizes["T"], STEP, dtype),
    }


def _step(tanh: Any, d: Any, y: Any, W: Any, b: Any, V: Any) -> Any:
    def slope(y: Any) -> Any:
        return tanh(y @ W + b) @ V

    k1 = slope(y)
    k2 = slope(y + 0.5 * d * k1)
    k3 = slope(y + 0.5 * d * k2)
    k4 = slope(y + d * k3)
    return y + d / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def reference(y: Any, W: Any, b: Any, V: Any, steps: Any) -> Any:
    """The plain loop."""
    return tape.stack(loop(lambda _, y: (_step(tape.tanh, STEP, y, W, b, V),), steps, (y,)))


def by_scanjit(y: Any, W: Any, b: Any, V: Any, steps: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    return sj.scan(lambda d, y: _step(sj.tanh, d, y, W, b, V), steps, y, unroll=unroll)


def by_jax(y: Any, W: Any, b: Any, V: Any, steps: Any) -> Any:
    """`lax.scan`."""
    from jax import numpy as jnp

    return jax.scan(lambda d, y: (_step(jnp.tanh, d, y, W, b, V),), steps, (y,))


def by_torch(y: Any, W: Any, b: Any, V: Any, steps: Any) -> Any:
    """A loop over steps."""
    import torch as library

    return library.stack(loop(lambda _, y: (_step(library.tanh, STEP, y, W, b, V),), steps, (y,)))


def _work(sizes: Sizes, itemsize: int) -> Work:
    return Work(16.0 * sizes["T"] * sizes["B"] * sizes["D"] * sizes["H"])


CASES = [
    Case(
        name="neural ODE (RK4)",
        group="custom",
        sizes=grid("B T D H", (32, 100, 64, 128)),
        quick={"B": 3, "T": 4, "D": 5, "H": 18},
        data=data,
        reference=reference,
        make={
            "scanjit": scanjit.program(by_scanjit),
            "torch": torch.program(by_torch),
            "jax": jax.program(by_jax),
        },
        value=("T", "B", "D"),
        wrt=("y", "W", "b", "V"),
        weights=("W", "b", "V"),
        free={"y": {0: "B"}, "steps": {0: "T"}},
        work=_work,
    )
]
