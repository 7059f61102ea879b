"""Sorting and running sums of many rows, and a particle filter that resamples its particles at each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes
from benchmarks.cases.common import Draw, grid
from benchmarks.engines import jax, plain, scanjit, torch

ROWS = grid("B N", (10000, 8), (2000, 64), (500, 256), (100, 1000), (1, 1000000))
TOP = 8
"""How many elements `top_k` finds."""


def rows_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Rows without equal elements: every order of them is the stable one."""
    B, N = sizes["B"], sizes["N"]
    return {"x": (rng.permuted(np.tile(np.arange(N), (B, 1)), axis=1) - N / 2).astype(dtype)}


def _torch(name: str, **options: Any) -> Callable[..., Any]:
    """PyTorch's function of a name, along the last axis."""

    def forward(x: Any) -> Any:
        import torch as library

        return getattr(library, name)(x, **options, dim=-1)

    return forward


def _jax(name: str) -> Callable[..., Any]:
    """JAX's function of a name, along the last axis."""

    def forward(x: Any) -> Any:
        from jax import numpy as jnp

        return getattr(jnp, name)(x, axis=-1).astype(x.dtype)  # places are int32 in float32

    return forward


def _case(name: str, numpy: Any, ours: Any, by_torch: Any, by_jax: Any, value: tuple[str, ...] = ("B", "N")) -> Case:
    """A function of rows."""
    return Case(
        name=name,
        group="custom",
        sizes=ROWS,
        quick={"B": 3, "N": 12},
        data=rows_data,
        reference=lambda x: tape.Array(numpy(x.value)),
        make={
            "scanjit": scanjit.program(lambda x, unroll: ours(x)),
            "numpy": plain.direct(numpy),
            "torch": torch.program(by_torch),
            "jax": jax.program(by_jax),
        },
        value=value,
        free={"x": {0: "B"}},
        tolerance=(1e-3, 1e-9),
        kinds=("forward",),
    )


def _by_scanjit(name: str) -> Callable[..., Any]:
    def forward(x: Any) -> Any:
        import scanjit as sj

        return getattr(sj, name)(x, axis=-1)

    return forward


def _top_by_scanjit(x: Any) -> Any:
    import scanjit as sj

    return sj.top_k(x, TOP)[0]


def _top_by_numpy(x: Any) -> Any:
    return np.sort(np.partition(x, -TOP, axis=-1)[:, -TOP:], axis=-1)[:, ::-1]


def _top_by_jax(x: Any) -> Any:
    from jax import lax

    return lax.top_k(x, TOP)[0]


def _top_by_torch(x: Any) -> Any:
    import torch as library

    return library.topk(x, TOP, dim=-1)[0]


def _sort_by_torch(x: Any) -> Any:
    import torch as library

    return library.sort(x, dim=-1)[0]


def _median_by_torch(x: Any) -> Any:
    import torch as library

    return library.quantile(x, 0.5, dim=-1) if x.shape[-1] < 2**24 and x.numel() < 2**24 else library.median(x, -1)[0]


# ---- a particle filter -----------------------------------------------------------------------------------------------


def particle_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """What was seen, the first particles, how each moves at each step, and where resampling begins."""
    T, P = sizes["T"], sizes["P"]
    draw = Draw(rng, dtype)
    return {
        "y": draw.normal(T),
        "first": draw.normal(P),
        "moves": draw.normal(T, P, scale=0.5),
        "offsets": draw.uniform(0.1, 0.9, T),
    }


def _filtered(y: Any, first: Any, moves: Any, offsets: Any) -> np.ndarray:
    """The loop in NumPy, in the dtype of its arguments."""
    particles, count, found = first, len(first), []
    steps = np.arange(count, dtype=first.dtype)
    for seen, move, offset in zip(y, moves, offsets, strict=True):
        particles = (0.9 * particles + move).astype(first.dtype)
        weights = np.exp(-0.5 * (seen - particles) ** 2)
        weights /= weights.sum()
        found.append((weights * particles).sum())
        drawn = np.searchsorted(np.cumsum(weights), (steps + offset) / count)
        particles = particles[np.minimum(drawn, count - 1)]
    return np.asarray(found, first.dtype)


