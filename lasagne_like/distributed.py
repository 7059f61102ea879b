"""Training on many machines: `DataParallel` takes the place of a compiled training function.

Each batch is cut into shards. The workers of a Dask cluster compute the gradients of the shards; this process adds them
up and updates the parameters. So loops, minibatches and checkpoints stay as they are on one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.shapes import known_sizes

__all__ = ["DataParallel"]


class DataParallel:
    """A training function whose gradients are computed in shards, on the workers of a Dask cluster.

    Called with a batch, it makes one step and returns the loss before it. Parameters and all that the update rule
    remembers are in this process. Workers may join, leave and die at any time, also inside of a step: another worker
    computes the shard again. The results depend on the number of shards, and not on the workers or on their number.

    Parameters
    ----------
    inputs : list of symbols
        The arguments of a call, a batch. Arrays are cut along their first axis; numbers go to each shard unchanged.
    loss : scalar expression
        The mean over a batch.
    params : list of shared variables
        The loss is differentiated with respect to these.
    rule : callable
        From the list of gradients to updates: `lambda grads: lasagne.updates.adam(grads, params, 0.01)`.
    shards : int
        The number of parts, of about the same length, into which a batch is cut.
    weight : scalar expression, optional
        How much a shard counts, where the loss is no mean over rows: `mask.sum()` for a mean over the steps that a mask
        leaves. By default the number of rows.
    updates : dict of shared variables to expressions, optional
        Other new values, as `lasagne.layers.get_updates(network)` gives. The mean over the shards is taken.
    client : distributed.Client, optional
        As for `scanjit.parallel.map`: by default the current one, and where there is none, this process.
    mode : str
        As for `scanjit.function`.

    Attributes
    ----------
    shared : the shared variables that it reads or updates. `Checkpoint(path, train)` saves them.

    Notes
    -----
    Shards are added in pairs, the sums in pairs again, and so on: the order depends on the number of shards alone.
    Processors of different kinds may round differently.

    Random streams, of dropout for example, give each shard numbers of its own. These too depend on the number of shards
    alone.

    Examples
    --------
    >>> import numpy as np, scanjit as sj, lasagne_like as lasagne
    >>> from lasagne_like.distributed import DataParallel
    >>> x, y = sj.matrix("x"), sj.matrix("y")
    >>> network = lasagne.layers.DenseLayer(lasagne.layers.InputLayer((None, 3), x), 1, nonlinearity=None)
    >>> loss = lasagne.objectives.squared_error(lasagne.layers.get_output(network), y).mean()
    >>> params = lasagne.layers.get_all_params(network, trainable=True)
    >>> train = DataParallel([x, y], loss, params, lambda grads: lasagne.updates.sgd(grads, params, 0.5), shards=4)
    >>> given = np.random.default_rng(0).normal(size=(8, 3))
    >>> losses = [float(train(given, given.sum(axis=1, keepdims=True))) for _ in range(100)]
    >>> losses[-1] < 0.01 * losses[0]
    True
    """

    def __init__(
        self,
        inputs: Sequence[sj.Node],
        loss: Any,
        params: Sequence[sj.SharedVariable],
        rule: Callable[[list[Any]], Mapping[sj.SharedVariable, Any]],
        *,
        shards: int,
        weight: Any = None,
        updates: Mapping[sj.SharedVariable, Any] | None = None,
        client: Any = None,
        mode: Any = "numba",
    ) -> None:
        if shards < 1:
            raise ValueError(f"shards must be at least 1, got {shards}")
        self.shards, self._shapes = shards, [node.ndim for node in inputs]
        if weight is None:
            weight = next((node.shape[0] for node in inputs if node.ndim), None)
            if weight is None:
                raise ValueError("a batch needs an input with at least one axis, which is split into shards")
        others = dict(updates or {})
        for variable in others:
            if not np.issubdtype(variable.type.dtype, np.floating):
                raise ValueError(f"a mean over shards needs floats, but updates has {variable!r}")
        weight = sj.cast(weight, loss.dtype)
        means = [loss, *sj.grad(loss, list(params)), *others.values()]
        outputs = [weight, *(sj.cast(weight, mean.dtype) * mean for mean in means)]
        whole = sj.function(inputs, outputs, mode="reference")
        self._read = whole.shared
        symbols = [_symbol(variable, variable.name) for variable in self._read]
        givens = dict(zip(self._read, symbols, strict=True))
        gradients = sj.function([*inputs, *symbols], outputs, givens=givens, name="gradients", mode=mode)
        streams = [i for i, variable in enumerate(self._read) if variable.default_update is _DRAWN]
        self._sums = sj.parallel.Mapper(_Shard(gradients, shards, streams), combine=_added, client=client)
        self._apply = _apply(whole, loss, list(params), rule, list(others), mode)

    def __call__(self, *batch: Any) -> np.ndarray:
        values = [variable.get_value(borrow=True) for variable in self._read]
        sums = self._sums(list(enumerate(self._cut(batch))), values)
        return self._apply(*sums)

    @property
    def shared(self) -> list[sj.SharedVariable]:
        found = {variable.serial: variable for variable in [*self._read, *self._apply.shared]}
        return [found[serial] for serial in sorted(found)]

    def _cut(self, batch: Sequence[Any]) -> list[tuple[np.ndarray, ...]]:
        """The shards of a batch. There are fewer if there are not so many rows."""
        arrays = [np.asarray(value) for value in batch]
        if [array.ndim for array in arrays] != self._shapes:
            raise ValueError(
                f"a batch has {len(self._shapes)} arrays of {self._shapes} axes, got {[a.ndim for a in arrays]}"
            )
        lengths = sorted({len(array) for array in arrays if array.ndim})
        if len(lengths) != 1 or not lengths[0]:
            raise ValueError(f"the arrays of a batch must have one number of rows, at least one, got {lengths}")
        rows = np.array_split(np.arange(lengths[0]), min(self.shards, lengths[0]))
        return [tuple(a[part[0] : part[-1] + 1] if a.ndim else a for a in arrays) for part in rows]


_DRAWN = sj.random.Stream(0).state.default_update
"""The `default_update` of a variable that is the state of a random stream."""


class _Shard:
    """The weight of a shard, and the weighted loss, gradients and other new values."""

    def __init__(self, gradients: sj.CompiledFunction[Any], shards: int, streams: Sequence[int]) -> None:
        self.gradients, self.shards, self.streams = gradients, shards, streams
        self.__name__ = "gradients"

    def __call__(self, shard: tuple[int, tuple[np.ndarray, ...]], *values: np.ndarray) -> list[np.ndarray]:
        number, arrays = shard
        given = list(values)
        for i in self.streams:  # as many calls as there are shards stand for one
            seed, calls = given[i]
            given[i] = np.array([seed, calls * self.shards + number])
        return self.gradients(*arrays, *given)


def _added(a: list[np.ndarray], b: list[np.ndarray]) -> list[np.ndarray]:
    return [np.add(x, y) for x, y in zip(a, b, strict=True)]


def _apply(
    whole: sj.CompiledFunction[Any],
    loss: Any,
    params: list[sj.SharedVariable],
    rule: Callable[[list[Any]], Mapping[sj.SharedVariable, Any]],
    others: list[sj.SharedVariable],
    mode: Any,
) -> sj.CompiledFunction[Any]:
    """The function that gets the sums over all shards, makes the step and returns the loss. `whole` gives the variables
    that have a default update."""
    weight, total = sj.scalar("weight", loss.dtype), sj.scalar("loss", loss.dtype)
    sums = [_symbol(variable, f"sum for {variable.name}") for variable in [*params, *others]]
    means = [value / sj.cast(weight, value.dtype) for value in sums]
    updates: dict[sj.SharedVariable, Any] = {
        variable: variable.default_update(variable.__scanjit_node__())
        for variable, _ in whole.graph.updates
        if variable.default_update is not None
    }
    updates |= dict(rule(means[: len(params)])) | dict(zip(others, means[len(params) :], strict=True))
    return sj.function([weight, total, *sums], total / weight, updates=updates, name="update", mode=mode)


def _symbol(variable: sj.SharedVariable, name: str | None) -> sj.Node:
    """A symbol for values of a variable."""
    return sj.tensor(known_sizes(variable.type.shape), variable.type.dtype, name)
