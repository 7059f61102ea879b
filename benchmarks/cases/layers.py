"""Two layers of LSTM: written with `scan` by hand, and of `lasagne_like`'s layers.

What the layers have more is theirs to pay for: each gate has parameters of its own, which have to be put side by side.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.case import Arrays, Case, Program, Sizes, Task, Work
from benchmarks.cases import lstm
from benchmarks.cases.common import SEQUENCE, Draw, gate_flops, grid
from benchmarks.engines import scanjit

LAYERS = 2
GATES = ("ingate", "forgetgate", "cell", "outgate")
NAMES = [f"{what}{n}" for n in range(LAYERS) for what in "WRb"]
"""W, R, b of each layer: the gates side by side."""
OWN = [f"{name}_{gate}" for name in NAMES for gate in GATES]
"""The same for the layers: one parameter a gate."""


def data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Inputs and weights."""
    T, B, I, H = (sizes[name] for name in "TBIH")
    draw = Draw(rng, dtype)
    found = {"x": draw.normal(T, B, I)}
    for n in range(LAYERS):
        found |= {f"W{n}": draw.matrix(H if n else I, 4 * H), f"R{n}": draw.matrix(H, 4 * H)}
        found[f"b{n}"] = draw.normal(4 * H, scale=0.1)
    return found


def _data_of_gates(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    arguments = data(sizes, dtype, rng)
    parts = [part for name in NAMES for part in np.split(arguments[name], 4, axis=-1)]
    return {"x": arguments["x"], **{name: np.ascontiguousarray(part) for name, part in zip(OWN, parts, strict=True)}}


def _stacked(layer: Any, x: Any, weights: Any, **options: Any) -> Any:
    for n in range(LAYERS):
        x = layer(x, *(weights[f"{what}{n}"] for what in "WRb"), **options)
    return x


def reference(x: Any, **weights: Any) -> Any:
    """The plain loops."""
    return _stacked(lstm.reference, x, weights)


def by_hand(x: Any, unroll: int | bool, **weights: Any) -> Any:
    """One scan after the other."""
    return _stacked(lstm.by_scanjit, x, weights, unroll=unroll)


def _by_layers(x: Any, unroll: int | bool, **weights: Any) -> Any:
    import lasagne_like as lasagne

    layer = lasagne.layers.InputLayer((None, None, x.type.shape[2]), x)
    for n in range(LAYERS):
        gates = {}
        for gate in GATES:
            W, R, b = (weights[f"{what}{n}_{gate}"] for what in "WRb")
            kind = {"nonlinearity": lasagne.nonlinearities.tanh} if gate == "cell" else {}
            gates[gate] = lasagne.layers.Gate(W, R, None, b, **kind)
        units = R.type.shape[0]
        layer = lasagne.layers.LSTMLayer(layer, units, **gates, peepholes=False, time_major=True)
    return lasagne.layers.get_output(layer)


def by_layers(task: Task) -> Program:
    """The same, from the parameters of gates; their gradients are put side by side to be looked at."""
    own = replace(task.case, data=_data_of_gates, wrt=("x", *OWN), weights=tuple(OWN))
    program = scanjit.program(_by_layers)(replace(task, case=own))

    def read(results: list[np.ndarray]) -> list[np.ndarray]:
        first, parts = results[:2], results[2:]  # the value and the gradient of x
        return [*first, *(np.concatenate(parts[i : i + 4], axis=-1) for i in range(0, len(parts), 4))]

    return Program(program.call, read)


def _work(sizes: Sizes, itemsize: int) -> Work:
    deeper = dict(sizes, I=sizes["H"])
    return Work(gate_flops(sizes, 4) + (LAYERS - 1) * gate_flops(deeper, 4))


CASES = [
    Case(
        name="two LSTM layers, prebuilt",
        group="layers",
        sizes=grid("B T I H", (16, 100, 120, 320), (64, 100, 128, 128), (20, 35, 200, 200)),
        quick={"B": 3, "T": 5, "I": 4, "H": 18},
        data=data,
        reference=reference,
        make={"scanjit": scanjit.program(by_hand), "lasagne_like": by_layers},
        value=("T", "B", "H"),
        wrt=("x", *NAMES),
        weights=tuple(NAMES),
        free={"x": SEQUENCE},
        work=_work,
    )
]
