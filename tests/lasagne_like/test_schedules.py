"""Learning-rate schedules: beside torch's, in update rules, and what they refuse."""

import itertools
from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like.schedules import Schedule, constant, cosine, exponential, reduce_on_plateau, staircase, warm_up
from lasagne_like.stopping import EarlyStopping

LOSSES = [1.0, 0.5, 0.5, 0.6, 0.7, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.3]


def rates(schedule: Schedule) -> list[float]:
    found = []
    for loss in LOSSES:
        found.append(float(schedule.rate.get_value()))
        schedule.step(loss)
    return found


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        (lambda: constant(0.3), lambda s, o: s.ConstantLR(o, factor=1.0)),
        (lambda: staircase(0.3, 3, 0.5), lambda s, o: s.StepLR(o, 3, 0.5)),
        (lambda: exponential(0.3, 0.8), lambda s, o: s.ExponentialLR(o, 0.8)),
        (lambda: cosine(0.3, 11, 0.1), lambda s, o: s.CosineAnnealingLR(o, 11, 0.1)),
        (lambda: warm_up(0.3, 5, 0.1), lambda s, o: s.LinearLR(o, 1 / 3, total_iters=5)),
        (
            lambda: reduce_on_plateau(0.3, 0.5, patience=2),
            lambda s, o: s.ReduceLROnPlateau(o, factor=0.5, patience=1, threshold=0.0),
        ),
    ],
    ids=["constant", "staircase", "exponential", "cosine", "warm_up", "reduce_on_plateau"],
)
@pytest.mark.filterwarnings("ignore")
def test_like_torch(own: Any, theirs: Any) -> None:
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3)
    scheduler = theirs(torch.optim.lr_scheduler, optimizer)
    wanted = []
    for loss in LOSSES:
        wanted.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step(loss) if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau) else scheduler.step()
    np.testing.assert_allclose(rates(own()), wanted, rtol=1e-12)


def test_schedules_of_schedules() -> None:
    both = warm_up(reduce_on_plateau(staircase(1.0, 2, 0.5), 0.1, patience=2), 2)
    # at the third and fifth loss the plateau says 0.1, at the ninth and eleventh again
    np.testing.assert_allclose(rates(both)[:6], [0.0, 0.5, 1.0, 1.0, 0.05, 0.05], rtol=1e-12)
    floor = reduce_on_plateau(exponential(1.0, 0.9), 0.1, patience=1, least=0.3)
    found = rates(floor)
    assert found[-1] == 0.3 and all(a >= b for a, b in itertools.pairwise(found))
    below = reduce_on_plateau(exponential(1.0, 0.1), 0.5, patience=1, least=0.5)
    assert rates(below)[3] == pytest.approx(1e-3)  # the schedule itself may go below


def test_a_state_goes_on() -> None:
    one, two = (reduce_on_plateau(warm_up(0.5, 3), 0.5, patience=2) for _ in range(2))
    for loss in LOSSES[:7]:
        one.step(loss)
    two.set_state(one.get_state())
    assert rates(two) == rates(one)
    assert two.steps == 7 + len(LOSSES)


@pytest.mark.parametrize("rule", ["sgd", "adam", "rmsprop", "momentum"])
def test_rules_use_the_rate_and_keep_dtypes(rule: str) -> None:
    schedule = staircase(0.1, 1, 0.5)
    w, fixed = sj.shared(np.float32(1.0), "w"), sj.shared(np.float32(1.0), "w")
    make = getattr(lasagne.updates, rule)
    step = sj.function([], updates=make(w * w, [w], schedule.rate), mode="reference")
    other = sj.function([], updates=make(fixed * fixed, [fixed], 0.1), mode="reference")
    step(), other()
    assert w.get_value() == fixed.get_value() and w.get_value().dtype == "float32"
    schedule.step()
    step(), other()
    assert w.get_value() != fixed.get_value()


def test_fit_moves_a_schedule_by_epochs_or_by_batches() -> None:
    for by_batches, steps in ((False, 3), (True, 6)):
        schedule = constant(0.1)
        lasagne.training.fit(
            lambda x: x.sum(), [(np.ones(2),), (np.ones(1),)], 3, schedule=schedule, schedule_batches=by_batches
        )
        assert schedule.steps == steps
    plateau = Schedule(lambda steps: 1.0, EarlyStopping(2), factor=0.5)
    lasagne.training.fit(
        lambda x: 1.0, [(np.ones(2),)], 6, schedule=plateau, validate=iter([3, 2, 2, 2, 1, 1]).__next__
    )
    assert float(plateau.rate.get_value()) == 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: constant(0.0), "a learning rate must be a positive number, got 0.0"),
        (lambda: warm_up(float("nan"), 3), "a learning rate must be a positive number, got nan"),
        (lambda: exponential(0.1, 0.0), "factor must be a number up to 1 and more than 0, got 0.0"),
        (lambda: reduce_on_plateau(0.1, 1.5), "factor must be a number up to 1 and more than 0, got 1.5"),
        (lambda: staircase(0.1, 0), "every must be a whole number of at least 1, got 0"),
        (lambda: cosine(0.1, 2.5), "steps must be a whole number of at least 1, got 2.5"),  # type: ignore[arg-type]
        (lambda: constant("fast"), "a learning rate must be a positive number, got 'fast'"),  # type: ignore[arg-type]
        (lambda: staircase(0.1, 3, "half"), "factor must be a number"),  # type: ignore[arg-type]
        (lambda: staircase(0.1, float("nan")), "every must be a whole number"),  # type: ignore[arg-type]
        (lambda: cosine(0.1, 3, least=-1.0), "least of a schedule must be a number of at least 0, got -1.0"),
        (lambda: warm_up(0.1, 3, start=float("nan")), "start of a schedule must be a number of at least 0, got nan"),
        (lambda: reduce_on_plateau(0.1, least=-1.0), "least of a schedule must be a number of at least 0, got -1.0"),
        (lambda: reduce_on_plateau(reduce_on_plateau(0.1)), "the schedule reduces its rate on a plateau already"),
        (lambda: lasagne.schedules.Schedule(0.1), "formula of Schedule must be a function"),  # type: ignore[arg-type]
        (lambda: reduce_on_plateau(0.1).step(), r"needs the loss of each step: step\(loss\)"),
    ],
)
def test_what_schedules_refuse(make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()
