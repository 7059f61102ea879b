"""`checkpoint=` of loops in steps, of truncated gradients, of derivatives of gradients and of stacks of loops: the same
results to the last bit with less memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.fuzz.check import Config
from tests.fuzz.checkpoints import check_checkpoints
from tests.fuzz.curvature import second_order
from tests.loops.test_checkpoint import Outputs, values, workspace
from tests.lstm import lstm_outputs

STEPS = 3
LENGTHS = (1, STEPS - 1, STEPS, STEPS + 1, 3 * STEPS + 2)


def rnn(checkpoint: Any, units: int = 3, **options: Any) -> tuple[list[Any], Any]:
    """Inputs, and the states of a simple recurrence."""
    x, w = sj.tensor(("T", "B", units), "float32", "x"), sj.tensor((units, units), "float32", "w")
    zero = sj.zeros(x.shape[1:], "float32")
    return [x, w], sj.scan(lambda row, h: sj.tanh(row + h @ w), x, zero, checkpoint=checkpoint, **options)


def truncated(checkpoint: Any, units: int = 3, **options: Any) -> Outputs:
    """The gradient goes back over four steps."""
    inputs, h = rnn(checkpoint, units, truncate_gradient=4, **options)
    cost = (h[-1] ** 2).sum()
    return inputs, [cost, *sj.grad(cost, inputs)]


def truncated_backwards(checkpoint: Any) -> Outputs:
    return truncated(checkpoint, go_backwards=True)


def truncated_readout(checkpoint: Any) -> Outputs:
    """All states are read, and the gradient of the gradient is asked for."""
    inputs, h = rnn(checkpoint, truncate_gradient=4)
    (g,) = sj.grad((h**2).sum(), inputs[1:])
    return inputs, [g, *sj.grad((g**2).sum(), inputs)]


def hessian_vector(checkpoint: Any, units: int = 3) -> Outputs:
    """The gradient of a product with the gradient."""
    inputs, h = rnn(checkpoint, units)
    v = sj.tensor((units, units), "float32", "v")
    (g,) = sj.grad((h[-1] ** 2).sum(), inputs[1:])
    return [*inputs, v], [g, *sj.grad((g * v).sum(), inputs)]


def tangent_of_gradient(checkpoint: Any, units: int = 3) -> Outputs:
    """The same product, forwards."""
    inputs, h = rnn(checkpoint, units)
    v = sj.tensor((units, units), "float32", "v")
    (g,) = sj.grad((h[-1] ** 2).sum(), inputs[1:])
    return [*inputs, v], [sj.jvp(g, inputs[1], v)]


def curvature_of_layers(checkpoint: Any) -> Outputs:
    """The gradient of two entries of a gradient. The gradient of `w` has a sum over steps of products of what two loops
    make, of which the first goes back and the second forth."""
    inputs, h = rnn(checkpoint)
    last = sj.scan(lambda row, g: sj.tanh(0.5 * g + row), h, sj.zeros(h.shape[1:], "float32"), checkpoint=checkpoint)
    gx, gw = sj.grad(last[-1:].sum() + sj.sin(h).sum(), inputs)
    return inputs, sj.grad(gx[-1:].sum() + gw[-1].sum(), inputs)


def nested(checkpoint: Any, outer: bool = False, inner: bool = True, units: int = 3, steps: int = 20) -> Outputs:
    """A loop in the step of a loop."""
    x, w = sj.tensor(("T", "B", units), "float32", "x"), sj.tensor((units, units), "float32", "w")

    def step(row: Any, h: Any) -> Any:
        given = checkpoint if inner else None
        return sj.scan(lambda g: sj.tanh(g @ w + row), outputs_info=h, n_steps=steps, checkpoint=given)[-1]

    h = sj.scan(step, x, sj.zeros(x.shape[1:], "float32"), checkpoint=checkpoint if outer else None)
    cost = (h[-1] ** 2).sum()
    return [x, w], [cost, *sj.grad(cost, [x, w])]


def nested_both(checkpoint: Any, units: int = 3) -> Outputs:
    return nested(checkpoint, outer=True, units=units, steps=20)


def nested_outer(checkpoint: Any) -> Outputs:
    return nested(checkpoint, outer=True, inner=False)


def nested_map(checkpoint: Any) -> Outputs:
    """A loop in each step of a map, which has no states itself."""
    x, w = sj.tensor(("T", 4, 3), "float32", "x"), sj.tensor((3, 3), "float32", "w")
    zero = sj.zeros(3, "float32")
    last = sj.map(lambda rows: sj.scan(lambda r, h: sj.tanh(r + h @ w), rows, zero, checkpoint=checkpoint)[-1], x)
    cost = (last**2).sum()
    return [x, w], [cost, *sj.grad(cost, [x, w])]


def nested_deep(checkpoint: Any) -> Outputs:
    """The innermost of three loops."""
    x, w = sj.tensor(("T", "B", 3), "float32", "x"), sj.tensor((3, 3), "float32", "w")

    def innermost(h: Any) -> Any:
        return sj.scan(lambda g: sj.tanh(g @ w), outputs_info=h, n_steps=3, checkpoint=checkpoint)[-1]

    def step(row: Any, h: Any) -> Any:
        return sj.scan(lambda g: innermost(g) + row, outputs_info=h, n_steps=2)[-1]

    h = sj.scan(step, x, sj.zeros(x.shape[1:], "float32"))
    cost = (h[-1] ** 2).sum()
    return [x, w], [cost, *sj.grad(cost, [x, w])]


def layer(x: Any, checkpoint: Any, units: int, **options: Any) -> tuple[list[Any], Any]:
    """The weights and the states of an LSTM."""
    w = sj.tensor((x.type.shape[2], 4 * units), "float32")
    r = sj.tensor((units, 4 * units), "float32")
    return [w, r], lstm_outputs(x, w, r, checkpoint=checkpoint, **options)


def stack(checkpoint: Any, units: int = 3, layers: int = 3) -> Outputs:
    """Layers that go over time together."""
    x = h = sj.tensor(("T", "B", units), "float32", "x")
    weights: list[Any] = []
    for _ in range(layers):
        more, h = layer(h, checkpoint, units)
        weights += more
    cost = (h[-1] ** 2).sum()
    return [x, *weights], [cost, *sj.grad(cost, weights)]


def both_ways(checkpoint: Any, units: int = 3) -> Outputs:
    """Two layers of two directions: what is set to zero before a gradient is added to it is not set to zero again."""
    x = h = sj.tensor(("T", "B", units), "float32", "x")
    weights: list[Any] = []
    for _ in range(2):
        (some, forth), (more, back) = (layer(h, checkpoint, units, go_backwards=turned) for turned in (False, True))
        h = sj.concatenate([forth, back[::-1]], 2)
        weights += [*some, *more]
    cost = (h[-1] ** 2).sum()
    return [x, *weights], [cost, *sj.grad(cost, weights)]


PROGRAMS: tuple[Callable[[Any], Outputs], ...] = (
    truncated, truncated_backwards, truncated_readout, hessian_vector, tangent_of_gradient, curvature_of_layers,
    nested, nested_both, nested_outer, nested_map, nested_deep, stack, both_ways,
)  # fmt: skip
PARTLY = (nested_map, nested_deep)
"""Loops in steps that no state depends on become loops over a batch: these are done for all of time at once."""


QUICK = (truncated, hessian_vector, curvature_of_layers, nested, nested_map)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "made",
    [pytest.param(made, marks=() if made in QUICK else pytest.mark.slow) for made in PROGRAMS],
    ids=lambda p: p.__name__,
)
def test_the_same_to_the_last_bit(made: Callable[[Any], Outputs]) -> None:
    inputs, outputs = made(None)
    plain = sj.function(inputs, outputs, mode="emulate")
    given = [values(inputs, length) for length in LENGTHS]
    expected = [plain(*arrays) for arrays in given]
    for value, other in zip(expected[-1], sj.function(inputs, outputs, mode="reference")(*given[-1]), strict=True):
        np.testing.assert_allclose(value, other, rtol=2e-5, atol=2e-5)
    for checkpoint in (STEPS, "sqrt"):
        f = sj.function(*made(checkpoint), mode="emulate")
        if made not in PARTLY:
            assert "recomputed for the gradient" in f.explain() and "not done" not in f.explain(), f.explain()
        for arrays, results in zip(given, expected, strict=True):
            np.testing.assert_equal(f(*arrays), results)


@pytest.mark.parametrize("made", [stack, nested_map], ids=lambda p: p.__name__)
def test_one_step_at_a_time_and_all(made: Callable[[Any], Outputs]) -> None:
    inputs, outputs = made(None)
    expected = sj.function(inputs, outputs, mode="emulate")(*values(inputs, 5))
    for checkpoint in (1, "all", 5, 100):
        np.testing.assert_equal(sj.function(*made(checkpoint), mode="emulate")(*values(inputs, 5)), expected)


@pytest.mark.parametrize("checkpoint", [2, "sqrt"])
def test_no_step(checkpoint: Any) -> None:
    """No rows: the gradients are zero."""
    inputs, h = rnn(checkpoint, truncate_gradient=4)
    (g,) = sj.grad((h**2).sum(), inputs[1:])
    f = sj.function(inputs, [g, *sj.grad((g**2).sum() + (inputs[1] ** 2).sum(), inputs[1:])], mode="emulate")
    assert "recomputed for the gradient" in f.explain()
    arrays = values(inputs, 0)
    first, second = f(*arrays)
    assert not np.any(first)
    np.testing.assert_array_equal(second, 2 * arrays[1])


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("made", "share"),
    [
        (truncated, 0.75),  # the gradients of all rows, which are zero but for four, are there whole
        (hessian_vector, 0.7),
        (tangent_of_gradient, 0.6),
        (nested, 0.05),
        (nested_both, 0.08),
        (stack, 0.15),
        (both_ways, 0.5),
    ],
)
def test_memory_of(made: Callable[..., Outputs], share: float) -> None:
    everything, some = (workspace(made(checkpoint, units=16), 400) for checkpoint in (None, "sqrt"))
    assert some < share * everything


def test_layers_of_a_stack_are_made_again_together() -> None:
    """Memory grows with the square root of the time for all layers; each is done twice, not once for each above it."""
    sizes = [workspace(stack("sqrt", 16), length) for length in (1600, 6400)]
    assert sizes[1] < 2.2 * sizes[0]
    assert sj.function(*stack(2), mode="emulate").explain().count("recomputed for the gradient") == 3


def test_what_cannot_be_made_again_is_said() -> None:
    x, w = sj.tensor(("T", 3), name="x"), sj.tensor((3, 3), name="w")
    options = dict(truncate_gradient=4, checkpoint=2, name="ends")
    h = sj.scan(lambda row, s: (sj.tanh(row + s @ w), sj.until(s[0] > 0.9)), x, sj.zeros(3), **options)
    text = sj.function([x, w], sj.grad((h**2).sum(), w), mode="emulate").explain()
    assert "scan ends at" in text and "checkpoint=2 is not done, all is stored: it may end early" in text


@pytest.mark.parametrize("made", [truncated, nested, hessian_vector], ids=lambda p: p.__name__)
def test_compiled(made: Callable[[Any], Outputs]) -> None:
    inputs, outputs = made(None)
    arrays = values(inputs, 11)
    plain = sj.function(inputs, outputs)(*arrays)
    np.testing.assert_equal(sj.function(*made(STEPS))(*arrays), plain)


def delayed(checkpoint: Any) -> Outputs:
    """One state is that of a step before; another has an axis of one row."""
    x = sj.tensor((7,), name="x")

    def step(p: sj.Node, q: sj.Node, r: sj.Node) -> list[sj.Node]:
        return [sj.tanh(p + q), r, sj.sigmoid(q) * q + sj.tanh(q)]

    first = [sj.broadcast_to(x, (1, 7)), x[0] + x[1], x[6] * 0.5]
    p, _, _ = sj.scan(step, outputs_info=first, n_steps=6, checkpoint=checkpoint)
    return [x], [sj.grad(sj.grad(p.sum(), x).sum(), x)]


@pytest.mark.parametrize("checkpoint", [1, "sqrt"])
def test_what_goes_with_a_loop_is_made_again_with_its_carries(checkpoint: Any) -> None:
    """Its steps are recomputed although nothing but its own sums over time reads what it stores."""
    plain, other = (sj.function(*delayed(given), mode="emulate") for given in (None, checkpoint))
    assert "recomputed" in other.explain()
    x = np.linspace(-1, 1, 7)
    np.testing.assert_array_equal(other(x)[0], plain(x)[0])


def test_what_several_write_in_another_order_is_not_written_stretch_by_stretch() -> None:
    """The gradient of rows that are read from the last one on: zeros, and what replaces them."""
    assert check_checkpoints(second_order(76), 3, Config())


def test_states_at_computed_positions() -> None:
    """Counted from the last one: what is read begins where the last state lies, and is any of them."""
    for checkpoint in (2, "sqrt"):
        found = []
        for given in (None, checkpoint):
            inputs, h = rnn(given)
            at = sj.tensor(("K",), "int64", "at")
            cost = (h[::-1][at] ** 2).sum()
            f = sj.function([*inputs, at], [cost, *sj.grad(cost, inputs)], mode="emulate")
            found.append(f(*values(inputs, 7), np.array([0, 3, 6, 3])))
        for value, other in zip(*found, strict=True):
            np.testing.assert_array_equal(value, other)
