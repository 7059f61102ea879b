"""Minima and maxima for which carries wait are one instruction: processors foresee that nothing is NaN."""

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import host
from scanjit.schedule.tiles import choose
from tests.pairs import pairwise


@pytest.fixture(autouse=True)
def one_by_one(monkeypatch):
    """No step is computed in lanes."""
    monkeypatch.setattr(choose, "waits_less_step_by_step", lambda *_: True)


def drawdown(x, level, top, worst):
    level = level + x
    top = sj.maximum(top, level)
    return level, top, sj.maximum(worst, top - level)


def largest(x, here, most):
    here = sj.maximum(here + x, x)
    return here, sj.maximum(most, here)


def trades(x, bought, sold, again, end):
    return (
        sj.maximum(bought, -x),
        sj.maximum(sold, bought + x),
        sj.maximum(again, sold - abs(x)),
        sj.maximum(end, again + x),
    )


def lost(x, a, b):
    """A carry that is NaN for one step."""
    return sj.minimum(x, b), sj.maximum(a * 0.5, sj.where(b > 0, x, -b))


def between(x, low, high):
    return sj.minimum(x, sj.maximum(low, high)), sj.maximum(x, low * 0.25)


STEPS = {step.__name__: (step, count) for step, count in ((drawdown, 3), (largest, 2), (trades, 4), (lost, 2))}
STEPS["between"] = between, 2
ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300]


def made(name, mode, dtype="float64", **options):
    step, count = STEPS[name]
    x, start = sj.vector("x", dtype=dtype), sj.tensor((count,), dtype, "start")
    ys = sj.scan(step, x, [start[i] for i in range(count)], return_list=True, **options)
    return sj.function([x, start], [*ys, *(y[-1:] for y in ys)], mode=mode)


def series(length, dtype, rng):
    """Numbers of which some are odd, in some series none."""
    x = rng.standard_normal(length).astype(dtype)
    odd = rng.random(length) < rng.choice([0.0, 0.05, 0.3])
    with np.errstate(over="ignore"):
        return np.where(odd, rng.choice(ODD, length).astype(dtype), x)


@pytest.mark.quick(5)
@pairwise(name=STEPS, backwards=[False, True], dtype=["float32", "float64"], mode=["emulate", "numba"])
def test_values_are_those_of_numpy_whatever_is_nan(name, backwards, dtype, mode, rng):
    f, right = (made(name, m, dtype, go_backwards=backwards) for m in (mode, "reference"))
    for length in [0, 1, 3, 4, 5, 8, 17, *rng.integers(1, 40, 12 if mode == "emulate" else 200)]:
        x, start = series(length, dtype, rng), series(STEPS[name][1], dtype, rng)
        with np.errstate(all="ignore"):
            wanted = right(x, start)
        np.testing.assert_equal(f(x, start), wanted)


@pytest.mark.parametrize("name", STEPS)
def test_processors_foresee_whether_anything_is_nan(name):
    source = made(name, "emulate").source
    assert "foreseen_" in source and "maximum(" not in source.replace("foreseen_maximum(", "")


@pytest.mark.skipif(not host.target().is_x86, reason="others have NumPy's maximum")
def test_a_carry_waits_for_one_instruction():
    """No mask and no choice stands between the maximum of a step and that of the next one."""
    x = sj.vector("x", dtype="float64")
    f = sj.function([x], sj.scan(lambda x, a, b: (sj.maximum(x, a - b), sj.minimum(x * b, a)), x, [0.0, 1.0]))
    text = sj.dprint(f, file="str", stage="assembly")
    assert "vmaxsd" in text or "maxsd" in text
    assert "cmpunordsd" not in text


def test_extrema_of_two_dtypes_in_a_step(rng):
    x, y = sj.vector("x"), sj.vector("y", dtype="float32")

    def step(x, y, a, b):
        return sj.maximum(a * 0.5 + x, x - a), sj.maximum(b * 0.5 + y, y - b)

    outputs = sj.scan(step, [x, y], [0.0, sj.constant(0.0, dtype="float32")])
    f, reference = (sj.function([x, y], outputs, mode=mode) for mode in ("emulate", "reference"))
    for length in (0, 1, 57):
        given = series(length, "float64", rng), series(length, "float32", rng)
        np.testing.assert_equal(f(*given), reference(*given))


def test_steps_that_check_an_index():
    """The maximum of NaN and 7 is NaN, for which the index is 0. The instruction of x86 gives 7, which would be out of
    bounds."""
    x, table = sj.vector("x"), sj.tensor((3,), "float64", "table")

    def step(x, h):
        m = sj.maximum(x - 1, h * 0.1)
        known = ~sj.isnan(m)
        return sj.where(known, m, 5.0) - table[sj.where(known, m, 0.0).astype("int64")]

    f, reference = (sj.function([x, table], sj.scan(step, x, 70.0), mode=mode) for mode in ("emulate", "reference"))
    given = np.array([np.nan] + [1.0] * 8), np.arange(3.0)
    np.testing.assert_allclose(f(*given), reference(*given), rtol=1e-12)
