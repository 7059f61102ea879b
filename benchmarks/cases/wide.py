"""Recurrences with a wide elementwise state: as many independent series as there are columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Sizes, Work
from benchmarks.cases.common import Draw, loop
from benchmarks.engines import jax, scanjit

ELEMENTS = 2**20
"""So many elements go through a call, about, but at least so many steps:"""
STEPS = 32
COLUMNS = (256, 1000, 4099, 65536)


class Recurrence(NamedTuple):
    """A step: `(module with functions, row of x, weights, states) -> states`; the first state is the result."""

    weights: int
    states: int
    step: Callable[[Any, Any, Sequence[Any], Sequence[Any]], tuple[Any, ...]]


def gated(module: Any, x: Any, weights: Sequence[Any], states: Sequence[Any]) -> tuple[Any, Any]:
    """Two states that need each other, through tanh and sigmoid."""
    (a, b), (h, c) = weights, states
    gate = module.sigmoid(x + a * h)
    c = gate * c + (1 - gate) * module.tanh(x + b * h)
    return module.tanh(c) * gate, c


def smoothing(module: Any, x: Any, weights: Sequence[Any], states: Sequence[Any]) -> tuple[Any]:
    """Exponential smoothing."""
    return (states[0] + weights[0] * (x - states[0]),)


def leaky(module: Any, x: Any, weights: Sequence[Any], states: Sequence[Any]) -> tuple[Any, Any]:
    """A leaky integrator of a leaky integrator, with a soft bound."""
    (a, b), (v, r) = weights, states
    r = b * r + x
    return a * v + r / (1 + v * v), r


def case(name: str, recurrence: Recurrence, known: bool) -> Case:
    """The case of a recurrence whose number of columns is known, or not."""
    weights = tuple(f"w{i}" for i in range(recurrence.weights))
    states = tuple(f"s{i}" for i in range(recurrence.states))

    def data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
        draw, columns = Draw(rng, dtype), sizes["N"]
        found = {"x": draw.normal(sizes["T"], columns)}
        found |= {weight: draw.uniform(0.2, 0.8, columns) for weight in weights}
        return found | {state: draw.normal(columns, scale=0.1) for state in states}

    def parts(given: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        return [given[name] for name in weights], [given[name] for name in states]

    def reference(x: Any, **given: Any) -> Any:
        fixed, carried = parts(given)
        return tape.stack(loop(lambda x_t, *carried: recurrence.step(tape, x_t, fixed, carried), x, carried))

    def by_scanjit(x: Any, unroll: int | bool, **given: Any) -> Any:
        import scanjit as sj

        fixed, carried = parts(given)
        step = lambda x_t, *carried: recurrence.step(sj, x_t, fixed, carried)
        return sj.scan(step, x, carried, unroll=unroll, return_list=True)[0]

    def by_jax(x: Any, **given: Any) -> Any:
        from jax import nn, numpy as jnp

        class Functions:
            tanh, sigmoid = staticmethod(jnp.tanh), staticmethod(nn.sigmoid)

        fixed, carried = parts(given)

        step = lambda x_t, *carried: recurrence.step(Functions, x_t, fixed, carried)
        return jax.scan(step, x, tuple(carried))

    row, column = {0: "T"}, {0: "N"}
    return Case(
        name=f"{name}, {'known' if known else 'any'} number of columns",
        group="wide",
        sizes=[{"T": max(ELEMENTS // columns, STEPS), "N": columns} for columns in COLUMNS],
        quick={"T": 5, "N": 37},
        data=data,
        reference=reference,
        make={"scanjit": scanjit.program(by_scanjit), "jax": jax.program(by_jax)},
        value=("T", "N"),
        wrt=("x", *weights, *states),
        free={"x": row} if known else {"x": row | {1: "N"}, **dict.fromkeys((*weights, *states), column)},
        work=lambda sizes, itemsize: Work(stream=2.0 * itemsize * sizes["T"] * sizes["N"], footprint=16.0 * ELEMENTS),
        dtypes=("float32", "float64"),
    )


CASES = [
    case("gated state", Recurrence(2, 2, gated), True),
    case("gated state", Recurrence(2, 2, gated), False),
    case("exponential smoothing", Recurrence(1, 1, smoothing), False),
    case("leaky integrators", Recurrence(2, 2, leaky), False),
]
