"""Functions that several modules use."""

import inspect
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

import scanjit as sj
from lasagne_like.shapes import fits, known_sizes

__all__ = [
    "Nonlinearity",
    "Parameter",
    "Shape",
    "as_expression",
    "as_theano_expression",
    "as_tuple",
    "collect_shared_vars",
    "compute_norms",
    "create_param",
    "floatX",
    "inspect_kwargs",
    "int_types",
    "is_expression",
    "number",
    "one_hot",
    "shared_empty",
    "unique",
    "unroll_scan",
]

Shape = tuple[int | None, ...]
"""The shape of the output of a layer. None stands for an axis of any size."""

Parameter = sj.TensorLike | Callable[[tuple[int, ...]], Any]
"""The first value of a parameter: an initializer, an array, a number, a shared variable or an expression."""

Nonlinearity = Callable[[Any], Any] | None
"""A function that is applied to each element; None for the identity."""

int_types = (numbers.Integral, np.integer)
"""Types of integers, for `isinstance`."""

_T = TypeVar("_T")


def floatX(arr: Any) -> np.ndarray:
    """The value as an array of `scanjit.config.floatX`; the array itself if it is one.

    Examples
    --------
    >>> from lasagne_like.utils import floatX
    >>> floatX([1, 2])
    array([1., 2.])
    """
    return np.asarray(arr, dtype=sj.config.floatX)


def shared_empty(dim: int = 2, dtype: Any = None) -> sj.SharedVariable:
    """A shared variable of zeros with `dim` axes. Their size is 1, and may change.

    Parameters
    ----------
    dim : int
        The number of axes.
    dtype : a dtype or its name
        By default `scanjit.config.floatX`.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.utils import shared_empty
    >>> data = shared_empty(2)
    >>> data.set_value(np.ones((3, 5)))
    """
    return sj.shared(np.zeros((1,) * dim, dtype or sj.config.floatX), shape=(None,) * dim)


def is_expression(value: Any) -> bool:
    """Whether a value is a symbol or a shared variable.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.utils import is_expression
    >>> is_expression(sj.vector()), is_expression(sj.shared(0.0)), is_expression(0.0)
    (True, True, False)
    """
    return isinstance(value, sj.Node | sj.SharedVariable)


def as_expression(input: Any) -> sj.Node:
    """The value itself if it is symbolic, else a constant that holds it.

    Parameters
    ----------
    input : symbol, shared variable, array, number or list of them

    Examples
    --------
    >>> from lasagne_like.utils import as_expression
    >>> as_expression([1.0, 2.0])
    <constant: float64(2)>
    """
    if is_expression(input):
        return input
    try:
        return sj.as_tensor(input)
    except sj.not_from_signal_handler(Exception) as error:
        raise TypeError(
            f"{input!r} (a {type(input).__name__}) is neither a symbolic expression nor something to make a constant "
            f"of: {error}"
        ) from error


as_theano_expression = as_expression


def biased(x: Any, b: Any) -> Any:
    """`x + b`; `x` itself if there is no bias.

    Examples
    --------
    >>> from lasagne_like.utils import biased
    >>> biased(1.0, None), biased(1.0, 0.5)
    (1.0, 1.5)
    """
    return x if b is None else x + b


def collect_shared_vars(expressions: Any) -> list[sj.SharedVariable]:
    """The shared variables that expressions depend on, each once, in the order of a formula from left to right.

    Parameters
    ----------
    expressions : expression or iterable of expressions
        Shared variables among them belong to the result.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.utils import collect_shared_vars
    >>> a, b = sj.shared(1.0, "a"), sj.shared(2.0, "b")
    >>> [v.name for v in collect_shared_vars([b * a, a])]
    ['b', 'a']
    """
    roots = [expressions] if is_expression(expressions) else list(expressions)
    found: dict[sj.SharedVariable, None] = {}
    seen: set[sj.Node] = set()
    stack = [sj.as_tensor(root) for root in reversed(roots)]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = node.params.get("variable")
        if isinstance(variable, sj.SharedVariable):
            found[variable] = None
        stack.extend(reversed(node.args))
    return list(found)


def number(value: Any, dtype: Any) -> Any:
    """A number for a formula in which the other values shall keep their dtype.

    Parameters
    ----------
    value : int, float, NumPy number, array or expression
    dtype : a dtype or its name
        That of the other values.

    Returns
    -------
    int, float or expression
        Python's numbers never change a dtype; expressions are cast.

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> from lasagne_like.utils import number
    >>> number(np.float64(0.5), "float32"), number(sj.shared(0.5), "float32").dtype
    (0.5, dtype('float32'))
    """
    if isinstance(value, np.generic):  # NumPy's float64 too, which is also a Python float
        return value.item()
    if isinstance(value, int | float):
        return value
    return sj.cast(sj.as_tensor(value), dtype)


