"""The parameters of layers and cells, with tags."""

from abc import ABC
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import scanjit as sj
from lasagne_like import utils

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
