"""Random programs of few bits, and how far off they may be: float64 beside a bound of the error of each value.

Values are kept as bfloat16, float16 or float32, and products may be mixed. The oracle computes in float64 what exact
arithmetic gives, and with each value the largest error that the roundings before it explain:

- A result is rounded to its dtype: half a unit in the last place. What is beyond the dtype's range has no bound.
- Sums and products of n terms are computed in float32: n + 2 units of the sum of what their terms may be.
- Operands of mixed products are rounded once more: to bfloat16, or to a 254th of the largest number of their row.
- Errors of operands pass on by the slope of a function, which is 1 at most for all that are drawn here.
"""

from __future__ import annotations

import importlib.util
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import scanjit as sj
from scanjit.ir import Node
from scanjit.runtime.function import function
from tests.fuzz.check import Config, Mismatch, Outcome
from tests.fuzz.programs import SIZES, Program, give_sizes, size

Format = Literal["bfloat16", "int8"]
HALVES = ("float16", "bfloat16") if importlib.util.find_spec("ml_dtypes") else ("float16",)
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}
"""The largest relative error of a rounding."""
SMALLEST = {"float16": 2.0**-25, "bfloat16": 2.0**-126, "float32": 2.0**-126}
"""The largest error of rounding what is next to zero; processors may take tiny numbers for zero."""
LARGEST = {"float16": 65504.0, "bfloat16": 3.38e38, "float32": 3.4e38}
FUNCTION_UNITS = 16
"""Functions such as tanh are so many units of float32 off, at most, before their result is rounded."""
LONG = (16, 17, 24, 33)
"""Sizes of products that packs are made for, beside small ones."""
SMOOTH: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "arctan": np.arctan,
    "sigmoid": lambda x: 0.5 + 0.5 * np.tanh(x / 2),
    "softplus": lambda x: np.logaddexp(0, x),
}
"""Functions with slopes of at most 1."""


@dataclass(frozen=True)
class Near:
    """A value in float64, and how far from it a value of few bits may be."""

    value: np.ndarray
    error: np.ndarray

    @property
    def most(self) -> np.ndarray:
        """The largest magnitudes that it may have."""
        return np.abs(self.value) + self.error

    def moved(self, move: Callable[[np.ndarray], np.ndarray]) -> Near:
        """What only moves is as exact as before."""
        return Near(move(self.value), move(self.error))

    def rounded(self, dtype: Any) -> Near:
        """Rounded to a dtype."""
        name = str(dtype)
        error = self.error + UNIT[name] * self.most + SMALLEST[name]
        known = np.isfinite(error) & np.isfinite(self.value) & (np.abs(self.value) + error < LARGEST[name])
        return Near(np.where(known, self.value, 0.0), np.where(known, error, np.inf))

    def narrowed(self, axes: tuple[int, ...], format: Format | None) -> Near:
        """As an operand of a mixed product that is summed over these axes."""
        if format is None:
            return self
        if format == "bfloat16":
            return self.rounded("bfloat16")
        scale = np.max(self.most, axes, keepdims=True, initial=0.0) / 127
        return Near(self.value, self.error + 0.501 * scale + SMALLEST["float32"])


def added(a: Near, b: Near, dtype: Any, sign: int = 1) -> Near:
    """The sum or the difference."""
    return Near(a.value + sign * b.value, a.error + b.error).rounded(dtype)


def multiplied(a: Near, b: Near, dtype: Any) -> Near:
    """The product, element by element."""
    return Near(a.value * b.value, a.most * b.most - np.abs(a.value * b.value)).rounded(dtype)


def smooth(name: str, x: Near, dtype: Any) -> Near:
    """A function with a slope of at most 1."""
    value = SMOOTH[name](x.value)
    return Near(value, x.error + FUNCTION_UNITS * UNIT["float32"] * (1 + np.abs(value))).rounded(dtype)


def contracted(text: str, a: Near, b: Near, dtype: Any, format: Format | None) -> Near:
    """A product that is summed, as `einsum` says it."""
    (left, right), out = text.partition("->")[0].split(","), text.partition("->")[2]
    summed = [tuple(k for k, label in enumerate(labels) if label not in out) for labels in (left, right)]
    terms = int(np.prod([n for label, n in zip(left, a.value.shape, strict=True) if label not in out]))
    if str(dtype) != format:  # whose operands are bfloat16 already
        a, b = a.narrowed(summed[0], format), b.narrowed(summed[1], format)
    value, most = np.einsum(text, a.value, b.value), np.einsum(text, a.most, b.most)
    error = most - np.einsum(text, np.abs(a.value), np.abs(b.value)) + (terms + 2) * UNIT["float32"] * most
    return Near(value, error).rounded(dtype)


