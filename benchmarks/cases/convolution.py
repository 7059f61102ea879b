"""Convolutions over one axis, whose length a compiled function is told, or is not: that should not matter."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.case import Arrays, Case, Sizes, Work
from benchmarks.cases.common import Draw, grid
from benchmarks.engines import jax, scanjit, torch

NAMES = "B C L O K N"
"""Batch, channels, length; filters, their width, how many places they have."""
ROWS = {
    1: grid(NAMES, (4, 32, 1000, 64, 5, 996), (8, 256, 40, 256, 3, 38)),
    2: grid(NAMES, (256, 64, 3, 64, 3, 1), (256, 64, 7, 64, 3, 3)),
    128: grid(NAMES, (1, 1, 640, 258, 256, 4)),
}
"""By how far apart places are."""
QUICK = {1: 8, 2: 4, 128: 1}
"""How many places two filters' entries have in nine of a signal."""


def data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Signals and filters."""
    B, C, L, O, K = (sizes[name] for name in "BCLOK")
    draw = Draw(rng, dtype)
    return {"x": draw.normal(B, C, L), "w": draw.normal(O, C, K, scale=(C * K) ** -0.5)}


def work(sizes: Sizes, itemsize: int) -> Work:
    """The products."""
    B, C, O, K, N = (sizes[name] for name in "BCOKN")
    return Work(2.0 * B * C * O * K * N)


def reference(x: Any, w: Any, step: int) -> Any:
    """A product for each entry of the filters."""
    width = w.shape[2]
    places = (x.shape[2] - width) // step + 1
    total = 0.0
    for k in range(width):
        total = x[:, :, k : k + step * (places - 1) + 1 : step].T @ w[:, :, k].T + total
    return total.T  # type: ignore[attr-defined]


def by_scanjit(x: Any, w: Any, step: int, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    return sj.conv1d(x, w, subsample=step, filter_flip=False)


def by_jax(x: Any, w: Any, step: int) -> Any:
    """As a user writes it."""
    from jax import lax

    return lax.conv_general_dilated(x, w, (step,), "VALID")


def by_torch(x: Any, w: Any, step: int) -> Any:
    """As a user writes it."""
    from torch.nn.functional import conv1d

    return conv1d(x, w, stride=step)


def _case(step: int, known: bool) -> Case:
    return Case(
        name=f"convolution, places {step} apart, {'known' if known else 'any'} length",
        group="convolution",
        sizes=ROWS[step],
        quick={"B": 2, "C": 3, "L": 9, "O": 5, "K": 2, "N": QUICK[step]},
        data=data,
        reference=partial(reference, step=step),
        make={
            "scanjit": scanjit.program(partial(by_scanjit, step=step)),
            "torch": torch.program(partial(by_torch, step=step)),
            "jax": jax.program(partial(by_jax, step=step)),
        },
        value=("B", "O", "N"),
        wrt=("x", "w"),
        weights=("w",),
        free={} if known else {"x": {0: "B", 2: "L"}},
        work=work,
    )


CASES = [_case(step, known) for step in ROWS for known in (False, True)]