def particles_reference(y: Any, first: Any, moves: Any, offsets: Any) -> Any:
    """The plain loop."""
    return tape.Array(_filtered(y.value, first.value, moves.value, offsets.value))


def particles_by_scanjit(y: Any, first: Any, moves: Any, offsets: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    count = first.shape[0]
    steps = sj.cast(sj.arange(count), first.dtype)

    def step(seen: Any, move: Any, offset: Any, particles: Any) -> Any:
        particles = 0.9 * particles + move
        weights = sj.exp(-0.5 * (seen - particles) ** 2)
        weights = weights / weights.sum()
        drawn = sj.searchsorted(sj.cumsum(weights), (steps + offset) / sj.cast(count, first.dtype))
        return (weights * particles).sum(), particles[sj.minimum(drawn, count - 1)]

    return sj.scan(step, [y, moves, offsets], [None, first], unroll=unroll)[0]


def particles_by_jax(y: Any, first: Any, moves: Any, offsets: Any) -> Any:
    """`lax.scan`."""
    from jax import lax, numpy as jnp

    count = first.shape[0]
    steps = jnp.arange(count, dtype=first.dtype)

    def step(particles: Any, row: Any) -> Any:
        seen, move, offset = row
        particles = 0.9 * particles + move
        weights = jnp.exp(-0.5 * (seen - particles) ** 2)
        weights = weights / weights.sum()
        drawn = jnp.searchsorted(jnp.cumsum(weights), (steps + offset) / count)
        return particles[jnp.minimum(drawn, count - 1)], (weights * particles).sum()

    return lax.scan(step, first, (y, moves, offsets))[1]


def particles_by_torch(y: Any, first: Any, moves: Any, offsets: Any) -> Any:
    """A loop in Python."""
    import torch as library

    particles, count, found = first, first.shape[0], []
    steps = library.arange(count, dtype=first.dtype)
    for seen, move, offset in zip(y.unbind(), moves.unbind(), offsets.unbind(), strict=True):
        particles = 0.9 * particles + move
        weights = library.exp(-0.5 * (seen - particles) ** 2)
        weights = weights / weights.sum()
        found.append((weights * particles).sum())
        drawn = library.searchsorted(library.cumsum(weights, 0), (steps + offset) / count)
        particles = particles[library.clamp(drawn, max=count - 1)]
    return library.stack(found)


CASES = [
    _case("sort", lambda x: np.sort(x, axis=-1), _by_scanjit("sort"), _sort_by_torch, _jax("sort")),
    _case(
        "argsort",
        lambda x: np.argsort(x, axis=-1),
        _by_scanjit("argsort"),
        _torch("argsort", stable=True),
        _jax("argsort"),
    ),
    _case("top_k", _top_by_numpy, _top_by_scanjit, _top_by_torch, _top_by_jax, ("B",)),
    _case("median", lambda x: np.median(x, axis=-1), _by_scanjit("median"), _median_by_torch, _jax("median"), ("B",)),
    _case("cumsum", lambda x: np.cumsum(x, axis=-1), _by_scanjit("cumsum"), _torch("cumsum"), _jax("cumsum")),
    Case(
        name="particle filter",
        group="custom",
        sizes=grid("T P", (200, 100), (200, 1000), (200, 10000)),
        quick={"T": 5, "P": 20},
        data=particle_data,
        reference=particles_reference,
        make={
            "scanjit": scanjit.program(particles_by_scanjit),
            "numpy": plain.direct(_filtered),
            "torch": torch.program(particles_by_torch),
            "jax": jax.program(particles_by_jax),
        },
        value=("T",),
        free={"y": {0: "T"}, "moves": {0: "T"}, "offsets": {0: "T"}},
        tolerance=(2e-2, 1e-9),
        dtypes=("float64",),
        kinds=("forward",),
    ),
]
"""Rounding decides which particles are drawn: so the filter is compared in float64 alone."""
