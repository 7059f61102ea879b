"""Layers that compute with fewer bits than their parameters have."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import scanjit as sj
from lasagne_like.layers.base import Layer

__all__: list[str] = []


def of_layers(precision: Any, layers: Sequence[Layer]) -> Any:
    """What some layers that are computed together compute in: `precision` itself, or its entry for them."""
    if not isinstance(precision, Mapping):
        return precision
    found = {precision.get(layer) for layer in layers}
    if len(found) > 1:
        raise ValueError(f"layers that depend on each other have one precision: {', '.join(map(str, layers))}")
    return found.pop()


def check_precision(precision: Any, layers: Sequence[Layer]) -> None:
    """Raise an error unless this is a precision, or a mapping of some of the layers to precisions."""
    if isinstance(precision, Mapping):
        unknown = [key for key in precision if key not in layers]
        if unknown:
            raise ValueError(f"a precision is given for what is no layer of the network: {unknown[0]!r}")
    for each in precision.values() if isinstance(precision, Mapping) else [precision]:
        if each not in (None, "bfloat16"):
            raise ValueError(f"the precision of layers is 'bfloat16' or None, not {each!r}")


def computed(precision: Any, layers: Sequence[Layer], compute: Callable[..., Any], given: Sequence[Any]) -> Any:
    """What `compute` makes of what is given, in the precision of some layers. Their updates are computed in it too."""
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
    for (layer, variable), new in zip(changed, updates, strict=True):
        layer.updates[variable] = new
    return found
