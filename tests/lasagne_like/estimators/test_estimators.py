"""The estimators on sequences: every form of input, training, copies, and what users do wrong."""

import functools
import math
import pickle
import signal
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like.estimators import RecurrentClassifier, RecurrentRegressor, SequenceTagger
from lasagne_like.schedules import cosine
from tests.at_once import at_once

RNG = np.random.default_rng(0)
X = [RNG.normal(size=(length, 2)) for length in RNG.integers(2, 9, 48)]
Y = np.array(["down" if x[-1, 0] < 0 else "up" for x in X])
TAGS = [np.where(x[:, 0] < 0, "down", "up") for x in X]
SMALL: dict[str, Any] = {"cell": "rnn", "units": 6, "learning_rate": 0.03, "random_state": 0}
ALL = [(RecurrentClassifier, Y), (RecurrentRegressor, np.array([x[-1, 0] for x in X])), (SequenceTagger, TAGS)]


def small(**options: Any) -> RecurrentClassifier:
    return RecurrentClassifier(**SMALL | {"epochs": 3} | options)


@functools.cache
def fitted() -> RecurrentClassifier:
    return small(epochs=25).fit(X, Y)


def bits(values: Any) -> list[bytes]:
    return [np.asarray(value).tobytes() for value in values]


# ---- what it learns --------------------------------------------------------------------------------------------------


def test_a_classifier_learns_from_ragged_lists() -> None:
    model = fitted()
    assert model.classes_.tolist() == ["down", "up"] and model.n_features_in_ == 2
    assert model.n_iter_ == model.history_.epochs == 25 and list(model.history_) == ["loss"]
    probabilities = model.predict_proba(X)
    assert probabilities.dtype == "float32"
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    assert model.score(X, Y) == accuracy_score(Y, model.predict(X)) > 0.9


@pytest.mark.parametrize("targets", [0, 1, 3])
def test_a_regressor_gives_targets_as_they_were(targets: int) -> None:
    last = np.array([x[-1, 0] for x in X])
    y = np.stack([last, -last, 2 * last], 1)[:, :targets] if targets else last
    model = RecurrentRegressor(**SMALL, epochs=80).fit(X, y)
    assert model.predict(X).shape == y.shape
    assert model.score(X, y) == pytest.approx(r2_score(y, model.predict(X))) and model.score(X, y) > 0.8


def test_a_tagger_labels_each_step() -> None:
    model = SequenceTagger(**SMALL, epochs=15).fit(X, TAGS)
    found = model.predict(X)
    assert [len(tags) for tags in found] == [len(x) for x in X]
    assert [p.shape for p in model.predict_proba(X[:3])] == [(len(x), 2) for x in X[:3]]
    right = np.concatenate([a == b for a, b in zip(found, TAGS, strict=True)])
    assert model.score(X, TAGS) == right.mean() > 0.9
    assert model.score(X, TAGS, [np.arange(len(x)) == 0 for x in X]) == np.mean(
        [a[0] == b[0] for a, b in zip(found, TAGS, strict=True)]
    )
    whole = np.stack([x[:2] for x in X])
    assert model.predict(whole).shape == (48, 2) and model.predict_proba(whole).shape == (48, 2, 2)


def test_all_forms_of_input_are_the_same_sequences() -> None:
    model = fitted()
    long = np.stack([np.resize(x, (8, 2)) for x in X])
    wanted = model.predict_proba(long)
    assert wanted.tobytes() == model.predict_proba(list(long)).tobytes() == model.predict_proba(long.tolist()).tobytes()
    objects = np.empty(len(X), object)
    objects[:] = X
    assert model.predict_proba(objects).tobytes() == model.predict_proba(X).tobytes()
    one = RecurrentClassifier(**SMALL, epochs=1).fit(long[:, :, 0], Y)
    for same in (long[:, :, :1], list(long[:, :, 0]), long[:, :, 0].tolist()):
        assert one.predict_proba(same).tobytes() == one.predict_proba(long[:, :, 0]).tobytes()


