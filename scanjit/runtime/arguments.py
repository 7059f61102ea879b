"""Converts the values that a user passes to the arrays that compiled code takes.

One rule holds for arguments of functions, values of shared variables and `jit`. Python numbers and lists are weak: they
take the wanted dtype. Arrays keep their dtype; they are converted only if no value can be lost (and from integers to
floats).
"""

from typing import Any

import numpy as np

from scanjit import errors
from scanjit.arrays import array_of, check_unmasked
from scanjit.ir import Node
from scanjit.kinds import holds_numbers, kind_of
from scanjit.types import Type

READY = 0x101
"""The flags (C-contiguous, aligned) of an array that compiled code takes without a copy."""

_WEAK = {kind: kind_of(kind).order for kind in (bool, int, float, complex)}
"""The types of Python's numbers, each with its place in the order of kinds."""


def _is_whole(dtype: np.dtype) -> bool:
    """Whether a dtype of NumPy's, which may be none of ours, is an integer dtype. (NumPy counts time spans among
    them.)"""
    return dtype.kind in "iu"


class Slot:
    """A place that takes arrays of one dtype and rank: an input, or a shared variable.

    Parameters
    ----------
    label : its name in errors: "input 'x' (the first of 'f')".
    type : the dtype and the shape of the arrays that it takes.
    declared : where the user made it.

    Attributes
    ----------
    as_it_is : the dtype of arrays that need no conversion. None for complex numbers: compiled code takes a view of
        their array.
    """

    __slots__ = ("_order", "_stored", "as_it_is", "declared", "dtype", "kind", "label", "type")

    def __init__(self, label: str, type: Type, declared: str | None = None) -> None:
        self.label, self.type, self.declared = label, type, declared
        self.dtype, self.kind = type.dtype, type.kind
        self.as_it_is = None if self.kind.is_complex else self.dtype
        self._stored, self._order = type.in_memory.dtype, self.kind.order

    def convert(self, value: Any) -> np.ndarray:
        """The value as a C-contiguous, aligned array of the type in memory. It is copied only if it is not such an
        array already."""
        ready = type(value) is np.ndarray and value.dtype is self.dtype and value.flags.num & READY == READY
        array = value if ready else self.as_declared(value)
        return array if self.as_it_is else array.reshape((*array.shape, 1)).view(self._stored)

    def as_declared(self, value: Any) -> np.ndarray:
        """The value as a C-contiguous, aligned array of the dtype that the user declared."""
        kind = type(value)
        if kind in _WEAK:
            array = self._from_number(value)
        elif isinstance(value, np.ndarray | np.generic):
            check_unmasked(value, self.label)
            array = self._from_array(np.asarray(value))
        else:
            array = self._from_object(value)
        return array if array.flags.num & READY == READY else np.array(array, order="C")

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise an error if the rank or a known size differs from those of an array in memory."""
        wanted = self.type.shape
        shape = shape if self.as_it_is else shape[:-1]
        if len(shape) != len(wanted):
            raise errors.ShapeError(
                f"{self.label} must have {len(wanted)} dimension{'' if len(wanted) == 1 else 's'}, not {len(shape)}",
                got=f"an array of shape {shape}",
                expected=self.expected(),
            )
        for axis, (size, dim) in enumerate(zip(shape, wanted, strict=True)):
            if isinstance(dim, int) and size != dim:
                raise errors.ShapeError(
                    f"dimension {axis} of {self.label} has size {size} instead of {dim}",
                    got=f"an array of shape {shape}",
                    expected=self.expected(),
                    fix=self._how_to_free(axis),
                )

    def expected(self) -> str:
        """The wanted type, and the line on which the user declared it, as text for an error."""
        return f"{self.type}" + (f", declared at {self.declared}" if self.declared else "")

    def _how_to_free(self, axis: int) -> str:
        shape = tuple(
            None if k == axis else dim if isinstance(dim, int) else str(dim) for k, dim in enumerate(self.type.shape)
        )
        return f"declare it with shape={shape} if that size may change"

    def _from_number(self, value: bool | int | float | complex) -> np.ndarray:
        if _WEAK[type(value)] > self._order:
            raise self._lossy(f"the {type(value).__name__} {value!r}", "int" if self.kind.integral else "bool")
        try:
            return np.array(value, self.dtype)
        except OverflowError:
            raise errors.DtypeError(f"{self.label} does not hold this number", got=value, expected=self.dtype) from None

    def _from_array(self, array: np.ndarray) -> np.ndarray:
        given, dtype = array.dtype, self.dtype
        if given == dtype:
            return array if given.isnative else array.astype(dtype)
        whole = _is_whole(given)
        if np.can_cast(given, dtype, "safe") or (whole and self.kind.inexact):
            return array.astype(dtype)
        if whole and self.kind.integral:
            return self._exactly(array, array)
        raise self._lossy(f"an array of {given}", f"x.astype({str(dtype)!r})")

    def _from_object(self, value: Any) -> np.ndarray:
        """Convert a list. Its numbers take the wanted dtype if they are of the same kind and fit into it."""
        if isinstance(value, Node) or hasattr(value, "__scanjit_node__"):
            raise errors.ArgumentError(
                f"{self.label} was given a symbol, not a value",
                got=repr(value),
                expected=self.expected(),
                fix="pass an array (of a shared variable: its get_value()), or use `givens` to replace an input",
            )
        array = array_of(value, lambda why: self._not_an_array(value, why))
        if not holds_numbers(array.dtype):
            raise self._not_an_array(value, f"its elements are {array.dtype}")
        check_unmasked(value, self.label)
        if not isinstance(value, list | tuple):
            return self._from_array(array)
        dtype = self.dtype
        if (
            array.size == 0
            or np.can_cast(array.dtype, dtype, "same_kind")
            or (_is_whole(array.dtype) and self.kind.integral)
        ):
            return self._exactly(array, value) if self.kind.integral else array.astype(dtype)
        raise self._lossy(f"a list of {array.dtype}", f"np.array(x, {str(dtype)!r})")

    def _exactly(self, array: np.ndarray, value: Any) -> np.ndarray:
        """Convert integers to the dtype; raise an error if it cannot hold one of them."""
        converted = array.astype(self.dtype)
        if not np.array_equal(converted, array) or ((converted < 0) != (array < 0)).any():
            text = repr(value)
            raise errors.DtypeError(
                f"{self.label} does not hold all of these numbers",
                got=text if len(text) < 80 else f"{array.dtype}, from {array.min()} to {array.max()}",
                expected=self.dtype,
            )
        return converted

    def _lossy(self, got: str, cast: str) -> errors.DtypeError:
        return errors.DtypeError(
            f"{self.label} does not take this: values could be lost",
            got=got,
            expected=self.expected(),
            fix="pass its .real, .imag or np.abs(...)"
            if "complex" in got and not self.kind.is_complex
            else f"convert it yourself: {cast}" + ("" if "." in cast else "(x)"),
        )

    def _not_an_array(self, value: Any, why: str) -> errors.ArgumentError:
        shown = repr(value)
        return errors.ArgumentError(
            f"{self.label} was given something that is no array of numbers ({why})",
            got=f"{shown if len(shown) <= 80 else shown[:77] + '...'} ({type(value).__name__})",
            expected=self.expected(),
        )
