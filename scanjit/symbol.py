"""The operators, methods and properties of `Node`, as editors and type checkers see them.

The code of operators is in `scanjit.ops`, that of methods in `scanjit.tensor`. These layers import `Node`, so its own
file cannot import them. They add operators and methods to `Node` when they are imported. This file has the signatures:
`python -m tests.symbol_methods` writes those of methods from the functions themselves, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, SupportsIndex, TypeVar

from numpy.typing import DTypeLike, NDArray

N = TypeVar("N", covariant=True)
"""The type of the results of operators and methods: `Node`, which is defined below this layer."""


class Symbol(Generic[N]):
    """A tensor without a value yet: the common interface of nodes and shared variables."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _of_one(self) -> N: ...
        def _of_two(self, other: TensorLike) -> N: ...

        __neg__ = __pos__ = __abs__ = __invert__ = _of_one
        __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = _of_two
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = _of_two
        __and__ = __or__ = __xor__ = __rand__ = __ror__ = __rxor__ = _of_two
        __lshift__ = __rshift__ = __rlshift__ = __rrshift__ = _of_two
        __lt__ = __le__ = __gt__ = __ge__ = _of_two

        # (pyright gives an assigned method the type that it has in `object`)
        def __eq__(self, other: TensorLike) -> N: ...  # type: ignore[override]
        def __ne__(self, other: TensorLike) -> N: ...  # type: ignore[override]
        def __hash__(self) -> int: ...
        def __divmod__(self, other: TensorLike) -> tuple[N, N]: ...
        def __rdivmod__(self, other: TensorLike) -> tuple[N, N]: ...
        def __round__(self, digits: int | None = None) -> N: ...
        def __getitem__(self, index: Index) -> N: ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[N]: ...
        def __bool__(self) -> NoReturn: ...

        # NumPy's functions take what has these. Their stubs say that they give arrays: they give symbols.
        def __array__(self) -> NDArray[Any]: ...
        def __array_namespace__(self, /, *, api_version: str | None = None) -> Any: ...
        def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, **options: Any) -> Any: ...
        def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any: ...

        @property
        def ndim(self) -> int:
            """The number of axes."""

        # ---- methods, written by `python -m tests.symbol_methods`
        @property
        def T(self) -> N:
            """`x` with its axes in another order; reversed if none is given. See `scanjit.transpose`."""

        def all(self, axis: Axis = None, keepdims: bool = False) -> N:
            """Whether no element is 0. Arguments as for `sum`. See `scanjit.all`."""

        def any(self, axis: Axis = None, keepdims: bool = False) -> N:
            """Whether any element is not 0. Arguments as for `sum`. See `scanjit.any`."""

        def argmax(self, axis: int | None = None, keepdims: bool = False) -> N:
            """The position (int64) of the first of the largest elements; of the first NaN if there is one. See
            `scanjit.argmax`."""

        def argmin(self, axis: int | None = None, keepdims: bool = False) -> N:
            """The position (int64) of the first of the smallest elements. See `argmax`."""

        def argsort(
            self, axis: int | None = -1, kind: str | None = None, *, descending: bool = False, stable: bool = True
        ) -> N:
            """The places (int64) of the elements along an axis, the smallest element first. NaN comes last. See
            `scanjit.argsort`."""

        def astype(self, dtype: DTypeLike, copy: bool = True) -> N:
            """`x` in another dtype. See `scanjit.cast`. Symbols never change, so `copy` has no effect."""

        def clip(self, min: TensorLike | None = None, max: TensorLike | None = None) -> N:
            """`x` kept within bounds; `None` is no bound. The gradient passes where `min <= x <= max`. See
            `scanjit.clip`."""

        def conj(self) -> N:
            """The complex conjugate: the imaginary part with the other sign. See `scanjit.conj`."""

        def conjugate(self) -> N:
            """The complex conjugate: the imaginary part with the other sign. See `scanjit.conj`."""

        def copy(self) -> N:
            """The symbol itself: symbols never change, so it needs no copy."""

        def cumprod(self, axis: int | None = None, dtype: DTypeLike | None = None) -> N:
            """The products of the elements up to each one, along an axis. See `cumsum`."""

        def cumsum(self, axis: int | None = None, dtype: DTypeLike | None = None) -> N:
            """The sums of the elements up to each one, along an axis (None: of all in row-major order). It is a
            scan. See `scanjit.cumsum`."""

        def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> N:
            """The entries whose indices along two axes are equal, along a new last axis. With an `offset`, the
            second index is larger by it. See `scanjit.diagonal`."""

        def dimshuffle(self, *pattern: Any) -> N:
            """`x` with its axes in the order of a pattern, in which "x" (or None) is a new axis of size 1. See
            `scanjit.dimshuffle`."""

        def dot(self, b: TensorLike) -> N:
            """The sum of products over the last axis of `a` and the last but one (of a vector, the only one) of `b`.
            See `scanjit.dot`."""

        def flatten(self, ndim: int | str = 1, order: str = "C") -> N:
            """All elements as a vector; or with `ndim` axes, of which the last one joins all that are too many.
            `order` is as for `reshape`. It may stand first, as in NumPy: `x.flatten("F")`. See `scanjit.flatten`."""

        @property
        def imag(self) -> N:
            """The imaginary part of complex numbers; zeros for what is real. See `scanjit.imag`."""

        def inc(self, value: TensorLike) -> N:
            """`x[key].inc(v)`: `x`, with `v` added to the entries that `key` selects; several times, if an index
            names an entry several times. See `set`."""

        @property
        def mT(self) -> N:
            """Matrices with rows for columns: the last two axes exchanged. See `scanjit.matrix_transpose`."""

        def max(self, axis: Axis = None, keepdims: bool = False) -> N:
            """The largest over axes, NaN if there is one. Equal ones share the gradient. Arguments as for `sum`. See
            `scanjit.max`."""

        def mean(self, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> N:
            """The mean over axes; float64 for bools and integers. Arguments as for `sum`. See `scanjit.mean`."""

        def min(self, axis: Axis = None, keepdims: bool = False) -> N:
            """The smallest over axes, NaN if there is one. Equal ones share the gradient. Arguments as for `sum`.
            See `scanjit.min`."""

        def nonzero(self, size: Any = None, fill_value: Any = 0) -> tuple[Any, ...]:
            """Where a tensor is not zero: for each axis the indices of these elements, in row-major order. See
            `scanjit.nonzero`."""

        def norm(self, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False) -> N:
            """The norm of vectors or of matrices. See `scanjit.norm`."""

        def prod(self, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> N:
            """The product over axes, with derivatives that are right where there are zeros. Arguments as for `sum`.
            See `scanjit.prod`."""

        def ravel(self, order: str = "C") -> N:
            """All elements as a vector: row by row, or with `order="F"` column by column. See `scanjit.ravel`."""

        @property
        def real(self) -> N:
            """The real part of complex numbers. What is real already stays as it is. See `scanjit.real`."""

        def repeat(self, repeats: Any, axis: int | None = None) -> N:
            """`x` with each entry repeated along an axis (None: all elements in row-major order). See
            `scanjit.repeat`."""

        def reshape(self, *shape: Any, ndim: int | None = None, order: str = "C") -> N:
            """The same elements in another shape, given as one argument or as several. See `scanjit.reshape`."""

        def round(self, decimals: int = 0) -> N:
            """The nearest whole number; a number in the middle goes to the even one. With `decimals`, the nearest
            number with so many decimals. Of complex numbers, both parts are rounded. See `scanjit.round`."""

        def searchsorted(self, v: TensorLike, side: str = "left", sorter: TensorLike | None = None) -> N:
            """Where elements would stand in a sorted vector: how many of its elements come before each of `v`. See
            `scanjit.searchsorted`."""

        def set(self, value: TensorLike) -> N:
            """`x[key].set(v)`: `x`, with `v` in place of what `key` selects."""

        @property
        def shape(self) -> tuple[Any, ...]:
            """The sizes of the axes: ints where they are known, else int64 scalars. See `scanjit.shape`."""

        @property
        def size(self) -> Any:
            """The number of elements: an int where it is known, else an int64 scalar. See `scanjit.size`."""

        def squeeze(self, axis: Axis = None) -> N:
            """`x` without axes of size 1: those given, or all that are known to have it. See `scanjit.squeeze`."""

        def std(self, axis: Axis = None, ddof: float | Symbol[Any] = 0, keepdims: bool = False) -> N:
            """The standard deviation over axes; arguments as for `var`. Where all elements are equal, the derivative
            is 0. See `scanjit.std`."""

        def sum(self, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> N:
            """The sum over axes. See `scanjit.sum`."""

        def swapaxes(self, axis1: int, axis2: int) -> N:
            """`x` with two axes exchanged. See `scanjit.swapaxes`."""

        def take(self, indices: Any, axis: int | None = None) -> N:
            """`x[indices]` along an axis; None: of all elements in row-major order. See `scanjit.take`."""

        def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> N:
            """The sum of a diagonal. See `scanjit.trace`."""

        def transpose(self, *axes: Any) -> N:
            """The axes in another order, given as one argument or as several; reversed if none is given."""

        def var(self, axis: Axis = None, ddof: float | Symbol[Any] = 0, keepdims: bool = False) -> N:
            """The variance over axes. See `scanjit.var`."""

        # ---- end of the methods


class SupportsArray(Protocol):
    """Anything from which NumPy can make an array: arrays, NumPy's scalars, pandas' series."""

    def __array__(self) -> NDArray[Any]: ...


Tensor = Symbol[Any] | SupportsArray | complex
"""A symbol, an array or a number."""
TensorLike = Tensor | list[Any] | tuple[Any, ...]
"""The values that functions take as a tensor: a symbol, an array, a number, or lists of them."""
Axis = SupportsIndex | Sequence[SupportsIndex] | None
"""One axis or several; None for all."""
Index = SupportsIndex | slice | EllipsisType | TensorLike | None
"""The values that may stand in brackets behind a tensor."""
