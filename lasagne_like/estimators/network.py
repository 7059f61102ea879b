"""The network of an estimator, with the two functions that it needs: one trains, one predicts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like import cells, layers, nonlinearities, objectives, random, regularization, updates
from lasagne_like.schedules import Schedule, constant
from lasagne_like.training import variables_of

CELLS = {"lstm": cells.LSTM, "gru": cells.GRU, "rnn": cells.SimpleRNN}


Choice = str | Callable[..., Any]
"""A name, or a callable in its place."""


@dataclass(frozen=True)
class NetworkPlan:
    """The description from which a network is made.

    Examples
    --------
    >>> from lasagne_like.estimators.network import Network, NetworkPlan
    >>> plan = NetworkPlan(features=3, outputs=2, classes=True, each_step=False, cell="gru", units=4)
    >>> Network(plan, 0.01).output.output_shape
    (None, 2)
    """

    features: int
    outputs: int
    classes: bool
    """Whether the outputs are probabilities of classes; otherwise they are numbers."""
    each_step: bool
    """Whether there is an output for each step; otherwise there is one for each sequence."""
    cell: Choice = "lstm"
    units: int = 32
    layers: int = 1
    bidirectional: bool = False
    dropout: float = 0.0
    optimizer: Choice = "adam"
    alpha: float = 0.0
    max_norm: float | None = None
    dtype: str = "float32"


class Network:
    """A network, and its functions of (inputs, mask, targets, weights).

    A copy or an unpickled network has the same weights, memory of the optimizer and random streams. Functions are
    compiled when they are first used.

    Parameters
    ----------
    plan : NetworkPlan
    learning_rate : float, or function without arguments that returns a Schedule
    rng : numpy.random.RandomState, optional
        For initial weights, dropout, and the order of samples.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.estimators.network import Network, NetworkPlan
    >>> network = Network(NetworkPlan(features=1, outputs=1, classes=False, each_step=False, units=2), 0.01)
    >>> x, mask = np.ones((5, 3, 1), "float32"), np.ones((5, 3), "float32")
    >>> [part.shape for part in network.evaluate(x, mask, np.zeros((5, 1), "float32"), np.ones(5, "float32"))]
    [(5, 1), ()]
    """

    def __init__(self, plan: NetworkPlan, learning_rate: Any, rng: np.random.RandomState | None = None) -> None:
        self.plan, self.learning_rate = plan, learning_rate
        self.rng = np.random.RandomState(0) if rng is None else rng
        self.schedule: Schedule = learning_rate() if callable(learning_rate) else constant(learning_rate)
        self._memory: list[np.ndarray] = []
        with sj.config.using(floatX=plan.dtype), random.using(self.rng):
            self.x, self.mask, self.output = _layers(plan)
        self.params = layers.get_all_params(self.output)

    def set_rate(self, learning_rate: Any) -> None:
        """Use another learning rate from now on. If it is the same schedule, the schedule continues."""
        if learning_rate is not self.learning_rate and learning_rate != self.learning_rate:
            other = learning_rate() if callable(learning_rate) else constant(learning_rate)
            other.rate, self.schedule.rate = self.schedule.rate, other.rate
            self.schedule, self.learning_rate = other, learning_rate
            self.schedule.set_state(other.get_state())

    def _inputs(self) -> tuple[list[Any], Any, Any]:
        """Symbols for (inputs, mask, targets, weights), and those of the targets and weights again."""
        axes = 2 if self.plan.each_step else 1
        shape = (None,) * axes if self.plan.classes else (None,) * axes + (self.plan.outputs,)
        targets = sj.tensor(shape, "int64" if self.plan.classes else self.plan.dtype, "targets")
        weights = sj.tensor((None,) * axes, self.plan.dtype, "weights")
        return [self.x.input_var, self.mask.input_var, targets, weights], targets, weights

    def _loss(self, output: Any, targets: Any, weights: Any) -> Any:
        """The mean over sequences, or over steps that are there."""
        if self.plan.classes:
            losses = objectives.categorical_crossentropy(output, targets)
        else:
            losses = objectives.squared_error(output, targets).mean(axis=-1)
        mask = self.mask.input_var
        count = mask.sum() if self.plan.each_step else sj.cast(mask.shape[0], self.plan.dtype)
        return (losses * weights).sum() / count

    @cached_property
    def train(self) -> Callable[..., Any]:
        """The function that trains with a batch and returns its loss."""
        plan = self.plan
        with sj.config.using(floatX=plan.dtype), random.using(self.rng):
            inputs, targets, weights = self._inputs()
            loss = self._loss(layers.get_output(self.output), targets, weights)
            whole = loss
            if plan.alpha:
                penalty = regularization.regularize_network_params(self.output, regularization.l2)
                whole = loss + plan.alpha / 2 * penalty
            trained = layers.get_all_params(self.output, trainable=True)
            grads: Any = sj.grad(whole, trained)
            if plan.max_norm is not None:
                grads = updates.total_norm_constraint(grads, plan.max_norm)
            rule = getattr(updates, plan.optimizer) if isinstance(plan.optimizer, str) else plan.optimizer
            changes = rule(grads, trained, self.schedule.rate) | layers.get_updates(self.output)
            function = sj.function(inputs, loss, updates=changes, name="train")
        sj.set_values(dict(zip(self._remembered(function), self._memory, strict=False)))
        return function

    @cached_property
    def evaluate(self) -> Callable[..., Any]:
        """The function that gives the outputs for a batch, without dropout, and their loss."""
        with sj.config.using(floatX=self.plan.dtype):
            inputs, targets, weights = self._inputs()
            output = layers.get_output(self.output, deterministic=True)
            return sj.function(inputs, [output, self._loss(output, targets, weights)], name="evaluate")

    def _remembered(self, train: Any) -> list[sj.SharedVariable]:
        """The variables that training changes beside the parameters: the memory of the optimizer, and random
        streams."""
        return [v for v in variables_of([train]) if v not in self.params and v is not self.schedule.rate]

    def __getstate__(self) -> dict[str, Any]:
        train = self.__dict__.get("train")
        return {
            "plan": self.plan,
            "learning_rate": self.learning_rate,
            "rng": copy.deepcopy(self.rng),
            "schedule": self.schedule.get_state(),
            "params": [param.get_value() for param in self.params],
            "memory": self._memory if train is None else [v.get_value() for v in self._remembered(train)],
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["plan"], state["learning_rate"])  # type: ignore[misc]
        self.set_state(state)

    def set_state(self, state: dict[str, Any]) -> None:
        """Go back to what `__getstate__` returned."""
        self.set_rate(state["learning_rate"])
        self.schedule.set_state(state["schedule"])
        self.rng.set_state(state["rng"].get_state())
        self._memory, train = state["memory"], self.__dict__.get("train")
        remembered = [] if train is None else zip(self._remembered(train), self._memory, strict=False)
        sj.set_values(dict([*zip(self.params, state["params"], strict=True), *remembered]))


def _layers(plan: NetworkPlan) -> tuple[layers.InputLayer, layers.InputLayer, layers.Layer]:
    """The input, the mask and the last layer."""
    l_in = layers.InputLayer((None, None, plan.features), name="x")
    l_mask = layers.InputLayer((None, None), name="mask")
    make = CELLS[plan.cell] if isinstance(plan.cell, str) else plan.cell
    network: layers.Layer = l_in
    for i in range(plan.layers):
        if i and plan.dropout:
            network = layers.DropoutLayer(network, plan.dropout)
        final = i == plan.layers - 1 and not plan.each_step
        rnn = layers.RNNLayer(network, make(plan.units), mask_input=l_mask, only_return_final=final, name=f"rnn{i}")
        network = layers.Bidirectional(rnn) if plan.bidirectional else rnn
    if plan.dropout:
        network = layers.DropoutLayer(network, plan.dropout)
    last = nonlinearities.softmax if plan.classes else None
    axes = 2 if plan.each_step else 1
    output = layers.DenseLayer(network, plan.outputs, nonlinearity=last, num_leading_axes=axes, name="output")
    return l_in, l_mask, output
