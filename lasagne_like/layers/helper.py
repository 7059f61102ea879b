"""Functions of whole networks: their layers, outputs, shapes and parameters."""

import contextlib
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal, overload

import numpy as np

import scanjit as sj
from lasagne_like import utils
from lasagne_like.cells.structure import is_shape
from lasagne_like.layers import cycles, precision as precisions
from lasagne_like.layers.base import Layer
from lasagne_like.layers.delay import DelayLayer
from lasagne_like.layers.input import InputLayer
from lasagne_like.utils import Shape

__all__ = [
    "count_params",
    "get_all_layers",
    "get_all_param_values",
    "get_all_params",
    "get_output",
    "get_output_shape",
    "get_updates",
    "set_all_param_values",
]

Layers = Layer | Iterable[Layer]


def get_all_layers(layer: Layers, treat_as_input: Iterable[Layer] | None = None) -> list[Layer]:
    """One or more layers and all layers that they depend on. Each layer comes after the layers that feed it.

    Parameters
    ----------
    layer : Layer or list of Layers
    treat_as_input : iterable of Layers, optional
        Layers at which the search stops: the layers that feed them are left out, unless another layer needs them.

    Examples
    --------
    >>> from lasagne_like.layers import DenseLayer, InputLayer, get_all_layers
    >>> first = InputLayer((100, 20))
    >>> second = DenseLayer(first, num_units=50)
    >>> third = DenseLayer(second, num_units=10)
    >>> get_all_layers(third) == [first, second, third]
    True
    >>> get_all_layers(third, treat_as_input=[second]) == [second, third]
    True
    """
    ends = set(treat_as_input or ())
    done: dict[Layer, None] = {}
    entered: set[Layer] = set()
    stack: list[Layer | None] = list(reversed(_listed(layer)))
    while stack:
        top = stack[-1]
        if top is None or top in done:
            stack.pop()
        elif top in entered or top in ends:  # all layers that feed it are in `done`
            done[top] = None
            stack.pop()
        else:
            entered.add(top)
            stack.extend(other for other in reversed(cycles.inputs_of(top)) if other not in entered)
    return list(done)


def _listed(layer: Any) -> list[Layer]:
    layers = list(layer) if isinstance(layer, Iterable) and not isinstance(layer, sj.Node) else [layer]
    for one in layers:
        if not isinstance(one, Layer):
            raise TypeError(f"expected a layer or a list of layers, got {one!r}")
    return layers


def _propagate(
    layers: Sequence[Layer], known: dict[Layer, Any], method: str, precision: Any = None, **kwargs: Any
) -> None:
    """Call a method of each layer with the results of its input layers, and put the results into `known`. The layers of
    a cycle are computed together.
    """
    for component in cycles.components(layers, dict(known)):
        for layer in component:
            inputs = cycles.inputs_of(layer)
            missing = [other for other in inputs if other not in known and other not in component]
            if isinstance(layer, DelayLayer) and layer.source is None:
                raise ValueError(f"the delay {layer} has no source: call its method connect(layer)")
            if missing or not inputs:
                raise ValueError(
                    f"{layer} was made for a shape, so its input is not known: pass a dictionary with a value for the "
                    f"output of this layer or of a layer above it, or with the key None for its input"
                )
        if cycles.is_cycle(component):
            together = cycles.shapes_of if method == "get_output_shape_for" else cycles.outputs_of
            outside = [o for layer in component for o in cycles.inputs_of(layer) if o not in component]
            compute = partial(_cycle, together, component, outside, **kwargs)
        else:
            outside = cycles.inputs_of(component[0])
            compute = partial(_alone, component[0], method, **kwargs)
        found = precisions.computed(precision, component, compute, [known[o] for o in outside])
        known.update(zip(component, found, strict=True))


def _alone(layer: Layer, method: str, *given: Any, **kwargs: Any) -> list[Any]:
    return [cycles.apply(layer, method, given, **kwargs)]


def _cycle(
    together: Callable[..., dict[Layer, Any]],
    cycle: Sequence[Layer],
    outside: Sequence[Layer],
    *given: Any,
    **kwargs: Any,
) -> list[Any]:
    found = together(cycle, dict(zip(outside, given, strict=True)), **kwargs)
    return [found[layer] for layer in cycle]


