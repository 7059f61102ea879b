"""The Python array API standard (2024.12): its names, and the namespace that `x.__array_namespace__()` gives."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from scanjit import errors, types
from scanjit.config import config
from scanjit.ir import Node, dim_node
from scanjit.symbol import TensorLike
from scanjit.tensor import creation, cumulative, elementwise, joining, products, reductions, shapes
from scanjit.tensor.variables import as_tensor

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
NAMES: dict[str, str] = {
    "Creation": (
        "arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu "
        "zeros zeros_like"
    ),
    "Dtypes": "astype can_cast finfo iinfo isdtype result_type",
    "Elementwise": (
        "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or "
        "bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide "
        "greater greater_equal hypot imag isfinite isinf isnan less less_equal log log10 log1p log2 logaddexp "
        "logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter not_equal "
        "positive pow real reciprocal remainder round sign signbit sin sinh sqrt square subtract tan tanh trunc"
    ),
    "Indexing": "take take_along_axis",
    "Products": "matmul matrix_transpose tensordot vecdot",
    "Shapes": (
        "broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze "
        "stack tile unstack"
    ),
    "Searching": "argmax argmin count_nonzero nonzero searchsorted where",
    "Sets": "unique_all unique_counts unique_inverse unique_values",
    "Sorting": "argsort sort",
    "Statistics": "cumulative_prod cumulative_sum max mean min prod std sum var",
    "Logic": "all any",
    "Differences": "diff",
    "linalg": (
        "cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose "
        "outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm"
    ),
    "fft": "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift",
}
"""The functions of the standard, by section. `linalg` and `fft` are its extensions."""

OTHERWISE = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asarray": "as_tensor",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "concat": "concatenate",
    "vector_norm": "norm",
}
"""Names of the standard for functions that have another name here."""

VALUE_DECIDES = ("nonzero", *NAMES["Sets"].split())
"""Functions whose result has a size that values decide. Here, such a function is given the size."""

NOT_HERE = {
    "from_dlpack": "a symbol has no memory to share; compiled functions take what has `__dlpack__` through NumPy",
    "nextafter": "the neighbour of a float is no function of numbers: it has no derivative",
    "matrix_norm": "`sj.norm` has the Frobenius norm; others are sums, maxima or `sj.svdvals`",
    **dict.fromkeys(
        ("fftn", "ifftn", "rfftn", "irfftn"), "one axis after the other: `xp.fft.fft(xp.fft.fft(x, axis=0), axis=1)`"
    ),
    **dict.fromkeys(("hfft", "ihfft"), "`irfft` and `rfft` of the conjugate, scaled by the length"),
    **dict.fromkeys(
        ("unique_all", "unique_counts", "unique_inverse", "unique_values"),
        "values decide the size: `sj.unique(x, size=n)` is given it",
    ),
}
"""Why functions of the standard are not here."""


def astype(x: TensorLike, dtype: DTypeLike, /, *, copy: bool = True, device: None = None) -> Node:
    """`x` in another dtype."""
    return elementwise.cast(x, dtype)


def empty(shape: Any, *, dtype: DTypeLike | None = None, device: None = None) -> Node:
    """A tensor of zeros: symbols have no memory to leave as it is."""
    return creation.zeros(shape, dtype)


def empty_like(x: TensorLike, /, *, dtype: DTypeLike | None = None, device: None = None) -> Node:
    """A tensor of zeros. See `empty`."""
    return creation.zeros_like(x, dtype)


def can_cast(from_: Any, to: DTypeLike, /) -> bool:
    """Whether all values of a dtype, or of a symbol's, are values of another one."""
    return np.can_cast(from_.dtype if isinstance(from_, Node) else from_, to)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype of what is made of symbols, Python numbers and dtypes."""
    numbers = [v for v in arrays_and_dtypes if isinstance(v, bool | int | float | complex)]
    others = [v for v in arrays_and_dtypes if not isinstance(v, bool | int | float | complex)]
    return types.promote([v.dtype if isinstance(v, Node) else np.dtype(v) for v in others], numbers)


def finfo(type_: Any, /) -> Any:
    """The limits of a float dtype, or of that of a symbol."""
    return np.finfo(type_.dtype if isinstance(type_, Node) else type_)


def iinfo(type_: Any, /) -> Any:
    """The limits of an integer dtype, or of that of a symbol."""
    return np.iinfo(type_.dtype if isinstance(type_, Node) else type_)


def permute_dims(x: TensorLike, /, axes: tuple[int, ...]) -> Node:
    """The axes in another order."""
    return shapes.transpose(x, axes)


def tile(x: TensorLike, repetitions: tuple[int, ...], /) -> Node:
    """`x` repeated along its axes."""
    return joining.tile(x, repetitions)


def round_(x: TensorLike, /) -> Node:
    """The nearest whole number; a number in the middle goes to the even one."""
    return elementwise.round(x)


def vecdot(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Node:
    """The sum of the products of two tensors along an axis; the first one is conjugated."""
    first, second = as_tensor(x1), as_tensor(x2)
    return products.einsum(
        "...i,...i->...", _conjugated(shapes.moveaxis(first, axis, -1)), shapes.moveaxis(second, axis, -1)
    )


def _conjugated(x: Node) -> Node:
    return x.conj() if x.type.kind.is_complex else x


def std(x: TensorLike, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Node:
    """The standard deviation; `correction` is subtracted from the number of elements."""
    return reductions.std(x, axis, ddof=correction, keepdims=keepdims)  # type: ignore[arg-type]


def var(x: TensorLike, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Node:
    """The variance; `correction` is subtracted from the number of elements."""
    return reductions.var(x, axis, ddof=correction, keepdims=keepdims)  # type: ignore[arg-type]


def _cumulative(running: Callable[..., Node], initial: int) -> Callable[..., Node]:
    def function(
        x: TensorLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
    ) -> Node:
        x = as_tensor(x)
        if axis is None:
            if x.ndim != 1:
                raise errors.ArgumentError("of several axes, one must be named", got=x.type)
            axis = 0
        found = running(x, axis, dtype=dtype)
        if include_initial:
            first = creation.full_like(found[(*[slice(None)] * (axis % x.ndim), slice(0, 1))], initial)
            found = joining.concatenate([first, found], axis)
        return found

    return function


def diagonal(x: TensorLike, /, *, offset: int = 0) -> Node:
    """The diagonals of matrices (the last two axes)."""
    return products.diagonal(x, offset, -2, -1)


def trace(x: TensorLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Node:
    """The sums of the diagonals of matrices (the last two axes)."""
    return reductions.sum(diagonal(x, offset=offset), -1, dtype)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: None = None) -> Node:
    """The frequencies of a Fourier transform of n samples that are `d` apart."""
    return as_tensor(np.fft.fftfreq(n, d).astype(dtype or config.floatX))


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: None = None) -> Node:
    """The frequencies of a Fourier transform of n real samples that are `d` apart."""
    return as_tensor(np.fft.rfftfreq(n, d).astype(dtype or config.floatX))


def fftshift(x: TensorLike, /, *, axes: int | Sequence[int] | None = None) -> Node:
    """The frequencies in ascending order: zero moves to the middle of the axes."""
    return _shifted(x, axes, 1)


def ifftshift(x: TensorLike, /, *, axes: int | Sequence[int] | None = None) -> Node:
    """What `fftshift` was given."""
    return _shifted(x, axes, -1)


def _shifted(x: TensorLike, axes: int | Sequence[int] | None, direction: int) -> Node:
    """Entries moved on or back by half of the length of each axis."""
    x = as_tensor(x)
    for axis in range(x.ndim) if axes is None else [axes] if isinstance(axes, int) else axes:
        x = joining.roll(x, dim_node(x.type.shape[axis] // 2 * direction), axis)
    return x


_OWN: dict[str, Any] = {
    "astype": astype,
    "can_cast": can_cast,
    "diagonal": diagonal,
    "cumulative_prod": _cumulative(cumulative.cumprod, 1),
    "cumulative_sum": _cumulative(cumulative.cumsum, 0),
    "empty": empty,
    "empty_like": empty_like,
    "fftfreq": fftfreq,
    "fftshift": fftshift,
    "finfo": finfo,
    "ifftshift": ifftshift,
    "iinfo": iinfo,
    "isdtype": np.isdtype,
    "permute_dims": permute_dims,
    "result_type": result_type,
    "rfftfreq": rfftfreq,
    "round": round_,
    "std": std,
    "tile": tile,
    "var": var,
    "trace": trace,
    "vecdot": vecdot,
}
"""Functions that the standard has with other arguments than this package, or that have no meaning outside of it."""
_VALUES: dict[str, Any] = {
    name: np.dtype(name)
    for name in ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128").split()
    if np.dtype(name) in types.DTYPES or np.issubdtype(name, np.complexfloating)
} | {"e": np.e, "inf": np.inf, "nan": np.nan, "newaxis": None, "pi": np.pi}


def here(name: str, functions: Mapping[str, Any]) -> Any:
    """The function for a name of the standard; None if there is none. `functions` are those of this package."""
    if name in VALUE_DECIDES:
        return None
    return _OWN.get(name) or functions.get(OTHERWISE.get(name, name))


def namespace(functions: Mapping[str, Any]) -> SimpleNamespace:
    """The names of the standard that are here, with its extensions `linalg` and `fft`."""
    sections = {section: _found(names, functions) for section, names in NAMES.items()}
    extensions = {name: SimpleNamespace(**sections.pop(name)) for name in ("linalg", "fft")}
    merged = {name: function for section in sections.values() for name, function in section.items()}
    return SimpleNamespace(**merged, **extensions, **_VALUES, __array_api_version__=VERSIONS[-1])


def _found(names: str, functions: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: here(name, functions) for name in names.split()}
    return {name: function for name, function in found.items() if function is not None}
