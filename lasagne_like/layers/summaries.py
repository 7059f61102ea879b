"""A table of the layers of a network. Notebooks show it for a layer."""

from collections.abc import Sequence
from typing import Any

import scanjit as sj
from lasagne_like.layers.base import Layer
from lasagne_like.layers.cycles import inputs_of
from lasagne_like.layers.helper import count_params, get_all_layers

__all__ = ["summary"]


def summary(layer: Any) -> sj.show.Document:
    """A table of the layers of a network, and one of their parameters. Notebooks show it for a layer.

    Parameters
    ----------
    layer : Layer or list of Layers
        The last layers of the network.

    Returns
    -------
    scanjit.show.Document
        Text for `print`. Each layer has a row with its number, the numbers of the layers that feed it, its output shape
        and the number of elements of its parameters. A parameter of several layers counts in each of their rows, and
        once in the title.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> network = lasagne.layers.InputLayer((None, 3))
    >>> network = lasagne.layers.DenseLayer(network, 2, b=None, name="out")
    >>> print(lasagne.layers.summary(network))
    2 layers, 6 parameters:
      layer                    fed by  output shape  parameters
          1  <InputLayer>              (None, 3)              0
          2  <DenseLayer 'out'>  1     (None, 2)              6
      parameters:
        parameter  type           of layer  tags
        out.W      float64(3, 2)         2  regularizable, trainable
    """
    layers = get_all_layers(layer)
    numbers = {one: i for i, one in enumerate(layers, 1)}
    rows = [_row(one, numbers) for one in layers]
    parameters = [
        (str(p.name or "unnamed"), str(p.type), str(numbers[one]), ", ".join(sorted(tags)))
        for one in layers
        for p, tags in one.params.items()
    ]
    return sj.show.Document(
        f"{len(layers)} layer{'s' * (len(layers) > 1)}, {count_params(layer):,} parameters",
        sj.show.Table(("layer", "", "fed by", "output shape", "parameters"), rows),
        *([_parameters(parameters)] if parameters else []),
    )


def _row(layer: Layer, numbers: dict[Layer, int]) -> tuple[str, ...]:
    fed = ", ".join(str(numbers[one]) for one in inputs_of(layer) if one in numbers)
    count = sum(p.get_value(borrow=True).size for p in layer.get_params())
    return str(numbers[layer]), str(layer), fed, str(layer.output_shape), f"{count:,}"


def _parameters(rows: Sequence[tuple[str, ...]]) -> sj.show.Document:
    return sj.show.Document("parameters", sj.show.Table(("parameter", "type", "of layer", "tags"), rows), folded=True)


def _forms(layer: Layer, include: Any = None, exclude: Any = None) -> dict[str, str]:
    """The output of notebooks for a layer. For a layer whose `__init__` has not finished, it is the name."""
    try:
        below = [summary(layer)]
    except sj.not_from_signal_handler(Exception):
        below = []
    return sj.show.Document(repr(layer), *below).forms(include, exclude)


setattr(Layer, "_repr_mimebundle_", _forms)  # noqa: B010 - summaries need layers, and so layers cannot import them
