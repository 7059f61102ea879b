"""Sequences that count the steps: a loop makes them of its own counter, and they take no memory."""

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import scanjit as sj
from scanjit.symbol import Symbol
from tests.fuzz.check import Config
from tests.pairs import pairwise

Step = Callable[..., Symbol]


def number(step: Symbol) -> Symbol:
    return sj.cast(step, "float64")


def of_number(t: Symbol, x: Symbol, h: Symbol) -> Symbol:
    return sj.where(x > h, 0.1 * x * number(t), 0.5 * h)


def of_neighbours(t: Symbol, x: Symbol, h: Symbol) -> Symbol:
    return sj.tanh(sj.cumsum(h) + 0.1 * x * number(t))


def of_rows_before(t: Symbol, h: Symbol, x: Symbol) -> Symbol:
    return 0.5 * h + x[sj.maximum(t - 2, 0)]


def with_inner_loop(t: Symbol, x: Symbol, h: Symbol) -> Symbol:
    add = lambda i, each, total: sj.tanh(total + 0.1 * each * number(i + t))
    return sj.scan(add, [sj.arange(x.shape[0]), x], h)[-1]


PROGRAMS: dict[str, Callable[[Symbol, Symbol], Symbol]] = {
    "in a nest": lambda x, h: sj.scan(of_number, [sj.arange(x.shape[0]), x], h),
    "backwards": lambda x, h: sj.scan(of_number, [sj.arange(x.shape[0]), x], h, go_backwards=True),
    "from another number on": lambda x, h: sj.scan(of_number, [sj.arange(2, 2 + x.shape[0]), x], h),
    "in a loop over time": lambda x, h: sj.scan(of_neighbours, [sj.arange(x.shape[0]), x], h),
    "in a loop backwards": lambda x, h: sj.scan(of_neighbours, [sj.arange(x.shape[0]), x], h, go_backwards=True),
    "as an index": lambda x, h: sj.scan(of_rows_before, sj.arange(x.shape[0]), h, non_sequences=x),
    "in a loop in a loop": lambda x, h: sj.scan(with_inner_loop, [sj.arange(x.shape[0]), x], h[0]),
    "with checkpoints": lambda x, h: sj.scan(of_neighbours, [sj.arange(x.shape[0]), x], h, checkpoint="sqrt"),
    "for each column": lambda x, h: sj.vmap(lambda x, h: sj.scan(of_number, [sj.arange(x.shape[0]), x], h))(x.T, h),
}


def arguments() -> tuple[Symbol, Symbol]:
    return sj.tensor(("T", "N"), "float64", "x"), sj.tensor(("N",), "float64", "h")


def results(program: str) -> tuple[list[Symbol], list[Symbol]]:
    """Its inputs; its value and its gradient."""
    x, h = arguments()
    found = PROGRAMS[program](x, h)
    return [x, h], [found, *sj.grad((found * found).sum(), [x, h])]


@pairwise(program=PROGRAMS, mode=["numba", "emulate"])
def test_values_and_gradients(program: str, mode: str, rng: np.random.Generator) -> None:
    inputs, outputs = results(program)
    f, reference = (sj.function(inputs, outputs, mode=m) for m in (mode, "reference"))
    for steps, columns in [(0, 2), (1, 1), (9, 3), (40, 17), *[(700, 40)] * (mode == "numba")]:
        given = rng.standard_normal((steps, columns)), rng.standard_normal(columns)
        for got, wanted in zip(f(*given), reference(*given), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-10)


def positions(program: str, results_wanted: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The buffers of positions."""
    inputs, outputs = results(program)
    sj.dprint(sj.function(inputs, outputs[:results_wanted], mode="emulate"), stage="nests")
    return re.findall(r"temporary (?:\w+: int64|iota|cast).*", capsys.readouterr().out)


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name != "as an index"])
def test_they_take_no_memory(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not positions(program, 1, capsys)


@pytest.mark.parametrize("program", ["in a nest", "in a loop over time"])
def test_the_loop_of_a_gradient_counts_too(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not positions(program, 3, capsys)


def test_a_step_may_store_or_keep_its_number() -> None:
    x, _ = arguments()
    step: Step = lambda t, x, last: (sj.where(x.sum() > 0, t, last), t)
    inputs: Sequence[Symbol] = [x]
    outputs = sj.scan(step, [sj.arange(x.shape[0]), x], [-1, None])
    given = np.random.default_rng(0).standard_normal((9, 3))
    last, numbers = sj.function(inputs, outputs)(given)
    np.testing.assert_array_equal(numbers, np.arange(9))
    np.testing.assert_array_equal(last, np.maximum.accumulate(np.where(given.sum(1) > 0, np.arange(9), -1)))


def test_two_sequences_of_equal_numbers_without_rewriting() -> None:
    x, _ = arguments()
    positions = sj.arange(x.shape[0])
    step: Step = lambda t, u, x, h: (of_neighbours(t, x, h), t + 1, u + 1)
    outputs = sj.scan(step, [positions, positions, x], [x[0], None, None])
    with Config(rewrite=False).active():
        _, first, second = sj.function([x], outputs, mode="emulate")(np.ones((4, 3)))
    np.testing.assert_array_equal([first, second], [np.arange(1, 5)] * 2)
