"""`ReverseLayer`: sequences in reverse."""

from typing import Any

import scanjit as sj
from lasagne_like import checks, utils
from lasagne_like.layers.base import Incoming, MergeLayer

__all__ = ["ReverseLayer"]


class ReverseLayer(MergeLayer):
    """Reverses the steps of each sequence.

    Recurrent layers do not need it: they have the argument `backwards`.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, time, ...).
    seq_lengths : Layer or tuple, optional
        Its output has shape (batch,): the length of each sequence. The steps behind the end of a sequence stay in their
        places. By default, all steps are reversed.
    time_major : bool
        Whether time is the first axis of the input, and the batch the second.
    name : str, optional

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> from lasagne_like.layers import InputLayer, ReverseLayer, get_output
    >>> l_in, l_lengths = InputLayer((None, None), sj.matrix()), InputLayer((None,), sj.ivector())
    >>> y = get_output(ReverseLayer(l_in, l_lengths))
    >>> f = sj.function([l_in.input_var, l_lengths.input_var], y, mode="reference")
    >>> f(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([2, 3], "int32"))
    array([[2., 1., 3.],
           [6., 5., 4.]])
    """

    def __init__(
        self, incoming: Incoming, seq_lengths: Any = None, time_major: bool = False, name: str | None = None
    ) -> None:
        super().__init__([incoming, *([] if seq_lengths is None else [seq_lengths])], name)
        self.time_major = time_major
        if len(self.input_shapes[0]) < 2:
            raise ValueError(f"{self} needs an input of shape (batch, time, ...), got {self.input_shapes[0]}")
        if len(self.input_shapes) > 1 and len(self.input_shapes[1]) != 1:
            raise ValueError(f"seq_lengths of {self} must have shape (batch,), got {self.input_shapes[1]}")

    def get_output_shape_for(self, input_shapes: Any) -> utils.Shape:
        return input_shapes[0]

    def get_output_for(self, inputs: Any, **kwargs: Any) -> sj.Node:
        x = inputs[0]
        if len(inputs) == 1:
            return x[::-1] if self.time_major else x[:, ::-1]
        rows = x if self.time_major else sj.swapaxes(x, 0, 1)
        length, batch = rows.shape[:2]
        lengths = checks.checked_lengths(inputs[1], batch, length, f"seq_lengths of {self}")
        places = sj.arange(length)[:, None]
        turned = sj.where(places < lengths[None, :], lengths[None, :] - 1 - places, places)
        rows = rows[turned, sj.arange(batch)[None, :]]
        return rows if self.time_major else sj.swapaxes(rows, 0, 1)
