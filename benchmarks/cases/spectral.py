"""Complex numbers: a linear recurrent unit whose states turn and shrink, and a filter by Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes
from benchmarks.cases.common import SEQUENCE, Draw, grid, loop
from benchmarks.engines import jax, plain, scanjit, torch

# ---- LRU: h = lambda * h + x @ B, y = real(h @ C), lambda, B and C complex -------------------------------------------


def lru_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Inputs, and the real and imaginary parts of what is complex."""
    T, B, I, N = (sizes[name] for name in "TBIN")
    draw = Draw(rng, dtype)
    size, angle = draw.uniform(0.8, 0.99, N), draw.uniform(0.0, 3.0, N)
    parts = {"turn": np.stack([size * np.cos(angle), size * np.sin(angle)])}
    parts |= {"B": np.stack([draw.matrix(I, N)] * 2), "C": np.stack([draw.matrix(N, I)] * 2)}
    return {"x": draw.normal(T, B, I), **parts}


def lru_reference(x: Any, turn: Any, B: Any, C: Any) -> Any:
    """The plain loop, of both parts."""
    p, q = tape.Array(np.zeros((x.shape[1], C.shape[1]))), tape.Array(np.zeros((x.shape[1], C.shape[1])))
    first, second, found = x @ B[0], x @ B[1], []
    for t in range(x.shape[0]):
        p, q = p * turn[0] - q * turn[1] + first[t], q * turn[0] + p * turn[1] + second[t]
        found.append(p @ C[0] - q @ C[1])
    return tape.stack(found)


def lru_by_scanjit(x: Any, turn: Any, B: Any, C: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    turn, B, C = (parts[0] + 1j * parts[1] for parts in (turn, B, C))
    states = sj.scan(lambda u, h: turn * h + u, x @ B, sj.zeros((x.shape[1], turn.shape[0]), B.dtype), unroll=unroll)
    return sj.real(states @ C)


def lru_by_jax(x: Any, turn: Any, B: Any, C: Any) -> Any:
    """`lax.scan` over the state alone."""
    from jax import numpy as jnp

    turn, B, C = (parts[0] + 1j * parts[1] for parts in (turn, B, C))
    zeros = jnp.zeros((x.shape[1], turn.shape[0]), B.dtype)
    return jnp.real(jax.scan(lambda u, h: (turn * h + u,), x @ B, (zeros,)) @ C)


def lru_by_torch(x: Any, turn: Any, B: Any, C: Any) -> Any:
    """A loop over the state alone."""
    import torch as library

    turn, B, C = (library.complex(*parts) for parts in (turn, B, C))
    u = x.to(B.dtype) @ B
    states = loop(lambda row, h: (library.addcmul(row, turn, h),), list(u.unbind(0)), (library.zeros_like(u[0]),))
    return (library.stack(states) @ C).real


# ---- a filter: the transform of each row, times the filter's, and back -----------------------------------------------


def filter_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Signals, and filters that are as long."""
    draw = Draw(rng, dtype)
    return {"x": draw.normal(sizes["B"], sizes["N"]), "kernel": draw.normal(sizes["N"], scale=sizes["N"] ** -0.5)}


def filter_reference(x: Any, kernel: Any) -> Any:
    """The transforms as products with matrices."""
    n = kernel.shape[0]
    angles = 2 * np.pi / n * (np.outer(np.arange(n), np.arange(n)) % n)
    cos, sin = np.cos(angles), np.sin(angles)
    (p, q), (u, v) = ((y @ cos, y @ sin) for y in (x, kernel.reshape(1, n)))
    return (p * u - q * v) @ (cos / n) + (p * v + q * u) @ (sin / n)


# ---- the powers of frequencies: of rows of complex numbers, which lie in memory as pairs -----------------------------


def powers_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Rows of pairs."""
    return {"x": Draw(rng, dtype).normal(sizes["B"], sizes["N"], 2)}


def powers_reference(x: Any) -> Any:
    """The transform as products with matrices."""
    n = x.shape[1]
    angles = 2 * np.pi / n * (np.outer(np.arange(n), np.arange(n)) % n)
    cos, sin = np.cos(angles), np.sin(angles)
    p, q = x[:, :, 0], x[:, :, 1]
    u, v = p @ cos + q @ sin, q @ cos - p @ sin
    return u * u + v * v


def _power(z: Any) -> Any:
    return z.real**2 + z.imag**2


def powers_by_scanjit(x: Any) -> Any:
    """As a user writes it."""
    return _power(np.fft.fft(x[..., 0] + 1j * x[..., 1]))


def powers_by_jax(x: Any) -> Any:
    """The same with JAX."""
    from jax import lax, numpy as jnp

    return _power(jnp.fft.fft(lax.complex(x[..., 0], x[..., 1])))


def powers_by_torch(x: Any) -> Any:
    """The same with PyTorch."""
    import torch as library

    return _power(library.fft.fft(library.view_as_complex(x.contiguous())))


def _filtered(library: Any) -> Any:
    def forward(x: Any, kernel: Any, **_: Any) -> Any:
        fft = library().fft
        return fft.irfft(fft.rfft(x) * fft.rfft(kernel), x.shape[-1])

    return forward


def _jax() -> Any:
    from jax import numpy

    return numpy


def _torch() -> Any:
    import torch as library

    return library


CASES = [
    Case(
        name="complex LRU",
        group="custom",
        sizes=grid("B T I N", (16, 500, 64, 128)),
        quick={"B": 3, "T": 5, "I": 4, "N": 6},
        data=lru_data,
        reference=lru_reference,
        make={
            "scanjit": scanjit.program(lru_by_scanjit),
            "torch": torch.program(lru_by_torch),
            "jax": jax.program(lru_by_jax),
        },
        value=("T", "B", "I"),
        wrt=("x", "turn", "B", "C"),
        weights=("turn", "B", "C"),
        free={"x": SEQUENCE},
        tolerance=(2e-3, 1e-9),
    ),
    Case(
        name="complex FFT",
        group="custom",
        sizes=grid("B N", (64, 1024), (64, 1000), (16, 4096)),
        quick={"B": 3, "N": 30},
        data=powers_data,
        reference=powers_reference,
        make={
            "scanjit": scanjit.program(lambda x, **_: powers_by_scanjit(x)),
            "numpy": plain.program("powers_numpy"),
            "torch": torch.program(lambda x, **_: powers_by_torch(x)),
            "jax": jax.program(lambda x, **_: powers_by_jax(x)),
        },
        value=("B", "N"),
        wrt=("x",),
        free={"x": {0: "B"}},
        tolerance=(2e-3, 1e-9),
    ),
    Case(
        name="Fourier filter",
        group="custom",
        sizes=grid("B N", (64, 1024)),
        quick={"B": 3, "N": 30},
        data=filter_data,
        reference=filter_reference,
        make={
            "scanjit": scanjit.program(_filtered(lambda: np)),
            "numpy": plain.program("spectral_numpy"),
            "torch": torch.program(_filtered(_torch)),
            "jax": jax.program(_filtered(_jax)),
        },
        value=("B", "N"),
        wrt=("x", "kernel"),
        weights=("kernel",),
        free={"x": {0: "B"}},
        tolerance=(2e-3, 1e-9),
    ),
]
