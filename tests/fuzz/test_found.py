"""Random programs that failed once. Each runs as in a long run, but for another program if the generator changes: the
causes have tests of their own where they could be written down as small programs."""

from __future__ import annotations

import pytest

from tests.fuzz.cases import run_one

FOUND = {
    881283: "rounding decides whether the reference raises",
    910005707: "in a branch, the last row of a loop of no steps was taken for the initial value",
    910008910: "the forward loop of a derivative was to stack what has another size in each step",
    910003338: "without rewriting, a second derivative has sizes that a step computes",
    920000598: "with other sizes than planned, a value has 390,625 elements",
}


@pytest.mark.parametrize("seed", FOUND)
def test_passes_now(seed: int) -> None:
    run_one(seed)
