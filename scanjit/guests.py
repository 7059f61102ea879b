"""`from_numba`: functions that users compiled themselves, as parts of graphs."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scanjit import errors, types
from scanjit.config import config
from scanjit.derivatives import CustomVjp
from scanjit.ir import Node, as_node, constant, is_number, is_symbol, parts
from scanjit.kinds import kind_of
from scanjit.loops.structure import flatten
from scanjit.ops.guest import CALL, GUEST, PASSING, PREFIX, UNCHECKED, Guest
from scanjit.ops.promotion import cast
from scanjit.ops.stretch import sum_to, zeros_like
from scanjit.signatures import DType
from scanjit.types import Type

_OF_C = ctypes.CFUNCTYPE(None).__mro__[1]
"""The class of functions of C."""
Derivative = Callable[..., Any] | Sequence[Callable[..., Any]]


def from_numba(
    f: Callable[..., Any], result: Any, vjp: Derivative | None = None, jvp: Callable[..., Any] | None = None
) -> CustomVjp:
    """A function that you compiled yourself, to be called with symbols. Compiled code calls it without Python.

    Parameters
    ----------
    f : a function made by `numba.njit` or `numba.cfunc`, or a function of C (of `ctypes`, with `argtypes` and
        `restype`). It must be pure: what it gives depends on its arguments alone, and it changes nothing, not even its
        arguments. It may be called more or less often than the code says, in any order, and from several threads.
    result : a dtype: `f` is a function of numbers, and is applied to each element, with NumPy's broadcasting. Else `f`
        is a function of whole arrays, and this says what it gives: anything with a shape and a dtype (a symbol, an
        array), a structure of these, or a function of the arguments that returns it.
    vjp : the derivative, for `grad`: a function of the same kind, called as `vjp(cotangent, output, *arguments)`. It
        gives the cotangent of each argument: a tuple of them, if there are several arguments. Functions of C give one
        number, so there may be a list of them, one for each argument. Or a function of symbols, as for `custom_vjp`.
    jvp : the derivative in forward mode, called as `jvp(*tangents, output, *arguments)`; it gives what `f` gives.

    Returns
    -------
    CustomVjp
        To be called with symbols, arrays and numbers, also in steps of loops and under `vmap`.

    Raises
    ------
    ArgumentError
        If `f` is another function, a derivative is none, or Numba cannot compile `f` (when it is called with symbols).
    FunctionError
        When a compiled function runs: if `f` raises an exception, or gives an array of another shape.
    GradientError
        When a derivative is taken that was not given.

    Notes
    -----
    A jitted function of whole arrays is called as `f(*arguments)`, with arrays in C order (and numbers for scalars); it
    returns new arrays. A function of C gets pointers instead, to all arguments and then to all results, which it
    fills; sizes that it does not know are to be arguments (`f(x, x.shape[0])`). A function of C, and one of
    `numba.cfunc`, cannot report an error: Numba prints its exceptions, and the result is undefined.

    Numba has no floats of 16 bits: a jitted function gets them as float32, and its results are rounded. It gets the
    parts of complex numbers as arguments of their own (`z.real`, `z.imag`).

    Lanes call `f` one after the other. Under `vmap`, a function of whole arrays is called in a loop. An interrupt is
    seen between two calls. `mode="reference"` calls the Python function that Numba compiled.

    Kernels with `f` are kept on disk if a digest of its code, and of all that it uses, says what it does. A compiled
    function with `f` pickles if `f` does; it cannot be saved in a file.

    Examples
    --------
    >>> import math, numba, numpy as np, scanjit as sj
    >>> @numba.njit
    ... def soft(x, width):
    ...     return math.copysign(max(abs(x) - width, 0.0), x)
    >>> @numba.njit
    ... def soft_vjp(g, y, x, width):
    ...     return (g, -math.copysign(g, x)) if y != 0 else (0.0, 0.0)
    >>> soft = sj.from_numba(soft, result="float64", vjp=soft_vjp)
    >>> step = lambda x, h: soft(0.5 * h + x, 1.0)
    >>> x = sj.vector("x")
    >>> h = sj.scan(step, x, sj.zeros(()))
    >>> f = sj.function([x], [h, sj.grad(h.sum(), x)])
    >>> f([3.0, 0.0, -4.0])
    [array([ 2.,  0., -3.]), array([1., 0., 1.])]

    A function of whole arrays:

    >>> ordered = sj.from_numba(numba.njit(lambda x: np.sort(x)), result=lambda x: x)
    >>> sj.function([x], ordered(x))([3.0, 1.0, 2.0])
    array([1., 2., 3.])
    """
    for derivative in (*(vjp if isinstance(vjp, list | tuple) else (vjp,)), jvp):
        if not (derivative is None or callable(derivative) or _form(derivative)):
            raise errors.ArgumentError(
                "the derivatives given to from_numba are functions",
                got=repr(derivative),
                expected="a function, or for vjp a list of one for each argument",
            )
    return _custom(_Function(f, result), vjp, jvp)


def _custom(function: _Function, vjp: Derivative | None = None, jvp: Callable[..., Any] | None = None) -> CustomVjp:
    made = CustomVjp(function)
    made.defvjp(_Backward(function, vjp))
    if jvp is not None or vjp is None or not callable(vjp) or _form(vjp):  # else it follows from the vjp
        made.defjvp(_Forward(function, jvp))
    return made


# ---- guests ----------------------------------------------------------------------------------------------------------


def _form(f: Any) -> str:
    """The form of a function: "jitted", "c", or "" for a function that cannot be called without Python."""
    if isinstance(f, _OF_C):
        return "c"
    if not type(f).__module__.startswith("numba."):
        return ""
    from scanjit.numba import guests

    return "jitted" if guests.is_jitted(f) else "c" if guests.is_callback(f) else ""


_numbers = itertools.count()


class _Compiled(Guest):
    """A function of the user's, for arguments of some dtypes. For `which`, see `scanjit.numba.guests.compiled`."""

    def __init__(
        self, f: Any, arguments: Sequence[DType], dtypes: Sequence[DType], ranks: Sequence[int], which: int = -1
    ) -> None:
        self.f, self.which, self.form = f, which, _form(f)
        name = getattr(f, "__name__", "a function")
        super().__init__(name, self._symbol(arguments, dtypes, ranks), arguments, dtypes, ranks)
        if self.form == "jitted":
            self.address()  # what does not compile is an error now

    def _symbol(self, *types: Sequence[Any]) -> str:
        from scanjit.numba import guests

        start = PREFIX if self.form == "jitted" else UNCHECKED
        content = None if isinstance(self.f, _OF_C) else guests.content((self.f, self.which, repr(types)))
        return f"{start}{next(_numbers)}{PASSING}" if content is None else f"{start}{content[:16]}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _Compiled, (self.f, self.arguments, self.dtypes, self.ranks, self.which)

    @functools.cached_property
    def _function(self) -> Any:
        """The function of C."""
        from scanjit.numba import guests

        if self.form == "jitted":
            return guests.compiled(self.f, self.name, self.arguments, self.dtypes, self.ranks, self.which).ctypes
        return self.f if isinstance(self.f, _OF_C) else self.f.ctypes

    def address(self) -> int:
        return ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def results(self, arguments: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> Sequence[Any]:
        if self.form == "jitted":
            found = self.f.py_func(*map(_as_numba_has_it, arguments))
            if self.ranks:
                return found if len(shapes) > 1 else (found,)
            return (found if self.which < 0 else found[self.which],)
        if not self.ranks:
            return (self._function(*(value.item() for value in arguments)),)
        made = [np.zeros(shape, dtype) for shape, dtype in zip(shapes, self.dtypes, strict=True)]
        arrays = [np.ascontiguousarray(value) for value in arguments] + made
        kinds = self._function.argtypes
        self._function(*(ctypes.cast(x.ctypes.data, kind) for x, kind in zip(arrays, kinds, strict=True)))
        return tuple(made)


def _as_numba_has_it(value: Any) -> Any:
    """An argument as a compiled function gets it: integers have 64 bits when Numba computes with them."""
    if isinstance(value, np.bool):
        return bool(value)
    return np.int64(value) if isinstance(value, np.integer) else value.copy()


# ---- functions of symbols --------------------------------------------------------------------------------------------


class _Function:
    """A function of symbols that applies a function of the user's."""

    def __init__(self, f: Any, result: Any, which: int = -1) -> None:
        self.f, self.result, self.which, self.form = f, result, which, _form(f)
        self.__name__ = getattr(f, "__name__", "function")
        self.__wrapped__ = f  # for its signature
        if not self.form:
            raise errors.ArgumentError(
                "from_numba takes a compiled function",
                got=repr(f),
                expected="one of numba.njit or numba.cfunc, or a function of ctypes",
                fix="decorate it with @numba.njit" if callable(f) else "",
            )
        self.elementwise = isinstance(result, str | type | np.dtype)
        if self.elementwise:
            self.result = types.dtype_of(result)
            self._check_real(self.result)
        if self.form == "c":
            self._check_c()

    @functools.cached_property
    def _c(self) -> Any:
        return self.f if isinstance(self.f, _OF_C) else self.f.ctypes

    def _check_c(self) -> None:
        c = self._c
        if c.argtypes is None:
            raise errors.ArgumentError(
                f"{self.__name__} has no argtypes, so the types of its arguments are not known",
                fix="set its argtypes and its restype",
            )
        wanted = self.result if self.elementwise else None
        got = None if c.restype is None else np.dtype(c.restype)
        if got != wanted:
            raise errors.DtypeError(
                f"the result of {self.__name__} has another dtype than its restype", got=got, expected=wanted
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return _Function, (self.f, self.result, self.which)

    def __call__(self, *args: Any) -> Any:
        nodes = self._operands(args)
        if not nodes:
            raise errors.ArgumentError(f"{self.__name__} needs an argument", fix="give it one, such as the step")
        dtypes = [node.dtype for node in nodes]
        if self.elementwise:
            return cast(GUEST(*nodes, guest=self._guest(dtypes, [self._passed(self.result)], [])), self.result)
        prototypes, tree = flatten(self.result(*args) if callable(self.result) else self.result, whole=True)
        made = tuple(map(self._type, prototypes))
        passed = tuple(Type(self._passed(type_.dtype), type_.shape) for type_ in made)
        ranks = [node.ndim for node in nodes] + [type_.ndim for type_ in made]
        guest = self._guest(dtypes, [type_.dtype for type_ in passed], ranks)
        results = parts(CALL(*nodes, guest=guest, types=passed))
        return tree.unflatten([cast(part, type_.dtype) for part, type_ in zip(results, made, strict=True)])

    def _passed(self, dtype: DType) -> DType:
        """The dtype in which numbers of a dtype come and go: Numba has no floats of 16 bits, so float32 for these."""
        return np.dtype("float32") if self.form == "jitted" and kind_of(dtype).is_half else dtype

    def _check_real(self, dtype: DType) -> None:
        if kind_of(dtype).is_complex:
            raise errors.DtypeError(
                f"{self.__name__}, a function given to from_numba, can only take and give real numbers",
                got=dtype,
                fix="let it take z.real and z.imag as two arguments, and give two results",
            )

    def _guest(self, arguments: Sequence[DType], results: Sequence[DType], ranks: Sequence[int]) -> Guest:
        types = tuple(arguments), tuple(results), tuple(ranks), self.which
        key = id(self.f), *types
        return _guests.get(key) or _guests.setdefault(key, _Compiled(self.f, *types))

    def _type(self, prototype: Any) -> Type:
        try:
            made = (
                prototype.type
                if isinstance(prototype, Node)
                else Type(np.dtype(prototype.dtype), tuple(prototype.shape))
            )
        except (AttributeError, TypeError):
            raise errors.ArgumentError(
                f"the result of {self.__name__} must be a dtype, or something with a shape and a dtype",
                got=repr(prototype),
                fix="for a function of numbers give a dtype; for one of arrays, such as sj.zeros((3,)), or lambda x: x",
            ) from None
        self._check_real(made.dtype)
        return made

    def _operands(self, args: Sequence[Any]) -> list[Node]:
        """The arguments as nodes. A Python float gets the dtype of the floats among the others."""
        given = [value if is_number(value) else self._taken(as_node(value)) for value in args]
        floats = [node.dtype for node in given if isinstance(node, Node) and node.type.kind.floating]
        weak = {bool: "bool", int: "int64", float: np.result_type(*floats) if floats else config.floatX}
        nodes = [node if isinstance(node, Node) else constant(node, weak[type(node)]) for node in given]
        if self.form == "jitted":
            return nodes
        kinds = self._c.argtypes
        if len(kinds) != len(nodes) and self.elementwise:
            raise errors.ArgumentError(f"{self.__name__} takes {len(kinds)} arguments", got=len(nodes))
        return [self._fitted(node, kind) for node, kind in zip(nodes, kinds, strict=False)]

    def _taken(self, node: Node) -> Node:
        self._check_real(node.dtype)
        return cast(node, self._passed(node.dtype))

    def _fitted(self, node: Node, kind: Any) -> Node:
        """An argument in the dtype of a parameter of C. For a pointer, this is the dtype that it points to."""
        if kind is ctypes.c_void_p:
            return node
        dtype = np.dtype(kind if self.elementwise else kind._type_)
        if not np.can_cast(node.dtype, dtype, "same_kind"):
            raise errors.DtypeError(f"{self.__name__} takes {dtype}", got=node)
        return cast(node, dtype)


_guests: dict[tuple[Any, ...], Guest] = {}
"""The guests of functions, by the types and the identities of the functions (which the guests keep alive). Equal calls
are then one node."""


# ---- derivatives -----------------------------------------------------------------------------------------------------


class _Backward:
    """`vjp` as a function of symbols: `backward(cotangent, output, *arguments)`."""

    def __init__(self, function: _Function, vjp: Derivative | None) -> None:
        self.function, self.vjp = function, vjp
        self.__wrapped__ = vjp  # errors name its line
        self.__name__ = f"the vjp of {function.__name__}"

    def __call__(self, cotangent: Any, output: Any, *arguments: Any) -> tuple[Any, ...]:
        if self.vjp is None:
            raise errors.GradientError(
                f"{self.function.__name__} has no derivative", fix="give from_numba one: from_numba(f, result, vjp=...)"
            )
        given = (*_cotangents(cotangent, output), *flatten(output)[0], *arguments)
        if callable(self.vjp) and not _form(self.vjp):
            return self.vjp(cotangent, output, *arguments)
        wanted = [i for i, x in enumerate(arguments) if is_symbol(x) and as_node(x).type.kind.floating]
        if self.function.elementwise:
            found = {i: self._each(i, as_node(arguments[i]).type, given) for i in wanted}
        else:
            like = [as_node(x).type for x in arguments]
            whole = _custom(_Function(self.vjp, like[0] if len(like) == 1 else like))(*given)
            found = dict(enumerate([whole] if len(like) == 1 else whole))
        return tuple(found[i] if i in wanted else None for i in range(len(arguments)))

    def _each(self, i: int, type_: Type, given: Sequence[Any]) -> Node:
        """The cotangent of one of the arguments of a function of numbers."""
        return sum_to(self._stretched(i, type_.dtype, given), type_.shape)

    def _stretched(self, i: int, dtype: DType, given: Sequence[Any]) -> Node:
        assert self.vjp is not None
        if not callable(self.vjp):
            if len(self.vjp) != len(given) - 2:
                raise errors.GradientError(
                    f"{self.__name__} needs one function for each argument", got=len(self.vjp), expected=len(given) - 2
                )
            return _custom(_Function(self.vjp[i], dtype))(*given)
        alone = len(given) == 3
        if not alone and _form(self.vjp) == "c":
            raise errors.GradientError(
                f"{self.__name__} gives one number, and there are several arguments",
                fix="give a list of functions, one for each argument",
            )
        return _custom(_Function(self.vjp, dtype, -1 if alone else i))(*given)


class _Forward:
    """`jvp` as a function of symbols: `forward(tangents, output, *arguments)`."""

    def __init__(self, function: _Function, jvp: Callable[..., Any] | None) -> None:
        self.function, self.jvp = function, jvp
        self.__wrapped__ = jvp  # errors name its line
        self.__name__ = f"the jvp of {function.__name__}"

    def __call__(self, tangents: Sequence[Any], output: Any, *arguments: Any) -> Any:
        if self.jvp is None:
            raise errors.GradientError(
                f"{self.function.__name__} has no derivative in forward mode",
                fix="give from_numba one: from_numba(f, result, jvp=...); or use grad or vjp",
            )
        given = [zeros_like(as_node(x)) if dx is None else dx for dx, x in zip(tangents, arguments, strict=True)]
        leaves = flatten(output)[0]
        if not _form(self.jvp):
            return self.jvp(*given, output, *arguments)
        result = leaves[0].dtype if self.function.elementwise else _types(output)
        return _custom(_Function(self.jvp, result))(*given, *leaves, *arguments)


def _types(output: Any) -> Any:
    leaves, tree = flatten(output)
    return tree.unflatten([leaf.type for leaf in leaves])


def _cotangents(cotangent: Any, output: Any) -> list[Node]:
    """The cotangents of all results; zeros for results that are not floats."""
    leaves, tree = flatten(output)
    return [zeros_like(leaf) if g is None else g for g, leaf in zip(tree.leaves_of(cotangent), leaves, strict=True)]
