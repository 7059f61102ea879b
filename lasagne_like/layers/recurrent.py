"""Lasagne's recurrent layers."""

from __future__ import annotations

import copy
import functools
import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack

import scanjit as sj
from lasagne_like import init, nonlinearities
from lasagne_like.cells import GRU, LSTM, Cell, Gate
from lasagne_like.descriptions import completed
from lasagne_like.foreign import unexpected
from lasagne_like.layers import helper
from lasagne_like.layers.base import Incoming, Layer, check_single, shape_of
from lasagne_like.layers.dense import DenseLayer
from lasagne_like.layers.input import InputLayer
from lasagne_like.layers.rnn import RNNLayer
from lasagne_like.utils import Nonlinearity, Parameter, fits

__all__ = ["CustomRecurrentLayer", "GRULayer", "Gate", "LSTMLayer", "RecurrentLayer"]

L = TypeVar("L", bound=Layer)
_ZEROS = init.Constant(0.0)


@dataclass(frozen=True, eq=False)
class LoopOptions:
    """The arguments that Lasagne's recurrent layers share, in their order; `more` has `name` and those of `RNNLayer`.

    hid_init : initializer, array, shared variable, expression or Layer
        The initial state: a parameter of shape (1, units...), or an expression or layer that gives (batch, units...).
    backwards : bool
        Go from the last step to the first. The output is in the order of time all the same.
    learn_init : bool
        Whether initial states that are parameters are trained.

    gradient_steps : int
        Back-propagate through the last so many steps only; -1: all.
    grad_clipping : float
        Gradients that reach the pre-activations of a step are cut to +- this value; 0 leaves them alone.
    unroll_scan : bool
        No loop, but all steps in a row. The length must be known, and `gradient_steps` be -1.
    precompute_input : bool
        Whether the products with the input are written before the loop. The results are the same.
    mask_input : Layer or tuple, optional
        Gives (batch, time), with zeros at the steps to skip: state and output stay as they were.
    only_return_final : bool
        Give the output of the last step only (the first one for `backwards`).
    **kwargs
        Further arguments of `RNNLayer`, and `name`.
    """

    hid_init: Any = _ZEROS
    backwards: bool = False
    learn_init: bool = False
    gradient_steps: int = -1
    grad_clipping: float = 0
    unroll_scan: bool = False
    precompute_input: bool = True
    mask_input: Incoming | None = None
    only_return_final: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)

    def for_rnn(self) -> dict[str, Any]:
        """The arguments that `RNNLayer` has under the same names, and `more`."""
        others = ("hid_init", "grad_clipping", "more")
        return {name: value for name, value in vars(self).items() if name not in others} | dict(self.more)


class LoopArguments(TypedDict, total=False):
    """The same as keyword arguments, for type checkers, with those of `RNNLayer`."""

    hid_init: Parameter | Layer
    backwards: bool
    learn_init: bool
    gradient_steps: int
    grad_clipping: float
    unroll_scan: bool
    precompute_input: bool
    mask_input: Incoming | None
    only_return_final: bool
    seq_lengths: Incoming | sj.TensorLike | None
    zero_output_for_mask: bool
    return_state: bool
    stateful: bool
    time_major: bool
    checkpoint: int | Literal["sqrt", "all"] | None
    fuse_layers: bool
    name: str | None


def _with_options(cls: type[L]) -> type[L]:
    """A decorator: the layer takes each of the `LoopOptions` as an argument of its own, and its docstring describes
    them.

    `__init__` gets all of them in `options`. Its `**kwargs` tell type checkers that they exist. Arguments between the
    two come after `learn_init`, as `peepholes` does in Lasagne."""
    cls.__doc__ = completed(cls.__doc__, LoopOptions)

    changed: Any = cls
    make = changed.__init__
    *own, keywords = inspect.signature(make).parameters.values()
    at = [one.name for one in own].index("options")
    options = [
        inspect.Parameter(one.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=one.default, annotation=one.type)
        for one in fields(LoopOptions)
        if one.name != "more"
    ]
    signature = inspect.Signature([*own[:at], *options[:3], *own[at + 1 :], *options[3:], keywords])

    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(kwargs.get("options"), LoopOptions):
            return make(self, *args, **kwargs)
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}: {error}; the first argument is the layer below") from None
        bound.apply_defaults()
        given = bound.arguments
        more = given.pop(keywords.name)
        for name in more:
            if name not in LoopArguments.__annotations__:
                raise unexpected(cls, name)
        make(**given, options=LoopOptions(**{one.name: given.pop(one.name) for one in options}, more=more))

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    changed.__init__ = __init__
    return cls


