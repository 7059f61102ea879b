"""Connectionist temporal classification (Graves et al., 2006): how likely labels are, wherever in time they lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes
from benchmarks.cases.common import Draw, grid
from benchmarks.engines import jax, scanjit

NEVER = -1e30
"""The logarithm of a chance of nothing, with which one can still compute."""


def data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Scores of S symbols, of which the first is the blank; `path`: L labels with blanks around them; and what is added
    for a label that comes right after the one before: nothing, or if both are the same, or blank, `NEVER`."""
    T, B, S, L = (sizes[name] for name in "TBSL")
    x = Draw(rng, dtype).normal(T, B, S)
    path = np.zeros((B, 2 * L + 1), np.int64)
    path[:, 1::2] = rng.integers(1, S, (B, L))
    skip = np.full(path.shape, NEVER, dtype)
    skip[:, 2:][(path[:, 2:] != 0) & (path[:, 2:] != path[:, :-2])] = 0
    return {"x": x, "path": path, "skip": skip}


def reference(x: Any, path: Any, skip: Any) -> Any:
    """The plain loop."""
    B, E = path.shape
    seen = x - tape.logsumexp(x, axis=2).reshape(*x.shape[:2], 1)
    chosen = np.eye(x.shape[2])[np.asarray(path, np.int64)]
    seen = (seen.reshape(x.shape[0], B, 1, -1) * chosen).sum(axis=3)
    never = tape.Array(np.full((B, 2), NEVER))
    a = tape.concatenate([seen[0][:, :2], tape.Array(np.full((B, E - 2), NEVER))])
    for t in range(1, x.shape[0]):
        before, earlier = (tape.concatenate([never[:, :n], a[:, :-n]]) for n in (1, 2))
        a = tape.logsumexp(tape.stack([a, before, earlier + skip]), axis=0) + seen[t]
    return -tape.logsumexp(a[:, -2:], axis=1).sum()


def _loss(x: Any, path: Any, skip: Any, library: Any, logsumexp: Any, scan: Any) -> Any:
    """The same, from the functions of a library."""
    B, E = path.shape
    seen = x - logsumexp(x, axis=2, keepdims=True)
    seen = seen[:, np.arange(B)[:, None], path]
    never = np.full((B, E), NEVER, x.dtype)

    def step(seen_t: Any, a: Any) -> Any:
        before, earlier = (library.concatenate([never[:, :n], a[:, :-n]], axis=1) for n in (1, 2))
        return library.logaddexp(library.logaddexp(a, before), earlier + skip) + seen_t

    start = library.concatenate([seen[0, :, :2], never[:, 2:]], axis=1)
    return -logsumexp(scan(step, seen[1:], start)[:, -2:], axis=1).sum()


def by_scanjit(x: Any, path: Any, skip: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    return _loss(x, path, skip, sj, sj.logsumexp, lambda *given: sj.scan(*given, unroll=unroll)[-1])


def by_jax(x: Any, path: Any, skip: Any) -> Any:
    """`lax.scan`."""
    from jax import lax, nn, numpy as jnp

    last = lambda step, rows, a: lax.scan(lambda a, row: (step(row, a), None), a, rows)[0]
    return _loss(x, path, skip, jnp, nn.logsumexp, last)


CASES = [
    Case(
        name="CTC",
        group="custom",
        sizes=grid("B T S L", (16, 200, 40, 30)),
        quick={"B": 3, "T": 12, "S": 5, "L": 4},
        data=data,
        reference=reference,
        make={"scanjit": scanjit.program(by_scanjit), "jax": jax.program(by_jax)},
        wrt=("x",),
        free={"x": {0: "T"}},
        tolerance=(2e-3, 1e-9),
        starts=("gradient",),
    )
]
