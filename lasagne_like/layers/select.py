"""`SelectLayer`: a part of the output of another layer."""

from typing import Any

from lasagne_like.cells.structure import is_shape
from lasagne_like.layers.base import Layer

__all__ = ["SelectLayer"]


class SelectLayer(Layer):
    """A part of the output of a layer whose output has several tensors.

    Parameters
    ----------
    incoming : Layer
    *path : ints and strings
        The way to the part: positions in tuples and lists, keys of dicts, and names of fields.
    name : str, optional

    Examples
    --------
    A decoder that begins with the last state of an encoder:

    >>> import lasagne_like as lasagne
    >>> encoder = lasagne.layers.RNNLayer((None, None, 3), lasagne.cells.LSTM(5), return_state=True)
    >>> lasagne.layers.SelectLayer(encoder, 1, "cell").output_shape
    (None, 5)
    >>> state = lasagne.layers.SelectLayer(encoder, 1)
    >>> decoder = lasagne.layers.RNNLayer((None, None, 2), lasagne.cells.LSTM(5), initial_state=state)
    """

    def __init__(self, incoming: Layer, *path: int | str, name: str | None = None) -> None:
        if not isinstance(incoming, Layer):
            raise TypeError(f"SelectLayer takes a layer whose output has several tensors, got {incoming!r}")
        self.input_layer, self.input_shape, self.path = incoming, incoming.output_shape, path
        self._begin(name)
        self.get_output_shape_for(self.input_shape)

    def _selected(self, value: Any) -> Any:
        for i, key in enumerate(self.path):
            try:
                if is_shape(value):
                    raise KeyError(key)  # it is one tensor
                value = getattr(value, key) if isinstance(key, str) and not isinstance(value, dict) else value[key]
            except (AttributeError, KeyError, IndexError, TypeError) as error:
                raise ValueError(
                    f"{self} selects {self.path}, but there is no {key!r} in "
                    f"{f'part {self.path[:i]} of ' if i else ''}the output of "
                    f"{self.input_layer}, which has the shapes {self.input_shape}"
                ) from error
        return value

    def get_output_shape_for(self, input_shape: Any) -> Any:
        return self._selected(input_shape)

    def get_output_for(self, input: Any, **kwargs: Any) -> Any:
        return self._selected(input)
