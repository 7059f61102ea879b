"""An LSTM: gates stacked as i, f, g, o; the state begins with zeros; gradients of x and all weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Program, Sizes, Task, Work
from benchmarks.cases.common import SEQUENCE, Draw, gate_flops, grid, loop, reordered, split
from benchmarks.engines import jax, numba, onnx, plain, pytensor, scanjit, tensorflow, torch

GRID = grid(
    "B T I H",
    (1, 100, 64, 64),
    (1, 100, 120, 320),
    (16, 100, 120, 320),
    (64, 100, 128, 128),
    (32, 50, 512, 512),
    (20, 35, 200, 200),
    (64, 1000, 32, 64),
)
DEEPBENCH = grid(
    "B T I H", (1, 25, 512, 512), (4, 25, 512, 512), (16, 25, 512, 512), (32, 25, 1024, 1024), (16, 150, 256, 256)
)
"""Some of DeepBench's shapes for an LSTM, inference and training."""


def data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Inputs and weights."""
    T, B, I, H = (sizes[name] for name in "TBIH")
    draw = Draw(rng, dtype)
    return {
        "x": draw.normal(T, B, I),
        "W": draw.matrix(I, 4 * H),
        "R": draw.matrix(H, 4 * H),
        "b": draw.normal(4 * H, scale=0.1),
    }


def work(sizes: Sizes, itemsize: int) -> Work:
    """The products; alone in its batch, every step has to read the recurrent weights."""
    weights = 4 * sizes["H"] ** 2 * itemsize
    alone = sizes["B"] == 1
    return Work(gate_flops(sizes, 4), alone * sizes["T"] * weights, weights)


def reference(x: Any, W: Any, R: Any, b: Any) -> Any:
    """The plain loop."""
    zeros = tape.Array(np.zeros((x.shape[1], R.shape[0])))

    def step(z: Any, h: Any, c: Any) -> tuple[Any, Any]:
        i, f, g, o = split(z + h @ R, 4)
        c = tape.sigmoid(f) * c + tape.sigmoid(i) * tape.tanh(g)
        return tape.sigmoid(o) * tape.tanh(c), c

    return tape.stack(loop(step, x @ W + b, (zeros, zeros)))


# ---- scanjit ---------------------------------------------------------------------------------------------------------


def by_scanjit(x: Any, W: Any, R: Any, b: Any, unroll: int | bool) -> Any:
    """As a user writes it: nothing is hoisted, stacked or split by hand."""
    import scanjit as sj

    zeros = sj.zeros((x.shape[1], R.shape[0]), x.dtype)

    def step(x_t: Any, h: Any, c: Any) -> Any:
        i, f, g, o = split(x_t @ W + h @ R + b, 4)
        c = sj.sigmoid(f) * c + sj.sigmoid(i) * sj.tanh(g)
        return sj.sigmoid(o) * sj.tanh(c), c

    return sj.scan(step, x, [zeros, zeros], unroll=unroll)[0]


# ---- peers -----------------------------------------------------------------------------------------------------------


def by_jax(x: Any, W: Any, R: Any, b: Any) -> Any:
    """`lax.scan`, with the product of the input before the loop."""
    from jax import nn, numpy as jnp

    def step(z: Any, h: Any, c: Any) -> Any:
        i, f, g, o = jnp.split(z + h @ R, 4, axis=-1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        return nn.sigmoid(o) * jnp.tanh(c), c

    zeros = jnp.zeros((x.shape[1], R.shape[0]), x.dtype)
    return jax.scan(step, x @ W + b, (zeros, zeros))


def by_torch(task: Task) -> Program:
    """`nn.LSTM`. It has two biases; the second is zero."""
    import torch as library

    arguments = torch.tensors(task)
    network = library.nn.LSTM(task.sizes["I"], task.sizes["H"], dtype=arguments["x"].dtype)
    weights = [arguments["W"].T, arguments["R"].T, arguments["b"], library.zeros_like(arguments["b"])]
    with library.no_grad():
        for parameter, value in zip(network.parameters(), weights, strict=True):
            parameter.copy_(value)
    leaves = [arguments["x"], *network.parameters()]
    return torch.timed(
        task, lambda: network(arguments["x"])[0], leaves, lambda found: [found[0], found[1].T, found[2].T, found[3]]
    )


def by_pytensor(x: Any, W: Any, R: Any, b: Any) -> Any:
    """`scan`, with the product of the input before the loop."""
    import pytensor
    import pytensor.tensor as pt

    H = R.shape[0]

    def step(z: Any, h: Any, c: Any, R: Any) -> Any:
        z = z + h @ R
        i, f, g, o = (z[:, k * H : (k + 1) * H] for k in range(4))
        c = pt.sigmoid(f) * c + pt.sigmoid(i) * pt.tanh(g)
        return pt.sigmoid(o) * pt.tanh(c), c

    zeros = pt.zeros((x.shape[1], H), dtype=x.dtype)
    outputs = pytensor.scan(step, [x @ W + b], [zeros, zeros], non_sequences=[R], return_updates=False, strict=True)
    return outputs[0]


by_tensorflow = tensorflow.layer(
    lambda tf, task: tf.keras.layers.LSTM(task.sizes["H"], return_sequences=True, dtype=task.dtype),
    lambda arguments: [arguments[name] for name in "WRb"],
    lambda found: found,
)


def onnx_weights(arguments: Arrays) -> Arrays:
    """ONNX stacks i, o, f, c, and has two biases."""
    W, R, b = (reordered(arguments[name], "ifco", "iofc") for name in "WRb")
    return {"W": W.T[None], "R": R.T[None], "B": np.concatenate([b, 0 * b])[None]}


def onnx_nodes(helper: Any, task: Task) -> list[Any]:
    """The one node of ONNX."""
    lstm = helper.make_node("LSTM", ["x", "W", "R", "B"], ["y"], hidden_size=task.sizes["H"])
    return [lstm]


MAKE = {
    "scanjit": scanjit.program(by_scanjit),
    "torch": by_torch,
    "jax": jax.program(by_jax),
    **onnx.programs(onnx_nodes, onnx_weights, lambda y: y[:, 0]),
    "tensorflow": by_tensorflow,
    "pytensor": pytensor.program(by_pytensor),
    "numba": numba.program("lstm_numba"),
    "numpy": plain.program("lstm_numpy"),
}


def _case(name: str, group: str, sizes: list[dict[str, int]], dtypes: tuple[str, ...]) -> Case:
    return Case(
        name=name,
        group=group,
        sizes=sizes,
        quick={"B": 3, "T": 7, "I": 5, "H": 18},
        data=data,
        reference=reference,
        make=MAKE,
        value=("T", "B", "H"),
        wrt=("x", "W", "R", "b"),
        weights=("W", "R", "b"),
        free={"x": SEQUENCE},
        work=work,
        dtypes=dtypes,
    )


CASES = [
    replace(_case("LSTM", "lstm", GRID, ("float32", "float64")), starts=("forward", "gradient")),
    _case("LSTM, DeepBench", "lstm", DEEPBENCH, ("float32",)),
]