def _begun(layer: Layers, inputs: Any, what: str) -> tuple[list[Layer], list[InputLayer], dict[Layer, Any]]:
    """The layers up to those with given outputs, the input layers among them that are not given, and the inputs of
    `get_output` as a dictionary. A single value is for the only input layer."""
    given = dict(inputs) if isinstance(inputs, Mapping) else {}
    for key in given:
        if key is not None and not isinstance(key, Layer):
            raise TypeError(f"the keys of a dictionary of inputs must be layers, got a {type(key).__name__}")
    layers = get_all_layers(layer, given)
    starts = [one for one in layers if isinstance(one, InputLayer) and one not in given]
    if inputs is None or isinstance(inputs, Mapping):
        return layers, starts, given
    if len(starts) > 1:
        raise ValueError(
            f"one {what} was given, but the network has {len(starts)} input layers ({', '.join(map(str, starts))}): "
            "pass a dictionary from layers to values"
        )
    return layers, starts, {start: inputs for start in starts}


@overload
def get_output(layer_or_layers: Layer, inputs: Any = None, *, precision: Any = None, **kwargs: Any) -> sj.Node: ...
@overload
def get_output(
    layer_or_layers: Iterable[Layer], inputs: Any = None, *, precision: Any = None, **kwargs: Any
) -> list[sj.Node]: ...
def get_output(layer_or_layers: Any, inputs: Any = None, *, precision: Any = None, **kwargs: Any) -> Any:
    """The output of one or more layers, as an expression.

    Parameters
    ----------
    layer_or_layers : Layer or list of Layers
        The outputs of one call have the same random values, such as masks of dropout.
    inputs : None, expression, array, or dict
        None for the symbols of the input layers. An expression or an array is the value of the only input layer. A
        dictionary maps layers of any kind to the values that replace their outputs. The key None is the input of
        layers that were made for a shape, as `DenseLayer((None, 3), 5)`. Values must have the shapes of the outputs.
    precision : None, "bfloat16", or dict
        With "bfloat16", layers of float32 multiply numbers in bfloat16, and loops store values for their gradients in
        bfloat16 (see `scanjit.mixed`). Parameters, their updates, sums and states stay float32. A dictionary maps some
        of the layers to their precision. A layer with parameters that computes in float64 is an error. The package
        `ml_dtypes` must be installed.
    **kwargs
        Passed on to every layer. For example, `deterministic=True` turns off noise. There is a warning if no layer
        takes one of them.

    Returns
    -------
    expression, or list of expressions

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> from lasagne_like.init import Constant
    >>> from lasagne_like.layers import DenseLayer, InputLayer, get_output
    >>> l_in = InputLayer((None, 3))
    >>> l_out = DenseLayer(l_in, num_units=2, W=Constant(1))
    >>> f = sj.function([l_in.input_var], get_output(l_out), mode="reference")
    >>> f(np.ones((1, 3)))
    array([[3., 3.]])
    >>> x = sj.matrix("x")
    >>> get_output(l_out, x + 1).ndim
    2
    """
    for name in ("deterministic", "batch_norm_use_averages", "batch_norm_update_averages"):
        flag = kwargs.get(name, False)
        if not (isinstance(flag, int | np.bool_) and flag in (0, 1)) and (flag is not None or name == "deterministic"):
            raise ValueError(f"{name} must be True or False, got {flag!r}: make an output for each")
    layers, starts, given = _begun(layer_or_layers, inputs, "input")
    outputs: dict[Layer, Any] = {layer: layer.input_var for layer in starts}
    outputs.update({layer: _fitting(layer, utils.as_expression(value)) for layer, value in given.items()})
    _warn_of_unused(kwargs, [layer for layer in layers if layer not in outputs])
    precisions.check_precision(precision, layers)
    _propagate(layers, outputs, "get_output_for", precision, **kwargs)
    if isinstance(layer_or_layers, Iterable):
        return [outputs[layer] for layer in layer_or_layers]
    return outputs[layer_or_layers]


def _fitting(layer: Layer | None, value: Any) -> Any:
    """A value in place of a layer's output, with a check that it has the shape of this output."""
    if layer is None or not is_shape(layer.output_shape):
        return value
    return sj.specify_shape(value, layer.output_shape, f"the value for {layer}")


