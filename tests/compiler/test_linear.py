"""Linear recurrences, many steps at a time in lanes: found, right, and exact about what is not finite."""

import re

import numpy as np
import pytest

import scanjit as sj
from scanjit.schedule.tiles import choose
from tests.fuzz.check import Config
from tests.pairs import pairwise

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def the_same_numbers_in_every_order(monkeypatch):
    """What a test draws does not depend on the tests before it."""
    monkeypatch.setitem(globals(), "RNG", np.random.default_rng(0))


@pytest.fixture(autouse=True)
def in_lanes(monkeypatch):
    """Steps are computed in lanes also where that takes longer."""
    monkeypatch.setattr(choose, "waits_less_step_by_step", lambda *_: False)


LENGTHS = (0, 1, 7, 8, 9, 16, 23, 40)


def normal(steps):
    return RNG.standard_normal(steps)


def uniform(steps):
    return RNG.random(steps)


def spike(value):
    return lambda steps: np.where(np.arange(steps) == 5, value, type(value)(1))


def build(step, count, init, modes, dtype, gradient=True, **options):
    xs = [sj.vector(dtype=dtype) for _ in range(count)]
    hs = sj.scan(step, xs, init, return_list=True, **options)
    outputs = list(hs) + (sj.grad(sum((h * h).sum() for h in hs), xs) if gradient else [])
    return [sj.function(xs, outputs, mode=mode) for mode in modes]


def check(functions, makers, dtype):
    expected, *others = functions
    rtol, atol = (1e-4, 1e-5) if dtype == "float32" else (1e-9, 1e-12)
    for steps in LENGTHS:
        arrays = [make(steps).astype(dtype) for make in makers]
        with np.errstate(all="ignore"):
            wanted = expected(*arrays)
        for f in others:
            for found, right in zip(f(*arrays), wanted, strict=True):
                np.testing.assert_allclose(found, right, rtol=rtol, atol=atol)


def carried(dtype, *values):
    return [np.dtype(dtype).type(value) for value in values]


LINEAR = {
    "constant factor": (lambda x, h: 0.5 * h + x, [normal], 1),
    "factor of the step": (lambda a, x, h: a * h + x, [uniform, normal], 1),
    "sum": (lambda x, h: x + h, [normal], 1),
    "product": (lambda x, h: h * x, [uniform], 1),
    "masked": (lambda a, x, h: sj.where(a > 0.5, (h - x) / (1 + a), h), [uniform, normal], 1),
    "one of another": (lambda a, x, h, g: (a * h + x, 0.9 * g + h), [uniform, normal], 2),
    "not linear in the other": (lambda a, x, h, g: (a * h + x, h * h - 0.5 * g), [uniform, normal], 2),
    "forgets": (lambda a, x, h, g: (a * h + x, x - a), [uniform, normal], 2),
}


@pytest.mark.quick(8)
@pairwise(case=LINEAR, backwards=[False, True], dtype=["float32", "float64"])
def test_as_the_reference(case, backwards, dtype):
    step, makers, carries = LINEAR[case]
    init = carried(dtype, *[0.3] * carries)
    functions = build(step, len(makers), init, ("reference", "emulate"), dtype, go_backwards=backwards)
    assert all(name in functions[1].source for name in ("slide_up1", "slide_down1"))  # the gradient runs the other way
    check(functions, makers, dtype)


def integers(steps):
    return RNG.integers(-3, 4, steps)


