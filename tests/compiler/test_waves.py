"""Waves: loops of which one reads what another one makes, side by side in blocks of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.config import config
from scanjit.errors import InternalError
from scanjit.schedule.cost import rates
from scanjit.schedule.nests import Beside
from scanjit.schedule.nests.verify import verify
from scanjit.schedule.threads import waves
from scanjit.schedule.threads.sharing import Sharing
from scanjit.schedule.threads.teams import Team, Way
from scanjit.schedule.threads.times import Work
from scanjit.schedule.threads.waves import BlockTime, turns_time
from tests.fuzz.check import Config, agree

H = 5
Made = Callable[[Any, list[Any]], Any]


def layer(x: Any, w: Any, r: Any, backwards: bool = False, **options: Any) -> Any:
    """A tanh network over the rows of x; if `backwards`, from the last to the first, with rows in the order of x."""
    start = sj.zeros((x.shape[1], H), x.dtype)
    h = sj.scan(lambda a, h: np.tanh(a @ w + h @ r), x, start, go_backwards=backwards, **options)
    return h[::-1] if backwards else h


def pairs(weights: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(weights[::2], weights[1::2], strict=True))


def stack(x: sj.Tensor, weights: list[sj.Tensor], backwards: bool = False, **options: Any) -> Any:
    for w, r in pairs(weights):
        x = layer(x, w, r, backwards, **options)
    return x


def gradient(x: sj.Tensor, weights: list[sj.Tensor], **options: Any) -> Any:
    y = stack(x, weights, **options)
    return [y, *sj.grad((y * y).sum(), [x, *weights])]


def backwards(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    return gradient(x, weights, backwards=True)


def checkpoints(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    """The layers go through the same stretches of steps anyhow."""
    return gradient(x, weights, checkpoint=2)


def beside_checkpoints(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    """The gradient relies on where the stretches of the forward loop begin. They cannot be blocks of a wave."""
    w, r, *others = weights
    lasts = [layer(x, w, r, checkpoint=4)[-1], layer(layer(x, *others[:2]), *others[2:], checkpoint=3)[-1]]
    return squares(lasts, x, weights)


def squares(lasts: list[Any], x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    return [*lasts, *sj.grad(sum((last * last).sum() for last in lasts), [x, *weights])]


def beside_fewer_steps(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    """A loop that no layer needs stays out of the wave of the layers, if its blocks would be others."""
    return squares([stack(x, weights)[-1], layer(x[1:], *weights[1:3]).sum(axis=0)], x, weights)


def beside_a_checkpoint(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    return squares([stack(x, weights)[-1], layer(x, *weights[1:3], checkpoint=4)[-1]], x, weights)


def last_only(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    return stack(x, weights)[-1]


def masked(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    """Layers that keep their state where a mask says so."""
    mask = x[:, :, :1] > 0
    y = x
    for w, r in pairs(weights):
        start = sj.zeros((x.shape[1], H), x.dtype)
        step = lambda a, m, h, w=w, r=r: sj.where(m, np.tanh(a @ w + h @ r), h)
        y = sj.scan(step, [y, mask], start)
    return [y, *sj.grad(y.sum(), [x, *weights])]


def residual(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    """Between the layers there is work whose results the gradient reads too."""
    y = x
    for w, r in pairs(weights):
        y = y + np.maximum(layer(y, w, r), 0) * np.maximum(x, 0)
    return [y, *sj.grad((y * y).sum(), [x, *weights])]


def no_products(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    """Loops that need nothing before their steps, so that nothing cuts them but the wave."""
    for w, r in pairs(weights):
        start = sj.ones((x.shape[1], H), x.dtype)
        x = sj.scan(lambda a, h, w=w, r=r: np.tanh(a * h + 0.1) @ w + np.tanh(h @ r), x, start)
    return x


def at_their_places(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    """Rows are taken by indices that are known to be their own places."""
    return layer(layer(x, *weights[:2]).take(sj.arange(x.shape[0]) * 1, axis=0), *weights[2:4])


def two_stacks(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    return stack(x, weights) + stack(x, weights[::-1], backwards=True)


def between(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    """A layer with two directions between layers with one."""
    w, r, *others = weights
    x = layer(x, w, r)
    x = layer(x, w, r) + layer(x, r, w, backwards=True)
    return layer(layer(x, w, r), *others[:2])


MADE: dict[Made, list[tuple[int, ...]]] = {
    stack: [(0, 1, 2)],
    gradient: [(0, 1, 2), (0, 1, 2)],
    backwards: [(0, 1, 2), (0, 1, 2)],
    checkpoints: [],
    beside_checkpoints: [(0, 0), (0, 0)],
    beside_fewer_steps: [(0, 1, 2), (0, 1, 2)],
    beside_a_checkpoint: [(0, 1, 2), (0, 1, 2)],
    last_only: [(0, 1, 2)],
    masked: [(0, 1, 2), (0, 1, 2)],
    residual: [(0, 1, 2), (0, 1, 2)],
    no_products: [(0, 1, 2)],
    at_their_places: [(0, 1)],
    two_stacks: [(0, 1, 2, 0, 1, 2)],
    between: [(0, 1), (0, 1)],
}
"""Programs of three layers, each with the delays of its groups of loops."""


def program(made: Made, mode: str) -> Any:
    x = sj.tensor(("T", "B", H), "float32", "x")
    weights = [sj.tensor((H, H), "float32") for _ in range(6)]
    return sj.function([x, *weights], made(x, weights), mode=mode)


def arguments(T: int, B: int = 2) -> list[np.ndarray]:
    rng = np.random.default_rng(T)
    shapes = [(T, B, H), *[(H, H)] * 6]
    return [(rng.standard_normal(shape) * 0.4).astype("float32") for shape in shapes]


def groups(f: Any) -> list[Beside]:
    return [s for stage in f.executable.stages for s in stage.program.suite if isinstance(s, Beside)]


def flat(found: Any) -> list[np.ndarray]:
    return list(found) if isinstance(found, list | tuple) else [found]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Waves wherever they are possible, of short blocks."""
    before = config.threads
    for name in ("WAKING", "LEAST_GAIN", "SMALLEST_NEST"):
        monkeypatch.setattr(rates, name, 0)
    monkeypatch.setattr(waves, "GAIN", math.inf)
    monkeypatch.setattr(waves, "SHORTEST", 2)
    monkeypatch.setattr(rates, "MEETING", 1.0)
    yield
    config.threads = before


