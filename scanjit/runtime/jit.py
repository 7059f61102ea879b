"""`jit`: functions of arrays. Calling one declares its inputs.

A function is traced once for each *kind* of arguments: their nesting, dtypes, ranks, and which of their sizes are 1
(those broadcast, as in NumPy). All other sizes are symbols: a new batch size or length runs the same code. Only a size
that the function cannot do without (`a, b = x`, `len(x)`) is a number, and for another one it is traced anew.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

import numpy as np

from scanjit import errors, ir, types
from scanjit.arrays import array_of
from scanjit.autodiff import grad
from scanjit.config import config
from scanjit.ir import Node, is_symbol
from scanjit.kinds import holds_numbers
from scanjit.loops import frozen
from scanjit.loops.structure import flatten
from scanjit.loops.wrappers import FunctionWrapper
from scanjit.ops.parts import symbol
from scanjit.runtime.function import Array, CompiledFunction, T, function
from scanjit.runtime.function_graph import Mode, check_mode
from scanjit.runtime.locks import holding, new_lock
from scanjit.runtime.waiting import told
from scanjit.show import Document
from scanjit.symbol import Tensor
from scanjit.tensor import sizes
from scanjit.types import Type

Kind = tuple[np.dtype, tuple[bool, ...]]
"""A dtype, and for each axis whether its size is 1."""

Axes = tuple[tuple[int, int], ...]
"""Positions of sizes: the number of an array, and of its axis."""


P = ParamSpec("P")
R = TypeVar("R", covariant=True)
K = TypeVar("K")


class Options(TypedDict, total=False):
    """The options of `jit`."""

    mode: Mode
    static_argnums: int | Iterable[int]
    static_argnames: str | Iterable[str]


class Jit(Protocol):
    """`jit` as type checkers see it: parameters stay as they are, and if the function returns a symbol, a call returns
    an array. (A call with symbols returns symbols, which no type can express.)"""

    @overload
    def __call__(self, fn: Callable[P, Tensor], **options: Unpack[Options]) -> Jitted[P, Array]: ...
    @overload
    def __call__(
        self, fn: Callable[P, tuple[Tensor, ...]], **options: Unpack[Options]
    ) -> Jitted[P, tuple[Array, ...]]: ...
    @overload
    def __call__(self, fn: Callable[P, list[T]], **options: Unpack[Options]) -> Jitted[P, list[Array]]: ...
    @overload
    def __call__(self, fn: Callable[P, dict[K, T]], **options: Unpack[Options]) -> Jitted[P, dict[K, Array]]: ...
    @overload
    def __call__(self, fn: Callable[P, R], **options: Unpack[Options]) -> Jitted[P, R]: ...
    @overload
    def __call__(self, fn: None = None, **options: Unpack[Options]) -> Jit: ...


def _typed(function: Any) -> Jit:
    return function


@_typed
def jit(
    fn: Callable[..., Any] | None = None,
    *,
    mode: Mode = "numba",
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
) -> Any:
    """Compile a Python function of arrays; also a decorator, with or without arguments.

    Parameters
    ----------
    fn : a function written with `scanjit`'s and NumPy's functions. Arguments and results may be nested in tuples,
        lists, dicts, named tuples and dataclasses. It is called with symbols, once for each kind of arguments.
    mode : as for `function`.
    static_argnums : positions of arguments that are settings, not arrays. `fn` gets them as they are, and is compiled
        for each value. They must be hashable. `None` is a setting wherever it stands.
    static_argnames : names of such arguments. Either says how an argument is meant, by position and by name.

    Returns
    -------
    Jitted
        Called with symbols instead of arrays, it is `fn` itself: jitted functions are parts of others.

    Notes
    -----
    Sizes are symbols while `fn` is traced. Where it needs a number (`a, b, c = theta`, `len(theta)`), it gets that of
    the arrays at hand, and is compiled anew for another size.

    What `fn` uses from outside, such as global variables, is constant from the first call on.

    Python numbers are arguments too, not constants: an int is an int64 scalar; a float has the dtype of the float
    arrays among the arguments (a float32 model with a rate of `0.1` stays float32), or `config.floatX` without any.

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> @sj.jit
    ... def normalized(x, eps):
    ...     return {"x": x / (x.sum() + eps), "sum": x.sum()}
    >>> normalized(np.array([1.0, 3.0]), 0.0)
    {'x': array([0.25, 0.75]), 'sum': array(4.)}
    """
    if fn is None:
        return lambda fn: Jitted(fn, mode, static_argnums, static_argnames)
    return Jitted(fn, mode, static_argnums, static_argnames)


class Jitted(FunctionWrapper, Generic[P, R]):
    """A function compiled on first use for each kind of arguments; made by `jit`. Several threads may call it at once.

    Parameters
    ----------
    fn, mode, static_argnums, static_argnames : as for `jit`.
    made : the function that made it, with its arguments: unpickling calls it again. By default `jit` and the other
        three.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        mode: Mode,
        static_argnums: int | Iterable[int] = (),
        static_argnames: str | Iterable[str] = (),
        made: tuple[Callable[..., FunctionWrapper], Callable[..., Any], Any, str] | None = None,
    ) -> None:
        check_mode(mode)
        if not callable(fn):
            raise errors.ArgumentError("jit compiles a function", got=repr(fn))
        self.static_argnums = _positions(static_argnums, "static_argnums")
        self.static_argnames = _names(static_argnames)
        self.static = _static(fn, self.static_argnums, self.static_argnames)
        super().__init__(*(made or (Jitted, fn, mode, self.static_argnums, self.static_argnames)))
        self.fn, self.mode = fn, mode
        self._functions: dict[Any, CompiledFunction[R]] = {}
        self._sized: dict[Any, Axes] = {}  # of kinds of arguments of which some sizes are part of the key
        self._tracing = new_lock()

    def __call__(self, *args: P.args, **named: P.kwargs) -> R:
        if not named and not self.static and all([type(arg) is np.ndarray for arg in args]):
            # Most calls: nothing to take apart.
            arrays: tuple[Any, ...] = args
            compiled = self._functions.get(tuple([(a.dtype, tuple([n == 1 for n in a.shape])) for a in arrays]))
            return (compiled or self._find(_Call(self, args, named)))(*args)
        call = _Call(self, args, named)
        if any(map(is_symbol, call.leaves)):
            return self.fn(*args, **named)
        return self._find(call)(*call.arrays)

    def function(self, *args: P.args, **named: P.kwargs) -> CompiledFunction[R]:
        """The compiled function that is called for arguments like these: to see its graph, source, `explain()`."""
        return self._find(_Call(self, args, named))

    def _find(self, call: _Call) -> CompiledFunction[R]:
        kind = call.key()
        compiled = self._functions.get(call.key_with_sizes(kind, self._sized.get(kind)))
        # A kind of arguments is compiled once, whoever comes first.
        return compiled or _outside_of_torch(holding)([self._tracing], self._compiled, call, kind)

    def _compiled(self, call: _Call, kind: Any) -> CompiledFunction[R]:
        compiled = self._functions.get(call.key_with_sizes(kind, self._sized.get(kind)))
        if compiled is None:
            with told(call.name):  # to trace it takes time too
                compiled, axes = call.compile()
            if axes:
                self._sized[kind] = axes = tuple(sorted({*axes, *self._sized.get(kind, ())}))
            self._functions[call.key_with_sizes(kind, axes)] = compiled
        return compiled

    if not TYPE_CHECKING:  # it would allow every attribute

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and hasattr(CompiledFunction, name):
                raise errors.NoSuchAttributeError(
                    f"a jitted function has no {name!r}: it compiles a function for each kind of arguments",
                    fix=f"say which by arguments: f.function(*args).{name}",
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        maker, fn, options = self._made
        return maker.__qualname__, fn, options  # which Dask makes tokens of

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {getattr(self, '__qualname__', self.fn)}: {len(self._functions)} compiled>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return Document(repr(self), *(f.document() for f in list(self._functions.values()))).forms(include, exclude)


class _Call:
    """The arguments of one call, taken apart.

    `None`, alone or within an argument, is a setting: the function gets it as it is."""

    def __init__(self, jitted: Jitted[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> None:
        args, named = _by_position(jitted.fn, args, named)  # it is one kind of call, however it is written
        self.jitted, self.count = jitted, len(args)
        every: dict[int | str, Any] = dict(enumerate(args)) | dict(sorted(named.items()))
        static = {*jitted.static, *(i + len(args) for i in jitted.static if isinstance(i, int) and i < 0)}
        self.static = {key: arg for key, arg in every.items() if key in static}
        self.given = {key: arg for key, arg in every.items() if key not in static}
        taken = [flatten(arg, whole=True) for arg in self.given.values()]
        self.trees = [tree for _, tree in taken]
        self.leaves = [leaf for leaves, _ in taken for leaf in leaves]
        self.arrays = [leaf for leaf in self.leaves if leaf is not None]

    def key(self) -> Any:
        """The key of the compiled function for such a call."""
        kinds = self.kinds()
        if not self.static and self.given and all([type(arg) is np.ndarray for arg in self.given.values()]):
            if len(self.given) == self.count:
                return kinds  # the short key of the fast path
        try:
            static = tuple((i, _told_apart(value)) for i, value in self.static.items())
            hash(static)
        except TypeError:
            raise errors.ArgumentError(
                f"a static argument of {self.name} must be hashable", got=repr(tuple(self.static.values()))
            ) from None
        absent = tuple(leaf is None for leaf in self.leaves)
        return tuple(self.given), tuple(self.trees), absent, static, kinds

    def key_with_sizes(self, kind: Any, axes: Axes | None) -> Any:
        """The key of a function that was traced with some known sizes: the key with these sizes."""
        return (kind, axes, tuple([np.shape(self.arrays[i])[axis] for i, axis in axes])) if axes else kind

    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of the arrays. A Python float takes the dtype of the float arrays among the arguments."""
        arrays = [array_of(leaf) for leaf in self.arrays]
        self._check(arrays)
        weak = list(map(_is_weak, self.arrays))
        given = [a.dtype if a.dtype.isnative else a.dtype.newbyteorder("=") for a in arrays]
        dtypes = types.of_arguments(given, weak, np.dtype(config.floatX))
        ones = [tuple([n == 1 for n in array.shape]) for array in arrays]
        return tuple(zip(dtypes, ones, strict=True))

    def _check(self, arrays: Sequence[np.ndarray]) -> None:
        for label, value, array in zip(self.labels(), self.arrays, arrays, strict=True):
            if not holds_numbers(array.dtype):

                def refused(why: str, label: str = label, value: Any = value) -> errors.ArgumentError:
                    return errors.ArgumentError(
                        f"{label}, an argument of {self.name}, is no array of numbers ({why})",
                        got=f"{value!r} ({type(value).__name__})",
                        fix="if it is a setting and not data, name it in static_argnames, or its place in "
                        "static_argnums",
                    )

                array_of(value, refused)
                raise refused(f"its elements are {array.dtype}")

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.jitted.fn, "__name__", "function")

    def labels(self) -> list[str]:
        """The name of each array in the user's words: `x`, `params['w']`."""
        parameters = _parameters(self.jitted.fn) or []
        names = _places(parameters)
        rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
        paths = []
        for key, tree in zip(self.given, self.trees, strict=True):
            if isinstance(key, int):
                key = names[key] if key < len(names) else f"{rest}[{key - len(names)}]"
            paths += [key + path for path in tree.paths()]
        return [path for path, leaf in zip(paths, self.leaves, strict=True) if leaf is not None]

    def compile(self) -> tuple[CompiledFunction[Any], Axes]:
        """Trace the function with symbols of the arguments' kinds. A size that it asks for becomes a number."""
        axes: Axes = ()
        while True:
            inputs = self._symbols(axes)
            dims = [(dim, i, axis) for i, node in enumerate(inputs) for axis, dim in enumerate(node.type.shape)]
            places = {atom: (i, axis) for dim, i, axis in dims if (atom := types.as_atom(dim)) is not None}
            at_hand = {atom: np.shape(self.arrays[i])[axis] for atom, (i, axis) in places.items()}
            with sizes.known(at_hand) as here:
                outputs = self._traced(inputs)
            if not here.asked:
                return function(inputs, outputs, name=self.name, mode=self.jitted.mode), axes
            axes = (*axes, *(places[atom] for atom in here.asked))

    def _symbols(self, axes: Axes) -> list[Node]:
        """A symbol for each array. Sizes of 1, and the sizes at these places, are numbers."""
        found = []
        for i, ((dtype, ones), label) in enumerate(zip(self.kinds(), self.labels(), strict=True)):
            lengths = np.shape(self.arrays[i])
            shape = [
                lengths[axis] if one or (i, axis) in axes else types.axis_size(label, axis)
                for axis, one in enumerate(ones)
            ]
            found.append(symbol(Type(types.dtype_of(dtype), tuple(shape)), label))
        return found

    def _traced(self, inputs: Sequence[Node]) -> Any:
        """The symbols that the function returns when it is called with symbols."""
        symbols = iter(inputs)
        leaves = iter([None if leaf is None else next(symbols) for leaf in self.leaves])
        traced = {
            key: tree.unflatten([next(leaves) for _ in range(tree.size)])
            for key, tree in zip(self.given, self.trees, strict=True)
        }
        every = traced | self.static
        named = {key: value for key, value in every.items() if isinstance(key, str)}
        frozen.warn_of_draws(self.jitted.fn)
        return self.jitted.fn(*[every[i] for i in range(self.count)], **named)


def _by_position(
    fn: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call: by position where possible, and the others by name."""
    if not named:
        return args, named
    try:
        bound = inspect.signature(fn).bind(*args, **named)
    except TypeError:
        _check_names(fn, named)
        raise
    return bound.args, bound.kwargs


def _positions(given: Any, name: str) -> tuple[int, ...]:
    """The positions of arguments, of which one may stand alone."""
    found = tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(i, int | np.integer) and not isinstance(i, bool) for i in found):
        raise errors.ArgumentError(f"{name} has positions of arguments, which are ints", got=repr(given))
    return found


def _names(given: Any) -> tuple[str, ...]:
    """The names of arguments, of which one may stand alone."""
    found = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    if not all(isinstance(name, str) for name in found):
        raise errors.ArgumentError("static_argnames has names of arguments, which are texts", got=repr(given))
    return found


def _static(fn: Callable[..., Any], positions: Sequence[int], names: Sequence[str]) -> frozenset[int | str]:
    """The positions and names of the settings of a function: both of each one that has both. Raises an error for one
    that the function does not have."""
    parameters = _parameters(fn)
    if parameters is None:
        return frozenset((*positions, *names))
    kinds = {one.kind for one in parameters}
    places = _places(parameters)
    named = [one.name for one in parameters if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)]
    found = set[int | str](names)
    for i in _from_the_front(fn, positions, "static_argnums"):
        found.add(i)
        if 0 <= i < len(places):
            found.add(places[i])
    for name in names:
        if name in places:
            found.add(places.index(name))
        elif name not in named and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise errors.ArgumentError(
                "static_argnames has a name that is no argument", got=repr(name), expected=" or ".join(named)
            )
    return frozenset(found)


def _parameters(fn: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """The parameters of a function. None if Python does not know them, as of some functions of C."""
    try:
        return list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return None


def _places(parameters: Iterable[inspect.Parameter]) -> list[str]:
    """The names of the arguments that have positions."""
    return [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]


def _from_the_front(fn: Callable[..., Any], positions: Sequence[int], option: str) -> tuple[int, ...]:
    """The positions of arguments, counted from the front where the function says how many it has. Raises an error for
    one that it does not have."""
    parameters = _parameters(fn)
    if parameters is None or any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return tuple(positions)
    count = len(_places(parameters))
    for i in positions:
        if not -count <= i < count:
            raise errors.ArgumentError(
                f"{option} has a position without an argument",
                got=i,
                expected=f"at least {-count} and less than {count}, the number of arguments",
            )
    return tuple(i % count for i in positions)


def _outside_of_torch(run: Callable[..., Any]) -> Callable[..., Any]:
    """A function as it is: `torch.compile` would translate what is called below it, our tracing too."""
    if "torch._dynamo" not in sys.modules:
        return run
    disabled: Callable[..., Any] = sys.modules["torch"].compiler.disable(run)
    return disabled


def _check_names(fn: Callable[..., Any], named: Iterable[str]) -> None:
    """Raise an error if one of the names is no argument of a function, as Python does."""
    parameters = inspect.signature(fn).parameters.values()
    known = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    for name in named:
        if name not in known and not any(one.kind is one.VAR_KEYWORD for one in parameters):
            from difflib import get_close_matches  # only errors need it

            near = get_close_matches(name, known, 1)
            hint = f". Did you mean {near[0]!r}?" if near else ""
            raise TypeError(
                f"{getattr(fn, '__name__', fn)}() got an unexpected keyword argument {name!r}{hint}"
            ) from None


def _told_apart(value: Any) -> Any:
    """A key of a setting. Python takes 1, 1.0 and True for the same, and also 0.0 and -0.0: functions need not."""
    if type(value) in (tuple, frozenset):
        return type(value), type(value)(map(_told_apart, value))
    return type(value), repr(value) if type(value) is float else value


def _is_weak(leaf: Any) -> bool:
    """Whether a value has no dtype of its own."""
    return isinstance(leaf, bool | int | float | complex | list) and not isinstance(leaf, np.generic)


def value_and_grad(
    fn: Callable[P, Tensor], argnums: int | Sequence[int] = 0, *, mode: Mode = "numba"
) -> Jitted[P, tuple[Array, Any]]:
    """A function that returns what `fn` returns, a scalar, and its gradient.

    Parameters
    ----------
    fn : a function as for `jit`.
    argnums : the position of the argument to differentiate by, or several. It may be nested. -1 is the last argument
        of the function, also in a call that gives it by its name.
    mode : as for `function`.

    Returns
    -------
    Jitted
        `(value, gradient)`: the gradient is structured as the argument, or a tuple if `argnums` is one. Called with
        symbols, it gives symbols: use it inside `jit`, `scan` or another `value_and_grad`.

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> f = sj.value_and_grad(lambda p, x: (p["a"] * x + p["b"]).sum())
    >>> f({"a": 2.0, "b": 1.0}, np.array([1.0, 2.0]))
    (array(8.), {'a': array(3.), 'b': array(2.)})
    """
    positions = _from_the_front(fn, _positions(argnums, "argnums"), "argnums")

    @functools.wraps(fn)
    def with_gradient(*args: Any, **named: Any) -> tuple[Any, Any]:
        args, named = _by_position(fn, args, named)
        if any(not -len(args) <= i < len(args) for i in positions):
            raise errors.ArgumentError(
                "argnums has the position of an argument that this call leaves out",
                got=argnums,
                expected=f"less than {len(args)}, the number of arguments",
            )
        symbols = list(args)
        for i in positions:
            leaves, tree = flatten(args[i])
            symbols[i] = tree.unflatten([ir.as_node(leaf) for leaf in leaves])
        value = fn(*symbols, **named)
        return value, grad(
            value, tuple(symbols[i] for i in positions) if isinstance(argnums, Iterable) else symbols[positions[0]]
        )

    return Jitted(with_gradient, mode, made=(_with_gradient, fn, argnums, mode))


def _with_gradient(fn: Callable[..., Any], argnums: int | Sequence[int], mode: Mode) -> Jitted[..., Any]:
    return value_and_grad(fn, argnums, mode=mode)
