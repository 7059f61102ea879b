"""Delays: the output of another layer some steps earlier or later.

The other layer may be made after the delay, and depend on it. Then the layers between them form a loop over time, which
`get_output` finds and runs (see `lasagne_like.layers.cycles`).
"""

from functools import reduce
from typing import Any

import scanjit as sj
from lasagne_like.layers.base import Incoming, Layer, MergeLayer, check_single
from lasagne_like.utils import Shape, fits, int_types

__all__ = ["DelayLayer", "FutureValueLayer", "PastValueLayer"]


class DelayLayer(MergeLayer):
    """The output of a layer at another step. The base of `PastValueLayer` and `FutureValueLayer`.

    Parameters
    ----------
    incoming : Layer or tuple
        Gives (batch, time, features...). Or the output shape of a layer that `connect` will get later.
    steps : int
        How many steps away.
    initial : number, Layer, or initializer, array or shared variable
        The value where there is no such step: a number; the output of a layer, (batch, features...); or a parameter of
        shape (features...).
    starts : Layer, optional
        Gives (batch, time), which is not 0 at the first step of each sequence, if a row has several sequences (see
        `lasagne_like.packing`). Then no value comes from another sequence.
    name : str, optional

    Attributes
    ----------
    steps : as given.
    backwards : whether values come from later steps.
    source : the layer whose values these are; None before `connect`.

    Examples
    --------
    >>> from lasagne_like.layers import DelayLayer, PastValueLayer
    >>> delay = PastValueLayer((None, None, 3), steps=2)
    >>> isinstance(delay, DelayLayer), delay.backwards, delay.source
    (True, False, None)
    """

    backwards: bool = False
    steps: int

    def __init__(
        self, incoming: Incoming, steps: Any = 1, initial: Any = 0.0, starts: Any = None, *, name: str | None = None
    ) -> None:
        extra = [layer for layer in (initial, starts) if isinstance(layer, Layer)]
        super().__init__([incoming, *extra], name)
        if not isinstance(steps, int_types) or steps < 1:
            raise ValueError(f"{self} needs a number of steps of 1 or more, got {steps!r}")
        if starts is not None and not isinstance(starts, Layer):
            raise TypeError(f"starts of {self} must be a layer, such as an InputLayer, got {starts!r}")
        self.steps = int(steps)
        self._starts_at = None if starts is None else len(extra)
        self._initial_at = 1 if isinstance(initial, Layer) else None
        self._check_features()
        self._check_extra()
        features: Any = self.input_shapes[0][self._leading :]
        self.initial = initial
        if not isinstance(initial, (Layer, float, *int_types)):
            self.initial = self.add_param(initial, features, "initial", regularizable=False)

    @property
    def _leading(self) -> int:
        """How many axes come before the features: (batch, time), or (batch,) in the network of one step."""
        return 2 if len(self.input_shapes[0]) > 2 else 1

    @property
    def source(self) -> Any:
        """The layer whose values these are; None before `connect`."""
        return self.input_layers[0]

    def _check_features(self) -> None:
        shape = self.input_shapes[0]
        if len(shape) < 2 or any(size is None for size in shape[self._leading :]):
            raise ValueError(
                f"{self} needs an input (batch, time, features...) with features of fixed sizes, got {shape}"
            )

    def _check_extra(self) -> None:
        shape = self.input_shapes[0]
        if self._initial_at is not None:
            found, wanted = self.input_shapes[self._initial_at], (shape[0], *shape[self._leading :])
            if not fits(found, wanted):
                raise ValueError(f"initial of {self} comes from a layer of shape {found}, should be {wanted}")
        if self._starts_at is not None:
            found, wanted = self.input_shapes[self._starts_at], shape[:2]
            if not fits(found, wanted):
                raise ValueError(f"starts of {self} have shape {found}, should be {wanted}: (batch, time)")

    def connect(self, source: Layer) -> Layer:
        """Give the delay its source, a layer that was made after it. Returns the source.

        Parameters
        ----------
        source : Layer

        Raises
        ------
        ValueError
            If the delay has a source already, or was made for another shape.
        """
        if not isinstance(source, Layer):
            raise TypeError(f"{self} is connected to a layer, got {source!r}")
        if self.source is not None:
            raise ValueError(f"{self} is connected already, to {self.source!r}")
        check_single(source.output_shape, self)
        if not fits(source.output_shape, self.input_shapes[0]):
            raise ValueError(
                f"{self} was made for a layer of shape {self.input_shapes[0]}, {source!r} has shape "
                f"{source.output_shape}"
            )
        self.input_layers[0] = source
        return source

    def initial_rows(self, batch: Any, given: Any = None) -> Any:
        """The value before the first step, (batch, features...). `given` is the output of the layer `initial`, if this
        is a layer."""
        features = self.input_shapes[0][self._leading :]
        if self._initial_at is not None:
            return sj.specify_shape(given, (batch, *features), f"initial of {self}")
        if isinstance(self.initial, (float, *int_types)):
            return sj.full((batch, *features), float(self.initial), sj.config.floatX)
        return sj.broadcast_to(self.initial, (batch, *features))

    def initial_from(self, inputs: Any, batch: Any) -> Any:
        """The same, from the outputs of all input layers."""
        return self.initial_rows(batch, None if self._initial_at is None else inputs[self._initial_at])

    def crossed(self, inputs: Any, shape: tuple[Any, Any]) -> Any:
        """At which steps the other step belongs to another sequence of the row: (batch, time). None without
        `starts`."""
        if self._starts_at is None:
            return None
        starts = sj.not_equal(sj.specify_shape(inputs[self._starts_at], shape, f"starts of {self}"), 0)
        batch, length = shape
        outside = sj.zeros((batch, self.steps), "bool")
        longer = sj.concatenate([outside, starts, outside], axis=1)
        # the other step is in another sequence if there is a start between the two steps
        firsts = [self.steps + k + 1 if self.backwards else self.steps - k for k in range(self.steps)]
        return reduce(sj.logical_or, [longer[:, first : first + length] for first in firsts])

    @property
    def output_shape(self) -> Shape:
        """The shape of the output: that of the input."""
        return self.input_shapes[0]

    def get_output_shape_for(self, input_shapes: Any) -> Any:
        return input_shapes[0]

    def get_output_for(self, inputs: Any, **kwargs: Any) -> Any:
        """The whole sequence, shifted in time."""
        if self._leading == 1:
            raise ValueError(f"{self} is for one step: only NetworkCell and SequencerLayer can run it")
        x = inputs[0]
        batch, length = x.shape[:2]
        initial = self.initial_from(inputs, batch)[:, None]
        rows = sj.broadcast_to(initial, (batch, self.steps, *initial.shape[2:]))
        if self.backwards:
            moved = sj.concatenate([x, rows], axis=1)[:, self.steps :]
        else:
            moved = sj.concatenate([rows, x], axis=1)[:, :length]
        crossed = self.crossed(inputs, (batch, length))
        if crossed is None:
            return moved
        return sj.where(crossed.dimshuffle(0, 1, *["x"] * (x.ndim - 2)), initial, moved)