def one_hot(x: Any, m: Any = None) -> sj.Node:
    """For each integer a vector with a one at that place and zeros elsewhere.

    Parameters
    ----------
    x : integers, of any rank
    m : int or integer scalar
        The length of the vectors; by default one more than the largest integer.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.utils import one_hot
    >>> sj.function([], one_hot([2, 0]), mode="reference")()
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """
    x = as_expression(x)
    return sj.one_hot(x, sj.cast(sj.max(x), "int64") + 1 if m is None else m)


def unique(l: Iterable[_T]) -> list[_T]:
    """The items without repetitions, in the order of their first occurrence; symbols are told apart by identity.

    Examples
    --------
    >>> from lasagne_like.utils import unique
    >>> unique([3, 1, 3, 2, 1])
    [3, 1, 2]
    """
    return list(dict.fromkeys(l))


def as_tuple(x: Any, N: int, t: Any = None, what: str = "") -> tuple[Any, ...]:
    """A tuple of N items: those of an iterable, or one value N times.

    Parameters
    ----------
    x : a value, or an iterable of N values
    N : int
    t : type or tuple of types, optional
        The type that every item must have.
    what : str
        What the items are, for errors: "pad of <Conv2DLayer>".

    Examples
    --------
    >>> from lasagne_like.utils import as_tuple
    >>> as_tuple(3, 2), as_tuple([1, 2], 2)
    ((3, 3), (1, 2))
    """
    items = tuple(x) if isinstance(x, Iterable) else (x,) * N
    expected = f"{what} must be" if what else "expected"
    kinds = t if isinstance(t, tuple) else (t,)
    if t is not None and not all(isinstance(item, t) and (bool in kinds or type(item) is not bool) for item in items):
        names = "int" if kinds[:2] == int_types else " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{expected} one {names}, or {N} of them, got {x!r}")
    if len(items) != N:
        raise ValueError(f"{expected} one value, or {N} of them, got {len(items)}: {x!r}")
    return items


def inspect_kwargs(func: Callable[..., Any]) -> list[str]:
    """The names of the arguments of a callable that have a default, in order.

    Examples
    --------
    >>> from lasagne_like.utils import inspect_kwargs
    >>> inspect_kwargs(lambda x, deterministic=False, **kwargs: x)
    ['deterministic']
    """
    parameters = inspect.signature(func).parameters.values()
    return [p.name for p in parameters if p.default is not inspect.Parameter.empty]


def norm_axes_of(ndim: int, norm_axes: Sequence[int] | None) -> tuple[int, ...]:
    """The axes along which the incoming weights of one unit lie: those given, or the default of `compute_norms`."""
    if norm_axes is not None:
        axes: Any = norm_axes
        if not isinstance(axes, Iterable) or not all(isinstance(a, int_types) and -ndim <= int(a) < ndim for a in axes):
            raise ValueError(f"norm_axes must be a sequence of axes from {-ndim} to {ndim - 1}, got {norm_axes!r}")
        return tuple(norm_axes)
    if ndim == 2:
        return (0,)
    if 3 <= ndim <= 5:
        return tuple(range(1, ndim))
    raise ValueError(f"which axes make up a norm is not known for a tensor of {ndim} dimensions: give `norm_axes`")


def compute_norms(array: Any, norm_axes: Sequence[int] | None = None) -> Any:
    """The norms of the incoming weights of each unit.

    Parameters
    ----------
    array : numpy array or expression
        Weights, or a bias.
    norm_axes : sequence of ints, optional
        The axes to take the norm over. By default the first one for a matrix (the weights of a dense layer), all but
        the first one for 3 to 5 dimensions (filters of convolutions), and none for a vector, whose absolute values
        are given.

    Returns
    -------
    numpy array or expression
        As `array` is.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.utils import compute_norms
    >>> compute_norms(np.array([[3.0, 0.0], [4.0, 2.0]]))
    array([5., 2.])
    >>> compute_norms(np.array([-1.0, 2.0]))
    array([1., 2.])
    """
    if not is_expression(array) and not isinstance(array, np.ndarray):
        raise RuntimeError(f"norms are computed of arrays and symbolic expressions, not of {type(array).__name__}")
    axes = () if norm_axes is None and array.ndim == 1 else norm_axes_of(array.ndim, norm_axes)
    return np.sqrt(np.sum(array * array, axis=axes)) if axes else abs(array)