def test_padding_and_neighbours_do_not_matter() -> None:
    model = fitted()
    alone = np.concatenate([model.predict_proba([x]) for x in X])
    np.testing.assert_allclose(model.predict_proba(X), alone, rtol=1e-5)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "options",
    [
        {"layers": 2, "bidirectional": True, "dropout": 0.3, "early_stopping": True},
        {"cell": lasagne.cells.MinGRU, "optimizer": "rmsprop", "alpha": 0.01, "max_norm": 1.0},
        {"cell": "lstm", "optimizer": functools.partial(lasagne.updates.adam, beta1=0.8), "dtype": "float64"},
        {"cell": "gru", "learning_rate": functools.partial(cosine, 0.02, steps=9), "class_weight": {"up": 2.0}},
    ],
    ids=["stack", "callable cell", "callable optimizer", "schedule"],
)
def test_options_give_the_same_bits_again_after_copies_too(options: dict[str, Any]) -> None:
    before = sj.config.floatX
    model = small(**options).fit(X, Y)
    wanted = model.predict_proba(X)
    assert wanted.dtype == options.get("dtype", "float32") and sj.config.floatX == before
    assert bits(clone(model).fit(X, Y).predict_proba(X)) == bits(wanted)
    copy = pickle.loads(pickle.dumps(model))
    assert bits(copy.predict_proba(X)) == bits(wanted)
    again = [one.partial_fit(X, Y).predict_proba(X) for one in (model, copy)]
    assert bits(again[0]) == bits(again[1]) != bits(wanted)


def test_early_stopping_takes_the_best_epoch() -> None:
    noise = RNG.permutation(Y)  # nothing to learn but by heart
    model = small(early_stopping=True, patience=2, epochs=60, validation_fraction=0.25).fit(X, noise)
    losses = model.history_["validation"]
    assert model.n_iter_ == np.argmin(losses) + 3 < 60
    shorter = small(early_stopping=True, patience=60, epochs=int(np.argmin(losses)) + 1, validation_fraction=0.25)
    assert bits(shorter.fit(X, noise).predict_proba(X)) == bits(model.predict_proba(X))


def test_nothing_is_compiled_anew_for_another_length() -> None:
    model = fitted()
    train, evaluate = model.network_.train, model.network_.evaluate
    model.predict([np.ones((steps, 2)) for steps in (1, 30, 300)])
    clone(model).set_params(epochs=1).fit(X, Y)
    assert model.network_.train is train and model.network_.evaluate is evaluate


# ---- weights ---------------------------------------------------------------------------------------------------------


def test_only_ratios_of_weights_count_and_zero_leaves_a_sequence_out() -> None:
    half = np.arange(48) % 2
    wanted = small(batch_size=48).fit(X, Y, half).predict_proba(X)
    assert bits(small(batch_size=48).fit(X, Y, 2 * half).predict_proba(X)) == bits(wanted)
    some = [x for x, own in zip(X, half, strict=True) if own]
    assert bits(small(batch_size=48).fit(some, Y[half == 1]).predict_proba(X)) == bits(wanted)
    assert bits(fitted().predict_proba(X)) != bits(wanted)


def test_weights_of_classes_and_steps() -> None:
    up = small(epochs=25, class_weight={"up": 200.0, "down": 0.01}).fit(X, Y).predict(X) == "up"
    assert up[Y == "up"].all() and up.mean() > 0.75 > np.mean(fitted().predict(X) == "up")
    weights = [np.where(tags == "up", 1e4, 1e-2) for tags in TAGS]
    model = SequenceTagger(**SMALL, epochs=25).fit(X, TAGS, weights)
    assert np.mean(np.concatenate(model.predict(X)) == "up") > 0.75 > np.mean(np.concatenate(TAGS) == "up")
    few = [0] * 4 + [5] * 40
    same = small(class_weight="balanced").fit(X[:44], few).predict_proba(X)
    weighted = small(class_weight={0: 44 / 8, 5: 44 / 80}).fit(X[:44], few).predict_proba(X)
    np.testing.assert_allclose(same, weighted, rtol=1e-4)


# ---- with scikit-learn's tools ---------------------------------------------------------------------------------------


def test_grid_search_with_two_processes_and_pipelines(tmp_path: Path) -> None:
    halved = FunctionTransformer(_halved)
    search = GridSearchCV(
        make_pipeline(halved, small()), {"recurrentclassifier__epochs": [1, 9]}, cv=2, n_jobs=2, error_score="raise"
    )
    search.fit(X, Y)
    assert search.best_params_ == {"recurrentclassifier__epochs": 9}
    joblib.dump(search, tmp_path / "search.joblib")
    assert bits(joblib.load(tmp_path / "search.joblib").predict_proba(X)) == bits(search.predict_proba(X))


def _halved(sequences: Any) -> Any:
    return [sequence / 2 for sequence in sequences]


@pytest.mark.parametrize(("kind", "y"), ALL)
def test_cross_validation_and_names_of_parameters(kind: Any, y: Any) -> None:
    assert np.isfinite(cross_val_score(kind(**SMALL, epochs=1), X, y, cv=2)).all()
    params = kind().get_params()
    assert ("class_weight" in params) == (kind is not RecurrentRegressor)
    assert repr(kind(units=3)) == f"{kind.__name__}(units=3)"


