"""An LSTM over sequences of different lengths; outputs after the end of a sequence are zero.

Lengths go evenly from `least` to T, the longest first. Ideally the cost follows their sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.case import Arrays, Case, Program, Sizes, Task, Work
from benchmarks.cases import lstm
from benchmarks.cases.common import SEQUENCE, grid, split
from benchmarks.engines import jax, scanjit, torch


def _lengths(sizes: Sizes) -> np.ndarray:
    return np.linspace(sizes["T"], sizes["least"], sizes["B"]).round().astype(np.int64)


def data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Those of the LSTM, and the lengths."""
    return {**lstm.data(sizes, dtype, rng), "lengths": _lengths(sizes)}


def reference(x: Any, W: Any, R: Any, b: Any, lengths: np.ndarray) -> Any:
    """All steps of all sequences; what comes after the end is wiped out."""
    mask = np.arange(x.shape[0])[:, None] < lengths
    return lstm.reference(x, W, R, b) * mask[:, :, None].astype(float)


def by_scanjit(x: Any, W: Any, R: Any, b: Any, lengths: Any, unroll: int | bool) -> Any:
    """As a user writes it: behind the end of a sequence its state stays as it was."""
    import scanjit as sj

    def step(x_t: Any, going: Any, h: Any, c: Any) -> Any:
        i, f, g, o = split(x_t @ W + h @ R + b, 4)
        new = sj.sigmoid(f) * c + sj.sigmoid(i) * sj.tanh(g)
        c = sj.where(going, new, c)
        h = sj.where(going, sj.sigmoid(o) * sj.tanh(c), h)
        return h, c, sj.where(going, h, 0)

    zeros = sj.zeros((x.shape[1], R.shape[0]), x.dtype)
    mask = (sj.arange(x.shape[0])[:, None] < lengths)[:, :, None]
    return sj.scan(step, [x, mask], [zeros, zeros, None], unroll=unroll)[2]


def by_jax(x: Any, W: Any, R: Any, b: Any, lengths: Any) -> Any:
    """All steps; what comes after the end is wiped out."""
    from jax import numpy as jnp

    mask = jnp.arange(x.shape[0])[:, None] < lengths
    return jnp.where(mask[:, :, None], lstm.by_jax(x, W, R, b), 0)


def by_torch(task: Task) -> Program:
    """`nn.LSTM` on packed sequences."""
    import torch as library
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    arguments = torch.tensors(task)
    network = library.nn.LSTM(task.sizes["I"], task.sizes["H"], dtype=arguments["x"].dtype)
    weights = [arguments["W"].T, arguments["R"].T, arguments["b"], library.zeros_like(arguments["b"])]
    with library.no_grad():
        for parameter, value in zip(network.parameters(), weights, strict=True):
            parameter.copy_(value)

    def forward() -> Any:
        packed = pack_padded_sequence(arguments["x"], arguments["lengths"])
        return pad_packed_sequence(network(packed)[0])[0]

    leaves = [arguments["x"], *network.parameters()]
    return torch.timed(task, forward, leaves, lambda found: [found[0], found[1].T, found[2].T, found[3]])


def _work(sizes: Sizes, itemsize: int) -> Work:
    return Work(8.0 * _lengths(sizes).sum() * sizes["H"] * (sizes["I"] + sizes["H"]))


CASES = [
    Case(
        name="LSTM, ragged",
        group="ragged",
        sizes=grid("B T I H least", (64, 100, 128, 128, 100), (64, 100, 128, 128, 50), (64, 100, 128, 128, 1)),
        quick={"B": 3, "T": 7, "I": 5, "H": 18, "least": 2},
        data=data,
        reference=reference,
        make={"scanjit": scanjit.program(by_scanjit), "torch": by_torch, "jax": jax.program(by_jax)},
        value=("T", "B", "H"),
        wrt=("x", "W", "R", "b"),
        weights=("W", "R", "b"),
        free={"x": SEQUENCE, "lengths": {0: "B"}},
        work=_work,
    )
]