def totalled(x: Near, axis: int, dtype: Any, mean: bool) -> Near:
    """The sum or the mean over an axis."""
    count = x.value.shape[axis]
    error = x.error.sum(axis) + (count + 2) * UNIT["float32"] * x.most.sum(axis)
    with np.errstate(all="ignore"):
        found = Near(x.value.sum(axis), error)
        return (found.moved(lambda v: v / count) if mean else found).rounded(dtype)


Line = tuple[Callable[..., Near], tuple[int, ...]]


class Oracle:
    """The lines of a program, computed in float64 with bounds."""

    def __init__(self, format: Format | None) -> None:
        self.format: Format | None = format
        self.lines: list[Line | int] = []
        """How each value of the pool is computed, or which argument it is."""
        self.places: dict[Node, int] = {}

    def __call__(self, arguments: Sequence[np.ndarray]) -> list[Near]:
        """The value of each line."""
        found: list[Near] = []
        with np.errstate(all="ignore"):
            for line in self.lines:
                if isinstance(line, int):
                    wide = arguments[line].astype(np.float64)
                    found.append(Near(wide, np.zeros_like(wide)))
                else:
                    found.append(line[0](*(found[place] for place in line[1])))
        return found


class _Builder:
    """Grows matrices and their bounds, line by line."""

    def __init__(self, rnd: random.Random) -> None:
        self.rnd = rnd
        self.oracle = Oracle(rnd.choice((None, None, "bfloat16", "int8")))
        self.sizes: dict[Any, int] = {}
        self.dims = [self._dim() for _ in range(rnd.choice((1, 2, 2, 3)))]
        self.inputs: list[Node] = []
        self.pool: list[Node] = []

    def _dim(self) -> Any:
        number = self.rnd.choice(LONG) if self.rnd.random() < 0.4 else self.rnd.choice(SIZES)
        return size(self.sizes, number) if self.rnd.random() < 0.5 else number

    def input(self, shape: tuple[Any, ...] | None = None) -> None:
        """A new input, of few bits mostly."""
        shape = tuple(self.rnd.choice(self.dims) for _ in range(2)) if shape is None else shape
        dtype = self.rnd.choice((*HALVES, "float32"))
        self.inputs.append(sj.tensor(shape, dtype, f"x{len(self.inputs)}"))
        self._keep(self.inputs[-1], len(self.inputs) - 1)

    def _keep(self, node: Node, line: Line | int) -> None:
        self.oracle.places.setdefault(node, len(self.pool))
        self.oracle.lines.append(line)
        self.pool.append(node)

    def add(self, node: Node, compute: Callable[..., Near], *of: Node) -> Node:
        """A line: the node, and how its bounded value follows from those of others."""
        self._keep(node, (compute, tuple(self.oracle.places[x] for x in of)))
        return node

    def pick(self, fits: Callable[[Node], bool] = lambda node: True) -> Node | None:
        """A matrix that fits, the later the likelier."""
        found = [n for n in self.pool if n.ndim == 2 and fits(n)]
        return found[max(self.rnd.randrange(len(found)), self.rnd.randrange(len(found)))] if found else None

    def cast(self, x: Node, dtype: Any) -> Node:
        """A matrix in another dtype."""
        return x if x.dtype == dtype else self.add(sj.cast(x, dtype), lambda v: v.rounded(dtype), x)

    def grow(self) -> None:
        """One line more, or a few."""
        x = self.pick()
        assert x is not None
        self.rnd.choice((self._function, self._pair, self._pair, self._product, self._product, self._sum, self._move,
                         self._loop, self._change))(x)  # fmt: skip

    def _function(self, x: Node) -> None:
        if self.rnd.random() < 0.3:
            k = self.rnd.choice((0.5, 1.5, -2.0))
            exact = Near(np.float64(k), np.float64(0))
            self.add(x * k, lambda v: multiplied(v, exact, x.dtype), x)
            return
        name = self.rnd.choice(list(SMOOTH))
        self.add(getattr(sj, name)(x), lambda v: smooth(name, v, x.dtype), x)

    def _pair(self, x: Node) -> None:
        y = self.pick(lambda n: n.type.shape == x.type.shape)
        assert y is not None  # `x` itself fits
        way = self.rnd.randrange(4)
        if way == 3:
            made = sj.maximum(x, y)
            larger = lambda v, w: Near(np.maximum(v.value, w.value), np.maximum(v.error, w.error))
            self.add(made, larger, x, y)
            return
        made = (x + y, x - y, x * y)[way]
        self.add(
            made,
            (lambda v, w: multiplied(v, w, made.dtype))
            if way == 2
            else lambda v, w: added(v, w, made.dtype, 1 - 2 * way),
            x,
            y,
        )

    def _product(self, x: Node) -> None:
        text, fits = self.rnd.choice((
            ("ij,jk->ik", lambda n: n.type.shape[0] == x.type.shape[1]),
            ("ij,kj->ik", lambda n: n.type.shape[1] == x.type.shape[1]),
            ("ji,jk->ki", lambda n: n.type.shape[0] == x.type.shape[0]),
        ))  # fmt: skip
        y = self.pick(fits)
        if y is None:
            self.input((x.type.shape[1], self.rnd.choice(self.dims)))
            text, y = "ij,jk->ik", self.pool[-1]
        made = sj.einsum(text, x, y)
        self.add(made, lambda v, w: contracted(text, v, w, made.dtype, self.oracle.format), x, y)

    def _sum(self, x: Node) -> None:
        axis, mean = self.rnd.randrange(2), self.rnd.random() < 0.3
        # A vector
        total = self.add(x.mean(axis) if mean else x.sum(axis), lambda v: totalled(v, axis, x.dtype, mean), x)
        made = x - sj.expand_dims(total, axis)
        self.add(made, lambda v, t: added(v, t.moved(lambda a: np.expand_dims(a, axis)), x.dtype, -1), x, total)

    def _move(self, x: Node) -> None:
        move: Callable[[Any], Any] = self.rnd.choice((lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::-1]))
        self.add(move(x), lambda v: v.moved(move), x)

    def _change(self, x: Node) -> None:
        self.cast(x, np.dtype(sj.tensor((), self.rnd.choice((*HALVES, "float32"))).dtype))

    def _loop(self, x: Node) -> None:
        """A recurrence over the rows of a matrix, with a product in each step."""
        rows, units = x.type.shape
        y = self.pick(lambda n: n.type.shape == (units, units))
        if y is None:
            self.input((units, units))
            y = self.pool[-1]
        w = self.cast(y, x.dtype)
        states = sj.scan(
            lambda row, h: sj.tanh(row + (h @ w) * 0.25), x[:, None, :], sj.zeros((1, units), dtype=x.dtype)
        )
        made = states.reshape((rows, units))

        def compute(v: Near, w: Near) -> Near:
            quarter = Near(np.float64(0.25), np.float64(0))
            h = Near(np.zeros((1, v.value.shape[1])), np.zeros((1, v.value.shape[1])))
            found = [h.moved(lambda a: a[:0])]
            for t in range(len(v.value)):
                product = contracted("ij,jk->ik", h, w, x.dtype, self.oracle.format)
                row = v.moved(lambda a, t=t: a[t : t + 1])  # type: ignore[misc]
                h = smooth("tanh", added(row, multiplied(product, quarter, x.dtype), x.dtype), x.dtype)
                found.append(h)
            return Near(np.concatenate([s.value for s in found]), np.concatenate([s.error for s in found]))

        self.add(made, compute, x, w)


