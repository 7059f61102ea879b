"""Ranges of integers: indices that are certainly inside an array are not checked, and all others are."""

import re

import numpy as np
import pytest

import scanjit as sj
from scanjit.schedule.lower.ranges import Ranges


def checked(f):
    """Whether a function checks an index."""
    return re.search(r"\bok0\b", f.source) is not None


def ring(start, last, step=1, size=25, dtype="int64"):
    """A scan with an echo after `size` samples: it reads and writes place k of a line, then moves on."""

    def move(x, line, k):
        y = x + 0.5 * line[k]
        first = 0 if step > 0 else size - 1
        return line[k].set(y), sj.where(sj.equal(k, last), first, k + step).astype(dtype), y

    x = sj.vector("x", "float64")
    init = [sj.zeros(size, "float64"), sj.as_tensor(np.array(start, dtype)), None]
    y = sj.scan(move, x, init)[2]
    return [sj.function([x], y, mode=mode) for mode in ("reference", "emulate", "numba")]


@pytest.mark.parametrize(("start", "last", "step"), [(0, 24, 1), (24, 0, -1), (7, 24, 1), (7, 23, 1)])
@pytest.mark.parametrize("dtype", ["int64", "int32", "int8"])
def test_a_ring_needs_no_checks(start, last, step, dtype):
    wanted, *others = ring(start, last, step, dtype=dtype)
    x = np.random.default_rng(0).standard_normal(60)
    for f in others:
        assert not checked(f) and "less_0" not in f.source
        np.testing.assert_allclose(f(x), wanted(x), rtol=1e-12)


@pytest.mark.parametrize(("start", "last", "step"), [(0, 25, 1), (24, 10, 1), (0, 1, -1), (3, 2, 1), (3, 24, 2)])
def test_what_may_leave_the_array_is_checked(start, last, step):
    _, emulated, compiled = ring(start, last, step)
    for f in (emulated, compiled):
        assert checked(f)
    if step == 1:
        with pytest.raises(sj.errors.OutOfBoundsError):
            compiled(np.zeros(60))


MOVES = {
    "up": (0, lambda k, n: sj.where(sj.equal(k, n - 1), 0, k + 1)),
    "down": (0, lambda k, n: sj.where(sj.equal(k, 0), n - 1, k - 1)),
    "from the end": (None, lambda k, n: sj.where(k <= 0, n - 1, k - 1)),
    "a rest": (0, lambda k, n: (k + 1) % n),
    "compared after": (0, lambda k, n: sj.where(k + 1 >= n, 0, k + 1)),
    "at a bound": (0, lambda k, n: sj.minimum(k + 1, n - 1)),
    "one too far": (0, lambda k, n: sj.where(sj.equal(k, n), 0, k + 1)),
    "compared with another number": (0, lambda k, n: sj.where(sj.equal(k, n - 2), 0, k + 1)),
    "from an unknown place": (3, lambda k, n: sj.where(sj.equal(k, n - 1), 0, k + 1)),
    "back to a known place": (0, lambda k, n: sj.where(sj.equal(k, n - 1), 3, k + 1)),
    "two steps": (0, lambda k, n: sj.where(sj.equal(k, n - 1), 0, k + 2)),
    "a rest of another number": (0, lambda k, n: (k + 1) % (n + 1)),
}


@pytest.mark.parametrize("case", MOVES)
def test_a_ring_of_unknown_length(case):
    """Code checks only that there is a place, and this for each step alike."""
    start, move = MOVES[case]
    x, line = sj.vector("x", "float64"), sj.vector("line", "float64")

    def step(x, line, k):
        y = x + 0.5 * line[k]
        return line[k].set(y), move(k, line.shape[0]), y

    first = line.shape[0] - 1 if start is None else start
    y = sj.scan(step, x, [line, first, None])[2]
    wanted, *others = (sj.function([x, line], y, mode=mode) for mode in ("reference", "emulate", "numba"))
    data = np.random.default_rng(0).standard_normal(12)
    sure = list(MOVES).index(case) < 6
    for f in others:
        assert ("(0 <= k" not in f.source) == sure
        assert case == "a rest" or "less_" not in f.source.replace("less_equal", "") or not sure
        for n in (1, 2, 5, 20):
            try:
                expected = wanted(data, np.ones(n))
            except sj.OutOfBoundsError:
                with pytest.raises(sj.OutOfBoundsError):
                    f(data, np.ones(n))
            else:
                np.testing.assert_allclose(f(data, np.ones(n)), expected, rtol=1e-12)
        with pytest.raises(sj.OutOfBoundsError):
            f(data, np.ones(0))
        assert f(data[:0], np.ones(0)).shape == (0,)


