"""A plain recurrent network: `h = tanh(x @ W + h @ R + b)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes, Work
from benchmarks.cases.common import SEQUENCE, Draw, gate_flops, grid, loop
from benchmarks.engines import jax, numba, plain, scanjit


def data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Inputs and weights."""
    T, B, I, H = (sizes[name] for name in "TBIH")
    draw = Draw(rng, dtype)
    return {
        "x": draw.normal(T, B, I),
        "W": draw.matrix(I, H),
        "R": 0.5 * draw.matrix(H, H),
        "b": draw.normal(H, scale=0.1),
    }


def reference(x: Any, W: Any, R: Any, b: Any) -> Any:
    """The plain loop."""
    zeros = tape.Array(np.zeros((x.shape[1], R.shape[0])))
    return tape.stack(loop(lambda x_t, h: (tape.tanh(x_t @ W + h @ R + b),), x, (zeros,)))


def by_scanjit(x: Any, W: Any, R: Any, b: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    zeros = sj.zeros((x.shape[1], R.shape[0]), x.dtype)
    return sj.scan(lambda x_t, h: sj.tanh(x_t @ W + h @ R + b), x, zeros, unroll=unroll)


def by_jax(x: Any, W: Any, R: Any, b: Any) -> Any:
    """`lax.scan`, with the product of the input before the loop."""
    from jax import numpy as jnp

    zeros = jnp.zeros((x.shape[1], R.shape[0]), x.dtype)
    return jax.scan(lambda z, h: (jnp.tanh(z + h @ R),), x @ W + b, (zeros,))


CASES = [
    Case(
        name="tanh RNN",
        group="custom",
        sizes=grid("B T I H", (16, 100, 120, 320)),
        quick={"B": 3, "T": 7, "I": 5, "H": 18},
        data=data,
        reference=reference,
        make={
            "scanjit": scanjit.program(by_scanjit),
            "jax": jax.program(by_jax),
            "numba": numba.program("rnn_numba"),
            "numpy": plain.program("rnn_numpy"),
        },
        value=("T", "B", "H"),
        wrt=("x", "W", "R", "b"),
        weights=("W", "R", "b"),
        free={"x": SEQUENCE},
        work=lambda sizes, itemsize: Work(gate_flops(sizes, 1)),
        starts=("forward", "gradient"),
    )
]