def test_threads_do_not_see_each_others_settings() -> None:
    def one(i: int) -> Any:
        return small(dtype=["float32", "float64"][i % 2], random_state=i).fit(X, Y).predict_proba(X)

    found = at_once(3, one)
    assert [p.dtype for p in found] == ["float32", "float64", "float32"]
    assert bits([small(random_state=2).fit(X, Y).predict_proba(X)]) == bits([found[2]])


# ---- step by step ----------------------------------------------------------------------------------------------------


def test_partial_fit_goes_on_and_warm_start_too() -> None:
    model = small()
    for _ in range(3):
        model.partial_fit(X, Y, classes=["up", "down"])
    assert model.n_iter_ == 3 and model.history_["loss"][2] < model.history_["loss"][0]
    warm = small(warm_start=True).fit(X, Y)
    first = warm.history_["loss"]
    warm.set_params(learning_rate=0.01).fit(X, Y)
    assert warm.history_["loss"][:3] == first and warm.n_iter_ == 6
    assert float(warm.network_.schedule.rate.get_value()) == 0.01
    cold = small().fit(X, Y)
    assert cold.fit(X, Y).n_iter_ == 3


def test_verbose_prints_a_line_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    small(epochs=2, verbose=True, early_stopping=True).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and lines[0].startswith("epoch 1 of 2: loss 0.") and ", validation 0." in lines[0]


def test_ctrl_c_keeps_what_was_learned_and_goes_on_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small()

    def interrupt(epochs: int) -> None:
        add = lasagne.training.History.add

        def adding(history: Any, **scores: Any) -> None:
            add(history, **scores)
            if history.epochs >= epochs:
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(lasagne.training.History, "add", adding)

    interrupt(2)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    monkeypatch.undo()
    assert model.n_iter_ == 2
    assert bits(model.predict_proba(X)) == bits(small(epochs=2).fit(X, Y).predict_proba(X))
    monkeypatch.setattr(lasagne.training, "fit", lambda *args, **options: signal.raise_signal(signal.SIGINT))
    fresh = small()
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, Y)
    assert not hasattr(fresh, "network_")  # no epoch has ended: it is not fitted


@pytest.mark.parametrize("again", ["fit", "partial_fit"])
def test_after_an_error_a_warm_estimator_is_what_it_was_before(again: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, same = (small(warm_start=True, batch_size=8, optimizer="momentum").fit(X, Y) for _ in range(2))
    before, real, calls = bits([model.predict_proba(X)]), lasagne.training.fit, []

    def failing(*batch: Any) -> Any:
        calls.append(model.network_.train(*batch))
        if len(calls) == 2:
            raise OSError("the disk is full")
        return np.nan

    monkeypatch.setattr(lasagne.training, "fit", lambda train, *args, **options: real(failing, *args, **options))
    with pytest.raises(OSError, match="disk"):
        getattr(model.set_params(learning_rate=0.1), again)(X, Y)
    with pytest.raises(FloatingPointError):
        getattr(model, again)(X, Y)
    assert bits([model.predict_proba(X)]) == before and len(model.history_["loss"]) == model.n_iter_ == 3
    monkeypatch.undo()
    for one in (model.set_params(learning_rate=same.learning_rate), same):
        getattr(one, again)(X, Y)
    assert bits([model.predict_proba(X)]) == bits([same.predict_proba(X)])


# ---- what users do wrong ---------------------------------------------------------------------------------------------

NAN = [x.copy() for x in X]
NAN[7][1, 0] = np.nan
HUGE = [x * (1e39 if i == 3 else 1) for i, x in enumerate(X)]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (NAN, Y, "Input X contains NaN: sequence 7, step 1, feature 0"),
        (HUGE, Y, "infinity or a value too large for float32: sequence 3, step 0, feature 0"),
        ([*X[:-1], np.ones((3, 5))], Y, "the same features, but sequence 0 has 2, sequence 47 5"),
        ([*X[:-1], np.ones((0, 2))], Y, "sequence 47 of X has no steps: leave it out"),
        ([*X[:-1], np.ones((2, 2, 2))], Y, r"sequence 47 of X must have the axes .*, got \(2, 2, 2\)"),
        (
            [*X[:-1], [[1.0], [1.0, 2.0]]],
            Y,
            "sequence 47 of X is no array: its steps differ in their number of features",
        ),
        ([*X[:-1], [["a", "b"]]], Y, "sequence 47 of X must hold numbers"),
        ([np.ones((2, 0))] * 48, Y, r"the steps of sequence 0 of X have no features: \(2, 0\)"),
        ([], [], r"X has 0 sample\(s\): at least one sequence is required"),
        (np.ones(48), Y, r"got 1 axes: \(48,\). Reshape your data: X\[None\] is one sequence"),
        ([1.0, 2.0], ["a", "b"], r"got \(\). Reshape your data: \[X\] is one sequence"),
        (np.ones((48, 2, 2), complex), Y, "Complex data not supported: X is complex128"),
        ([np.ones((2, 2), complex)] * 48, Y, "Complex data not supported: sequence 0 of X is complex128"),
        (X, Y[:-1], "inconsistent numbers of samples: X has 48 sequences, y has 47 targets"),
        (X, None, "requires y to be passed, but the target y is None"),
        (X, ["up"] * 48, "at least two classes, but y has only one class: .*classes="),
        (X, np.linspace(0, 1, 48), "Unknown label type"),
    ],
)
def test_wrong_data_for_a_classifier(x: Any, y: Any, message: str) -> None:
    model = small()
    with pytest.raises(ValueError, match=message):
        model.fit(x, y)
    assert not hasattr(model, "network_")


