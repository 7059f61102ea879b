"""LSTMs that no library has a fast path for: with layer normalization; with peepholes and a projection."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes, Work
from benchmarks.cases.common import SEQUENCE, Draw, gate_flops, grid, loop, split
from benchmarks.engines import jax, pytensor, scanjit, torch

# ---- layer normalization: of the two products and of the cell, each with a gain; one bias ----------------------------


def norm_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Inputs and weights."""
    T, B, I, H = (sizes[name] for name in "TBIH")
    draw = Draw(rng, dtype)
    return {
        "x": draw.normal(T, B, I),
        "W": draw.matrix(I, 4 * H),
        "R": draw.matrix(H, 4 * H),
        "b": draw.normal(4 * H, scale=0.1),
        "gx": draw.uniform(0.8, 1.2, 4 * H),
        "gh": draw.uniform(0.3, 0.5, 4 * H),  # with more, rounding grows from step to step as in any chaos
        "gc": draw.uniform(0.8, 1.2, H),
    }


def _norm_step(xp: Any) -> Any:
    """The step, with the functions of `xp` (sigmoid, tanh, mean, scale: 1/sqrt): all write the same."""

    def normed(z: Any, gain: Any) -> Any:
        z = z - xp.mean(z)
        return z * xp.rsqrt(xp.mean(z * z) + 1e-5) * gain

    def step(zx: Any, h: Any, c: Any, R: Any, b: Any, gh: Any, gc: Any) -> Any:
        i, f, g, o = split(zx + normed(h @ R, gh) + b, 4)
        c = xp.sigmoid(f) * c + xp.sigmoid(i) * xp.tanh(g)
        return xp.sigmoid(o) * xp.tanh(normed(c, gc)), c

    return normed, step


class _Tape:
    sigmoid, tanh = staticmethod(tape.sigmoid), staticmethod(tape.tanh)
    mean = staticmethod(lambda z: z.mean(-1, keepdims=True))
    rsqrt = staticmethod(lambda z: z**-0.5)


def norm_reference(x: Any, W: Any, R: Any, b: Any, gx: Any, gh: Any, gc: Any) -> Any:
    """The plain loop."""
    normed, step = _norm_step(_Tape)
    zeros = tape.Array(np.zeros((x.shape[1], R.shape[0])))
    projected = normed(x @ W, gx)
    return tape.stack(loop(lambda z, h, c: step(z, h, c, R, b, gh, gc), projected, (zeros, zeros)))


def norm_by_scanjit(x: Any, W: Any, R: Any, b: Any, gx: Any, gh: Any, gc: Any, unroll: int | bool) -> Any:
    """As a user writes it: nothing is hoisted by hand."""
    import scanjit as sj

    def normed(z: Any, gain: Any) -> Any:
        z = z - z.mean(-1, keepdims=True)
        return z / sj.sqrt((z * z).mean(-1, keepdims=True) + 1e-5) * gain

    def step(x_t: Any, h: Any, c: Any) -> Any:
        i, f, g, o = split(normed(x_t @ W, gx) + normed(h @ R, gh) + b, 4)
        c = sj.sigmoid(f) * c + sj.sigmoid(i) * sj.tanh(g)
        return sj.sigmoid(o) * sj.tanh(normed(c, gc)), c

    zeros = sj.zeros((x.shape[1], R.shape[0]), x.dtype)
    return sj.scan(step, x, [zeros, zeros], unroll=unroll)[0]


def norm_by_jax(x: Any, W: Any, R: Any, b: Any, gx: Any, gh: Any, gc: Any) -> Any:
    """`lax.scan`, with what depends on the input before the loop."""
    from jax import lax, nn, numpy as jnp

    class functions:
        sigmoid, tanh, rsqrt = staticmethod(nn.sigmoid), staticmethod(jnp.tanh), staticmethod(lax.rsqrt)
        mean = staticmethod(lambda z: z.mean(-1, keepdims=True))

    normed, step = _norm_step(functions)
    zeros = jnp.zeros((x.shape[1], R.shape[0]), x.dtype)
    return jax.scan(lambda z, h, c: step(z, h, c, R, b, gh, gc), normed(x @ W, gx), (zeros, zeros))


def norm_by_torch(x: Any, W: Any, R: Any, b: Any, gx: Any, gh: Any, gc: Any) -> Any:
    """A loop over steps, with the fused `layer_norm`."""
    import torch as library
    from torch.nn.functional import layer_norm

    H = R.shape[0]

    def step(z: Any, h: Any, c: Any) -> Any:
        i, f, g, o = (z + layer_norm(h @ R, (4 * H,), gh)).chunk(4, -1)
        c = library.sigmoid(f) * c + library.sigmoid(i) * library.tanh(g)
        return library.sigmoid(o) * library.tanh(layer_norm(c, (H,), gc)), c

    zeros, projected = x.new_zeros(x.shape[1], H), layer_norm(x @ W, (4 * H,), gx) + b
    return library.stack(loop(step, list(projected.unbind(0)), (zeros, zeros)))


