"""Penalties on parameters, to be added to a loss."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import scanjit as sj
from lasagne_like.layers import Layer, get_all_params
from lasagne_like.utils import is_expression, number

__all__ = [
    "apply_penalty",
    "l1",
    "l2",
    "regularize_layer_params",
    "regularize_layer_params_weighted",
    "regularize_network_params",
]

_REGULARIZABLE = {"regularizable": True}


def l1(x: Any) -> sj.Node:
    """The sum of the absolute values.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.regularization import l1
    >>> sj.function([], l1([3.0, -4.0]), mode="reference")()
    array(7.)
    """
    return sj.sum(abs(sj.as_tensor(x)))


def l2(x: Any) -> sj.Node:
    """The sum of the squares.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.regularization import l2
    >>> sj.function([], l2([3.0, -4.0]), mode="reference")()
    array(25.)
    """
    x = sj.as_tensor(x)
    return sj.sum(x * x)


def apply_penalty(tensor_or_tensors: Any, penalty: Callable[..., Any], **kwargs: Any) -> Any:
    """The penalty of a tensor, or the sum of those of several (0 for none).

    Parameters
    ----------
    tensor_or_tensors : expression or iterable of expressions
    penalty : callable
    **kwargs
        Passed on to the penalty.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.regularization import apply_penalty, l1, l2
    >>> w = sj.shared([3.0, -4.0], "w")
    >>> sj.function([], [apply_penalty([w, w], l1), apply_penalty(w, l2)], mode="reference")()
    [array(14.), array(25.)]
    """
    if not callable(penalty):
        raise TypeError(f"penalty must be a function of a tensor, such as l2, got {penalty!r}")
    if is_expression(tensor_or_tensors) or not isinstance(tensor_or_tensors, Iterable):
        return penalty(tensor_or_tensors, **kwargs)
    return sum(penalty(x, **kwargs) for x in tensor_or_tensors)


def regularize_layer_params(
    layer: Layer | Iterable[Layer],
    penalty: Callable[..., Any],
    tags: Mapping[str, bool] = _REGULARIZABLE,
    **kwargs: Any,
) -> Any:
    """The penalty of the parameters of one or more layers themselves.

    Parameters
    ----------
    layer : Layer or list of Layers
    penalty : callable
        `l1`, `l2`, or any function of a tensor.
    tags : dict
        Which parameters: see `Layer.get_params`. By default those with the tag `regularizable`.
    **kwargs
        Passed on to the penalty.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.init import Constant
    >>> from lasagne_like.layers import DenseLayer
    >>> from lasagne_like.regularization import l2, regularize_layer_params
    >>> layer = DenseLayer((None, 3), 2, W=Constant(2.0), b=Constant(1.0))
    >>> sj.function([], regularize_layer_params(layer, l2), mode="reference")()
    array(24.)
    """
    layers = [layer] if isinstance(layer, Layer) else layer
    return apply_penalty([p for one in layers for p in one.get_params(**tags)], penalty, **kwargs)


def regularize_layer_params_weighted(
    layers: Mapping[Layer, Any],
    penalty: Callable[..., Any],
    tags: Mapping[str, bool] = _REGULARIZABLE,
    **kwargs: Any,
) -> Any:
    """The sum of the penalties of layers, each multiplied by its weight.

    Parameters
    ----------
    layers : dict from Layer to float or scalar expression
    penalty, tags, **kwargs : see `regularize_layer_params`

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.init import Constant
    >>> from lasagne_like.layers import DenseLayer
    >>> from lasagne_like.regularization import l1, regularize_layer_params_weighted
    >>> first = DenseLayer((None, 3), 2, W=Constant(2.0))
    >>> second = DenseLayer(first, 1, W=Constant(1.0))
    >>> sj.function([], regularize_layer_params_weighted({first: 0.5, second: 1.0}, l1), mode="reference")()
    array(8.)
    """
    if not isinstance(layers, Mapping):
        raise TypeError(f"layers must be a dict from layers to weights, got {layers!r}")
    penalties = [(regularize_layer_params(one, penalty, tags, **kwargs), weight) for one, weight in layers.items()]
    return sum(number(weight, getattr(value, "dtype", "float64")) * value for value, weight in penalties)


def regularize_network_params(
    layer: Any, penalty: Callable[..., Any], tags: Mapping[str, bool] = _REGULARIZABLE, **kwargs: Any
) -> Any:
    """The penalty of the parameters of all layers that one or more layers depend on.

    Parameters
    ----------
    layer : Layer or list of Layers
    penalty, tags, **kwargs : see `regularize_layer_params`

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.init import Constant
    >>> from lasagne_like.layers import DenseLayer
    >>> from lasagne_like.regularization import l2, regularize_network_params
    >>> first = DenseLayer((None, 3), 2, W=Constant(2.0))
    >>> second = DenseLayer(first, 1, W=Constant(1.0))
    >>> sj.function([], regularize_network_params(second, l2), mode="reference")()
    array(26.)
    """
    return apply_penalty(get_all_params(layer, **tags), penalty, **kwargs)