def test_a_stack():
    """What a condition says counts in the sum that it selects a term of."""

    def step(x, stack, size):
        pushes, pops = (x > 0) & (size < 16), (x <= 0) & (size > 0)
        at = sj.where(pushes, size, 0)
        stack = stack[at].set(sj.where(pushes, x, stack[at]))
        size = size + sj.where(pushes, 1, sj.where(pops, -1, 0))
        return stack, size, stack[sj.maximum(size - 1, 0)]

    x = sj.vector("x", "float64")
    y = sj.scan(step, x, [sj.zeros(16, "float64"), 0, None])[2]
    f, wanted = (sj.function([x], y, mode=mode) for mode in ("emulate", "reference"))
    assert not checked(f)
    given = np.random.default_rng(0).standard_normal(200) + 0.2
    np.testing.assert_equal(f(given), wanted(given))


INSIDE = {
    "a rest": lambda i, x: i % 5,
    "some bits": lambda i, x: i & 3,
    "the place of the largest": lambda i, x: sj.argmax(x[:5]),
    "between bounds": lambda i, x: sj.clip(i, 0, 4),
    "from the end": lambda i, x: -1 - (i & 3),
    "shifted": lambda i, x: ((i & 15) >> 2) + 1,
    "how many of four": lambda i, x: (x[:4] > i).astype("int64").sum(),
    "the largest of some": lambda i, x: (x.astype("int64") & 3).max() + (x.astype("int64") & 1).min(),
}
OUTSIDE = {
    "anything": lambda i, x: i,
    "a rest of an unknown number": lambda i, x: i % (i & 7),
    "how many of six": lambda i, x: (x > i).astype("int64").sum(),
    "one too many": lambda i, x: i % 6,
    "one too far from the end": lambda i, x: -3 - (i & 3),
    "an int8 that may wrap around": lambda i, x: (
        ((i & 127).astype("int8") + sj.constant(np.int8(1))).astype("int64") % 6
    ),
    "an element of a table": lambda i, x: sj.as_tensor(np.array([7, 7, 7]))[i] - 5,  # 0 if i is outside
}


@pytest.mark.parametrize("case", [*INSIDE, *OUTSIDE])
def test_known_indices(case):
    i, x = sj.scalar("i", "int64"), sj.tensor((6,), "float64", "x")
    table = sj.as_tensor(np.arange(5.0))
    f, wanted = (
        sj.function([i, x], table[(INSIDE | OUTSIDE)[case](i, x)] + x.sum(), mode=mode)
        for mode in ("emulate", "reference")
    )
    assert ("STATUS" in f.source or checked(f)) == (case in OUTSIDE)
    if case in INSIDE:
        for number in (-7, 0, 3, 11):
            np.testing.assert_allclose(f(number, np.arange(6.0)), wanted(number, np.arange(6.0)))


