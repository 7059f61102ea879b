"""Records: small classes that only hold values.

The compiler has more than a hundred. Python takes 0.1 ms to make a record and 0.3 ms to make a frozen dataclass: that
is a tenth of the time in which a small function is first compiled. A new record, too, is made faster.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, dataclass_transform

C = TypeVar("C")


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
def record(cls: type[C]) -> type[C]:
    """A class decorator that makes a dataclass. Two records are equal only if they are the same object. Nobody assigns
    to their fields: the type checker sees to it, Python does not.

    Examples
    --------
    >>> from dataclasses import replace
    >>> @record
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> replace(Point(1), y=2)
    Point(x=1, y=2)
    """
    made: Any = dataclass(eq=False, repr=False)(cls)
    if "__repr__" not in vars(cls):
        made.__repr__ = _shown
    return cls


def parts(made: Any) -> dict[str, object]:
    """The fields of a record, with their values."""
    return {field.name: getattr(made, field.name) for field in fields(made)}


def with_parts(made: C, changed: Mapping[str, object]) -> C:
    """A record with other values of some fields, whose names are known only at run time."""
    whole: Any = made
    return replace(whole, **changed)


def _shown(self: Any) -> str:
    values = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"
