"""A stack of bidirectional LSTM layers, as in recognizers of speech; scanjit's is built of `lasagne_like`'s layers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Program, Sizes, Task, Work
from benchmarks.cases import lstm
from benchmarks.cases.common import SEQUENCE, Draw, grid
from benchmarks.engines import jax, onnx, scanjit, torch


def names_of(layers: int) -> list[str]:
    """W, R, b of the forward and the backward direction of each layer."""
    return [f"{what}{direction}{n}" for n in range(layers) for direction in "fb" for what in "WRb"]


def depth_of(weights: Any) -> int:
    """How many layers these weights are of."""
    return sum(name.startswith("Wf") for name in weights)


def data(layers: int, sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Inputs and weights."""
    T, B, I, H = (sizes[name] for name in "TBIH")
    draw = Draw(rng, dtype)
    found = {"x": draw.normal(T, B, I)}
    for name in names_of(layers):
        rows = {"W": I if name.endswith("0") else 2 * H, "R": H}.get(name[0])
        found[name] = draw.matrix(rows, 4 * H) if rows else draw.normal(4 * H, scale=0.1)
    return found


def _stacked(x: Any, weights: Any, layer: Any, concatenate: Any) -> Any:
    """All layers: `layer` is one direction, from the first row to the last."""
    for n in range(depth_of(weights)):
        f = layer(x, *(weights[f"{what}f{n}"] for what in "WRb"))
        b = layer(x[::-1], *(weights[f"{what}b{n}"] for what in "WRb"))
        x = concatenate([f, b[::-1]])
    return x


def reference(x: Any, **weights: Any) -> Any:
    """The plain loops."""
    return _stacked(x, weights, lstm.reference, tape.concatenate)


def by_scanjit(x: Any, unroll: int | bool, **weights: Any) -> Any:
    """The layers of the library."""
    import lasagne_like as lasagne

    layer = lasagne.layers.InputLayer((None, None, x.type.shape[2]), x)
    for n in range(depth_of(weights)):
        directions = [
            lasagne.layers.LSTMLayer(
                layer, **_gates(*(weights[f"{what}{direction}{n}"] for what in "WRb")), backwards=direction == "b"
            )
            for direction in "fb"
        ]
        layer = lasagne.layers.ConcatLayer(directions, axis=2)
    return lasagne.layers.get_output(layer)


def _gates(W: Any, R: Any, b: Any) -> dict[str, Any]:
    """Arguments of a layer. Parameters that are values become its own, gate by gate."""
    from lasagne_like import nonlinearities
    from lasagne_like.layers import Gate

    W, R, b = (value.get_value() if hasattr(value, "get_value") else value for value in (W, R, b))
    H = R.shape[0] if isinstance(R, np.ndarray) else R.type.shape[0]
    found: dict[str, Any] = {}
    for k, name in enumerate(("ingate", "forgetgate", "cell", "outgate")):
        own = slice(k * H, (k + 1) * H)
        kind = {"nonlinearity": nonlinearities.tanh} if name == "cell" else {}
        found[name] = Gate(W[:, own], R[:, own], None, b[own], **kind)
    return {"num_units": H, "peepholes": False, "time_major": True, **found}


def by_jax(x: Any, **weights: Any) -> Any:
    """A scan for each direction."""
    from jax import numpy as jnp

    return _stacked(x, weights, lstm.by_jax, lambda parts: jnp.concatenate(parts, axis=-1))


def by_torch(task: Task) -> Program:
    """`nn.LSTM` with layers and directions."""
    import torch as library

    arguments = torch.tensors(task)
    I, H, layers = task.sizes["I"], task.sizes["H"], depth_of(arguments)
    network = library.nn.LSTM(I, H, num_layers=layers, bidirectional=True, dtype=arguments["x"].dtype)
    own = dict(network.named_parameters())
    names = {name: (f"{_TORCH[name[0]]}_l{name[2:]}{'_reverse' * (name[1] == 'b')}") for name in names_of(layers)}
    with library.no_grad():
        for name, parameter in own.items():
            if name.startswith("bias_hh"):
                parameter.zero_()
        for name, other in names.items():
            own[other].copy_(arguments[name].T if name[0] in "WR" else arguments[name])
    leaves = [arguments["x"], *own.values()]

    def read(found: list[np.ndarray]) -> list[np.ndarray]:
        by_name = dict(zip(own, found[1:], strict=True))
        return [found[0], *(by_name[names[name]].T for name in names_of(layers))]

    return torch.timed(task, lambda: network(arguments["x"])[0], leaves, read)


_TORCH = {"W": "weight_ih", "R": "weight_hh", "b": "bias_ih"}


def _onnx_weights(arguments: Arrays) -> Arrays:
    found: Arrays = {"shape": np.array([0, 0, -1])}
    for n in range(depth_of(arguments)):
        both = [lstm.onnx_weights({what: arguments[f"{what}{direction}{n}"] for what in "WRb"}) for direction in "fb"]
        found |= {f"{key}{n}": np.concatenate([part[key] for part in both]) for key in both[0]}
    return found


def _onnx_nodes(layers: int, helper: Any, task: Task) -> list[Any]:
    nodes, x = [], "x"
    for n in range(layers):
        inputs = [x, *(f"{key}{n}" for key in "WRB")]
        lstm_node = helper.make_node("LSTM", inputs, [f"y{n}"], hidden_size=task.sizes["H"], direction="bidirectional")
        x = "y" if n == layers - 1 else f"x{n}"
        nodes += [
            lstm_node,
            helper.make_node("Transpose", [f"y{n}"], [f"t{n}"], perm=[0, 2, 1, 3]),
            helper.make_node("Reshape", [f"t{n}", "shape"], [x]),
        ]
    return nodes


def _work(layers: int, sizes: Sizes, itemsize: int) -> Work:
    T, B, I, H = (sizes[name] for name in "TBIH")
    inputs = I + 2 * H * (layers - 1)
    return Work(16.0 * T * B * H * (inputs + layers * H))


def _case(layers: int) -> Case:
    names = names_of(layers)
    return Case(
        name=f"{layers} bidirectional LSTM layers",
        group="stack",
        sizes=grid("B T I H out", (16, 100, 120, 320, 640)),
        quick={"B": 2, "T": 4, "I": 5, "H": 18, "out": 36},
        data=partial(data, layers),
        reference=reference,
        make={
            "scanjit": scanjit.program(by_scanjit),
            "torch": by_torch,
            "jax": jax.program(by_jax),
            **onnx.programs(partial(_onnx_nodes, layers), _onnx_weights, lambda y: y),
        },
        value=("T", "B", "out"),
        wrt=("x", *names),
        weights=tuple(names),
        free={"x": SEQUENCE},
        work=partial(_work, layers),
    )


CASES = [_case(5), _case(6)]