class PastValueLayer(DelayLayer):
    """The output of a layer some steps before: CNTK's `PastValue`.

    Parameters
    ----------
    incoming, steps, initial, starts, name : see `DelayLayer`

    Examples
    --------
    A recurrent network made of layers that know nothing of time:

    >>> import numpy as np
    >>> import scanjit as sj
    >>> import lasagne_like as lasagne
    >>> from lasagne_like.layers import DenseLayer, ElemwiseSumLayer, InputLayer, NonlinearityLayer, PastValueLayer
    >>> l_in = InputLayer((None, None, 3))
    >>> before = PastValueLayer((None, None, 5))
    >>> parts = [DenseLayer(layer, 5, nonlinearity=None, num_leading_axes=2) for layer in (l_in, before)]
    >>> hidden = before.connect(NonlinearityLayer(ElemwiseSumLayer(parts), lasagne.nonlinearities.tanh))
    >>> f = sj.function([l_in.input_var], lasagne.layers.get_output(hidden), mode="reference")
    >>> f(np.ones((2, 7, 3))).shape
    (2, 7, 5)
    """


class FutureValueLayer(DelayLayer):
    """The output of a layer some steps later: CNTK's `FutureValue`. Its loops run backwards.

    Parameters
    ----------
    incoming, steps, initial, starts, name : see `DelayLayer`

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> from lasagne_like.layers import FutureValueLayer, InputLayer, get_output
    >>> l_in = InputLayer((None, None, 1))
    >>> f = sj.function([l_in.input_var], get_output(FutureValueLayer(l_in, 2, initial=-1.0)), mode="reference")
    >>> f(np.arange(4.0).reshape(1, 4, 1))[0, :, 0]
    array([ 2.,  3., -1., -1.])
    """

    backwards = True
