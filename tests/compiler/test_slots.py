"""Slots: what the loops of a wave hand on to each other has memory for a few turns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.config import config
from scanjit.errors import InternalError
from scanjit.runtime import host
from scanjit.schedule.nests import Beside
from scanjit.schedule.nests.verify import verify
from scanjit.schedule.time import slots
from tests.compiler.test_waves import MADE, H, Made, always, arguments, flat, layer, pairs, program, stack
from tests.fuzz.check import Config, agree

__all__ = ["always"]


def states(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    """The states after the last step are read when the wave has ended."""
    found = []
    for w, r in pairs(weights):
        x = layer(x, w, r)
        found.append(x[-1])
    return found


def states_backwards(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    found = []
    for w, r in pairs(weights):
        start = sj.ones((x.shape[1], H), x.dtype)
        x, c = sj.scan(
            lambda a, h, c, w=w, r=r: (np.tanh(a @ w + h @ r + 0.1 * c), 0.5 * c + h),
            x,
            [start, start],
            go_backwards=True,
        )
        x = x[::-1]
        found += [x[0], c[-1]]
    return [x, *found]


def two_steps_back(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    """A slot has two rows in front."""
    for w, r in pairs(weights):
        start = {"initial": sj.ones((2, x.shape[1], H), x.dtype), "taps": [-2, -1]}
        x = sj.scan(lambda a, back, h, w=w, r=r: np.tanh(a @ w + h @ r + 0.3 * back), x, start)
    return x


def row_before(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    """A layer reads what the one below had at the step before its own."""
    for w, r in pairs(weights):
        start = sj.ones((x.shape[1], H), x.dtype)
        h = sj.scan(lambda a, h, w=w, r=r: np.tanh(a @ w + h @ r), x, start)
        x = sj.concatenate([start[None], h[:-1]])
    return x


def skipping(x: sj.Tensor, weights: list[sj.Tensor]) -> Any:
    """The third layer reads the first, two turns before."""
    first, second, third = pairs(weights)
    a = layer(x, *first)
    b = layer(a, *second)
    return layer(a + b, *third)[-1]


PROGRAMS: list[Made] = [*MADE, states, states_backwards, two_steps_back, row_before, skipping]
SLOTTED: list[Made] = [states, states_backwards, two_steps_back, skipping]


@pytest.fixture(params=[1, 3])
def short(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Turns of so many blocks, which have few steps."""
    monkeypatch.setattr(slots, "BLOCKS", request.param)
    target = replace(host.target(), level1_bytes=100, level2_bytes=400)
    with host.using(target):
        yield request.param


@pytest.mark.parametrize("made", SLOTTED)
def test_what_layers_hand_on_has_slots(made: Made) -> None:
    assert "in turns, with memory for a few turns of" in program(made, "emulate").explain()


@pytest.mark.quick(6)
@pytest.mark.parametrize(("short", "threads"), [(1, 1), (3, 2), (1, 3)], indirect=["short"])
@pytest.mark.parametrize("made", PROGRAMS)
def test_slots_hold_what_is_still_read(short: int, made: Made, threads: int) -> None:
    with Config(width=32, shared=True, threads=threads, small=True, cheap=threads == 3).active():
        f, wanted = program(made, "emulate"), program(made, "reference")
        for T in (13, 4, 2, 1, *([0] if made is stack else [])):
            args = arguments(T)
            assert all(agree(a, b) for a, b in zip(flat(f(*args)), flat(wanted(*args)), strict=True))


@pytest.mark.parametrize("made", [states, states_backwards, skipping, stack])
def test_the_bits_are_those_of_one_thread(always: None, short: int, made: Made) -> None:
    f, wanted = program(made, "numba"), program(made, "reference")
    (stage,) = f.executable.stages
    for T, B in ((23, 1), (40, 3), (1, 2), (9, 0)):
        args, results = arguments(T, B), []
        for config.threads in (1, 2, 3, 8):
            stage.forget()
            results += [flat(f(*args)) for _ in range(4)]
        for found in results:
            np.testing.assert_equal(found, results[0])
        assert all(agree(a, b) for a, b in zip(results[0], flat(wanted(*args)), strict=True))


def test_memory_does_not_grow_with_the_steps() -> None:
    f = program(skipping, "emulate")
    few, many = (f.memory(T=T, B=64).workspace for T in (20_000, 200_000))
    assert few == many
    assert few < f.memory(T=500, B=64).workspace * 20


def test_short_loops_have_no_more_memory_than_rows() -> None:
    f = program(skipping, "emulate")
    rows = [t for t in f.memory(T=3, B=2).temporaries if t.nbytes >= 4 * 2 * H * 4]
    assert all(t.nbytes <= (3 + 1) * 2 * H * 4 for t in rows if t.name == "carry")


@pytest.mark.parametrize(("T", "B", "width"), [(9, 2, 0), ("T", 0, 4), (1, 2, 4), (0, 2, 4)])
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("go_backwards", [False, True])
def test_one_turn_or_rows_without_elements_have_no_slots(
    T: Any, B: int, width: int, gradient: bool, go_backwards: bool, rng: np.random.Generator
) -> None:
    """Their slots would lie at the same place in each turn, which the verifier refuses."""

    def made(mode: str) -> Any:
        x = sj.tensor((T, B, width), "float32")
        weights = [sj.tensor((width, width), "float32") for _ in range(4)]
        y: Any = x
        for w, r in pairs(weights):
            start = sj.ones((B, width), "float32")
            y = sj.scan(lambda a, h, w=w, r=r: np.tanh(a @ w + h @ r), y, start, go_backwards=go_backwards)
            y = y[::-1] if go_backwards else y
        return sj.function([x, *weights], sj.grad((y * y).sum(), weights) if gradient else y, mode=mode)

    args = [rng.standard_normal((5 if T == "T" else T, B, width)).astype("float32")]
    args += [rng.standard_normal((width, width)).astype("float32") for _ in range(4)]
    for rewrite in (True, False):
        with Config(rewrite=rewrite, width=32).active():
            f = made("emulate")
            assert "in turns, with memory" not in f.explain()
            assert all(agree(a, b) for a, b in zip(flat(f(*args)), flat(made("reference")(*args)), strict=True))


def test_too_few_slots_are_refused() -> None:
    (stage,) = program(skipping, "emulate").executable.stages
    verify(stage.program)
    (beside,) = (s for s in stage.program.suite if isinstance(s, Beside))
    assert beside.wave is not None
    assert sorted(beside.wave.slots.values()) == [2, 3]
    fewer = dict.fromkeys(beside.wave.slots, 2)
    suite = [replace(s, wave=replace(beside.wave, slots=fewer)) if s is beside else s for s in stage.program.suite]
    with pytest.raises(InternalError, match="which another one touches"):
        verify(stage.program.with_suite(suite))


def test_a_profile_counts_the_products_of_all_blocks(monkeypatch: pytest.MonkeyPatch, short: int) -> None:
    monkeypatch.setattr(config, "profile", True)
    monkeypatch.setattr(config, "threads", 1)
    f = program(stack, "numba")
    f(*arguments(40))
    products = [line.operations for line in f.profile().lines if "contract" in line.label]
    assert len(products) >= 3
    assert min(products) >= 2 * 2 * H * H * 40, "for two series, in 40 steps"
