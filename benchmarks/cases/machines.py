"""More small recurrences beside a loop that one writes for Numba: queues, walks, windows, stacks, a turning point; and
batches of loops that end by themselves.

The reference is that loop (`machines_numba`), run by Python itself.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.case import Arrays, Sizes
from benchmarks.cases.byhand import FREE, LONG, MANY, case, series
from benchmarks.cases.common import Draw


def customers(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """When customers arrive, and how long each is served."""
    T = sizes["T"]
    arrives, lasts = np.cumsum(rng.exponential(1.0, T)), rng.exponential(0.9, T)
    return {"arrives": arrives.astype(dtype), "lasts": lasts.astype(dtype)}


def directions(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Steps in four directions, and the counts of a grid."""
    return {"way": rng.integers(0, 4, sizes["T"]), "grid": np.zeros((32, 32), dtype)}


def shares(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Numbers from 0 to 1."""
    return {"x": rng.uniform(0.0, 1.0, sizes["T"]).astype(dtype)}


def coins(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Zeros and ones."""
    return {"way": rng.integers(0, 2, sizes["T"])}


def prices(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """A price that walks."""
    return {"x": np.cumsum(rng.standard_normal(sizes["T"])).astype(dtype)}


def text(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Digits and commas."""
    return {"way": rng.integers(0, 11, sizes["T"])}


def program(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """What a stack machine runs: it pushes numbers (0), adds (1), multiplies (2) and subtracts (3). A processor learns
    the branches of 10,000 instructions that are run again and again, so there should be more."""
    T = sizes["T"]
    op = np.where(rng.random(T) < 0.5, 0, rng.integers(1, 4, T))
    return {"op": op, "x": (0.5 * rng.standard_normal(T)).astype(dtype)}


def two_columns(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Points, and an angle."""
    return {"x": Draw(rng, dtype).normal(sizes["T"], 2), "p": np.array([0.9, 0.3], dtype)}


def units(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """A series of two numbers, and the weights of three units."""
    draw = Draw(rng, dtype)
    return {"x": draw.normal(sizes["T"], 2), "W": draw.normal(2, 9), "U": draw.normal(3, 9)}


def pairs(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Pairs of whole numbers."""
    return {name: rng.integers(1, 1_000_000, sizes["T"]) for name in "xy"}


def points(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Points of a plane."""
    x, y = rng.uniform([-2.0, -1.2], [1.0, 1.2], (sizes["T"], 2)).T.astype(dtype)
    return {"x": x, "y": y}


def waiting(arrives: Any, lasts: Any) -> Any:
    """How long each customer of one server waits."""
    import scanjit as sj

    def step(arrives: Any, lasts: Any, free: Any) -> Any:
        begins = sj.maximum(arrives, free)
        return begins + lasts, begins - arrives

    return sj.scan(step, [arrives, lasts], [0.0, None])[1]


def covered(arrives: Any, lasts: Any) -> Any:
    """The length of what intervals cover together."""
    import scanjit as sj

    def step(begin: Any, length: Any, end: Any, total: Any) -> Any:
        last = begin + length
        return sj.maximum(end, last), total + sj.maximum(0.0, last - sj.maximum(begin, end))

    return sj.scan(step, [arrives, lasts], [0.0, 0.0])[1][-1]


def walk(way: Any, grid: Any) -> Any:
    """How often a walk comes to each place of a grid."""
    import scanjit as sj

    def step(way: Any, i: Any, j: Any, grid: Any) -> Any:
        move = lambda more, less: sj.where(sj.equal(way, more), 1, 0) - sj.where(sj.equal(way, less), 1, 0)
        i, j = sj.clip(i + move(0, 1), 0, 31), sj.clip(j + move(2, 3), 0, 31)
        return i, j, grid[i, j].inc(1.0)

    return sj.scan(step, way, [0, 0, grid])[-1][-1]


def stack_machine(op: Any, x: Any) -> Any:
    """The top of a stack of 16 numbers after each instruction; one that cannot be done does nothing."""
    import scanjit as sj

    def step(op: Any, x: Any, stack: Any, size: Any) -> Any:
        a, b = stack[sj.maximum(size - 1, 0)], stack[sj.maximum(size - 2, 0)]
        pushes, joins = sj.equal(op, 0) & (size < 16), (op > 0) & (size >= 2)
        joined = sj.where(sj.equal(op, 1), a + b, sj.where(sj.equal(op, 2), a * b, a - b))
        at = sj.where(pushes, size, sj.maximum(size - 2, 0))
        stack = stack[at].set(sj.where(pushes, x, sj.where(joins, joined, stack[at])))
        size = size + sj.where(pushes, 1, sj.where(joins, -1, 0))
        return stack, size, stack[sj.maximum(size - 1, 0)]

    return sj.scan(step, [op, x], [sj.zeros(16, x.dtype), 0, None])[-1]


def longest_window(x: Any) -> Any:
    """The longest window whose sum is at most 10, of numbers that are not negative."""
    import scanjit as sj

    def step(t: Any, new: Any, left: Any, total: Any, longest: Any) -> Any:
        shorter = lambda state: (state[0] + 1, state[1] - x[state[0]])
        left, total = sj.while_loop(lambda state: state[1] > 10.0, shorter, (left, total + new))
        return left, total, sj.maximum(longest, t - left + 1)

    return sj.scan(step, [sj.arange(x.shape[0]), x], [0, 0.0, 0])[2][-1]


def greater_before(x: Any) -> Any:
    """The last greater number before each one, -1 if there is none among the 64 on a stack."""
    import scanjit as sj

    def step(x: Any, stack: Any, size: Any) -> Any:
        top = lambda size: stack[sj.maximum(size - 1, 0)]
        size = sj.while_loop(lambda size: (size > 0) & (top(size) < x), lambda size: size - 1, size)
        return stack[sj.minimum(size, 63)].set(x), sj.minimum(size + 1, 64), sj.where(size > 0, top(size), -1.0)

    return sj.scan(step, x, [sj.zeros(64), 0, None])[2]


def bounded_walk(way: Any) -> Any:
    """A walk that does not go below 0."""
    import scanjit as sj

    return sj.scan(lambda way, at: sj.maximum(at + sj.where(sj.equal(way, 1), 1, -1), 0), way, 0)


def trailing_stop(x: Any) -> Any:
    """A stop two below the price, or above it. It never goes back, and changes sides if the price crosses it."""
    import scanjit as sj

    def step(x: Any, stop: Any, long: Any) -> Any:
        turns = sj.where(long, x < stop, x > stop)
        follows = sj.where(long, sj.maximum(stop, x - 2.0), sj.minimum(stop, x + 2.0))
        return sj.where(turns, sj.where(long, x + 2.0, x - 2.0), follows), long ^ turns

    return sj.scan(step, x, [-1e9, sj.as_tensor(np.bool_(True))])[0]


def total(way: Any) -> Any:
    """The sum of the numbers in a text of digits and commas (10)."""
    import scanjit as sj

    def step(way: Any, number: Any, total: Any) -> Any:
        digit = way < 10
        return sj.where(digit, sj.minimum(number * 10 + way, 9999), 0), total + sj.where(digit, 0, number)

    return sj.scan(step, way, [0, 0])[1][-1]


def last_one(way: Any) -> Any:
    """Who is left in a circle of which every seventh leaves, after Josephus; only how many there are matters."""
    import scanjit as sj

    return sj.scan(lambda n, at: (at + 7) % n, sj.arange(1, way.shape[0] + 1), 0)[-1]


def rotation(x: Any, p: Any) -> Any:
    """A point that turns and is pushed."""
    import scanjit as sj

    turn = sj.stack([p[0], -p[1], p[1], p[0]]).reshape((2, 2))
    return sj.scan(lambda x, h: turn @ h + x, x, sj.zeros(2, x.dtype))


def small_gru(x: Any, W: Any, U: Any) -> Any:
    """A GRU of three units."""
    import scanjit as sj

    def step(x: Any, h: Any) -> Any:
        z, u = x @ W, h @ U
        r, f = sj.sigmoid(z[:3] + u[:3]), sj.sigmoid(z[3:6] + u[3:6])
        return f * h + (1.0 - f) * sj.tanh(z[6:] + r * u[6:])

    return sj.scan(step, x, sj.zeros(3, x.dtype))


def holt(x: Any, p: Any) -> Any:
    """Exponential smoothing of a level and a trend."""
    import scanjit as sj

    def step(x: Any, level: Any, slope: Any) -> Any:
        new = p[0] * x + (1.0 - p[0]) * (level + slope)
        return new, p[1] * (new - level) + (1.0 - p[1]) * slope

    level, slope = sj.scan(step, x, [0.0, 0.0])
    return level + slope


def divisors(x: Any, y: Any) -> Any:
    """The greatest common divisors of pairs."""
    import scanjit as sj

    of_two = lambda x, y: sj.while_loop(lambda s: sj.not_equal(s[1], 0), lambda s: (s[1], s[0] % s[1]), (x, y))[0]
    return sj.map(of_two, [x, y])


def collatz(x: Any, y: Any) -> Any:
    """How many steps of Collatz lead to 1; only the first numbers count."""
    import scanjit as sj

    def step(state: Any) -> Any:
        n, steps = state
        return sj.where(sj.equal(n % 2, 0), n // 2, 3 * n + 1), steps + 1

    return sj.map(lambda x: sj.while_loop(lambda s: s[0] > 1, step, (x, 0))[1], x)


def escapes(x: Any, y: Any) -> Any:
    """After how many steps points of the Mandelbrot set are known not to be in it, at most 100."""
    import scanjit as sj

    def of_point(x: Any, y: Any) -> Any:
        near = lambda s: (s[0] * s[0] + s[1] * s[1] <= 4.0) & (s[2] < 100)
        step = lambda s: (s[0] * s[0] - s[1] * s[1] + x, 2.0 * s[0] * s[1] + y, s[2] + 1)
        return sj.while_loop(near, step, (0.0, 0.0, 0))[2]

    return sj.map(of_point, [x, y])


case = partial(case, module="machines_numba")
QUEUE, PAIRS = {"arrives": {0: "T"}, "lasts": {0: "T"}}, {"x": {0: "T"}, "y": {0: "T"}}

CASES = [
    case("waiting times", waiting, customers, QUEUE, MANY, ("T",)),
    case("union of intervals", covered, customers, QUEUE, MANY),
    case("walk on a grid", walk, directions, {"way": {0: "T"}}, MANY),
    case("stack machine", stack_machine, program, {"op": {0: "T"}, "x": {0: "T"}}, MANY, ("T",)),
    case("longest window", longest_window, shares, FREE, MANY),
    case("greater one before", greater_before, shares, FREE, MANY, ("T",)),
    case("bounded walk", bounded_walk, coins, {"way": {0: "T"}}, MANY, ("T",)),
    case("trailing stop", trailing_stop, prices, FREE, MANY, ("T",)),
    case("numbers in a text", total, text, {"way": {0: "T"}}, MANY),
    case("last one of a circle", last_one, coins, {"way": {0: "T"}}, MANY),
    case("rotation", rotation, two_columns, FREE, MANY, ("T",)),
    case("GRU, 3 units", small_gru, units, FREE, LONG, ("T",)),
    case("level and trend", holt, partial(series, p=[0.3, 0.1]), FREE, MANY, ("T",)),
    case("greatest common divisors", divisors, pairs, PAIRS, LONG, ("T",)),
    case("steps of Collatz", collatz, pairs, PAIRS, LONG, ("T",)),
    case("Mandelbrot set", escapes, points, PAIRS, LONG, ("T",)),
]