def _warn_of_unused(kwargs: Mapping[str, Any], layers: Iterable[Layer]) -> None:
    """Warn of keyword arguments that no layer takes, and suggest similar ones."""
    if not kwargs:
        return
    accepted = {"deterministic"}
    for layer in layers:
        with contextlib.suppress(TypeError, ValueError):  # some callables have no signature that can be read
            accepted.update(utils.inspect_kwargs(layer.get_output_for))
        accepted.update(getattr(layer, "get_output_kwargs", ()))
    unused = []
    for name in kwargs:
        if name not in accepted:
            close = get_close_matches(name, accepted)
            unused.append(f"{name} (perhaps you meant {close[0]})" if close else name)
    if unused:
        warnings.warn("get_output() was called with unused kwargs:\n\t" + "\n\t".join(unused), stacklevel=3)


@overload
def get_output_shape(layer_or_layers: Layer, input_shapes: Any = None) -> Shape: ...
@overload
def get_output_shape(layer_or_layers: Iterable[Layer], input_shapes: Any = None) -> list[Shape]: ...
def get_output_shape(layer_or_layers: Any, input_shapes: Any = None) -> Any:
    """The shape of the output of one or more layers.

    Parameters
    ----------
    layer_or_layers : Layer or list of Layers
    input_shapes : None, tuple, or dict
        None for the shapes with which the layers were made. A tuple is the shape of the only input layer. A dictionary
        maps layers to the shapes of their outputs.

    Returns
    -------
    tuple of ints and None, or list of tuples

    Examples
    --------
    >>> from lasagne_like.layers import DenseLayer, InputLayer, get_output_shape
    >>> layer = DenseLayer(InputLayer((None, 20)), num_units=5)
    >>> get_output_shape(layer), get_output_shape(layer, (7, 20))
    ((None, 5), (7, 5))
    """
    several = isinstance(layer_or_layers, Iterable)
    if not input_shapes:
        shapes = [layer.output_shape for layer in _listed(layer_or_layers)]
        return shapes if several else shapes[0]
    layers, starts, given = _begun(layer_or_layers, input_shapes, "shape")
    known: dict[Layer, Any] = {layer: layer.shape for layer in starts} | given
    _propagate(layers, known, "get_output_shape_for")
    return [known[layer] for layer in layer_or_layers] if several else known[layer_or_layers]


def get_updates(layer_or_layers: Layers) -> OrderedDict[sj.SharedVariable, sj.Node]:
    """The new values of the shared variables of a network, such as running averages and the states of stateful layers.

    The output of a network does not contain them. Give them to the function that computes the output:

        output = get_output(network)
        updates = adam(loss(output), params) | get_updates(network)

    Parameters
    ----------
    layer_or_layers : Layer or list of Layers
        The result includes the updates of all layers that these depend on.

    Returns
    -------
    OrderedDict
        From shared variables to expressions, for `scanjit.function(updates=...)`. For each layer, they come from the
        last call of `get_output` in which the layer made updates. Calls with `deterministic=True` make none.

    Examples
    --------
    >>> from lasagne_like.layers import BatchNormLayer, InputLayer, get_output, get_updates
    >>> network = BatchNormLayer(InputLayer((None, 3)))
    >>> output = get_output(network)
    >>> [variable.name for variable in get_updates(network)]
    ['mean', 'inv_std']
    """
    found: OrderedDict[sj.SharedVariable, sj.Node] = OrderedDict()
    for layer in get_all_layers(layer_or_layers):
        found.update(getattr(layer, "updates", {}))
    return found


@overload
def get_all_params(layer: Layers, unwrap_shared: Literal[True] = True, **tags: bool) -> list[sj.SharedVariable]: ...
@overload
def get_all_params(layer: Layers, unwrap_shared: bool, **tags: bool) -> list[Any]: ...
def get_all_params(layer: Layers, unwrap_shared: bool = True, **tags: bool) -> list[Any]:
    """The parameters of one or more layers, and of all layers that they depend on. Each parameter is in the list once.

    Parameters
    ----------
    layer : Layer or list of Layers
    unwrap_shared, **tags : see `Layer.get_params`

    Returns
    -------
    list of SharedVariable
        With `unwrap_shared=False`, parameters that are expressions are in the list as they are.

    Examples
    --------
    >>> from lasagne_like.layers import DenseLayer, InputLayer, get_all_params
    >>> network = DenseLayer(DenseLayer(InputLayer((None, 20)), 5, name="hidden"), 2, name="out")
    >>> [p.name for p in get_all_params(network)]
    ['hidden.W', 'hidden.b', 'out.W', 'out.b']
    >>> [p.name for p in get_all_params(network, regularizable=True)]
    ['hidden.W', 'out.W']
    """
    layers = get_all_layers(layer)
    return utils.unique(p for one in layers for p in one.get_params(unwrap_shared=unwrap_shared, **tags))


