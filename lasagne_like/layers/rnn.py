"""`RNNLayer`: a loop of any cell over time."""

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np

import scanjit as sj
from lasagne_like import checks, utils
from lasagne_like.arguments import Captured, named
from lasagne_like.cells import Cell, StackedCells, unfold
from lasagne_like.cells.base import cloned
from lasagne_like.cells.loop import check_gradient_steps
from lasagne_like.cells.structure import children_of, flatten, is_shape, matched, paths, transform, unflatten
from lasagne_like.layers.base import Incoming, Layer, MergeLayer, check_single
from lasagne_like.shapes import fits, known_sizes

__all__ = ["RNNLayer"]


class RNNLayer(MergeLayer, Captured):
    """A recurrent layer with any cell.

    Parameters
    ----------
    incoming : Layer or tuple, or a list, dict, ... of Layers
        The input, of shape (batch, time, features...). Several axes of features are flattened to one, except for cells
        that need them, such as `ConvLSTM2D`. If the input of the cell is a structure (a list or a dict of tensors,
        say), this is the same structure of layers.
    cell : Cell or list of Cells
        A list is a stack: each cell reads the output of the cell before it.
    initial_state : optional
        The state before the first step. By default, the cell decides; most cells begin with zeros. Otherwise this is a
        structure like the state. An entry is an expression of shape (batch, ...), a Layer whose output has this shape,
        an initializer, array or shared variable that makes a parameter of shape (1, ...), or None for the default. A
        single Layer may give the whole state, such as `SelectLayer(encoder, 1)`.
    learn_init : bool
        Whether the parameters of the initial state are trained. An entry of `initial_state` that is None becomes a
        parameter that starts at 0. It is an error if all entries come from layers.
    backwards : bool
        Whether the loop runs from the last step to the first. The output is still in the order of time.
    gradient_steps : int
        The number of steps, counted from the last, through which gradients are propagated. -1 is all of them.
    unroll_scan : bool
        Whether each step is written out, without a loop. The number of steps must be fixed, and `gradient_steps` must
        be -1.
    precompute_input : bool
        Whether the part of the step that needs no state is written before the loop. The results are the same, but for
        rounding. So is the speed: the compiler moves this part out of the loop anyway.
    mask_input : Layer or tuple, optional
        Its output has shape (batch, time), with zeros for the steps to skip. State and output do not change at these
        steps. A mask of shape (1, time) is for all sequences.
    only_return_final : bool
        Whether the output is that of the last step alone. (With `backwards`, this is step 0.)
    seq_lengths : Layer, tuple, array or expression, optional
        The length of each sequence, of shape (batch,). The steps behind the end of a sequence are skipped, as with a
        mask. A length is from 0 to the number of steps.
    zero_output_for_mask : bool
        Whether the output is 0 at the steps that are skipped.
    return_state : bool
        Whether the output is a pair of the outputs and the state after the last step. `SelectLayer` selects one of
        them.
    stateful : bool
        Whether each call begins with the state at the end of the call before. The state is in shared variables. (With a
        mask, so is the last output.) The function must update them: `updates=get_updates(layer)`. `reset_states` sets
        them to the initial state.
    time_major : bool
        Whether time is the first axis of input, mask and output, and the batch the second.
    checkpoint : None, "sqrt", "all" or int
        See `scanjit.scan`.
    fuse_layers : bool
        Whether all cells of a list run in one loop. By default, each cell has its own loop, and loops take turns: what
        one cell hands on to the next is stored for a few turns (unless a gradient needs all of it). One loop stores it
        for one step. But it may be slower: the upper cells multiply their inputs by weights in each step, instead of
        many steps at once, and threads cannot take one cell each.
    name : str, optional
        The names of the parameters begin with it.

    Attributes
    ----------
    cell : the cell. A list of cells is a `StackedCells`.
    initial : a dict from the name of each tensor of the state to its initial value: a parameter, an expression or a
    Layer; None where the cell decides.
    state_shape : the shape of the state of one sequence, in the structure of the state.

    Raises
    ------
    ValueError
        If shapes do not fit, or if two options cannot be combined.

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> import lasagne_like as lasagne
    >>> from lasagne_like.cells import GRU, LSTM
    >>> l_in = lasagne.layers.InputLayer((None, None, 3))
    >>> l_rnn = lasagne.layers.RNNLayer(l_in, [LSTM(4), GRU(5)], only_return_final=True)
    >>> l_rnn.output_shape
    (None, 5)
    >>> f = sj.function([l_in.input_var], lasagne.layers.get_output(l_rnn), mode="reference")
    >>> f(np.ones((2, 7, 3))).shape, f(np.ones((1, 4, 3))).shape
    ((2, 5), (1, 5))
    """

    takes_structures = True  # for the initial state

    def __init__(
        self,
        incoming: Any,
        cell: Any,
        initial_state: Any = None,
        learn_init: bool = False,
        backwards: bool = False,
        gradient_steps: int = -1,
        unroll_scan: bool = False,
        precompute_input: bool = True,
        mask_input: Incoming | None = None,
        only_return_final: bool = False,
        seq_lengths: Any = None,
        zero_output_for_mask: bool = False,
        return_state: bool = False,
        stateful: bool = False,
        time_major: bool = False,
        checkpoint: int | Literal["sqrt", "all"] | None = None,
        fuse_layers: bool = False,
        *,
        name: str | None = None,
    ) -> None:
        self.name = name
        self.incoming_structure = incoming if not isinstance(incoming, Layer) and not is_shape(incoming) else (None,)
        incomings = flatten(incoming) or [incoming]
        self._num_inputs = len(incomings)
        self._mask_at = self._add(incomings, mask_input, "mask_input")
        fixed = isinstance(seq_lengths, np.ndarray | list) or utils.is_expression(seq_lengths)
        self._lengths = sj.as_tensor(seq_lengths) if fixed else None
        self._lengths_at = self._add(incomings, None if fixed else seq_lengths, "seq_lengths")
        self.layers_of_state = [leaf for leaf in flatten(initial_state) if isinstance(leaf, Layer)]
        self._state_at = len(incomings)
        super().__init__([*incomings, *self.layers_of_state], name)
        self.cell = StackedCells(cell) if isinstance(cell, list | tuple) else cell
        if not isinstance(self.cell, Cell):
            raise TypeError(f"cell of {self} must be a cell or a list of cells, got {cell!r}")
        self.learn_init, self.backwards, self.gradient_steps = learn_init, backwards, gradient_steps
        self.unroll_scan, self.precompute_input = unroll_scan, precompute_input
        self.only_return_final, self.zero_output_for_mask = only_return_final, zero_output_for_mask
        self.return_state, self.stateful = return_state, stateful
        self.time_major, self.checkpoint, self.fuse_layers = time_major, checkpoint, fuse_layers
        self._check_inputs()
        if isinstance(seq_lengths, np.ndarray | list):
            self._check_lengths(np.asarray(seq_lengths))
        if self.cell.name is None and self.cell.input_shape is None:
            self.cell.name = self.name
        self.cell.build(self._cell_input_shape())
        self.params.update(self.cell.params)
        self._begin_state(initial_state)

    def _add(self, incomings: list[Any], layer: Any, what: str) -> int | None:
        """Add an optional input to `incomings`. Returns its position, or None if `layer` is None."""
        if layer is None:
            return None
        if not isinstance(layer, Layer) and not is_shape(layer):
            raise TypeError(
                f"{what} of {self} must be a layer (such as an InputLayer) or an output shape, got a "
                f"{type(layer).__name__}"
            )
        incomings.append(layer)
        return len(incomings) - 1

    # ---- checks ------------------------------------------------------------------------------------------------------

    @property
    def _time(self) -> int:
        """The axis of the input that is time: 0 or 1. The other one of the two is the batch."""
        return 0 if self.time_major else 1

    @property
    def _batch(self) -> int | None:
        """The number of sequences of the input, if it is fixed."""
        return self.input_shapes[0][1 - self._time]

    def _check_inputs(self) -> None:
        axes = "(time, batch" if self.time_major else "(batch, time"
        for shape in self.input_shapes[: self._num_inputs]:
            check_single(shape, self)
            if len(shape) < 3:
                raise ValueError(
                    f"{self} needs an input of shape {axes}, features...), got {shape}: {len(shape)} dimensions"
                )
        first = self.input_shapes[0]
        for shape in self.input_shapes[1 : self._num_inputs]:
            if not fits(first[:2], shape[:2]):
                raise ValueError(f"the inputs of {self} differ in batch or time: {first} and {shape}")
        if self._mask_at is not None:
            mask = self.input_shapes[self._mask_at]
            sizes = list(mask)
            if len(mask) == 2 and mask[1 - self._time] == 1:  # one mask for the whole batch
                sizes[1 - self._time] = None
            if not fits(first[:2], sizes):
                raise ValueError(
                    f"mask_input of {self} has shape {mask}, but must have the shape {axes}) of the input "
                    f"{first}: {first[:2]}"
                )
        if self._lengths_at is not None or self._lengths is not None:
            given = self._lengths.shape if self._lengths is not None else self.input_shapes[self._lengths_at or 0]
            lengths = known_sizes(given)
            if not fits(lengths, (self._batch,)):
                raise ValueError(
                    f"seq_lengths of {self} has shape {lengths}, but must hold one number for each sequence of the "
                    f"input {first}: ({self._batch},)"
                )
        check_gradient_steps(self.gradient_steps, self)
        if self.unroll_scan and self.gradient_steps != -1:
            raise ValueError(
                f"unroll_scan of {self} needs gradients through all steps: gradient_steps must be -1, got "
                f"{self.gradient_steps}"
            )
        if self.unroll_scan and first[self._time] is None:
            raise ValueError(
                f"unroll_scan of {self} needs a fixed number of steps, but the input has shape {first}: make the input "
                f"with the size of axis {self._time} instead of None"
            )

    def _check_lengths(self, lengths: np.ndarray) -> None:
        """Raise an error if one of the given lengths is negative, or larger than the number of steps."""
        most = self.input_shapes[0][self._time]
        if lengths.dtype.kind not in "iu" or (lengths < 0).any() or (most is not None and (lengths > most).any()):
            raise ValueError(
                f"seq_lengths of {self} must be integers from 0 to the number of steps of the input "
                f"{self.input_shapes[0]}, got {lengths.tolist()}"
            )

    def _cell_input_shape(self) -> Any:
        shapes = [shape[2:] for shape in self.input_shapes[: self._num_inputs]]
        for shape, whole in zip(shapes, self.input_shapes, strict=False):
            if any(size is None for size in shape):
                raise ValueError(f"{self} needs features of fixed sizes, got an input of shape {whole}")
        if self.cell.flattens_input:
            shapes = [(math.prod(size for size in shape if size is not None),) for shape in shapes]
        return self._structured(shapes)

    def _structured(self, leaves: list[Any]) -> Any:
        """One value for each input, in the structure of the inputs."""
        return leaves[0] if self.incoming_structure == (None,) else unflatten(self.incoming_structure, leaves)

    # ---- the state ---------------------------------------------------------------------------------------------------

    @property
    def state_shape(self) -> Any:
        """The shape of the state of one sequence."""
        return self.cell.state_shape

    def _begin_state(self, given: Any) -> None:
        shapes, names = flatten(self.state_shape), paths(self.state_shape)
        self.initial: dict[str, Any] = dict.fromkeys(names)
        self._whole_state = isinstance(given, Layer) and not is_shape(given.output_shape)
        if isinstance(given, Layer) and self._whole_state:
            found = [shape[1:] for shape in matched(self.state_shape, given.output_shape, f"initial state {given!r}")]
            for name, own, shape in zip(names, shapes, found, strict=True):
                if own != shape:
                    raise ValueError(
                        f"{_label(name)} of {self} comes from {given!r} with shape {('batch', *shape)}, expected "
                        f"{('batch', *own)}"
                    )
        else:
            specs = [None] * len(shapes) if given is None else _matched_specs(self.state_shape, given)
            for name, shape, spec in zip(names, shapes, specs, strict=True):
                self.initial[name] = self._initial(name, shape, spec)
        if self.learn_init and names and len(self.layers_of_state) == (1 if self._whole_state else len(names)):
            raise ValueError(f"learn_init=True of {self} has no effect: its whole initial state comes from layers")
        self._kept = self._shared_states(zip(names, shapes, strict=True)) if self.stateful else []
        # a step that is skipped has the output of the step before, which may belong to the call before
        self._holds_output = self.stateful and self._has_mask and not self.zero_output_for_mask
        outputs = flatten(self.cell.output_shape) if self._holds_output else []
        self._kept_output = self._shared_states((f"output{i or ''}", shape) for i, shape in enumerate(outputs))

    @property
    def _has_mask(self) -> bool:
        return self._mask_at is not None or self._lengths_at is not None or self._lengths is not None

    def _initial(self, name: str, shape: tuple[int, ...], spec: Any) -> Any:
        """The layer, expression or new parameter for one tensor of the initial state. None if the cell decides."""
        label = _label(name)
        if spec is None:
            if not self.learn_init:
                return None
            spec = np.zeros((1, *shape), self.cell.dtype)
        if isinstance(spec, Layer):
            found = spec.output_shape
            wanted = (self._batch, *shape)
            if not fits(found, wanted):
                raise ValueError(f"{label} of {self} comes from {spec!r} with shape {found}, expected {wanted}")
            return spec
        if isinstance(spec, sj.Node) and spec.ndim == len(shape) + 1:
            if not (isinstance(spec.shape[0], int) and spec.shape[0] == 1):
                found = known_sizes(spec.shape)
                if not fits(found[1:], shape):
                    raise ValueError(f"{label} of {self} has shape {found}, expected {('batch', *shape)}")
                return spec
        return self.add_param(spec, (1, *shape), name=label, trainable=self.learn_init, regularizable=False)

    def _shared_states(self, parts: Iterable[tuple[str, tuple[int, ...]]]) -> list[sj.SharedVariable]:
        """A shared variable for each pair of a name and a shape. It keeps a tensor of the state from call to call."""
        batch, found = self._batch, []
        for name, shape in parts:
            label = f"{self.name}.{name or 'hid'}_kept" if self.name else f"{name or 'hid'}_kept"
            value = np.zeros((batch or 1, *shape), self.cell.dtype)
            found.append(sj.shared(value, label, shape=(batch, *shape)))
        return found

    def init_state(self, batch: Any, inputs: Any = None) -> Any:
        """The state before the first step.

        Parameters
        ----------
        batch : int or integer scalar
        inputs : list of expressions, optional
            The outputs of the layers in `layers_of_state`, if there are any.
        """
        if len(inputs or []) != len(self.layers_of_state):
            raise ValueError(
                f"the initial state of {self} comes from the layers {self.layers_of_state}: `inputs` must have their "
                f"outputs, got {len(inputs or [])}"
            )
        default = self.cell.init_state(batch)
        if self._whole_state:
            leaves = matched(self.state_shape, inputs[0], "initial state")
        else:
            given = dict(zip(self.layers_of_state, inputs or [], strict=True))
            own = zip(self.initial.values(), flatten(default), strict=True)
            leaves = [leaf if spec is None else given[spec] if isinstance(spec, Layer) else spec for spec, leaf in own]
        return self._stretched(leaves, batch, lambda name: f"{_label(name)} of {self}")

    def _stretched(self, leaves: list[Any], batch: Any, named: Callable[[str], str]) -> Any:
        """A state for `batch` sequences. Each leaf has one row for each sequence, or a single row for all sequences."""
        items = zip(leaves, paths(self.state_shape), flatten(self.state_shape), strict=True)
        shaped = [_for_all(leaf, 0, (batch, *shape), named(name)) for leaf, name, shape in items]
        return unflatten(self.state_shape, shaped)

    def reset_states(self, batch_size: int | None = None) -> None:
        """Set the state of a stateful layer to the initial state.

        Parameters
        ----------
        batch_size : int, optional
            The number of sequences of the next calls, if the batch of the layer is not fixed. By default, it does not
            change.
        """
        if not self.stateful:
            raise ValueError(f"{self} keeps no state between calls: make it with stateful=True")
        given: Any = batch_size
        if given is not None and not isinstance(given, utils.int_types):
            raise ValueError(f"batch_size of reset_states is a number of sequences, got {batch_size!r}")
        if self._batch is not None and batch_size not in (None, self._batch):
            raise ValueError(f"{self} was made for batches of {self._batch} sequences, got batch_size={batch_size}")
        batch = self._kept[0].get_value(borrow=True).shape[0] if batch_size is None else batch_size
        begin = dict(zip(self._kept, self._initial_values(batch), strict=True))
        outputs = [(variable, variable.get_value(borrow=True)) for variable in self._kept_output]
        sj.set_values(begin | {variable: np.zeros((batch, *old.shape[1:]), old.dtype) for variable, old in outputs})

    def _initial_values(self, batch: int) -> list[np.ndarray]:
        count = sj.lscalar("batch")
        return list(sj.function([count], flatten(self.init_state(count)), mode="reference")(batch))

    # ---- shape and output --------------------------------------------------------------------------------------------

    def get_output_shape_for(self, input_shapes: Any) -> Any:
        leading = tuple(input_shapes[0][:2])
        batch = (leading[1 - self._time],)
        if self.only_return_final:
            leading = batch
        shape = transform(lambda features: (*leading, *features), self.cell.output_shape)
        if not self.return_state:
            return shape
        return shape, transform(lambda features: (*batch, *features), self.state_shape)

    def get_output_for(self, inputs: Any, **kwargs: Any) -> Any:
        """The output for a list of inputs: the inputs of the cell, then the mask, the lengths and the outputs of
        `layers_of_state`, if the layer has them."""
        x = self._given_in(inputs[: self._num_inputs])
        length, batch = flatten(x)[0].shape[:2]
        before: list[Any] = []
        if self.stateful:
            what = f"the state that {self} keeps (see reset_states)"
            state = self._stretched(self._kept, batch, lambda name: what)
            before = [_for_all(leaf, 0, (batch, *leaf.shape[1:]), what) for leaf in self._kept_output]
        else:
            state = self.init_state(batch, inputs[self._state_at :])
        held = self._holds_output
        found = unfold(
            self.cell,
            x,
            state,
            self._mask(inputs, length, batch),
            backwards=self.backwards,
            gradient_steps=self.gradient_steps,
            unroll=self.unroll_scan,
            precompute=self.precompute_input,
            zero_output_for_mask=self.zero_output_for_mask,
            checkpoint=self.checkpoint,
            output_before=unflatten(self.cell.output_shape, before) if held else None,
            fuse=self.fuse_layers,
            return_last=held or self.only_return_final,
            **kwargs,
        )
        outputs, final = found[:2]
        if self.stateful:
            self.updates.update(zip(self._kept, flatten(final), strict=True))
        if held:
            self.updates.update(zip(self._kept_output, flatten(found[2]), strict=True))
        if self.only_return_final:
            outputs = found[2]
        elif not self.time_major:
            outputs = transform(lambda rows: sj.swapaxes(rows, 0, 1), outputs)
        return (outputs, final) if self.return_state else outputs

    def _given_in(self, inputs: Any) -> Any:
        """The inputs of the cell, time first. Each call checks the sizes that are not known now."""
        leading: list[Any] = [None, None]
        if self.unroll_scan:
            leading[self._time] = self.input_shapes[0][self._time]
        leaves = []
        for x, shape in zip(inputs, self.input_shapes, strict=False):
            x = sj.specify_shape(x, (*leading, *shape[2:]), f"the input of {self}")
            leading = list(x.shape[:2])  # the other inputs must have the same batch and time
            if self.cell.flattens_input and x.ndim > 3:
                x = sj.flatten(x, 3)
            leaves.append(x if self.time_major else sj.swapaxes(x, 0, 1))
        return self._structured(leaves)

    def _mask(self, inputs: Any, length: Any, batch: Any) -> Any:
        """Which steps are not skipped, (time, batch): from the mask, from the lengths, or from both. None for all."""
        mask = None
        if self._mask_at is not None:
            shape = (length, batch) if self.time_major else (batch, length)
            mask = _for_all(inputs[self._mask_at], 1 - self._time, shape, f"the mask of {self}")
            mask = mask if self.time_major else mask.dimshuffle(1, 0)
        lengths = self._lengths if self._lengths_at is None else inputs[self._lengths_at]
        if lengths is None:
            return mask
        lengths = checks.checked_lengths(lengths, batch, length, f"seq_lengths of {self}")
        inside = sj.arange(length)[:, None] < lengths[None, :]
        return inside if mask is None else sj.logical_and(inside, sj.not_equal(mask, 0))

    # ---- copies ------------------------------------------------------------------------------------------------------

    def reversed(self) -> Any:
        """A copy of the layer that runs in the other direction, with its own parameters.

        Parameters that were given as shared variables or expressions are common to both layers.
        """
        own = named(self) | {"backwards": not self.backwards}
        if own.get("name") is not None:
            own["name"] = f"{own['name']}_backwards"
        return type(self)(**{key: cloned(value) for key, value in own.items()})


