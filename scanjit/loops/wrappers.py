"""Objects that stand in the place of a function that a user wrote (`jit`, `custom_vjp`), and how they pickle.

As functions do: by name where they are found by it, so that there is one object of a name. Else as what they are made
of, which pickles where the function does: pickle takes functions that are found by name, cloudpickle takes any.

What a script or a notebook defines is a special case. cloudpickle, which sends its functions to processes that do not
have it, does not do so with objects; pickle takes its functions by name, but under their name there is our object. So
these are pickled with a copy of the function that pickle finds by name, as an attribute of our object, and cloudpickle
takes apart.
"""

from __future__ import annotations

import functools
import sys
from abc import ABC
from collections.abc import Callable
from types import FunctionType
from typing import Any

_COPY = "pickled_function"


class Wrapper(ABC):
    """The base of what stands in the place of a function, which is given to `functools.update_wrapper`."""

    __qualname__: str
    __module__: str

    def __init__(self, maker: Callable[..., Wrapper], fn: Callable[..., Any], *options: Any) -> None:
        this: Any = self  # (type checkers take only functions for wrappers)
        functools.update_wrapper(this, fn)
        self._made = maker, fn, options

    @functools.cached_property
    def pickled_function(self) -> FunctionType | None:
        """A copy of the function that is found under the name of this attribute; None of what is no function."""
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
        """What else belongs to the object."""
        return None


def _again(maker: Callable[..., Wrapper], fn: Any, options: tuple[Any, ...]) -> Any:
    """The object that was pickled, or one made as it was."""
    name = getattr(fn, "__qualname__", "")
    if name.endswith(f".{_COPY}"):
        name = name.removesuffix(f".{_COPY}")
        owner = _found(fn.__module__, name)
        if isinstance(owner, Wrapper) and owner.pickled_function is fn:
            return owner
        fn.__qualname__ = name
    return maker(fn, *options)


def _found(module: str, name: str) -> Any:
    """What is found under a name as pickle looks for it; None if there is nothing."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
