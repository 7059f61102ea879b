"""Batches of `ifelse`, and of loops that end at different steps: nothing comes of what an example does not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import ir
from scanjit.ops.stretch import BROADCAST_TO
from scanjit.rewrite import pipeline

Function = Callable[[sj.Node, sj.Node], Any]
"""Of a row `v` of three numbers, and of two weights that all examples share."""


def elementwise(v: sj.Node, w: sj.Node) -> sj.Node:
    return sj.ifelse(v[0] < 1e-3, lambda: v * 2, lambda: sj.log(v)).sum() * w[0]


def overflow(v: sj.Node, w: sj.Node) -> sj.Node:
    """At 1e3 the exponential and its derivatives are infinite, also where `w` is what they are for."""
    return sj.ifelse(v[2] < 10, lambda: sj.exp(v * (w[1] + 1)), lambda: v + w[0]).sum()


def weights_alone(v: sj.Node, w: sj.Node) -> sj.Node:
    """A branch that depends on no example; its derivative at w[0] = 0 is infinite."""
    return sj.ifelse(v.sum() > 1e6, lambda: sj.log(w[0]) + sj.sqrt(w[0]), lambda: v.sum() * w[1])


def shared_in_branch(v: sj.Node, w: sj.Node) -> sj.Node:
    """The derivative for `w` is a sum over the examples, of which some have no logarithm."""
    return sj.ifelse(v[0] > 0, lambda: sj.log(v[0] * w[1]) * w[1], lambda: w[0] * v[1])


def product(v: sj.Node, w: sj.Node) -> sj.Node:
    """A product with a matrix of weights, of what is NaN for some examples."""
    m = sj.outer(w, sj.as_tensor([1.0, 2.0, -1.0]))
    return sj.ifelse(v[0] > 0, lambda: sj.dot(m, sj.sqrt(v)).sum(), lambda: sj.dot(m, v)[0])


def nested(v: sj.Node, w: sj.Node) -> sj.Node:
    def inner() -> sj.Node:
        return sj.ifelse(v[0] <= 0, lambda: v[0] * w[1], lambda: sj.sqrt(v[0]) / w[1])

    return sj.ifelse(v[0] < 0.5, inner, lambda: 1 / v[0])


def nested_in_a_loop(v: sj.Node, w: sj.Node) -> sj.Node:
    def step(h: sj.Node) -> sj.Node:
        return sj.ifelse(h > 0.1, lambda: sj.sqrt(h - 0.1) * w[1], lambda: h * 0.5)

    return sj.scan(step, outputs_info=v[0], n_steps=4).sum()


def loop_in_a_branch(v: sj.Node, w: sj.Node) -> sj.Node:
    def loop() -> sj.Node:
        return sj.scan(lambda h: sj.sqrt(h * w[1]) + sj.log(v[0]), outputs_info=v[0] + 5, n_steps=3)[-1]

    return sj.ifelse(v[0] > 0, loop, lambda: v[0] * 2)


def while_in_a_branch(v: sj.Node, w: sj.Node) -> sj.Node:
    """The loop does not end for the examples that do not take the branch."""

    def loop() -> sj.Node:
        return sj.while_loop(lambda h: h < 10.0, lambda h: h + sj.sqrt(h) * w[1], v[0], max_steps=60)

    return sj.ifelse(v[0] > 0, loop, lambda: v[0])


def index_in_a_branch(v: sj.Node, w: sj.Node) -> sj.Node:
    """Only where the first entry is a position of the row."""
    i = sj.cast(v[0], "int64")
    return sj.ifelse((v[0] >= 0) & (v[0] < 3), lambda: v[i] ** 2 * w[1], lambda: v.sum())


def assertion_in_a_branch(v: sj.Node, w: sj.Node) -> sj.Node:
    return sj.ifelse(v[0] > 0, lambda: sj.assert_(v[0] > 0, sj.log(v[0])), lambda: w[0] * v[0])


def several_results(v: sj.Node, w: sj.Node) -> sj.Node:
    a, b, n = sj.ifelse(v[0] > 0, lambda: (sj.log(v), w[0], 1), lambda: (v, sj.sqrt(w[0] + 1), 2))
    return a.sum() * b * n


def until_ends(v: sj.Node, w: sj.Node) -> sj.Node:
    """Examples end at different steps; the step after its last one has no root, and no entry of the row."""

    def step(row: sj.Node, h: sj.Node, k: sj.Node) -> Any:
        at = k + sj.cast(v[1] > 1.5, "int64")
        new = sj.sqrt(h - 0.3) * w[1] + 0.1 * v[at] + row
        return (new, k + 1), sj.until((new < 0.3) | (at >= 2))

    return sj.reduce(step, sj.zeros(6), [abs(v[1]) + 0.5, sj.constant(0)])[0]


FUNCTIONS = [
    elementwise, overflow, weights_alone, shared_in_branch, product, nested, nested_in_a_loop, loop_in_a_branch,
    while_in_a_branch, index_in_a_branch, assertion_in_a_branch, several_results, until_ends,
]  # fmt: skip
ROWS = np.array([[0.0, 1, 2], [-1, 2, 0.5], [2, 0.25, 1e3], [1, 3, 3], [0.25, 1, 4], [np.nan, 1, 2], [7, np.inf, 1]])
WEIGHTS = np.array([0.0, 0.7])
CHOICES = {
    "all": slice(None),
    "some": slice(0, 5),
    "the first alone": slice(0, 1),
    "the second alone": slice(1, 2),
    "the third alone": slice(2, 3),
    "none": slice(0, 0),
}


def derivatives(y: sj.Node, v: sj.Node, w: sj.Node) -> list[sj.Node]:
    """Of what is summed over the examples: itself, its gradient, that of the squares of its gradient for the examples,
    and its derivative in forward mode."""
    total = y.sum()
    for_v, for_w = sj.grad(total, [v, w], disconnected="zero")
    second = sj.grad((for_v**2).sum(), [v, w], disconnected="zero")
    return [total, for_v, for_w, *second, sj.jvp(total, [v, w], [sj.cos(sj.isnan(v) * 1.0), sj.ones_like(w)])]


def one_by_one(f: Function, rows: np.ndarray) -> list[np.ndarray]:
    """The same, from a function that takes one of the branches."""
    v, w = sj.tensor((3,)), sj.tensor((2,))
    run = sj.function([v, w], derivatives(f(v, w), v, w), mode="reference")
    results = [run(row, WEIGHTS) for row in rows]
    stacks = [np.array([r[i] for r in results]) for i in range(6)]
    shapes = ((), (-1, 3), (2,), (-1, 3), (2,), ())
    return [
        stack.reshape(-1, 3) if shape == (-1, 3) else stack.reshape(-1, *shape).sum(0)
        for stack, shape in zip(stacks, shapes, strict=True)
    ]


@pytest.mark.quick(4)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_derivatives_of_a_batch_are_those_of_its_examples(f: Function) -> None:
    v, w = sj.tensor(("B", 3)), sj.tensor((2,))
    outputs = derivatives(sj.vmap(f, in_axes=(0, None))(v, w), v, w)
    together = [sj.function([v, w], outputs, mode=mode) for mode in ("reference", "emulate")]
    for name, chosen in CHOICES.items():
        expected = one_by_one(f, ROWS[chosen])
        for run in together:
            for i, (got, want) in enumerate(zip(run(ROWS[chosen], WEIGHTS), expected, strict=True)):
                np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-10, err_msg=f"{name}, {i}")


def test_batches_of_batches() -> None:
    v, w = sj.tensor(("A", "B", 3)), sj.tensor((2,))
    y = sj.vmap(lambda rows, w: sj.vmap(index_in_a_branch, in_axes=(0, None))(rows, w), in_axes=(0, None))(v, w)
    got = sj.function([v, w], derivatives(y, v, w), mode="emulate")(np.stack([ROWS, ROWS[::-1]]), WEIGHTS)
    total, for_v, for_w, *_ = one_by_one(index_in_a_branch, ROWS)
    np.testing.assert_allclose(got[0], 2 * total, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(got[1], [for_v, for_v[::-1]], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(got[2], 2 * for_w, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_compiled(dtype: str) -> None:
    v, w = sj.tensor(("B", 3), dtype), sj.tensor((2,), dtype)
    y = sj.vmap(lambda v, w: elementwise(v, w) + index_in_a_branch(v, w), in_axes=(0, None))(v, w)
    outputs = [y, *sj.grad(y.sum(), [v, w])]
    rows = np.tile(ROWS[:5], (60, 1)).astype(dtype)
    plain, compiled = (sj.function([v, w], outputs, mode=mode) for mode in ("reference", "numba"))
    for got, want in zip(compiled(rows, WEIGHTS.astype(dtype)), plain(rows, WEIGHTS.astype(dtype)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9 if dtype == "float64" else 2e-4)


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_an_error_of_an_example_that_takes_the_branch_is_one(mode: str) -> None:
    v = sj.vector("v")
    rows, at = sj.tensor((3,), name="rows"), sj.ivector("at")
    f = sj.function([rows, at], sj.vmap(lambda i: sj.ifelse(i < 5, lambda: rows[i], lambda: 0.0))(at), mode=mode)
    np.testing.assert_array_equal(f([1.0, 2, 3], [2, 9, 0]), [3, 0, 1])
    with pytest.raises(sj.OutOfBoundsError):
        f([1.0, 2, 3], [2, 9, 4])
    g = sj.function([v], sj.vmap(lambda x: sj.ifelse(x > 0, lambda: sj.assert_(x < 2, x), lambda: -x))(v), mode=mode)
    np.testing.assert_array_equal(g([1.0, -3.0]), [1, 3])
    with pytest.raises(sj.AssertError):
        g([3.0, -3.0])


def test_forwards_a_choice_between_elementwise_ops_costs_no_more_than_both() -> None:
    v = sj.vector("v")
    y = sj.vmap(lambda x: sj.ifelse(x < 0.5, lambda: x * 2, lambda: sj.log(x)))(v)
    (out,) = pipeline.run([y]).outputs
    assert sorted(node.op.name for node in ir.walk([out]) if node.operands and node.op is not BROADCAST_TO) == [
        "less", "log", "mul", "where"
    ]  # fmt: skip