def _label(name: str) -> str:
    """The name of the initial value of a tensor of the state."""
    return f"{name or 'hid'}_init"


def _for_all(x: Any, batch_axis: int, shape: tuple[Any, ...], what: str) -> Any:
    """`x` with a check of its shape. If its batch is 1, it is broadcast over the batch of `shape`."""
    x = sj.as_tensor(x)
    if x.ndim == len(shape) and isinstance(x.shape[batch_axis], int) and x.shape[batch_axis] == 1:
        one = tuple(1 if axis == batch_axis else size for axis, size in enumerate(shape))
        return sj.broadcast_to(sj.specify_shape(x, one, what), shape)
    return sj.specify_shape(x, shape, what)


def _matched_specs(shapes: Any, given: Any) -> list[Any]:
    """The specification of each tensor of a state, in the order of the tensors."""
    if is_shape(shapes):
        return [given]
    children = dict(children_of(shapes) or [])
    if given is None:
        parts = [None] * len(children)
    elif isinstance(given, dict) and given.keys() <= children.keys():
        parts = [given.get(name) for name in children]
    elif isinstance(given, tuple | list) and len(given) == len(children):
        parts = list(given)
    else:
        raise ValueError(
            f"initial_state must have the entries {', '.join(map(str, children))} of the state {shapes}, got {given!r}"
        )
    return [spec for child, part in zip(children.values(), parts, strict=True) for spec in _matched_specs(child, part)]