class _FromLayers(Cell):
    """The cell of `CustomRecurrentLayer`: it applies layers to one step."""

    flattens_input = False

    def __init__(self, input_to_hidden: Any, hidden_to_hidden: Any, nonlinearity: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.input_to_hidden, self.hidden_to_hidden, self.nonlinearity = input_to_hidden, hidden_to_hidden, nonlinearity
        self.state_shape = tuple(hidden_to_hidden.output_shape[1:])
        self._kwargs: dict[str, Any] = {}

    def begin(self, batch: Any, **kwargs: Any) -> Cell:
        other = copy.copy(self)
        other._kwargs = kwargs
        return other

    def precompute(self, x: Any) -> Any:
        leading = x.shape[: x.ndim - len(self.input_shape)]
        rows = x.reshape((math.prod(leading), *x.shape[len(leading) :])) if len(leading) > 1 else x
        z = helper.get_output(self.input_to_hidden, rows, **self._kwargs)
        return z.reshape((*leading, *z.shape[1:])) if len(leading) > 1 else z

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        h = self.nonlinearity(self.clipped(z + helper.get_output(self.hidden_to_hidden, state, **self._kwargs)))
        return h, h


@_with_options
class CustomRecurrentLayer(RNNLayer):
    """A recurrent layer made of layers: `h = nonlinearity(input_to_hidden(x) + hidden_to_hidden(h_))`.

    Parameters
    ----------
    incoming : Layer or tuple
        (batch, time, ...).
    input_to_hidden : Layer
        The last of a chain that begins with an InputLayer for one step, (batch, ...). Its batch should be None: with
        `precompute_input` it gets batch * time rows at once.
    hidden_to_hidden : Layer
        The last of a chain that begins with an InputLayer of the shape of its own output.
    nonlinearity : callable or None
    COMMON 1
    COMMON 2

    Examples
    --------
    >>> from lasagne_like.layers import CustomRecurrentLayer, DenseLayer, InputLayer
    >>> l_in_hid = DenseLayer(InputLayer((None, 4)), num_units=5, nonlinearity=None)
    >>> l_hid_hid = DenseLayer(InputLayer((None, 5)), num_units=5, nonlinearity=None, b=None)
    >>> layer = CustomRecurrentLayer(InputLayer((None, None, 4)), l_in_hid, l_hid_hid)
    >>> layer.output_shape, [p.name for p in layer.get_params()]
    ((None, None, 5), ['hid_init', 'W', 'b', 'W'])
    """

    def __init__(
        self,
        incoming: Incoming,
        input_to_hidden: Any,
        hidden_to_hidden: Any,
        nonlinearity: Nonlinearity = nonlinearities.rectify,
        options: Any = LoopOptions(),
        **kwargs: Unpack[LoopArguments],
    ) -> None:
        self.input_to_hidden, self.hidden_to_hidden = input_to_hidden, hidden_to_hidden
        self.grad_clipping = options.grad_clipping
        self.nonlinearity = nonlinearities.or_identity(nonlinearity)
        shape = shape_of(incoming)
        _check_connections(shape, input_to_hidden, hidden_to_hidden, options.precompute_input)
        super().__init__(
            incoming,
            _FromLayers(input_to_hidden, hidden_to_hidden, self.nonlinearity, grad_clipping=options.grad_clipping),
            options.hid_init,
            **options.for_rnn(),
        )
        self.hid_init = self.initial[""]

    def get_params(self, unwrap_shared: bool = True, **tags: bool) -> list[Any]:
        """The parameters: the initial state, then those of `input_to_hidden` and of `hidden_to_hidden`."""
        inner = [self.input_to_hidden, self.hidden_to_hidden]
        own = super().get_params(unwrap_shared=unwrap_shared, **tags)
        return own + helper.get_all_params(inner, unwrap_shared=unwrap_shared, **tags)

    def get_output_for(self, inputs: Any, **kwargs: Any) -> Any:
        output = super().get_output_for(inputs, **kwargs)
        if self.precompute_input:  # a layer inside the loop would have a new value for each step
            self.updates.update(helper.get_updates(self.input_to_hidden))
        return output

    def reversed(self) -> Any:
        raise ValueError(
            f"{self} is made of layers, which cannot be copied: make a second layer with backwards=True, and give "
            "both to Bidirectional"
        )


def _check_connections(shape: Any, i2h: Layer, h2h: Layer, precompute: bool) -> None:
    """Raise an error if the two layers do not fit together."""
    a, b = i2h.output_shape, h2h.output_shape
    starts, c = _only_start("input_to_hidden", i2h), _only_start("hidden_to_hidden", h2h)
    if any(size is None for size in b[1:]):
        raise ValueError(f"hidden_to_hidden must give features of fixed sizes, its output has shape {b}")
    if not fits(a[1:], b[1:]):
        raise ValueError(
            f"input_to_hidden and hidden_to_hidden must give the same shape after the batch: got input_to_hidden "
            f"{a} and hidden_to_hidden {b}"
        )
    if not fits(c[1:], b[1:]):
        raise ValueError(f"hidden_to_hidden must give the shape that it takes: it takes {c} and gives {b}")
    if len(shape) >= 3 and not fits(starts[1:], shape[2:]):
        raise ValueError(
            f"input_to_hidden must take one step of the input: it takes {starts}, a step of {shape} has the shape "
            f"{(shape[0], *shape[2:])}"
        )
    _check_batches(shape, [starts, a], [c, b], precompute)


def _check_batches(shape: Any, i2h: list[Any], h2h: list[Any], precompute: bool) -> None:
    """Raise an error if a layer was made for another batch. `i2h` and `h2h` are pairs of shapes: of the input and the
    output."""
    if precompute:
        rows = None if None in shape[:2] else math.prod(shape[:2])
        if any(fixed[0] not in (None, rows) for fixed in i2h):
            raise ValueError(
                "with precompute_input, input_to_hidden takes batch * time = "
                f"{'an unknown number of' if rows is None else rows} rows at once, but it takes the shape {i2h[0]} and "
                f"its output has the shape {i2h[1]}: make it for any batch (None)"
            )
    elif not fits(i2h[1][:1], h2h[1][:1]):
        raise ValueError(
            f"input_to_hidden and hidden_to_hidden must have the same batch size, or None: got {i2h[1]} and {h2h[1]}"
        )
    steps = {"hidden_to_hidden": h2h} | ({} if precompute else {"input_to_hidden": i2h})
    for name, (takes, gives) in steps.items():
        if not (fits(takes[:1], shape[:1]) and fits(gives[:1], shape[:1])):
            raise ValueError(
                f"{name} must be made for the batch of the input {shape}, or for any (None): it takes {takes} and "
                f"gives {gives}"
            )


def _only_start(name: str, layer: Layer) -> Any:
    """The shape of the one InputLayer that a chain of layers begins with."""
    starts = [start for start in helper.get_all_layers(layer) if isinstance(start, InputLayer)]
    if len(starts) != 1:
        raise ValueError(f"{name} must begin with one InputLayer, got {len(starts)}: {starts}")
    return starts[0].shape


@_with_options
class RecurrentLayer(CustomRecurrentLayer):
    """A dense recurrent layer: `h = nonlinearity(x @ W_in_to_hid + h_ @ W_hid_to_hid + b)`.

    Parameters
    ----------
    incoming : Layer or tuple
        (batch, time, features...); features are flattened.
    num_units : int
    W_in_to_hid, W_hid_to_hid : initializer, array, shared variable or expression
        Of shape (num_inputs, num_units) and (num_units, num_units).
    b : initializer, array, shared variable, expression or None
        Of shape (num_units,); None for no bias.
    nonlinearity : callable or None
    COMMON 1
    COMMON 2

    Examples
    --------
    >>> from lasagne_like.layers import InputLayer, RecurrentLayer
    >>> layer = RecurrentLayer(InputLayer((None, None, 4)), num_units=5, only_return_final=True, name="rnn")
    >>> layer.output_shape, [p.name for p in layer.get_params(trainable=True)]
    ((None, 5), ['rnn.input_to_hidden.W', 'rnn.input_to_hidden.b', 'rnn.hidden_to_hidden.W'])
    """

    def __init__(
        self,
        incoming: Incoming,
        num_units: int,
        W_in_to_hid: Parameter = init.Uniform(),
        W_hid_to_hid: Parameter = init.Uniform(),
        b: Parameter | None = init.Constant(0.0),
        nonlinearity: Nonlinearity = nonlinearities.rectify,
        options: Any = LoopOptions(),
        **kwargs: Unpack[LoopArguments],
    ) -> None:
        shape = shape_of(incoming)
        check_single(shape, self)
        if len(shape) < 3 or any(size is None for size in shape[2:]):
            raise ValueError(
                "RecurrentLayer needs an input of shape (batch, time, features...), with features of fixed sizes, got "
                f"{shape}"
            )
        prefix = f"{options.more['name']}." if options.more.get("name") else ""
        l_in, l_hid = InputLayer((None, *shape[2:])), InputLayer((None, num_units))
        self.num_units = num_units
        super().__init__(
            incoming,
            DenseLayer(l_in, num_units, W_in_to_hid, b, None, name=f"{prefix}input_to_hidden"),
            DenseLayer(l_hid, num_units, W_hid_to_hid, None, None, name=f"{prefix}hidden_to_hidden"),
            nonlinearity,
            options=options,
        )
        self.W_in_to_hid, self.b = self.input_to_hidden.W, self.input_to_hidden.b
        self.W_hid_to_hid = self.hidden_to_hidden.W

    reversed = RNNLayer.reversed


def _expose(layer: RNNLayer, *gates: str) -> None:
    """Make the parameters of the gates attributes of the layer, as they are in Lasagne."""
    for part, gate in product(("W_in_to", "W_hid_to", "W_cell_to", "b", "nonlinearity"), gates):
        if hasattr(layer.cell, f"{part}_{gate}"):
            setattr(layer, f"{part}_{gate}", getattr(layer.cell, f"{part}_{gate}"))


@_with_options
class LSTMLayer(RNNLayer):
    """A layer of long short-term memory: see `lasagne_like.cells.LSTM` for the equations.

    Parameters
    ----------
    incoming : Layer or tuple
        (batch, time, features...); features are flattened.
    num_units : int
    ingate, forgetgate, cell, outgate : Gate
    nonlinearity : callable or None
        Of the memory, on its way to the output.
    cell_init : initializer, array, shared variable, expression or Layer
        The initial memory, as `hid_init`.
    COMMON 1
    peepholes : bool
        Whether the gates see the memory cells.
    COMMON 2

    Examples
    --------
    >>> from lasagne_like.layers import InputLayer, LSTMLayer
    >>> layer = LSTMLayer(InputLayer((None, None, 4)), num_units=5)
    >>> layer.output_shape, layer.W_in_to_forgetgate.shape, len(layer.get_params())
    ((None, None, 5), (4, 5), 17)
    """

    def __init__(
        self,
        incoming: Incoming,
        num_units: int,
        ingate: Gate = Gate(),
        forgetgate: Gate = Gate(),
        cell: Gate = Gate(W_cell=None, nonlinearity=nonlinearities.tanh),
        outgate: Gate = Gate(),
        nonlinearity: Nonlinearity = nonlinearities.tanh,
        cell_init: Any = init.Constant(0.0),
        options: Any = LoopOptions(),
        peepholes: bool = True,
        **kwargs: Unpack[LoopArguments],
    ) -> None:
        inner = LSTM(
            num_units, ingate, forgetgate, cell, outgate, nonlinearity, peepholes, grad_clipping=options.grad_clipping
        )
        super().__init__(
            incoming,
            inner,
            {"hid": options.hid_init, "cell": cell_init},  # the order of the input layers, as in Lasagne
            **options.for_rnn(),
        )
        self.num_units, self.peepholes, self.grad_clipping = num_units, peepholes, options.grad_clipping
        self.nonlinearity = inner.nonlinearity
        self.cell_init, self.hid_init = self.initial["cell"], self.initial["hid"]
        _expose(self, "ingate", "forgetgate", "cell", "outgate")

    if TYPE_CHECKING:  # the parameters of gates are attributes

        def __getattr__(self, name: str) -> Any: ...


@_with_options
class GRULayer(RNNLayer):
    """A layer of gated recurrent units: see `lasagne_like.cells.GRU` for the equations.

    Parameters
    ----------
    incoming : Layer or tuple
        (batch, time, features...); features are flattened.
    num_units : int
    resetgate, updategate, hidden_update : Gate
    COMMON 1
    COMMON 2

    Examples
    --------
    >>> from lasagne_like.layers import GRULayer, InputLayer
    >>> layer = GRULayer(InputLayer((None, None, 4)), num_units=5, name="gru")
    >>> [p.name for p in layer.get_params(regularizable=False)]
    ['gru.b_updategate', 'gru.b_resetgate', 'gru.b_hidden_update', 'gru.hid_init']
    """

    def __init__(
        self,
        incoming: Incoming,
        num_units: int,
        resetgate: Gate = Gate(W_cell=None),
        updategate: Gate = Gate(W_cell=None),
        hidden_update: Gate = Gate(W_cell=None, nonlinearity=nonlinearities.tanh),
        options: Any = LoopOptions(),
        **kwargs: Unpack[LoopArguments],
    ) -> None:
        super().__init__(
            incoming,
            GRU(num_units, resetgate, updategate, hidden_update, grad_clipping=options.grad_clipping),
            options.hid_init,
            **options.for_rnn(),
        )
        self.num_units, self.grad_clipping = num_units, options.grad_clipping
        self.nonlinearity_hid = hidden_update.nonlinearity
        self.hid_init = self.initial[""]
        _expose(self, "resetgate", "updategate", "hidden_update", "hid")  # "hid": the layer has b_hid, as the cell

    if TYPE_CHECKING:  # the parameters of gates are attributes

        def __getattr__(self, name: str) -> Any: ...