BOUNDED = {
    "running maximum": (lambda x, h: sj.maximum(h, x), [normal], [-np.inf]),
    "queue": (lambda x, h: sj.maximum(0, h + x), [normal], [0]),
    "leaky": (lambda x, h: sj.minimum(0.5 * h - x, 0.7), [normal], [0]),
    "within bounds": (lambda x, h: sj.clip(h + x, -0.5, 1.0), [normal], [0]),
    "within bounds of the step": (lambda x, a, h: sj.maximum(sj.minimum(x, h), a) + x, [normal, normal], [0]),
    "bounds the wrong way round": (lambda x, h: sj.minimum(sj.maximum(h - x, 0.5), -0.5), [normal], [0]),
    "drawdown": (
        lambda x, h, top, worst: (h + x, sj.maximum(top, h + x), sj.maximum(worst, sj.maximum(top, h + x) - h - x)),
        [normal],
        [0, 0, 0],
    ),
}
COUNTED = {
    "sum": (lambda x, h: 3 + (h - x), [integers], [2]),
    "run": (lambda x, a, h: sj.where(sj.equal(x, a), 1 + h, 1), [integers, integers], [0]),
    "run in a run": (
        lambda x, a, h: sj.where(x > 0, sj.where(a > 0, h + a, h - 1), sj.where(a > 1, h, x)),
        [integers, integers],
        [7],
    ),
    "largest": (lambda x, h, top: (h + x, sj.maximum(top, h)), [integers], [0, -100]),
    "smallest": (lambda x, h: sj.minimum(x, h), [integers], [2]),
    "fixed": (lambda x, h, g: (h, g + h * x), [integers], [3, 0]),
    "walk above 0": (lambda x, h: sj.maximum(h + x, 0), [integers], [2]),
    "level": (lambda x, h: sj.minimum(4, sj.maximum(h - x, -1)), [integers], [9]),
    "bounds of the step": (lambda x, a, h: sj.clip(h + x, a, a + 2), [integers, integers], [1]),
    "highest level": (lambda x, h, top: (sj.maximum(h + x, -2), sj.maximum(top, h)), [integers], [0, -100]),
}


@pytest.mark.quick(4)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("case", BOUNDED)
def test_bounds(case, backwards):
    """What is nearest to a linear recurrence within bounds; also where something is infinite or NaN."""
    step, makers, init = BOUNDED[case]
    functions = build(
        step, len(makers), carried("float64", *init), ("reference", "emulate"), "float64", False, go_backwards=backwards
    )
    assert "slide_" in functions[1].source
    for other in (normal, spike(np.nan), spike(np.inf), spike(-np.inf)):
        for i in range(len(makers)):
            check(functions, [*makers[:i], other, *makers[i + 1 :]], "float64")


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("case", COUNTED)
def test_integers(case, dtype):
    step, makers, init = COUNTED[case]
    functions = build(step, len(makers), carried(dtype, *init), ("reference", "emulate"), dtype, gradient=False)
    assert "slide_up1" in functions[1].source
    check(functions, makers, dtype)


def test_bounds_and_integers_compiled():
    step, makers, init = BOUNDED["within bounds"]
    check(build(step, 1, carried("float32", *init), ("reference", "numba"), "float32", False), makers, "float32")
    for dtype in ("int64", "int32"):
        step, makers, init = COUNTED["run in a run"]
        check(build(step, 2, carried(dtype, *init), ("reference", "numba"), dtype, False), makers, dtype)


def test_compiled():
    step, makers, _ = LINEAR["one of another"]
    check(build(step, 2, carried("float64", 0.3, 0.1), ("reference", "numba"), "float64"), makers, "float64")


@pytest.mark.parametrize(
    ("step", "carries"),
    [
        (lambda x, h: sj.tanh(h) + x, 1),
        (lambda x, h: h * h + x, 1),
        (lambda x, h, g: (0.5 * h + 0.2 * g + x, h), 2),  # each needs the other
        (lambda x, h, g: (g, h), 2),
        (lambda x, h: sj.maximum(x * h, 0.0), 1),  # what bounds become depends on the sign of x
        (lambda x, h: sj.maximum(-h, x), 1),
        (lambda x, h: sj.where(x > 0, sj.maximum(h, x), h), 1),
        (lambda x, h: 2.0 * sj.maximum(h, x), 1),
        (lambda x, h: x - sj.maximum(h, x), 1),
    ],
)
def test_not_linear(step, carries):
    (f,) = build(step, 1, carried("float64", *[0.5] * carries), ["emulate"], "float64", gradient=False)
    assert "slide_" not in f.source


