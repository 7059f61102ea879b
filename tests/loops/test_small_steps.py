"""Loops whose steps are a few short nests: with the functions of these in one function, and small values on the stack.

Each model has vectors or small matrices as states, with sizes that fill no vector, one, or several.
"""

import re

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import host
from scanjit.schedule.cost import rates
from scanjit.target import target_for
from tests.compare import all_close
from tests.pairs import pairwise

STEPS = 7
AVX2 = target_for("x86_64-linux-gnu", features="+avx2,+fma")


def hmm(x, A, start):
    def step(row, a):
        a = (a @ A) * row
        total = a.sum()
        return a / total, sj.log(total)

    a, logs = sj.scan(step, x, [start, None])
    return a[-1], logs.sum()


def viterbi(x, A, start):
    def step(row, d):
        scores = d[:, None] + A
        return scores.max(0) + row, sj.argmax(scores, 0)

    d, back = sj.scan(step, x, [start, None])
    return d[-1], back


def covariance(x, A, start):
    def step(row, P, m):
        P = A @ P @ A.T * 0.1 + row[:, None] * row
        m = 0.5 * (P @ m) / (1.0 + P.sum()) + row
        return P, m

    return sj.scan(step, x, [sj.as_tensor(A) * 0.5, start])


def cumulative(x, A, start):
    def step(row, top, low, total):
        total = total + row
        top = sj.maximum(total, sj.maximum(top, row))
        return top, sj.minimum(sj.minimum(low, total), top - 1.0), total

    return sj.scan(step, x, [start, start, start])


def gradient(x, A, start):
    value = hmm(x, A, start)[1]
    return value, *sj.grad(value, [A, start])


MODELS = [hmm, viterbi, covariance, cumulative, gradient]


def arrays(size, dtype, steps=STEPS):
    rng = np.random.default_rng(size)
    x, A = rng.uniform(0.1, 1.0, (steps, size)), rng.uniform(0.1, 1.0, (size, size))
    return [array.astype(dtype) for array in (x, A, rng.uniform(0.1, 1.0, size))]


def function(model, size, dtype, mode):
    x, A, start = (
        sj.tensor(shape, dtype, name) for shape, name in ((("T", size), "x"), ((size, size), "A"), ((size,), "start"))
    )
    return sj.function([x, A, start], list(model(x, A, start)), mode=mode)


def check(f, reference, given):
    for got, want in zip(f(*given), reference(*given), strict=True):
        tolerance = 2e-4 if given[0].dtype == np.float32 else 1e-10
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_vectors_of_no_elements():
    x = sj.tensor(("T", 0), name="x")
    h, total = sj.scan(lambda row, h: (sj.tanh((row[:, None] * h).sum(0)), (h + row).sum()), x, [sj.zeros(0), None])
    rows, sums = sj.function([x], [h, total], mode="emulate")(np.zeros((3, 0)))
    assert rows.shape == (3, 0) and sums.tolist() == [0.0] * 3


@pytest.mark.quick(4)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_any_size(model, dtype):
    f, reference = (function(model, "N", dtype, mode) for mode in ("numba", "reference"))
    for size in (1, 3, 4, 5, 7, 8, 9, 16, 17, 31, 257):
        check(f, reference, arrays(size, dtype))
    check(f, reference, arrays(5, dtype, steps=1))


@pytest.mark.quick(17)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17])
def test_known_sizes_emulated(model, size):
    f, reference = (function(model, size, "float64", mode) for mode in ("emulate", "reference"))
    check(f, reference, arrays(size, "float64"))


@pytest.mark.quick(5)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("size", [3, 5, 8])
def test_known_sizes(model, size):
    f, reference = (function(model, size, "float64", mode) for mode in ("numba", "reference"))
    for steps in (1, 2, 7, 300):
        check(f, reference, arrays(size, "float64", steps))


