"""`fit`: the loop over epochs and batches."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like.training import EarlyStopping, History, fit

BATCHES = [(np.full(3, 1.0),), (np.full(1, 5.0),)]


def mean(x: Any) -> Any:
    return x.mean()


def test_batches_count_by_their_length() -> None:
    assert fit(mean, BATCHES, 2) == {"loss": [2.0, 2.0]}
    assert fit(lambda x: [x.mean(), "more"], lambda: iter(BATCHES), 1) == {"loss": [2.0]}


def test_scores_history_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    history, seen = History({"loss": [9.0]}), []
    found = fit(
        mean, BATCHES, 1, validate=lambda: {"held out": 3, "right": 0.5}, history=history, verbose=True,
        after_epoch=lambda history: seen.append(history.epochs),
    )  # fmt: skip
    assert found is history and seen == [2] and history["held out"][1] == 3
    assert capsys.readouterr().out == "epoch 1 of 1: loss 2, held out 3, right 0.5\n"


def test_stopping_restores_the_best_epoch_also_after_an_error() -> None:
    w = sj.shared(0.0, "w")
    losses = [3.0, 1.0, 2.0, 2.0, 0.0]

    def train(x: Any) -> float:
        w.set_value(w.get_value() + 1)
        return losses[int(w.get_value()) - 1]

    history = fit(train, BATCHES[:1], 5, stopping=EarlyStopping(2), restore=[w])
    assert history.epochs == 4 and w.get_value() == 2

    def broken(x: Any) -> float:
        if w.get_value() == 2:
            w.set_value(99.0)
            raise KeyboardInterrupt
        return train(x)

    w.set_value(0.0)
    history = History()
    with pytest.raises(KeyboardInterrupt):
        fit(broken, BATCHES[:1], 5, stopping=EarlyStopping(2), restore=[w], history=history)
    assert history.epochs == 2 and w.get_value() == 2


def test_what_fit_refuses() -> None:
    once: Iterator[Any] = iter(BATCHES)
    with pytest.raises(ValueError, match="there was no batch in this epoch: pass a function"):
        fit(mean, once, 2)  # type: ignore[arg-type]
    for epochs in (-1, 1.5, None, "a"):
        with pytest.raises(ValueError, match=f"epochs must not be negative, and a whole number, got {epochs!r}"):
            fit(mean, BATCHES, epochs)  # type: ignore[arg-type]
    for wrong, message in [
        ({"train": None}, "train must be a function"),
        ({"validate": 3}, "validate must be a function"),
        ({"validate": lambda: "good"}, "validate must return a number, or a dictionary of numbers, got 'good'"),
        ({"stopping": lambda score: True}, "stopping must be of the class EarlyStopping"),
        ({"schedule": 0.1}, "schedule must be of the class Schedule, got 0.1"),
        ({"history": {}}, "history must be of the class History, got {}"),
        ({"stopping": EarlyStopping(1), "restore": [3]}, "restore must be a list of shared variables, .*; got 3"),
        ({"stopping": EarlyStopping(1), "restore": sj.shared}, "restore must be a list of shared variables"),
        ({"batches": [3]}, "a batch is a tuple of arrays"),
        ({"batches": [(3,)]}, "a batch is a tuple of arrays"),
        ({"train": lambda x: None}, "train must return the loss"),
        ({"train": lambda x: np.ones(2)}, "train must return the loss"),
        ({"train": lambda x: "a"}, "train must return the loss"),
    ]:
        with pytest.raises(TypeError, match=message):
            fit(**{"train": mean, "batches": BATCHES, "epochs": 1} | wrong)  # type: ignore[arg-type]
    for ignored, message in [
        ({"restore": [sj.shared(0.0)]}, "restore needs stopping"),
        ({"schedule_batches": True}, "schedule_batches=True needs a schedule"),
    ]:
        with pytest.raises(ValueError, match=message):
            fit(mean, BATCHES, 1, **ignored)  # type: ignore[arg-type]
    with pytest.raises(FloatingPointError, match="the loss of epoch 1 is nan: try a smaller learning rate"):
        fit(lambda x: np.nan, BATCHES, 3)


def test_a_history_draws_itself() -> None:
    pytest.importorskip("matplotlib")
    axes = History({"loss": [0.9, 0.5]}).plot()
    assert [line.get_label() for line in axes.lines] == ["loss"]
