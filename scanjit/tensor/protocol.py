"""The interface that makes symbols feel like arrays: methods, indexing, and NumPy's own functions on symbols."""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from scanjit import errors
from scanjit.ir import PART, Node
from scanjit.ops.scan import SCAN
from scanjit.tensor import (
    complex_numbers,
    cumulative,
    elementwise,
    foreign,
    indexing,
    products,
    shapes,
    sizes,
    standard,
    variables,
)

_MODULES = (
    "elementwise questions complex_numbers reductions shapes joining creation products linalg decompositions "
    "least_squares convolution transposed pooling indexing places curves fourier cumulative order quantiles nans "
    "norms statistics polynomials fourier_axes cutting choices special activations"
).split()
"""The modules of the functions that users write with."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(module, name)
    for module in (import_module(f"scanjit.tensor.{each}") for each in _MODULES)
    for name in module.__all__
}
"""Every public function by its name."""

_TAKING_ARRAYS = FUNCTIONS | {"as_tensor": variables.as_tensor}
_STANDARD = standard.namespace(_TAKING_ARRAYS)
_OTHERS = {np.linalg.diagonal: standard.diagonal, np.linalg.trace: standard.trace}
"""Functions of NumPy's that differ from others of their names: their matrices are the last two axes, not the first."""

METHODS = (
    "all any argmax argmin argsort clip conj conjugate cumprod cumsum diagonal dimshuffle dot flatten max mean min "
    "nonzero norm prod ravel repeat round searchsorted squeeze std sum swapaxes take trace var"
).split()


