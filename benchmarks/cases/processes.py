"""More small recurrences beside a loop that one writes for Numba: physics, finance, control, text.

The reference is that loop (`processes_numba`), run by Python itself.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Sizes
from benchmarks.cases.byhand import FREE, MANY, case, series
from benchmarks.cases.machines import QUEUE, customers


def string(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """How the end of a string moves, and the string at rest."""
    x, p, u = np.sin(0.1 * np.arange(sizes["T"])), np.array([0.25]), np.zeros(sizes["N"])
    return {"x": x.astype(dtype), "p": p.astype(dtype), "u": u.astype(dtype)}


def option(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """What an option pays at some prices, and what both next prices weigh; only the length of `T` matters."""
    pays = np.maximum(0.0, np.linspace(0.5, -0.5, sizes["N"]))
    return {"T": np.zeros(sizes["T"], dtype), "p": np.array([0.49, 0.5], dtype), "pays": pays.astype(dtype)}


def letters(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """A text of 16 letters, and the next state for each state and letter."""
    return {"x": rng.integers(0, 16, sizes["T"]), "table": rng.integers(0, 8, (8, 16))}


def octets(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Bytes, and the table of a checksum."""
    table = np.arange(256)
    for _ in range(8):
        table = (table >> 1) ^ (0xEDB88320 * (table & 1))
    return {"x": rng.integers(0, 256, sizes["T"]), "table": table}


def _seir_step(x: Any, s: Any, e: Any, i: Any, p: Any) -> Any:
    new, sick, well = p[0] * (1.0 + 0.1 * x) * s * i, p[1] * e, p[2] * i
    return s - new + 0.001 * (1.0 - s), e + new - sick, i + sick - well


def seir(x: Any, p: Any) -> Any:
    """An epidemic whose infected are infectious after a while."""
    import scanjit as sj

    return sj.scan(lambda x, s, e, i: _seir_step(x, s, e, i, p), x, [0.99, 0.0, 0.01])[2].sum()


def seir_tape(x: Any, p: Any) -> Any:
    """The plain loop."""
    s, e, i, total = (tape.Array(value) for value in (0.99, 0.0, 0.01, 0.0))
    for t in range(x.shape[0]):
        s, e, i = _seir_step(x[t], s, e, i, p)
        total = total + i
    return total


def pendulum(x: Any, p: Any) -> Any:
    """A damped pendulum that is pushed."""
    import scanjit as sj

    def step(x: Any, angle: Any, speed: Any) -> Any:
        speed = speed + 0.01 * (0.1 * x - p[0] * sj.sin(angle) - p[1] * speed)
        return angle + 0.01 * speed, speed

    return sj.scan(step, x, [0.5, 0.0])[0]


def implicit(x: Any, p: Any) -> Any:
    """Three coupled quantities by the implicit method of Euler: each step solves a system."""
    import scanjit as sj

    zero = 0.0 * p[0]
    rates = sj.stack([p[0], -p[1], zero, p[1], p[0], -p[2], zero, p[2], p[0]]).reshape((3, 3))
    step = lambda x, u: sj.solve(np.eye(3) + (0.1 + 0.01 * x) * rates, u)
    return sj.scan(step, x, sj.as_tensor(np.array([1.0, 0.0, 0.0])))[:, 0]


def wave(x: Any, p: Any, u: Any) -> Any:
    """A string whose first end is moved."""
    import scanjit as sj

    def step(x: Any, now: Any, before: Any) -> Any:
        inner = 2.0 * now[1:-1] - before[1:-1] + p[0] * (now[2:] - 2.0 * now[1:-1] + now[:-2])
        return sj.concatenate([x[None], inner, sj.zeros(1, x.dtype)]), now

    return sj.scan(step, x, [u, u])[0][-1]


def put(T: Any, p: Any, pays: Any) -> Any:
    """An American option on a tree of prices."""
    import scanjit as sj

    def step(worth: Any) -> Any:
        return sj.concatenate([sj.maximum(pays[:-1], p[0] * worth[:-1] + p[1] * worth[1:]), worth[-1:]])

    return sj.scan(step, outputs_info=pays, n_steps=T.shape[0])[-1]


def backtest(x: Any, p: Any) -> Any:
    """A rule that buys above the mean, and sells when the price has fallen from its peak."""
    import scanjit as sj

    def step(x: Any, price: Any, mean: Any, peak: Any, cash: Any, held: Any) -> Any:
        price = price + x
        mean = mean + p[0] * (price - mean)
        peak = sj.where(held, sj.maximum(peak, price), peak)
        leaves = held & (price < peak - p[1])
        enters = ~held & (price > mean + p[2])
        cash = cash + sj.where(leaves, price, sj.where(enters, -price, 0.0))
        return price, mean, sj.where(enters, price, peak), cash, (held & ~leaves) | enters

    price, _, _, cash, held = sj.scan(step, x, [100.0, 100.0, 0.0, 0.0, sj.as_tensor(np.bool_(False))])
    return cash[-1] + sj.where(held[-1], price[-1], 0.0)


