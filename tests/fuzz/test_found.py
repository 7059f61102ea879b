"""Random programs that failed once. Each runs as in a long run, but for another program if the generator changes: the
causes have tests of their own where they could be written down as small programs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz.cases import run_one
from tests.fuzz.check import Config, built, check
from tests.fuzz.checkpoints import with_checkpoints
from tests.fuzz.curvature import second_order
from tests.fuzz.known import known

FOUND = {
    300133: "with checkpoints, the gradient of a state of one row and one column was rounded otherwise",
    881283: "rounding decides whether the reference raises",
    910005707: "in a branch, the last row of a loop of no steps was taken for the initial value",
    910008910: "the forward loop of a derivative was to stack what has another size in each step",
    910003338: "without rewriting, a second derivative has sizes that a step computes",
    932000433: "the verifier missed the memory of a sum that nothing reads",
    932000730: "the verifier looked into blocks of a loop of no steps",
    936000329: "a loop that was changed for all that are alike had a size computed by one of them",
    937004739: "sizes that an operand of a branch is made of were moved out of the branch again and again",
    964000181: "a carry was saved that another band of points begins",
    964002408: "the opposite of a mask that depends on a carry was computed before the loop",
    964002561: "a copy in square blocks had a tile of several vectors",
    971001892: "four samples of noise agreed by chance on which side of 2 a sum lies that is 2 but for rounding",
    976007663: "arrays of two and of three axes were to have the order of axes of one loop",
    977005317: "a loop of one step was cut into stretches: how many steps a stretch has was not known any more",
    977003400: "the verifier took the terms of a sum of no terms for reads",
    9500055: "a loop whose steps compute a size was to be computed for all steps of the loop around it",
    9301515: "functions that a step calls twice read from memory what lay on the stack",
    9990845: "loops of a wave without steps had no memory for the state before the first step",
    7003795: "sizes in branches, of inputs with sizes of their own, moved out of branches without end",
    7101382: "a carry was copied from memory for a whole band of points, of which the last band has fewer",
    7101713: "a loop of constants gave results in a step of a model that nothing around the step used",
    920000598: "with other sizes than planned, a value has 390,625 elements",
}


@pytest.mark.quick(2)
@pytest.mark.parametrize("seed", FOUND)
def test_passes_now(seed: int) -> None:
    run_one(seed)


def test_a_nest_in_a_stretch_of_checkpoints_runs_whole() -> None:
    """The pieces that it was to run in have a size that depends on the stretch, and is not known before."""
    p = second_order(920006597)
    config = Config(width=32, small=True)
    run = built(p, with_checkpoints(p.outputs, "sqrt"), config)
    with config.active():
        assert len(run(*p.draw(np.random.default_rng(0), p.sizes))) == len(p.outputs)


@pytest.mark.parametrize(("seed", "width"), [(145, 16), (156, 32), (163, 16), (178, 16)])
def test_rows_of_states_that_are_read_as_if_they_were_one(seed: int, width: int) -> None:
    """A nest that reads or stores several rows, or the end of one and the begin of the next, was taken for one of a
    part of a row."""
    check(known(seed), [Config(width=width)])