def few_bits(seed: int, most: int | None = None) -> Program:
    """A random program of few bits, with its oracle; see `programs.program`."""
    rnd = random.Random(f"few bits {seed}")
    b = _Builder(rnd)
    for _ in range(rnd.choice((1, 2, 3))):
        b.input()
    count = rnd.randint(1, 8)
    for _ in range(count if most is None else min(count, most)):
        b.grow()
    made = [n for n, line in zip(b.pool, b.oracle.lines, strict=True) if not isinstance(line, int)] or b.pool
    outputs = list(dict.fromkeys([made[-1], *(rnd.choice(made) for _ in range(rnd.choice((0, 1, 2))))]))
    give_sizes(b.inputs, b.sizes)
    return Program(seed, b.inputs, outputs, b.sizes, whole=False, wild=False, features={"few bits"}, oracle=b.oracle)


def check_bounds(p: Program, configs: Sequence[Config], runs: int = 2) -> Outcome:
    """Run a program of few bits in all these ways, and by the reference, and compare with its oracle."""
    outcome, rng, oracle = Outcome(), np.random.default_rng(p.seed), p.oracle
    assert oracle is not None
    outputs = [node for node in p.outputs if node in oracle.places]
    start = time.perf_counter()
    built = []
    for config in (Config("reference"), *configs):
        with config.active():
            f = function(p.inputs, outputs, mode=config.mode)
            built.append((config, f if oracle.format is None else sj.mixed(f, weights=oracle.format)))
    outcome.spent("few bits build", start)
    start = time.perf_counter()
    for sizes in p.bindings(rng, runs if p.sizes else 1):
        arguments = p.draw(rng, sizes)
        bounded = oracle(arguments)
        for config, compiled in built:
            with config.active(), np.errstate(all="ignore"):
                got = compiled(*arguments)
            outcome.runs += 1
            for node, found in zip(outputs, got, strict=True):
                _within(bounded[oracle.places[node]], found, f"{config}; products of {oracle.format}; {node!r}")
    outcome.spent("few bits run", start)
    return outcome


def _within(near: Near, got: np.ndarray, where: str) -> None:
    off = np.abs(got.astype(np.float64) - near.value)
    if got.shape != near.value.shape or not np.all((off <= near.error * (1 + 1e-6)) | np.isinf(near.error)):
        raise Mismatch(f"{where}: got\n{got!r}\nexpected\n{near.value!r}\nwithin\n{near.error!r}")
