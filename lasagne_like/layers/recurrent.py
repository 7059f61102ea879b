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
from lasagne_like.cells.structure import over_rows
from lasagne_like.checks import check_number
from lasagne_like.descriptions import completed
from lasagne_like.foreign import unexpected
from lasagne_like.layers import helper
from lasagne_like.layers.base import Incoming, Layer, check_single, shape_of
from lasagne_like.layers.dense import DenseLayer
from lasagne_like.layers.input import InputLayer
from lasagne_like.layers.rnn import RNNLayer
from lasagne_like.shapes import fits
from lasagne_like.utils import Nonlinearity, Parameter

__all__ = ["CustomRecurrentLayer", "GRULayer", "Gate", "LSTMLayer", "RecurrentLayer"]

L = TypeVar("L", bound=Layer)
_ZEROS = init.Constant(0.0)


@dataclass(frozen=True, eq=False)
class LoopOptions:
    """The arguments that Lasagne's recurrent layers share, in their order. `more` has `name` and arguments of
    `RNNLayer`.

    hid_init : initializer, array, shared variable, expression or Layer
        The initial state. An expression or the output of a layer has shape (batch, units...). Anything else makes a
        parameter of shape (1, units...), for all sequences.
    backwards : bool
        Whether the loop runs from the last step to the first. The output is still in the order of time.
    learn_init : bool
        Whether the parameters of the initial state are trained.

    gradient_steps : int
        The number of steps, counted from the last, through which gradients are propagated. -1 is all of them.
    grad_clipping : float
        The gradients of the pre-activations of each step are clipped to this absolute value. 0 does not clip.
    unroll_scan : bool
        Whether each step is written out, without a loop. The number of steps must be fixed, and `gradient_steps` must
        be -1.
    precompute_input : bool
        Whether the products with the input are written before the loop. The results are the same.
    mask_input : Layer or tuple, optional
        Its output has shape (batch, time), with zeros for the steps to skip. State and output do not change at these
        steps.
    only_return_final : bool
        Whether the output is that of the last step alone. (With `backwards`, this is step 0.)
    **kwargs
        `name`, and further arguments of `RNNLayer`.
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
    """The types of the keyword arguments of Lasagne's recurrent layers, for type checkers: those of `LoopOptions`, and
    further arguments of `RNNLayer`."""

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
    """A decorator for a layer that takes each field of `LoopOptions` as a separate argument, and describes it in its
    docstring.

    The `__init__` of the class has one argument `options` for all fields, and `**kwargs` for type checkers. Arguments
    between `options` and `**kwargs` come after `learn_init`, as `peepholes` does in Lasagne.
    """
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
            raise TypeError(f"{cls.__name__}: {error}; the first argument is the layer that feeds it") from None
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
        output = lambda rows: helper.get_output(self.input_to_hidden, rows, **self._kwargs)
        return over_rows(output, x, len(self.input_shape))

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        h = self.nonlinearity(self.clipped(z + helper.get_output(self.hidden_to_hidden, state, **self._kwargs)))
        return h, h


@_with_options
class CustomRecurrentLayer(RNNLayer):
    """A recurrent layer that is made of other layers: `h = nonlinearity(input_to_hidden(x) + hidden_to_hidden(h_))`.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, time, ...).
    input_to_hidden : Layer
        The last layer of a network whose InputLayer has the shape of one step, (batch, ...). The batch of this
        InputLayer should be None: with `precompute_input` it gets the rows of all steps at once.
    hidden_to_hidden : Layer
        The last layer of a network whose InputLayer has the shape of this layer's output.
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
        check_number(type(self).__name__, options.grad_clipping, "grad_clipping")
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
        for layer in helper.get_all_layers([input_to_hidden, hidden_to_hidden]):
            self.params.update(layer.params)

    def get_output_for(self, inputs: Any, **kwargs: Any) -> Any:
        output = super().get_output_for(inputs, **kwargs)
        if self.precompute_input:  # inside the loop, updates would have a new value for each step
            self.updates.update(helper.get_updates(self.input_to_hidden))
        return output

    def reversed(self) -> Any:
        raise ValueError(
            f"{self} consists of layers, which cannot be copied: make a second layer with backwards="
            f"{not self.backwards}, and give it to Bidirectional(backward=...)"
        )