@pytest.mark.parametrize(
    "x, y, message",
    [
        (X, np.ma.masked_equal(Y, Y[0]), "y has masked entries"),
        (np.ma.masked_greater(np.eye(48), 0), Y, "^X has masked entries(?s:.)*48 of 2304"),
        ([*X[:-1], np.ma.masked_greater(np.eye(2), 0)], Y, "sequence 47 of X has masked entries"),
    ],
)
def test_masked_entries_have_no_value(x: Any, y: Any, message: str) -> None:
    with pytest.raises(sj.ArgumentError, match=message):
        small().fit(x, y)


@pytest.mark.parametrize("x", [None, 3])
def test_data_that_are_no_sequences(x: Any) -> None:
    with pytest.raises(TypeError, match=f"X must be an array or a list of arrays, got {x}"):
        small().fit(x, Y)


def test_sparse_data() -> None:
    sparse = pytest.importorskip("scipy.sparse").csr_array(np.eye(4))
    with pytest.raises(TypeError, match=r"cannot read sparse data: pass X.toarray\(\)"):
        small().fit(sparse, [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("kind", "y", "message"),
    [
        (RecurrentRegressor, [np.nan] * 48, "Input y contains NaN: target 0"),
        (RecurrentRegressor, [0.0] * 47 + [np.inf], "Input y contains infinity: target 47"),
        (RecurrentRegressor, Y, "y must hold numbers"),
        (RecurrentRegressor, [1j] * 48, "y must hold numbers"),
        (RecurrentRegressor, np.ones((48, 2, 2)), r"y must have the axes .*, got \(48, 2, 2\)"),
        (SequenceTagger, Y, "a label for each step: sequence 0 has"),
        (SequenceTagger, [*TAGS[:-1], ["up"] * 99], "a label for each step: sequence 47 has"),
        (SequenceTagger, [np.full(len(x), 0.5) for x in X], "Unknown label type: the labels of sequence 0"),
        (SequenceTagger, [["up"] * len(x) for x in X], "only one class"),
        (SequenceTagger, TAGS[:-1], "X has 48 sequences, y has 47 targets"),
    ],
)
def test_wrong_targets(kind: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**SMALL).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell": "lstn"}, "cell must be one of 'lstm', 'gru', 'rnn' or a callable, got 'lstn'"),
        ({"optimizer": "Adam"}, "optimizer must be one of 'adadelta', .*'sgd' or a callable, got 'Adam'"),
        ({"dtype": "float16"}, "dtype must be one of 'float32', 'float64', got 'float16'"),
        ({"units": 0}, "units must be a whole number of at least 1, got 0"),
        ({"units": True}, "units must be a whole number of at least 1, got True"),
        ({"layers": 1.5}, "layers must be a whole number of at least 1, got 1.5"),
        ({"epochs": "many"}, "epochs must be a whole number of at least 1, got 'many'"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"patience": 0}, "patience must be"),
        ({"dropout": 1.0}, "dropout must be at least 0 and less than 1, got 1.0"),
        ({"alpha": -1}, "alpha must be at least 0, got -1"),
        ({"learning_rate": 0.0}, "learning_rate must be positive, or a function that makes a schedule, got 0.0"),
        ({"learning_rate": None}, "learning_rate must be positive, or a function that makes a schedule, got None"),
        ({"max_norm": 0}, "max_norm must be positive or None, got 0"),
        ({"validation_fraction": 1.0}, "validation_fraction must be between 0 and 1, got 1.0"),
        ({"early_stopping": True, "validation_fraction": 0.99}, "early_stopping needs more sequences than 48"),
        ({"bidirectional": "no"}, "bidirectional must be True or False, got 'no'"),
        ({"early_stopping": "no"}, "early_stopping must be True or False, got 'no'"),
        ({"warm_start": None}, "warm_start must be True or False, got None"),
        ({"class_weight": "Balanced"}, "class_weight must be a dictionary, 'balanced' or None, got 'Balanced'"),
        ({"class_weight": {"up": -1.0}}, "class_weight of 'up' must be a number of at least 0, got -1.0"),
        ({"class_weight": {"up": math.nan}}, "class_weight of 'up' must be a number of at least 0, got nan"),
        ({"class_weight": {"up": 0, "down": 0}}, "all weights are zero"),
        ({"class_weight": {"left": 1.0}}, r"class_weight names \['left'\], but the classes are \['down', 'up'\]"),
    ],
)
def test_wrong_parameters(options: dict[str, Any], message: str) -> None:
    model = small(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "network_")