# ---- which loops -----------------------------------------------------------------------------------------------------


@pytest.mark.quick(4)
@pytest.mark.parametrize("made", MADE)
def test_each_layer_is_one_block_behind_the_one_below(made: Made) -> None:
    found = [
        group.wave.delays if group.wave else (0,) * len(group.branches) for group in groups(program(made, "emulate"))
    ]
    assert found == MADE[made]


def test_sizes_may_be_found_in_the_call() -> None:
    def three(x: Any, *weights: Any) -> Any:
        for w, r in pairs([*weights]):
            start = sj.zeros((x.shape[1], r.shape[1]), x.dtype)
            x = sj.scan(lambda a, h, w=w, r=r: np.tanh(a @ w + h @ r), x, start)
        return (x * x).sum()

    (group, backwards) = groups(sj.value_and_grad(three, argnums=tuple(range(7))).function(*arguments(9)))
    assert group.wave is not None
    assert backwards.wave is not None
    assert (group.wave.delays, backwards.wave.delays) == ((0, 1, 2), (0, 1, 2))


def refused(made: Made) -> bool:
    return not any(group.wave for group in groups(program(made, "emulate")))


def test_a_loop_that_needs_later_steps_waits() -> None:
    assert refused(lambda x, some: layer(layer(x, *some[:2]), *some[2:4], backwards=True))
    assert refused(lambda x, some: layer(layer(x, *some[:2])[1:], *some[2:4]))
    assert refused(lambda x, some: layer(layer(x, *some[:2]) + layer(x, *some[:2])[-1], *some[2:4]))
    for places in (lambda n: sj.arange(n) * 7 % n, lambda n: n - 1 - sj.arange(n)):
        chosen = lambda x, some, places=places: layer(x, *some[:2]).take(places(x.shape[0]), axis=0)
        assert refused(lambda x, some, chosen=chosen: layer(chosen(x, some), *some[2:4]))