def test_a_loop_alone_has_no_barriers_and_keeps_its_state_on_the_stack():
    source = function(hmm, 16, "float64", "emulate").source
    loop = source[source.index("def loop_") :]
    loop = loop[: loop.index("\n\n\n")]
    assert "stack(" in loop
    assert "barrier" not in loop


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_truths_pass_from_nest_to_nest_in_registers(dtype):
    """Each parcel goes into the first bin with room for it; if there is none, all bins are new."""

    def step(x, free):
        free = sj.where(sj.any(free >= x), free, sj.ones(9, dtype))
        k = sj.argmax(free >= x)
        return free[k].inc(-x), k

    x = sj.vector("x", dtype)
    places = sj.scan(step, x, [sj.ones(9, dtype), None])[1]
    f, reference = (sj.function([x], places, mode=mode) for mode in ("numba", "reference"))
    given = np.random.default_rng(0).uniform(0.1, 0.6, 500).astype(dtype)
    np.testing.assert_array_equal(f(given), reference(given))
    assert re.search(r" any_argmax\w+\(kept\d+, p\d+ \+ row\d+\*\d, kept\d+, ", f.source)


def test_one_thread_shares_nothing_of_a_short_step():
    """Where threads may share the nests of a step, one thread has a function of its own for the loop; so have rows of
    one vector, and rows of two where the code is short."""
    source = function(viterbi, "N", "float64", "emulate").source
    loops = [part.split("\n\n\n")[0] for part in source.split("def loop_")[1:]]
    assert sum("first_piece" in loop for loop in loops) == 1
    assert len(loops) in (3, 4)
    assert "if threads == 1:" in source


def test_blocks_of_time_hand_the_state_on():
    """The loop is cut into blocks, each a call of its function: the state goes through memory between them."""
    dtype, size, steps = "float64", 3, 30_000

    def model(x, A, start):
        def step(row, a):
            a = (a @ A) * sj.exp(-row * row)
            return a / a.sum()

        return [sj.scan(step, x, start)[-1]]

    given = arrays(size, dtype, steps)
    check(function(model, size, dtype, "numba"), function(model, size, dtype, "reference"), given)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_same_bits_for_any_number_of_threads(threads):
    given = arrays(40, "float64", 50)
    one = function(hmm, "N", "float64", "numba")(*given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sj.config, "threads", threads)
        for name in ("WAKING", "LEAST_GAIN"):
            patch.setattr(rates, name, 0.0)
        several = function(hmm, "N", "float64", "numba")(*given)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one, several, strict=True))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_vector_with_one_lane_has_the_same_bits_for_any_number_of_threads(dtype, monkeypatch, rng):
    size = 17
    x, A, start = (sj.tensor(shape, dtype) for shape in (("T", size), ("N", size), ("N",)))
    step = lambda row, u, h: (sj.tanh(u + h[0]), 0.3 * ((u @ A) * row + h * row))
    outputs, results = sj.scan(step, x, [start, x[0]]), []
    given = [rng.standard_normal(shape).astype(dtype) for shape in ((50, size), (7, size), (7,))]
    for name in ("WAKING", "LEAST_GAIN"):
        monkeypatch.setattr(rates, name, 0.0)
    for threads in (1, 2, 3):
        monkeypatch.setattr(sj.config, "threads", threads)
        f = sj.function([x, A, start], outputs)
        assert "if threads == 1:" in f.source
        results.append([part.tobytes() for part in f(*given)])
    assert results[1:] == results[:1] * 2


def test_what_a_step_hands_on_comes_last_in_extrema(rng):
    """Two orders of the same operands are one, NaN included; hundreds of operands need no recursion."""
    x, y = sj.tensor(("T",), "float64", "x"), sj.tensor(("T",), "float64", "y")

    def step(x, y, top, low):
        many = sj.maximum(sj.maximum(top, x), y)
        for k in range(300):
            many = sj.maximum(many, x - k)
        return many, sj.minimum(sj.minimum(y, low), sj.minimum(top, x))

    outputs = sj.scan(step, [x, y], [sj.constant(-1.0), sj.constant(1.0)])
    given = list(rng.standard_normal((2, 50)))
    given[1][40] = np.nan
    f, reference = (sj.function([x, y], outputs, mode=mode) for mode in ("numba", "reference"))
    check(f, reference, given)
    short = sj.scan(lambda x, y, low: sj.minimum(sj.minimum(low * low, x), y), [x, y], sj.constant(1.0))
    assert re.search(r"minimum\(minimum_(\d+), m\d+\)", sj.function([x, y], short, mode="emulate").source)