def _array_ufunc(self: Node, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    function = FUNCTIONS.get(foreign.ALIASES.get(ufunc.__name__, ufunc.__name__))
    if function is not None and ufunc.nin == 2:
        if method == "accumulate":
            return _accumulate(ufunc.__name__, function, *inputs, **kwargs)
        if method == "reduce" and ufunc.__name__ in foreign.REDUCED:
            return _reduce(ufunc.__name__, *inputs, **kwargs)
        if method == "outer" and not ufunc.signature:
            _no_more_than(f"{ufunc.__name__}.outer", kwargs)
            first, second = map(variables.as_tensor, inputs)
            return function(first[(..., *[None] * second.ndim)], second)
    if function is None or method != "__call__":
        module = "numpy" if getattr(np, ufunc.__name__, None) is ufunc else "scipy.special"
        name = f"{module}.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        fix = foreign.ATTRIBUTES["at"] if method == "at" else "sj.scan, for what is not a sum"
        fix = foreign.call(ufunc.__name__, FUNCTIONS) if function is None else fix
        raise errors.NotSupportedError(f"{name} is not defined for symbols", got=repr(self), fix=fix)
    options = {"axis": kwargs.pop("axis")} if ufunc.signature and "axis" in kwargs else {}
    _no_more_than(ufunc.__name__, kwargs)
    return function(*inputs, **options)


def _reduce(
    name: str, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, **others: Any
) -> Any:
    _no_more_than(f"{name}.reduce", {"out": out} | others)
    x = elementwise.cast(x, dtype) if dtype else x
    return FUNCTIONS[foreign.REDUCED[name]](x, axis, keepdims=keepdims)


def _accumulate(name: str, function: Any, x: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    _no_more_than(f"{name}.accumulate", {"out": out})
    running = foreign.RUNNING.get(name)
    if running is None:
        return cumulative.accumulate(function, elementwise.cast(x, dtype) if dtype else x, axis)
    if name in ("add", "multiply"):
        return FUNCTIONS[running](x, axis, dtype)
    return FUNCTIONS[running](elementwise.cast(x, dtype) if dtype else x, axis)


def _array_function(self: Node, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    name = func.__name__
    function = _OTHERS.get(func) or _TAKING_ARRAYS.get(foreign.ALIASES.get(name, name))
    if function is None or func not in _named(name) or name in foreign.CALLS:
        fix = foreign.called_library_function(FUNCTIONS) or foreign.call(name, FUNCTIONS)
        raise errors.NotSupportedError(f"{func.__module__}.{name} is not defined for symbols", got=repr(self), fix=fix)
    if func is np.where and len(args) == 1:
        raise errors.ArgumentError(
            "where of symbols needs a condition and two tensors",
            fix="for the indices of true elements, use sj.nonzero(condition, size=n)",
        )
    args, kwargs = _by_our_names(func, function, args, kwargs)
    return function(*args, **kwargs)


def _by_our_names(
    func: Any, function: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments of a function of NumPy's for the function here that does the same. From the first option on that
    has another place here, they have names. What is not known here is an error, if it is not the default."""
    theirs, ours = _parameters(func), list(_parameters(function))
    places = [name for name, one in theirs.items() if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if any(one.kind is one.VAR_POSITIONAL for one in theirs.values()):
        places = []
    required = [name for name in places if theirs[name].default is inspect.Parameter.empty]
    renamed = dict(zip(required, ours, strict=False)) | foreign.KEYWORDS.get(func.__name__, {})
    for i, name in enumerate(places[: len(args)]):
        if name not in required and ours[i : i + 1] != [renamed.get(name, name)]:
            args, kwargs = args[:i], dict(zip(places[i:], args[i:], strict=False)) | kwargs
            break
    kwargs = {key: value for key, value in kwargs.items() if value is not np._NoValue}
    known = {key: value for key, value in kwargs.items() if renamed.get(key, key) in ours}
    others = {key: value for key, value in kwargs.items() if key not in known and key not in foreign.WITHOUT_EFFECT}
    defaults = {name: one.default for name, one in theirs.items() if isinstance(one.default, bool | int | str)}
    _no_more_than(
        func.__name__, {key: value for key, value in others.items() if key not in defaults or value != defaults[key]}
    )
    return args, {renamed.get(key, key): value for key, value in known.items()}


@functools.cache
def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    """The parameters of a function by name. Nothing for a function of C that does not tell them."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def _named(name: str) -> list[Any]:
    """NumPy's functions with a name."""
    return [getattr(module, name, None) for module in (np, np.linalg, np.fft)]


def _array_namespace(self: Node, /, *, api_version: str | None = None) -> SimpleNamespace:
    """The functions of the Python array API standard that take symbols, by the standard's names."""
    if api_version not in (None, *standard.VERSIONS):
        raise errors.ArgumentError(
            "this version of the array API standard is not supported", got=api_version, expected=standard.VERSIONS
        )
    return _STANDARD


def _no_more_than(name: str, options: dict[str, Any]) -> None:
    """Raise an error for options that NumPy passes on with a value."""
    given = [key for key, value in options.items() if value is not None and value is not np._NoValue]
    if given:
        fix = "a = a + x for a += x, which would change the array a" if "out" in given else None
        raise errors.NotSupportedError(f"numpy.{name} of symbols does not take {', '.join(given)}", fix=fix)


_SET = "a = sj.as_tensor(a)[i].set(x) for a[i] = x"


def _array(self: Node, *_: Any, **__: Any) -> Any:
    fix = "sj.stack([a, b]) or sj.as_tensor([[a, b], [c, d]]) puts symbols together, "
    fix += f"{_SET} puts one into an array; otherwise {foreign.NO_VALUE}"
    if self.ndim == 0 and self.type.kind.integral:
        fix = "sj.arange(n), sj.eye(n), sj.zeros(n); for a loop, sj.scan(..., n_steps=n); otherwise " + foreign.NO_VALUE
    raise errors.ArgumentError(
        "a symbol has no value while a function is built",
        got=repr(self),
        fix=foreign.called_library_function(FUNCTIONS) or fix,
    )


def _number(self: Node) -> Any:
    if self.ndim or self.type.kind.integral:
        return _array(self)
    raise errors.ArgumentError(
        "a symbol has no value while a function is built",
        got=repr(self),
        fix=f"write np.exp(x) for math.exp(x), {_SET}, and no float(x) or int(x); for the value, " + foreign.NO_VALUE,
    )


def _length(self: Node) -> int:
    if self.ndim == 0:
        raise errors.ArgumentError("a scalar has no length", got=repr(self))
    length = sizes.at_hand(self.type.shape[0])
    if length is None:
        raise errors.ArgumentError(
            "this length is not known while a function is built", got=repr(self), fix="x.shape[0]"
        )
    return length


def _iterate(self: Node) -> Iterator[Node]:
    if self.ndim == 0:
        raise errors.ArgumentError("a scalar cannot be iterated over", got=repr(self))
    length = sizes.at_hand(self.type.shape[0])
    if length is None:
        name = self.name if self.name and self.name.isidentifier() else "x"
        fix = f"take the entries one by one: {name}[0], {name}[1], ...; to loop over all, use sj.scan or sj.map"
        if self.op is PART and self.args[0].op is SCAN:
            fix = "sj.scan returns outputs alone; with return_updates=True, it returns (outputs, updates)"
        raise errors.ArgumentError("a symbol of unknown length cannot be iterated over", got=repr(self), fix=fix)
    return (indexing.getitem(self, i) for i in range(length))


def _set_item(self: Node, key: Any, value: Any) -> None:
    raise errors.ArgumentError(
        "symbols do not change: an entry of one cannot be assigned",
        got=repr(self),
        fix="x = x[i].set(value), or x = x[i].inc(value) for x[i] += value",
    )


def _get_attribute(self: Node, name: str) -> Any:
    if name.startswith("__"):  # Python and other libraries ask what there is
        raise AttributeError(name)
    raise errors.NoSuchAttributeError(
        f"a symbol has no attribute {name!r}", fix=foreign.attribute(name, [*METHODS, "reshape", "transpose", "astype"])
    )


def _contains(self: Node, item: Any) -> bool:
    raise errors.ArgumentError(
        "whether a symbol contains something is not known yet", fix="use sj.any(x == item), or `is` on nodes"
    )


def _one_argument(values: tuple[Any, ...]) -> Any:
    """The same tuple for the arguments of `x.reshape(2, 3)` and of `x.reshape((2, 3))`."""
    return values[0] if len(values) == 1 else values


def _astype(self: Node, dtype: DTypeLike, copy: bool = True) -> Node:
    """`x` in another dtype. See `scanjit.cast`. Symbols never change, so `copy` has no effect.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.vector("x").astype("float32", copy=False)
    <cast: float32(x.shape[0])>
    """
    return elementwise.cast(self, dtype)


def _copy(self: Node) -> Node:
    """The symbol itself: symbols never change, so it needs no copy.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> x.copy() is x
    True
    """
    return self


def _reshape(self: Node, *shape: Any, ndim: int | None = None, order: str = "C") -> Node:
    """The same elements in another shape, given as one argument or as several. See `scanjit.reshape`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.tensor(("T", 2, 3)).reshape(-1, 3)
    <reshape: float64(2*T, 3)>
    """
    return shapes.reshape(self, _one_argument(shape), ndim, order)


def _transpose(self: Node, *axes: Any) -> Node:
    """The axes in another order, given as one argument or as several; reversed if none is given.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.tensor(("T", "B", 3)).transpose(1, 0, 2)
    <dimshuffle: float64(B, T, 3)>
    """
    return shapes.transpose(self, _one_argument(axes) if axes else None)


GIVEN: dict[str, Any] = {name: FUNCTIONS[name] for name in METHODS} | {
    "__array_ufunc__": _array_ufunc,
    "__array_function__": _array_function,
    "__array__": _array,
    "__array_namespace__": _array_namespace,
    "__float__": _number,
    "__int__": _number,
    "__index__": _number,
    "__complex__": _number,
    "__len__": _length,
    "__iter__": _iterate,
    "__contains__": _contains,
    "__getattr__": _get_attribute,
    "__setitem__": _set_item,
    "__getitem__": indexing.getitem,
    "__matmul__": products.matmul,
    "__rmatmul__": lambda self, other: products.matmul(other, self),
    "__pow__": elementwise.power,
    "__rpow__": lambda self, other: elementwise.power(other, self),
    "__divmod__": lambda self, other: (self // other, self % other),
    "__rdivmod__": lambda self, other: (other // self, other % self),
    "__round__": lambda self, digits=None: elementwise.round(self, digits or 0),
    "astype": _astype,
    "copy": _copy,
    "imag": property(complex_numbers.imag),
    "real": property(complex_numbers.real),
    "inc": indexing.inc,
    "reshape": _reshape,
    "set": indexing.set_,
    "transpose": _transpose,
    "shape": property(shapes.shape),
    "size": property(shapes.size),
    "T": property(shapes.transpose),
    "mT": property(shapes.matrix_transpose),
}
"""The attributes that this layer adds to `Node`. `scanjit.symbol` declares them."""


def install() -> None:
    """Give `Node` its methods."""
    for name, value in GIVEN.items():
        setattr(Node, name, value)