def test_a_loop_that_reads_each_step_by_its_place_is_in_a_wave() -> None:
    assert not refused(lambda x, some: layer(layer(x, *some[:2]).take(sj.arange(x.shape[0]) * 1, axis=0), *some[2:4]))


def test_a_loop_that_may_end_early_is_in_no_wave() -> None:
    def until(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
        step = lambda a, h: ((h := np.tanh(a @ weights[0] + h)), sj.until(h.sum() > 40))
        return layer(sj.scan(step, x, x[0]), *weights[2:4])

    assert refused(until)


# ---- what they compute -----------------------------------------------------------------------------------------------


@pytest.mark.quick(5)
@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("made", MADE)
def test_no_thread_reads_what_is_not_written_yet(always: None, made: Made, threads: int) -> None:
    """Threads that change places after every nest, and memory in one workspace: what is shared by mistake is seen."""
    with Config(width=32, shared=True, threads=threads, small=made in (gradient, masked, residual)).active():
        f = program(made, "emulate")
        wanted = program(made, "reference")
        for T in (7, 1):
            args = arguments(T)
            assert all(agree(a, b) for a, b in zip(flat(f(*args)), flat(wanted(*args)), strict=True))
    assert ("in turns" in f.explain()) == any(map(any, MADE[made]))


@pytest.mark.parametrize("made", [gradient, two_stacks])
def test_the_bits_are_those_of_one_thread(always: None, made: Made) -> None:
    f, wanted = program(made, "numba"), program(made, "reference")
    (stage,) = f.executable.stages
    for T, B in ((23, 1), (1, 2), (0, 2), (9, 0)):
        args, results = arguments(T, B), []
        for config.threads in (1, 2, 3, 8):
            stage.forget()
            results.append(flat(f(*args)))
            assert config.threads == 1 or T < 23 or "blocks of" in f.explain().split("side by side in turns")[1]
            results += [flat(f(*args)) for _ in range(6)]
            ways = {way.beside for way, _ in stage.known}
            assert config.threads == 1 or T < 23 or ways == {None, False}
        for found in results:
            np.testing.assert_equal(found, results[0])
        assert all(agree(a, b) for a, b in zip(results[0], flat(wanted(*args)), strict=True))


def test_vectors_of_steps_begin_at_the_same_steps_for_any_number_of_threads(always: None) -> None:
    """The gradients of layers of one unit are linear recurrences, with lanes along the steps. They are in no wave."""
    x, a, b, c, d = (sj.tensor(shape, "float32") for shape in (("T", 1, 1), *[(1, 1)] * 4))
    start = sj.zeros((1, 1), "float32")
    y = sj.scan(lambda row, h: np.tanh(row @ a + h @ b), x, start)
    y = sj.scan(lambda row, add, h: np.tanh(row @ c + h @ d + add), [y, x], start)
    y = sj.scan(lambda row, h: 0.5 * h + 0.3 * (row @ a), y, start)
    f = sj.function([x, a, b, c, d], sj.grad((y * y).mean(), [x, a, b, c, d]))
    rng, results = np.random.default_rng(0), []
    args = [rng.standard_normal(shape).astype("float32") for shape in ((23, 1, 1), *[(1, 1)] * 4)]
    for config.threads in (1, 2, 3):
        f.executable.stages[0].forget()
        results.append([part.tobytes() for part in f(*args)])
    assert results[1:] == results[:1] * 2


# ---- the verifier ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delays", [(0, 0, 1), (1, 0, 2), (0, 1)])
def test_a_loop_that_is_not_behind_is_refused(delays: tuple[int, ...]) -> None:
    (stage,) = program(stack, "emulate").executable.stages
    verify(stage.program)
    assert groups(program(stack, "emulate"))
    suite = [
        replace(s, wave=replace(s.wave, delays=delays)) if isinstance(s, Beside) and s.wave is not None else s
        for s in stage.program.suite
    ]
    with pytest.raises(InternalError, match=r"which another one touches|has a delay"):
        verify(stage.program.with_suite(suite))


# ---- what they cost --------------------------------------------------------------------------------------------------


def test_the_time_of_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MEETING", 1.0)
    blocks, two = [BlockTime(10.0, 6.0)] * 2, [Team(0, 1), Team(1, 1)]
    assert turns_time(blocks, (0, 1), two, 8) == 6 + 7 * 10 + 6 + 9
    assert turns_time(blocks, (0, 1), [Team(0, 1)] * 2, 8) == 6 + 7 * 20 + 6 + 9
    assert turns_time(blocks, (0, 1), two, 1) == 6 + 6 + 2
    four = [Team(0, 1), Team(1, 1)] * 2
    assert turns_time(blocks * 2, (0, 1, 2, 3), four, 2) == 6 + 10 + 10 + 10 + 6 + 5
    assert turns_time(blocks * 2, (0, 0, 1, 1), four, 3) == 10 + 20 + 20 + 10 + 4


def shared(units: int, threads: int, **sizes: int) -> Sharing:
    """How threads share three layers of so many units."""
    x = sj.tensor(("T", "B", units), "float32", "x")
    weights = [sj.tensor((units, units), "float32") for _ in range(6)]
    y: Any = x
    for w, r in pairs(weights):
        y = sj.scan(lambda a, h, w=w, r=r: np.tanh(a @ w + h @ r), y, sj.zeros((x.shape[1], units), x.dtype))
    (stage,) = sj.function([x, *weights], y, mode="emulate").executable.stages
    return stage.sized({atom: sizes[str(atom.name)] for atom in stage.table.atoms}, Way(threads)).sharing


def test_few_rows_run_in_waves_and_many_keep_their_own() -> None:
    def chosen(batch: int, threads: int) -> bool:
        (assigned,) = shared(128, threads, T=1000, B=batch).teams.values()
        return assigned.teams is not None

    assert [chosen(1, threads) for threads in (1, 2, 3, 8)] == [False, True, True, True]
    assert not chosen(512, 2)


def test_a_block_that_is_alone_in_its_turn_costs_a_meeting_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and the last block are alone. They are short, so that threads seldom meet in their steps."""
    (short,) = shared(64, 2, T=300, B=1).teams.values()
    assert short.teams is not None
    assert short.turns.many > 4
    monkeypatch.setattr(Work, "shared", Work.time)
    (long,) = shared(64, 2, T=300, B=1).teams.values()
    assert long.turns.many < short.turns.many


def test_one_thread_runs_what_several_would_not_run_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shared(64, 2, T=3000, B=1).several
    monkeypatch.setattr(rates, "MEETING", 1e6)
    assert not shared(64, 2, T=3000, B=1).several
    assert shared(64, 2, T=300, B=64).several, "each thread keeps its rows"
    x = sj.vector("x")
    (stage,) = sj.function([x], sj.scan(lambda a, h: np.tanh(a + h), x, 0.0)[-1], mode="emulate").executable.stages
    alone = stage.sized(dict.fromkeys(stage.table.atoms, 10**7), Way(2)).sharing
    assert alone.operations > rates.WAKING
    assert not alone.several


def test_programs_that_move_many_bytes_are_for_several_threads() -> None:
    """A sum of two numbers is one operation, but twelve bytes are moved for it."""
    x = sj.vector("x", "float32")
    (stage,) = sj.function([x], x + x[::-1], mode="emulate").executable.stages
    several = [stage.sized(dict.fromkeys(stage.table.atoms, n), Way(2)).sharing.several for n in (10**4, 10**6)]
    assert several == [False, True]
