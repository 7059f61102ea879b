"""The parameters of layers and cells, with tags."""

import functools
from abc import ABC
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import scanjit as sj
from lasagne_like import utils
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
            cls.__init__ = _with_plain_sizes(cls.__init__)  # type: ignore[method-assign]

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


def _with_plain_sizes(make: Callable[..., None]) -> Callable[..., None]:
    """An `__init__` that gets Python's integers where NumPy's are given."""

    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *map(plain, args), **{name: plain(value) for name, value in kwargs.items()})

    return __init__
