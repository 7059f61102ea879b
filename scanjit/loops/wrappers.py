"""Objects that replace a function that a user wrote (`@jit`, `@custom_vjp`), and how they pickle.

If the object is found under its name in its module, it pickles by that name, as functions do. Else it pickles as the
user's function and the options; then the function itself must pickle. (pickle needs to find it by name, cloudpickle
does not.)

Functions of a script or a notebook (`__main__`) are a special case. cloudpickle sends the code of such functions to
other processes, but it does not send the code of objects. pickle looks a function up by its name, but finds our object
there. So an object in `__main__` pickles with a copy of the function, `pickled_function`. pickle finds the copy by
name, as an attribute of our object; cloudpickle sends its code.
"""

from __future__ import annotations

import functools
import sys
from abc import ABC
from collections.abc import Callable
from types import FunctionType
from typing import Any

_COPY = "pickled_function"


class FunctionWrapper(ABC):
    """The base class of objects that replace a function. They take its name and docstring by
    `functools.update_wrapper`."""

    __qualname__: str
    __module__: str

    def __init__(self, maker: Callable[..., FunctionWrapper], fn: Callable[..., Any], *options: Any) -> None:
        this: Any = self  # (type checkers take only functions for wrappers)
        functools.update_wrapper(this, fn)
        self._made = maker, fn, options

    @functools.cached_property
    def pickled_function(self) -> FunctionType | None:
        """A copy of the function whose qualified name leads to this attribute; None if we replace a callable that is no
        function."""
        fn = self._made[1]
        if not isinstance(fn, FunctionType):
            return None
        copy = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
        copy.__kwdefaults__ = fn.__kwdefaults__
        copy.__module__, copy.__qualname__ = self.__module__, f"{self.__qualname__}.{_COPY}"
        return copy

    def __reduce__(self) -> str | tuple[Any, ...]:
        maker, fn, options = self._made
        name = getattr(self, "__qualname__", None)
        if name is not None and _found(self.__module__, name) is self:
            if self.__module__ != "__main__" or self.pickled_function is None:
                return name
            fn = self.pickled_function
        return _again, (maker, fn, options), self._state()

    def _state(self) -> dict[str, Any] | None:
        """The state of the object besides function and options, for pickling."""
        return None


def _again(maker: Callable[..., FunctionWrapper], fn: Any, options: tuple[Any, ...]) -> Any:
    """Unpickle: the object that exists under the function's name, or a new one made with the same options."""
    name = getattr(fn, "__qualname__", "")
    if name.endswith(f".{_COPY}"):
        name = name.removesuffix(f".{_COPY}")
        owner = _found(fn.__module__, name)
        if isinstance(owner, FunctionWrapper) and owner.pickled_function is fn:
            return owner
        fn.__qualname__ = name
    return maker(fn, *options)


def _found(module: str, name: str) -> Any:
    """The object under a dotted name in a module, found as pickle finds it; None if there is none."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
