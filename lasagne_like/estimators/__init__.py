"""Recurrent networks with the interface of scikit-learn: `pip install 'scanjit[sklearn]'`.

Sequences may differ in length. `X` is one of

- an array (samples, steps, features), or (samples, steps) for one feature;
- a list of arrays (steps, features), or of arrays (steps,) for one feature.

The estimators work in pipelines, `cross_val_score` and `GridSearchCV(n_jobs=2)`, and `joblib.dump` saves them.

Examples
--------
>>> import numpy as np
>>> from lasagne_like.estimators import RecurrentClassifier
>>> rng = np.random.default_rng(0)
>>> X = [rng.normal(size=(length, 2)) for length in rng.integers(3, 9, 40)]
>>> y = ["up" if sequence[-1, 0] > 0 else "down" for sequence in X]
>>> model = RecurrentClassifier("gru", units=8, epochs=20, learning_rate=0.03, random_state=0).fit(X, y)
>>> model.classes_
array(['down', 'up'], dtype='<U4')
>>> model.score(X, y) > 0.8
True
"""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("lasagne_like.estimators needs scikit-learn: pip install 'scanjit[sklearn]'") from error

from lasagne_like.estimators.classifier import RecurrentClassifier
from lasagne_like.estimators.regressor import RecurrentRegressor
from lasagne_like.estimators.tagger import SequenceTagger

__all__ = ["RecurrentClassifier", "RecurrentRegressor", "SequenceTagger"]
