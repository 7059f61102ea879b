"""More small recurrences beside a loop that one writes for Numba: states of several entries that steps change in
places, shift, or sum.

The reference is that loop (`memories_numba`), run by Python itself.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.case import Arrays, Sizes
from benchmarks.cases.byhand import FREE, MANY, case, series

# ---- data ------------------------------------------------------------------------------------------------------------


def places(sizes: Sizes, dtype: str, rng: np.random.Generator, upto: int) -> Arrays:
    """Places of a small state."""
    return {"x": rng.integers(0, upto, sizes["T"])}


def flows(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """What flows into the first of some tanks, and two parameters."""
    return {"x": rng.uniform(0.5, 1.5, sizes["T"]).astype(dtype), "p": np.array([0.5, 0.1], dtype)}


def filtered(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """A series, and the same behind a filter that is to be found."""
    x = rng.standard_normal(sizes["T"])
    return {"x": x.astype(dtype), "d": np.convolve(x, [1.0, 0.5, 0.2])[: x.size].astype(dtype)}


def episodes(sizes: Sizes, dtype: str, rng: np.random.Generator, states: int) -> Arrays:
    """A walk over states, with an action of four and a reward in each step."""
    walk, T = rng.integers(0, states, sizes["T"] + 1), sizes["T"]
    actions, reward = rng.integers(0, 4, T), rng.uniform(0.0, 1.0, T).astype(dtype)
    return {"s": walk[:-1].copy(), "a": actions, "n": walk[1:].copy(), "reward": reward}


def plucked(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """What moves a string, and where it begins."""
    draw = lambda n, scale: (scale * rng.standard_normal(n)).astype(dtype)
    return {"x": draw(sizes["T"], 0.01), "line": draw(sizes["N"], 1.0)}


def orders(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """By how much the size at one of 24 prices changes."""
    return {"k": rng.integers(0, 24, sizes["T"]), "q": np.round(rng.standard_normal(sizes["T"]), 1).astype(dtype)}


def requests(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """What is put into a queue (0) or taken from it (1), and numbers."""
    return {"op": rng.integers(0, 2, sizes["T"]), "x": rng.standard_normal(sizes["T"]).astype(dtype)}


def pairs(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Pairs of nodes, and the parent of each node: itself."""
    x, y = rng.integers(0, sizes["N"], (2, sizes["T"]))
    return {"x": x, "y": y, "parent": np.arange(sizes["N"])}


