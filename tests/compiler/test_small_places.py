"""Small tensors in steps and branches have rows with room for whole vectors. Ops that need rows without
gaps copy them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import Node
from tests.pairs import pairwise

OPS: dict[str, Callable[[Any], Any]] = {
    "sort": lambda x: sj.sort(x.T, axis=-1),
    "sort of columns": lambda x: sj.sort(x, axis=0),
    "argsort": lambda x: sj.argsort(x.T, axis=-1),
    "top_k": lambda x: sj.top_k(x.T, 2)[0],
    "median": lambda x: sj.median(x.T, axis=-1),
    "cumsum": lambda x: sj.cumsum(x.T, axis=-1),
    "cholesky": lambda x: sj.cholesky(x @ x.T + 3 * np.eye(x.type.shape[0])),
    "solve": lambda x: sj.solve(x @ x.T + 3 * np.eye(x.type.shape[0]), x),
    "triangle": lambda x: sj.solve_triangular((x @ x.T + 3 * np.eye(x.type.shape[0])).T, x, lower=False),
    "qr": lambda x: abs(sj.qr(x.T)[1]),
    "svd": lambda x: sj.svd(x.T, full_matrices=False)[1],
    "spectrum": lambda x: abs(sj.rfft(x.T)),
    "back": lambda x: sj.irfft(sj.rfft(x.T)),
    "reshape": lambda x: (x.T + 1).reshape((-1,)),
    "tile": lambda x: (1 + sj.tile(x, (1, 2))).reshape((-1,)),
    "concatenate": lambda x: sj.concatenate([x, x * 2], axis=1).reshape((-1,)),
    "pad": lambda x: sj.pad(x.T, 1).reshape((-1,)),
    "set": lambda x: (x.T * 1.0)[1:, 1:].set(0.5).reshape((-1,)),
    "take": lambda x: sj.take(x.T, sj.as_tensor(np.array([1, 0])), axis=1).reshape((-1,)),
}

STEPS = np.array([1.0, 2.0])
PLACES: dict[str, Callable[[Callable[[Any], Any], Node, Node], Any]] = {
    "branch": lambda f, x, c: sj.ifelse(c > 0, lambda: f(x), lambda: f(x) * 0),
    "step": lambda f, x, c: sj.scan(lambda k: f(x * k), sequences=sj.as_tensor(STEPS)),
    "branch in a step": lambda f, x, c: sj.scan(
        lambda k: sj.ifelse(k > 0, lambda: f(x * k), lambda: f(x) * 0), sequences=sj.as_tensor(STEPS)
    ),
}


@pytest.mark.quick(15)
@pairwise(name=OPS, place=PLACES, shape=[(3, 3), (3, 5), (9, 6)])
def test_the_same_as_the_reference(name: str, place: str, shape: tuple[int, int]) -> None:
    x, c = sj.tensor(shape, "float64", "x"), sj.scalar("c")
    given = np.random.default_rng(0).normal(size=shape), 1.0
    y = PLACES[place](OPS[name], x, c) + 0 * c
    found, expected = (sj.function([x, c], y, mode=mode)(*given) for mode in ("emulate", "reference"))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
