"""Sums of what a loop stacks, which nothing else reads: memory holds a stretch of the stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import types
from scanjit.rewrite import run as rewrite
from scanjit.runtime import host
from scanjit.schedule.nests import Buffer
from scanjit.schedule.pipeline import schedule
from tests.compare import same_for_any_threads

X, W, MASK = sj.tensor(("T", "N"), name="x"), sj.tensor(("T", "N"), name="w"), sj.tensor(("T", "N"), "bool", "mask")
A, DENSE = sj.tensor(("N",), name="a"), sj.tensor(("N", "N"), name="dense")
SERIES = sj.tensor(("T",), name="series")
INPUTS = [A, DENSE, X, W, MASK, SERIES]


def elementwise(**options: Any) -> sj.Node:
    return sj.scan(lambda x, h: sj.tanh(A * h + x), X, sj.zeros_like(A), **options)


def dense(**options: Any) -> sj.Node:
    return sj.scan(lambda x, h: sj.tanh(h @ DENSE + x), X, sj.zeros_like(A), **options)


def scalar() -> sj.Node:
    return sj.scan(lambda x, h: 0.1 + 0.1 * x * x + 0.8 * h, SERIES, 1.0)


def nested() -> sj.Node:
    """Two inner steps for each outer step."""

    def step(x: sj.Node, h: sj.Node) -> sj.Node:
        return sj.scan(lambda h: sj.tanh(A * h + x), outputs_info=h, n_steps=2)[-1]

    return sj.scan(step, X, sj.zeros_like(A))


SUMS: dict[str, Callable[[sj.Node], sj.Node]] = {
    "squares": lambda y: (y**2).sum(),
    "mean": lambda y: y.mean(),
    "over time": lambda y: (y**2).sum(0),
    "over points": lambda y: (y**2).sum(1).sum(),
    "weighted": lambda y: (y * W).sum(),
    "masked": lambda y: sj.where(MASK, (y - W) ** 2, 0.0).sum() / MASK.sum(),
    "two": lambda y: (y**2).sum() * (y * W).sum(),
    "likelihood": lambda y: (sj.log(y * y + 1) + W / (y * y + 1)).sum() - 0.5 * sj.log(6.28) * y.size,
    "cross entropy": lambda y: sj.logsumexp(y, axis=1).sum() - (y * W).sum(),
}
LOOPS = {"elementwise": elementwise, "dense": dense, "backwards": lambda: elementwise(go_backwards=True)}
CASES = {f"{loop}, {name}": make(LOOPS[loop]()) for loop in LOOPS for name, make in SUMS.items()} | {
    "dense backwards, squares": (dense(go_backwards=True) ** 2).sum(),
    "scalar likelihood": (sj.log(scalar()) + SERIES**2 / scalar()).sum(),
    "scalar squares": (sj.scan(lambda x, h: sj.tanh(0.5 * h + x), SERIES, 0.0) ** 2).sum(),
    "nested": (nested() ** 2).sum(),
    "lag": (sj.scan(lambda x, h: sj.tanh(A * h + x), X, {"initial": sj.zeros((3, A.size)), "taps": [-3]}) ** 2).sum(),
}
FAR = {"initial": sj.zeros((12, A.size)), "taps": [-12, -1]}
CASES["dense, two taps"] = (sj.scan(lambda x, far, h: sj.tanh(far @ DENSE + h + x), X, FAR) ** 2).sum()
CASES["products with a map"] = sj.tanh(W).T @ dense()
CASES["products with a map of a map"] = sj.tanh(sj.tanh(W) @ DENSE).T @ elementwise(go_backwards=True)


def temporaries(outputs: list[sj.Node]) -> Iterator[Buffer]:
    """The temporary buffers of a program."""
    program = schedule(INPUTS, rewrite(outputs).outputs, host.target())
    found = {buffer for s in program.suite for buffer, _, _ in s.all_refs() if buffer.kind == "temporary"}
    yield from found


@pytest.mark.parametrize("name", [name for name in CASES if "cross entropy" not in name and "taps" not in name])
def test_memory_is_that_of_a_stretch(name: str) -> None:
    """No array has T rows of N elements: a million times 1,000 would be 8 GB."""
    sizes = {atom: {"T": 10**6, "N": 1000}.get(atom.name, 1) for dim in X.type.shape for atom in types.atoms(dim)}
    for buffer in temporaries([CASES[name]]):
        known = all(atom in sizes for atom in types.atoms(buffer.nbytes))
        assert not known or types.evaluate(buffer.nbytes, sizes) <= 16 * 10**6, (buffer.name, buffer.shape)


@pytest.fixture(scope="module", params=["numba", "emulate"])
def compiled(request: pytest.FixtureRequest) -> Callable[..., list[Any]]:
    """All cases in one function, whose stretches are a few steps long."""
    with host.using(replace(host.target(), level2_bytes=2048)):
        return sj.function(INPUTS, list(CASES.values()), mode=request.param)


@pytest.mark.quick(3)
@pytest.mark.parametrize("steps", [0, 1, 2, 29])
def test_values(compiled: Callable[..., list[Any]], steps: int) -> None:
    rng, n = np.random.default_rng(steps), 11
    args = [
        rng.uniform(-1, 1, n), rng.standard_normal((n, n)) / n, rng.standard_normal((steps, n)),
        rng.standard_normal((steps, n)), rng.random((steps, n)) > 0.3, rng.standard_normal(steps),
    ]  # fmt: skip
    wanted = sj.function(INPUTS, list(CASES.values()), mode="reference")(*args)
    with np.errstate(all="ignore"):
        for name, value, other in zip(CASES, compiled(*args), wanted, strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-10, atol=1e-12, err_msg=name)


def test_a_stack_that_is_returned_too_is_whole(rng: np.random.Generator) -> None:
    y = elementwise()
    f = sj.function([A, X], [(y**2).sum(), y])
    a, x = rng.uniform(-1, 1, 40), rng.standard_normal((700, 40))
    total, stack = f(a, x)
    np.testing.assert_allclose(total, (stack**2).sum(), rtol=1e-12, atol=1e-13)
    assert stack.shape == x.shape


@pytest.mark.parametrize("columns", [1, 40])
def test_sums_of_many_terms_are_accurate(columns: int) -> None:
    """100,000 numbers of float32: added one by one, they would be 1e-4 off."""
    x = sj.tensor(("T", columns), "float32", "x")
    y = sj.scan(lambda x, h: 0 * h + x, x, sj.zeros(columns, "float32"))
    f = sj.function([x], [y.sum(), (sj.sqrt(y) ** 2).mean()])
    total, mean = f(np.full((100_000, columns), 0.1, np.float32))
    np.testing.assert_allclose(total, 1e4 * columns, rtol=4e-6)
    np.testing.assert_allclose(mean, 0.1, rtol=2e-5)


def test_results_do_not_depend_on_threads(rng: np.random.Generator) -> None:
    """Sums of a stack are the same bits for any number of threads."""
    a, x, w = rng.uniform(-1, 1, 300), rng.standard_normal((4000, 300)), rng.standard_normal((4000, 300))
    y = elementwise()
    f = sj.function([A, X, W], [(y**2).sum(), (y**2).sum(0), (y * W).sum()])
    same_for_any_threads(f, a, x, w)
