"""Slices that move: read and written as vectors, looked at once, changed where they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.rewrite import run as rewrite
from scanjit.runtime import host
from scanjit.schedule.nests import Apply, Fetch, Nest
from scanjit.schedule.pipeline import schedule
from tests.compare import all_close

WIDTH = 300
T, X, M, V = sj.lscalar("t"), sj.vector("x"), sj.matrix("m"), sj.vector("v")
AT = sj.lvector("at")


def reads(x: Any) -> Any:
    return sj.scan(lambda t, h: sj.tanh(0.5 * h + x[t : t + WIDTH]), sequences=AT, outputs_info=sj.zeros(WIDTH))[-1]


def changed(how: str) -> Any:
    def step(t: Any, h: Any) -> Any:
        return getattr(h[t : t + WIDTH], how)(0.5 * h[t : t + WIDTH] + 1.0)

    return sj.scan(step, sequences=AT, outputs_info=X)[-1]


PROGRAMS: dict[str, Callable[[], tuple[list[Any], Any]]] = {
    "read": lambda: ([X, AT], reads(X)),
    "gradient": lambda: ([X, AT], sj.grad((reads(X) ** 2).sum(), X)),
    "forward mode": lambda: ([X, AT], sj.jvp(reads(X), X, sj.ones(X.shape[0]))),
    "set": lambda: ([X, AT], changed("set")),
    "inc": lambda: ([X, AT], changed("inc")),
    "sums": lambda: ([X, AT], sj.scan(lambda t: x_sum(t), sequences=AT)),
    "block": lambda: ([M, T], sj.dynamic_slice(M, (T, 2), (5, WIDTH)) * 2),
    "block set": lambda: ([M, T], sj.dynamic_slice(M, (3, T), (5, WIDTH)).set(1.0)),
    "length": lambda: ([X, T, V], sj.dynamic_slice(X, (T,), (V.shape[0],)).inc(V)),
    "roll": lambda: ([X, T], sj.roll(X, T) * 2),
    "roll rows": lambda: ([M, T], sj.roll(M, T, axis=0)),
    "gradient of roll": lambda: ([X, T], sj.grad((sj.roll(X, T) ** 3).sum(), X)),
    "roll in steps": lambda: ([X, AT], sj.scan(lambda t, h: sj.roll(h, t) * 0.5 + X, AT, X)[-1]),
    "ring": lambda: ([X, T], X[(T + sj.arange(X.shape[0])) % X.shape[0]]),
    "known ring": lambda: ([V, T], sj.specify_shape(V, (400,))[(T + sj.arange(300)) % 400].inc(2.0)),
    "rows": lambda: ([M, AT], sj.vmap(lambda row, t: row[t : t + WIDTH].inc(1.0))(M, AT)),
}


def x_sum(t: Any) -> Any:
    return X[t : t + WIDTH].sum()


ARRAYS = {
    X: np.random.default_rng(0).normal(size=1000),
    M: np.random.default_rng(1).normal(size=(9, 700)),
    V: np.arange(400.0),
    AT: np.array([3, 0, 7, 7, -500, 300, 399, 1, 2]),
    T: np.int64(4),
}


def nests(inputs: list[Any], output: Any) -> list[Nest]:
    program = schedule(inputs, rewrite([output]).outputs, host.target())
    return [job for statement in program.suite for job in statement.every() if isinstance(job, Nest)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_windows_are_vectors(name: str) -> None:
    """No lane has an index of its own, and no loop over elements runs one at a time."""
    inputs, output = PROGRAMS[name]()
    f = sj.function(inputs, output, mode="emulate")
    assert "gather_f64x" not in f.source
    found = nests(inputs, output)
    moving = [n for n in found if any(isinstance(v, Fetch) for v in n.values) or any(s.indices for s in n.stores)]
    assert moving and not any(nest.sequential for nest in moving)
    assert all(nest.tile is not None and nest.tile.lanes > 1 for nest in moving)


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str) -> None:
    inputs, output = PROGRAMS[name]()
    arrays = [ARRAYS[x] for x in inputs]
    expected = sj.function(inputs, output, mode="reference")(*arrays)
    np.testing.assert_allclose(sj.function(inputs, output)(*arrays), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mode", ["numba", "emulate"])
def test_narrow_values(mode: str) -> None:
    """float32 has more lanes than the int64 of the places."""
    x = sj.fvector("x")
    step = sj.scan(lambda t, h: sj.roll(h[t : t + 37].inc(h[t + 1 : t + 38]), t), sequences=AT, outputs_info=x)[-1]
    outputs = [step, sj.grad((step**2).sum(), x)]
    given = np.random.default_rng(5).normal(size=70).astype("float32"), np.array([0, 31, -50, 7])
    got, expected = (sj.function([x, AT], outputs, mode=how)(*given) for how in (mode, "reference"))
    all_close(got, expected, rtol=1e-5)


def test_a_gradient_adds_where_the_slice_was() -> None:
    """Not: a vector of zeros as long as `x` for every step, with the slice in it, added to all of the gradient."""
    for read in (reads, lambda x: sj.scan(lambda t, h: h * 0.5 + x[t], AT, 0.0)[-1] ** 2):
        found = nests([X, AT], sj.grad(read(X).sum(), X))
        wide = [nest for nest in found if any(loop.size == X.type.shape[0] for loop in nest.space)]
        program = schedule([X, AT], rewrite([sj.grad(read(X).sum(), X)]).outputs, host.target())
        inside = [job for statement in program.suite if statement.repeats for job in statement.every()]
        assert wide and not set(wide) & set(inside)


@pytest.mark.quick(1)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
def test_rolls_of_all_lengths(dtype: str) -> None:
    """An axis begins again in any lane of a vector, or in each turn of a loop; strides go either way."""
    x, m, t = sj.tensor(("n",), dtype, "x"), sj.tensor(("n", 5), dtype, "m"), sj.lscalar("t")
    parts = [sj.roll(x, t), sj.roll(x[::-1], t)[::-1], sj.roll(m, t, axis=0), sj.roll(m.T, t, axis=1)]
    f = sj.function([x, m, t], parts)
    for n in (1, 2, 3, 7, 8, 9, 16, 17, 300):
        rng = np.random.default_rng(n)
        given, block = (rng.integers(0, 2, s) if dtype == "bool" else rng.integers(-9, 9, s) for s in ((n,), (n, 5)))
        given, block = given.astype(dtype), block.astype(dtype)
        for shift in (0, 1, n - 1, n, -1, -3, 5 * n + 2):
            rolled = np.roll(given, shift), np.roll(given[::-1], shift)[::-1], np.roll(block, shift, 0)
            np.testing.assert_equal(f(given, block, shift), (*rolled, rolled[2].T))


def test_windows_around_a_ring() -> None:
    """An index that a user counts around: read, set and added to, where each entry is met once; and one that meets
    entries twice."""
    ring, t = sj.tensor((12,), name="ring"), sj.lscalar("t")
    at, twice = (t + sj.arange(12)) % 12, (t + sj.arange(20)) % 12
    outputs = [
        ring[at],
        ring[at].set(sj.arange(12.0)),
        ring[at[:5]].inc(1.0),
        ring[twice].inc(1.0),
        ring[(t - at) % 12],
    ]
    f, g = (sj.function([ring, t], outputs, mode=mode) for mode in ("numba", "reference"))
    for place in (0, 5, 11, -4, 100):
        np.testing.assert_equal(f(np.arange(12.0), place), g(np.arange(12.0), place))


@pytest.mark.parametrize("mode", ["reference", "numba", "emulate"])
def test_out_of_bounds(mode: str) -> None:
    """Both ends of a window are looked at, along each axis; an empty one may begin anywhere."""
    m, i, j, v = sj.matrix("m"), sj.lscalar("i"), sj.lscalar("j"), sj.matrix("v")
    block = sj.dynamic_slice(m, (i, j), v.shape)
    f = sj.function([m, i, j, v], [block, block.set(v)], mode=mode)
    given = np.arange(42.0).reshape(6, 7)
    np.testing.assert_array_equal(f(given, 2, 3, np.zeros((4, 4)))[0], given[2:6, 3:7])
    for i_at, j_at, shape in ((3, 0, (4, 4)), (0, 4, (4, 4)), (-7, 0, (1, 1)), (0, 7, (1, 1)), (5, 6, (2, 1))):
        with pytest.raises(sj.OutOfBoundsError, match="is out of bounds for axis"):
            f(given, i_at, j_at, np.zeros(shape))
    assert f(given, 100, -100, np.zeros((0, 0)))[0].shape == (0, 0)


def test_an_element_of_each_row() -> None:
    """The rows tell the places apart, but lanes along rows have places of their own."""
    m, at = sj.matrix("m"), sj.lvector("at")
    rows = sj.arange(m.shape[0])
    outputs = [sj.vmap(lambda row, t: row[t].inc(1.0))(m, at), m[rows, at].set(5.0), m[rows, at[::-1]].inc(m[rows, at])]
    given = np.arange(63.0).reshape(21, 3), np.arange(21) % 3
    got, expected = (sj.function([m, at], outputs, mode=mode)(*given) for mode in ("numba", "reference"))
    np.testing.assert_equal(got, expected)


def test_a_ring_in_steps() -> None:
    """The rows of a ring are written where they lie, and read, at places that a carry counts."""

    def step(row: Any, ring: Any, t: Any) -> Any:
        new = row + 0.5 * ring[(t + 3) % 5]
        return ring[t % 5].set(new), t + 1, new

    xs, ring = sj.matrix("xs"), sj.tensor((5, "n"), name="ring")
    found = sj.scan(step, xs, [ring, 0, None])[2]
    outputs = [found, *sj.grad((found**2).sum(), [xs, ring])]
    values = np.random.default_rng(3).normal(size=(11, 270)), np.random.default_rng(4).normal(size=(5, 270))
    got, expected = (sj.function([xs, ring], outputs, mode=mode)(*values) for mode in ("numba", "reference"))
    all_close(got, expected, rtol=1e-12, atol=1e-13)
    program = schedule([xs, ring], rewrite([found]).outputs, host.target())
    jobs = [job for statement in program.suite for job in statement.every() if isinstance(job, Nest)]
    assert not any(isinstance(value, Apply) and value.op.name == "less" for job in jobs for value in job.values)


def test_threads_share_a_window() -> None:
    x, v = np.arange(400_000.0), np.ones(300_000)
    for sj.config.threads in (1, 2):
        f = sj.function([X, T, V], [sj.dynamic_slice(X, (T,), (V.shape[0],)).inc(V), sj.roll(X, T)])
        block, rolled = f(x, 50_001, v)
        assert block.sum() == x.sum() + 300_000 and block[50_000] == 50_000 and block[50_001] == 50_002
        np.testing.assert_array_equal(rolled, np.roll(x, 50_001))
