"""Objects that remember the arguments of their class, so that they can be shown, copied and written to a file."""

import inspect
from abc import ABC
from collections.abc import Iterable
from typing import Any, Self

HINTS = {
    "activation": "write nonlinearity=",
    "bias_initializer": "write b=",
    "dropout": "write RNNLayer(x, cells.DropoutWrapper(cell, input=...))",
    "filters": "write num_filters=",
    "go_backwards": "write backwards=True",
    "input_dim": "write input_size=",
    "kernel_initializer": "write W=",
    "mask": "write mask_input=",
    "merge_mode": "write merge=",
    "output_dim": "write output_size=",
    "rate": "write p=",
    "recurrent_dropout": "write RNNLayer(x, cells.DropoutWrapper(cell, state=...))",
    "return_sequences": "all steps are returned, or with only_return_final=True the last one",
    "units": "write num_units=",
    "use_bias": "write b=None for no bias",
}
"""What to write instead of Keras's arguments."""


def check_words(cls: type, names: Iterable[str]) -> None:
    """Raise an error if a class takes no argument of these names, and one is Keras's: the error says what to write."""
    for name in sorted(HINTS.keys() & set(names)):
        taken = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
        if name not in taken and inspect.Parameter.VAR_KEYWORD not in [one.kind for one in taken.values()]:
            raise unexpected(cls, name)


def unexpected(cls: type, name: str) -> TypeError:
    """The error about an argument that a class does not take."""
    hint = f": {HINTS[name]}" if name in HINTS else ""
    return TypeError(f"{cls.__name__} got an unexpected keyword argument {name!r}{hint}")


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
        self._arguments = (args, kwargs)
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
