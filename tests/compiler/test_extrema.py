"""Minima and maxima for which carries wait are one instruction, as long as nothing is NaN."""

import numpy as np
import pytest

import scanjit as sj
from scanjit.rewrite import run as rewrite
from scanjit.schedule.nests import Nest, jobs_of
from scanjit.schedule.pipeline import schedule
from scanjit.schedule.tiles import choose
from scanjit.target import target_for, target_named
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


def nest_for(name, target):
    """The nest of a step, as it is scheduled for a target."""
    step, count = STEPS[name]
    x = sj.vector("x", dtype="float64")
    ys = sj.scan(step, x, [0.0] * count, return_list=True)
    program = schedule([x], rewrite([y[-1] for y in ys]).outputs, target)
    return next(nest for nest in jobs_of(program.suite) if isinstance(nest, Nest) and nest.time is not None)


@pytest.mark.parametrize(("name", "tested", "registers"), [("drawdown", 1, 0), ("largest", 0, 1), ("trades", 3, 0)])
def test_few_values_are_tested(name, tested, registers):
    """If `level` is NaN, so is `top - level`. If `x` is NaN, so is `sold - x`. If `here` is NaN, so it stays."""
    found = nest_for(name, target_named("x86-64-v3")).extrema
    assert len(found.values) == STEPS[name][1] - (name == "drawdown")
    assert (len(found.tested), len(found.registers)) == (tested, registers)


def test_processors_with_numpys_maximum_use_it():
    assert nest_for("drawdown", target_for("aarch64-linux-gnu")).extrema is None


def test_extrema_of_two_dtypes_in_a_step(rng):
    """None of them is one instruction: what is tested for NaN has one dtype."""
    x, y = sj.vector("x"), sj.vector("y", dtype="float32")

    def step(x, y, a, b):
        return sj.maximum(a * 0.5 + x, x - a), sj.maximum(b * 0.5 + y, y - b)

    outputs = sj.scan(step, [x, y], [0.0, sj.constant(0.0, dtype="float32")])
    f, reference = (sj.function([x, y], outputs, mode=mode) for mode in ("emulate", "reference"))
    for length in (0, 1, 57):
        given = series(length, "float64", rng), series(length, "float32", rng)
        np.testing.assert_equal(f(*given), reference(*given))


def test_steps_that_check_an_index_are_not_computed_as_if_nothing_were_nan():
    """The maximum of NaN and 7 is NaN, for which the index is 0. The instruction of x86 gives 7: an index that would be
    reported as out of bounds before the step is computed again."""
    x, table = sj.vector("x"), sj.tensor((3,), "float64", "table")

    def step(x, h):
        m = sj.maximum(x - 1, h * 0.1)
        known = ~sj.isnan(m)
        return sj.where(known, m, 5.0) - table[sj.where(known, m, 0.0).astype("int64")]

    f, reference = (sj.function([x, table], sj.scan(step, x, 70.0), mode=mode) for mode in ("emulate", "reference"))
    given = np.array([np.nan] + [1.0] * 8), np.arange(3.0)
    np.testing.assert_allclose(f(*given), reference(*given), rtol=1e-12)
