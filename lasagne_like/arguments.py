"""Objects that remember the arguments of their class, so that they can be shown, copied and written to a file."""

import inspect
import operator
from abc import ABC
from typing import Any, Self

import numpy as np


class Captured(ABC):
    """The base of objects that remember the arguments with which they were made. Subclasses need not pass them on.

    Examples
    --------
    >>> from lasagne_like.arguments import given, named
    >>> from lasagne_like.cells import GRU
    >>> cell = GRU(4, name="gru")
    >>> given(cell), named(cell)
    (((4,), {'name': 'gru'}), {'num_units': 4, 'name': 'gru'})
    """

    _arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls)
        self._arguments = args, kwargs
        return self


def given(made: Captured) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and the keyword arguments of the call that made an object."""
    return made._arguments


def named(made: Captured) -> dict[str, Any]:
    """All arguments of the call that made an object, by the names of the parameters of its class."""
    args, kwargs = given(made)
    signature = inspect.signature(type(made).__init__)
    arguments = dict(signature.bind(made, *args, **kwargs).arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments |= arguments.pop(parameter.name, {})
    return dict(list(arguments.items())[1:])  # without self


def check_used(made: Captured, because: str, *names: str) -> None:
    """Raise an error if one of some arguments was given, which have no effect for a reason: "without num_proj"."""
    given = named(made)
    unused = [name for name in names if given.get(name) is not None]
    if unused:
        raise ValueError(f"{', '.join(unused)} of {type(made).__name__} has no effect {because}")


def plain(value: Any) -> Any:
    """A value whose integers of NumPy are Python's, also in tuples and lists: sums of these do not overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.arguments import plain
    >>> plain((None, np.int8(100)))
    (None, 100)
    """
    if isinstance(value, np.integer):
        return int(value)
    if type(value) in (tuple, list):
        items = [plain(item) for item in value]
        return value if all(map(operator.is_, items, value)) else type(value)(items)
    return value
