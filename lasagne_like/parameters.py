"""The parameters of layers and cells, with tags."""

import functools
import inspect
from abc import ABC
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like import checks, utils
from lasagne_like.arguments import plain

__all__ = ["Parametrized"]


class Parametrized(ABC):
    """The base of layers and cells: a name, and parameters with tags.

    Attributes
    ----------
    name : str or None
        The prefix of the names of the parameters ("name.W").
    params : an ordered dict from each parameter to the set of its tags.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> layer = lasagne.layers.DenseLayer((None, 3), 2, name="out")
    >>> isinstance(layer, lasagne.parameters.Parametrized), [p.name for p in layer.params]
    (True, ['out.W', 'out.b'])
    """

    name: str | None
    params: OrderedDict[sj.Node | sj.SharedVariable, set[str]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = _with_checked_arguments(cls.__init__)  # type: ignore[method-assign]

    def add_param(
        self, spec: utils.Parameter, shape: Iterable[int | None], name: str | None = None, **tags: bool
    ) -> sj.SharedVariable:
        """Make a parameter and register it. To be called by subclasses.

        Parameters
        ----------
        spec : initializer (or any callable that takes the shape), array, number, shared variable or expression
            See `lasagne_like.utils.create_param`.
        shape : ints
        name : str, optional
            The name of the owner becomes its prefix.
        **tags : bool
            `trainable` and `regularizable` are True if they are not given.

        Returns
        -------
        SharedVariable, or the expression that was given
            To be kept as an attribute.
        """
        if name is not None and self.name is not None:
            name = f"{self.name}.{name}"
        param: Any = utils.create_param(spec, shape, name)
        tags = {"trainable": True, "regularizable": True, **tags}
        self.params[param] = {tag for tag, value in tags.items() if value}
        return param

    def tagged(self, tags: Mapping[str, bool]) -> list[Any]:
        """The parameters that have (`tag: True`) or lack (`tag: False`) tags, in the order in which they were made."""
        wanted = {tag for tag, value in tags.items() if value}
        unwanted = set(tags) - wanted
        return [param for param, own in self.params.items() if wanted <= own and not unwanted & own]


def _with_checked_arguments(make: Callable[..., None]) -> Callable[..., None]:
    """An `__init__` that gets Python's integers where NumPy's are given. If it is one of this package, values of its
    arguments that are annotated as `int`, `float` or `bool` (or as one of these or None) are checked."""
    ours = make.__module__.partition(".")[0] == __name__.partition(".")[0]
    parameters = list(inspect.signature(make).parameters.values())[1:] if ours else []
    places = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    kinds = {one.name: getattr(one.annotation, "__name__", str(one.annotation)) for one in parameters}
    optional = {name for name, kind in kinds.items() if kind.endswith(" | None")}
    bare = {name: kind.removesuffix(" | None") for name, kind in kinds.items()}
    checks = {name: _CHECKS[kind] for name, kind in bare.items() if kind in _CHECKS}

    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        args = tuple(map(plain, args))
        kwargs = {name: plain(value) for name, value in kwargs.items()}
        for name, value in (*zip(places, args, strict=False), *kwargs.items()):
            if name in checks and not (value is None and name in optional):
                checks[name](type(self).__name__, name, value)
        make(self, *args, **kwargs)

    return __init__


def _check_int(owner: str, name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} of {owner} must be an int, got {value!r}")


def _check_float(owner: str, name: str, value: Any) -> None:
    checks.check_number(owner, value, name, -np.inf)


def _check_bool(owner: str, name: str, value: Any) -> None:
    if not isinstance(value, int | np.bool_) or value not in (0, 1):
        raise ValueError(f"{name} of {owner} must be True or False, got {value!r}")


_CHECKS = {"int": _check_int, "float": _check_float, "bool": _check_bool}
"""The check of an argument, by the name of the type that it is annotated with."""
