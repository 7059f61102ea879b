"""Derivatives of batches of loops of derivatives, in any order, against the same without loops and batches.

Each transformation takes a function of a vector to another one, and is there twice: as users write it, and by hand. By
hand, a loop is unrolled, a batch is its examples one by one, and a gradient is found in forward mode (a forward
derivative in reverse mode). What is composed of the former must be what is composed of the latter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import scanjit as sj

N = 2
ROWS = np.array([[0.3, -0.5], [0.8, 0.1], [-0.4, 0.6]])
DIRECTION = np.array([0.7, -0.4])
SCALES = np.array([1.0, 0.5, -0.8])

Function = Callable[[Any], Any]  # of a vector of N numbers to a number


def unrolled(step: Callable[..., Any], rows: Any, state: Any) -> tuple[list[Any], Any]:
    """What a step returns first, of each row, and the last state."""
    said = []
    for row in rows:
        result, state = step(row, state)
        said.append(result)
    return said, state


# ---- loops to begin with ---------------------------------------------------------------------------------------------


def network_step(w: Any) -> Callable[..., Any]:
    def step(x: Any, h: Any) -> Any:
        h = np.tanh(x * w + h * w[::-1])
        return (h**2).sum(), h

    return step


def network(w: Any) -> Any:
    said, h = sj.scan(network_step(w), sj.constant(ROWS), [None, np.zeros(N)])
    return said.sum() + h[-1].prod()


def network_by_hand(w: Any) -> Any:
    said, h = unrolled(network_step(w), ROWS, np.zeros(N))
    return sum(said) + h.prod()


def garch_step(w: Any) -> Callable[..., Any]:
    def step(x: Any, v: Any) -> Any:
        v = 0.1 + w[0] ** 2 * x**2 + 0.5 * v
        return np.log(v) + (x - w[1]) ** 2 / v, v

    return step


def garch(w: Any) -> Any:
    return sj.scan(garch_step(w), sj.constant(ROWS[:, 0]), [None, 1.0], go_backwards=True)[0].sum()


def garch_by_hand(w: Any) -> Any:
    return sum(unrolled(garch_step(w), ROWS[::-1, 0], 1.0)[0])


def taps(w: Any) -> Any:
    start = dict(initial=sj.stack([w[0], w[1], w[0] * w[1]]), taps=[-3, -1])
    return sj.scan(lambda x, old, new: np.sin(x + old * new), sj.constant(ROWS[:, 1]), start).sum()


def taps_by_hand(w: Any) -> Any:
    values = [w[0], w[1], w[0] * w[1]]
    for x in ROWS[:, 1]:
        values.append(np.sin(x + values[-3] * values[-1]))
    return sum(values[3:])


def nested(w: Any) -> Any:
    def step(x: Any, h: Any) -> Any:
        return sj.foldl(lambda k, u: np.tanh(u * k + x), w, h)

    return sj.foldl(step, sj.constant(ROWS[:, 0]), w[0])


def nested_by_hand(w: Any) -> Any:
    h = w[0]
    for x in ROWS[:, 0]:
        for k in range(N):
            h = np.tanh(h * w[k] + x)
    return h


# ---- transformations -------------------------------------------------------------------------------------------------


def gradient(f: Function) -> Function:
    return lambda w: (sj.grad(f(w), w) * DIRECTION[::-1]).sum()


def gradient_by_hand(f: Function) -> Function:
    return lambda w: sum(sj.jvp(f(w), w, sj.constant(e)) * d for e, d in zip(np.eye(N), DIRECTION[::-1], strict=True))


def forward(f: Function) -> Function:
    return lambda w: sj.jvp(f(w), w, sj.constant(DIRECTION))


def forward_by_hand(f: Function) -> Function:
    def along(w: Any) -> Any:
        slope = sj.grad(f(w), w)
        return sum(slope[i] * DIRECTION[i] for i in range(N))

    return along


def batch(f: Function) -> Function:
    return lambda w: (sj.vmap(f)(SCALES[:, None] * w) * SCALES).sum()


def batch_of_columns(f: Function) -> Function:
    return lambda w: (sj.vmap(f, in_axes=1)(w[:, None] * SCALES) * SCALES).sum()


def batch_by_hand(f: Function) -> Function:
    return lambda w: sum(f(scale * w) * scale for scale in SCALES)


def loop(f: Function) -> Function:
    def looped(w: Any) -> Any:
        return sj.scan(lambda x, total: 0.5 * total + f(w + x * total), sj.constant(ROWS), sj.zeros(()))[-1]

    return looped


def loop_by_hand(f: Function) -> Function:
    def looped(w: Any) -> Any:
        total = sj.zeros(())
        for x in ROWS:
            total = 0.5 * total + f(w + x * total)
        return total

    return looped


def each(f: Function) -> Function:
    return lambda w: sj.map(f, SCALES[:, None] * w).sum()


def each_by_hand(f: Function) -> Function:
    return lambda w: sum(f(scale * w) for scale in SCALES)


Pair = tuple[Any, Any]
PROGRAMS: dict[str, Pair] = {
    "network": (network, network_by_hand),
    "garch": (garch, garch_by_hand),
    "taps": (taps, taps_by_hand),
    "nested": (nested, nested_by_hand),
}
CHANGES: dict[str, Pair] = {
    "gradient": (gradient, gradient_by_hand),
    "forward": (forward, forward_by_hand),
    "batch": (batch, batch_by_hand),
    "columns": (batch_of_columns, batch_by_hand),
    "loop": (loop, loop_by_hand),
    "each": (each, each_by_hand),
}


def composed(program: str, changes: list[str]) -> list[Function]:
    """As users write it, and by hand."""
    functions = list(PROGRAMS[program])
    for change in changes:
        functions = [wrap(f) for wrap, f in zip(CHANGES[change], functions, strict=True)]
    return functions


def compare(program: str, changes: list[str], modes: tuple[str, ...]) -> None:
    w = sj.tensor((N,), name="w")
    found, wanted = (f(w) for f in composed(program, changes))
    point = np.array([0.6, -0.35])
    expected = sj.function([w], wanted, mode="reference")(point)
    for mode in modes:
        np.testing.assert_allclose(sj.function([w], found, mode=mode)(point), expected, rtol=1e-8, atol=1e-9)


@settings(max_examples=12, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(list(PROGRAMS)), st.lists(st.sampled_from(list(CHANGES)), min_size=1, max_size=3))
def test_any_composition(program: str, changes: list[str]) -> None:
    compare(program, changes, ("reference",))


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("program", "changes"),
    [
        ("network", ["gradient", "batch"]),
        ("taps", ["batch", "loop", "gradient"]),
        ("garch", ["gradient", "forward"]),
        ("nested", ["forward", "columns", "gradient"]),
        ("network", ["loop", "gradient", "each"]),
    ],
    ids=lambda x: x if isinstance(x, str) else "-".join(x),
)
def test_the_code_of_some(program: str, changes: list[str]) -> None:
    compare(program, changes, ("reference", "emulate"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_second_order_against_finite_differences(program: str) -> None:
    f, _ = composed(program, ["batch"])
    sj.check_grad(f, [np.array([0.6, -0.35])], order=2)