def test_an_extremum_that_is_used_elsewhere_is_computed_once():
    x = sj.tensor(("T",), "float64", "x")

    def step(x, here, best):
        here = sj.maximum(x, here + x)
        return here, sj.maximum(best, here)

    outputs = sj.scan(step, x, [0.0, -np.inf])
    reference = sj.function([x], outputs, mode="reference")
    with host.using(AVX2):  # wider vectors hold several steps
        f = sj.function([x], outputs, mode="emulate")
    assert len(re.findall(r"maximum_\d+ = ", f.source)) == 2 * 5, "two in each copy of the step"
    for steps in range(11):
        check(f, reference, [np.random.default_rng(steps).standard_normal(steps)])


def test_short_steps_are_written_several_times():
    """A length that no number of copies divides has single steps at the end; long steps are written once. On x86, short
    ones have two forms, of which one has branches: that of the single steps at the end. Of many choices, LLVM may make
    branches."""
    x, limit = sj.tensor(("T",), "float64", "x"), 1.0
    few = ("select", 4, 5) if host.target().is_x86 else ("select", 5, 0)
    for calls, (function, chosen, branches) in ((1, few), (20, ("select_freely", 20, 0))):

        def step(x, h, calls=calls):
            for _ in range(calls):
                h = sj.where(h + x > limit, h * x, h - x)
            return h

        f, reference = (sj.function([x], sj.scan(step, x, 0.5), mode=mode) for mode in ("emulate", "reference"))
        assert (f.source.count(f"= {function}("), f.source.count("if any_of(")) == (chosen, branches)
        for steps in range(10):
            check(f, reference, [np.random.default_rng(steps).standard_normal(steps)])


# ---- loops that steps end --------------------------------------------------------------------------------------------


