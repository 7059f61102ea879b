"""A loop over time of whose steps threads share nothing is run by one thread, which meets nobody in it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.fuzz.check import Config

N = 4


def filtered(y: Any, F: Any, P: Any, early: bool = False, unroll: int = 1) -> Any:
    """A filter of Kalman's kind: too long for one function, and with a product whose right operand is packed."""

    def step(row: Any, m: Any, P: Any) -> Any:
        m, P = F @ m, F @ P @ F.T + np.eye(N)
        v = row - m[:2]
        C = P[:2, :2] + np.eye(2)
        determinant = C[0, 0] * C[1, 1] - C[0, 1] * C[1, 0]
        inverse = sj.stack([sj.stack([C[1, 1], -C[0, 1]]), sj.stack([-C[1, 0], C[0, 0]])]) / determinant
        K = P[:, :2] @ inverse
        A = np.eye(N) - K @ np.eye(N)[:2]
        m, P = m + K @ v, A @ P @ A.T + K @ K.T
        found = m, P, sj.log(determinant) + v @ inverse @ v
        return (found, sj.until(m[0] > 1e3)) if early else found

    return sj.scan(step, y, [sj.zeros(N), P, None], unroll=unroll)


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("threads", "early", "unroll"),
    [(1, False, 1), (2, False, 1), (3, False, 1), (2, True, 1), (1, False, 3), (2, False, 2)],
)
def test_values_and_gradients(threads: int, early: bool, unroll: int, rng: np.random.Generator) -> None:
    y, F, P = sj.tensor(("T", 2), name="y"), sj.tensor((N, N), name="F"), sj.tensor((N, N), name="P")
    _, covariance, terms = filtered(y, F, P, early, unroll)
    total = terms.sum() + covariance.sum()
    outputs = [total] if early else [total, *sj.grad(total, [y, F, P])]
    given = [rng.normal(size=(7, 2)), 0.9 * np.eye(N) + 0.05 * rng.normal(size=(N, N)), np.eye(N)]
    wanted = sj.function([y, F, P], outputs, mode="reference")(*given)
    with Config(threads=threads, small=True).active():
        for got, right in zip(sj.function([y, F, P], outputs, mode="emulate")(*given), wanted, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-10)


def test_nobody_is_met() -> None:
    y, F, P = sj.tensor(("T", 2), name="y"), sj.tensor((N, N), name="F"), sj.tensor((N, N), name="P")
    loss = filtered(y, F, P)[2].sum()
    f = sj.function([y, F, P], [loss, sj.grad(loss, F)], mode="emulate")
    loops = [text for text in re.split(r"\n(?=def )", f.source) if text.startswith("def loop_")]
    assert len(loops) >= 2  # the values', and the gradient's
    assert not any(word in text for text in loops for word in ("first_piece", "barrier"))
