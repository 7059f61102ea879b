"""Layers with complex states against loops by hand in NumPy, JAX and PyTorch: values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scanjit as sj


@pytest.fixture
def example(read_example):
    return read_example("complex_states")


def arrays(rng: np.random.Generator, T: int = 7, B: int = 2, F: int = 3, N: int = 4) -> dict[str, Any]:
    normal = lambda *shape: rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return {
        "x": rng.normal(size=(T, B, F)),
        "nu": rng.normal(size=N),
        "theta": rng.normal(size=N),
        "gamma": rng.uniform(size=N),
        "B": normal(F, N),
        "C": normal(N, F),
        "D": rng.normal(size=F),
    }


def lru_by_loop(np: Any, x: Any, nu: Any, theta: Any, gamma: Any, B: Any, C: Any, D: Any) -> Any:
    """In NumPy, jax.numpy or torch."""
    rotation, state, found = np.exp(-np.exp(nu) + 1j * theta), 0, []
    for row in x:
        state = rotation * state + (row + 0j) @ (B * gamma)
        found.append(np.real(state @ C) + D * row)
    return np.stack(found)


def test_lru_beside_others(example) -> None:
    given = arrays(np.random.default_rng(0))
    wrt = ("nu", "theta", "B", "C")

    def cost(y: Any) -> Any:
        return (y * y).sum()

    slopes = sj.value_and_grad(
        lambda p, rest: cost(example.lru(**{**rest, **p})),
    )({k: given[k] for k in wrt}, {k: given[k] for k in given if k not in wrt})
    value, found = slopes
    expected = lru_by_loop(np, **given)
    np.testing.assert_allclose(sj.jit(example.lru, mode="reference")(**given), expected, 1e-12, 1e-12)
    np.testing.assert_allclose(value, cost(expected), 1e-12)
    torch = pytest.importorskip("torch")
    tensors = {name: torch.tensor(array, requires_grad=name in wrt) for name, array in given.items()}
    cost(lru_by_loop(torch, **tensors)).backward()
    for name in wrt:  # PyTorch's convention
        np.testing.assert_allclose(found[name], tensors[name].grad.numpy(), 1e-9, 1e-9)


def test_lru_beside_jax(example) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    given = arrays(np.random.default_rng(1))
    slope = jax.grad(lambda C: (lru_by_loop(jax.numpy, **{**given, "C": C}) ** 2).sum())(given["C"])
    found = sj.value_and_grad(lambda C: (example.lru(**{**given, "C": C}) ** 2).sum(), mode="reference")(given["C"])[1]
    np.testing.assert_allclose(found, np.conj(slope), 1e-9)  # JAX gives the conjugate


def test_s4d_is_a_convolution_with_its_kernel(example, rng: np.random.Generator) -> None:
    T, F, N = 9, 3, 4
    normal = lambda *shape: rng.normal(size=shape) + 1j * rng.normal(size=shape)
    x, log_dt, B, C, D = (
        rng.normal(size=(T, 2, F)),
        rng.normal(size=F) - 1,
        normal(F, N),
        normal(F, N),
        rng.normal(size=F),
    )
    log_decay, frequency = rng.normal(size=(F, N)), rng.normal(size=(F, N))
    found = sj.jit(example.s4d, mode="reference")(x, log_dt, log_decay, frequency, B, C, D)
    A = -np.exp(log_decay) + 1j * frequency
    turned = np.exp(np.exp(log_dt)[:, None] * A)
    kernel = np.array([2 * np.real((C * (turned - 1) / A * B * turned**t).sum(-1)) for t in range(T)])
    for t in range(T):
        expected = sum(kernel[t - s] * x[s] for s in range(t + 1)) + D * x[t]
        np.testing.assert_allclose(found[t], expected, 1e-10, 1e-10)


def test_the_example(example) -> None:
    example.main(["--steps", "small", "--mode", "reference"])  # asserts itself that it learns