def expressions(rng, x, y, depth):
    """A random integer expression of two numbers."""
    if depth == 0:
        return (x, y, sj.constant(np.int64(rng.integers(-4, 5))))[rng.integers(0, 3)]
    a, b, c = (expressions(rng, x, y, depth - 1) for _ in range(3))
    kind = rng.integers(0, 14)
    compared = (a < b, a <= b, a > b, sj.equal(a, b), sj.not_equal(a, b))[rng.integers(0, 5)]
    other = (b < c, sj.equal(a, c), c >= 2)[rng.integers(0, 3)]
    condition = (compared, compared & other, compared | other, ~compared)[rng.integers(0, 4)]
    return (
        *(a + b, a - b, a * b, -a, sj.maximum(a, b), sj.minimum(a, b), sj.clip(a, -3, 4), a % 5, a // 3, a & 6, a >> 1),
        *(sj.where(condition, a, c), a + sj.where(condition, 1, c), sj.where(condition, sj.where(other, a, 1), b)),
    )[kind]


@pytest.mark.parametrize("seed", range(40))
def test_ranges_hold(seed):
    """Every value that an expression has is in its range."""
    rng = np.random.default_rng(seed)
    i, j = sj.vector("i", "int64"), sj.vector("j", "int64")
    x, y = i % 7, sj.clip(j, -3, 3)
    nodes = [expressions(rng, x, y, 3) + 0 * x for _ in range(6)]
    f = sj.function([i, j], nodes, mode="reference")
    grid = np.array([(a, b) for a in range(7) for b in range(-3, 4)])
    ranges, known = Ranges(), 0
    for node, found in zip(nodes, f(grid[:, 0], grid[:, 1]), strict=True):
        if (between := ranges.of(node)) is not None:
            known += 1
            assert between[0] <= found.min() and found.max() <= between[1]
    assert known or seed


@pytest.mark.parametrize("seed", range(40))
def test_what_is_inside_of_an_axis_of_unknown_size(seed):
    """Every value of an index that is known to be inside is inside, for all sizes but 0."""
    rng = np.random.default_rng(seed)
    i, j, z = sj.vector("i", "int64"), sj.vector("j", "int64"), sj.vector("z", "float64")
    n = z.shape[0]
    x, y = sj.where(j > 2, i % n, n - 1), sj.clip(j, -1, n - 1)
    drawn = [expressions(rng, *((x, y), (y, n - x), (n - x, x))[seed % 3], 2) + 0 * x for _ in range(8)]
    nodes = [sj.minimum(sj.maximum(node, 0), n - 1) if k < 2 else node for k, node in enumerate(drawn)]
    nodes += [sj.where(node < n, sj.where(node >= 0, node, node % n), 0) for node in drawn]
    ranges = Ranges()
    inside = [node for node in nodes if ranges.is_inside(node, z.type.shape[0])]
    assert len(inside) >= 2
    f = sj.function([i, j, z], [*inside, i + j + n], mode="reference")
    grid = np.array([(a, b) for a in range(9) for b in range(-3, 9)])
    for size in range(1, 9):
        for found in f(grid[:, 0], grid[:, 1], np.zeros(size))[:-1]:
            assert found.min() >= 0 and found.max() < size


RESTS = {
    "of a ring": (True, lambda k, n: (k + 1) % 25),
    "of a power of two": (True, lambda k, n: (k - 3) % 8),
    "of a ring of unknown length": (True, lambda k, n: (k + 1) % n),
    "of a number that is less": (True, lambda k, n: (k & 7) % 9 + 1),
    "of more than twice the divisor": (False, lambda k, n: (k + 3) % 7),
    "of a number that may be negative": (False, lambda k, n: (k - 1) % 7),
    "of an unknown number": (False, lambda k, n: (k + 1) % (n - 1)),
}


@pytest.mark.parametrize("case", RESTS)
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_rests_that_take_no_division(case, dtype):
    easy, change = RESTS[case]
    z = sj.vector("z", "float64")

    def step(k):
        return sj.cast(change(sj.cast(k, "int64") if dtype == "uint8" else k, sj.cast(z.shape[0], "int64")), dtype)

    k = sj.scan(step, outputs_info=sj.as_tensor(np.array(0, dtype)), n_steps=40)
    wanted, *others = (sj.function([z], k, mode=mode) for mode in ("reference", "emulate", "numba"))
    for f in others:
        assert ("mod(" not in f.source) == easy or dtype != "int64"
        for n in (0, 1, 2, 7):
            np.testing.assert_array_equal(f(np.zeros(n)), wanted(np.zeros(n)))


def test_choices_by_floats_among_choices_by_integers():
    x, i = sj.tensor((5,), "float64", "x"), sj.scalar("i", "int64")
    y = x[sj.where(i < 3, sj.where(x[0] * 2 > 1, 1, sj.cast(x[1] + x[2], "int64") % 5), 0)]
    for mode in ("reference", "emulate"):
        f = sj.function([x, i], y, mode=mode)
        assert [f(np.arange(5.0) + a, i) for a in (0, 1) for i in (1, 3)] == [3, 0, 2, 1]
        assert mode == "reference" or not checked(f)


AT_OTHER_PLACES = {
    "backwards": lambda k: sj.where(k < 5, k[::-1], 0),
    "gathered": lambda k: sj.where(k < 5, k[9 - sj.arange(10)], 0),
    "along another axis": lambda k: sj.where(k < 5, k[:, None], 0),
    "a selection and itself backwards": lambda k: (lambda found: found - found[::-1])(sj.where(k < 5, 0, 10)),
    "changed": lambda k: sj.where(k < 5, k[:3].set(k[7:]), 0),
    "written": lambda k: sj.where(k < 5, k[9 - sj.arange(10)].set(k), 0),
}


@pytest.mark.parametrize("case", AT_OTHER_PLACES)
def test_a_condition_says_nothing_about_other_places(case):
    """An element at whose place `k < 5` holds may stand where it does not."""
    i, table = sj.tensor((10,), "int64"), sj.as_tensor(np.arange(5.0))
    for mode in ("reference", "emulate", "numba"):
        f = sj.function([i], table[AT_OTHER_PLACES[case](i % 10)], mode=mode)
        with pytest.raises(sj.OutOfBoundsError):
            f(np.arange(10))


def test_truth_values_that_are_carried():
    """What is not known of a truth value is that it is 0 or 1."""

    def step(x, on, k, total):
        on = sj.maximum(on, x > 0)
        at = sj.where(sj.equal(on, x > 1), k, 3)
        return on, sj.where(on, sj.minimum(k + 1, 3), 0), 0.5 * total + sj.as_tensor(np.arange(4.0))[at]

    x = sj.vector("x", "float64")
    y = sj.scan(step, x, [x[0] > 0, 0, 0.0])[2]
    f, wanted = (sj.function([x], y, mode=mode) for mode in ("emulate", "reference"))
    assert not checked(f)
    given = np.random.default_rng(1).standard_normal(9)
    np.testing.assert_allclose(f(given), wanted(given), rtol=1e-12)


BODIES = {
    "after a loop": lambda w, k, g: g[-1] + w[k],
    "in a branch": lambda w, k, g: sj.ifelse(g[-1] > 0, lambda: w[k] * g[-1], lambda: g[-1]),
    "of a value": lambda w, k, g: g[-1] * w[k + sj.cast(0 * g[-1], "int64")],
    "before it": lambda w, k, g: w[k] + g[-1],
}


@pytest.mark.parametrize("case", BODIES)
def test_what_is_known_in_one_body_is_not_known_in_another(case):
    """The states of both loops are one node. That of the inner loop lies inside of `w`, that of the outer may not."""
    w, z, ks = sj.tensor((8,), "float64"), sj.scalar("z", "float64"), sj.tensor(("T",), "int64")

    def step(j, g, s, w):
        return (j + 1) % 8, sj.tanh(g + w[j] + s)

    def outer(x, k, s, w):
        init = [sj.as_tensor(np.int64(0)), s]
        g = sj.scan(step, outputs_info=init, non_sequences=[s, w], n_steps=3)[1]
        return k + x, BODIES[case](w, k, g)

    y = sj.scan(outer, ks, [sj.as_tensor(np.int64(0)), z], non_sequences=[w])[1]
    for mode in ("reference", "emulate", "numba"):
        f = sj.function([w, z, ks], y, mode=mode)
        f(np.arange(8.0), 0.1, np.array([3, 4, 0]))
        for bad in ([1, 9, 0], [1, -30, 0], [1, 10**12, 0]):
            with pytest.raises(sj.OutOfBoundsError, match=rf"index {sum(bad)} is out of bounds"):
                f(np.arange(8.0), 0.1, np.array(bad))


def test_what_is_known_of_a_step_is_not_known_in_its_branch():
    """The first input of the branch and the state of the loop are one node."""
    w, given = sj.tensor((8,), "float64"), sj.tensor(("T",), "int64")

    def step(x, j, w):
        return (j + 1) % 8, w[j] + sj.ifelse(w[j] > 1, lambda: w[x] * 2, lambda: w[0])

    y = sj.scan(step, given, [sj.as_tensor(np.int64(0)), None], non_sequences=[w])[1]
    for mode in ("reference", "emulate", "numba"):
        f = sj.function([w, given], y, mode=mode)
        f(np.arange(8.0), np.arange(8))
        with pytest.raises(sj.OutOfBoundsError, match="index 99 is out of bounds"):
            f(np.arange(8.0), np.array([0, 1, 2, 99]))


def test_an_index_that_is_known_to_be_outside_matters_only_if_there_is_a_step():
    """The range of k says which index it is: the same in all steps, so the check stands in front of the loop."""
    x, w = sj.vector("x", "float64"), sj.tensor((2,), "float64", "w")

    def step(x, k, h):
        k = (k + 1) % 7
        return k, 0.5 * h + x * w[sj.where(k <= 6, 6, k)]

    for mode in ("reference", "emulate", "numba"):
        f = sj.function([x, w], sj.scan(step, x, [0, 0.0])[1], mode=mode)
        assert f(np.zeros(0), np.ones(2)).shape == (0,)
        with pytest.raises(sj.OutOfBoundsError, match="index 6 is out of bounds"):
            f(np.zeros(1), np.ones(2))
