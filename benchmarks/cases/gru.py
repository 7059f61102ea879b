"""A GRU whose reset comes after the product, as cuDNN's and PyTorch's: gates stacked as r, z, n; two biases."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Program, Sizes, Task, Work
from benchmarks.cases import lstm
from benchmarks.cases.common import SEQUENCE, Draw, gate_flops, grid, loop, reordered, split
from benchmarks.engines import jax, onnx, pytensor, scanjit, tensorflow, torch

DEEPBENCH = grid("B T I H", (32, 1, 512, 512), (1, 50, 1024, 1024), (32, 25, 1024, 1024))
"""Some of DeepBench's shapes for a GRU, with fewer steps where it has 1,500."""


def data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Inputs and weights."""
    T, B, I, H = (sizes[name] for name in "TBIH")
    draw = Draw(rng, dtype)
    return {
        "x": draw.normal(T, B, I),
        "W": draw.matrix(I, 3 * H),
        "R": draw.matrix(H, 3 * H),
        "b": draw.normal(3 * H, scale=0.1),
        "d": draw.normal(3 * H, scale=0.1),
    }


def work(sizes: Sizes, itemsize: int) -> Work:
    """The products; alone in its batch, every step has to read the recurrent weights."""
    weights = 3 * sizes["H"] ** 2 * itemsize
    return Work(gate_flops(sizes, 3), (sizes["B"] == 1) * sizes["T"] * weights, weights)


def reference(x: Any, W: Any, R: Any, b: Any, d: Any) -> Any:
    """The plain loop."""

    def step(row: Any, h: Any) -> tuple[Any]:
        (r, z, n), (hr, hz, hn) = split(row, 3), split(h @ R + d, 3)
        z = tape.sigmoid(z + hz)
        return ((1 - z) * tape.tanh(n + tape.sigmoid(r + hr) * hn) + z * h,)

    return tape.stack(loop(step, x @ W + b, (tape.Array(np.zeros((x.shape[1], R.shape[0]))),)))


# ---- scanjit ---------------------------------------------------------------------------------------------------------


def by_scanjit(x: Any, W: Any, R: Any, b: Any, d: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    def step(x_t: Any, h: Any) -> Any:
        (r, z, n), (hr, hz, hn) = split(x_t @ W + b, 3), split(h @ R + d, 3)
        z = sj.sigmoid(z + hz)
        return (1 - z) * sj.tanh(n + sj.sigmoid(r + hr) * hn) + z * h

    return sj.scan(step, x, sj.zeros((x.shape[1], R.shape[0]), x.dtype), unroll=unroll)


# ---- peers -----------------------------------------------------------------------------------------------------------


def by_jax(x: Any, W: Any, R: Any, b: Any, d: Any) -> Any:
    """`lax.scan`, with the product of the input before the loop."""
    from jax import nn, numpy as jnp

    def step(row: Any, h: Any) -> Any:
        (r, z, n), (hr, hz, hn) = jnp.split(row, 3, axis=-1), jnp.split(h @ R + d, 3, axis=-1)
        z = nn.sigmoid(z + hz)
        return ((1 - z) * jnp.tanh(n + nn.sigmoid(r + hr) * hn) + z * h,)

    return jax.scan(step, x @ W + b, (jnp.zeros((x.shape[1], R.shape[0]), x.dtype),))


def by_torch(task: Task) -> Program:
    """`nn.GRU`."""
    import torch as library

    arguments = torch.tensors(task)
    network = library.nn.GRU(task.sizes["I"], task.sizes["H"], dtype=arguments["x"].dtype)
    weights = [arguments["W"].T, arguments["R"].T, arguments["b"], arguments["d"]]
    with library.no_grad():
        for parameter, value in zip(network.parameters(), weights, strict=True):
            parameter.copy_(value)
    leaves = [arguments["x"], *network.parameters()]
    return torch.timed(
        task,
        lambda: network(arguments["x"])[0],
        leaves,
        lambda found: [found[0], found[1].T, found[2].T, *found[3:]],
    )


def by_pytensor(x: Any, W: Any, R: Any, b: Any, d: Any) -> Any:
    """`scan`, with the product of the input before the loop."""
    import pytensor
    import pytensor.tensor as pt

    H = R.shape[0]

    def step(row: Any, h: Any, R: Any, d: Any) -> Any:
        other = h @ R + d
        (r, z, n), (hr, hz, hn) = ([a[:, k * H : (k + 1) * H] for k in range(3)] for a in (row, other))
        z = pt.sigmoid(z + hz)
        return (1 - z) * pt.tanh(n + pt.sigmoid(r + hr) * hn) + z * h

    zeros = pt.zeros((x.shape[1], H), dtype=x.dtype)
    return pytensor.scan(step, [x @ W + b], [zeros], non_sequences=[R, d], return_updates=False, strict=True)


by_tensorflow = tensorflow.layer(
    lambda tf, task: tf.keras.layers.GRU(task.sizes["H"], return_sequences=True, reset_after=True, dtype=task.dtype),
    lambda arguments: [
        *(reordered(arguments[name], "rzn", "zrn") for name in "WR"),
        np.stack([reordered(arguments[name], "rzn", "zrn") for name in "bd"]),
    ],
    lambda found: [reordered(g, "zrn", "rzn") for g in (*found[:2], *found[2])],
)


def _onnx_weights(arguments: Arrays) -> Arrays:
    W, R, b, d = (reordered(arguments[name], "rzn", "zrn") for name in "WRbd")
    return {"W": W.T[None], "R": R.T[None], "B": np.concatenate([b, d])[None]}


def _onnx_nodes(helper: Any, task: Task) -> list[Any]:
    H = task.sizes["H"]
    return [helper.make_node("GRU", ["x", "W", "R", "B"], ["y"], hidden_size=H, linear_before_reset=1)]


def _case(name: str, sizes: list[dict[str, int]], dtypes: tuple[str, ...]) -> Case:
    return Case(
        name=name,
        group="gru",
        sizes=sizes,
        quick={"B": 3, "T": 7, "I": 5, "H": 18},
        data=data,
        reference=reference,
        make={
            "scanjit": scanjit.program(by_scanjit),
            "torch": by_torch,
            "jax": jax.program(by_jax),
            **onnx.programs(_onnx_nodes, _onnx_weights, lambda y: y[:, 0]),
            "tensorflow": by_tensorflow,
            "pytensor": pytensor.program(by_pytensor),
        },
        value=("T", "B", "H"),
        wrt=("x", "W", "R", "b", "d"),
        weights=("W", "R", "b", "d"),
        free={"x": SEQUENCE},
        work=work,
        dtypes=dtypes,
    )


CASES = [_case("GRU", lstm.GRID, ("float32", "float64")), _case("GRU, DeepBench", DEEPBENCH, ("float32",))]
