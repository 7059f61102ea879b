"""The names that a module offers to `import *`."""

from collections.abc import Mapping


def defined(module: Mapping[str, object]) -> list[str]:
    """The public functions and classes that a module defines itself, from its `globals()`.

    Examples
    --------
    >>> from scanjit.tensor import names
    >>> defined(vars(names))
    ['defined']
    """
    own = (name for name, value in module.items() if getattr(value, "__module__", None) == module["__name__"])
    return [name for name in own if not name.startswith("_")]