def _check_connections(shape: Any, i2h: Layer, h2h: Layer, precompute: bool) -> None:
    """Raise an error if the two layers do not fit together."""
    a, b = i2h.output_shape, h2h.output_shape
    starts, c = _only_start("input_to_hidden", i2h), _only_start("hidden_to_hidden", h2h)
    if any(size is None for size in b[1:]):
        raise ValueError(f"hidden_to_hidden must have an output with features of fixed sizes, got {b}")
    if not fits(a[1:], b[1:]):
        raise ValueError(
            "input_to_hidden and hidden_to_hidden must have outputs of the same shape behind the batch: got "
            f"input_to_hidden {a} and hidden_to_hidden {b}"
        )
    if not fits(c[1:], b[1:]):
        raise ValueError(
            f"hidden_to_hidden must have the same shape as input and output: its InputLayer has {c}, its output has {b}"
        )
    if len(shape) >= 3 and not fits(starts[1:], shape[2:]):
        raise ValueError(
            f"the InputLayer of input_to_hidden must have the shape of one step of the input {shape}: "
            f"{(shape[0], *shape[2:])}, got {starts}"
        )
    _check_batches(shape, [starts, a], [c, b], precompute)


def _check_batches(shape: Any, i2h: list[Any], h2h: list[Any], precompute: bool) -> None:
    """Raise an error if one of the two layers was made for another batch. `i2h` and `h2h` are pairs of shapes: those of
    the InputLayer and of the output."""
    if precompute:
        rows = None if None in shape[:2] else math.prod(shape[:2])
        if any(fixed[0] not in (None, rows) for fixed in i2h):
            raise ValueError(
                "with precompute_input, input_to_hidden gets batch * time = "
                f"{'an unknown number of' if rows is None else rows} rows at once, but its InputLayer has the shape "
                f"{i2h[0]} and its output {i2h[1]}: make it with a batch of None"
            )
    elif not fits(i2h[1][:1], h2h[1][:1]):
        raise ValueError(
            "input_to_hidden and hidden_to_hidden must have outputs with the same batch, or None: got "
            f"{i2h[1]} and {h2h[1]}"
        )
    steps = {"hidden_to_hidden": h2h} | ({} if precompute else {"input_to_hidden": i2h})
    for name, (takes, gives) in steps.items():
        if not (fits(takes[:1], shape[:1]) and fits(gives[:1], shape[:1])):
            raise ValueError(
                f"{name} must be made with the batch of the input {shape}, or with None: its InputLayer has {takes}, "
                f"its output has {gives}"
            )


def _only_start(name: str, layer: Layer) -> Any:
    """The shape of the only InputLayer of a network."""
    starts = [start for start in helper.get_all_layers(layer) if isinstance(start, InputLayer)]
    if len(starts) != 1:
        raise ValueError(f"{name} must have exactly one InputLayer, got {len(starts)}: {starts}")
    return starts[0].shape


@_with_options
class RecurrentLayer(CustomRecurrentLayer):
    """A dense recurrent layer: `h = nonlinearity(x @ W_in_to_hid + h_ @ W_hid_to_hid + b)`.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, time, features...). Several axes of features are flattened to one.
    num_units : int
    W_in_to_hid, W_hid_to_hid : initializer, array, shared variable or expression
        Of the shapes (num_inputs, num_units) and (num_units, num_units).
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
    """Make the parameters of gates attributes of the layer, such as `W_in_to_ingate`. Lasagne does so, too."""
    for part, gate in product(("W_in_to", "W_hid_to", "W_cell_to", "b", "nonlinearity"), gates):
        if hasattr(layer.cell, f"{part}_{gate}"):
            setattr(layer, f"{part}_{gate}", getattr(layer.cell, f"{part}_{gate}"))


@_with_options
class LSTMLayer(RNNLayer):
    """A layer of long short-term memory: see `lasagne_like.cells.LSTM` for the equations.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, time, features...). Several axes of features are flattened to one.
    num_units : int
    ingate, forgetgate, cell, outgate : Gate
    nonlinearity : callable or None
        The function of the memory in the output.
    cell_init : initializer, array, shared variable, expression or Layer
        The initial memory. See `hid_init`.
    COMMON 1
    peepholes : bool
        Whether the gates read the memory.
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
        Its output has shape (batch, time, features...). Several axes of features are flattened to one.
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