@pytest.mark.parametrize(
    "step",
    [
        lambda x, h: h + h + x,
        lambda x, h: x - h,
        lambda x, h: x * h,
        lambda x, h: sj.maximum(h, x) + 1,  # it may wrap around
    ],
)
def test_not_linear_in_integers(step):
    functions = build(step, 1, carried("int64", 1), ["reference", "emulate"], "int64", gradient=False)
    assert "slide_" not in functions[1].source
    check(functions, [integers], "int64")


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("case", ["walk above 0", "level", "bounds of the step"])
def test_integers_that_wrap_around(case, dtype):
    """A step, a bound or the carry is as far from 0 as integers can be, or so far that some together are."""
    step, makers, init = COUNTED[case]
    most = int(np.iinfo(dtype).max)
    for start in (*init, most, -most - 1, most - 2):
        functions = build(step, len(makers), carried(dtype, start), ("reference", "emulate"), dtype, gradient=False)
        for value in (0, most, -most - 1, most - 3, most // 64, -most // 8):
            for i in range(len(makers)):
                for other in (spike(value), lambda steps, value=value: np.full(steps, value)):
                    check(functions, [*makers[:i], other, *makers[i + 1 :]], dtype)


@pytest.mark.parametrize(("dtype", "large"), [("float32", 3e3), ("float64", 1e200)])
def test_not_finite(dtype, large):
    """Products of factors may overflow where the recurrence does not; infinities and NaN spread as step by step."""
    one, two = carried(dtype, 0.0), carried(dtype, 0.0, 1.0)
    large = np.dtype(dtype).type(large)
    for step, makers, init in [
        (lambda x, h: large * h + 0 * x, [normal], one),
        (lambda x, h: large * h + x, [normal], one),
        (lambda x, h: 1e-3 * h + x, [spike(np.inf)], one),
        (lambda x, h: 1e-3 * h + x, [spike(np.nan)], one),
        (lambda a, x, h, g: (a * h + x, g * h), [uniform, spike(np.inf)], two),
    ]:
        functions = build(step, len(makers), init, ("reference", "emulate"), dtype, gradient=False)
        assert "slide_up1" in functions[1].source
        check(functions, makers, dtype)


def lowest_and_fall(x, level, lowest, fall):
    """A sum, and two carries that no step reads."""
    level = level + x
    return level, sj.minimum(lowest, x), sj.maximum(fall, 2 * level)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "step",
    [
        lambda a, x, h: h + x,
        lambda a, x, h: 0.5 * h + x,
        lambda a, x, h: x - h,
        lambda a, x, h: x - 0.5 * h,
        lambda a, x, h: sj.where(a > 0.5, x, h),
        lambda a, x, h: sj.where(a > 0.5, h, x),
        lambda a, x, h: 0.5 * sj.where(a > 0.5, x, h),
        lambda a, x, h: sj.where(a > 0.5, x, sj.where(a < 0.3, h, -x)),
    ],
)
def test_signs_of_zeros(step, dtype):
    """The sum of -0.0 and 0 is 0: where nothing is added, and where the carry is given up."""
    a, x, h = sj.vector("a", dtype), sj.vector("x", dtype), sj.scalar("h", dtype)
    hs = sj.scan(step, [a, x], h)
    f, wanted = (sj.function([a, x, h], hs, mode=mode) for mode in ("emulate", "reference"))
    assert "slide_up1" in f.source
    for steps in LENGTHS:
        for zeros in (np.full(steps, -0.0), np.where(RNG.random(steps) < 0.3, 0.0, -0.0)):
            for start in (-0.0, 0.0, 1.0, -1.0):
                given = uniform(steps).astype(dtype), zeros.astype(dtype), np.dtype(dtype).type(start)
                found, right = f(*given), wanted(*given)
                zero = right == 0  # small numbers may differ by their rounding
                np.testing.assert_array_equal(np.signbit(found)[zero], np.signbit(right)[zero])


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_extrema_that_no_step_reads(dtype, backwards):
    """Each lane keeps an extremum of its own. Nothing is composed for it, and NaN and infinities are in it."""
    x, init = sj.vector("x", dtype), carried(dtype, 0, 5, -5)
    found = sj.scan(lowest_and_fall, x, init, go_backwards=backwards)
    f, wanted = (sj.function([x], [h[-1] for h in found], mode=mode) for mode in ("emulate", "reference"))
    assert f.source.count("reduce_min(") == f.source.count("reduce_max(") > 0
    assert "slide_" in f.source and "low0" not in f.source and "high0" not in f.source
    for steps in LENGTHS[1:]:
        whole = integers(steps).astype(dtype)
        np.testing.assert_equal(f(whole), wanted(whole))
        for value in (np.nan, np.inf, -np.inf) if dtype != "int64" else ():
            for place in {0, steps // 2, steps - 1}:
                given = np.where(np.arange(steps) == place, value, whole).astype(dtype)
                np.testing.assert_equal(f(given), wanted(given))


def test_an_extremum_that_is_stored_is_composed():
    x = sj.vector("x", "float64")
    f = sj.function([x], sj.scan(lambda x, h: sj.maximum(h, x), x, 0.0), mode="emulate")
    assert "slide_" in f.source and "reduce_max" not in f.source


@pytest.mark.parametrize("backwards", [False, True])
def test_the_next_vector_waits_for_one_operation(backwards):
    """The last carry of a vector is computed in all lanes: it is not moved there after it is known."""
    x = sj.vector("x", "float64")
    f = sj.function([x], sj.scan(lambda x, h: 0.5 * h + x, x, 0.0, go_backwards=backwards), mode="emulate")
    (composed,) = re.findall(r"(\w+) = fma\(\w+, last0, end\d+\)", f.source)
    assert f"last0 = {composed}" in f.source


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_row_before(dtype):
    """A carry that forgets is only moved by a lane, whatever it is: also a float of 16 bits, which lanes cannot add."""
    x, h = sj.vector("x", dtype), sj.scalar("h", dtype)
    outputs = sj.scan(lambda x, h: (x, sj.where(x < h, h, -x)), x, [h, None])
    f, wanted = (sj.function([x, h], list(outputs), mode=mode) for mode in ("emulate", "reference"))
    assert "slide_up1" in f.source and "finite" not in f.source
    for steps in LENGTHS:
        given = normal(steps).astype(dtype)
        given[3:6] = (np.inf, np.nan, -np.inf)[: len(given[3:6])]
        np.testing.assert_equal(f(given, 0.5), wanted(given, 0.5))


def tanks(x, *levels):
    """Each tank takes a part of what was in the one before it."""
    return [h + 0.3 * (before - h) for before, h in zip((x, *levels), levels, strict=False)]


@pytest.mark.parametrize(
    ("step", "init", "width", "lanes"),
    [
        (BOUNDED["drawdown"][0], [0, 0, 0], 32, False),  # three carries, each of which waits for one operation
        (BOUNDED["drawdown"][0], [0, 0, 0], 16, False),
        (BOUNDED["running maximum"][0], [0], 32, True),
        (BOUNDED["queue"][0], [0], 32, True),
        (lambda x, h: 0.5 * h + x, [0], 32, True),
        (lambda x, h: 0.5 * h + x, [0], 64, True),
        (tanks, [0] * 2, 64, True),
        (tanks, [0] * 6, 64, False),  # each is composed after the one before
        (lambda x, *h: [0.5 * each + x for each in h], [0] * 5, 64, True),  # none waits for another
    ],
)
def test_costs_decide(step, init, width, lanes, monkeypatch):
    """Few lanes, and carries that are soon there: composing the steps of a vector takes longer than the steps."""
    monkeypatch.undo()
    with Config(width=width).active():
        (f,) = build(step, 1, carried("float64", *init), ["emulate"], "float64", gradient=False)
    assert ("slide_" in f.source) == lanes


@pytest.mark.parametrize(("width", "lanes"), [(16, False), (32, False), (64, True)])
def test_integers_are_soon_there(width, lanes, monkeypatch):
    """An operation on integers takes a cycle: only many lanes take less time."""
    monkeypatch.undo()
    step, makers, init = COUNTED["run"]
    with Config(width=width).active():
        (f,) = build(step, len(makers), carried("int64", *init), ["emulate"], "int64", gradient=False)
    assert ("slide_" in f.source) == lanes


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_steps_that_are_stored_apart(columns, monkeypatch):
    """What a vector of steps returns is stored number by number if it lies in one of three columns or more."""
    monkeypatch.undo()
    x = sj.vector("x", "float64")
    hs = sj.scan(lambda x, *h: tanks(x, *h), x, carried("float64", *[0] * columns), return_list=True)
    with Config(width=64).active():
        f = sj.function([x], sj.stack(hs, axis=1), mode="emulate")
    assert ("slide_" in f.source) == (columns < 3)
