"""One step of an LSTM a call, as for a signal that comes row by row: the state is handed in and out."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes, Work
from benchmarks.cases.common import Draw, grid, split
from benchmarks.engines import jax, scanjit, torch

BATCH = {0: "B"}
"""The free axis of a row."""


def data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """A row, the state before it, and weights."""
    B, I, H = (sizes[name] for name in "BIH")
    draw = Draw(rng, dtype)
    return {
        "x": draw.normal(B, I),
        "h": draw.normal(B, H, scale=0.5),
        "c": draw.normal(B, H),
        "W": draw.matrix(I, 4 * H),
        "R": draw.matrix(H, 4 * H),
        "b": draw.normal(4 * H, scale=0.1),
    }


def work(sizes: Sizes, itemsize: int) -> Work:
    """The products; alone in its batch, a row has to read all weights."""
    B, I, H = (sizes[name] for name in "BIH")
    weights = 4 * H * (I + H) * itemsize
    return Work(8.0 * B * H * (I + H), weights if B == 1 else 0, weights)


def _step(library: Any, x: Any, h: Any, c: Any, W: Any, R: Any, b: Any) -> tuple[Any, Any]:
    i, f, g, o = split(x @ W + h @ R + b, 4)
    c = library.sigmoid(f) * c + library.sigmoid(i) * library.tanh(g)
    return library.sigmoid(o) * library.tanh(c), c


def reference(**arguments: Any) -> Any:
    """The state after the row: h, then c."""
    return tape.concatenate(list(_step(tape, **arguments)))


def by_scanjit(unroll: int | bool, **symbols: Any) -> Any:
    """As a user writes it."""
    import scanjit as sj

    return sj.concatenate(_step(sj, **symbols), 1)


def by_jax(**arrays: Any) -> Any:
    """As a user writes it."""
    from jax import nn, numpy as jnp

    class Library:
        sigmoid, tanh = staticmethod(nn.sigmoid), staticmethod(jnp.tanh)

    return jnp.concatenate(_step(Library, **arrays), 1)


def by_torch(x: Any, h: Any, c: Any, W: Any, R: Any, b: Any) -> Any:
    """What `nn.LSTMCell` calls, whose weights have the other axis first."""
    import torch as library

    return library.cat(library.lstm_cell(x, (h, c), W.T, R.T, b, library.zeros_like(b)), 1)


CASES = [
    Case(
        name="LSTM, one step a call",
        group="streaming",
        sizes=grid("B I H K", (1, 128, 512, 1024), (1, 128, 256, 512), (1, 64, 128, 256), (16, 128, 256, 512)),
        quick={"B": 2, "I": 3, "H": 5, "K": 10},
        data=data,
        reference=reference,
        make={
            "scanjit": scanjit.program(by_scanjit),
            "torch": torch.program(by_torch),
            "jax": jax.program(by_jax),
        },
        value=("B", "K"),
        wrt=("x", "h", "c", "W", "R", "b"),
        weights=("W", "R", "b"),
        free={"x": BATCH, "h": BATCH, "c": BATCH},
        work=work,
    )
]