def wave(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """A sine with noise."""
    x = 2.0 * np.sin(0.05 * np.arange(sizes["T"])) + 0.6 * rng.standard_normal(sizes["T"])
    return {"x": x.astype(dtype)}


def crossing(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Whether a car comes, and now and then someone on foot."""
    draw = lambda often: (rng.random(sizes["T"]) < often).astype(np.int64)
    return {"car": draw(0.5), "walker": draw(0.1)}


# ---- recurrences -----------------------------------------------------------------------------------------------------


def fading_counts(x: Any) -> Any:
    """How often each of 32 places was seen; what is long ago counts less."""
    import scanjit as sj

    return sj.scan(lambda x, counts: (0.999 * counts)[x].inc(1.0), x, sj.zeros(32))[-1]


def adam(x: Any) -> Any:
    """Adam's path to the minimum of a noisy parabola."""
    import scanjit as sj

    def step(x: Any, w: Any, m: Any, v: Any, t: Any) -> Any:
        g, t = x + w, t + 1.0
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return w - 0.01 * (m / (1.0 - 0.9**t)) / (sj.sqrt(v / (1.0 - 0.999**t)) + 1e-8), m, v, t

    return sj.scan(step, x, [1.0, 0.0, 0.0, 0.0])[0]


def tanks(x: Any, p: Any) -> Any:
    """The level of the last of eight tanks that flow into each other."""
    import scanjit as sj

    def step(x: Any, h: Any) -> Any:
        out = p[0] * sj.sqrt(h)
        return h + p[1] * (sj.concatenate([x[None], out[:-1]]) - out)

    return sj.scan(step, x, sj.ones(8))[:, -1]


def adaptive(x: Any, d: Any) -> Any:
    """The errors of an adaptive filter of the last 16 samples."""
    import scanjit as sj

    def step(x: Any, d: Any, last: Any, w: Any) -> Any:
        last = sj.concatenate([x[None], last[:-1]])
        error = d - (w * last).sum()
        return last, w + 0.1 * error / (1e-3 + (last * last).sum()) * last, error

    return sj.scan(step, [x, d], [sj.zeros(16), sj.zeros(16), None])[2]


def traces(s: Any, a: Any, n: Any, reward: Any) -> Any:
    """The values of 16 states, learnt from differences in time with traces; actions do not count."""
    import scanjit as sj

    def step(s: Any, n: Any, reward: Any, value: Any, trace: Any) -> Any:
        error = reward + 0.9 * value[n] - value[s]
        trace = (0.7 * trace)[s].inc(1.0)
        return value + 0.1 * error * trace, trace

    return sj.scan(step, [s, n, reward], [sj.zeros(16), sj.zeros(16)])[0][-1]


def q_learning(s: Any, a: Any, n: Any, reward: Any) -> Any:
    """The values of four actions in six states."""
    import scanjit as sj

    def step(s: Any, a: Any, n: Any, reward: Any, Q: Any) -> Any:
        return Q[s, a].inc(0.1 * (reward + 0.9 * Q[n].max() - Q[s, a]))

    return sj.scan(step, [s, a, n, reward], sj.zeros((6, 4)))[-1]


def moving_maximum(x: Any) -> Any:
    """The maximum of the last 16 samples, which a ring keeps."""
    import scanjit as sj

    def step(x: Any, ring: Any, k: Any) -> Any:
        ring = ring[k].set(x)
        return ring, sj.where(sj.equal(k, 15), 0, k + 1), ring.max()

    return sj.scan(step, x, [sj.full(16, -1e300), 0, None])[2]


def moving_sum(x: Any) -> Any:
    """The sum of the last 20 samples, which a ring keeps."""
    import scanjit as sj

    def step(x: Any, ring: Any, k: Any, total: Any) -> Any:
        total = total + x - ring[k]
        return ring[k].set(x), sj.where(sj.equal(k, 19), 0, k + 1), total

    return sj.scan(step, x, [sj.zeros(20), 0, 0.0])[2]


def plucked_string(x: Any, line: Any) -> Any:
    """A string that is plucked, after Karplus and Strong: a ring whose neighbours are averaged."""
    import scanjit as sj

    def step(x: Any, ring: Any, k: Any) -> Any:
        after = sj.where(sj.equal(k, ring.shape[0] - 1), 0, k + 1)
        y = ring[k]
        return ring[k].set(x + 0.498 * (y + ring[after])), after, y

    return sj.scan(step, x, [line, 0, None])[2]


def best_price(k: Any, q: Any) -> Any:
    """The first of 24 prices of an order book with a size, after each order."""
    import scanjit as sj

    def step(k: Any, q: Any, book: Any) -> Any:
        book = book[k].set(sj.maximum(book[k] + q, 0.0))
        return book, sj.argmax(book > 0.0)

    return sj.scan(step, [k, q], [sj.zeros(24), None])[1]


def debounce(x: Any) -> Any:
    """A switch that counts as moved once it has been in its new place three times."""
    import scanjit as sj

    def step(x: Any, state: Any, count: Any) -> Any:
        count = sj.where(sj.equal(x, state), 0, count + 1)
        flips = count >= 3
        return sj.where(flips, x, state), sj.where(flips, 0, count)

    return sj.scan(step, x, [0, 0])[0]


def waiting_sorted(x: Any) -> Any:
    """When the first of four servers is free, if each customer goes to the first: the times are kept in order."""
    import scanjit as sj

    def step(x: Any, free: Any) -> Any:
        free = sj.sort(free[0].inc(x))
        return free, free[0]

    return sj.scan(step, x, [sj.zeros(4), None])[1]


def heat_ring(x: Any) -> Any:
    """Heat in a ring of 16 places, one of which is heated."""
    import scanjit as sj

    def step(x: Any, u: Any) -> Any:
        return u[0].inc(x) + 0.1 * (sj.roll(u, 1) - 2.0 * u + sj.roll(u, -1))

    return sj.scan(step, x, sj.zeros(16))[-1]


def best_three(x: Any) -> Any:
    """The three largest samples, which are kept in order."""
    import scanjit as sj

    return sj.scan(lambda x, best: sj.sort(sj.concatenate([best, x[None]]))[1:], x, sj.full(3, -1e300))[-1]


def bounded_queue(op: Any, x: Any) -> Any:
    """What is taken from a queue of at most eight numbers, 0 where it is empty."""
    import scanjit as sj

    def step(op: Any, x: Any, ring: Any, head: Any, size: Any) -> Any:
        puts, takes = sj.equal(op, 0) & (size < 8), sj.equal(op, 1) & (size > 0)
        end = (head + size) & 7
        ring = ring[end].set(sj.where(puts, x, ring[end]))
        size = size + sj.where(puts, 1, sj.where(takes, -1, 0))
        return ring, sj.where(takes, (head + 1) & 7, head), size, sj.where(takes, ring[head], 0.0)

    return sj.scan(step, [op, x], [sj.zeros(8), 0, 0, None])[3]


def traffic_light(car: Any, walker: Any) -> Any:
    """The state of a traffic light, which changes when someone comes, but not too soon."""
    import scanjit as sj

    def step(car: Any, walker: Any, state: Any, age: Any) -> Any:
        age = age + 1
        stops, starts = (age >= 8) & sj.equal(walker, 1), (age >= 5) & sj.equal(car, 1)
        turns = sj.where(sj.equal(state, 0), stops, sj.where(sj.equal(state, 1), age >= 3, starts))
        return sj.where(turns, sj.where(sj.equal(state, 2), 0, state + 1), state), sj.where(turns, 0, age)

    return sj.scan(step, [car, walker], [0, 0])[0]


def held_peak(x: Any) -> Any:
    """The last peak, which is forgotten after fifty steps."""
    import scanjit as sj

    def step(x: Any, peak: Any, age: Any) -> Any:
        newer = (x > peak) | (age >= 50)
        return sj.where(newer, x, peak), sj.where(newer, 0, age + 1)

    return sj.scan(step, x, [0.0, 0])[0]


def trigger(x: Any) -> Any:
    """A switch that goes on above 1, and off below -1."""
    import scanjit as sj

    def step(x: Any, on: Any) -> Any:
        on = sj.where(on, x > -1.0, x > 1.0)
        return on, sj.where(on, 1.0, 0.0)

    return sj.scan(step, x, [sj.as_tensor(np.bool_(False)), None])[1]


def piles(x: Any) -> Any:
    """How many of four piles each sample is above, as in patience sorting: it becomes the top of the next one."""
    import scanjit as sj

    def step(x: Any, tops: Any) -> Any:
        place = sj.cast(tops < x, "int64").sum()
        at = sj.minimum(place, 3)
        return tops[at].set(sj.minimum(tops[at], x)), place

    return sj.scan(step, x, [sj.full(4, 1e300), None])[1]


def drawdown_days(x: Any) -> Any:
    """The longest time below the highest value so far."""
    import scanjit as sj

    def step(t: Any, x: Any, top: Any, since: Any, longest: Any) -> Any:
        since = sj.where(x >= top, t, since)
        return sj.maximum(top, x), since, sj.maximum(longest, t - since)

    return sj.scan(step, [sj.arange(x.shape[0]), x], [-1e300, 0, 0])[2][-1]


def components(x: Any, y: Any, parent: Any) -> Any:
    """The parents of nodes when pairs of nodes are joined, one after the other."""
    import scanjit as sj

    def root(parent: Any, node: Any) -> Any:
        return sj.while_loop(lambda at: sj.not_equal(parent[at], at), lambda at: parent[at], node)

    return sj.scan(lambda x, y, parent: parent[root(parent, x)].set(root(parent, y)), [x, y], parent)[-1]


case = partial(case, module="memories_numba")
PAIRS = {"x": {0: "T"}, "y": {0: "T"}, "parent": {0: "N"}}
EPISODES = {name: {0: "T"} for name in ("s", "a", "n", "reward")}

CASES = [
    case("decaying histogram", fading_counts, partial(places, upto=32), FREE, MANY),
    case("Adam", adam, series, FREE, MANY),
    case("eight tanks", tanks, flows, FREE, MANY, ("T",)),
    case("adaptive filter", adaptive, filtered, {"x": {0: "T"}, "d": {0: "T"}}, MANY, ("T",)),
    case("TD with traces", traces, partial(episodes, states=16), EPISODES, MANY),
    case("Q-learning", q_learning, partial(episodes, states=6), EPISODES, MANY),
    case("maximum of a ring", moving_maximum, series, FREE, MANY, ("T",)),
    case("moving sum over a ring", moving_sum, series, FREE, MANY, ("T",)),
    case("plucked string", plucked_string, plucked, {"x": {0: "T"}, "line": {0: "N"}}, {**MANY, "N": 100}, ("T",)),
    case("best price of an order book", best_price, orders, {"k": {0: "T"}, "q": {0: "T"}}, MANY, ("T",)),
    case("debounce", debounce, partial(places, upto=2), FREE, MANY, ("T",)),
    case("servers in order", waiting_sorted, partial(series, shift=3.0), FREE, MANY, ("T",)),
    case("heat in a ring", heat_ring, series, FREE, MANY),
    case("best three", best_three, series, FREE, MANY),
    case("bounded queue", bounded_queue, requests, {"op": {0: "T"}, "x": {0: "T"}}, MANY, ("T",)),
    case("traffic light", traffic_light, crossing, {"car": {0: "T"}, "walker": {0: "T"}}, MANY, ("T",)),
    case("held peak", held_peak, series, FREE, MANY, ("T",)),
    case("Schmitt trigger", trigger, wave, FREE, MANY, ("T",)),
    case("piles of patience", piles, series, FREE, MANY, ("T",)),
    case("longest drawdown", drawdown_days, series, FREE, MANY),
    case("components of a graph", components, pairs, PAIRS, {"T": 10_000, "N": 5_000}, ("N",)),
]
