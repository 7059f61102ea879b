"""A step of training, with Adam: what every newcomer waits for first. Only starting is measured."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.case import Arrays, Case, Program, Sizes, Task
from benchmarks.cases.common import Draw, grid
from benchmarks.engines import jax, scanjit

# ---- bidirectional LSTM layers with masks and dropout, of which the last step is classified --------------------------


def classes_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Inputs, which steps there are, and classes."""
    T, B = sizes["T"], sizes["B"]
    lengths = rng.integers(1, T + 1, B)
    return {
        "x": Draw(rng, dtype).normal(B, T, sizes["I"]),
        "mask": (np.arange(T) < lengths[:, None]).astype(dtype),
        "y": rng.integers(0, sizes["out"], B),
    }


def classes_by_layers(task: Task) -> Program:
    """The layers of the library; batch and length are any."""
    import lasagne_like as lasagne
    import scanjit as sj
    from lasagne_like import layers

    sj.config.floatX = task.dtype
    arguments, sizes = task.arguments(), task.sizes
    x, mask = sj.tensor((None, None, sizes["I"]), task.dtype, "x"), sj.tensor((None, None), task.dtype, "mask")
    y = sj.lvector("y")
    layer, there = layers.InputLayer((None, None, sizes["I"]), x), layers.InputLayer((None, None), mask)
    for _ in range(sizes["layers"]):
        both = [
            layers.LSTMLayer(layer, sizes["H"], mask_input=there, backwards=backwards) for backwards in (False, True)
        ]
        layer = layers.DropoutLayer(layers.ConcatLayer(both, axis=2), p=0.2)
    softmax = lasagne.nonlinearities.softmax
    network = layers.DenseLayer(layers.SliceLayer(layer, -1, 1), sizes["out"], nonlinearity=softmax)
    loss = lasagne.objectives.categorical_crossentropy(layers.get_output(network), y).mean()
    updates = lasagne.updates.adam(loss, layers.get_all_params(network, trainable=True))
    train = sj.function([x, mask, y], loss, updates=updates, name="train", mode=task.mode)
    return Program(scanjit.Call(train, list(arguments.values()), task), lambda loss: [loss])


def classes_by_jax(task: Task) -> Program:
    """A scan for each direction of each layer."""
    import jax as library
    from jax import numpy as jnp

    I, H, out, count = (task.sizes[name] for name in ("I", "H", "out", "layers"))
    draw = Draw(np.random.default_rng(0), task.dtype)
    peepholes = lambda: [draw.normal(H, scale=0.1) for _ in "ifo"]
    direction = lambda inputs: [draw.matrix(inputs, 4 * H), draw.matrix(H, 4 * H), draw.normal(4 * H), peepholes()]
    weights = {
        "layers": [[direction(2 * H if n else I) for _ in "fb"] for n in range(count)],
        "read_out": [draw.matrix(2 * H, out), draw.normal(out)],
        "starts": [[[draw.normal(H), draw.normal(H)] for _ in "fb"] for _ in range(count)],
    }

    def loss(weights: Any, x: Any, mask: Any, y: Any, key: Any) -> Any:
        rows, there = x.swapaxes(0, 1), mask.T[:, :, None]
        for both, starts in zip(weights["layers"], weights["starts"], strict=True):
            found = [
                _lstm_by_jax(rows, *given, start, there, reverse)
                for given, start, reverse in zip(both, starts, (False, True), strict=True)
            ]
            key, own = library.random.split(key)
            rows = jnp.concatenate(found, axis=-1)
            rows = rows * library.random.bernoulli(own, 0.8, rows.shape) / 0.8
        return _crossentropy_by_jax(rows[-1], *weights["read_out"], y)

    arguments = tuple(map(jnp.asarray, task.arguments().values()))
    return jax.training(loss, library.tree.map(jnp.asarray, weights), (*arguments, library.random.key(0)))


# ---- characters, each guessed from those before ----------------------------------------------------------------------


