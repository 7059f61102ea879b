"""`pool` and `conv_transpose`: derivatives of any order, batches, steps of loops, and generated code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scanjit as sj

POOLS: list[dict[str, Any]] = [
    {"size": (2, 2)},
    {"size": (3, 2), "stride": (1, 2), "pad": ((2, 0), (0, 1)), "ignore_border": False},
    {"size": 3, "stride": 2, "pad": 1, "mode": "average_exc_pad", "dilation": 2},
    {"size": (2, 3), "stride": 2, "mode": "average_inc_pad", "pad": (1, 2), "ignore_border": False},
]


def pooled(x: np.ndarray, **options: Any) -> np.ndarray:
    return np.asarray(sj.function([], sj.pool(x, **options), mode="reference")())


@pytest.mark.parametrize("options", POOLS, ids=str)
def test_derivatives(options: dict[str, Any], rng: np.random.Generator) -> None:
    x = rng.permutation(70).reshape(2, 5, 7) / 10.0
    sj.check_grad(lambda x: (sj.pool(x, **options) ** 3).sum(), [x], order=1)
    y = sj.tensor((2, "n", "m"))
    slope = sj.grad((sj.pool(y, **options) ** 3).sum(), y)
    second, forward = sj.grad((slope**2).sum(), y), sj.jvp(slope, y, sj.ones_like(y))
    found = [sj.function([y], [slope, second, forward], mode=mode)(x) for mode in ("reference", "emulate")]
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    step = 1e-6
    raised, lowered = (sj.function([y], slope, mode="reference")(x + d) for d in (step, -step))
    np.testing.assert_allclose(found[0][2], (raised - lowered) / (2 * step), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("options", POOLS, ids=str)
def test_batches_and_steps(options: dict[str, Any], rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 2, 6, 6))
    f = lambda x: sj.pool(x, **options)
    wanted = np.stack([pooled(one, **options) for one in x])
    rows = sj.tensor((None, 2, None, None))
    for outputs in (sj.vmap(f)(rows), sj.map(f, rows)):
        np.testing.assert_allclose(sj.function([rows], outputs, mode="emulate")(x), wanted)
    together = sj.function([rows], sj.grad(sj.map(lambda x: f(x).sum(), rows).sum(), rows), mode="emulate")(x)
    alone = sj.function([rows], sj.grad(f(rows).sum(), rows), mode="reference")(x)
    np.testing.assert_allclose(together, alone)


def test_compiled(rng: np.random.Generator) -> None:
    x, w = sj.tensor(("B", 3, "n"), "float32"), sj.tensor((3, 4, 3), "float32")
    y = sj.conv_transpose(sj.pool(x, 2, ignore_border=False), w, "same", 2, filter_flip=False)
    outputs = [y, sj.grad((y * y).sum(), x)]
    values = [rng.normal(size=(2, 3, 601)).astype("float32"), rng.normal(size=(3, 4, 3)).astype("float32")]
    found = [sj.function([x, w], outputs, mode=mode)(*values) for mode in ("numba", "reference")]
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("step, dilation", [(1, 1), (2, 1), (3, 1), (2, 2), (5, 1)])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_transposed(step: int, dilation: int, size: int, rng: np.random.Generator) -> None:
    """It is the gradient of the convolution, for each size from which that makes the size of the input."""
    w = rng.normal(size=(4, 1, size))
    for n in range(20, 23):
        x = np.zeros((2, 2, n))
        y = sj.conv1d(sj.tensor(x.shape), w, (1, 2), step, dilation, num_groups=2)
        g = rng.normal(size=y.type.shape)
        image = sj.tensor(x.shape)
        slope = sj.vjp(sj.conv1d(image, w, (1, 2), step, dilation, num_groups=2), image, g)
        made = sj.conv_transpose(g, w, (1, 2), step, dilation, num_groups=2, output_size=n)
        a, b = sj.function([image], [slope, made + 0 * image], mode="reference")(x)
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_derivatives_of_transposed(step: int, rng: np.random.Generator) -> None:
    x, w = rng.normal(size=(2, 2, 2, 3)), rng.normal(size=(2, 1, 3, 2))
    sj.check_grad(lambda x, w: (sj.conv_transpose(x, w, (1, 0), step) ** 2).sum(), [x, w])
    rows = sj.tensor((None, 1, 2, None, None))
    outputs = sj.vmap(lambda x: sj.conv_transpose(x, w, (1, 0), step))(rows)
    found = sj.function([rows], outputs, mode="emulate")(x[:, None])
    wanted = sj.function([], sj.conv_transpose(x, w, (1, 0), step), mode="reference")()
    np.testing.assert_allclose(found[:, 0], wanted)