def norm_by_pytensor(x: Any, W: Any, R: Any, b: Any, gx: Any, gh: Any, gc: Any) -> Any:
    """`scan`, with what depends on the input before the loop."""
    import pytensor
    import pytensor.tensor as pt

    class functions:
        sigmoid, tanh = staticmethod(pt.sigmoid), staticmethod(pt.tanh)
        mean = staticmethod(lambda z: z.mean(-1, keepdims=True))
        rsqrt = staticmethod(lambda z: 1 / pt.sqrt(z))

    normed, step = _norm_step(functions)
    zeros = pt.zeros((x.shape[1], R.shape[0]), dtype=x.dtype)
    return pytensor.scan(
        step, [normed(x @ W, gx)], [zeros, zeros], non_sequences=[R, b, gh, gc], return_updates=False, strict=True
    )[0]


def _norm_work(sizes: Sizes, itemsize: int) -> Work:
    return Work(gate_flops(sizes, 4))


# ---- peepholes and a projection: i, f see the old cell, o the new one; h = (o * tanh(c)) @ P -------------------------


def peephole_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Inputs and weights."""
    T, B, I, H, P = (sizes[name] for name in "TBIHP")
    draw = Draw(rng, dtype)
    return {
        "x": draw.normal(T, B, I),
        "W": draw.matrix(I, 4 * H),
        "R": draw.matrix(P, 4 * H),
        "b": draw.normal(4 * H, scale=0.1),
        "p": draw.normal(3, H, scale=0.3),
        "project": draw.matrix(H, P),
    }


def _peephole_step(sigmoid: Any, tanh: Any) -> Any:
    def step(z: Any, h: Any, c: Any, R: Any, p: Any, project: Any) -> Any:
        i, f, g, o = split(z + h @ R, 4)
        new = sigmoid(f + p[1] * c) * c + sigmoid(i + p[0] * c) * tanh(g)
        return (sigmoid(o + p[2] * new) * tanh(new)) @ project, new

    return step


def peephole_reference(x: Any, W: Any, R: Any, b: Any, p: Any, project: Any) -> Any:
    """The plain loop."""
    step = _peephole_step(tape.sigmoid, tape.tanh)
    h, c = (tape.Array(np.zeros((x.shape[1], n))) for n in (R.shape[0], p.shape[1]))
    return tape.stack(loop(lambda z, h, c: step(z, h, c, R, p, project), x @ W + b, (h, c)))


def peephole_by_scanjit(x: Any, W: Any, R: Any, b: Any, p: Any, project: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    step = _peephole_step(sj.sigmoid, sj.tanh)
    h, c = (sj.zeros((x.shape[1], n), x.dtype) for n in (R.shape[0], p.shape[1]))
    return sj.scan(lambda x_t, h, c: step(x_t @ W + b, h, c, R, p, project), x, [h, c], unroll=unroll)[0]


def peephole_by_jax(x: Any, W: Any, R: Any, b: Any, p: Any, project: Any) -> Any:
    """`lax.scan`, with the product of the input before the loop."""
    from jax import nn, numpy as jnp

    step = _peephole_step(nn.sigmoid, jnp.tanh)
    h, c = (jnp.zeros((x.shape[1], n), x.dtype) for n in (R.shape[0], p.shape[1]))
    return jax.scan(lambda z, h, c: step(z, h, c, R, p, project), x @ W + b, (h, c))


def peephole_by_torch(x: Any, W: Any, R: Any, b: Any, p: Any, project: Any) -> Any:
    """A loop over steps."""
    import torch as library

    step = _peephole_step(library.sigmoid, library.tanh)
    h, c = (x.new_zeros(x.shape[1], n) for n in (R.shape[0], p.shape[1]))
    return library.stack(loop(lambda z, h, c: step(z, h, c, R, p, project), x @ W + b, (h, c)))


def _peephole_work(sizes: Sizes, itemsize: int) -> Work:
    T, B, I, H, P = (sizes[name] for name in "TBIHP")
    return Work(2.0 * T * B * H * (4 * (I + P) + P))


CASES = [
    Case(
        name="layer-norm LSTM",
        group="custom",
        sizes=grid("B T I H", (32, 100, 256, 256)),
        quick={"B": 3, "T": 5, "I": 4, "H": 18},
        data=norm_data,
        reference=norm_reference,
        make={
            "scanjit": scanjit.program(norm_by_scanjit),
            "torch": torch.program(norm_by_torch),
            "jax": jax.program(norm_by_jax),
            "pytensor": pytensor.program(norm_by_pytensor),
        },
        value=("T", "B", "H"),
        wrt=("x", "W", "R", "b", "gx", "gh", "gc"),
        weights=("W", "R", "b", "gx", "gh", "gc"),
        free={"x": SEQUENCE},
        work=_norm_work,
    ),
    Case(
        name="LSTM with peepholes and projection",
        group="custom",
        sizes=grid("B T I H P", (32, 100, 128, 256, 128)),
        quick={"B": 3, "T": 5, "I": 4, "H": 18, "P": 7},
        data=peephole_data,
        reference=peephole_reference,
        make={
            "scanjit": scanjit.program(peephole_by_scanjit),
            "torch": torch.program(peephole_by_torch),
            "jax": jax.program(peephole_by_jax),
        },
        value=("T", "B", "P"),
        wrt=("x", "W", "R", "b", "p", "project"),
        weights=("W", "R", "b", "p", "project"),
        free={"x": SEQUENCE},
        work=_peephole_work,
    ),
]
