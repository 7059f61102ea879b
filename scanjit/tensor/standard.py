"""The Python array API standard (2024.12): its names, and the namespace that `x.__array_namespace__()` gives."""

import functools
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from scanjit import errors, types
from scanjit.config import config
from scanjit.ir import Node, constant, is_number
from scanjit.ops.promotion import common_dtype
from scanjit.symbol import TensorLike
from scanjit.tensor import elementwise, joining, products, reductions
from scanjit.tensor.variables import as_tensor, of_numbers

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
    "astype": "cast",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "concat": "concatenate",
    "empty": "zeros",
    "empty_like": "zeros_like",
    "permute_dims": "transpose",
}
"""Names of the standard for functions that have another name here. Symbols have no memory to leave as it is, so that
`empty` gives zeros."""

VALUE_DECIDES = ("nonzero", *NAMES["Sets"].split())
"""Functions whose result has a size that depends on values. Here, such a function is given the size."""

NOT_HERE = {
    "from_dlpack": "a symbol has no memory to share; compiled functions take what has `__dlpack__` through NumPy",
    "nextafter": "the neighbour of a float is no function of numbers: it has no derivative",
    **dict.fromkeys(
        ("unique_all", "unique_counts", "unique_inverse", "unique_values"),
        "values decide the size: `sj.unique(x, size=n)` is given it",
    ),
}
"""The reasons why functions of the standard are missing here."""


def _anywhere(function: Callable[..., Node]) -> Callable[..., Node]:
    """The function with two more arguments: the `device`, of which there is one, and whether to `copy`, which symbols
    do not know."""

    @functools.wraps(function)
    def found(*args: Any, device: str | None = None, copy: bool | None = None, **options: Any) -> Node:
        _check_device(device)
        return function(*args, **options)

    return found


def _check_device(device: str | None) -> None:
    if device not in (None, "cpu"):
        raise errors.ArgumentError("scanjit computes on one device", got=repr(device), expected='None or "cpu"')


def asarray(obj: TensorLike, /, *, dtype: DTypeLike | None = None) -> Node:
    """A symbol for anything; Python floats become `config.floatX`."""
    return as_tensor(obj, dtype or of_numbers(obj))


def can_cast(from_: Any, to: DTypeLike, /) -> bool:
    """Whether all values of a dtype, or of a symbol's, are values of another one."""
    return np.can_cast(from_.dtype if isinstance(from_, Node) else from_, to)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype of a result that is computed from symbols, Python numbers and dtypes."""
    given = [v if isinstance(v, Node) or is_number(v) else constant(np.zeros((), v)) for v in arrays_and_dtypes]
    return common_dtype(given)


def finfo(type_: Any, /) -> Any:
    """The limits of a float dtype, or of that of a symbol."""
    return np.finfo(type_.dtype if isinstance(type_, Node) else type_)


def iinfo(type_: Any, /) -> Any:
    """The limits of an integer dtype, or of that of a symbol."""
    return np.iinfo(type_.dtype if isinstance(type_, Node) else type_)


def tile(x: TensorLike, repetitions: tuple[int, ...], /) -> Node:
    """`x` repeated along its axes."""
    return joining.tile(x, repetitions)


def round_(x: TensorLike, /) -> Node:
    """The nearest whole number; a number in the middle goes to the even one."""
    return elementwise.round(x)


def std(x: TensorLike, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Node:
    """The standard deviation; `correction` is subtracted from the number of elements."""
    return reductions.std(x, axis, ddof=correction, keepdims=keepdims)


def var(x: TensorLike, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Node:
    """The variance; `correction` is subtracted from the number of elements."""
    return reductions.var(x, axis, ddof=correction, keepdims=keepdims)


def diagonal(x: TensorLike, /, *, offset: int = 0) -> Node:
    """The diagonals of matrices (the last two axes)."""
    return products.diagonal(x, offset, -2, -1)


def trace(x: TensorLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Node:
    """The sums of the diagonals of matrices (the last two axes)."""
    return reductions.sum(diagonal(x, offset=offset), -1, dtype)


_OWN: dict[str, Any] = {
    "asarray": asarray,
    "can_cast": can_cast,
    "diagonal": diagonal,
    "finfo": finfo,
    "iinfo": iinfo,
    "isdtype": np.isdtype,
    "result_type": result_type,
    "round": round_,
    "std": std,
    "tile": tile,
    "var": var,
    "trace": trace,
}
"""Functions that the standard has with other arguments than this package, or that have no meaning outside of it."""
_ANYWHERE = {"astype", "reshape", "fftfreq", "rfftfreq", *NAMES["Creation"].split()} - {"meshgrid", "tril", "triu"}
"""Functions that the standard gives the arguments of `_anywhere`."""
_VALUES: dict[str, Any] = {
    name: np.dtype(name)
    for name in ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128").split()
    if np.dtype(name) in types.DTYPES or np.issubdtype(name, np.complexfloating)
} | {"e": np.e, "inf": np.inf, "nan": np.nan, "newaxis": None, "pi": np.pi}


class NamespaceInfo:
    """What the namespace can do, as the standard asks for it. Shapes never depend on values."""

    def capabilities(self) -> dict[str, Any]:
        """What is optional in the standard, and whether it is here."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> str:
        """The one device."""
        return "cpu"

    def devices(self) -> list[str]:
        """All devices."""
        return ["cpu"]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of what is made of Python numbers, and of indices, by kind. Floats are of `config.floatX`."""
        _check_device(device)
        real, whole = np.dtype(config.floatX), np.dtype("int64")
        pair = np.result_type(real, np.complex64)
        return {"real floating": real, "complex floating": pair, "integral": whole, "indexing": whole}

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of some kinds (a name of the standard, or a tuple of them); by default all."""
        _check_device(device)
        every = {name: value for name, value in _VALUES.items() if isinstance(value, np.dtype)}
        return {name: dtype for name, dtype in every.items() if kind is None or np.isdtype(dtype, kind)}


def here(name: str, functions: Mapping[str, Any]) -> Any:
    """The function for a name of the standard; None if there is none. `functions` are those of this package."""
    if name in VALUE_DECIDES:
        return None
    function = _OWN.get(name) or functions.get(OTHERWISE.get(name, name))
    return _anywhere(function) if function is not None and name in _ANYWHERE else function


def namespace(functions: Mapping[str, Any]) -> SimpleNamespace:
    """The names of the standard that are here, with its extensions `linalg` and `fft`."""
    sections = {section: _found(names, functions) for section, names in NAMES.items()}
    extensions = {name: SimpleNamespace(**sections.pop(name)) for name in ("linalg", "fft")}
    merged = {name: function for section in sections.values() for name, function in section.items()}
    return SimpleNamespace(
        **merged, **extensions, **_VALUES, __array_api_version__=VERSIONS[-1], __array_namespace_info__=NamespaceInfo
    )


def _found(names: str, functions: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: here(name, functions) for name in names.split()}
    return {name: function for name, function in found.items() if function is not None}
