"""Records: small classes that only hold values.

The compiler has more than a hundred. Python writes the methods of a dataclass as text and compiles it, for each class
anew: that was a third of the time that importing the compiler took. Here the functions that assign to equally many
fields share their code; only the names differ. A new record, too, is made faster than a frozen dataclass.
"""

import builtins
import functools
import inspect
import sys
from abc import ABCMeta
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any, ClassVar, TypeVar, dataclass_transform, get_origin, overload

C = TypeVar("C")


class Quick(ABCMeta):
    """The metaclass of abstract classes that `isinstance` is often asked about. It looks at bases alone, as for other
    classes, and so takes a fifth of the time: nobody registers a class with these."""

    __instancecheck__ = type.__instancecheck__


@overload
@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
def record(cls: type[C], /) -> type[C]: ...


@overload
@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
def record(*, eq: bool = False, frozen: bool = True) -> Callable[[type[C]], type[C]]: ...


def record(cls: type[C] | None = None, /, *, eq: bool = False, frozen: bool = True) -> Any:
    """A class decorator that makes a dataclass: the functions of `dataclasses` know its fields.

    Parameters
    ----------
    cls : the class.
    eq : whether two records with equal fields are equal. Else two records are equal only if they are the same object.
    frozen : whether nobody may assign to the fields of a record. The type checker sees to it, Python does not.

    Examples
    --------
    >>> from scanjit.records import replace
    >>> @record
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> replace(Point(1), y=2)
    Point(x=1, y=2)
    """
    return functools.partial(_made, eq=eq) if cls is None else _made(cls, eq)


def replace(made: C, /, **changed: Any) -> C:
    """A record with other values of some fields. (That of `dataclasses` takes four times as long.)"""
    whole: Any = made
    names, given = whole.__match_args__, vars(made)
    return type(made)(*[changed.pop(name) if name in changed else given[name] for name in names], **changed)


def parts(made: Any) -> dict[str, object]:
    """The fields of a record, with their values."""
    return {field.name: getattr(made, field.name) for field in fields(made)}


def _made(cls: Any, eq: bool) -> Any:
    found: dict[str, Field[Any]] = {}
    for base in cls.__mro__[:0:-1]:
        found |= vars(base).get("__dataclass_fields__", {})
    found |= {name: _field(cls, name, type_) for name, type_ in _annotations(cls).items() if not _is_shared(type_)}
    cls.__dataclass_fields__, cls.__dataclass_params__, cls.__replace__ = found, _PARAMS, replace
    cls.__match_args__ = tuple(found)  # type: ignore[misc]
    if "__init__" not in vars(cls):
        cls.__init__ = _assigning(cls, list(found.values()))
    if "__repr__" not in vars(cls):
        cls.__repr__ = _shown
    if eq:
        _compare(cls, list(found))
    return cls


@dataclass(eq=False, repr=False)
class _Example:
    field: int


_PARAMS = vars(_Example)["__dataclass_params__"]
"""What `pprint`, and a dataclass that extends a record, ask a dataclass for."""
_KIND = vars(_Example)["__dataclass_fields__"]["field"]._field_type
"""What `fields` knows the fields of a dataclass by."""


def _field(cls: type, name: str, type_: Any) -> Field[Any]:
    """A field, as `dataclass` would make it."""
    given = vars(cls).get(name, MISSING)
    made: Any = given if isinstance(given, Field) else field(default=given)
    if not (made.init and made.compare) or made.hash is not None or made.kw_only is True:
        raise TypeError(f"{cls.__name__}.{name}: a field of a record has no options init, compare, hash and kw_only")
    made.name, made.type, made.kw_only, made._field_type = name, type_, False, _KIND
    if made is given:
        delattr(cls, name)
    return made


def _annotations(cls: type) -> Mapping[str, Any]:
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        return get_annotations(cls, format=Format.FORWARDREF)
    return inspect.get_annotations(cls)


def _is_shared(type_: Any) -> bool:
    """Whether an annotation is that of an attribute of the class."""
    return type_.startswith("ClassVar") if isinstance(type_, str) else ClassVar in (type_, get_origin(type_))


def _assigning(cls: type, found: Sequence[Field[Any]]) -> FunctionType:
    """The `__init__` of a class with these fields."""
    optional = [each.default is not MISSING or each.default_factory is not MISSING for each in found]
    if optional != sorted(optional):
        raise TypeError(f"{cls.__name__} has a field without a default value after one that has one")
    code = _code(tuple(each.default_factory is not MISSING for each in found), hasattr(cls, "__post_init__"))
    names = {f"field_{i}": each.name for i, each in enumerate(found)}
    code = code.replace(
        co_names=tuple([names.get(name, name) for name in code.co_names]),
        co_varnames=("self", *names.values()),
        co_qualname=f"{cls.__qualname__}.__init__",
    )
    # Tracebacks ask whose code it is, and `torch.compile` what Python's own names are.
    used = {"__name__": cls.__module__, "__builtins__": vars(builtins), "MISSING": MISSING}
    used |= {f"make_{i}": each.default_factory for i, each in enumerate(found)}
    init = FunctionType(
        code, used, "__init__", tuple(each.default for each, known in zip(found, optional, strict=True) if known)
    )
    init.__annotations__ = {each.name: each.type for each in found} | {"return": None}
    return init


@functools.cache
def _code(made: tuple[bool, ...], checked: bool) -> CodeType:
    """The code of an `__init__` that assigns its arguments to fields. Where `made` is true, a function makes the value
    of a field that is not given. `checked` records call their `__post_init__`. The names of fields are still to be
    replaced."""
    arguments = ", ".join(["self", *(f"field_{i}" for i in range(len(made)))])
    lines = [f" self.field_{i} = " + (_MADE if each else "field_{i}").format(i=i) for i, each in enumerate(made)]
    lines += [" self.__post_init__()"] * checked
    space: dict[str, Any] = {}
    exec("\n".join([f"def __init__({arguments}):", *lines, " return None"]), space)
    return space["__init__"].__code__


_MADE = "make_{i}() if field_{i} is MISSING else field_{i}"


def _compare(cls: Any, names: Sequence[str]) -> None:
    """Make records with equal fields equal."""
    values = attrgetter(*names) if names else lambda made: ()

    def equal(self: object, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self is other or bool(values(self) == values(other))

    def hashed(self: object) -> int:
        return hash(values(self))

    if "__eq__" not in vars(cls):
        cls.__eq__ = equal
    if vars(cls).get("__hash__") is None:
        cls.__hash__ = hashed


def _shown(self: Any) -> str:
    values = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"
