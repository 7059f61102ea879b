"""Steps that rarely change their state are computed several at a time, as if they did not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.codegen import time
from scanjit.runtime import host
from scanjit.schedule.tiles import apply
from scanjit.simd import emulate
from tests.fuzz.check import Config

Step = Any
NOT = np.bool_(False)
ODDS = ([0.5, 0.5, 0, 0, 0], [0.3, 0.3, 0.4, 0, 0], [0.45, 0.45, 0.09, 0.005, 0.005])
"""How often zeros and other numbers are."""


def best(x: Any, best: Any) -> Any:
    best = sj.sort(sj.concatenate([best, x[None]]))[1:]
    return best, best[0]


def trigger(x: Any, on: Any) -> Any:
    on = sj.where(on, x > -0.5, x > 0.5)
    return on, sj.where(on, x, 0.0)


def levels(x: Any, top: Any, low: Any, seen: Any) -> Any:
    """Extrema of floats, among them -0.0 and NaN, and a count."""
    above, below = sj.where(x > low, sj.maximum(top, x), top), sj.where(x < top, sj.minimum(x, low), low)
    return above, below, seen + sj.where(x > 2.5, 1, 0)


def zero(x: Any, sign: Any) -> Any:
    """Choices of another zero."""
    return sj.where(x > sign + 1.0, 0.0, sj.where(x < sign - 1.0, -0.0, sign))


def piles(x: Any, tails: Any) -> Any:
    place = sj.minimum(sj.cast(tails < x, "int64").sum(), 3)
    return tails[place].set(sj.minimum(tails[place], x)), place


def held(x: Any, peak: Any, age: Any) -> Any:
    """The age is another one after each step."""
    newer = (x > peak) | (age >= 5)
    return sj.where(newer, x, peak), sj.where(newer, 0, age + 1)


STILL: list[Step] = [best, trigger, levels, zero, piles]


def scanned(step: Step, x: Any, **options: Any) -> Any:
    dtype = x.dtype
    starts = {
        best: lambda: [sj.full(3, np.asarray(-np.inf, dtype)), None],
        trigger: lambda: [sj.as_tensor(NOT), None],
        levels: lambda: [np.zeros((), dtype), np.zeros((), dtype), 0],
        zero: lambda: [np.zeros((), dtype)],
        piles: lambda: [sj.full(4, np.asarray(9.0, dtype)), None],
        held: lambda: [np.zeros((), dtype), 0],
    }
    found = sj.scan(step, x, starts[step](), **options)
    found = list(found) if isinstance(found, list | tuple) else [found]
    return [each[-1] if each.ndim > 1 else each for each in found]  # the rows of all steps lie apart


@pytest.mark.parametrize("mode", ["emulate", "numba"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("step", STILL)
def test_the_same_bits(step: Step, dtype: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each form, whatever the times are; with states that change often, seldom and never."""
    times = np.random.default_rng(1)
    monkeypatch.setattr(emulate.time, "perf_counter_ns", lambda: int(times.integers(0, 1 << 40)))
    monkeypatch.setattr(time, "STRETCH", 128)  # a quarter of it is two vectors of 16 steps
    monkeypatch.setattr(time, "OFTEN", 2)
    x = sj.vector("x", dtype)
    f, wanted = (sj.function([x], scanned(step, x), mode=each) for each in (mode, "reference"))
    size = 20_000 if mode == "numba" else 1_000
    given = np.random.default_rng(0).standard_normal(size).astype(dtype)
    given *= np.repeat([0.001, 0.3, 3.0, 0.1], size // 4).astype(dtype)
    given[::50], given[25::50] = 0.0, -0.0
    for changed in (given, np.where(np.arange(size) == size // 2, np.nan, given).astype(dtype)):
        for length in (size, 1, 7, 8, 9, 63, 64, 65, 130):
            for got, other in zip(f(changed[:length]), wanted(changed[:length]), strict=True):
                np.testing.assert_array_equal(got, other)
                np.testing.assert_array_equal(np.signbit(got), np.signbit(other))


def peak(x: Any, seen: Any, top: Any) -> Any:
    """Extrema of which one operand is chosen."""
    found = sj.maximum(sj.minimum(x, x + 1.0), sj.where(top >= x, top, 0.0))
    return seen | (top <= x * 0.5), sj.maximum(x * 0.5, top), found


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_extrema_of_two_zeros(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are either zero, but the same one in all forms of steps. Compiled code shows it: LLVM may exchange them."""
    x, start = sj.vector("x", dtype), sj.scalar("start", dtype)
    found = []
    for forms in (True, False):
        if not forms:
            monkeypatch.setattr(apply, "still_lanes", lambda *_: 0)
            monkeypatch.setattr(apply, "in_forms", lambda nest, *_: nest)
        f = sj.function([x, start], list(sj.scan(peak, x, [NOT, start, None])), name=f"forms_{forms}")
        assert forms == ("clock()" in f.source)
        assert forms == ("select(isnan(" in f.source)
        rng = np.random.default_rng(0)
        given = [rng.choice([0.0, -0.0, -1.0, 0.5, np.nan], 5_000, p=p).astype(dtype) for p in ODDS]
        found.append(
            [each for values in given for first in (0.0, -0.0, -2.0) for each in f(values, np.asarray(first, dtype))]
        )
    for got, other in zip(*found, strict=True):
        np.testing.assert_array_equal(got, other)
        np.testing.assert_array_equal(np.signbit(got)[got == 0], np.signbit(other)[other == 0])


def test_products_are_rounded_in_all_forms() -> None:
    """LLVM makes a multiply-add of a product that is added to a number behind a conversion, where the number is known:
    in the form with branches alone."""
    x = sj.vector("x", "float32")

    def step(x: Any, y: Any) -> Any:
        added = sj.where(x > 0.1, 0.25, 0.7) + sj.cast(y * np.float32(-0.9), "float64")
        return sj.where(x > y, sj.cast(added, "float32"), y)

    f = sj.function([x], sj.scan(step, x, np.float32(0.0)))
    assert "fma(" not in f.source
    y, wanted, values = np.float32(0), [], np.random.default_rng(0).standard_normal(3_000).astype("float32")
    for value in values:
        if value > y:
            y = np.float32((0.25 if value > np.float32(0.1) else 0.7) + np.float64(y * np.float32(-0.9)))
        wanted.append(y)
    np.testing.assert_array_equal(f(values), wanted)


@pytest.mark.skipif(not host.target().is_x86, reason="there is no clock for it")
def test_which_steps() -> None:
    """All registers may stay, and vectors hold several numbers."""
    x = sj.vector("x", "float64")

    def is_tried(step: Step, width: int = 32, **options: Any) -> bool:
        with Config(width=width).active():
            return "all_of(" in sj.function([x], scanned(step, x, **options), mode="emulate").source

    assert all(map(is_tried, STILL))
    assert not is_tried(held)
    assert not is_tried(trigger, width=8)
