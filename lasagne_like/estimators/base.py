"""The base of the estimators: their parameters, training on `X` and `y`, and predictions."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lasagne_like import training
from lasagne_like.checks import is_count
from lasagne_like.estimators.inputs import check_counts, read_sequences, read_weights
from lasagne_like.estimators.network import CELLS, Network, NetworkPlan

_RULES = (
    "adadelta", "adagrad", "adam", "adamax", "adamw", "amsgrad", "momentum", "nesterov_momentum", "rmsprop", "sgd"
)  # fmt: skip
"""The update rules that take gradients, parameters and a learning rate."""

_PREDICTED = 256
"""The number of sequences that are predicted at once."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Sequences with their targets (numbers of classes, or values) and weights, one entry a sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.estimators.base import Samples
    >>> samples = Samples([np.ones((2, 1)), np.ones((3, 1))], [np.array(0), np.array(1)], [np.ones(()), np.ones(())])
    >>> samples.part([1]).sequences[0].shape
    (3, 1)
    """

    sequences: list[np.ndarray]
    targets: list[np.ndarray]
    weights: list[np.ndarray]

    def part(self, chosen: Sequence[int]) -> Samples:
        """Some of them."""
        return Samples(*([all_of[i] for i in chosen] for all_of in (self.sequences, self.targets, self.weights)))

    def scaled(self) -> Samples:
        """The samples with weights that are scaled to a mean of 1; sequences of weight 0 are left out."""
        some = self.part([i for i, weight in enumerate(self.weights) if weight.any()])
        if not some.weights:
            raise ValueError("all weights are zero: there is nothing to learn from")
        mean = np.mean(np.concatenate([np.atleast_1d(weight) for weight in some.weights]))
        return replace(some, weights=[weight / mean for weight in some.weights])

    def batches(self, size: int, dtype: Any, classes: bool, rng: Any = None) -> Iterator[tuple[np.ndarray, ...]]:
        """Batches of (inputs, mask, targets, weights), in random order if there is an `rng`."""
        both = [
            np.concatenate([np.atleast_1d(target)[..., None] if classes else target, weight[..., None]], axis=-1)
            if target.ndim > weight.ndim
            else np.stack([target, weight], axis=-1)
            for target, weight in zip(self.targets, self.weights, strict=True)
        ]
        for x, mask, t in training.minibatches(self.sequences, both, size, shuffle=rng is not None, rng=rng):
            targets = t[..., 0].astype("int64") if classes else t[..., :-1].astype(dtype)
            yield x, mask.astype(dtype), targets, t[..., -1].astype(dtype)


@dataclass(eq=False, repr=False)
class Recurrent(BaseEstimator, ABC):
    """A recurrent network as an estimator.

    cell : "lstm", "gru", "rnn", or callable
        A callable takes the number of units and returns a cell: `lasagne_like.cells.MinGRU`.
    units : int
        The width of each layer; of each direction of one.
    layers : int
        How many recurrent layers there are.
    bidirectional : bool
        Read each sequence from both ends.
    dropout : float
        The probability to drop a value between layers, while training.
    optimizer : str or callable
        The name of an update rule in `lasagne_like.updates`, or a function of gradients, parameters and a learning rate
        that returns updates.
    learning_rate : float, or function without arguments
        A function returns a new schedule: `functools.partial(schedules.cosine, 0.01, steps=50)`. The schedule goes a
        step after each epoch.
    alpha : float
        The strength of the L2 penalty on weights.
    max_norm : float, optional
        Gradients whose norm is larger are scaled down to this norm.
    batch_size : int
        How many sequences are trained together.
    epochs : int
        How often `fit` goes through the data at most.
    early_stopping : bool
        Set `validation_fraction` of the sequences aside. Stop when their loss has not become smaller for `patience`
        epochs, and take the weights of the best epoch.
    validation_fraction : float
    patience : int
    warm_start : bool
        `fit` goes on from the weights of the last `fit`.
    random_state : int, numpy.random.RandomState or None
        With an int, the results of `fit` are the same bit by bit, on any number of threads.
    dtype : "float32" or "float64"
    verbose : bool
        Print the losses of each epoch.

    Attributes
    ----------
    history_ : the losses of each epoch, a `lasagne_like.training.History`. `history_.plot()` draws it.
    n_iter_ : how many epochs there were.
    n_features_in_ : how many features a step has.
    network_ : the network; `lasagne_like.layers.summary(model.network_.output)` shows it.
    """

    cell: Any = "lstm"
    units: int = 32
    layers: int = 1
    bidirectional: bool = False
    dropout: float = 0.0
    optimizer: Any = "adam"
    learning_rate: Any = 0.003
    alpha: float = 0.0
    max_norm: float | None = None
    batch_size: int = 32
    epochs: int = 50
    early_stopping: bool = False
    validation_fraction: float = 0.1
    patience: int = 5
    warm_start: bool = False
    random_state: Any = None
    dtype: str = "float32"
    verbose: bool = False

    # ---- what differs between estimators -----------------------------------------------------------------------------

    _classes = False
    """Whether targets are classes."""
    _each_step = False
    """Whether there is a target for each step."""

    @abstractmethod
    def _learned(self, y: Any, lengths: Sequence[int]) -> dict[str, Any]:
        """The attributes that the targets determine, such as `classes_`."""

    @abstractmethod
    def _encoded(self, y: Any, lengths: Sequence[int], learned: dict[str, Any]) -> list[np.ndarray]:
        """The target of each sequence as numbers, given the attributes that `_learned` returned."""

    @abstractmethod
    def _outputs(self, learned: dict[str, Any]) -> int:
        """The number of outputs of the network."""

    def _balanced(self, targets: list[np.ndarray], learned: dict[str, Any]) -> list[Any]:
        """A factor of the weight of each target."""
        return [1.0] * len(targets)

    # ---- training ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on sequences and their targets.

        Parameters
        ----------
        X : array or list of arrays
            See `lasagne_like.estimators`.
        y : array or list
            The targets, one a sequence. For a tagger: a list of the labels of each sequence, one a step.
        sample_weight : array, optional
            A factor of the loss of each sequence. Only their ratios count. For a tagger, also a list of arrays with a
            factor for each step.

        Returns
        -------
        The estimator.

        Notes
        -----
        After an error the estimator is what it was before. Ctrl-C ends the training early: the estimator is fitted
        with what it has learned so far (if an epoch has ended), and KeyboardInterrupt goes on to the caller.
        """
        self._check_parameters()
        sequences, lengths = self._sequences(X, y)
        again = self.warm_start and hasattr(self, "network_")
        learned = self._learned(y, lengths)
        samples = self._samples(sequences, y, lengths, learned, sample_weight).scaled()
        network = self._made(samples, learned, again)
        history = training.History(self.history_) if again else training.History()
        return self._trained(network, learned, history, lambda: self._train(network, samples, history))

    def _partial_fit(self, X: Any, y: Any, begin: Callable[[list[int]], dict[str, Any]], sample_weight: Any) -> Self:
        """One epoch. `begin` returns the attributes that a first call learns."""
        self._check_parameters()
        first = not hasattr(self, "network_")
        sequences, lengths = self._sequences(X, y, None if first else self.n_features_in_)
        learned = begin(lengths) if first else {name: getattr(self, name) for name in self._kept}
        samples = self._samples(sequences, y, lengths, learned, sample_weight)
        network = self._made(samples, learned, again=not first)
        history = training.History() if first else training.History(self.history_)
        return self._trained(network, learned, history, lambda: self._epochs(network, samples, 1, history))

    def _trained(
        self, network: Network, learned: dict[str, Any], history: training.History, train: Callable[[], None]
    ) -> Self:
        """The estimator after training. If an error ends the training, the network is what it was before. Ctrl-C is no
        error once an epoch has ended."""
        before, epochs = network.__getstate__(), history.epochs
        try:
            network.set_rate(self.learning_rate)
            train()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and history.epochs > epochs:
                self._adopt(network, learned, history)
            else:
                network.set_state(before)
            raise
        self._adopt(network, learned, history)
        return self

    def _epochs(
        self, network: Network, samples: Samples, epochs: int, history: training.History, **options: Any
    ) -> None:
        """Train for some epochs."""
        batches = lambda: samples.batches(self.batch_size, self.dtype, self._classes, network.rng)
        options |= {"schedule": network.schedule, "history": history, "verbose": bool(self.verbose)}
        training.fit(network.train, batches, epochs, **options)

    _kept: ClassVar[tuple[str, ...]] = ()
    """The names of the attributes that `_learned` returns."""

    def _sequences(self, X: Any, y: Any, features: int | None = None) -> tuple[list[np.ndarray], list[int]]:
        """The sequences of `X`, and their lengths."""
        name = type(self).__name__
        if y is None:
            raise ValueError(f"{name} requires y to be passed, but the target y is None")
        sequences = read_sequences(X, self.dtype, name, features)
        check_counts(sequences, y)
        return sequences, [len(sequence) for sequence in sequences]

    def _samples(
        self, sequences: list[np.ndarray], y: Any, lengths: list[int], learned: dict[str, Any], sample_weight: Any
    ) -> Samples:
        targets = self._encoded(y, lengths, learned)
        weights = read_weights(sample_weight, lengths, self._each_step)
        balanced = self._balanced(targets, learned)
        return Samples(sequences, targets, [np.asarray(w * b) for w, b in zip(weights, balanced, strict=True)])

    def _made(self, samples: Samples, learned: dict[str, Any], again: bool) -> Network:
        """The network to train: a new one, or the network of the last call."""
        plan = NetworkPlan(
            samples.sequences[0].shape[1], self._outputs(learned), self._classes, self._each_step, self.cell,
            self.units, self.layers, bool(self.bidirectional), self.dropout, self.optimizer, self.alpha,
            self.max_norm, self.dtype,
        )  # fmt: skip
        if not again:
            return Network(plan, self.learning_rate, _own(self.random_state))
        if plan != self.network_.plan or any(
            not np.array_equal(value, getattr(self, name)) for name, value in learned.items()
        ):
            before, now = (
                vars(self.network_.plan) | {name: getattr(self, name) for name in learned},
                vars(plan) | learned,
            )
            changed = [
                f"{name.strip('_')} was {np.asarray(old).tolist()!r} and is {np.asarray(now[name]).tolist()!r}"
                for name, old in before.items()
                if not np.array_equal(old, now[name])
            ]
            raise ValueError(
                f"training cannot go on from the last call: {', '.join(changed)}. Call fit with warm_start=False to "
                "begin anew"
            )
        return self.network_

    def _train(self, network: Network, samples: Samples, history: training.History) -> None:
        options: dict[str, Any] = {}
        if self.early_stopping:
            samples, aside = self._split(samples, network.rng)
            options = {"validate": lambda: self._loss(network, aside), "restore": network.params}
            options["stopping"] = training.EarlyStopping(self.patience)
        self._epochs(network, samples, self.epochs, history, **options)

    def _split(self, samples: Samples, rng: np.random.RandomState) -> tuple[Samples, Samples]:
        """The samples for training, and those that are set aside. Each class has its share of both, if it has enough
        samples."""
        count = len(samples.sequences)
        aside = math.ceil(self.validation_fraction * count)
        if aside >= count:
            raise ValueError(f"early_stopping needs more sequences than {count}: {aside} are set aside")
        labels = [int(t) for t in samples.targets] if self._classes and not self._each_step else None
        if labels is not None:
            often = np.unique(labels, return_counts=True)[1]
            labels = labels if often.min() > 1 and len(often) <= min(aside, count - aside) else None
        chosen, others = train_test_split(np.arange(count), test_size=aside, random_state=rng, stratify=labels)
        return samples.part(chosen), samples.part(others)

    def _loss(self, network: Network, samples: Samples) -> float:
        """The mean loss of samples."""
        total, items = 0.0, 0.0
        for x, mask, targets, weights in samples.batches(_PREDICTED, self.dtype, self._classes):
            share = float(mask.sum()) if self._each_step else float(len(x))
            total, items = total + share * float(network.evaluate(x, mask, targets, weights)[1]), items + share
        return total / items

    def _adopt(self, network: Network, learned: dict[str, Any], history: training.History) -> None:
        for name, value in learned.items():
            setattr(self, name, value)
        self.network_, self.history_, self.n_iter_ = network, history, history.epochs
        self.n_features_in_ = network.plan.features

    def _check_parameters(self) -> None:
        """Raise an error if a parameter has a value that it cannot have."""
        for name in ("units", "layers", "batch_size", "epochs", "patience"):
            value = getattr(self, name)
            if not is_count(value):
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        for name in ("bidirectional", "early_stopping", "warm_start"):
            if getattr(self, name) not in (True, False):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        others = {"learning_rate": callable(self.learning_rate), "max_norm": self.max_norm is None}
        for name, inside, expected in (
            ("dropout", lambda v: 0 <= v < 1, "at least 0 and less than 1"),
            ("validation_fraction", lambda v: 0 < v < 1, "between 0 and 1"),
            ("alpha", lambda v: 0 <= v < math.inf, "at least 0"),
            ("learning_rate", lambda v: 0 < v < math.inf, "positive, or a function that makes a schedule"),
            ("max_norm", lambda v: 0 < v < math.inf, "positive or None"),
        ):
            value = getattr(self, name)
            if not others.get(name) and not (isinstance(value, numbers.Real) and inside(value)):
                raise ValueError(f"{name} must be {expected}, got {value!r}")
        for name, listed in (("cell", tuple(CELLS)), ("optimizer", _RULES), ("dtype", ("float32", "float64"))):
            value = getattr(self, name)
            if not (callable(value) and name != "dtype") and value not in listed:
                also = "" if name == "dtype" else " or a callable"
                raise ValueError(f"{name} must be one of {', '.join(map(repr, listed))}{also}, got {value!r}")

    # ---- predictions -------------------------------------------------------------------------------------------------

    def _predicted(self, X: Any) -> list[np.ndarray]:
        """The output of the network for each sequence; for a tagger, those of its steps."""
        check_is_fitted(self)
        network = self.network_
        sequences = read_sequences(X, network.plan.dtype, type(self).__name__, self.n_features_in_)
        found: list[Any] = [None] * len(sequences)
        numbered = training.minibatches(sequences, range(len(sequences)), _PREDICTED, shuffle=False)
        for x, mask, places in numbered:
            mask = mask.astype(network.plan.dtype)
            shape = mask.shape if self._each_step else mask.shape[:1]
            targets = np.zeros(shape, "int64") if self._classes else np.zeros((*shape, network.plan.outputs), x.dtype)
            outputs = network.evaluate(x, mask, targets, np.ones(shape, x.dtype))[0]
            for place, output in zip(places, outputs, strict=True):
                found[place] = output[: len(sequences[place])] if self._each_step else output
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.target_tags.required = True
        return tags


def _own(random_state: Any) -> np.random.RandomState:
    """A new generator for the estimator, so that it does not keep the one that the user passed."""
    return np.random.RandomState(check_random_state(random_state).randint(2**31 - 1))