def create_param(spec: Any, shape: Iterable[int | None], name: str | None = None) -> sj.Node | sj.SharedVariable:
    """Make a parameter of a layer, with its first value.

    Parameters
    ----------
    spec : what it starts from:

        * an array, which a new shared variable will hold; or a list of numbers, or for an empty shape a number, which
          it will hold as `scanjit.config.floatX`;
        * a shared variable or an expression, which is used itself, so that parameters can be shared or computed;
        * a callable that takes the shape (an initializer) and returns one of these.
    shape : iterable of ints
        The shape that the parameter must have.
    name : str, optional
        For a variable that has none yet.

    Returns
    -------
    SharedVariable or expression

    Examples
    --------
    >>> from lasagne_like.init import Constant
    >>> from lasagne_like.utils import create_param
    >>> create_param(Constant(0.5), (2, 3), "W")
    <shared W: float64(2, 3)>
    >>> create_param([1.0, 2.0, 3.0], (2,), "b")
    Traceback (most recent call last):
        ...
    ValueError: cannot initialize parameter b: the array has shape (3,), should be (2,)
    """
    shape = tuple(shape)
    if not all(isinstance(size, int_types) for size in shape):
        raise TypeError(f"cannot create parameter {name}: its shape {shape} has a size that is not an int")
    if any(size is None or size <= 0 for size in shape):
        raise ValueError(f"cannot create parameter {name}: its shape {shape} has a size that is not positive")
    prefix, of = f"cannot initialize parameter {name}: ", ""
    if callable(spec) and not is_expression(spec):
        spec, of = spec(shape), " that the callable returned"
    if isinstance(spec, int | float):
        spec = floatX(spec)
    elif isinstance(spec, np.generic | list | tuple):
        try:
            values = np.asarray(spec)
        except ValueError as error:
            raise ValueError(f"{prefix}the list{of} is no array: {error}") from None
        spec = values if isinstance(spec, np.generic) or values.dtype.kind not in "biuf" else floatX(values)
    if isinstance(spec, np.ndarray) and (spec.dtype.kind in "biuf" or spec.dtype.name == "bfloat16"):
        if spec.shape != shape:
            hint = "; to fill it with a number, use init.Constant" if spec.shape == () else ""
            raise ValueError(f"{prefix}the array{of} has shape {spec.shape}, should be {shape}{hint}")
        return sj.shared(spec, name)
    if not is_expression(spec):
        raise TypeError(
            f"{prefix}the value{of} is a {type(spec).__name__}, should be an array, a shared variable, an expression"
            + ("" if of else ", or a callable that takes the shape")
        )
    known = known_sizes(spec.shape)
    if not fits(known, shape):
        kind = "shared variable" if isinstance(spec, sj.SharedVariable) else "expression"
        raise ValueError(f"{prefix}the {kind}{of} has shape {known}, should be {shape}")
    if isinstance(spec, sj.SharedVariable) and not spec.name:
        spec.name = name
    return spec


def unroll_scan(
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Sequence[Any],
    non_sequences: Sequence[Any],
    n_steps: int,
    go_backwards: bool = False,
) -> list[sj.Node]:
    """A loop over a known number of steps, which is written out: `sj.scan` with `unroll=True`.

    Parameters
    ----------
    fn : callable
        Gets an entry of each sequence, the states, and `non_sequences`. Returns the new states.
    sequences : expression or list of expressions
        Read along the first axis.
    outputs_info : list of expressions
        The states before the first step.
    non_sequences : list of expressions
    n_steps : int
    go_backwards : bool
        Whether the first `n_steps` entries are read from the last to the first.

    Returns
    -------
    list of expressions
        For each state its values after all steps.

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> from lasagne_like.utils import unroll_scan
    >>> (sums,) = unroll_scan(lambda x, total, k: total + k * x, np.arange(1.0, 5.0), [0.0], [10.0], n_steps=3)
    >>> sj.function([], sums, mode="reference")()
    array([10., 30., 60.])
    """
    listed = list(sequences) if isinstance(sequences, list | tuple) else [sequences]
    read = [as_expression(sequence)[:n_steps] for sequence in listed]
    found = sj.scan(
        fn, read, list(outputs_info), list(non_sequences), n_steps=n_steps, go_backwards=go_backwards, unroll=True
    )
    return list(found) if isinstance(found, list | tuple) else [found]
