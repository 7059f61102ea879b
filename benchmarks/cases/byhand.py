"""Small recurrences, for which a user may write a loop for Numba instead: filters, likelihoods, tables, small networks.

The reference is the loop that is written for Numba (`byhand_numba`), run by Python itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes
from benchmarks.cases.common import Draw
from benchmarks.engines import numba, scanjit

# ---- data ------------------------------------------------------------------------------------------------------------


def series(
    sizes: Sizes, dtype: str, rng: np.random.Generator, scale: float = 1.0, shift: float = 0.0, **more: Any
) -> Arrays:
    """A series `x`, and parameters."""
    x = (rng.standard_normal(sizes["T"]) * scale + shift).astype(dtype)
    return {"x": x, **{name: np.array(value, dtype) for name, value in more.items()}}


def orbit(sizes: Sizes, dtype: str, rng: np.random.Generator, start: Any, p: Any) -> Arrays:
    """A start and parameters; only the length of `T` matters."""
    return {"start": np.array(start, dtype), "p": np.array(p, dtype), "T": np.zeros(sizes["T"], dtype)}


def chain(sizes: Sizes, dtype: str, rng: np.random.Generator, logarithms: bool = False) -> Arrays:
    """How likely what was seen is in each of K states, the transitions, and the start."""
    T, K = sizes["T"], sizes["K"]
    x, A = rng.uniform(0.1, 1.0, (T, K)), rng.uniform(0.1, 1.0, (K, K))
    start = np.full(K, 1.0 / K)
    A /= A.sum(1, keepdims=True)
    found = {"x": x, "A": A, "start": start}
    return {name: (np.log(value) if logarithms else value).astype(dtype) for name, value in found.items()}


def regimes(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """A series, and three regimes."""
    A = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
    return series(sizes, dtype, rng, A=A, mean=[-1.0, 0.0, 1.0], spread=[1.0, 0.5, 1.5])


def network(sizes: Sizes, dtype: str, rng: np.random.Generator, matrix: str, shift: float = 0.0) -> Arrays:
    """What a network of H units is given, and its weights."""
    draw, (T, H) = Draw(rng, dtype), (sizes["T"], sizes["H"])
    return {"x": draw.normal(T, H) * 0.3 + np.array(shift, dtype), matrix: draw.matrix(H, H) * np.array(0.5, dtype)}


def labelled(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Logarithms of the chances of eight symbols, and a label."""
    z = rng.standard_normal((sizes["T"], 8))
    x = z - np.log(np.exp(z).sum(1, keepdims=True))
    return {"x": x.astype(dtype), "label": rng.integers(1, 8, sizes["L"])}


def words(sizes: Sizes, dtype: str, rng: np.random.Generator, names: str = "xy") -> Arrays:
    """Words of four letters."""
    return {name: rng.integers(0, 4, sizes["T"]) for name in names}


