"""Context variables that have another value inside of a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def scoped(variable: ContextVar[Any], value: T) -> Iterator[T]:
    """A context in which a variable has this value. It is also what `as` gives."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
