"""Random programs over complex numbers: the same Python code runs on arrays, with NumPy, and on symbols."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.complex_numbers.support import sampled, slope

UNARY: tuple[Callable[[Any], Any], ...] = (
    lambda z: np.exp(0.3 * np.tanh(z)),
    lambda z: np.log(abs(z) + 1 + 1j),
    lambda z: np.sqrt(z * z + 3),
    lambda z: np.sin(np.tanh(z)),
    np.conj,
    lambda z: z / (abs(z) + 1),
    lambda z: np.real(z) - 2j * np.imag(z),
    lambda z: abs(z) * 1j,
    lambda z: np.angle(z + 4) + 0j * z,
    lambda z: (z / 2) ** 3,
    lambda z: -z[::-1],
    lambda z: np.roll(z, 1, axis=-1),
    lambda z: np.fft.fft(z) / 4,
    lambda z: np.fft.ifft(z, axis=0) * 2,
    lambda z: np.fft.rfft(np.real(z), 2 * z.shape[-1])[..., 1:] / 3 * np.mean(z),
    lambda z: z.sum(axis=0, keepdims=True) / 3 + z,
)
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a + b,
    lambda a, b: a - 1j * b,
    lambda a, b: np.tanh(a) * b,
    lambda a, b: a / (b + 4),
    lambda a, b: 1j / (a + 5) + b.real,
    lambda a, b: np.where(np.real(a) > np.imag(b), a, b),
    lambda a, b: (a @ b.T) @ a / 9,
    lambda a, b: np.linalg.solve(a.T @ a.conj() + 5 * np.eye(a.shape[-1]), b.T).T,
    lambda a, b: np.stack([a, b])[0] * np.concatenate([a, b], axis=0)[: a.shape[0]],
    lambda a, b: np.einsum("ij,ij->j", a, b) / 4 + a * 0.5,
)


def looped(a: Any, b: Any) -> Any:
    """A damped rotation of one by the rows of another, in a loop of Python or a scan."""
    step = lambda row, h: 0.5j * np.tanh(h) + row * (0.3 + abs(h)) / (1 + abs(row))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        state, rows = b[0] + 0j, []
        for row in a:
            state = step(row, state)
            rows.append(state)
        return np.stack(rows)
    return sj.scan(step, a, b[0] + 0j)


def program(seed: int) -> Callable[..., Any]:
    """A function of two complex matrices and a real one of the same shape."""

    def run(a: Any, b: Any, x: Any) -> Any:
        choice = random.Random(seed)
        pool = [a, b, x + 0.5j]
        for _ in range(choice.randint(3, 9)):
            way = choice.random()
            if way < 0.45:
                made = choice.choice(UNARY)(choice.choice(pool))
            else:
                function = looped if way > 0.9 else choice.choice(BINARY)
                made = function(choice.choice(pool), choice.choice(pool))
            pool.append(made)
        return pool[-1]

    return run


def check(seed: int, mode: Any) -> None:
    rng = np.random.default_rng(seed)
    shape = (4, 5) if seed % 2 else (3, 3)
    arrays = [sampled(rng, shape), sampled(rng, shape), rng.normal(size=shape)]
    run = program(seed)
    symbols = [sj.tensor(shape, "complex128", "a"), sj.tensor(shape, "complex128", "b"), sj.tensor(shape, name="x")]
    value = run(*symbols)
    cost = lambda *given: (abs(run(*given) - 0.3j) ** 2).sum()
    slopes = sj.grad(cost(*symbols), symbols, disconnected="zero")
    found, by_a, by_b, _ = sj.function(symbols, [value, *slopes], mode=mode)(*arrays)
    expected = run(*arrays)
    size = 1 + abs(expected).max()
    np.testing.assert_allclose(found, expected, 1e-8, 1e-8 * size, err_msg=f"seed {seed}")
    for i, by in enumerate((by_a, by_b)):
        wanted = slope(lambda z, i=i: cost(*[z if k == i else y for k, y in enumerate(arrays)]), arrays[i])
        # A `where` may choose otherwise, and an angle jump, at the points from which differences are taken.
        np.testing.assert_allclose(by, wanted, 1e-4, 1e-4 * (1 + abs(wanted).max()), err_msg=f"seed {seed}")


@pytest.mark.slow
def test_random_programs() -> None:
    for seed in range(1000, 1080):
        check(seed, "reference" if seed % 4 else "emulate")
