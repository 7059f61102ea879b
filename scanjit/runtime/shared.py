"""Shared variables: values that live between calls."""

import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

import numpy as np

import scanjit.tensor  # noqa: F401 - installs the operators of Node, which are taken over below
from scanjit import errors, types
from scanjit.arrays import array_of, check_unmasked
from scanjit.ir import SHARED, Node
from scanjit.kinds import holds_numbers
from scanjit.loops.structure import STORED
from scanjit.ops.parts import of_origin
from scanjit.runtime.arguments import Slot
from scanjit.runtime.locks import drain, holding, new_lock
from scanjit.scoped import scoped
from scanjit.tensor.variables import check_name
from scanjit.types import Dimension, DtypeName, Type

A = TypeVarTuple("A")
R = TypeVar("R")
_serial = itertools.count()
_fixed: ContextVar[int] = ContextVar("fixed", default=0)
"""Variables with a lower serial number may not be set."""


if TYPE_CHECKING:
    from scanjit.symbol import Symbol

    _Symbol = Symbol[Node]
else:
    _Symbol = object


class SharedVariable(_Symbol):
    """A value that lives between calls, and the symbol that stands for it in expressions. Made by `shared`.

    It may be read and set from several threads at once. A call sees all shared values as they were at one moment; calls
    that update a variable run one after the other, and `set_value` waits for them.

    `==` of two shared variables asks whether they are the same variable, so they can be looked for in lists; with
    anything else it compares values, element by element. `scanjit.equal` always compares values.

    Attributes
    ----------
    default_update : None, or a function from the variable's node to its new value: every `function` that reads the
        variable updates it so, unless it is among the `updates` that the user gives.

    Examples
    --------
    >>> import scanjit as sj
    >>> w = sj.shared([1.0, 2.0], "w")
    >>> w
    <shared w: float64(2)>
    >>> sj.function([], w * 2, mode="reference")()
    array([2., 4.])
    """

    __slots__ = (
        "__weakref__",
        "_array",
        "_first_name",
        "_lock",
        "_node",
        "_slot",
        "default_update",
        "name",
        "serial",
        "where",
    )

    _array: np.ndarray
    __array_priority__ = 1001

    def __init__(
        self,
        array: np.ndarray,
        kind: Type,
        name: str | None,
        where: str,
        default_update: Callable[[Node], Node] | None = None,
    ) -> None:
        self.default_update = default_update
        self.name, self._first_name, self.where = name, name, where
        self.serial = next(_serial)
        self._lock = new_lock()
        self._node: weakref.ref[Node] | None = None
        self._slot = Slot(f"the shared variable {name!r}" if name else "the shared variable", kind, where)
        self._array = self._checked(array)

    def get_value(self, borrow: bool = False) -> np.ndarray:
        """The value: a copy, or with `borrow=True` the array itself, which is not to be written to.

        Examples
        --------
        >>> import scanjit as sj
        >>> sj.shared([1.0, 2.0]).get_value()
        array([1., 2.])
        """
        array = self._array if borrow else self._array.copy()
        return STORED.unflatten([array]) if self._slot.kind.is_complex else array

    def set_value(self, value: Any, borrow: bool = False) -> None:
        """Set the value. Its dtype and rank stay; sizes may change where they were declared symbolic.

        Parameters
        ----------
        value : an array, converted as an argument of a function is.
        borrow : keep the array itself where possible; it is not to be written to any more.

        Examples
        --------
        >>> import scanjit as sj
        >>> w = sj.shared([1.0, 2.0], "w")
        >>> w.set_value([3, 4])
        >>> w.get_value()
        array([3., 4.])
        >>> w.set_value([1.0, 2.0, 3.0])
        Traceback (most recent call last):
            ...
        scanjit.errors.ShapeError: dimension 0 of the shared variable 'w' has size 3 instead of 2
          got:      an array of shape (3,)
          ...
        """
        updating([self], commit, [self], [self._own(value, borrow)])

    @property
    def stored(self) -> np.ndarray:
        """The array that holds the value, which is not to be written to. Of complex numbers it is one of floats."""
        return self._array

    @property
    def type(self) -> Type:
        """The dtype and the shape that every value has."""
        return self._slot.type

    @property
    def label(self) -> str:
        """What to call it in errors."""
        return self._slot.label

    def converted(self, value: Any) -> np.ndarray:
        """A value as the array that holds it, as an argument of a function is converted."""
        return self._slot.convert(value)

    def as_declared(self, value: Any) -> np.ndarray:
        """A value as an array of its own dtype, which may be one of complex numbers.

        Examples
        --------
        >>> import scanjit as sj
        >>> sj.shared([1j, 2.0]).as_declared([3, 4])
        array([3.+0.j, 4.+0.j])
        """
        return self._slot.as_declared(value)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise an error if its values cannot have this shape."""
        self._slot.check_shape(shape)

    def _checked(self, value: Any) -> np.ndarray:
        array = self.converted(value)
        self.check_shape(array.shape)
        return array

    def _own(self, value: Any, borrow: bool = False) -> np.ndarray:
        """The value as an array of our own, which nobody else writes to."""
        array = self._checked(value)
        new = type(value) in (bool, int, float, complex, list, tuple) or (
            isinstance(value, np.ndarray) and array is not value
        )
        return array if borrow or (new and array.base is None) else array.copy()

    def __scanjit_node__(self) -> Node:
        node = None if self._node is None else self._node()
        if node is None:
            with errors.located(self.where):
                node = of_origin(SHARED(variable=self, name=self._first_name))  # renaming must not make another node
            self._node = weakref.ref(node)  # the node keeps the variable and its array, which must not keep the node
        return node

    def __repr__(self) -> str:
        return f"<shared {self.name or ''}: {self.type}>".replace(" :", ":")

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedVariable, (self.get_value(borrow=True), self.type, self.name, self.where, self.default_update)

    @property
    def dtype(self) -> DtypeName:
        """The dtype of every value. It is a text as well, as in Theano: `w.dtype.startswith("float")`."""
        return DtypeName(self.type.dtype.name)

    # ---- in lists and dictionaries it is itself --------------------------------------------------------------------

    __hash__ = object.__hash__

    def __eq__(self, other: Any) -> Any:
        if other is None or isinstance(other, SharedVariable):
            return self is other
        return self.__scanjit_node__() == other

    def __ne__(self, other: Any) -> Any:
        if other is None or isinstance(other, SharedVariable):
            return self is not other
        return self.__scanjit_node__() != other

    # ---- in expressions it is its node: the operators are installed below ------------------------------------------

    if not TYPE_CHECKING:  # they know all that there is, from `Symbol`

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):  # probes of protocols (copy, pickle, NumPy's): those of the node are not ours
                raise AttributeError(name)
            return getattr(self.__scanjit_node__(), name)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return self.__scanjit_node__().__array_ufunc__(ufunc, method, *map(_as_node, inputs), **options)

    def __array_function__(self, function: Any, kinds: Any, args: Any, options: Any) -> Any:
        return function(*_as_nodes(args), **{key: _as_nodes(value) for key, value in options.items()})


def _delegate(name: str) -> Any:
    def method(self: SharedVariable, *args: Any) -> Any:
        return getattr(self.__scanjit_node__(), name)(*args)

    method.__name__ = name
    return method


_OWN = {"__new__", "__init__", "__repr__", "__reduce__", "__hash__", "__getattr__", "__getattribute__", "__setattr__"}
for _name, _function in list(vars(Node).items()):
    if _name.startswith("__") and callable(_function) and _name not in _OWN | vars(SharedVariable).keys():
        setattr(SharedVariable, _name, _delegate(_name))


def _as_node(value: Any) -> Any:
    return value.__scanjit_node__() if isinstance(value, SharedVariable) else value


def _as_nodes(value: Any) -> Any:
    """Shared variables in the arguments of a NumPy function (lists of tensors too) replaced by their nodes."""
    if type(value) in (list, tuple):
        return type(value)(_as_nodes(item) for item in value)
    return _as_node(value)


def shared(value: Any, name: str | None = None, shape: Sequence[int | str | None] | None = None) -> SharedVariable:
    """State that lives between calls: a variable with a value, to be read in expressions and updated by functions.

    Parameters
    ----------
    value : the first value: an array, a number or a list. It is copied. Its dtype and rank are the variable's.
    name : a name for prints and errors.
    shape : which sizes may change. Without it all stay as they are (compiled code knows them as constants). `None`
        is any size, a name is a size that equals that of the same name in inputs.

    Returns
    -------
    SharedVariable
        with `get_value()` and `set_value(value)`.

    Examples
    --------
    >>> import scanjit as sj
    >>> count = sj.shared(0, "count")
    >>> increment = sj.function([], count, updates={count: count + 1})
    >>> increment(), increment(), count.get_value()
    (array(0), array(1), array(2))

    A state whose batch size may change:

    >>> state = sj.shared([[0.0, 0.0]], "state", shape=(None, 2))
    >>> state.set_value([[1.0, 2.0], [3.0, 4.0]])
    """
    if isinstance(value, Node | SharedVariable):
        raise errors.ArgumentError(
            "a shared variable starts from a value, not from a symbol",
            got=repr(value),
            fix="pass an array; to use the symbol's value, compute it with a function",
        )

    def refused(why: str) -> errors.ArgumentError:
        return errors.ArgumentError(f"a shared variable holds an array of numbers ({why})", got=repr(value))

    array = np.array(array_of(value, refused), order="C")  # of an object, np.array may take the memory that it has
    if not holds_numbers(array.dtype):
        raise refused(f"the elements of this are {array.dtype}")
    check_unmasked(value, "a shared variable")
    check_name(name)
    kind = Type(types.dtype_of(array.dtype), _declared(array.shape, shape, name))
    return SharedVariable(array.astype(kind.dtype, copy=False), kind, name, errors.user_location())


def set_values(values: Mapping[SharedVariable, Any]) -> None:
    """Set several shared variables at one moment: all of them, or after an error or an interrupt none.

    Parameters
    ----------
    values : the new value of each variable, as `set_value` takes it.

    Examples
    --------
    >>> import scanjit as sj
    >>> mean, count = sj.shared(0.0, "mean"), sj.shared(0, "count")
    >>> sj.set_values({mean: 2.5, count: 4})
    >>> mean.get_value(), count.get_value()
    (array(2.5), array(4))
    """
    given: Any = values
    if not isinstance(given, Mapping) or not all(isinstance(variable, SharedVariable) for variable in given):
        raise errors.ArgumentError("set_values takes a dict from shared variables to values", got=repr(given))
    arrays = {variable: variable._own(value) for variable, value in values.items()}
    variables = sorted(arrays, key=lambda variable: variable.serial)
    updating(variables, commit, variables, [arrays[variable] for variable in variables])


def _declared(
    sizes: tuple[int, ...], shape: Sequence[int | str | None] | None, name: str | None
) -> tuple[Dimension, ...]:
    if shape is None:
        return sizes
    if len(shape) != len(sizes):
        raise errors.ShapeError(
            "the declared shape of a shared variable has another rank than its value", got=sizes, expected=tuple(shape)
        )
    return tuple(
        types.axis_size(name, axis) if dim is None else types.size(dim) if isinstance(dim, str) else int(dim)
        for axis, dim in enumerate(shape)
    )


# ---- reading and writing several at once --------------------------------------------------------------------------
# Each is one step (see `locks.drain`): whoever reads, in another thread or in the child of a fork, sees all or nothing
# of a call's updates; and an exception that a signal handler raises comes before or after.

_read, _lock = attrgetter("_array"), attrgetter("_lock")
_write: Callable[[SharedVariable, np.ndarray], None] = vars(SharedVariable)["_array"].__set__


def snapshot(variables: Iterable[SharedVariable]) -> list[np.ndarray]:
    """The values of all variables at one moment."""
    return list(map(_read, variables))


def commit(variables: Sequence[SharedVariable], arrays: Sequence[np.ndarray]) -> None:
    """Set several values at one moment. The arrays must be ours alone; the caller holds the variables' locks."""
    before = snapshot(variables)  # freed later: what a user hung on an old array may run Python code when it goes
    drain(map(_write, variables, arrays))
    del before


def updating(variables: Sequence[SharedVariable], run: Callable[[*A], R], *args: *A) -> R:
    """Call `run(*args)` while nobody else sets these variables: an update is computed from the values that it
    replaces.

    The order of the variables must be the same everywhere: that of their serial numbers."""
    if variables and variables[0].serial < _fixed.get():
        raise errors.NotSupportedError(
            f"{variables[0].label} must not change here: what runs in parallel has to be a pure function of its part",
            fix="pass the value as an argument and return the new one, or make the variable inside of the function",
            where=variables[0].where,
        )
    return holding(list(map(_lock, variables)), run, *args)


def unchanged() -> AbstractContextManager[object]:
    """While inside, this thread cannot set variables that were made before."""
    return scoped(_fixed, next(_serial))
