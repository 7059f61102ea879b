"""What a function computes: its code, and the content of all that it uses from outside."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import sysconfig
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from scanjit.arrays import array_of

LIBRARIES = ("numpy", "scipy", "numba", "math", "scanjit", "lasagne_like")
"""What is in these packages is known by its name."""
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
"""Where the code of packages lies."""
_NOTHING = object()


def digest(facts: Iterator[object]) -> str:
    """A digest of facts, which are printed for it."""
    return hashlib.sha256(repr(list(facts)).encode()).hexdigest()


class Digest(str):
    """A digest that keeps the objects alive which are known by their addresses, so that no others get these."""

    held: list[Any]


def captured(function: Any) -> Digest:
    """A digest that changes when a function does, or what it uses from outside: numbers, arrays, functions, and the
    attributes of objects, classes and modules that its code names. All other objects are known by their addresses."""
    facts = Facts(_of_object)
    found = Digest(digest(facts.all(function)))
    found.held = facts.held
    return found


class Facts:
    """What values are, in pieces that can be printed. `other` is asked for what is neither data nor a Python function.

    `names` has the names in the user's code that was met so far, and `owners` the objects whose attributes may have
    such names. `seen` has what was met, by addresses: its number, and the object itself, so that no other object gets
    its address. `held` are the objects that are known by their addresses."""

    def __init__(self, other: Callable[[Any, Facts], Iterator[object]]) -> None:
        self.other = other
        self.names: dict[str, None] = {}
        self.owners: list[Any] = []
        self.seen: dict[int, tuple[int, Any]] = {}
        self.held: list[Any] = []

    def all(self, value: Any) -> Iterator[object]:
        """The facts about a value and all that it uses: the attributes come last, when all names are known. Methods
        have names, too."""
        yield from self.of(value)
        told: set[tuple[int, str]] = set()
        while new := [(i, name) for i in range(len(self.owners)) for name in self.names if (i, name) not in told]:
            told.update(new)
            for i, name in new:
                found = _attribute(self.owners[i], name)
                if found is not _NOTHING:
                    yield i, name, list(self.of(found))

    def of(self, value: Any) -> Iterator[object]:
        """The facts about a value, but for its attributes."""
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            yield repr(value)
        elif id(value) in self.seen:
            yield "seen", self.seen[id(value)][0]
        else:
            self.seen[id(value)] = len(self.seen), value
            yield from self._of_new(value)

    def address(self, value: Any) -> int:
        """The address of an object, which is held."""
        self.held.append(value)
        return id(value)

    def _of_new(self, value: Any) -> Iterator[object]:
        if isinstance(value, tuple | frozenset):
            parts = [list(self.of(item)) for item in value]
            yield type(value).__name__, parts if isinstance(value, tuple) else sorted(map(repr, parts))
        elif isinstance(value, np.ndarray | np.generic) and value.dtype != object:
            yield str(value.dtype), value.shape, hashlib.sha256(value.tobytes()).hexdigest()
        elif isinstance(value, types.ModuleType):
            yield value.__name__, getattr(value, "__version__", "")
            if not _is_known(value.__name__):
                self.owners.append(value)
        elif isinstance(value, types.BuiltinFunctionType | np.ufunc):
            yield name_of(value)
        elif isinstance(value, type):
            yield name_of(value)
            if not in_library(value) and value.__module__ != "builtins":
                self.owners.append(value)
        elif isinstance(value, types.FunctionType):
            if in_library(value):
                yield name_of(value)
                return
            code, around = value.__code__, value.__globals__
            own, given = dict.fromkeys(_names(code)), (value.__defaults__, *(value.__kwdefaults__ or {}).items())
            outside = [*_variables(value), *((name, around[name]) for name in own if name in around)]
            if not code.co_filename.startswith(_INSTALLED):  # a large package names the attributes of all
                self.names |= own | dict.fromkeys(_texts((code, given, *outside)))
            yield from self._of_code(code)
            yield from self.of(given)
            for name, content in outside:
                yield name, list(self.of(content))
        else:
            yield from self.other(value, self)

    def _of_code(self, code: types.CodeType) -> Iterator[object]:
        yield code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        for constant in code.co_consts:
            yield from self._of_code(constant) if isinstance(constant, types.CodeType) else self.of(constant)


def _attribute(owner: Any, name: str) -> Any:
    """An attribute, or the function that computes it, without a call of anything of the user's; `_NOTHING` if there is
    none."""
    found = inspect.getattr_static(owner, name, _NOTHING)
    if isinstance(found, types.MemberDescriptorType) and not isinstance(owner, type):  # of __slots__
        return getattr(owner, name, _NOTHING)
    if isinstance(found, property):
        return found.fget
    if isinstance(found, staticmethod | classmethod):
        return found.__func__
    if isinstance(found, functools.cached_property):
        return found.func
    return _NOTHING if not isinstance(found, types.FunctionType) and hasattr(found, "__get__") else found


def name_of(value: Any) -> object:
    """The name of what needs no other description."""
    return getattr(value, "__module__", ""), getattr(value, "__qualname__", repr(value))


def in_library(value: Any) -> bool:
    """Whether something is of a package that is known by its names."""
    return _is_known(str(getattr(value, "__module__", "")))


def _is_known(module: str) -> bool:
    return module.partition(".")[0] in LIBRARIES  # a user's `mathutils` is no part of `math`


def _names(code: types.CodeType) -> Iterator[str]:
    """The names that a function, and those defined in it, may look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables of the functions around a function that it uses, with their values."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it has no value yet
            yield name, cell.cell_contents


def _texts(value: Any) -> Iterator[str]:
    """The names that `getattr` may get: a text, those in a tuple, and those in the constants of code."""
    for item in value.co_consts if isinstance(value, types.CodeType) else value if isinstance(value, tuple) else ():
        yield from _texts(item)
    if isinstance(value, str) and value.isidentifier():
        yield value


def _of_object(value: Any, facts: Facts) -> Iterator[object]:
    if isinstance(value, list | set):
        yield from facts.of(tuple(value))
    elif isinstance(value, dict):
        yield from facts.of(tuple(value.items()))
    elif isinstance(value, functools.partial):
        yield from facts.of((value.func, value.args, value.keywords))
    elif isinstance(value, types.MethodType):
        yield from facts.of((value.__func__, value.__self__))
    elif callable(value) and hasattr(value, "__wrapped__"):
        yield from facts.of(value.__wrapped__)
    elif in_library(type(value)):
        yield facts.address(value)
    elif hasattr(value, "__array__"):
        array = array_of(value)  # of objects, for a tensor of another device, or one with gradients
        yield from [facts.address(value)] if array.dtype == object else facts.of(array)
    else:
        has_attributes = hasattr(value, "__dict__") or hasattr(value, "__slots__")
        yield facts.address(type(value) if hasattr(value, "__dict__") else value)
        if has_attributes:
            facts.owners.append(value)
        if callable(value):
            yield from facts.of(type(value).__call__)
