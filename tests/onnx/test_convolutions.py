"""Convolutions over one, two and three axes, against ONNX Runtime, with sizes that are known and with sizes that are
not."""

import numpy as np
import pytest

from tests.onnx.support import check, one_node

SHAPES = {1: (2, 4, 11), 2: (2, 4, 7, 9), 3: (2, 4, 6, 7, 5)}
FILTERS = (3, 2, 3)
WIDE = {"strides": [2, 1, 2], "dilations": [1, 2, 1], "pads": [1, 0, 2, 0, 1, 1]}


def attributes_over(axes, attributes):
    """The attributes of a convolution of volumes, for their first axes."""
    kept = {name: value[:axes] for name, value in attributes.items() if name in ("strides", "dilations")}
    if "pads" in attributes:
        kept["pads"] = [*attributes["pads"][:axes], *attributes["pads"][3 : 3 + axes]]
    return {**attributes, **kept}


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("axes", SHAPES)
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        WIDE,
        {"group": 2, **WIDE},
        {"group": 4, "auto_pad": "VALID"},
        {"auto_pad": "SAME_UPPER"},
        {"auto_pad": "SAME_LOWER"},
    ],
    ids=str,
)
def test_correlations(axes, attributes, free, rng):
    draw = lambda *shape: rng.normal(size=shape).astype("float32")
    x, attributes = draw(*SHAPES[axes]), attributes_over(axes, attributes)
    constants = {"w": draw(8, 4 // attributes.get("group", 1), *FILTERS[:axes]), "b": draw(8)}
    shapes = {"x": [None, 4, *[None] * axes]} if free else None
    check(one_node("Conv", {"x": x}, constants, shapes=shapes, opset=17, **attributes), {"x": x}, 1e-5)


@pytest.mark.parametrize("axes", SHAPES)
def test_compiled_correlations(axes, rng):
    x, w = (rng.normal(size=shape).astype("float32") for shape in (SHAPES[axes], (3, 2, *FILTERS[:axes])))
    w = np.concatenate([w, w[:1]])
    model = one_node("Conv", {"x": x}, {"w": w}, opset=17, group=2, **attributes_over(axes, WIDE))
    check(model, {"x": x}, 1e-5, ("emulate", "numba"))
