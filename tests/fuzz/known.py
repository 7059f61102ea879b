"""Random loops whose states have known sizes, and often as many columns as vectors have lanes: in the registers of one
thread, steps read and change their rows, columns and windows."""

from __future__ import annotations

import random
from typing import Any

import scanjit as st
from scanjit.ir import Node
from scanjit.types import Atom, Dimension
from tests.fuzz import productions as p
from tests.fuzz.builder import Builder, Weighed
from tests.fuzz.programs import Program, differentiate, size

SIZES = (*range(1, 18), *(2, 4, 4, 8, 8, 16) * 6)


def _window(b: Builder) -> Node:
    """A piece of a matrix, or a matrix with another piece, as if its rows were one."""
    x = b.need(lambda n: n.ndim > 1 and b.count(n.type.shape) > 2, "f")
    flat = st.ravel(x)
    first = b.rnd.randrange(b.count(x.type.shape) - 1)
    piece = flat[first : first + b.rnd.randint(1, b.number(x.type.shape[-1]) + 1)]
    if b.chance(0.5):
        return piece
    value = b.fitted(b.some("f"), piece.type.shape, x.dtype)
    return st.reshape(piece.set(value) if b.chance(0.5) else piece.inc(value), x.type.shape)


STEPS: Weighed = (
    (p.unary, p.binary, p.reduced, p.reordered, p.sliced, p.reshaped, p.joined, p.written, p.product, p.chosen,
     p.compared, p.integers, p.position, p.running, p.moving, p.gathered, _window),
    (4, 8, 8, 6, 4, 3, 2, 3, 8, 1, 1, 1, 1, 1, 2, 1, 4),
)  # fmt: skip


def known(seed: int, most: int | None = None) -> Program:
    """A loop of an unknown number of steps; see `programs.program`."""
    rnd = random.Random(f"known {seed}")
    n, m = rnd.choice(SIZES), rnd.choice(SIZES)
    sizes: dict[Atom, int] = {}
    length = size(sizes, rnd.randint(1, 5))
    inputs, exact = list[Node](), set[Node]()
    dtype = rnd.choice(("float64", "float32"))

    def input(shape: tuple[Dimension, ...], dtype: str) -> Node:
        inputs.append(st.tensor(shape, dtype, f"x{len(inputs)}"))
        exact.add(inputs[-1])
        return inputs[-1]

    def shape() -> tuple[Dimension, ...]:
        return rnd.choice(((n, n), (n, n), (n, n), (m, n), (n, m), (2, n, m), (n,), (3, n)))

    rows = [input((length, *shape()), dtype) for _ in range(rnd.choice((1, 1, 2)))]
    others = ("int64", "bool", "float32", "float64")
    starts = [input(shape(), rnd.choice((dtype,) * 8 + others)) for _ in range(rnd.choice((1, 1, 2, 3)))]
    weights = input((n, n), dtype) * 0.3
    count, more = rnd.randint(0, 6), rnd.choice((0, 0, 1, 2))
    choices = rnd.getrandbits(32)

    def step(*given: Node) -> list[Node]:
        states = given[len(rows) :]
        b = Builder(random.Random(choices), [weights, *given], [n, n, m], sizes, 2, exact)
        b.grow(count if most is None else min(count, most), STEPS)
        return [*(_next(b, state) for state in states), *(b.some() for _ in range(more))]

    turned = rnd.random() < 0.2
    made = st.scan(step, rows, [*starts, *[None] * more], go_backwards=turned, return_list=True)
    outputs = [ys[-1] if rnd.random() < 0.6 else ys for ys in made]
    program = Program(seed, inputs, outputs, sizes, whole=False, wild=False, features={"known sizes"})
    floats = [ys for ys in outputs if ys.dtype.kind == "f"]
    if rnd.random() < 0.4 and floats:
        differentiate(program, rnd, floats, [x for x in inputs if x.dtype.kind == "f"], rnd.random())
    return program


def _next(b: Builder, state: Node) -> Any:
    """What becomes of a state in a step."""
    if state.dtype.kind != "f":
        value = b.fitted(b.steady("ib"), state.type.shape, state.dtype)
        return state ^ value if state.dtype.kind == "b" else (state + value) % 11
    value = b.fitted(b.some("f"), state.type.shape, state.dtype)
    way = b.rnd.randrange(4)
    return value if way == 0 else b.tame(value) if way == 1 else st.tanh(state * 0.5 + value)