def characters_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Characters, and for each the next one."""
    text = rng.integers(0, sizes["S"], (sizes["B"], sizes["T"] + 1))
    return {"characters": text[:, :-1].copy(), "following": text[:, 1:].copy()}


def characters_by_example(task: Task) -> Program:
    """As the example `char_rnn` does it."""
    import scanjit as sj

    path = Path(__file__).absolute().parents[2] / "examples" / "char_rnn.py"
    spec = importlib.util.spec_from_file_location("char_rnn", path)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    sj.config.floatX = task.dtype
    characters, _, _, network = example.build(task.sizes["S"], task.sizes["H"])
    train = example.compile_training(*example.loss_per_character(characters, network), network, 0.004)
    return Program(scanjit.Call(train, list(task.arguments().values()), task), lambda loss: [loss])


def characters_by_jax(task: Task) -> Program:
    """A scan between an embedding and a dense layer."""
    import jax as library
    from jax import numpy as jnp

    S, H = task.sizes["S"], task.sizes["H"]
    draw = Draw(np.random.default_rng(0), task.dtype)
    weights = {
        "embedding": draw.normal(S, 16),
        "lstm": [draw.matrix(16, 4 * H), draw.matrix(H, 4 * H), draw.normal(4 * H), None],
        "start": [draw.normal(H), draw.normal(H)],
        "read_out": [draw.matrix(H, S), draw.normal(S)],
    }

    def loss(weights: Any, characters: Any, following: Any) -> Any:
        rows = weights["embedding"][characters.T]
        return _crossentropy_by_jax(
            _lstm_by_jax(rows, *weights["lstm"], weights["start"]), *weights["read_out"], following.T
        )

    arguments = tuple(map(jnp.asarray, task.arguments().values()))
    return jax.training(loss, library.tree.map(jnp.asarray, weights), arguments, limit=5.0)


# ---- parts of both, in JAX -------------------------------------------------------------------------------------------


def _lstm_by_jax(
    x: Any, W: Any, R: Any, b: Any, peepholes: Any, start: Any, there: Any = None, reverse: bool = False
) -> Any:
    """As the layer of the library computes it, with learned first states."""
    from jax import lax, nn, numpy as jnp

    def step(state: Any, row: Any) -> Any:
        h, c = state
        z, known = row
        i, f, g, o = jnp.split(z + h @ R, 4, axis=-1)
        if peepholes is not None:
            i, f = i + c * peepholes[0], f + c * peepholes[1]
        new_c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        new_h = nn.sigmoid(o if peepholes is None else o + new_c * peepholes[2]) * jnp.tanh(new_c)
        if known is not None:
            new_h, new_c = jnp.where(known > 0, new_h, h), jnp.where(known > 0, new_c, c)
        return (new_h, new_c), new_h

    states = tuple(jnp.broadcast_to(s, (x.shape[1], s.shape[0])) for s in start)
    return lax.scan(step, states, (x @ W + b, there), reverse=reverse)[1]


def _crossentropy_by_jax(x: Any, W: Any, b: Any, wanted: Any) -> Any:
    from jax import nn, numpy as jnp

    return -jnp.take_along_axis(nn.log_softmax(x @ W + b), wanted[..., None], axis=-1).mean()


def _layers(count: int) -> Case:
    return Case(
        name=f"{count} masked bidirectional LSTM layer{'s' * (count > 1)}",
        group="compile",
        sizes=grid("layers B T I H out", (count, 32, 50, 40, 128, 10)),
        quick={"layers": count, "B": 3, "T": 4, "I": 5, "H": 6, "out": 3},
        data=classes_data,
        reference=None,
        make={"scanjit": classes_by_layers, "jax": classes_by_jax},
        starts=("training",),
    )


CASES = [
    *map(_layers, (1, 2, 4, 8)),
    Case(
        name="char_rnn",
        group="compile",
        sizes=grid("B T S H", (32, 64, 40, 128)),
        quick={"B": 2, "T": 4, "S": 5, "H": 6},
        data=characters_data,
        reference=None,
        make={"scanjit": characters_by_example, "jax": characters_by_jax},
        starts=("training",),
    ),
]
