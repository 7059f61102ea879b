"""Warnings of calls that run only once, while a function is traced: random numbers of NumPy and Python, and clocks.

A step is called once, and so is a jitted function: a number that it draws is a constant from then on. We look for such
calls in the code of the function, and in the functions of the same module that it calls.
"""

import builtins
import dis
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

_DRAWS = ("numpy.random", "random")
_CLOCKS = ("time", "datetime")
_HARMLESS = {"sleep", "strftime", "timedelta"}
_HERE = (__name__.partition(".")[0], "lasagne_like", "numpy")
_read: set[CodeType] = set()
"""The code that was read already: users are warned once."""


def warn_of_draws(fn: Callable[..., Any]) -> None:
    """Warn of calls in a function that is about to be traced, if tracing would freeze their results for all runs."""
    function = _function_of(fn)
    if function is not None:
        _warn(function, _package(function))


def _warn(function: FunctionType, package: str) -> None:
    if function.__code__ in _read or _package(function) in _HERE:
        return
    _read.add(function.__code__)
    outside, closure = {**vars(builtins), **function.__globals__}, inspect.getclosurevars(function).nonlocals
    for value, text, line in _mentioned(function.__code__, outside, closure):
        advice = _advice(value)
        if advice is not None:
            warnings.warn_explicit(
                f"{text} runs once, while the function is traced: its result is a constant then; {advice}",
                UserWarning,
                function.__code__.co_filename,
                line,
            )
        elif isinstance(value, FunctionType) and _package(value) == package:
            _warn(value, package)


def _package(function: FunctionType) -> str:
    """The package that a function is part of; nothing for code that was made by `exec`."""
    return _module_of(function).partition(".")[0]


def _function_of(fn: Any) -> FunctionType | None:
    """The Python function behind a callable, such as a bound method or a `partial`."""
    fn = inspect.unwrap(fn) if callable(fn) else fn
    fn = getattr(fn, "func", fn)  # functools.partial
    fn = getattr(fn, "__func__", fn)  # a bound method
    if not isinstance(fn, FunctionType):
        fn = getattr(type(fn).__call__, "__func__", type(fn).__call__)
    return fn if isinstance(fn, FunctionType) else None


def _mentioned(
    code: CodeType, outside: Mapping[str, Any], closure: Mapping[str, Any]
) -> Iterator[tuple[Any, str, int]]:
    """The objects that code refers to by names of others, such as `np.random.normal`: value, text and line of each.
    `outside` has the global names, `closure` those of the functions around it."""
    closure = {name: value for name, value in closure.items() if name in code.co_freevars}
    chain: tuple[Any, str, int] | None = None
    for instruction in dis.get_instructions(code):
        name, line = instruction.argval, instruction.positions.lineno if instruction.positions else None
        names = closure if instruction.opname == "LOAD_DEREF" else outside
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME") and name in names:
            if chain is not None:
                yield chain
            chain = names[name], name, line or code.co_firstlineno
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and chain is not None and _is_looked_into(chain[0]):
            chain = getattr(chain[0], name, None), f"{chain[1]}.{name}", chain[2]
        elif chain is not None and instruction.opname not in ("CACHE", "PUSH_NULL", "PRECALL"):
            yield chain
            chain = None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _mentioned(constant, outside, closure)


def _is_looked_into(value: Any) -> bool:
    """Whether to look up attributes of a value: yes for modules and for generators of random numbers."""
    return isinstance(value, ModuleType) or _module_of(type(value)).startswith(_DRAWS) or _is_clock(value)


def _is_clock(value: Any) -> bool:
    return isinstance(value, type) and _module_of(value) in _CLOCKS


def _module_of(value: Any) -> str:
    return str(getattr(value, "__module__", "") or "")


def _advice(value: Any) -> str | None:
    """The text to write instead of a call; None for a call that gives the same result each time."""
    if isinstance(value, ModuleType | type) or not callable(value) or getattr(value, "__name__", "") in _HARMLESS:
        return None
    owner = getattr(value, "__self__", None)
    modules = (_module_of(value), _module_of(type(owner)), _module_of(owner) if isinstance(owner, type) else "")
    if any(module == draw or module.startswith(draw + ".") for module in modules for draw in _DRAWS):
        return "draw with sj.random.Stream(seed), or pass the numbers as an argument"
    if any(module in _CLOCKS for module in modules):
        return "measure outside of the function, or pass the time as an argument"
    return None