def collatz(x, start):
    """How long the sequence that begins with a number is, and its largest number."""

    def step(n, top, k):
        n = sj.where(sj.equal(n % 2, 0), n // 2, 3 * n + 1)
        return (n, sj.maximum(top, n), k + 1), sj.until(n <= 1)

    n, top, k = sj.scan(step, outputs_info=[start, start, 0], n_steps=1000)
    return n[-1], top[-1], k[-1]


def decay(x, start):
    """A vector and rows, until the vector is small; with the carry before the last."""

    def step(row, h, before):
        new = 0.5 * h + 0.1 * row
        return (new, h, new.sum()), sj.until(abs(new).max() < 0.3)

    h, before, sums = sj.scan(step, x, [start, start, None])
    return h[-1], before[-1], sums, sums.shape[0]


def inner(x, start):
    """In each step, an inner loop of as many steps as it needs; then something reads how many these were."""

    def step(row, h):
        halves = sj.scan(lambda s: (0.5 * s, sj.until(abs(s).max() < 0.2)), outputs_info=h + row, n_steps=20)
        return halves[-1] + 0.1 * row, halves.shape[0] + halves.sum()

    return sj.scan(step, x, [start, None])


UNTIL = [decay, inner]


def ending(model, size, dtype, mode):
    x, start = sj.tensor(("T", size), dtype, "x"), sj.tensor((size,), dtype, "start")
    return sj.function([x, start], list(model(x, start)), mode=mode)


def rows_that_shrink(size, steps, dtype):
    rng = np.random.default_rng(size + steps)
    x = rng.uniform(0.0, 1.0, (steps, size)) * np.linspace(3.0, 0.1, steps)[:, None]
    return [array.astype(dtype) for array in (x, rng.uniform(1.0, 2.0, size))]


@pytest.mark.parametrize("model", UNTIL)
@pytest.mark.parametrize(("size", "dtype"), [(1, "float64"), (3, "float64"), (8, "float32"), (70, "float64")])
def test_loops_that_steps_end(model, size, dtype):
    f, reference = (ending(model, size, dtype, mode) for mode in ("numba", "reference"))
    for steps in (1, 2, 3, 12, 300):
        check(f, reference, rows_that_shrink(size, steps, dtype))


@pytest.mark.parametrize("model", UNTIL)
def test_loops_that_steps_end_of_any_size(model):
    f, reference = (ending(model, "N", "float64", mode) for mode in ("numba", "reference"))
    for size in (1, 5, 300):
        check(f, reference, rows_that_shrink(size, 9, "float64"))


@pytest.mark.parametrize("model", UNTIL)
def test_loops_that_steps_end_emulated(model):
    f, reference = (ending(model, 3, "float64", mode) for mode in ("emulate", "reference"))
    for steps in (1, 2, 7):
        check(f, reference, rows_that_shrink(3, steps, "float64"))


@pytest.mark.parametrize("mode", ["numba", "emulate"])
def test_a_loop_that_a_step_ends_keeps_its_state_on_the_stack(mode):
    start = sj.tensor((), "int64", "start")
    f = sj.function([start], list(collatz(None, start)), mode=mode)
    for number, length in {2: 1, 3: 7, 4: 2, 27: 111, 97: 118}.items():
        assert [int(value) for value in f(np.int64(number))][::2] == [1, length]
    loop = f.source[f.source.index("def loop_") :]
    loop = loop[: loop.index("\n\n\n")]
    assert "stack(" in loop and "break" in loop and "barrier" not in loop


def test_all_threads_know_how_many_steps_ran():
    """What follows the loop is large: threads share it."""
    x, start = sj.tensor(("T", 3), "float64", "x"), sj.tensor((3,), "float64", "start")
    h = sj.scan(lambda row, h: (0.5 * h + 0.1 * row, sj.until(h.sum() < 0.4)), x, start)
    given = rows_that_shrink(3, 100_000, "float64")
    given[0][:70_000] += 3.0
    want = sj.function([x, start], sj.tanh(h), mode="reference")(*given)
    assert 70_000 < len(want) < 100_000
    f = sj.function([x, start], sj.tanh(h))
    for sj.config.threads in (1, 2, 3):
        np.testing.assert_allclose(f(*given), want, rtol=1e-12, atol=1e-13)


# ---- what all lanes share --------------------------------------------------------------------------------------------


def ratings(i, j, won, r):
    """Ratings of players after games of two; written with masks."""
    players = sj.arange(r.shape[0])

    def step(i, j, won, r):
        change = 0.3 * (won - 1.0 / (1.0 + 10.0 ** (r[j] - r[i])))
        return sj.where(sj.equal(players, i), r + change, sj.where(sj.equal(players, j), r - change, r))

    return sj.scan(step, [i, j, won], r)


def rating(size, dtype, mode):
    i, j = (sj.tensor(("T",), "int64", name) for name in "ij")
    won, r = sj.tensor(("T",), dtype, "won"), sj.tensor((size,), dtype, "r")
    return sj.function([won, i, j, r], [ratings(i, j, won, r)], mode=mode)


def games(size, dtype):
    rng = np.random.default_rng(size)
    i, j = rng.integers(0, size, (2, 40))
    return [rng.integers(0, 2, 40).astype(dtype), i, j, rng.uniform(-1.0, 1.0, size).astype(dtype)]


@pytest.mark.parametrize(("size", "dtype"), [(3, "float64"), (8, "float32"), (50, "float64"), (300, "float32")])
def test_an_expensive_op_is_computed_in_one_lane_for_all(size, dtype):
    reference = rating(size, dtype, "reference")
    for known in (size, "N"):
        check(rating(known, dtype, "numba"), reference, games(size, dtype))
    emulated = rating(size, dtype, "emulate")
    check(emulated, reference, games(size, dtype))
    name = {"float64": "f64", "float32": "f32"}[dtype]
    lines = emulated.source.splitlines()
    powers = [line for line in lines if " = pow_of_known(" in line]
    assert powers and all(f", splat_{name}x1(" in line for line in powers)
    assert any(" = spread_x" in line for line in lines)
    won, i, _, r = games(size, dtype)
    with pytest.raises(sj.OutOfBoundsError):
        emulated(won, i, np.full_like(i, size), r)


# ---- rows that are parts of something larger -------------------------------------------------------------------------


def path(x, p):
    """Both coordinates of a point that turns, as rows of one array; by entries."""

    def step(row, a, b):
        return p[0] * a - p[1] * b + row, p[1] * a + p[0] * b - row

    a, b = sj.scan(step, x, [sj.zeros(x.shape[1:], x.dtype)] * 2)
    return sj.stack([a, b], axis=1)


def backwards(x, p):
    a, b = sj.scan(
        lambda row, a, b: (p[0] * a + row, p[1] * b - a), x, [sj.ones(x.shape[1:], x.dtype)] * 2, go_backwards=True
    )
    return sj.concatenate([b, a, sj.tanh(a), b], axis=-1)


def before_and_after(x, p):
    """What a step begins with, what it ends with, and something else; one of them is read twice."""

    def step(row, a, b):
        new = p[0] * a + row
        return new, p[1] * b + new, a, new * row

    a, b, before, product = sj.scan(step, x, [sj.ones(x.shape[1:], x.dtype)] * 2 + [None, None])
    return sj.stack([before, a, b, product], axis=0) + 0.0 * b[-1]


def in_an_outer_scan(x, p):
    def step(row, total):
        a, b = sj.scan(lambda r, a, b: (p[0] * a + r, b + a * r), x, [row, total])
        return (a * b).mean(0), sj.stack([b, a], axis=-1)

    return sj.scan(step, x[:3], [sj.zeros(x.shape[1:], x.dtype), None])[1]


def read_at_other_points(x, p):
    """The states are read at other points than those of the results, so the loop is not one nest."""

    def step(row, a, b):
        return p[0] * a[sj.arange(a.shape[0]) - 1] + row, p[1] * b[sj.argmax(row)] - row

    a, b = sj.scan(step, x, [sj.ones(x.shape[1:], x.dtype)] * 2)
    return sj.stack([a, b], axis=-1)


PARTS = [path, backwards, before_and_after, in_an_outer_scan, read_at_other_points]


def parted(model, shape, dtype, mode, gradient=False):
    x, p = sj.tensor(("T", *shape), dtype, "x"), sj.tensor((2,), dtype, "p")
    y = model(x, p)
    outputs = [y, y[-1]]
    if gradient:
        outputs += sj.grad((y * y).sum(), [x, p])
    return sj.function([p, x], outputs, mode=mode)


def turns(shape, steps, dtype):
    rng = np.random.default_rng(steps)
    return [np.array([0.8, 0.3], dtype), (0.3 * rng.standard_normal((steps, *shape))).astype(dtype)]


@pytest.mark.quick(8)
@pairwise(model=PARTS, of=[((1,), "float64"), ((3,), "float32"), ((300,), "float64")], known=[True, False])
def test_rows_are_stored_where_they_are_parts(model, of, known):
    shape, dtype = of
    made = shape if known else tuple("NM"[: len(shape)])
    f, reference = (parted(model, made, dtype, mode) for mode in ("numba", "reference"))
    for steps in (1, 2, 3, 40, 700 if shape != (300,) else 70):
        check(f, reference, turns(shape, steps, dtype))


@pytest.mark.parametrize("model", PARTS)
@pytest.mark.parametrize("gradient", [False, True])
def test_rows_that_are_parts_emulated(model, gradient):
    f, reference = (parted(model, (5,), "float64", mode, gradient) for mode in ("emulate", "reference"))
    for steps in (1, 2, 9):
        check(f, reference, turns((5,), steps, "float64"))


@pytest.mark.parametrize("mode", ["numba", "emulate"])
@pytest.mark.parametrize("sizes", [(5, 3), (7, 3), (9, 5), (15, 7), (16, 2)], ids=str)
def test_short_rows_beside_longer_ones_have_no_second_vector(sizes, mode):
    """Their nest has one, for the part of the longer row. Nothing behind the short row is loaded or stored."""
    n, m = sizes

    def step(v, long, short):
        long = sj.concatenate([v[2:], long[:2]])
        return long, (sj.roll(short, 1) * 3 % 7 + long[n - m :]) % 9

    inputs = sj.tensor((None, n), "int64"), sj.tensor((n,), "int64"), sj.tensor((m,), "int64")
    last = [states[-1] for states in sj.scan(step, inputs[0], [*inputs[1:]])]
    given = np.arange(4 * n).reshape(4, n) % 7, np.arange(n), np.arange(m)
    f, g = (sj.function(inputs, last, mode=each) for each in (mode, "reference"))
    np.testing.assert_equal(f(*given), g(*given))


@pytest.mark.parametrize("model", PARTS)
def test_gradients_of_rows_that_are_parts(model):
    f, reference = (parted(model, (2,), "float64", mode, gradient=True) for mode in ("numba", "reference"))
    for steps in (1, 33, 500):
        check(f, reference, turns((2,), steps, "float64"))


@pytest.mark.parametrize("steps", [0, 1, 300])
def test_one_nest_writes_the_path_of_a_point(steps):
    """Nothing is copied: the nest of the scan has both coordinates in registers, and stores them side by side."""
    x, p = sj.tensor(("T",), name="x"), sj.tensor((2,), name="p")
    f, reference = (sj.function([p, x], path(x, p), mode=mode) for mode in ("numba", "reference"))
    blocks = sj.dprint(f, "str", stage="blocks")
    assert sum("concatenate[" in line for line in blocks.splitlines()) == 2
    assert "T" not in "".join(line for line in blocks.splitlines() if line.startswith("temporary"))
    given = turns((), steps, "float64")
    np.testing.assert_allclose(f(*given), reference(*given), rtol=1e-10)


def test_looks_are_seldom_after_steps_of_a_few_operations():
    """A look in every step would take as long as the step. The steps of a stretch are those of the loop."""
    x, start = sj.vector("x"), sj.tensor((3,), name="start")

    def step(x, line, k):
        y = x + 0.5 * line[k]
        return line[k].set(y), sj.where(sj.equal(k, 2), 0, k + 1), y

    outputs = sj.scan(step, x, [start, 0, None])
    f, wanted = (sj.function([x, start], [outputs[0][-1], outputs[2]], mode=mode) for mode in ("emulate", "reference"))
    (loop,) = (text for text in f.source.split("def ") if text.startswith("loop_"))
    head, body = loop.split("for step", 1)
    assert "interrupted(line)" not in head and "for stretch" in head
    assert loop.count("interrupted(line)") == 1  # steps trust what the one before wrote: none of them ends early
    assert "\n        if interrupted(line):" in body  # once a stretch
    length = int(re.search(r"min\(stretch0 \+ (\d+)", loop)[1])
    assert length >= 256
    for steps in (1, length, length + 1):
        given = np.random.default_rng(steps).normal(size=steps), np.arange(3.0)
        all_close(f(*given), wanted(*given), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_nests_that_a_step_repeats_know_what_lies_on_the_stack(mode):
    """Both parts of the step are calls of the same functions, with other values on the stack."""
    x, w = sj.tensor(("T", 2), "float64"), sj.tensor((2, 2), "float64")
    carries, matrices = (
        [sj.tensor(shape, "float64") for shape in shapes] for shapes in (((3,), (2,)), ((3, 3), (2, 2)))
    )

    def part(values, p):
        values = [sj.tanh(v + p[0]) @ m for v, m in zip(values, matrices, strict=True)]
        return values, sj.scan(lambda p: sj.tanh(p @ w + values[0][:2] + values[1]), outputs_info=p, n_steps=2)[-1]

    def step(row, *values):
        values, p = part(values, row)
        values, p = part(values, p)
        return [sj.tanh(v) + p[0] for v in values]

    inputs = [x, *carries, *matrices, w]
    given = [
        np.random.default_rng(0).normal(size=[n if isinstance(n, int) else 6 for n in v.type.shape]) for v in inputs
    ]
    found, wanted = (
        sj.function(inputs, [c[-1] for c in sj.scan(step, x, carries)], mode=m)(*given) for m in (mode, "reference")
    )
    all_close(found, wanted, rtol=1e-12)


def delayed(x, backwards):
    """A number and an integer, of both of which every step is stored, and a ring of earlier values."""

    def step(row, value, count, ring):
        late = ring[count % 5]
        value = value + 0.1 * (late / (1 + late**4) - value) + row
        return value, count + 1, ring[count % 5].set(value)

    start = [sj.constant(np.array(1.5, x.dtype)), sj.constant(2), sj.ones(5, x.dtype) * 0.5]
    value, count, _ = sj.scan(step, x, start, go_backwards=backwards)
    return value, count


@pairwise(backwards=[False, True], dtype=["float32", "float64"], mode=["numba", "emulate"])
def test_numbers_of_which_every_step_is_stored_pass_in_registers(mode, dtype, backwards):
    x = sj.tensor((None,), dtype, "x")
    outputs = list(delayed(x, backwards))
    outputs.append(sj.grad(outputs[0].sum(), x))
    f, reference = (sj.function([x], outputs, mode=each) for each in (mode, "reference"))
    for steps in (0, 1, 2, 23):
        given = np.random.default_rng(steps).normal(size=steps).astype(dtype)
        all_close(f(given), reference(given), rtol=2e-4 if dtype == "float32" else 1e-10, atol=1e-6)
    forward = sj.function([x], outputs[:2], mode=mode)
    (loop,) = re.findall(r"\ndef loop_.*?\n\n", forward.source, re.S)
    assert loop.count("= stack(") == 3
