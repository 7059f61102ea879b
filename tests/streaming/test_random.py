"""Random functions of a sequence, cut into steps, beside the functions of the whole sequence."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.streaming.test_step_function import TIME, one_by_one, pieces

LENGTHS = (3, 1, 5, 2)
"""How many steps blocks have."""


class Maker:
    """Makes random values of the shape of a sequence of rows."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.width = self.choose.choice([1, 2, 5])
        self.x = sj.tensor(("T", self.width), name="x")
        self.found = [self.x]

    def weights(self, *shape: int) -> np.ndarray:
        return self.numbers.normal(size=shape) / 2

    def late(self, x: Any, steps: int) -> Any:
        return sj.concatenate([sj.zeros((steps, self.width)), x[:-steps]], axis=0)

    def add(self) -> None:
        """One value more."""
        some, width = self.choose, self.width
        a, b = some.choice(self.found), some.choice(self.found)
        zero, weights, order = sj.zeros(width), self.weights(width, width), list(range(width))
        two = {"initial": sj.zeros((2, width)), "taps": [-1, -2]}
        some.shuffle(order)
        ways = [
            lambda: a + sj.tanh(b),
            lambda: a @ weights,
            lambda: sj.where(a > b, a, b / 2),
            lambda: a[:, ::-1],
            lambda: a[:, order] - a.mean(axis=1, keepdims=True),
            lambda: np.sort(a, axis=1) * sj.argmax(b, axis=1)[:, None],
            lambda: a / sj.cumsum(sj.ones_like(b), axis=0),
            lambda: sj.cumsum(a, axis=0) / 8,
            lambda: np.maximum.accumulate(a, axis=0),
            lambda: self.late(a, some.randint(1, 3)),
            lambda: a - 0.5 * self.late(b, 1) + 0.25 * self.late(b, 2),
            lambda: sj.reshape(a, (-1, 1, width)).sum(axis=1),
            lambda: sj.scan(lambda row, h: sj.tanh(row + h @ weights), a, zero),
            lambda: sj.scan(lambda p, q, h: h / 2 + p * q, [a, b], zero),
            lambda: sj.scan(lambda row, h, g: row + h / 2 - g / 4, a, two),
            lambda: sj.scan(lambda row, n, h: (n + 1, h + row / (n + 1.0)), a, [sj.constant(0.0), zero])[1],
            lambda: sj.scan(lambda row, h: sj.ifelse(row[0] > 0, lambda: h / 2 + row, lambda: h - row / 8), a, zero),
            lambda: sj.scan(lambda row: sj.scan(lambda e, h: h / 2 + e, row, sj.constant(0.0)), a),
        ]
        self.found.append(some.choice(ways)())

    def result(self) -> tuple[Any, bool]:
        """What the function returns, and whether it has a row for each step."""
        last = self.found[-1]
        ends = [
            lambda: last.sum(axis=0),
            lambda: last[-1],
            lambda: sj.reduce(lambda row, h: h / 2 + row, last, sj.zeros(self.width)),
        ]
        return (self.choose.choice(ends)(), False) if self.choose.random() < 0.3 else (last * 1.0, True)


@pytest.mark.quick(15)
@pytest.mark.parametrize("seed", range(60))
def test_random_functions(seed: int) -> None:
    maker = Maker(seed)
    for _ in range(maker.choose.randint(1, 6)):
        maker.add()
    result, has_rows = maker.result()
    f = sj.function([maker.x], result, mode="reference")
    x = maker.numbers.normal(size=(TIME, maker.width))
    step, whole = sj.step_function(f), f(x)
    blocks, _ = pieces(step, [x], [0], LENGTHS)
    rows, _ = one_by_one(step, [x], [0])
    for found, together in ((blocks, np.concatenate), (rows, np.stack)):
        np.testing.assert_allclose(together(found) if has_rows else found[-1], whole, rtol=1e-9, atol=1e-11)
