"""Steps over a few numbers are written number by number: the same results, forward and gradient."""

import numpy as np
import pytest

import scanjit as sj
from tests.compare import all_close
from tests.pairs import pairwise

MODES = ("emulate", "numba")

F = np.array([[1.0, 0.1], [0.0, 1.0]])
MIXED = np.array([[0.5, -0.2, 0.1], [0.3, 0.4, 0.0], [0.1, -0.1, 0.6]])
LARGE = np.random.default_rng(0).random((20, 20))


def kalman(x, p):
    def step(x, m, P):
        m, P = F @ m, F @ P @ F.T + p[0] * sj.as_tensor(np.eye(2))
        s = P[0, 0] + p[1]
        k = P[:, 0] / s
        return m + k * (x[0] - m[0]), P - k[:, None] * P[0], sj.log(s)

    m, P, log = sj.scan(step, x, [sj.zeros(2, "float64"), sj.as_tensor(np.eye(2)), None])
    return [m, P[-1], log.sum() + (m * m).sum()]


def shifted(x, p):
    """Concatenations, slices, windows that are replaced, axes in another order."""

    def step(x, h):
        h = sj.concatenate([h[1:], p[0] * h[:1] + x[:1]])
        return h[1:2].set(x[1] * h[::2].sum()), sj.stack([h, 2 * h], axis=1).T.reshape((3, 2))

    return list(sj.scan(step, x, [sj.zeros(3, "float64"), None]))


def extremes(x, p):
    """Reductions over some and over all axes; the order of steps is turned round."""

    def step(x, h):
        a = h[:, None] - x[None] * p
        return sj.where(h > 0.5, a.max(1), a.min(1) * 0.5) + a.mean(), sj.concatenate([h, h]).reshape((2, 2)).prod(1)

    return list(sj.scan(step, x, [sj.as_tensor(np.array([0.1, 0.9])), None], go_backwards=True))


def matrix(x, p):
    return [sj.scan(lambda x, s: MIXED @ s + p[0] * x[0], x, sj.zeros(3, "float64"))[-1]]


def until(x, p):
    def step(x, s):
        s = MIXED @ s + x[1] + p[1]
        return s, sj.until(s.sum() > 1.5)

    return [sj.scan(step, x, [sj.zeros(3, "float64")])]


def counted(x, p):
    """Integers and bools."""

    def step(x, count, seen):
        now = (x > 0.0)[None] & sj.as_tensor(np.array([[True, True], [True, False]]))
        return count[::-1] + now.astype("int64").sum(0), seen[::-1] | now.any(1), seen.astype("int64").sum() * p[0]

    return list(sj.scan(step, x, [sj.zeros(2, "int64"), sj.zeros(2, "bool"), None]))


MODELS = [kalman, shifted, extremes, matrix, until, counted]


@pytest.mark.quick(3)
@pytest.mark.parametrize("steps", [None, 5])
@pytest.mark.parametrize("model", MODELS)
def test_as_the_reference(model, steps, rng):
    x, p = sj.tensor((steps, 2), "float64"), sj.tensor((2,), "float64")
    outputs = model(x, p)
    assert "number by number" in sj.function([x, p], outputs, mode="emulate").explain()
    if model not in (until, counted):
        cost = sum((y.astype("float64") ** 2).sum() for y in outputs)
        outputs = [*outputs, *sj.grad(cost, [x, p])]
    reference, f = (sj.function([x, p], outputs, mode=mode) for mode in ("reference", "emulate"))
    assert ("number by number" in f.explain()) == (model is not extremes)  # whose gradient is too long
    for n in (0, 1, 5, 12) if steps is None else (steps,):
        given = rng.standard_normal((n, 2)), np.array([0.3, 0.7])
        if n == 0 and model in (kalman, matrix):
            continue  # there is no last one
        all_close(f(*given), reference(*given), rtol=1e-9, atol=1e-12)


def test_compiled():
    x, p = sj.tensor((None, 2), "float64"), sj.tensor((2,), "float64")
    given = np.random.default_rng(0).standard_normal((9, 2)), np.array([0.3, 0.7])
    outputs = kalman(x, p)
    outputs += sj.grad(outputs[-1], [x, p])
    reference, f = (sj.function([x, p], outputs, mode=mode) for mode in ("reference", "numba"))
    all_close(f(*given), reference(*given), rtol=1e-9, atol=1e-12)


