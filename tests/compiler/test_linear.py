"""Linear recurrences, many steps at a time in lanes: found, right, and exact about what is not finite."""

import numpy as np
import pytest

import scanjit as sj

RNG = np.random.default_rng(0)
LENGTHS = (0, 1, 7, 8, 9, 16, 23, 40)


def normal(steps):
    return RNG.standard_normal(steps)


def uniform(steps):
    return RNG.random(steps)


def spike(value):
    return lambda steps: np.where(np.arange(steps) == 5, value, 1.0)


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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("case", LINEAR)
def test_as_the_reference(case, backwards, dtype):
    step, makers, carries = LINEAR[case]
    init = carried(dtype, *[0.3] * carries)
    functions = build(step, len(makers), init, ("reference", "emulate"), dtype, go_backwards=backwards)
    assert all(name in functions[1].source for name in ("slide_up1", "slide_down1"))  # the gradient runs the other way
    check(functions, makers, dtype)


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
    ],
)
def test_not_linear(step, carries):
    (f,) = build(step, 1, carried("float64", *[0.5] * carries), ["emulate"], "float64", gradient=False)
    assert "slide_" not in f.source


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
