"""`checkpoint=`: every choice gives the same results to the last bit, and some need less memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.codegen.places import SCRATCH
from scanjit.runtime import host
from scanjit.schedule.memory.addresses import assign
from scanjit.schedule.threads.sharing import decided
from scanjit.types import Numbers, atoms
from tests.fuzz.check import Config
from tests.lstm import lstm_outputs, lstm_step

CHOICES = ("sqrt", "all", 1, 3)
LENGTHS = (1, 2, 9)
"""The last is more than the lanes of any vector of float64, and no multiple of them."""

Outputs = tuple[list[Any], list[Any]]


def lstm(checkpoint: Any, units: int = 3, last: bool = False, **options: Any) -> Outputs:
    """The loss of an LSTM and its gradients."""
    x = sj.tensor(("T", "B", 2), "float32", "x")
    w, r, b = (sj.tensor(shape, "float32") for shape in ((2, 4 * units), (units, 4 * units), (4 * units,)))
    h = lstm_outputs(x, w, r, b, checkpoint=checkpoint, **options)
    cost = (h[-1] ** 2).sum() if last else (h**2).sum()
    return [x, w, r, b], [cost, *sj.grad(cost, [x, w, r, b])]


def last_state(checkpoint: Any) -> Outputs:
    return lstm(checkpoint, last=True)


def backwards(checkpoint: Any) -> Outputs:
    return lstm(checkpoint, go_backwards=True)


def truncated(checkpoint: Any) -> Outputs:
    return lstm(checkpoint, truncate_gradient=4)


def unrolled(checkpoint: Any) -> Outputs:
    return lstm(checkpoint, unroll=2)


def garch(checkpoint: Any) -> Outputs:
    """A scalar state."""
    x, p = sj.tensor(("T",), name="x"), sj.tensor((3,), name="p")
    v = sj.scan(lambda a, v: p[0] ** 2 + p[1] ** 2 * a * a + sj.sigmoid(p[2]) * v, x, 0.5, checkpoint=checkpoint)
    cost = (sj.log(v) + x * x / v).sum()
    return [x, p], [cost, *sj.grad(cost, [x, p])]


def one_column(checkpoint: Any) -> Outputs:
    """A state of one row and one column: its gradient is a linear recurrence of a number."""
    x = sj.tensor(("T", 1, 1), name="x")
    cost = sj.scan(lambda row, h: sj.tanh(row + h * 0.7), x, sj.zeros((1, 1)), checkpoint=checkpoint)[-1].sum()
    return [x], [cost, *sj.grad(cost, [x])]


def elementwise(checkpoint: Any) -> Outputs:
    """One nest with time inside."""
    x, a = sj.tensor(("T", "B", 20), name="x"), sj.tensor((20,), name="a")
    zero = sj.zeros(x.shape[1:])
    h, _ = sj.scan(
        lambda row, h, s: [sj.tanh(a * h + 0.1 * s + row), 0.9 * s + h], x, [zero, zero], checkpoint=checkpoint
    )
    cost = (h[-1] ** 2).sum()
    return [x, a], [cost, *sj.grad(cost, [x, a])]


def taps(checkpoint: Any) -> Outputs:
    """Sequence taps and output taps, an output that is not fed back, a readout after the loop."""
    x, w = sj.tensor(("T", 3), name="x"), sj.tensor((3, 3), name="w")
    h0 = sj.tensor((2, 3), name="h0")
    padded = sj.concatenate([x[:1], x], 0)

    def step(before: Any, now: Any, h2: Any, h1: Any) -> list[Any]:
        new = sj.tanh(now + before @ w + h1 @ w + 0.5 * h2)
        return [new, (new * before).sum()]

    sequence, initial = dict(input=padded, taps=[-1, 0]), dict(initial=h0, taps=[-2, -1])
    h, y = sj.scan(step, sequence, [initial, None], checkpoint=checkpoint)
    cost = sj.sigmoid(h @ w).sum() + (y * y).sum()
    return [x, w, h0], [cost, *sj.grad(cost, [x, w, h0])]


def noisy(checkpoint: Any) -> Outputs:
    """Random draws in the step are the same when it is done again."""
    x, w = sj.tensor(("T", 3), name="x"), sj.tensor((3, 3), name="w")
    stream = sj.random.Stream(5)
    h = sj.scan(
        lambda row, h: sj.tanh(row + (h * stream.bernoulli((3,), 0.5, dtype="float64")) @ w),
        x,
        sj.zeros(3),
        checkpoint=checkpoint,
    )
    cost = (h[-1] ** 2).sum()
    return [x, w], [cost, *sj.grad(cost, [x, w])]


def dropout(checkpoint: Any, units: int = 3) -> Outputs:
    """An LSTM that forgets some of its output at every step."""
    x, w, r = (sj.tensor(shape, "float32") for shape in (("T", "B", 2), (2, 4 * units), (units, 4 * units)))
    stream = sj.random.Stream(7)

    def step(row: Any, h: Any, c: Any) -> Any:
        kept = h * stream.bernoulli(h.shape, 0.8, dtype="float32") / 0.8
        return lstm_step(row @ w + kept @ r, c)

    zero = sj.zeros((x.shape[1], units), "float32")
    h, _ = sj.scan(step, x, [zero, zero], checkpoint=checkpoint)
    cost = (h[-1] ** 2).sum()
    return [x, w, r], [cost, *sj.grad(cost, [x, w, r])]


def two_lags(checkpoint: Any, units: int = 3) -> Outputs:
    """A state that depends on the two before it."""
    x, w, v = (sj.tensor(shape, "float32") for shape in (("T", "B", units), (units, units), (units, units)))
    start = sj.zeros((2, x.shape[1], units), "float32")
    h = sj.scan(
        lambda row, h2, h1: sj.tanh(row + h1 @ w + h2 @ v), x, dict(initial=start, taps=[-2, -1]), checkpoint=checkpoint
    )
    cost = (h[-1] ** 2).sum()
    return [x, w, v], [cost, *sj.grad(cost, [x, w, v])]


def both_ways(checkpoint: Any, units: int = 3) -> Outputs:
    """Two loops side by side, with a readout of every step."""
    weights = [sj.tensor((units, units), "float32") for _ in range(5)]
    x, halves = sj.tensor(("T", "B", units), "float32", "x"), []
    for u, r, back in zip(weights[:2], weights[2:4], (False, True), strict=True):
        halves.append(
            sj.scan(
                lambda row, h, c, u=u, r=r: [sj.tanh(c) * h, sj.sigmoid(row @ u + h @ r) * c + row],
                x,
                [sj.ones((x.shape[1], units), "float32")] * 2,
                go_backwards=back,
                checkpoint=checkpoint,
            )[0]
        )
    cost = (((halves[0] + halves[1][::-1]) @ weights[4]) ** 2).sum()
    return [x, *weights], [cost, *sj.grad(cost, [x, *weights])]


def nested(checkpoint: Any) -> Outputs:
    x, w = sj.tensor(("T", 3), name="x"), sj.tensor((3, 3), name="w")

    def step(row: Any, h: Any) -> Any:
        return sj.scan(lambda g: sj.tanh(g @ w + row), outputs_info=h, n_steps=3, checkpoint=checkpoint)[-1]

    h = sj.scan(step, x, sj.zeros(3), checkpoint=checkpoint)
    cost = (h[-1] ** 2).sum()
    return [x, w], [cost, *sj.grad(cost, [x, w])]


def second_order(checkpoint: Any) -> Outputs:
    inputs, outputs = taps(checkpoint)
    return inputs, [sj.grad((outputs[-1] ** 2).sum(), inputs[1])]


def tangent(checkpoint: Any) -> Outputs:
    inputs, outputs = taps(checkpoint)
    change = sj.jvp(outputs[0], inputs[1], sj.cos(inputs[1]))
    return inputs, [change, sj.grad(change, inputs[0])]


def stacked(checkpoint: Any) -> Outputs:
    x, w = sj.tensor(("T", "B", 3), name="x"), sj.tensor((3, 3), name="w")
    h = x
    for _ in range(2):
        h = sj.scan(lambda row, s: sj.tanh(row + s @ w), h @ w, sj.zeros(x.shape[1:]), checkpoint=checkpoint)
    cost = (h**2).sum()
    return [x, w], [cost, *sj.grad(cost, [x, w])]


def columns(checkpoint: Any) -> Outputs:
    x, w = sj.tensor(("T", 3), name="x"), sj.tensor((3, 3), name="w")
    h = sj.scan(lambda row, s: sj.tanh(row + w @ s), x @ w, sj.zeros(3), checkpoint=checkpoint)
    cost = (h**2).sum()
    return [x, w], [cost, *sj.grad(cost, [x, w])]


def sums_of_products(checkpoint: Any) -> Outputs:
    """How a sum of products is rounded depends on the kernel that computes it."""
    x, start = sj.tensor(("T",), name="x"), sj.tensor((2, 100), name="start")

    def step(x: Any, g: Any, h: Any) -> Any:
        new = (h + g * g - (g + h * g) * (h * h + 0.1)) * 0.9 + x * (g * x * (g * g + 0.1) + 0.1)
        return new / (1.0 + g * g), sj.tanh((g * g - h) * (g * h) - (g + h * h) + x * (g * x * x))

    g, h = sj.scan(step, x, [start[0], start[1]], checkpoint=checkpoint)
    cost = (g**2).sum() + (h**2).sum()
    return [x, start], [cost, *sj.grad(cost, [x, start])]


PROGRAMS: tuple[Callable[[Any], Outputs], ...] = (
    lstm, last_state, backwards, truncated, unrolled, garch, one_column, elementwise, taps, noisy, dropout, two_lags,
    both_ways, nested, second_order, tangent, stacked, columns,
)  # fmt: skip
SAVES = {
    "lstm", "last_state", "backwards", "truncated", "unrolled", "elementwise", "noisy", "dropout", "two_lags",
    "both_ways", "nested", "second_order", "tangent",
}  # fmt: skip
"""In the others, all is stored: numbers, what others read too."""


def values(inputs: list[Any], length: int) -> list[np.ndarray]:
    rng = np.random.default_rng(length)
    shapes = [tuple({"T": length, "B": 2}.get(str(d), d) for d in x.type.shape) for x in inputs]
    return [(rng.normal(size=shape) / 2).astype(x.dtype) for x, shape in zip(inputs, shapes, strict=True)]


QUICK = (lstm, last_state, garch, taps, dropout, nested)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "program",
    [pytest.param(program, marks=() if program in QUICK else pytest.mark.slow) for program in PROGRAMS],
    ids=lambda p: p.__name__,
)
def test_the_same_to_the_last_bit(program: Callable[[Any], Outputs]) -> None:
    plain, reference = (results(program(None), mode) for mode in ("emulate", "reference"))
    for value, other in zip(plain, reference, strict=True):
        np.testing.assert_allclose(value, other, rtol=2e-5, atol=2e-5)
    for checkpoint in CHOICES if program in QUICK else CHOICES[PROGRAMS.index(program) % 2 :: 2]:
        saves = checkpoint != "all" and program.__name__ in SAVES
        np.testing.assert_equal(results(program(checkpoint), "emulate", saves), plain)


def results(made: Outputs, mode: str, saves: bool = False) -> list[np.ndarray]:
    """What a program gives for all lengths."""
    f = sj.function(*made, mode=mode)
    assert ("recomputed for the gradient" in f.explain()) == saves, f.explain()
    return [value for length in LENGTHS for value in f(*values(made[0], length))]


def test_no_step() -> None:
    inputs, outputs = lstm("sqrt")
    for value in sj.function(inputs, outputs, mode="emulate")(*values(inputs, 0)):
        assert not np.any(value)


@pytest.mark.quick(2)
@pytest.mark.parametrize("program", [dropout, two_lags, both_ways], ids=lambda p: p.__name__)
def test_any_vectors_blocks_and_threads(program: Callable[[Any], Outputs]) -> None:
    for width, threads in ((16, 1), (64, 2)):
        with Config(width=width, small=True).active():  # sums are added up in the same pieces
            plain = results(program(None), "emulate")
        with Config(width=width, small=True, shared=True, threads=threads).active():
            np.testing.assert_equal(results(program(2), "emulate", True), plain)


def straight(checkpoint: Any, steps: int, units: int) -> Outputs:
    """All steps written one after the other."""
    x, w, r = (sj.tensor(shape, "float32") for shape in ((steps, 2, 2), (2, 2 * units), (units, 2 * units)))

    def step(row: Any, h: Any) -> Any:
        z, g = sj.split(row @ w + h @ r, 2, axis=1)
        return sj.sigmoid(z) * h + sj.tanh(g)

    h = sj.scan(step, x, sj.zeros((2, units), "float32"), unroll=True, checkpoint=checkpoint)
    cost = (h[-1] ** 2).sum()
    return [x, w, r], [cost, *sj.grad(cost, [x, w, r])]


def test_unrolled_as_loops_over_stretches() -> None:
    plain = sj.function(*straight(None, 7, 3), mode="emulate")
    given = values(straight(None, 7, 3)[0], 7)
    for checkpoint in (2, "sqrt", 7):
        f = sj.function(*straight(checkpoint, 7, 3), mode="emulate")
        assert "recomputed" in f.explain()
        np.testing.assert_equal(f(*given), plain(*given))
    everything, some = (workspace(straight(checkpoint, 400, 16), 400) for checkpoint in (None, "sqrt"))
    assert some < 0.8 * everything


def workspace(made: Outputs, length: int) -> int:
    """The bytes of all temporaries but the scratch memory of the threads, as planned for a call."""
    (stage,) = sj.function(*made, mode="emulate").executable.stages  # type: ignore[attr-defined]
    lives = [life for life in stage.table.lives if life.buffer is not SCRATCH]
    sizes = {atom: {"T": length, "B": 4}[atom.name] for atom in stage.table.atoms}
    apart = {atom: 1 for dim in decided(stage.layout.costs) for atom in atoms(dim)}
    return assign(lives, Numbers({**sizes, **apart}))[1]


def test_memory_grows_with_the_square_root() -> None:
    with host.using(replace(host.target(), level2_bytes=2**19)):  # blocks of time are as large as a cache
        everything, some = [[workspace(lstm(c, 16, last=True), t) for t in (1600, 6400)] for c in (None, "sqrt")]
    assert some[0] < everything[0] / 4
    assert some[1] < 2.2 * some[0] and everything[1] > 3 * everything[0]


@pytest.mark.parametrize(("program", "share"), [(dropout, 0.1), (two_lags, 0.2), (both_ways, 0.7)])
def test_memory_of(program: Callable[[Any, int], Outputs], share: float) -> None:
    """Where each step is read out, what the readout reads and what the gradient begins with is there for all steps."""
    everything, some = (workspace(program(checkpoint, 16), 1600) for checkpoint in (None, "sqrt"))
    assert some < share * everything


def test_a_last_value_that_is_read_at_a_computed_place(rng: np.random.Generator) -> None:
    """Only what nests begin and end can be saved: here all is stored, as if there were no checkpoints."""

    def program(checkpoint: Any) -> Outputs:
        xs, w, k = sj.tensor(("T", 4), name="xs"), sj.tensor((4, 4), name="w"), sj.lscalar("k")

        def step(row: Any, h: Any, c: Any) -> tuple[Any, Any]:
            h = sj.tanh(h @ w + row)
            return h, 0.9 * c + h  # no gradient needs the states of c

        h, c = sj.scan(step, xs, [sj.zeros(4), sj.zeros(4)], checkpoint=checkpoint)
        cost = (h[-1] ** 2).sum() + c[-1][k] ** 2
        return [xs, w, k], [cost, *sj.grad(cost, [xs, w])]

    plain, kept = (sj.function(*program(checkpoint), mode="emulate") for checkpoint in (None, 3))
    assert "checkpoint=3 is not done, all is stored: a carry is read by another loop" in kept.explain()
    given = rng.normal(size=(10, 4)), rng.normal(size=(4, 4)), 2
    np.testing.assert_equal(kept(*given), plain(*given))


@pytest.mark.parametrize("checkpoint", ["sqrt", 4, "all"])
@pytest.mark.parametrize("program", [dropout, sums_of_products])
def test_compiled(program: Callable[[Any], Outputs], checkpoint: Any) -> None:
    inputs, outputs = program(checkpoint)
    given = values(inputs, 11)
    np.testing.assert_equal(sj.function(inputs, outputs)(*given), sj.function(*program(None))(*given))
