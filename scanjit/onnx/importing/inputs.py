"""The inputs of a model: symbols of the declared types, with the values and sizes that the user gave to `load`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Node
from scanjit.kinds import holds_numbers, kind_of
from scanjit.onnx import functions as tensor, tensors
from scanjit.ops.promotion import cast
from scanjit.types import Dimension, Type

_UNKNOWN = -1
"""The number that some exporters write for an unknown size."""


class Inputs:
    """The inputs of a graph: constants for those with a given value, symbols for the others.

    Parameters
    ----------
    declared : the inputs, as the file declares them.
    values : the given values, by the names of inputs.
    sizes : given sizes by their names, and given shapes by the names of inputs.

    Attributes
    ----------
    values : the inputs that are constants, by name.
    symbols : the other inputs, by name.
    """

    def __init__(self, declared: Sequence[Any], values: Mapping[str, Any], sizes: Mapping[str, Any]) -> None:
        dims = {value.name: list(value.type.tensor_type.shape.dim) for value in declared}
        names = {_name(dim): None for each in dims.values() for dim in each if _name(dim)}
        _check_names("inputs", values, dims)
        _check_names("sizes", sizes, [*names, *dims])
        self._sizes: dict[str, Dimension] = {}
        """The sizes that have names."""
        self._shapes: dict[str, list[int | None]] = {}
        """The given shapes of inputs, and the shapes of given values."""
        for name, given in sizes.items():
            if name not in dims:
                self._sizes[name] = _size(given, name)
        types_of = {value.name: (dtype, dims[value.name]) for value in declared for dtype in [_dtype(value)]}
        self.values: dict[str, Node] = {}
        for name, given in values.items():
            array = _array(given, types_of[name][0], name)
            self._fix(name, types_of[name][1], array.shape)
            self.values[name] = ir.constant(array)
        for name, given in sizes.items():
            if name in dims:
                self._fix(name, types_of[name][1], _shape(given, name))
        self.symbols: dict[str, Node] = {}
        for name, (dtype, each) in types_of.items():
            if name not in self.values:
                self.symbols[name] = ir.new_input(Type(dtype, self._shape_of(name, each)), name)

    def _fix(self, name: str, dims: Sequence[Any], shape: Sequence[int | None]) -> None:
        """Store the sizes that follow from the shape given for an input, or from its given value."""
        if len(shape) != len(dims):
            raise _other_shape(name, dims, shape)
        for dim, n in zip(dims, shape, strict=True):
            declared = self._sizes.get(_name(dim), n) if _name(dim) else dim.dim_value if _is_known(dim) else n
            if n is not None and n != declared:
                raise _other_shape(name, dims, shape)
            if n is not None and _name(dim):
                self._sizes[_name(dim)] = n
        self._shapes[name] = list(shape)

    def _shape_of(self, name: str, dims: Sequence[Any]) -> tuple[Dimension, ...]:
        given: list[int | None] = self._shapes.get(name, [None] * len(dims))
        return tuple(
            self._dimension(dim, name, axis) if n is None else n
            for axis, (dim, n) in enumerate(zip(dims, given, strict=True))
        )

    def _dimension(self, dim: Any, name: str, axis: int) -> Dimension:
        if _is_known(dim):
            if dim.dim_value < 0:
                raise errors.FormatError(f"the input {name!r} has a negative size", got=dim.dim_value)
            return dim.dim_value
        called = _name(dim)
        if not called:
            return types.axis_size(name, axis)
        if called not in self._sizes:
            self._sizes[called] = types.size(called)
        return self._sizes[called]


def _is_known(dim: Any) -> bool:
    return dim.HasField("dim_value") and dim.dim_value != _UNKNOWN


def _name(dim: Any) -> str:
    """The name of a size. A text without letters and digits, such as `?`, is no name."""
    return dim.dim_param if any(c.isalnum() for c in dim.dim_param) else ""


def _dtype(value: Any) -> np.dtype:
    """The dtype of an input of the graph, which must be a tensor of known rank."""
    subject = f"the input {value.name!r}"
    if not value.type.HasField("tensor_type"):
        raise errors.NotSupportedError(f"{subject} is no tensor", got=value.type.WhichOneof("value"))
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        raise errors.NotSupportedError(f"{subject} has a rank that is not known")
    return tensors.dtype_of(kind.elem_type, subject)


# ---- given values ----------------------------------------------------------------------------------------------------


def _check_names(argument: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            raise errors.ArgumentError(
                f"{argument} of load has a name that the model does not have",
                got=repr(name),
                expected=f"one of {', '.join(map(repr, known))}" if known else "none: there are none in the model",
            )


def _is_size(given: Any) -> bool:
    return isinstance(given, int | np.integer) and not isinstance(given, bool) and int(given) >= 0


def _size(given: Any, name: str) -> int:
    if not _is_size(given):
        raise errors.ArgumentError(
            f"the size {name!r} given to load is no size", got=repr(given), expected="an int >= 0"
        )
    return int(given)


def _shape(given: Any, name: str) -> list[int | None]:
    if not isinstance(given, tuple | list) or not all(n is None or _is_size(n) for n in given):
        raise errors.ArgumentError(
            f"the shape of the input {name!r} given to load is no shape",
            got=repr(given),
            expected="a tuple of ints >= 0 and None",
        )
    return [None if n is None else int(n) for n in given]


def _array(given: Any, dtype: np.dtype, name: str) -> np.ndarray:
    """A value in the dtype of an input, which must be able to hold it."""
    array = np.asarray(given)
    weak = isinstance(given, int | float) and not isinstance(given, bool)
    with np.errstate(all="ignore"):
        made = array.astype(dtype) if holds_numbers(array.dtype) else None
    fits = made is not None and (np.can_cast(array.dtype, dtype, "safe") or (weak and _same(array, made)))
    if made is None or not fits:
        raise errors.DtypeError(
            f"the value of the input {name!r} given to load has another dtype",
            got=f"{given!r} ({array.dtype})"[:200],
            expected=dtype,
        )
    return made


def _same(number: np.ndarray, made: np.ndarray) -> bool:
    """Whether a Python number is still the same in another dtype. Rounding to a float does not count as a change."""
    return kind_of(made.dtype).floating or bool(number == made)


def _other_shape(name: str, dims: Sequence[Any], shape: Sequence[Any]) -> errors.ShapeError:
    declared = [_name(dim) or (str(dim.dim_value) if _is_known(dim) else "?") for dim in dims]
    return errors.ShapeError(
        f"the input {name!r} is given another shape than it has in the model",
        got=f"({', '.join(map(str, shape))})",
        expected=f"({', '.join(declared)})",
    )


# ---- replacements of inputs in calls of a model ----------------------------------------------------------------------


def fitted(symbol: Node, value: Any, sizes: dict[types.Atom, Dimension]) -> Node:
    """The expression that replaces an input. It is cast to its dtype; its sizes must agree with those of the other
    inputs."""
    node = tensor.as_tensor(value)
    label = f"the input {symbol.name!r} of the model"
    if not np.can_cast(node.dtype, symbol.dtype, "safe"):
        raise errors.DtypeError(f"{label} has another dtype", got=node.type, expected=symbol.type)
    if node.ndim != symbol.ndim:
        raise types.other_shape(label, (node.type.shape, symbol.type.shape))
    shape: list[Dimension] = []
    for declared, own in zip(symbol.type.shape, node.type.shape, strict=True):
        atom = types.as_atom(declared)
        shape.append(declared if atom is None else sizes.setdefault(atom, own))
    return tensor.specify_shape(cast(node, symbol.dtype), shape, label)