def cusum(x: Any, p: Any) -> Any:
    """Cumulative sums of what lies above and below a mean, which begin again at an alarm."""
    import scanjit as sj

    def step(x: Any, high: Any, low: Any, alarms: Any) -> Any:
        high, low = sj.maximum(0.0, high + x - p[0]), sj.maximum(0.0, low - x - p[0])
        alarm = (high > p[1]) | (low > p[1])
        return sj.where(alarm, 0.0, high), sj.where(alarm, 0.0, low), alarms + sj.where(alarm, 1.0, 0.0)

    return sj.scan(step, x, [0.0, 0.0, 0.0])[2][-1]


def tracker(x: Any, p: Any) -> Any:
    """A place and a speed; what lies too far away is left out."""
    import scanjit as sj

    def step(x: Any, place: Any, speed: Any, lost: Any) -> Any:
        place = place + speed
        r, more = x - place, lost + 1.0
        near = abs(r) < p[2]
        slower = speed * sj.where(more > 3.0, 0.5, 1.0)
        new = sj.where(near, place + p[0] * r, place)
        return new, sj.where(near, speed + p[1] * r, slower), sj.where(near, 0.0, more)

    return sj.scan(step, x, [0.0, 0.0, 0.0])[0]


def servers(arrives: Any, lasts: Any) -> Any:
    """How long customers wait for the first of four servers."""
    import scanjit as sj

    def step(arrives: Any, lasts: Any, free: Any) -> Any:
        k = sj.argmin(free)
        begins = sj.maximum(arrives, free[k])
        return free[k].set(begins + lasts), begins - arrives

    return sj.scan(step, [arrives, lasts], [sj.zeros(4, arrives.dtype), None])[1]


def echo(x: Any, p: Any) -> Any:
    """An echo after 25 samples."""
    import scanjit as sj

    def step(x: Any, line: Any, k: Any) -> Any:
        y = x + p[0] * line[k]
        return line[k].set(y), sj.where(sj.equal(k, 24), 0, k + 1), y

    return sj.scan(step, x, [sj.zeros(25, x.dtype), 0, None])[2]


def automaton(x: Any, table: Any) -> Any:
    """How often an automaton comes to its fourth state."""
    import scanjit as sj

    def step(x: Any, state: Any, count: Any) -> Any:
        state = table[state, x]
        return state, count + sj.where(sj.equal(state, 3), 1, 0)

    return sj.scan(step, x, [0, 0])[1][-1]


def checksum(x: Any, table: Any) -> Any:
    """A cyclic redundancy check of 32 bits."""
    import scanjit as sj

    return sj.scan(lambda x, c: table[(c ^ x) & 255] ^ (c >> 8), x, 0xFFFFFFFF)[-1]


case = partial(case, module="processes_numba")
STRING, PRICES = {"x": {0: "T"}, "u": {0: "N"}}, {"T": {0: "T"}, "pays": {0: "N"}}

CASES = [
    case("SEIR", seir, partial(series, p=[0.4, 0.3, 0.1]), FREE, MANY, reference=seir_tape),
    case("pendulum", pendulum, partial(series, p=[1.0, 0.1]), FREE, MANY, ("T",)),
    case("three equations a step", implicit, partial(series, p=[0.1, 1.0, 2.0]), FREE, MANY, ("T",)),
    case("string, any number of points", wave, string, STRING, {"T": 10_000, "N": 12}, ("N",)),
    case("string, known number of points", wave, string, FREE, {"T": 10_000, "N": 12}, ("N",)),
    case("long string", wave, string, STRING, {"T": 1_000, "N": 100}, ("N",)),
    case("American option", put, option, PRICES, {"T": 1_000, "N": 100}, ("N",)),
    case("trading rule", backtest, partial(series, p=[0.05, 3.0, 1.0]), FREE, MANY),
    case("CUSUM", cusum, partial(series, p=[0.2, 4.0]), FREE, MANY),
    case("tracking with a gate", tracker, partial(series, p=[0.5, 0.1, 3.0]), FREE, MANY, ("T",)),
    case("four servers", servers, customers, QUEUE, MANY, ("T",)),
    case("echo", echo, partial(series, p=[0.5]), FREE, MANY, ("T",)),
    case("automaton", automaton, letters, FREE, MANY),
    case("checksum", checksum, octets, FREE, MANY),
]
