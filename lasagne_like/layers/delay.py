"""Delays: the output of another layer, some steps earlier or later.

The other layer, the source, may be made after the delay and may depend on it. Then the delay, the source and the layers
between them form a loop over time. `get_output` finds it and runs it (see `lasagne_like.layers.cycles`).
"""

from functools import reduce
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.layers.base import Incoming, Layer, MergeLayer, check_single
from lasagne_like.shapes import fits
from lasagne_like.utils import int_types

__all__ = ["DelayLayer", "FutureValueLayer", "PastValueLayer"]


class DelayLayer(MergeLayer):
    """The output of a layer at another step. The base of `PastValueLayer` and `FutureValueLayer`.

    Parameters
    ----------
    incoming : Layer or tuple
        The source, whose output has shape (batch, time, features...). A tuple is the output shape of a source that
        `connect` sets later.
    steps : int
        The distance to the other step, 1 or more.
    initial : number, Layer, initializer, array or shared variable
        The value where the sequence has no such step. A number stands for all features. The output of a layer has shape
        (batch, features...). Anything else makes a parameter of shape (features...).
    starts : Layer, optional
        For rows with several sequences (see `lasagne_like.packing`). Its output has shape (batch, time), and is not 0
        at the first step of each sequence. The delay reads no value of another sequence.
    name : str, optional

    Attributes
    ----------
    steps : the distance to the other step.
    backwards : whether values come from later steps.
    source : the layer whose output is delayed; None before `connect`.

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
            raise ValueError(f"steps of {self} must be an int of 1 or more, got {steps!r}")
        if starts is not None and not isinstance(starts, Layer):
            raise TypeError(f"starts of {self} must be a layer, such as an InputLayer, got {starts!r}")
        self.steps = int(steps)
        self._starts_at = None if starts is None else len(extra)
        self._initial_at = 1 if isinstance(initial, Layer) else None
        self._check_features()
        self._check_extra()
        features: Any = self.input_shapes[0][self._leading :]
        self.initial, self._dtype = initial, sj.config.floatX
        if not isinstance(initial, Layer | int | float | np.number):
            self.initial = self.add_param(initial, features, "initial", regularizable=False)

    @property
    def _leading(self) -> int:
        """The number of axes before the features: 2 for (batch, time), or 1 in a network for one step, (batch,)."""
        return 2 if len(self.input_shapes[0]) > 2 else 1

    @property
    def source(self) -> Any:
        """The layer whose output is delayed; None before `connect`."""
        return self.input_layers[0]

    def _check_features(self) -> None:
        shape = self.input_shapes[0]
        if len(shape) < 2 or any(size is None for size in shape[self._leading :]):
            raise ValueError(
                f"{self} needs an input of shape (batch, time, features...), with features of fixed sizes, got {shape}"
            )

    def _check_extra(self) -> None:
        shape = self.input_shapes[0]
        if self._initial_at is not None:
            found, wanted = self.input_shapes[self._initial_at], (shape[0], *shape[self._leading :])
            if not fits(found, wanted):
                raise ValueError(f"the layer `initial` of {self} must have the output shape {wanted}, got {found}")
        if self._starts_at is not None:
            found, wanted = self.input_shapes[self._starts_at], shape[:2]
            if not fits(found, wanted):
                raise ValueError(
                    f"the layer `starts` of {self} must have the output shape {wanted}: (batch, time), got {found}"
                )

    def connect(self, source: Layer) -> Layer:
        """Set the source: a layer that was made after the delay.

        Parameters
        ----------
        source : Layer

        Returns
        -------
        Layer
            `source`.

        Raises
        ------
        ValueError
            If the delay has a source already, or if it was made for another shape.
        """
        if not isinstance(source, Layer):
            raise TypeError(f"{self}.connect takes a layer, got {source!r}")
        if self.source is not None:
            raise ValueError(f"{self} is connected already, to {self.source!r}")
        check_single(source.output_shape, self)
        if not fits(source.output_shape, self.input_shapes[0]):
            raise ValueError(
                f"{self} was made for a layer with the output shape {self.input_shapes[0]}, but {source!r} has "
                f"{source.output_shape}"
            )
        self.input_layers[0] = source
        return source

    def initial_rows(self, batch: Any, given: Any = None) -> Any:
        """The value before the first step, (batch, features...). If `initial` is a layer, `given` is its output."""
        features = self.input_shapes[0][self._leading :]
        if self._initial_at is not None:
            return sj.specify_shape(given, (batch, *features), f"initial of {self}")
        if isinstance(self.initial, int | float | np.number):
            return sj.full((batch, *features), float(self.initial), self._dtype)
        return sj.broadcast_to(self.initial, (batch, *features))

    def initial_from(self, inputs: Any, batch: Any) -> Any:
        """The value before the first step, from the outputs of all input layers."""
        return self.initial_rows(batch, None if self._initial_at is None else inputs[self._initial_at])

    def crossed(self, inputs: Any, shape: tuple[Any, Any]) -> Any:
        """Where the other step belongs to another sequence of the row: bools of shape (batch, time). None without
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

    def get_output_shape_for(self, input_shapes: Any) -> Any:
        return input_shapes[0]

    def get_output_for(self, inputs: Any, **kwargs: Any) -> Any:
        """The whole sequence, shifted in time."""
        if self._leading == 1:
            raise ValueError(f"{self} is in a network for one step: run the network with NetworkCell or SequencerLayer")
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
    A recurrent network of layers that treat all steps alike:

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
    """The output of a layer some steps later: CNTK's `FutureValue`. A loop with such a delay runs backwards.

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