def count_params(layer: Layers, **tags: bool) -> int:
    """The total number of elements of the parameters that `get_all_params` returns.

    Parameters
    ----------
    layer, **tags : as for `get_all_params`

    Examples
    --------
    >>> from lasagne_like.layers import DenseLayer, InputLayer, count_params
    >>> count_params(DenseLayer(InputLayer((None, 20)), num_units=50))
    1050
    """
    return sum(p.get_value(borrow=True).size for p in get_all_params(layer, **tags))


def get_all_param_values(layer: Layers, **tags: bool) -> list[np.ndarray]:
    """Copies of the values of the parameters that `get_all_params` returns, in the same order.

    Parameters
    ----------
    layer, **tags : as for `get_all_params`

    Examples
    --------
    >>> from lasagne_like.layers import DenseLayer, InputLayer, get_all_param_values
    >>> [v.shape for v in get_all_param_values(DenseLayer(InputLayer((None, 20)), num_units=50))]
    [(20, 50), (50,)]
    """
    return [p.get_value() for p in get_all_params(layer, **tags)]


def set_all_param_values(layer: Layers, values: Sequence[Any], **tags: bool) -> None:
    """Set the values of the parameters that `get_all_params` returns, in the same order. After an error, none is set.

    Parameters
    ----------
    layer : Layer or list of Layers
    values : sequence of arrays
        Floats are rounded to the dtype of the parameter, so the values of a float64 network fit a float32 network.
    **tags : see `Layer.get_params`

    Raises
    ------
    ValueError
        If there are more or fewer values than parameters, or a shape differs.

    Examples
    --------
    >>> from lasagne_like.layers import DenseLayer, InputLayer, get_all_param_values, set_all_param_values
    >>> network = DenseLayer(InputLayer((None, 20)), num_units=50)
    >>> set_all_param_values(network, get_all_param_values(network))
    """
    params = get_all_params(layer, **tags)
    given: Any = values
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        hint = ": give list(values.values()), in the order of get_all_params" if isinstance(given, Mapping) else ""
        raise TypeError(f"values must be a list of arrays, got a {type(given).__name__}{hint}")
    values = list(given)
    for i, value in enumerate(values):
        sj.check_unmasked(value, f"value {i}")
    if len(params) != len(values):
        listed = ", ".join(f"{p.name or 'unnamed'} {p.get_value(borrow=True).shape}" for p in params)
        raise ValueError(
            f"mismatch: got {len(values)} values to set {len(params)} parameters; the parameters are {listed}, "
            f"the values have the shapes {', '.join(str(_shape_of_value(v)) for v in values)}"
        )
    for i, (param, value) in enumerate(zip(params, values, strict=True)):
        own, new = param.get_value(borrow=True).shape, _shape_of_value(value)
        if own != new:
            name = f" ({param.name})" if param.name else ""
            raise ValueError(f"mismatch: parameter {i}{name} has shape {own} but the value to set has shape {new}")
    arrays = [_as(p, v, i) for i, (p, v) in enumerate(zip(params, values, strict=True))]
    sj.set_values(dict(zip(params, arrays, strict=True)))


def _shape_of_value(value: Any) -> tuple[int, ...] | None:
    """The shape of a value, or None if it has none: a list whose rows have different lengths."""
    try:
        return np.shape(value)
    except ValueError:
        return None


def _as(param: sj.SharedVariable, value: Any, i: int) -> np.ndarray:
    """A value in the dtype of a parameter."""
    array = np.asarray(value)
    if not np.can_cast(array.dtype, param.dtype, "same_kind"):
        raise TypeError(
            f"mismatch: parameter {i} ({param.name}) has dtype {param.dtype} but the value to set has {array.dtype}"
        )
    return array.astype(param.dtype)
