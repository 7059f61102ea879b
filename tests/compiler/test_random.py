"""Random programs: forward, gradients, loops; unrolled and not; through the emulator, and some of them compiled."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.fuzz.cases import run_one
from tests.fuzz.check import Config, check
from tests.fuzz.programs import program

QUICK, ALL, CHUNK = 60, 300, 10
CHUNKS = [pytest.param(first, marks=() if first < QUICK else pytest.mark.slow) for first in range(0, ALL, CHUNK)]


@pytest.mark.quick(3)
@pytest.mark.parametrize("first", CHUNKS)
def test_emulated(first: int) -> None:
    """To look at a failure: `python -m tests.fuzz --only SEED --most 0`."""
    for seed in range(first, first + CHUNK):
        try:
            run_one(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


def test_with_hypothesis() -> None:
    """The same generator, its choices made (and made smaller, where it fails) by hypothesis."""

    @settings(max_examples=8, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(st.randoms(use_true_random=False), st.booleans())
    def holds(source: random.Random, rewrite: bool) -> None:
        check(program(0, source), [Config(rewrite=rewrite)], runs=1)

    holds()


@pytest.mark.quick(7)
@pytest.mark.parametrize("seed", range(50_000, 50_025))
def test_compiled(seed: int) -> None:
    """Small ones: each kernel takes a good part of a second to compile."""
    check(program(seed, most=6), [Config("numba")], runs=3)
