"""How objects and functions are shown: in signatures, and where they are printed."""

import functools
from abc import ABC
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

from lasagne_like.arguments import Captured, given

_T = TypeVar("_T")
_P = ParamSpec("_P")


class Shown(Captured, ABC):
    """The base of objects that are shown as the call that made them: `Normal(0.1)`. Signatures show them so.

    Examples
    --------
    >>> from lasagne_like.init import Constant
    >>> Constant(1.0)
    Constant(1.0)
    """

    def __repr__(self) -> str:
        args, kwargs = given(self)
        shown = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        return f"{type(self).__name__}({', '.join(shown)})"


class NamedFunction(Generic[_P, _T]):
    """A decorator: the function is shown as its name, `tanh`. Signatures show it so.

    Examples
    --------
    >>> from lasagne_like.nonlinearities import tanh
    >>> tanh
    tanh
    """

    __name__: str

    def __init__(self, function: Callable[_P, _T]) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call the function."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return self.__name__.lstrip("_")

    def __reduce__(self) -> str:
        return self.__name__  # as functions: by name
