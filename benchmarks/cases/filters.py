"""Filters: a Kalman filter with its log-likelihood, the forward pass of a hidden Markov model, a bank of biquads."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes
from benchmarks.cases.common import SEQUENCE, Draw, grid, loop
from benchmarks.engines import jax, scanjit, torch

# ---- Kalman filter: 4 states, 2 observed -----------------------------------------------------------------------------


def kalman_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Observations y of a stable system m = F m + q, y = H m + r, and the covariances Q and S of q and r."""
    draw = Draw(rng, dtype)
    turn = np.array([[0.9, 0.2], [-0.2, 0.9]])
    F = np.kron(np.eye(2), turn) + 0.02 * rng.standard_normal((4, 4))
    H = np.array([[1.0, 0.0, 0.5, 0.0], [0.0, 0.3, 0.0, 1.0]])
    return {
        "y": draw.normal(sizes["T"], 2),
        "F": F.astype(dtype),
        "H": H.astype(dtype),
        "Q": (0.1 * np.eye(4) + 0.01).astype(dtype),
        "S": (0.5 * np.eye(2) + 0.05).astype(dtype),
    }


def _kalman_step(y: Any, m: Any, P: Any, F: Any, H: Any, Q: Any, S: Any, eye: Any) -> Any:
    """One step without the likelihood: the new mean and covariance, the residual, its covariance's inverse and
    determinant. The inverse of two by two by its formula, the covariance in Joseph's form: symmetric whatever is
    rounded."""
    m, P = F @ m, F @ P @ F.T + Q
    v = y - H @ m
    PH = P @ H.T
    C = H @ PH + S
    determinant = C[0, 0] * C[1, 1] - C[0, 1] * C[1, 0]
    scaled = v / determinant
    solved = C[1, 1] * scaled[0] - C[0, 1] * scaled[1], C[0, 0] * scaled[1] - C[1, 0] * scaled[0]
    K0 = (C[1, 1] * PH[:, 0] - C[1, 0] * PH[:, 1]) / determinant
    K1 = (C[0, 0] * PH[:, 1] - C[0, 1] * PH[:, 0]) / determinant
    m = m + K0 * v[0] + K1 * v[1]
    A = eye - K0[:, None] * H[0] - K1[:, None] * H[1]
    KS0, KS1 = K0 * S[0, 0] + K1 * S[1, 0], K0 * S[0, 1] + K1 * S[1, 1]
    P = A @ P @ A.T + KS0[:, None] * K0 + KS1[:, None] * K1
    return m, P, determinant, v[0] * solved[0] + v[1] * solved[1]


def kalman_reference(y: Any, F: Any, H: Any, Q: Any, S: Any) -> Any:
    """The plain loop, with NumPy's inverse."""
    m, P = tape.Array(np.zeros(4)), tape.Array(np.eye(4))
    total = tape.Array(0.0)
    for t in range(y.shape[0]):
        m, P = F @ m, F @ P @ F.T + Q
        v = y[t] - H @ m
        C = H @ P @ H.T + S
        inverse = tape.inverse(C)
        K = P @ H.T @ inverse
        m = m + K @ v
        A = np.eye(4) - K @ H
        P = A @ P @ A.T + K @ S @ K.T
        total = total + tape.log(C[0, 0] * C[1, 1] - C[0, 1] * C[1, 0]) + (v * (inverse @ v)).sum()
    return -0.5 * total


