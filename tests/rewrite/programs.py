"""Random small programs with scans: a step is drawn op by op from what is there already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scanjit import types
from scanjit.autodiff import grad
from scanjit.ir import OPS, Node, apply, constant
from scanjit.loops import scan, until
from scanjit.ops.extremes import MAX
from scanjit.ops.shape import CONCATENATE, SET_SLICE
from scanjit.ops.stretch import full
from tests.rewrite.support import cut, fn, mm, symbol, total, view

H = 4


class Draw:
    """A source of choices."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))


def _matrices(pool: list[Node]) -> list[Node]:
    return [x for x in pool if x.ndim == 2 and _fits(x)]


def _fits(x: Node) -> bool:
    """Whether a node is (B, H): what all matrices in a step are."""
    return x.type.shape == (types.size("B"), H)


def _binary(d: Draw, pool: list[Node]) -> Node:
    a, b = d.one(pool), d.one(pool)
    return apply(OPS[d.one(["add", "sub", "mul", "maximum"])], a, b)


def _unary(d: Draw, pool: list[Node]) -> Node:
    x = d.one(pool)
    return d.one(
        [
            lambda: fn("tanh", x),
            lambda: fn("sigmoid", x),
            lambda: -x,
            lambda: x * d.one([0.0, 1.0, 2.0, -1.0]),
            lambda: x + d.one([0.0, 1.0]),
            lambda: fn("exp", fn("tanh", x)),
            lambda: fn("where", x > 0, x, x * 0.5),
        ]
    )()


def _sliced(d: Draw, pool: list[Node]) -> Node:
    x, k = d.one(_matrices(pool)), d.number(1, H - 1)
    halves = [cut(x, 0, k), cut(x, k, H)]
    if d.chance(0.5):
        halves = [fn("tanh", halves[0]), halves[1] * 2.0]
    if d.chance(0.3):
        zeros = full(0.0, x.type.shape)
        return SET_SLICE(zeros, halves[0], start=(0, 0), step=(1, 1))
    return CONCATENATE(*(halves if d.chance(0.5) else halves[::-1]), axis=1)


def _reduced(d: Draw, pool: list[Node]) -> Node:
    x = d.one(_matrices(pool))
    return d.one(
        [
            lambda: total(x),
            lambda: total(x, 0),
            lambda: view(total(x, 1), 0, None) + full(0.0, x.type.shape),
            lambda: view(MAX(x, axes=(1,)), 0, None) * x,
        ]
    )()


def step_of(d: Draw, inputs: Sequence[Node], weights: Sequence[Node], ops: int) -> list[Node]:
    """Values that a step computes from its inputs."""
    pool = list(inputs)
    for _ in range(ops):
        make: Callable[[Draw, list[Node]], Node] = d.one([_binary, _unary, _unary, _sliced, _reduced, None, None]) or (
            lambda d, pool: mm(d.one(_matrices(pool)), d.one(weights))
        )
        pool.append(make(d, pool))
    return pool


def _as(x: Node, like: Node) -> Node:
    """A value as a carry like another, kept from growing."""
    if like.ndim == 0:
        x = total(x) if x.ndim else x
    elif x.ndim > like.ndim:
        x = total(x, 0)
    return fn("tanh", x * 0.5) + like * 0.0 if x.type.shape != like.type.shape else fn("tanh", x * 0.5)


def program(seed: int, gradient: bool) -> list[Node]:
    """The outputs of a program: a scan, maybe a second one over its results, and maybe gradients of it all."""
    d = Draw(seed)
    x, r, s = symbol("x", "T", "B", H), symbol("r", "T", H), symbol("s", "T")
    weights = [symbol(f"W{k}", H, H) for k in range(2)]
    bias, a = symbol("b", H), symbol("a")
    inits = [symbol("h", "B", H), symbol("c", "B", H), symbol("v", H), constant(0.5)]
    wrt = [x, r, s, *weights, bias, a, inits[0]]
    outs = [total(x), *_one(d, [x, r, s], weights, [bias, a], inits)]  # x says what B is
    if d.chance(0.3):
        rows = [y for y in outs if y.ndim == 3 and y.type.shape[1:] == (types.size("B"), H)]
        if rows and d.chance(0.8):
            outs = outs + _one(d, [d.one(rows), s], weights, [bias, a], inits[:2])
    if not gradient:
        return outs
    cost = sum((total(fn("tanh", y)) if y.ndim else y for y in outs), constant(0.0))
    if d.chance(0.3):
        cost = cost * cost
    return [cost, *outs[:1], *(g for g in grad(cost, wrt, disconnected="zero") if g is not None)]


def _one(d: Draw, sequences: list[Node], weights: list[Node], others: list[Node], inits: list[Node]) -> list[Node]:
    chosen = [x for x in sequences if d.chance(0.7)] or sequences[:1]
    starts = [h for h in inits if d.chance(0.6)] or inits[:1]
    ends = d.chance(0.15)
    counted = d.number(0, 2)

    def step(*args: Node) -> Any:
        rows, carries = args[: len(chosen)], args[len(chosen) :]
        base = full(0.1, (types.size("B"), H))
        pool = step_of(d, [*args, *others, base], weights, d.number(3, 12))
        made = pool[len(args) + len(others) + 1 :]
        new = []
        for carry in carries:
            kind = d.number(0, 5)
            picked = d.one(made)
            if kind == 0 and picked.type.shape == carry.type.shape:
                new.append(carry + picked * 0.1)  # an accumulator, if nothing else reads it
            elif kind == 1:
                new.append(carry)
            else:
                new.append(_as(picked, carry))
        ys = [d.one([*pool, *rows]) for _ in range(counted)]
        return ([*new, *ys], until(total(new[0]) > 0.5)) if ends else [*new, *ys]

    return scan(step, chosen, [*starts, *[None] * counted], go_backwards=d.chance(0.2), return_list=True)
