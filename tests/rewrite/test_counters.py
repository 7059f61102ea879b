"""Carries that count steps become sequences, if something costly is computed of them."""

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.compare import all_close

NOTE = "what depends on the number of the step alone is made before the loop"


def adam(x: Any, start: Any, by: Any, back: bool) -> Any:
    """A step of Adam, all of its results, and the last number of a step."""

    def step(g: Any, w: Any, m: Any, v: Any, t: Any) -> Any:
        g, t = g + w, t + by
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return w - 0.01 * (m / (1 - 0.9**t)) / (sj.sqrt(v / (1 - 0.999**t)) + 1e-8), m, v, t

    w, _, _, t = sj.scan(step, x, [1.0, 0.0, 0.0, start], go_backwards=back)
    return w, t, t[-1:] if isinstance(start, sj.Node) else t


@pytest.mark.parametrize("mode", ["emulate", "numba"])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(("start", "by"), [(0.0, 1.0), (0, 1), (10, 3), (-2.0, 4.0)])
def test_as_the_reference(start: Any, by: Any, back: bool, mode: Any) -> None:
    x = sj.vector("x")
    y = adam(x, start, by, back)
    outputs = [*y, sj.grad((y[0] ** 2).sum(), x)]
    f, reference = sj.function([x], outputs, mode=mode), sj.function([x], outputs, mode="reference")
    assert NOTE in str(f.explain())
    for length in (0, 1, 2, 9, 50):
        given = np.random.default_rng(length).normal(size=length)
        all_close(f(given), reference(given), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_a_start_that_is_not_known(mode: Any) -> None:
    x, k = sj.vector("x"), sj.lscalar("k")
    h, t = sj.scan(lambda x, h, t: (0.5 * h + x * sj.cos(0.1 * t), t + 2), x, [0.0, k])
    f, reference = (sj.function([x, k], [h, t], mode=m) for m in (mode, "reference"))
    assert NOTE in str(f.explain())
    for start in (0, -7, 2**63 - 5):  # the last one goes on at -2**63
        all_close(f(np.ones(6), start), reference(np.ones(6), start), rtol=1e-12)


@pytest.mark.parametrize(
    ("start", "step"),
    [
        (0.0, lambda t, h: t + 0.1),  # rounded in each step
        (0.5, lambda t, h: t + 1.0),
        (np.float32(0), lambda t, h: t + np.float32(1)),  # stays at 2**24
        (0.0, lambda t, h: t + sj.where(h > 0, 1.0, 2.0)),
    ],
)
def test_other_carries_stay(start: Any, step: Any) -> None:
    x = sj.vector("x")
    h, _ = sj.scan(lambda x, h, t: (0.5 * h + x * sj.cos(0.1 * t), step(t, h)), x, [0.0, start])
    assert NOTE not in str(sj.function([x], h, mode="emulate").explain())


def test_what_is_cheap_stays_in_the_step() -> None:
    x = sj.vector("x")
    h, _ = sj.scan(lambda x, h, t: (0.5 * h + x * t, t + 1.0), x, [0.0, 0.0])
    assert NOTE not in str(sj.function([x], h, mode="emulate").explain())
