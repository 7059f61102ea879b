"""scikit-learn's own checks of estimators.

Its data are arrays of two axes: (samples, steps) for us. So the checks run twice. `RecurrentClassifier` and
`RecurrentRegressor` read them so; what they cannot pass is in `OF_FEATURES`. The tagger reads them as sequences of one
step with several features (`OneStep`), and passes all.
"""

from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from lasagne_like.estimators import RecurrentClassifier, RecurrentRegressor, SequenceTagger

SMALL: dict[str, Any] = {
    "cell": "rnn", "units": 4, "learning_rate": 0.05, "random_state": 0, "dtype": "float64"
}  # fmt: skip

_STEPS = "the second axis of X is time: sequences may be longer or shorter in predict than in fit"
OF_FEATURES = {
    "check_n_features_in": _STEPS,
    "check_n_features_in_after_fitting": _STEPS,
    "check_estimators_partial_fit_n_features": _STEPS,
    "check_classifiers_train": f"{_STEPS}; its other demands are in test_estimators.py, with three axes",
    "check_regressors_train": f"{_STEPS}; its other demands are in test_estimators.py, with three axes",
}
"""Checks that fail, and why."""


def _one_step(X: Any) -> Any:
    array = np.asarray(X) if hasattr(X, "__array__") else None
    return array[:, None] if array is not None and array.ndim == 2 and array.shape[1] else X


class OneStep(SequenceTagger):
    """A tagger for rows of features, each a sequence of one step."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        return super().fit(_one_step(X), self._column(y), sample_weight)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        return super().partial_fit(_one_step(X), self._column(y), classes, sample_weight)

    def predict_proba(self, X: Any) -> Any:
        found = super().predict_proba(_one_step(X))
        return found[:, 0] if isinstance(found, np.ndarray) else found

    def predict(self, X: Any) -> Any:
        places = np.asarray(self.predict_proba(X)).argmax(-1)
        return self.classes_[places]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        return float((self.predict(X) == y).mean())

    @staticmethod
    def _column(y: Any) -> Any:
        return None if y is None else np.asarray(y).reshape(-1, 1)


@pytest.mark.quick(8)
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [RecurrentClassifier(**SMALL, epochs=30)], expected_failed_checks=lambda estimator: OF_FEATURES
)
def test_checks_of_classifiers(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([RecurrentRegressor(**SMALL, epochs=5)], expected_failed_checks=lambda estimator: OF_FEATURES)
def test_checks_of_regressors(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([OneStep(**SMALL, epochs=5)])
def test_a_tagger_of_sequences_of_one_step(estimator: Any, check: Any) -> None:
    check(estimator)
