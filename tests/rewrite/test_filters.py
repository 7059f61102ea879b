"""Gradients of the filters of convolutions have lanes along channels, whatever the distance between windows."""

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import Node
from scanjit.rewrite import run
from tests.rewrite.support import count

Shape = tuple[Any, ...]


def gradient(x: Node, w: Node, g: Node, step: int, groups: int = 1) -> Node:
    convolve = {3: sj.conv1d, 4: sj.conv2d, 5: sj.conv3d}[x.ndim]
    return sj.grad((convolve(x, w, 1, step, filter_flip=False, num_groups=groups) * g).sum(), w)


def by_hand(x: np.ndarray, g: np.ndarray, size: Shape, step: int, groups: int = 1) -> np.ndarray:
    """The sums of products of windows and gradients, place by place."""
    x = np.pad(x, [(0, 0), (0, 0), *[(1, 1)] * (x.ndim - 2)])
    outputs, inputs = g.shape[1] // groups, x.shape[1] // groups
    found = np.zeros((g.shape[1], inputs, *size), x.dtype)
    for place in np.ndindex(g.shape[2:]):
        cuts = tuple(slice(p * step, p * step + k) for p, k in zip(place, size, strict=True))
        window = x[(slice(None), slice(None), *cuts)]
        for group in range(groups):
            mine, theirs = (slice(group * n, (group + 1) * n) for n in (outputs, inputs))
            found[mine] += np.tensordot(g[(slice(None), mine, *place)], window[:, theirs], (0, 0))
    return found


CASES = [
    ((3, 2, 40), (20, 2, 4), 3, 1, "float32"),
    ((2, 3, 15, 11), (17, 3, 3, 3), 2, 1, "float64"),
    ((2, 4, 9, 300), (16, 2, 1, 3), 2, 2, "float32"),
    ((2, 6, 12, 37), (6, 1, 3, 3), 2, 6, "float32"),  # of one channel each: lanes along places
    ((2, 3, 5, 6, 7), (9, 3, 1, 2, 3), 2, 1, "float32"),
]


@pytest.mark.quick(3)
@pytest.mark.parametrize("named", [False, True], ids=["known sizes", "named sizes"])
@pytest.mark.parametrize(("shape", "filters", "step", "groups", "dtype"), CASES)
def test_gradients_are_those_by_hand(
    shape: Shape, filters: Shape, step: int, groups: int, dtype: str, named: bool, rng: np.random.Generator
) -> None:
    sizes = ("B", shape[1], *"HWD"[: len(shape) - 2]) if named else shape
    x, w = sj.tensor(sizes, dtype), sj.tensor(filters, dtype)
    places = [(n + 2 - k) // step + 1 for n, k in zip(shape[2:], filters[2:], strict=True)]
    g = sj.tensor((sizes[0], filters[0], *("PQR"[: len(places)] if named else places)), dtype)
    image, slope = (rng.normal(size=n).astype(dtype) for n in (shape, (shape[0], filters[0], *places)))
    got = sj.function([x, g], gradient(x, w, g, step, groups))(image, slope)
    tolerance = 2e-4 if dtype == "float32" else 1e-10
    np.testing.assert_allclose(got, by_hand(image, slope, filters[2:], step, groups), rtol=tolerance, atol=tolerance)


def test_only_what_has_channels_is_copied() -> None:
    def copies(channels: int, groups: int = 1) -> int:
        x, w = sj.tensor(("B", 8, 9, 9)), sj.tensor((channels, 8 // groups, 3, 3))
        g = sj.tensor(("B", channels, 5, 5))
        return count(run([gradient(x, w, g, 2, groups)]).outputs)["copy"]

    assert (copies(16), copies(4), copies(16, 2), copies(8, 8)) == (1, 0, 1, 0)


@pytest.mark.parametrize("named", [False, True])
def test_filters_that_are_flipped(named: bool, rng: np.random.Generator) -> None:
    """Windows then lie backwards in memory."""
    x, w = sj.tensor(("B", 3, "L") if named else (4, 3, 20)), sj.tensor((16, 3, 4))
    g = sj.tensor(("B", 16, "P") if named else (4, 16, 17))
    slope = sj.grad((sj.conv1d(x, w) * g).sum(), w)
    assert count(run([slope]).outputs)["copy"] == 1
    image, given = rng.normal(size=(4, 3, 20)), rng.normal(size=(4, 16, 17))
    wanted = [np.einsum("bop,bcp->oc", given, image[..., k : k + 17]) for k in reversed(range(4))]
    got = sj.function([x, g], slope)(image, given)
    np.testing.assert_allclose(got, np.stack(wanted, -1), rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_in_steps_examples_and_second_derivatives(rng: np.random.Generator) -> None:
    x, w = rng.normal(size=(4, 2, 3, 9, 7)), 0.1 * rng.normal(size=(8, 3, 3, 3))

    def cost(w: Node, x: Node) -> Node:
        rows = sj.scan(lambda image, w: sj.tanh(sj.conv2d(image, w, 1, 2)).sum(), sequences=x, non_sequences=w)
        return (rows**2).sum()

    steps = sj.function([ws := sj.tensor(w.shape), xs := sj.tensor(x.shape)], sj.grad(cost(ws, xs), ws))
    reference = sj.function([ws, xs], sj.grad(cost(ws, xs), ws), mode="reference")
    np.testing.assert_allclose(steps(w, x), reference(w, x), rtol=1e-9, atol=1e-11)

    def second(w: Node, image: Node) -> Node:
        slope = sj.grad((sj.conv2d(image, w, 1, 2) ** 3).sum(), w)
        return sj.grad((slope**2).sum(), w)

    found = sj.vmap(second, in_axes=(None, 0))(ws, xs)
    got, want = (sj.function([ws, xs], found, mode=mode)(w, x) for mode in ("numba", "reference"))
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
