"""The type of a value: a dtype and a shape of dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scanjit import errors
from scanjit.interned import Interned
from scanjit.kinds import Kind, kind_of
from scanjit.signatures import DType
from scanjit.types.conditions import equate
from scanjit.types.dims import Atom, Dimension, atoms


class Type:
    """A dtype and a shape (a tuple of dimensions). Immutable and interned: equal types are the same object."""

    __slots__ = ("__weakref__", "atoms", "dtype", "is_half", "kind", "ndim", "shape")

    dtype: DType
    shape: tuple[Dimension, ...]
    ndim: int
    """The number of axes."""
    kind: Kind
    """The kind in which its elements are computed. It says whether these are floats, integers or bools."""
    is_half: bool
    """Whether its elements are floats of 16 bits."""
    atoms: tuple[Atom, ...]
    """The sizes and values that its shape depends on, each once."""

    def __new__(cls, dtype: DType, shape: tuple[Dimension, ...] = ()) -> Type:
        found = _types.get((dtype, shape))
        if found is None:
            made = object.__new__(cls)
            made.dtype, made.shape, made.ndim, made.kind = dtype, shape, len(shape), kind_of(dtype)
            made.is_half = made.kind.is_half
            made.atoms = tuple(dict.fromkeys([atom for dim in shape for atom in atoms(dim)]))
            check_memory(1, made)
            found = _types.known((dtype, shape), made)
        return found

    def __reduce__(self) -> tuple[object, ...]:
        return Type, (self.dtype, self.shape)

    @property
    def is_computed(self) -> bool:
        """Whether a size depends on the value of a node."""
        return any([atom.kind == "value" for atom in self.atoms])

    @property
    def in_memory(self) -> Type:
        """The type of the array that holds values of this type. Complex numbers lie in an array of floats with one more
        axis of size 2, the last one, for their two parts."""
        kind = self.kind
        return Type(kind_of(kind.moved).dtype, (*self.shape, 2)) if kind.is_complex else self

    def with_shape(self, shape: Sequence[Dimension]) -> Type:
        """The same dtype with another shape."""
        return Type(self.dtype, tuple(shape))

    def __repr__(self) -> str:
        return f"{self.dtype}({', '.join(map(str, self.shape))})"


_types: Interned[tuple[DType, tuple[Dimension, ...]], Type] = Interned()


def agree(a: Type, b: Type, what: str) -> None:
    """Require two types to be equal. `what` names the thing that has them. Sizes may be equal at run time only
    (`equate`). Another dtype or rank is a fault of the compiler."""
    if a.dtype != b.dtype or a.ndim != b.ndim:
        raise errors.InternalError(f"{what} must have one type", got=f"{a} and {b}")
    for left, right in zip(a.shape, b.shape, strict=True):
        equate(left, right, what)


LARGEST = 2**62
"""A tensor has at most this many elements, and at most this many bytes: generated code counts both with an int64."""


def check_memory(nbytes: int, type_: Type, where: str | None = None) -> None:
    """Raise an error if a tensor needs more bytes than any memory has. Counts the sizes that are known."""
    known = [dim if isinstance(dim, int) else dim.terms[0][1] if len(dim.terms) == 1 else 1 for dim in type_.shape]
    if math.prod([factor for factor in known if factor]) * nbytes > LARGEST:
        raise errors.ShapeError("a tensor of this shape is larger than any memory", got=type_, where=where)