@pairwise(shape=[(1,), (3,), (4,), (2, 3), (7,)], dtype=["float64", "float32", "int64", "uint8"], mode=MODES)
def test_sorted_states(shape, dtype, mode):
    """Each row is in order in each step, with NaN last and -0.0 before 0.0."""
    x = sj.tensor((None, *shape), dtype)
    y = sj.scan(lambda x, h: sj.sort(sj.where(x > 2, h, x)), x, sj.zeros(shape, dtype))
    f, wanted = (sj.function([x], y, mode=each) for each in (mode, "reference"))
    assert "number by number" in f.explain()
    values = [0.0, -0.0, np.nan, np.inf, -np.inf, 3.0, -1.5, 1e-300] if dtype.startswith("float") else [0, 1, 2, 3, 250]
    given = np.random.default_rng(0).choice(np.array(values), (40, *shape)).astype(dtype)
    got, other = f(given), wanted(given)
    np.testing.assert_array_equal(got, other)
    np.testing.assert_array_equal(*(np.copysign(1.0, np.nan_to_num(values)) for values in (got, other)))


@pytest.mark.parametrize(
    ("step", "size"),
    [
        (lambda x, h: 0.5 * h + x, 2),  # lanes of a vector
        (lambda x, h: sj.tanh(h[::-1]) + x, 4),  # so expensive that lanes are better
        (lambda x, h: sj.as_tensor(LARGE) @ h + x, 20),  # long
        (lambda x, h: h.cumsum() + x, "K"),
    ],
)
def test_others_stay(step, size):
    x, h = sj.tensor((None,), "float64"), sj.tensor((size,), "float64")
    assert "number by number" not in sj.function([x, h], sj.scan(step, x, h), mode="emulate").explain()


def with_tanh(x, h, w):
    """`tanh` is expensive, so the step stays as it is, and its gradient too."""
    return sj.tanh(x + h @ w)


def with_powers(x, h, w):
    return x + 0.1 * (h @ w) ** 2


def gradients(step, x, w, checkpoint):
    h = sj.scan(lambda x, h: step(x, h, w), x, sj.zeros(3, "float64"), checkpoint=checkpoint)
    return sj.grad((h * h).sum(), [x, w])


@pytest.mark.parametrize("step", [with_powers, with_tanh])
def test_checkpoints_are_kept(step):
    """One stretch of steps is stored: a loop and its gradient are both done entry by entry, or neither."""
    x, w = sj.tensor(("T", 3), "float64"), sj.tensor((3, 3), "float64")
    f = sj.function([x, w], gradients(step, x, w, "sqrt"), mode="emulate")
    assert ("number by number" in f.explain()) == (step is with_powers)
    assert "recomputed for the gradient" in f.explain()


def with_parameters(x, h, w):
    """The gradients of a vector and of a number are sums over the steps that are no products of matrices."""
    return x + w[0] * h / (1 + h * h) + 0.1 * w[1, 1] * (w @ h)


@pytest.mark.parametrize("step", [with_powers, with_parameters, with_tanh])
def test_checkpoints_change_no_bit(step):
    x, w = sj.tensor(("T", 3), "float64"), sj.tensor((3, 3), "float64")
    functions = [sj.function([x, w], gradients(step, x, w, some), mode="emulate") for some in (None, "all", "sqrt", 4)]
    given = 0.1 * np.random.default_rng(0).standard_normal((30, 3)), MIXED
    first, *others = (f(*given) for f in functions)
    for other in others:
        np.testing.assert_equal(other, first)


def test_steps_that_know_more_sizes(rng):
    """A direction of known shape tells inner loops the sizes of what the outer loop gives them."""

    def product(A, B, x, directions):
        def improved(u):
            xs = sj.scan(lambda row, x: A @ x + B @ row, u, x)
            return u - 0.1 * sj.scan(lambda x, l: A.T @ l + 2 * x, xs, xs[-1], go_backwards=True) @ B

        cost = (sj.scan(improved, outputs_info=sj.zeros((2, 1), "float64"), n_steps=2)[-1] ** 2).sum()
        return sj.hvp(cost, [A, B, x], directions)

    args, directions = ([rng.normal(size=shape) for shape in ((2, 2), (2, 1), (2,))] for _ in range(2))
    got, expected = (
        sj.jit(lambda *given: product(*given, directions), mode=mode)(*args) for mode in ("numba", "reference")
    )
    all_close(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [7, 8])