def kalman_by_scanjit(y: Any, F: Any, H: Any, Q: Any, S: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    def step(y_t: Any, m: Any, P: Any) -> Any:
        m, P, determinant, squared = _kalman_step(y_t, m, P, F, H, Q, S, np.eye(4, dtype=y.dtype))
        return m, P, sj.log(determinant) + squared

    eye = np.eye(4, dtype=y.dtype)
    return -0.5 * sj.scan(step, y, [sj.zeros(4, y.dtype), sj.as_tensor(eye), None], unroll=unroll)[2].sum()


def kalman_by_jax(y: Any, F: Any, H: Any, Q: Any, S: Any) -> Any:
    """`lax.scan`, the logarithms for all steps at once."""
    from jax import lax, numpy as jnp

    def step(state: Any, y_t: Any) -> Any:
        m, P, determinant, squared = _kalman_step(y_t, *state, F, H, Q, S, jnp.eye(4, dtype=y.dtype))
        return (m, P), (determinant, squared)

    _, (determinants, squares) = lax.scan(step, (jnp.zeros(4, y.dtype), jnp.eye(4, dtype=y.dtype)), y)
    return -0.5 * (jnp.log(determinants) + squares).sum()


# ---- hidden Markov model in log space --------------------------------------------------------------------------------


def hmm_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """For each step the log-probability of what was seen, by state; the transitions; the start."""
    T, B, S = (sizes[name] for name in "TBS")
    draw = Draw(rng, dtype)
    A = rng.standard_normal((S, S))
    return {
        "seen": draw.normal(T, B, S),
        "A": (A - np.log(np.exp(A).sum(1, keepdims=True))).astype(dtype),
        "start": np.full(S, -np.log(S), dtype),
    }


def hmm_reference(seen: Any, A: Any, start: Any) -> Any:
    """The plain loop."""
    B, S = seen.shape[1:]
    a = start + seen[0]
    for t in range(1, seen.shape[0]):
        a = tape.logsumexp(a.reshape(B, S, 1) + A, axis=1) + seen[t]
    return tape.logsumexp(a, axis=1)


def hmm_by_scanjit(seen: Any, A: Any, start: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    def step(seen_t: Any, a: Any) -> Any:
        return sj.logsumexp(a[:, :, None] + A, axis=1) + seen_t

    return sj.logsumexp(sj.scan(step, seen[1:], start + seen[0], unroll=unroll)[-1], axis=1)


def hmm_by_jax(seen: Any, A: Any, start: Any) -> Any:
    """`lax.scan`."""
    from jax import lax, nn

    def step(a: Any, row: Any) -> Any:
        return nn.logsumexp(a[:, :, None] + A, axis=1) + row, None

    return nn.logsumexp(lax.scan(step, start + seen[0], seen[1:])[0], axis=1)


def hmm_by_torch(seen: Any, A: Any, start: Any) -> Any:
    """A loop over steps."""
    import torch as library

    a = start + seen[0]
    for row in seen[1:].unbind(0):
        a = library.logsumexp(a[:, :, None] + A, 1) + row
    return library.logsumexp(a, 1)


# ---- biquads: transposed direct form II, a filter of its own for each channel ----------------------------------------


def biquad_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Signals, and stable filters: b (3, B), a (2, B)."""
    T, B = sizes["T"], sizes["B"]
    draw = Draw(rng, dtype)
    radius, angle = draw.uniform(0.5, 0.9, B), draw.uniform(0.2, 2.8, B)
    a = np.stack([-2 * radius * np.cos(angle), radius**2]).astype(dtype)
    return {"x": draw.normal(T, B), "b": draw.normal(3, B), "a": a}


def _biquad_step(x: Any, s1: Any, s2: Any, b: Any, a: Any) -> Any:
    y = b[0] * x + s1
    return y, b[1] * x - a[0] * y + s2, b[2] * x - a[1] * y


def biquad_reference(x: Any, b: Any, a: Any) -> Any:
    """The plain loop."""
    zeros = tape.Array(np.zeros(x.shape[1]))
    return tape.stack(loop(lambda x_t, y, s1, s2: _biquad_step(x_t, s1, s2, b, a), x, (None, zeros, zeros)))


def biquad_by_scanjit(x: Any, b: Any, a: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    zeros = sj.zeros(x.shape[1:], x.dtype)
    step = lambda x_t, s1, s2: _biquad_step(x_t, s1, s2, b, a)
    return sj.scan(step, x, [None, zeros, zeros], unroll=unroll)[0]


def biquad_by_jax(x: Any, b: Any, a: Any) -> Any:
    """`lax.scan`, with what the input adds before the loop."""
    from jax import lax, numpy as jnp

    def step(state: Any, row: Any) -> Any:
        s1, s2 = state
        y = row[0] + s1
        return (row[1] - a[0] * y + s2, row[2] - a[1] * y), y

    zeros = jnp.zeros(x.shape[1:], x.dtype)
    return lax.scan(step, (zeros, zeros), (b[0] * x, b[1] * x, b[2] * x))[1]


def biquad_by_torch(x: Any, b: Any, a: Any) -> Any:
    """A loop over steps."""
    import torch as library

    s1 = s2 = x.new_zeros(x.shape[1])
    b0, b1, b2 = (coefficient * x for coefficient in b)
    a1, a2 = a

    def step(row: Any, y: Any, s1: Any, s2: Any) -> Any:
        y = row[0] + s1
        return y, library.addcmul(row[1] + s2, a1, y, value=-1), library.addcmul(row[2], a2, y, value=-1)

    rows = list(zip(b0.unbind(0), b1.unbind(0), b2.unbind(0), strict=True))
    return library.stack(loop(step, rows, (s1, s1, s2)))


CASES = [
    Case(
        name="Kalman filter",
        group="custom",
        sizes=grid("T", (10_000,)),
        quick={"T": 20},
        data=kalman_data,
        reference=kalman_reference,
        make={"scanjit": scanjit.program(kalman_by_scanjit), "jax": jax.program(kalman_by_jax)},
        value=(),
        wrt=("F", "H", "Q", "S"),
        free={"y": {0: "T"}},
        tolerance=(1e-3, 1e-8),
        dtypes=("float64",),
        absent={"torch": "an eager loop of 10,000 steps takes seconds"},
        starts=("gradient",),
    ),
    Case(
        name="HMM forward, log space",
        group="custom",
        sizes=grid("B T S", (32, 500, 16)),
        quick={"B": 3, "T": 6, "S": 5},
        data=hmm_data,
        reference=hmm_reference,
        make={
            "scanjit": scanjit.program(hmm_by_scanjit),
            "torch": torch.program(hmm_by_torch),
            "jax": jax.program(hmm_by_jax),
        },
        value=("B",),
        wrt=("seen", "A", "start"),
        weights=("A", "start"),
        free={"seen": SEQUENCE},
        tolerance=(2e-3, 1e-9),
    ),
    Case(
        name="biquad bank",
        group="custom",
        sizes=grid("B T", (64, 4000)),
        quick={"B": 5, "T": 9},
        data=biquad_data,
        reference=biquad_reference,
        make={
            "scanjit": scanjit.program(biquad_by_scanjit),
            "torch": torch.program(biquad_by_torch),
            "jax": jax.program(biquad_by_jax),
        },
        value=("T", "B"),
        wrt=("x", "b", "a"),
        weights=("b", "a"),
        free={"x": SEQUENCE},
        tolerance=(2e-3, 1e-9),
    ),
]
