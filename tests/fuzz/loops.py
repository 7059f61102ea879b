"""Random loops: `scan` with every option, and its relatives."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import scanjit as st
from scanjit.ir import Node, dim_node
from scanjit.loops import foldl, foldr, map, reduce, scan, until
from scanjit.types import Dim, Dimension
from tests.fuzz.builder import Builder

TAPS = ([0], [0], [0], [-1, 0], [0, 1], [-2], [-1, 0, 2], [1])
WIDE = 34
"""Units of a layer whose products have several register tiles of columns, whatever the width of a vector."""
PAST = ([-1], [-1], [-1], [-1], [-2, -1], [-3, -1], [-2], [-1, -2])


class _Output:
    """One output of a random step: whether and how it is fed back, and how the step makes it."""

    def __init__(self, b: Builder, small: bool) -> None:
        rnd = b.rnd
        self.fed = b.chance(0.7)
        rank = rnd.choice((0, 0, 1, 1, 1, 2))
        self.shape: tuple[Dimension, ...] = tuple(
            rnd.choice((2, 3, 1)) if b.chance(0.25) else b.dim() for _ in range(rank)
        )
        if b.count(self.shape) > (60 if small else 300):
            self.shape = self.shape[:1]
        self.dtype = rnd.choice(("float64",) * 5 + ("float32",) * 4 + ("int64", "bool", "int32"))
        self.taps = list(rnd.choice(PAST))
        self.way = rnd.choice(
            ("mix",) * 6 + ("linear", "linear", "product", "product", "swap", "swap", "echo", "constant", "same", "raw")
        )
        self.initial: Any = None
        self.stacked = self.taps != [-1]
        if self.fed:
            lead = -min(self.taps)
            shape = self.shape if self.taps == [-1] else (lead, *self.shape)
            way = rnd.randrange(5)
            if way == 0:
                self.initial = st.zeros(shape, self.dtype)
            elif way == 1 and not self.shape and self.taps == [-1] and self.dtype == "float64":
                self.initial = 0.5
            else:
                self.initial = b.fitted(b.some("f" if self.dtype.startswith("f") else "iub"), shape, self.dtype)

    @property
    def info(self) -> Any:
        """The entry of `outputs_info`."""
        if not self.fed:
            return None
        return {"initial": self.initial, "taps": self.taps} if self.stacked else self.initial

    def reach_further(self, lag: Any, rows: int) -> None:
        """Let the longest tap be another one, which may be a scalar; there are so many rows before the first step."""
        if isinstance(self.initial, Node):
            known = self.initial if self.stacked else st.stack([self.initial])
            self.stacked = True
            self.initial = st.concatenate([known] * (rows // -min(self.taps) + 1))
            self.taps = [tap for tap in self.taps if tap != min(self.taps)] + [-lag]


def _body(b: Builder, rnd: random.Random, rows: list[Node], past: list[list[Node]], others: list[Node],
          outputs: list[_Output], captured: list[Node], size: int) -> tuple[list[Node], Builder]:  # fmt: skip
    inner = Builder(
        rnd, [*captured, *others, *rows, *(p for group in past for p in group)], b.dims, b.sizes, b.depth + 1,
        b.exact,
    )  # fmt: skip
    if not inner.pool:
        inner.pool.append(inner.constant((), "float64"))
    inner.grow(size)
    results = []
    for i, output in enumerate(outputs):
        before = past[i][-1] if output.fed else None
        results.append(_result(inner, output, before, rows, [p for group in past for p in group], captured))
    return results, inner


def _result(
    b: Builder, output: _Output, before: Node | None, rows: list[Node], past: list[Node], captured: list[Node]
) -> Node:
    kind = output.dtype
    floating = kind.startswith("f")
    if before is None:
        if b.chance(0.3) and rows:
            return b.rnd.choice(rows)
        return b.some("f" if b.chance(0.9) else "")
    if output.way == "same":
        return before
    if output.way == "echo" and rows:
        return b.fitted(b.rnd.choice(rows), output.shape, kind)
    if output.way == "constant" and captured:
        return b.fitted(b.rnd.choice(captured), output.shape, kind)
    if output.way == "swap":
        other = b.rnd.choice(past)
        return b.fitted(other, output.shape, kind) if other.dtype.kind in "f" or not floating else before
    if not floating:
        value = b.fitted(b.steady("iub"), output.shape, kind)
        if kind == "bool":
            return before ^ value
        return (before + value) % 11 if b.chance(0.7) else before + 1
    value = b.fitted(b.some("f"), output.shape, kind)
    if output.way == "product" and before.ndim:
        n = before.type.shape[-1]
        matrix = b.fitted(b.some("f"), (n, n), kind)
        return st.tanh(st.dot(before, matrix) * 0.3 + value)
    if output.way == "linear":
        return st.sigmoid(value) * before + st.tanh(value)
    if output.way == "raw":
        return b.tame(value)
    return 0.5 * before + st.tanh(value) if b.chance(0.5) else st.tanh(before + value)


def _small(b: Builder) -> Any:
    """A number from 1 to 3 that is computed, where there is something to compute it of."""
    found = [node for node in b.pool if node in b.exact and node.dtype.kind in "iu" and not node.ndim]
    return st.cast(found[-1], "int64") % 3 + 1 if found else 10


def looped(b: Builder) -> None:
    """A scan; its results, or what is made of them, join the pool."""
    if b.depth >= 2 or (b.depth and b.chance(0.3)):
        return
    rnd = b.rnd
    length = rnd.choice(b.dims)
    if b.number(length) > 8 and b.depth:
        return
    seqs: list[Any] = []
    rows_of: list[Node] = []
    for _ in range(rnd.choice((0, 1, 1, 1, 2, 2, 3))):
        x = b.pick(lambda n: n.ndim > 0 and n.type.shape[0] == length, "f" if b.chance(0.85) else "")
        if x is None:
            if b.make_input is not None and b.chance(0.8):
                x = b.make_input((length, *b.shape(2)), rnd.choice(("float64", "float32")))
            else:
                x = b.fitted(b.some("f"), (length, *b.shape(1)))
        rows_of.append(x)
        taps = list(rnd.choice(TAPS))
        seqs.append(x if taps == [0] and b.chance(0.7) else {"input": x, "taps": taps})
    n_steps: Any = None
    if not seqs or b.chance(0.12):
        way = rnd.randrange(4)
        if seqs:
            n_steps = rnd.choice((0, 1, 1, 2)) if b.number(length) >= 4 else 0
        elif way == 0 and isinstance(length, Dim):
            n_steps = dim_node(length)
        else:
            n_steps = rnd.choice((0, 1, 2, 3, 4, 5))
    outputs = [_Output(b, bool(b.depth)) for _ in range(rnd.choice((1, 1, 2, 2, 3)))]
    others = [b.some() for _ in range(rnd.choice((0, 0, 0, 1, 2)))]
    captured = [b.some("f") for _ in range(rnd.choice((0, 0, 1, 2, 3)))]
    if b.depth == 0 and b.chance(0.2):  # something is given twice
        if seqs and b.chance(0.5):
            seqs.append(seqs[0])
        elif others:
            others.append(others[0])
    taps_of = [1 if not isinstance(s, dict) else len(s["taps"]) for s in seqs]
    seed, size = rnd.getrandbits(32), rnd.choice((0, 1, 2, 3, 4, 6, 8) if not b.depth else (0, 1, 2, 3))
    stops = b.chance(0.12)
    if seed // 8 % 6 == 0:
        lag = (9, 12, dim_node(b.dims[seed % len(b.dims)]) % 3 + 1, _small(b))[seed // 64 % 4]
        outputs[seed // 256 % len(outputs)].reach_further(lag, 12)

    def step(*args: Node) -> Any:
        given = list(args)
        rows = [given.pop(0) for n in taps_of for _ in range(n)]
        past = [[given.pop(0) for _ in o.taps] if o.fed else [] for o in outputs]
        results, inner = _body(b, random.Random(seed), rows, past, given, outputs, captured, size)
        value: Any = results[0] if len(results) == 1 and seed % 2 else tuple(results)
        if not stops:
            return value
        whole = [r for r in (*rows, *results) if r.dtype.kind in "iub" and r.ndim == 0]
        condition = whole[0] == 1 if whole else st.sum(st.cast(inner.some("f"), "float64")) > 1.5
        return value, until(condition)

    options: dict[str, Any] = {}
    static = isinstance(n_steps, int) or (n_steps is None and isinstance(length, int))
    if b.chance(0.2):
        options["go_backwards"] = True
    if b.chance(0.12):
        options["truncate_gradient"] = rnd.choice((1, 2, 3))
    if b.chance(0.12):
        options["unroll"] = True if static and not stops and b.chance(0.5) else rnd.choice((2, 3))
    if b.chance(0.12):
        options["checkpoint"] = rnd.choice(("sqrt", "all", 2))
    elif seed % 4 == 0:
        options["checkpoint"] = ("sqrt", 1, 2, 3)[seed // 4 % 4]
    made = scan(
        step,
        sequences=seqs or None,
        outputs_info=[o.info for o in outputs],
        non_sequences=others or None,
        n_steps=n_steps,
        return_list=True,
        **options,
    )
    for ys in made:
        if ys.dtype.kind != "f":
            b.exact.add(ys)
        use(b, ys, n_steps)


def use(b: Builder, ys: Node, n_steps: Any) -> None:
    """Put the stacked results of a loop into the pool, whole or read in a way that a compiler may see through."""
    way = b.rnd.randrange(9)
    rows = ys.type.shape[0]
    some = (b.number(rows) > 0 and b.chance(0.7)) or (isinstance(rows, int) and rows > 0)
    exact = ys in b.exact
    if way <= 1 and some:
        ys = ys[-1]
    elif way == 2:
        ys = ys[::-1]
    elif way == 3 and ys.dtype.kind == "f":
        ys, exact = st.sum(ys, 0), False
    elif way == 4:
        ys = ys[1:]
    elif way == 5 and ys.dtype.kind == "f":
        b.add(ys[-1] if some else ys[:2])
    b.add(ys)
    if exact:
        b.exact.add(ys)


def folded(b: Builder) -> Node | None:
    """map, reduce, foldl, foldr."""
    if b.depth:
        return None
    x = b.need(lambda n: n.ndim > 0, "f")
    seed = b.rnd.getrandbits(32)
    way = b.rnd.choice((map, reduce, foldl, foldr))
    if way is map:

        def step(row: Node) -> Node:
            inner = Builder(random.Random(seed), [row], b.dims, b.sizes, b.depth + 1, b.exact)
            inner.grow(2)
            return inner.some("f")

        return map(step, x, go_backwards=b.chance(0.3))
    initial = b.fitted(b.some("f"), x.type.shape[1:], x.dtype)
    return way(lambda row, h: st.tanh(0.5 * h + row), x, initial)


def recurrent(b: Builder) -> None:
    """A layer as people write them: states of (batch, units), products with weights, gates; and its outputs."""
    rnd = b.rnd
    if b.depth or b.make_input is None:
        return
    length, batch, units, features = (rnd.choice(b.dims) for _ in range(4))
    wide = b.count((length, features)) % 3 == 1
    if wide:  # a step of one row, whose products have several register tiles
        batch, units = 1, WIDE
    if b.count((length, batch, units)) > 400 or b.count((length, batch, units, units)) > 4000 << 2 * wide:
        return
    dtype = rnd.choice(("float32", "float32", "float64"))
    kind = rnd.choice(("lstm", "gru", "rnn", "linear", "masked", "attention"))
    gates = {"lstm": 4, "gru": 3}.get(kind, 1)
    x = b.make_input((length, batch, features), dtype)
    w = b.make_input((features, units * gates), dtype)
    r = b.make_input((units, units * gates), dtype) * 0.3
    zero = st.zeros((batch, units), dtype)
    bias = b.fitted(b.some("f"), (units,), dtype)
    mask = st.cast(b.fitted(b.steady("iub"), (length, batch), "int32") > 0, "bool")

    def gate(z: Node, k: int) -> Node:
        return z[:, k * units : (k + 1) * units]

    def lstm(x_t: Node, h: Node, c: Node) -> list[Node]:
        z = st.dot(x_t, w) + st.dot(h, r)
        c = st.sigmoid(gate(z, 0)) * c + st.sigmoid(gate(z, 1)) * st.tanh(gate(z, 2) + bias)
        return [st.sigmoid(gate(z, 3)) * st.tanh(c), c]

    def gru(x_t: Node, h: Node) -> Node:
        a, p = st.dot(x_t, w), st.dot(h, r)
        u, reset = st.sigmoid(gate(a, 0) + gate(p, 0)), st.sigmoid(gate(a, 1) + gate(p, 1))
        return u * h + (1 - u) * st.tanh(gate(a, 2) + reset * gate(p, 2) + bias)

    def masked(x_t: Node, m: Node, h: Node) -> Node:
        return st.where(st.dimshuffle(m, 0, "x"), st.tanh(st.dot(x_t, w) + st.dot(h, r)), h)

    def attention(x_t: Node, h: Node) -> Node:
        weights = st.softmax(st.dot(h, st.dot(x_t, w).T), -1) if b.number(batch) else h[:, :0]
        return st.tanh(h + st.dot(weights, h)) if b.number(batch) else h

    options: dict[str, Any] = {"go_backwards": True} if b.chance(0.25) else {}
    if b.chance(0.15):
        options["unroll"] = True if isinstance(length, int) else 2
    if b.chance(0.1):
        options["truncate_gradient"] = 2
    options["checkpoint"] = (None, "sqrt", 1, "all", 3)[b.count((length, batch, units)) % 5]
    steps: dict[str, tuple[Any, Any, Any]] = {
        "lstm": (lstm, x, [zero, zero]),
        "gru": (gru, x, zero),
        "rnn": (lambda x_t, h: st.tanh(st.dot(x_t, w) + st.dot(h, r) + bias), x, zero),
        "linear": (lambda x_t, h: h * st.sigmoid(bias) + st.dot(x_t, w), x, zero),
        "masked": (masked, [x, mask], zero),
        "attention": (attention, x, zero),
    }
    fn, sequences, initial = steps[kind]
    if kind != "masked" and b.chance(0.4):
        fn, sequences = _held(b, fn), [sequences, mask]
    made = scan(fn, sequences=sequences, outputs_info=initial, return_list=True, **options)
    for ys in made:
        use(b, ys, None)


def _held(b: Builder, fn: Callable[..., Any]) -> Callable[..., Any]:
    """A step that leaves the state as it is where a mask says so; written in one of the ways that people use."""
    way = b.rnd.randrange(4)

    def step(x_t: Node, m: Node, *old: Node) -> list[Node]:
        made = fn(x_t, *old)
        column = st.dimshuffle(m, 0, "x")
        held = []
        for new, before in zip(made if isinstance(made, list) else [made], old, strict=True):
            if way == 0:
                held.append(st.where(~column, before, new))
            elif way == 1:
                weight = st.cast(column, new.dtype)
                held.append(weight * new + (1 - weight) * before)
            else:
                held.append(st.where(column, new, before))
        if way == 2:
            held[0] = st.where(column, held[0], 0)
        return held

    return step


def sized(b: Builder) -> None:
    """Sizes that are computed: slices up to a value, ranges, numbers of steps, single rows."""
    if b.depth:
        return
    n = b.pick(lambda k: k.ndim == 0 and k in b.exact, "iu")
    if n is None or b.chance(0.2):
        given = b.steady("iub")
        n = st.cast(st.sum(given) if given.ndim else given, "int64")
    n = n % b.rnd.choice((2, 3, 4))
    n = st.cast(n, "int64")
    b.exact.add(n)
    x = b.pick(lambda k: k.ndim > 0, "f")
    way = b.rnd.randrange(6)
    if way == 0 and x is not None:
        b.add(x[:n])
    elif way == 1 and x is not None:
        b.add(x[n:])
    elif way == 2 and x is not None and b.number(x.type.shape[0]) > 0:
        b.add(x[n])
    elif way == 3:
        b.exact.add(b.add(st.arange(n)))
    elif way == 4 and x is not None:
        b.add(x[::-1][n : n + 2])
    else:
        initial = b.fitted(b.some("f"), b.shape(2))
        use(b, scan(lambda h: st.tanh(h * 0.7 + 0.1), outputs_info=initial, n_steps=n), None)


PRODUCTIONS: tuple[tuple[float, Callable[[Builder], Node | None]], ...] = (
    (6, looped),
    (0.7, folded),
    (1.5, recurrent),
    (0.7, sized),
)
