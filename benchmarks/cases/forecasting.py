"""A block of TiRex 2, which forecasts series: an sLSTM over time in both directions, and a gated layer after it.

Series whose future is known (of `x`, the last half) are read in both directions, the others forward only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Program, Sizes, Task, Work
from benchmarks.cases.common import Draw, grid
from benchmarks.cases.special import LOWEST, slstm_reference, slstm_step
from benchmarks.engines import jax, scanjit, torch

EPS = 1e-6
LEAST = 1.0
"""The least normalizer of FlashRNN's sLSTM."""


def data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Series x of patches, and the weights: of the gates (i, f, z, o) by head, of what combines the two directions, of
    the gated layer, and of the norms."""
    T, B, N, D = (sizes[name] for name in "TBND")
    draw, width = Draw(rng, dtype), N * D
    wide = _wide(width)
    bias = draw.normal(4, N * D, scale=0.1)
    bias[1] += 3
    return {
        "x": draw.normal(B, T, width),
        "W": draw.normal(N, D, 4 * D, scale=D**-0.5),
        "R": draw.normal(N, D, 4 * D, scale=D**-0.5),
        "b": bias.reshape(-1),
        "both": draw.matrix(2 * width, width),
        "gate": draw.matrix(width, wide),
        "up": draw.matrix(width, wide),
        "down": draw.matrix(wide, width),
        "scales": draw.uniform(0.5, 1.5, 3, width),
    }


def _wide(width: int) -> int:
    """The units of the gated layer: 8/3 of the features, a multiple of 64."""
    return -(-int(width * 2.6667) // 64) * 64


# ---- the plain loop --------------------------------------------------------------------------------------------------


def reference(
    x: Any, W: Any, R: Any, b: Any, both: Any, gate: Any, up: Any, down: Any, scales: Any
) -> Any:  # fmt: skip
    """A step after the other."""
    B, T = x.shape[:2]
    rows = [_rms(x[:, t], scales[0]) for t in range(T)]
    ahead = _cell_reference(rows, W, R, b, scales[1])
    back = _cell_reference([row[B // 2 :] for row in rows[::-1]], W, R, b, scales[1])[::-1]
    found = []
    for t in range(T):
        mixed = tape.concatenate([ahead[t][B // 2 :], back[t]]) @ both
        y = x[:, t] + tape.concatenate([ahead[t][: B // 2].T, mixed.T]).T
        z = _rms(y, scales[2])
        opened = z @ gate
        found.append(y + (opened * tape.sigmoid(opened) * (z @ up)) @ down)
    return tape.stack(found).reshape(T, B, *R.shape[:2])


def _rms(x: Any, scale: Any) -> Any:
    return x * ((x * x).mean(-1, keepdims=True) + EPS) ** -0.5 * scale


def _cell_reference(rows: list[Any], W: Any, R: Any, b: Any, scale: Any) -> list[Any]:
    """The sLSTM, and a norm for each head."""
    heads, D = R.shape[:2]

    def gates(row: Any) -> Any:
        read = [row[:, k * D : (k + 1) * D] @ W[k] for k in range(heads)]
        return tape.concatenate([part[:, g * D : (g + 1) * D] for g in range(4) for part in read])

    h = slstm_reference(tape.stack([gates(row) for row in rows]), R, b, LEAST)
    centred = h - h.mean(-1, keepdims=True)
    y = centred * ((centred * centred).mean(-1, keepdims=True) + EPS) ** -0.5
    return [y[t].reshape(-1, heads * D) * scale for t in range(len(rows))]


# ---- as users write it -----------------------------------------------------------------------------------------------


class Library(NamedTuple):
    """The functions that the block is written with."""

    arrays: Any
    log_sigmoid: Callable[[Any], Any]
    sigmoid: Callable[[Any], Any]
    scan: Callable[[Callable[..., Any], Any], Any]


def block(
    library: Library, x: Any, W: Any, R: Any, b: Any, both: Any, gate: Any, up: Any, down: Any, scales: Any
) -> Any:  # fmt: skip
    """The block, with time as the first axis of what it computes."""
    arrays, (heads, D) = library.arrays, R.shape[:2]

    def rms(x: Any, scale: Any) -> Any:
        return x / arrays.sqrt((x * x).mean(-1, keepdims=True) + EPS) * scale

    def cell(x: Any) -> Any:
        T, B, width = x.shape
        read = arrays.swapaxes(x.reshape((T * B, heads, D)), 0, 1) @ W  # (heads, T*B, 4*D)
        read = arrays.transpose(read.reshape((heads, T, B, 4, D)), (1, 2, 3, 0, 4)).reshape((T, B, 4 * width))
        step = slstm_step(arrays, library.log_sigmoid, heads, LEAST)
        h = library.scan(lambda x_t, *state: step(x_t, *state, R, b), read).reshape((T, B, heads, D))
        centred = h - h.mean(-1, keepdims=True)
        y = centred / arrays.sqrt((centred * centred).mean(-1, keepdims=True) + EPS)
        return y.reshape((T, B, width)) * scales[1]

    x = arrays.swapaxes(x, 0, 1)
    half, normed = x.shape[1] // 2, rms(x, scales[0])
    ahead, back = cell(normed), cell(normed[::-1, half:])[::-1]
    mixed = arrays.concatenate([ahead[:, half:], back], axis=-1) @ both
    y = x + arrays.concatenate([ahead[:, :half], mixed], axis=1)
    z = rms(y, scales[2])
    opened = z @ gate
    return (y + (opened * library.sigmoid(opened) * (z @ up)) @ down).reshape((*x.shape[:2], heads, D))


def by_scanjit(*, unroll: int | bool, **arguments: Any) -> Any:
    """As a user writes it."""
    import scanjit as sj

    def scan(step: Callable[..., Any], x: Any) -> Any:
        zeros = sj.zeros((x.shape[1], x.shape[2] // 4), x.dtype)
        return sj.scan(step, x, [zeros, zeros, zeros, sj.full(zeros.shape, LOWEST, x.dtype)], unroll=unroll)[0]

    return block(Library(sj, sj.log_sigmoid, sj.sigmoid, scan), **arguments)


def by_jax(**arguments: Any) -> Any:
    """`lax.scan`."""
    from jax import nn, numpy as jnp

    def scan(step: Callable[..., Any], x: Any) -> Any:
        zeros = jnp.zeros((x.shape[1], x.shape[2] // 4), x.dtype)
        return jax.scan(step, x, (zeros, zeros, zeros, jnp.full_like(zeros, LOWEST)))

    return block(Library(jnp, nn.log_sigmoid, nn.sigmoid, scan), **arguments)


# ---- the package's own -----------------------------------------------------------------------------------------------


def by_tirex(task: Task) -> Program:
    """The package's module on a CPU, where its loop is FlashRNN's with PyTorch; in float32."""
    import torch as library
    from tirex2.model.component.bi_xlstm import BiXLSTM
    from tirex2.model.component.xlstm_mixed_config import xLSTMMixedConfig

    N, D = task.sizes["N"], task.sizes["D"]
    leaves = torch.as_tensors(task.arguments(), task.threads)
    config = xLSTMMixedConfig(embedding_dim=N * D, num_heads=N, num_blocks=1, num_slstm_heads=N)
    module = BiXLSTM(config, block_idx=0, num_blocks=1, device="cpu").eval()
    module.fwd_cell.config.dtype = "float32"
    targets = library.arange(task.sizes["B"]) < task.sizes["B"] // 2

    def weights() -> dict[str, Any]:
        """By the module's names. It stacks the gates f, i, z and o, and reads them as i, f, z and o."""
        read = leaves["W"].reshape(N, D, 4, D)
        before, heads, after = leaves["scales"]
        return {
            **{f"fwd_cell.{name}gate.weight": read[:, :, k].mT for k, name in enumerate("fizo")},
            "fwd_cell._recurrent_kernel_": leaves["R"].reshape(N, D, 4, D),
            "fwd_cell._bias_": leaves["b"].reshape(4, N, D).transpose(0, 1),
            "fwd_cell.group_norm.weight": heads,
            "combination.weight": leaves["both"].mT,
            "norm_lstm.weight": before,
            "norm_ffn.weight": after,
            "ffn.proj_up_gate.weight": leaves["gate"].mT,
            "ffn.proj_up.weight": leaves["up"].mT,
            "ffn.proj_down.weight": leaves["down"].mT,
        }

    def forward() -> Any:
        y = library.func.functional_call(module, weights(), (leaves["x"], targets))
        return y.transpose(0, 1).reshape(-1, task.sizes["B"], N, D)

    return torch.timed(task, forward, [leaves[name] for name in task.case.wrt], lambda found: found)


def work(sizes: Sizes, itemsize: int) -> Work:
    """The products: of the gates, twice for series that are read in both directions, and of the layers after them."""
    T, B, N, D = (sizes[name] for name in "TBND")
    width, read = N * D, B + B - B // 2
    return Work(flops=2.0 * T * (read * 8 * N * D * D + (B - B // 2) * 2 * width**2 + 3 * B * width * _wide(width)))


CASES = [
    Case(
        name="block of TiRex 2",
        group="special",
        sizes=grid("B T N D", (16, 128, 4, 128)),
        quick={"B": 3, "T": 5, "N": 2, "D": 4},
        data=data,
        reference=reference,
        make={"scanjit": scanjit.program(by_scanjit), "tirex": by_tirex, "jax": jax.program(by_jax)},
        value=("T", "B", "N", "D"),
        wrt=("x", "W", "R", "b"),
        weights=("W", "R", "b", "both", "gate", "up", "down", "scales"),
        free={"x": {0: "B", 1: "T"}},
        work=work,
        tolerance=(2e-3, 1e-9),
    ),
]
