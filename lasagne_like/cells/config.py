"""The arguments of cells as values for JSON, for `Cell.get_config` and `Cell.from_config`.

Numbers, strings, None and lists stay as they are. Everything else becomes a dict:

- `{"class_name": ..., "config": {arguments}}` for cells, gates, initializers and nonlinearities with parameters,
- `{"function": name}` for functions,
- `{"tuple": [...]}` for tuples,
- `{"array": [...], "dtype": ...}` for arrays.
"""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like import init, nonlinearities
from lasagne_like.arguments import named
from lasagne_like.cells.gate import Gate
from lasagne_like.shown import NamedFunction, Shown


def encoded(value: Any, what: str) -> Any:
    """A value for JSON. Error messages call it `what`."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": value.dtype.name}
    if type(value) is list:
        return [encoded(item, what) for item in value]
    if type(value) is tuple:
        return {"tuple": [encoded(item, what) for item in value]}
    if hasattr(value, "get_config"):
        return value.get_config()
    if inspect.isclass(value) or inspect.isroutine(value) or isinstance(value, np.ufunc | NamedFunction):
        return {"function": _named(value, what)}
    if isinstance(value, Shown):
        config = {name: encoded(own, what) for name, own in named(value).items()}
        return {"class_name": type(value).__name__, "config": config}
    raise TypeError(
        f"{what} is a {type(value).__name__}, which a config cannot contain: a config has the arguments of a cell, not "
        "the values of parameters. Give an initializer, and set the values afterwards"
    )


def _named(function: Any, what: str) -> str:
    """The name under which `find` finds a function."""
    name = str(getattr(function, "__name__", "<lambda>"))
    for package in (sj, np):
        if getattr(package, name, None) is function:
            return f"{package.__name__}.{name}"
    if "<" in name:
        raise TypeError(
            f"{what} is a function without a name: define it with def, and give it to from_config under this name"
        )
    own = _own().get(name)
    if own is not None and own is not function:
        raise TypeError(
            f"{what} has the name {name!r}, but so has another function of lasagne_like: use that one, or rename yours"
        )
    return name


def decoded(value: Any, known: Mapping[str, Any]) -> Any:
    """The value from which `encoded` made a value for JSON. `known` maps names to further classes and functions."""
    if isinstance(value, list):
        return [decoded(item, known) for item in value]
    if not isinstance(value, Mapping):
        return value
    if "tuple" in value:
        return tuple(decoded(item, known) for item in value["tuple"])
    if "array" in value:
        return np.array(value["array"], value["dtype"])
    if "function" in value:
        return find(value["function"], known)
    if "class_name" in value:
        arguments = {name: decoded(item, known) for name, item in value["config"].items()}
        return find(value["class_name"], known)(**arguments)
    raise ValueError(
        f"cannot read the value {value!r} in a config: expected a number, a string, None, a list, or a dict as "
        "get_config makes it"
    )


def find(name: str, known: Mapping[str, Any]) -> Any:
    """The class or the function with a name."""
    package, _, rest = name.rpartition(".")
    found = known.get(name, _own().get(name))
    if found is None and package == "scanjit" and inspect.isfunction(getattr(sj, rest, None)):
        found = getattr(sj, rest)
    elif found is None and package == "numpy" and isinstance(getattr(np, rest, None), np.ufunc):
        found = getattr(np, rest)
    if found is None:
        raise ValueError(
            f"the config has the name {name!r}, which is not known: give the class or function with "
            f"from_config(config, {{{name!r}: ...}})"
        )
    return found


def _own() -> dict[str, Any]:
    """The classes and functions of lasagne_like that are not cells, by their names."""
    return {
        "Gate": Gate,
        **{name: getattr(init, name) for name in init.__all__},
        **{name: value for name in nonlinearities.__all__ if callable(value := getattr(nonlinearities, name))},
    }


def subclasses(cls: Any) -> Iterator[Any]:
    """A class and all of its subclasses."""
    yield cls
    for child in cls.__subclasses__():
        yield from subclasses(child)
