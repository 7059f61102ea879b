"""The precision of layers: they may compute with fewer bits than their parameters have."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import scanjit as sj
from lasagne_like.cells.structure import flatten
from lasagne_like.layers.base import Layer

__all__: list[str] = []


def of_layers(precision: Any, layers: Sequence[Layer]) -> Any:
    """The precision of layers that are computed together: `precision` itself, or its entry for these layers."""
    if not isinstance(precision, Mapping):
        return precision
    found = {precision.get(layer) for layer in layers}
    if len(found) > 1:
        raise ValueError(
            f"the layers {', '.join(map(str, layers))} depend on each other and need the same precision, got "
            f"{', '.join(map(repr, found))}"
        )
    return found.pop()


def check_precision(precision: Any, layers: Sequence[Layer]) -> None:
    """Raise an error unless `precision` is a precision, or a mapping from some of the layers to precisions."""
    if isinstance(precision, Mapping):
        unknown = [key for key in precision if key not in layers]
        if unknown:
            raise ValueError(f"precision has an entry for {unknown[0]!r}, which is not a layer of this network")
    for each in precision.values() if isinstance(precision, Mapping) else [precision]:
        if each not in (None, "bfloat16"):
            raise ValueError(f"the precision of a layer is 'bfloat16' or None, got {each!r}")


def computed(precision: Any, layers: Sequence[Layer], compute: Callable[..., Any], given: Sequence[Any]) -> Any:
    """`compute(*given)` in the precision of some layers. The updates of these layers have this precision, too."""
    wanted = of_layers(precision, layers)
    if wanted is None:
        return compute(*given)
    before = [layer.updates.copy() for layer in layers]
    changed: list[tuple[Layer, sj.SharedVariable]] = []

    def outputs(*given: Any) -> Any:
        found = compute(*given)
        for layer, known in zip(layers, before, strict=True):
            changed.extend(
                (layer, variable) for variable, new in layer.updates.items() if known.get(variable) is not new
            )
        return found, [layer.updates[variable] for layer, variable in changed]

    found, updates = sj.mixed(outputs, weights=wanted, stored=wanted)(*given)
    for layer, output in zip(layers, found, strict=True):
        if layer.params and any(leaf.dtype == "float64" for leaf in flatten(output)):
            raise ValueError(
                f"precision={wanted!r} is for layers of float32, but {layer} computes in float64: set "
                "scanjit.config.floatX = 'float32' before the layers and their inputs are made"
            )
    for (layer, variable), new in zip(changed, updates, strict=True):
        layer.updates[variable] = new
    return found