def test_a_loss_that_runs_away() -> None:
    model = RecurrentRegressor(**SMALL | {"learning_rate": 1e20, "optimizer": "sgd"})
    with pytest.raises(FloatingPointError, match=r"the loss of epoch \d is (nan|inf): try a smaller learning rate"):
        model.fit(X, np.ones(48))
    assert not hasattr(model, "network_")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0] * 5, "sample_weight has 5 entries, but there are 48 sequences"),
        ([0.0] * 48, "all of sample_weight is zero"),
        ([-1.0] * 48, "sample_weight 0 must not be negative or NaN, got -1.0"),
        (np.ones((48, 2)), r"sample_weight 0 must be a number, got an array of shape \(2,\)"),
    ],
)
def test_wrong_weights(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small().fit(X, Y, weights)


def test_predict_before_fit_and_other_features() -> None:
    for kind, _ in ALL:
        with pytest.raises(NotFittedError, match="not fitted yet"):
            kind().predict(X)
    with pytest.raises(ValueError, match="X has 3 features, but RecurrentClassifier is expecting 2 features as input"):
        fitted().predict([np.ones((4, 3))])
    with pytest.raises(ValueError, match="X has 1 features, but RecurrentClassifier is expecting 2 features as input"):
        clone(fitted()).partial_fit(X, Y).partial_fit(np.ones((2, 5)), ["up", "down"])


def test_labels_of_several_types() -> None:
    with pytest.raises(ValueError, match=r"labels must be of one type, .* got NoneType, str"):
        small().fit(X, [None, *Y[1:]])
    tags = [np.zeros(len(x), int) for x in X]
    tagger = SequenceTagger(**SMALL)
    with pytest.raises(ValueError, match=r"labels must be of one type, .* got numbers, str"):
        tagger.fit(X, [np.full(len(X[0]), "a"), *tags[1:]])
    with pytest.raises(ValueError, match=r"labels must be of one type, .* got NoneType"):
        tagger.fit(X, [[None] * len(x) for x in X])


def test_dates_are_no_numbers() -> None:
    """NaT was a very small number, and the number of a date depends on its unit."""
    days = np.arange(48).astype("datetime64[D]")
    with pytest.raises(ValueError, match=r"sequence 0 of X must hold numbers, got datetime64\[D\]"):
        small().fit([days[:5]] * 48, Y)
    with pytest.raises(ValueError, match=r"X must hold numbers, got timedelta64\[D\]"):
        small().fit(np.stack([days[:5]] * 48) - days[0], Y)
    for values in (days, days - days[0]):
        with pytest.raises(ValueError, match="y must hold numbers"):
            RecurrentRegressor(**SMALL).fit(X, values)


def test_unseen_labels_and_other_classes() -> None:
    model = small().partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"y has the label .*'left'.*, which is none of the classes \['down', 'up'\]"):
        model.partial_fit(X[:1], ["left"])
    with pytest.raises(ValueError, match="are not those of the first call"):
        model.partial_fit(X, Y, classes=["up", "down", "left"])
    with pytest.raises(ValueError, match="needs all data at once"):
        small(class_weight="balanced").partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"training cannot go on from the last call: units was \d+ and is 7"):
        model.set_params(units=7).partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"classes was \['down', 'up'\] and is \['down', 'left', 'up'\]"):
        small(warm_start=True).fit(X, Y).fit(X, [*Y[:-1], "left"])
    two = RecurrentRegressor(**SMALL).partial_fit(X, np.ones((48, 2)))
    with pytest.raises(ValueError, match="y has 1 targets a sequence, not 2 as before"):
        two.partial_fit(X, np.ones(48))
