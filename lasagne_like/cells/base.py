"""The base of all cells: one step of a recurrence, with its parameters."""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

import scanjit as sj
from lasagne_like.arguments import Captured, given, named, plain
from lasagne_like.cells import config as configs
from lasagne_like.cells.structure import flatten, is_shape, transform
from lasagne_like.checks import check_number
from lasagne_like.parameters import Parametrized

__all__ = ["Cell"]


class CellOptions(TypedDict, total=False):
    """The types of the keyword arguments of every cell, for type checkers."""

    grad_clipping: float
    name: str | None


class Cell(Parametrized, Captured):
    """One step of a recurrence, with its parameters.

    `lasagne_like.layers.RNNLayer` runs a cell over all steps of a sequence, with masks and in both directions.
    `lasagne_like.cells.step_function` compiles a single step, with the same parameters.

    A subclass defines:

    - `make_params(input_shape)`: it makes the parameters with `add_param`.
    - `state_shape`: the shape of the state of one sequence, such as `(num_units,)`. If the state has several tensors,
      this is a tuple, dict, named tuple or dataclass of shapes. None is for a cell without a state.
    - `output_shape`: the shape of the output of one step. If the state is one tensor, the default is its shape; if it
      has a part `hid`, the shape of this part.
    - `step(x, state)`: it returns `(output, state)`. The first axis of all tensors is the batch.

    Instead of `step`, a subclass may define its two parts. `precompute(x)` is the part that does not depend on the
    state. It must work with any number of leading axes, so that a layer can call it once for all steps. `recur(z,
    state)` is the rest, where `z` is the result of `precompute`. (This is not needed for speed: the compiler moves
    products of the input out of the loop anyway.)

    A subclass may also define `init_state`, the state before the first step, and `begin`, which runs once before a
    loop.

    Parameters
    ----------
    grad_clipping : float
        The gradients of the pre-activations of each step are clipped to this absolute value. 0 does not clip.
    name : str, optional
        The names of the parameters begin with it: "name.W".

    Attributes
    ----------
    input_shape : the shape of the input of one step, without the batch; None before `build`.
    params : an ordered dict from each parameter to the set of its tags. It includes the parameters of inner cells.
    flattens_input : whether a layer flattens the features of the input to one axis; True by default.

    Examples
    --------
    A new cell:

    >>> import numpy as np
    >>> import lasagne_like as lasagne
    >>> class Leaky(lasagne.cells.Cell):
    ...     def __init__(self, num_units, rate=0.1, **kwargs):
    ...         super().__init__(**kwargs)
    ...         self.rate, self.state_shape = rate, (num_units,)
    ...
    ...     def make_params(self, input_shape):
    ...         sizes = (input_shape[0], *self.state_shape)
    ...         self.W = self.add_param(lasagne.init.GlorotUniform(), sizes, name="W")
    ...
    ...     def step(self, x, h):
    ...         h = (1 - self.rate) * h + self.rate * np.tanh(x @ self.W)
    ...         return h, h
    >>> layer = lasagne.layers.RNNLayer((None, None, 3), Leaky(5))
    >>> layer.output_shape, layer.get_params()
    ((None, None, 5), [<shared W: float64(3, 5)>])
    """

    flattens_input: bool = True
    state_shape: Any = None
    specs: Mapping[str, Any] = {}
    """A dict from the names of parameters to their specifications, for `add_specified`."""
    _output_shape: Any = None

    def __init__(self, grad_clipping: float = 0, name: str | None = None) -> None:
        check_bound(grad_clipping, "grad_clipping", self)
        self.grad_clipping, self.name = grad_clipping, name
        self.params = OrderedDict()
        self.input_shape: Any = None

    def __repr__(self) -> str:
        name = getattr(self, "name", None)
        return f"<{type(self).__name__}{f' {name!r}' if name else ''}>"

    # ---- parameters --------------------------------------------------------------------------------------------------

    def build(self, input_shape: Any) -> Any:
        """Make the parameters. `RNNLayer` calls this; call it yourself to use a cell without a layer.

        Parameters
        ----------
        input_shape : int, tuple of ints, or a structure of tuples
            The shape of the input of one step, without the batch. An int is the number of features.

        Returns
        -------
        Cell
            The cell itself.

        Raises
        ------
        ValueError
            If the cell has been built for another shape, or if a size is None.
        """
        shape = plain((input_shape,) if isinstance(input_shape, int | np.integer) else input_shape)
        if self.input_shape is not None:
            if self.input_shape != shape:
                raise ValueError(
                    f"{self!r} was built for inputs of shape {self.input_shape}, so it cannot take {shape}: "
                    "use another cell, such as cell.clone()"
                )
            return self
        if any(size is None for leaf in flatten(shape) for size in leaf):
            raise ValueError(f"{self!r} needs an input with features of fixed sizes, got {shape}")
        self.input_shape = shape
        self.make_params(shape)
        return self

    def make_params(self, input_shape: Any) -> None:
        """Make the parameters with `add_param`. `build` calls this once."""

    def add_specified(self, optional: Collection[str] = ("b",), **shapes: tuple[int, ...]) -> None:
        """Make parameters from `specs`, and store them as attributes. Parameters with names that begin with W are
        regularizable.

        Parameters
        ----------
        optional : names of parameters whose specification may be None. Then the attribute is None.
        **shapes : the shapes of the parameters, in the order in which they are made.
        """
        for name, shape in shapes.items():
            self.keep_param(name, self.specs[name], shape, name in optional, regularizable=name.startswith("W"))

    def keep_param(self, name: str, spec: Any, shape: Iterable[int], optional: bool = False, **tags: bool) -> None:
        """Make a parameter, and store it as an attribute. The attribute is None if `spec` is None and `optional`."""
        param = None if optional and spec is None else self.add_param(spec, shape, name, **tags)
        setattr(self, name, param)

    if TYPE_CHECKING:  # parameters are attributes

        def __getattr__(self, name: str) -> Any: ...

    def get_params(self, **tags: bool) -> list[Any]:
        """The parameters, in the order in which they were made. `tag=True` selects those with a tag, and `tag=False`
        those without it."""
        return self.tagged(tags)

    def clone(self) -> Any:
        """A new cell with the same arguments, which makes its own parameters.

        Parameters that were given as shared variables or expressions are common to both cells.

        Examples
        --------
        >>> from lasagne_like.cells import SimpleRNN
        >>> cell = SimpleRNN(4).build(3)
        >>> other = cell.clone().build(3)
        >>> other.W_hid_to_hid is cell.W_hid_to_hid
        False
        """
        args, kwargs = given(self)
        return type(self)(*map(cloned, args), **{key: cloned(value) for key, value in kwargs.items()})

    def get_config(self) -> dict[str, Any]:
        """The class and the arguments of the cell, as a dict for JSON. `from_config` makes an equal cell from it.

        The dict does not contain the values of parameters.

        Raises
        ------
        TypeError
            If an argument is a shared variable, an expression, or a function without a name.

        Examples
        --------
        >>> import json
        >>> from lasagne_like.cells import GRU, Cell, ResidualWrapper
        >>> text = json.dumps(ResidualWrapper(GRU(4)).get_config())
        >>> text
        '{"class_name": "ResidualWrapper", "config": {"cell": {"class_name": "GRU", "config": {"num_units": 4}}}}'
        >>> Cell.from_config(json.loads(text)).cell.num_units
        4
        """
        config = {name: configs.encoded(value, f"{name} of {self!r}") for name, value in named(self).items()}
        return {"class_name": type(self).__name__, "config": config}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom: Mapping[str, Any] | None = None) -> Any:
        """Make a cell from a dict that `get_config` returned. The cell makes its own parameters.

        Parameters
        ----------
        config : dict
        custom : dict, optional
            From names in the config to your own classes and functions. Subclasses of `Cell` need no entry.

        Raises
        ------
        ValueError
            If a name in the config is not known, or if several classes of cells have it.
        TypeError
            If the config is that of another class of cells. `Cell.from_config` makes cells of all classes.
        """
        known: dict[str, Any] = {}
        for kind in configs.subclasses(Cell):
            known[kind.__name__] = _ambiguous(kind.__name__) if kind.__name__ in known else kind
        known[cls.__name__] = cls
        cell = configs.decoded(config, {**known, **(custom or {})})
        if not isinstance(cell, cls):
            raise TypeError(f"{cls.__name__}.from_config got the config of {cell!r}: use Cell.from_config")
        return cell

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the parameters and of the state. Without parameters, `scanjit.config.floatX`."""
        found = {param.dtype for param in self.params if param.type.kind.floating}
        return np.result_type(*found) if found else np.dtype(sj.config.floatX)

    # ---- the recurrence ----------------------------------------------------------------------------------------------

    @property
    def output_shape(self) -> Any:
        """The shape of the output of one step, without the batch."""
        if self._output_shape is not None:
            return self._output_shape
        shape = getattr(self.state_shape, "hid", self.state_shape)
        if not is_shape(shape):
            raise NotImplementedError(f"{type(self).__name__} does not define output_shape")
        return shape

    @output_shape.setter
    def output_shape(self, shape: Any) -> None:
        self._output_shape = shape

    def init_state(self, batch: Any) -> Any:
        """The state before the first step, for `batch` sequences (an int or an integer scalar). By default, zeros."""
        return transform(lambda shape: sj.zeros((batch, *shape), self.dtype), self.state_shape)

    def begin(self, batch: Any, **kwargs: Any) -> Any:
        """The cell for one loop over sequences: the cell itself, or a copy with random masks for all steps of the loop.

        Parameters
        ----------
        batch : int or integer scalar
            The number of sequences.
        **kwargs
            The keyword arguments of `get_output`, such as `deterministic=True`.
        """
        return self

    def step(self, x: Any, state: Any) -> tuple[Any, Any]:
        """One step: the output and the new state, from the input and the state before the step."""
        return self.recur(self.precompute(x), state)

    def precompute(self, x: Any) -> Any:
        """The part of a step that does not depend on the state. `x` may have any number of leading axes."""
        return x

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        """The rest of a step, where `z` is the result of `precompute`."""
        if type(self).step is Cell.step:
            raise NotImplementedError(f"{type(self).__name__} defines neither step(x, state) nor recur(z, state)")
        return self.step(z, state)

    def clipped(self, z: Any) -> Any:
        """`z` itself. Its gradient is clipped to the absolute value `grad_clipping`."""
        return sj.clip_gradient(z, -self.grad_clipping, self.grad_clipping) if self.grad_clipping else z

    # ---- for cells around cells --------------------------------------------------------------------------------------

    def build_inner(self, cell: Cell, input_shape: Any, label: str | int | None = None) -> Any:
        """Build an inner cell, and add its parameters to those of this cell. If the inner cell has no name, it gets
        one."""
        if cell.name is None and cell.input_shape is None:
            parts = [str(part) for part in (self.name, label) if part is not None]
            cell.name = ".".join(parts) or None
        cell.build(input_shape)
        self.params.update(cell.params)
        return cell

    def with_cell(self, cell: Cell) -> Any:
        """A copy of a wrapper with the same parameters and another inner cell, for `begin` of wrappers."""
        other = copy.copy(self)
        other.cell = cell  # type: ignore[attr-defined]
        return other


def cloned(value: Any) -> Any:
    """A copy of an argument. Cells in the copy make their own parameters."""
    if isinstance(value, Cell):
        return value.clone()
    if type(value) in (list, tuple) and any(isinstance(item, Cell) for item in value):
        return type(value)(map(cloned, value))
    return value


def _ambiguous(name: str) -> Any:
    """A function in the place of a class whose name is ambiguous. It raises an error."""

    def fail(**arguments: Any) -> Any:
        raise ValueError(
            f"several classes of cells are called {name!r}: choose one by from_config(config, {{{name!r}: the class}})"
        )

    return fail


def features_of(cell: Cell, input_shape: Any) -> int:
    """The number of features of the input of a cell that reads one vector in each step."""
    if not is_shape(input_shape) or not input_shape:
        raise ValueError(
            f"{cell!r} takes one tensor of shape (batch, features), got an input of several tensors: {input_shape}"
        )
    if len(input_shape) != 1:
        raise ValueError(
            f"{cell!r} takes inputs of shape (batch, features), got one of shape (batch, "
            f"{', '.join(map(str, input_shape))}): flatten it to {math.prod(input_shape)} features"
        )
    return int(input_shape[0])


def check_bound(bound: Any, what: str, cell: Cell) -> None:
    """Raise an error for a bound that is no number, or within which no number lies. None is no bound."""
    if bound is not None:
        check_number(type(cell).__name__, bound, what)
