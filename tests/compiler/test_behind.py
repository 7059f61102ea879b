"""Carries that are what another carry was some steps before: they lie in its slots, and nothing is copied."""

import contextlib
import io

import numpy as np
import pytest

import scanjit as sj
from tests.compare import all_close


def blocks(f):
    """The finished program as text."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        sj.dprint(f, stage="blocks")
    return text.getvalue()


def wave(x, h, before):
    inner = h[1:-1] - 0.5 * before[1:-1] + 0.2 * (h[2:] + h[:-2])
    return sj.concatenate([x[None], inner, 0.5 * h[-1:]]), h


def three_back(x, h, h1, h2, h3):
    return 0.5 * h[::-1] - 0.3 * h2 + 0.1 * h3 + x, h, h1, h2


def in_another_order(x, h2, h, h1):
    return h1, x + 0.5 * h[::-1] - 0.1 * h2, h


def two_copies(x, h, a, b):
    return x + 0.5 * h[::-1] + 0.1 * a - 0.2 * b, h, h


CASES = {"wave": (wave, 2), "three back": (three_back, 4), "in another order": (in_another_order, 3)}


def build(step, count, size, mode, **options):
    """The function whose results are the last carries, and the first numbers of all carries after each step."""
    xs, inits = sj.vector("x", "float64"), [sj.tensor((size,), "float64", f"h{i}") for i in range(count)]

    def with_first(x, *carries):
        new = step(x, *carries)
        return *new, sj.stack([h[0] for h in carries])

    *last, firsts = sj.scan(with_first, xs, [*inits, None], **options)
    return sj.function([xs, *inits], [*(h[-1] for h in last), firsts], mode=mode)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("size", ["N", 100])
@pytest.mark.parametrize("case", CASES)
def test_as_the_reference(case, size, backwards, rng: np.random.Generator):
    step, count = CASES[case]
    wanted, *others = (build(step, count, size, m, go_backwards=backwards) for m in ("reference", "emulate", "numba"))
    assert f"% {count + 1})" in blocks(others[0]) and "% 2)" not in blocks(others[0])
    for steps in (1, 2, 3, 4, 7):
        given = [rng.standard_normal(steps), *rng.standard_normal((count, 100))]
        for f in others:
            all_close(f(*given), wanted(*given), rtol=1e-9, atol=1e-12)


def test_two_carries_behind_one_by_as_many_steps(rng: np.random.Generator):
    """They begin with other values, so only one of them lies in the slots of the first."""
    wanted, f = (build(two_copies, 3, "N", mode) for mode in ("reference", "emulate"))
    assert "% 3)" in blocks(f) and "% 2)" in blocks(f)
    for steps in (1, 2, 5):
        given = [rng.standard_normal(steps), *rng.standard_normal((3, 20))]
        all_close(f(*given), wanted(*given), rtol=1e-9, atol=1e-12)


def test_carries_that_change_places_are_copied(rng: np.random.Generator):
    f = build(lambda x, a, b: (b, a), 2, "N", "emulate")
    assert "% 3)" not in blocks(f)
    given = [np.zeros(3), *rng.standard_normal((2, 20))]
    np.testing.assert_array_equal(f(*given)[0], given[2])


def test_a_loop_that_ends_early_and_a_gradient(rng: np.random.Generator):
    x, h, before = sj.vector("x", "float64"), *(sj.vector(name, "float64") for name in ("h", "before"))

    def step(x, h, before):
        new, old = wave(x, h, before)
        return (new, old), sj.until(x > 1.0)

    ended = sj.scan(step, x, [h, before])
    summed = sum((each[-1] ** 2).sum() for each in sj.scan(wave, x, [h, before]))
    outputs = [ended[0][-1], ended[1][-1], *sj.grad(summed, [x, h, before])]
    wanted, f = (sj.function([x, h, before], outputs, mode=mode) for mode in ("reference", "numba"))
    given = rng.standard_normal(9), *rng.standard_normal((2, 50))
    all_close(f(*given), wanted(*given), rtol=1e-9, atol=1e-12)