def test_long_arrays_stay_in_vectors(size):
    x, at = sj.vector("x", "float64"), sj.lvector("at")
    ring = lambda x, at, ring: ((new := ring[at].set(x)), new.max())
    f = sj.function([x, at], sj.scan(ring, [x, at], [sj.zeros(size, "float64"), None])[1], mode="emulate")
    assert ("number by number" in f.explain()) == (size < 8)


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_an_element_at_a_computed_place(mode, rng):
    """Each number is the new one where its place is meant; a place outside is an error."""
    x, at = sj.vector("x", "float64"), sj.lvector("at")

    def step(x, at, piles):
        place = sj.minimum((piles < x).astype("int64").sum(), 3)
        return piles[place].set(x)[at].inc(0.5), place

    made = sj.scan(step, [x, at], [sj.as_tensor(np.arange(4.0)), None])
    f, reference = (sj.function([x, at], made, mode=each) for each in (mode, "reference"))
    assert "number by number" in f.explain() and "load_f64x4" not in f.source.split("def scan")[1]
    given = rng.uniform(0.0, 5.0, 50), rng.integers(-4, 4, 50)
    np.testing.assert_equal(f(*given), reference(*given))
    for outside in (4, -5):
        given[1][20] = outside
        with pytest.raises(sj.OutOfBoundsError, match=f"index {outside} is out of bounds"):
            f(*given)


def best(x, kept):
    return sj.sort(sj.concatenate([kept, x[None]]))[1:]


def best_backwards(x, kept):
    """The best ones, the largest first, and the one that falls out."""
    row = sj.sort(sj.concatenate([x[None], kept]))[::-1]
    return row[:-1], row[-1]


def queue(x, kept):
    """The first one is changed."""
    return sj.sort(kept[0].inc(sj.maximum(x, 0)))


def two(x, kept):
    """Two new ones come to those that are in order."""
    return sj.sort(sj.concatenate([kept, x[None], -x[None]]))[2:]


ORDERED = {  # the step, the start, and how many extrema it has at most
    "best": (best, [-3.0, -2.0, -0.0], 5),
    "backwards": (best_backwards, [2.0, 1.0, -3.0], 6),
    "queue": (queue, [0.0, 1.0, 1.0], 5),  # one more belongs to the step
    "two": (two, [0.0, 0.5, 1.0], 20),
    "of another order": (best, [1.0, 0.0, 2.0], 12),
    "zeros of another order": (best, [-1.0, 0.0, -0.0], 12),
}


@pairwise(name=ORDERED, dtype=["float64", "float32", "int64"], mode=MODES)
def test_lists_in_order(name, dtype, mode):
    """One that comes to others that are in order is put between them: no others are compared."""
    step, start, most = ORDERED[name]
    x, emits = sj.tensor((None,), dtype, "x"), step is best_backwards
    made = sj.scan(
        step, x, [sj.as_tensor(np.array(start, dtype)), None] if emits else sj.as_tensor(np.array(start, dtype))
    )
    outputs = made if emits else [made, made[-1]]
    f, wanted = (sj.function([x], outputs, mode=each) for each in (mode, "reference"))
    text = sj.dprint(f, "str", stage="rewritten")
    if "another" not in name and name != "two":
        assert text.count("minimum") + text.count("maximum") <= most
    values = [0.0, -0.0, np.nan, np.inf, -np.inf, 3.0, -1.5, 1e-30] if dtype.startswith("float") else [0, -1, 2, 3, 250]
    for length in (1, 40):
        given = np.random.default_rng(length).choice(np.array(values), length).astype(dtype)
        for got, other in zip(f(given), wanted(given), strict=True):
            np.testing.assert_array_equal(got, other)
            np.testing.assert_array_equal(np.signbit(np.nan_to_num(got)), np.signbit(np.nan_to_num(other)))