def two_series(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Two series."""
    return {name: Draw(rng, dtype).normal(sizes["T"]) for name in "xy"}


def games(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Games of 200 players: who played, and whether the first of both won."""
    i, j = rng.integers(0, 200, (2, sizes["T"]))
    return {"i": i, "j": j, "won": rng.integers(0, 2, sizes["T"]).astype(dtype), "start": np.zeros(200, dtype)}


# ---- states of a few numbers -----------------------------------------------------------------------------------------


def neuron(x: Any) -> Any:
    """It forgets, and is reset when it fires."""
    import scanjit as sj

    def step(x: Any, v: Any) -> Any:
        v = v + 0.1 * (x - v)
        fires = v >= 1.0
        return sj.where(fires, 0.0, v), sj.where(fires, 1.0, 0.0)

    return sj.scan(step, x, [0.0, None])[1].sum()


def biquad(x: Any, p: Any) -> Any:
    """A filter of second order."""
    import scanjit as sj

    def step(x: Any, x1: Any, x2: Any, y1: Any, y2: Any) -> Any:
        y = p[0] * x + p[1] * x1 + p[2] * x2 - p[3] * y1 - p[4] * y2
        return x, x1, y, y1

    return sj.scan(step, x, [0.0] * 4)[2]


def cascade(x: Any, p: Any) -> Any:
    """Three filters of second order, one behind the other."""
    import scanjit as sj

    def step(x: Any, *states: Any) -> Any:
        new: list[Any] = []
        for k in range(3):
            first, second = states[2 * k : 2 * k + 2]
            y = p[k, 0] * x + first
            new += [p[k, 1] * x - p[k, 3] * y + second, p[k, 2] * x - p[k, 4] * y]
            x = y
        return (*new, x)

    return sj.scan(step, x, [0.0] * 6 + [None])[-1]


def lorenz(start: Any, p: Any, T: Any) -> Any:
    """One coordinate at each step of the method of Runge and Kutta."""
    import scanjit as sj

    def slope(x: Any, y: Any, z: Any) -> Any:
        return p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z

    def step(*state: Any) -> Any:
        moved = lambda d, h: [a + h * b for a, b in zip(state, d, strict=True)]
        h = 0.01
        a = slope(*state)
        b = slope(*moved(a, 0.5 * h))
        c = slope(*moved(b, 0.5 * h))
        d = slope(*moved(c, h))
        return moved([a + 2 * b + 2 * c + d for a, b, c, d in zip(a, b, c, d, strict=True)], h / 6)

    return sj.scan(step, outputs_info=[start[0], start[1], start[2]], n_steps=T.shape[0])[0]


def lorenz_vector(start: Any, p: Any, T: Any) -> Any:
    """The same with a vector as state."""
    import scanjit as sj

    def slope(s: Any) -> Any:
        return sj.stack([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])

    def step(s: Any) -> Any:
        h = 0.01
        a = slope(s)
        b = slope(s + 0.5 * h * a)
        c = slope(s + 0.5 * h * b)
        return s + h / 6 * (a + 2 * b + 2 * c + slope(s + h * c))

    return sj.scan(step, outputs_info=start, n_steps=T.shape[0])[:, 0]


def _kalman_step(x: Any, m: Any, c: Any, p: Any) -> Any:
    c = c + p[0]
    s = c + p[1]
    v = x - m
    k = c / s
    return m + k * v, (1.0 - k) * c, s, v


def kalman(x: Any, p: Any) -> Any:
    """The log-likelihood of a random walk seen through noise."""
    import scanjit as sj

    def step(x: Any, m: Any, c: Any) -> Any:
        m, c, s, v = _kalman_step(x, m, c, p)
        return m, c, sj.log(s) + v * v / s

    return -0.5 * sj.scan(step, x, [0.0, 1.0, None])[2].sum()


def kalman_tape(x: Any, p: Any) -> Any:
    """The plain loop."""
    m, c, total = tape.Array(0.0), tape.Array(1.0), tape.Array(0.0)
    for t in range(x.shape[0]):
        m, c, s, v = _kalman_step(x[t], m, c, p)
        total = total + tape.log(s) + v * v / s
    return -0.5 * total


def trend(x: Any, p: Any) -> Any:
    """A level with a slope, both random walks; with matrices."""
    import scanjit as sj

    F, eye = np.array([[1.0, 1.0], [0.0, 1.0]]), np.eye(2)
    Q = sj.stack([p[0], 0.0 * p[0], 0.0 * p[0], p[1]]).reshape((2, 2))

    def step(x: Any, m: Any, P: Any) -> Any:
        m, P = F @ m, F @ P @ F.T + Q
        s = P[0, 0] + p[2]
        v = x - m[0]
        k = P[:, 0] / s
        return m + k * v, P - k[:, None] * P[0], sj.log(s) + v * v / s

    return -0.5 * sj.scan(step, x, [sj.zeros(2, x.dtype), sj.as_tensor(eye), None])[2].sum()


def gjr(x: Any, p: Any) -> Any:
    """A variance that losses raise more than gains."""
    import scanjit as sj

    def step(r: Any, h: Any) -> Any:
        new = p[0] + (p[1] + sj.where(r < 0, p[2], 0.0)) * r * r + p[3] * h
        return new, sj.log(h) + r * r / h

    return -0.5 * sj.scan(step, x, [1.0, None])[1].sum()


def gjr_tape(x: Any, p: Any) -> Any:
    """The plain loop."""
    h, total = tape.Array(1.0), tape.Array(0.0)
    for t in range(x.shape[0]):
        r = x[t]
        total = total + tape.log(h) + r * r / h
        h = p[0] + (p[1] + p[2] * float(r.value < 0)) * r * r + p[3] * h
    return -0.5 * total


def ar2(x: Any, p: Any) -> Any:
    """The sum of squares of what a recurrence of second order gives."""
    import scanjit as sj

    y = sj.scan(lambda x, y1, y2: (p[0] * y1 + p[1] * y2 + x, y1), x, [0.0, 0.0])[0]
    return (y * y).sum()


def ar2_tape(x: Any, p: Any) -> Any:
    """The plain loop."""
    y1 = y2 = total = tape.Array(0.0)
    for t in range(x.shape[0]):
        y1, y2 = p[0] * y1 + p[1] * y2 + x[t], y1
        total = total + y1 * y1
    return total


def drawdown(x: Any) -> Any:
    """The largest fall from the highest value so far."""
    import scanjit as sj

    def step(x: Any, level: Any, top: Any, worst: Any) -> Any:
        level = level + x
        top = sj.maximum(top, level)
        return level, top, sj.maximum(worst, top - level)

    return sj.scan(step, x, [0.0, 0.0, 0.0])[2][-1]


def holt_winters(x: Any, p: Any, season: Any) -> Any:
    """Forecasts by a level, a trend and twelve seasons."""
    import scanjit as sj

    def step(x: Any, level: Any, slope: Any, s: Any) -> Any:
        e = x - (level + slope + s)
        new = level + slope + p[0] * e
        return new, slope + p[1] * (new - level - slope), s + p[2] * e, e

    start = [x[0], 0.0, dict(initial=season, taps=[-12]), None]
    return (sj.scan(step, x, start)[-1] ** 2).sum()


def sir(x: Any, p: Any) -> Any:
    """An epidemic, when contacts vary."""
    import scanjit as sj

    def step(x: Any, s: Any, i: Any) -> Any:
        new, gone = p[0] * (1.0 + 0.1 * x) * s * i, p[1] * i
        return s - new + 0.01 * (1.0 - s), i + new - gone

    return sj.scan(step, x, [0.99, 0.01])[1]


def logistic(start: Any, p: Any, T: Any) -> Any:
    """The logistic map."""
    import scanjit as sj

    return sj.scan(lambda x: p[0] * x * (1.0 - x), outputs_info=start[0], n_steps=T.shape[0])


def pid(x: Any, p: Any) -> Any:
    """A bounded controller of a first-order system."""
    import scanjit as sj

    def step(x: Any, y: Any, total: Any, before: Any) -> Any:
        e = x - y
        total = sj.clip(total + 0.01 * e, -1.0, 1.0)
        u = sj.clip(p[0] * e + p[1] * total + p[2] * (e - before) / 0.01, -5.0, 5.0)
        return y + 0.01 * (u - y), total, e

    return sj.scan(step, x, [0.0, 0.0, 0.0])[0]


def runs(x: Any) -> Any:
    """The longest run of equal symbols, and how many runs there are."""
    import scanjit as sj

    def step(x: Any, last: Any, length: Any, longest: Any, count: Any) -> Any:
        same = sj.equal(x, last)
        length = sj.where(same, length + 1, 1)
        return x, length, sj.maximum(longest, length), count + sj.where(same, 0, 1)

    _, _, longest, count = sj.scan(step, x, [-1, 0, 0, 0])
    return 1_000_000 * longest[-1] + count[-1]


# ---- tables, of which a step changes some elements -------------------------------------------------------------------


def ratings(i: Any, j: Any, won: Any, start: Any) -> Any:
    """The ratings of players after some games."""
    import scanjit as sj

    def step(i: Any, j: Any, won: Any, r: Any) -> Any:
        change = 0.1 * (won - sj.sigmoid(r[i] - r[j]))
        return r[i].inc(change)[j].inc(-change)

    return sj.scan(step, [i, j, won], start)[-1]


def bandit(x: Any) -> Any:
    """The mean rewards of five actions; the best is tried, or now and then another."""
    import scanjit as sj

    def step(x: Any, count: Any, mean: Any) -> Any:
        action = sj.where(x > 1.0, sj.cast(x * 100.0, "int64") % 5, sj.argmax(mean))
        count = count[action].inc(1.0)
        return count, mean[action].inc((x - mean[action]) / count[action])

    return sj.scan(step, x, [sj.zeros(5, x.dtype), sj.zeros(5, x.dtype)])[1][-1]


# ---- small vectors and matrices --------------------------------------------------------------------------------------


def hmm(x: Any, A: Any, start: Any) -> Any:
    """The log-likelihood of a hidden Markov model."""
    import scanjit as sj

    def step(x: Any, a: Any) -> Any:
        a = (a @ A) * x
        s = a.sum()
        return a / s, sj.log(s)

    return sj.scan(step, x, [start, None])[1].sum()


def viterbi(x: Any, A: Any, start: Any) -> Any:
    """The most likely path."""
    import scanjit as sj

    def step(x: Any, d: Any) -> Any:
        v = d[:, None] + A
        return v.max(0) + x, sj.argmax(v, 0)

    d, back = sj.scan(step, x, [start, None])
    last = sj.argmax(d[-1])
    path = sj.scan(lambda back, at: back[at], back[1:], last, go_backwards=True)
    return sj.concatenate([path[::-1], last[None]])


def switching(x: Any, A: Any, mean: Any, spread: Any) -> Any:
    """The log-likelihood of three regimes."""
    import scanjit as sj

    def step(x: Any, a: Any) -> Any:
        z = (x - mean) / spread
        a = (a @ A) * sj.exp(-0.5 * z * z) / spread
        s = a.sum()
        return a / s, sj.log(s)

    return sj.scan(step, x, [sj.as_tensor(np.full(3, 1 / 3, x.dtype)), None])[1].sum()


def spiking(x: Any, W: Any) -> Any:
    """How often each neuron of a network fires."""
    import scanjit as sj

    def step(x: Any, v: Any, s: Any) -> Any:
        v = 0.9 * v * (1.0 - s) + x + s @ W
        return v, sj.where(v >= 1.0, 1.0, 0.0)

    rest = sj.zeros(x.shape[1], x.dtype)
    return sj.scan(step, x, [rest, rest])[1].sum(0)


def rnn(x: Any, R: Any) -> Any:
    """The last state of a plain recurrent network."""
    import scanjit as sj

    return sj.scan(lambda x, h: sj.tanh(x + h @ R), x, sj.zeros(x.shape[1], x.dtype))[-1]


def ctc(x: Any, label: Any) -> Any:
    """The logarithm of the probability of a label, over all ways to align it; blanks are symbol 0."""
    import scanjit as sj

    L = label.shape[0]
    own = sj.stack([sj.zeros(L, "int64"), label], axis=1).reshape((2 * L,))
    own = sj.concatenate([own, sj.zeros(1, "int64")])
    skips = sj.concatenate([sj.zeros(2, "bool"), (own[2:] != 0) & (own[2:] != own[:-2])])
    never = sj.full((2,), -1e30, x.dtype)

    def step(x: Any, a: Any) -> Any:
        two = sj.concatenate([never[:1], a[:-1]])
        three = sj.where(skips, sj.concatenate([never, a[:-2]]), -1e30)
        top = sj.maximum(sj.maximum(a, two), three)
        return top + sj.log(sj.exp(a - top) + sj.exp(two - top) + sj.exp(three - top)) + x[own]

    start = sj.concatenate([sj.zeros(1, x.dtype), sj.full((2 * L,), -1e30, x.dtype)])
    a = sj.scan(step, x, start)[-1]
    top = sj.maximum(a[-1], a[-2])
    return top + sj.log(sj.exp(a[-1] - top) + sj.exp(a[-2] - top))


# ---- tables: a scan in a scan ----------------------------------------------------------------------------------------


def table(x: Any, y: Any, row: Any, first: Callable[[Any], Any], cell: Callable[..., Any]) -> Any:
    """All rows of a table: `cell(x, y, up, diagonal, left)` is an entry, and `first` the first one of the next row."""
    import scanjit as sj

    def next_row(x: Any, row: Any) -> Any:
        begin = first(row[0])
        rest = sj.scan(lambda y, up, diagonal, left: cell(x, y, up, diagonal, left), [y, row[1:], row[:-1]], begin)
        return sj.concatenate([begin[None], rest])

    return sj.scan(next_row, x, row)


def edit(x: Any, y: Any) -> Any:
    """The edit distance of two words."""
    import scanjit as sj

    def cell(x: Any, y: Any, up: Any, diagonal: Any, left: Any) -> Any:
        return sj.minimum(sj.minimum(up + 1, left + 1), diagonal + sj.where(sj.not_equal(x, y), 1, 0))

    return table(x, y, sj.arange(y.shape[0] + 1), lambda begin: begin + 1, cell)[-1, -1]


def warping(x: Any, y: Any) -> Any:
    """The distance of two series under dynamic time warping."""
    import scanjit as sj

    def cell(x: Any, y: Any, up: Any, diagonal: Any, left: Any) -> Any:
        return abs(x - y) + sj.minimum(sj.minimum(up, left), diagonal)

    start = sj.concatenate([sj.zeros(1, x.dtype), sj.full((y.shape[0],), np.inf, x.dtype)])
    return table(x, y, start, lambda begin: sj.full_like(begin, np.inf), cell)[-1, -1]


def smith_waterman(x: Any, y: Any) -> Any:
    """The best score of a local alignment."""
    import scanjit as sj

    def cell(x: Any, y: Any, up: Any, diagonal: Any, left: Any) -> Any:
        matched = sj.maximum(0, diagonal + sj.where(sj.equal(x, y), 3, -3))
        return sj.maximum(matched, sj.maximum(up - 2, left - 2))

    return table(x, y, sj.zeros(y.shape[0] + 1, "int64"), lambda begin: begin, cell).max()


def needleman_wunsch(x: Any, y: Any) -> Any:
    """The score of the best global alignment."""
    import scanjit as sj

    def cell(x: Any, y: Any, up: Any, diagonal: Any, left: Any) -> Any:
        return sj.maximum(diagonal + sj.where(sj.equal(x, y), 1, -1), sj.maximum(up - 1, left - 1))

    return table(x, y, -sj.arange(y.shape[0] + 1), lambda begin: begin - 1, cell)[-1, -1]


# ---- cases -----------------------------------------------------------------------------------------------------------


def _by_python(module: str, loop: str, **arguments: Any) -> tape.Array:
    """The loop that is written for Numba, run by Python."""
    values = [value.value if isinstance(value, tape.Array) else value for value in arguments.values()]
    return tape.Array(getattr(importlib.import_module(f"benchmarks.cases.{module}"), loop).py_func(*values))


def case(
    name: str,
    model: Callable[..., Any],
    data: Callable[[Sizes, str, np.random.Generator], Arrays],
    free: Mapping[str, dict[int, str]],
    sizes: dict[str, int],
    value: tuple[str, ...] = (),
    loop: str = "",
    reference: Callable[..., tape.Array] | None = None,
    module: str = "byhand_numba",
) -> Case:
    """A recurrence and its `loop` in a module of loops for Numba; with a gradient of `p` if a `reference` has one."""
    loop = loop or model.__name__
    return Case(
        name=name,
        group="byhand",
        sizes=[sizes],
        quick={key: min(size, 20) for key, size in sizes.items()},
        data=data,
        reference=reference or partial(_by_python, module, loop),
        make={
            "scanjit": scanjit.program(lambda unroll, **symbols: model(**symbols)),
            "numba": numba.program(module, loop),
        },
        value=value,
        wrt=() if reference is None else ("p",),
        free=free,
        tolerance=(1e-3, 1e-8),
        dtypes=("float64",),
        kinds=("forward",) if reference is None else ("forward", "gradient"),
    )


LONG, MANY, SHORT = {"T": 10_000}, {"T": 100_000}, {"T": 300}
FREE = {"x": {0: "T"}}
TABLE = {"x": {0: "N"}, "y": {0: "M"}}
STATES = {"x": {0: "T", 1: "K"}, "A": {0: "K", 1: "K"}, "start": {0: "K"}}
UNITS = {"x": {0: "T", 1: "H"}, "W": {0: "H", 1: "H"}, "R": {0: "H", 1: "H"}}
P5 = [0.2, 0.3, 0.2, -0.5, 0.2]

CASES = [
    case("HMM, any number of states", hmm, chain, STATES, {**LONG, "K": 4}),
    case("HMM, known number of states", hmm, chain, FREE, {**LONG, "K": 4}),
    case("Viterbi, any number of states", viterbi, partial(chain, logarithms=True), STATES, {**LONG, "K": 8}, ("T",)),
    case("Viterbi, known number of states", viterbi, partial(chain, logarithms=True), FREE, {**LONG, "K": 8}, ("T",)),
    case("edit distance", edit, words, TABLE, SHORT),
    case("neuron with reset", neuron, partial(series, scale=1.0, shift=1.0), FREE, MANY),
    case("biquad", biquad, partial(series, p=P5), FREE, MANY, ("T",)),
    case("three biquads", cascade, partial(series, p=[P5] * 3), FREE, MANY, ("T",)),
    case("Lorenz", lorenz, partial(orbit, start=[1.0, 1.0, 1.0], p=[10.0, 15.0, 8 / 3]), {"T": {0: "T"}}, MANY, ("T",)),
    case(
        "Lorenz, a vector",
        lorenz_vector,
        partial(orbit, start=[1.0, 1.0, 1.0], p=[10.0, 15.0, 8 / 3]),
        {"T": {0: "T"}},
        MANY,
        ("T",),
        "lorenz",
    ),
    case("scalar Kalman", kalman, partial(series, p=[0.1, 1.0]), FREE, MANY, reference=kalman_tape),
    case("local linear trend", trend, partial(series, p=[0.1, 0.01, 1.0]), FREE, LONG),
    case("GJR-GARCH", gjr, partial(series, p=[0.1, 0.05, 0.1, 0.8]), FREE, MANY, reference=gjr_tape),
    case("AR(2)", ar2, partial(series, p=[0.5, 0.3]), FREE, MANY, reference=ar2_tape),
    case("drawdown", drawdown, series, FREE, MANY),
    case("Holt-Winters", holt_winters, partial(series, p=[0.3, 0.1, 0.2], season=np.linspace(-1, 1, 12)), FREE, MANY),
    case("SIR", sir, partial(series, p=[0.4, 0.1]), FREE, MANY, ("T",)),
    case("logistic map", logistic, partial(orbit, start=[0.3], p=[3.2]), {"T": {0: "T"}}, MANY, ("T",)),
    case("PID control", pid, partial(series, p=[2.0, 1.0, 0.01]), FREE, MANY, ("T",)),
    case("runs", runs, partial(words, names="x"), FREE, MANY),
    case("ratings", ratings, games, {name: {0: "T"} for name in ("i", "j", "won")}, LONG),
    case("bandit", bandit, series, FREE, LONG),
    case("regimes", switching, regimes, FREE, LONG),
    case("spiking network", spiking, partial(network, matrix="W", shift=0.3), FREE, {**LONG, "H": 8}, ("H",)),
    case("RNN, 4 units", rnn, partial(network, matrix="R"), FREE, {**LONG, "H": 4}, ("H",)),
    case("RNN, 16 units", rnn, partial(network, matrix="R"), FREE, {**LONG, "H": 16}, ("H",)),
    case("RNN, any number of units", rnn, partial(network, matrix="R"), UNITS, {**LONG, "H": 4}, ("H",)),
    case("CTC of a short label", ctc, labelled, {"x": {0: "T"}, "label": {0: "L"}}, {"T": 2_000, "L": 6}),
    case("time warping", warping, two_series, TABLE, SHORT),
    case("Smith-Waterman", smith_waterman, words, TABLE, SHORT),
    case("Needleman-Wunsch", needleman_wunsch, words, TABLE, SHORT),
]
