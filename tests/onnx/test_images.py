"""Resize and ConvTranspose, against ONNX Runtime, with sizes that are known and with sizes that are not."""

import itertools

import numpy as np
import pytest

import scanjit as sj
import scanjit.onnx as sjo
from tests.onnx.support import check, computed, one_node

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1, 2, 7, 9)).astype("float32")
TARGETS = [
    {"scales": [1, 1, 2, 2]},
    {"scales": [1, 1, 1.5, 0.75]},
    {"scales": [1, 1, 0.5, 0.6]},
    {"sizes": [1, 2, 5, 13]},
]
PLACES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
KINDS = [
    *({"mode": "nearest", "nearest_mode": n} for n in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
    {"mode": "linear"},
    {"mode": "linear", "antialias": 1},
    {"mode": "cubic", "cubic_coeff_a": -0.5},
    {"mode": "cubic", "exclude_outside": 1},
    {"mode": "cubic", "antialias": 1},
]


def resized(x=X, free=False, opset=19, scales=None, sizes=None, roi=None, **attributes):
    """A model of one Resize."""
    constants = {"roi": (roi, np.float32), "scales": (scales, np.float32), "sizes": (sizes, np.int64)}
    constants = {name: np.asarray(value, dtype) for name, (value, dtype) in constants.items() if value is not None}
    order = ["x", *(name if name in constants else "" for name in ("roi", "scales", "sizes"))]
    while not order[-1]:
        order.pop()
    shapes = {"x": [None] * x.ndim} if free else None
    return one_node("Resize", {"x": x}, constants, order=order, shapes=shapes, opset=opset, **attributes)


@pytest.mark.quick(2)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("free", [False, True])
def test_resizing(kind, free):
    for target, place in itertools.product(TARGETS, PLACES):
        if free and "sizes" in target and "antialias" in kind:
            continue
        model = resized(free=free, coordinate_transformation_mode=place, **target, **kind)
        check(model, {"x": X}, 1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_part_of_an_image_and_some_of_its_axes(mode):
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    check(resized(mode=mode, sizes=[1, 2, 5, 5], roi=[0, 0, 0.2, 0.1, 1, 1, 0.9, 1.2], **crop), {"x": X}, 1e-5)
    check(resized(mode=mode, scales=[2, 0.5], axes=[3, 2]), {"x": X}, 1e-5)
    for policy in ("not_larger", "not_smaller"):
        check(resized(mode=mode, sizes=[5, 14], axes=[2, 3], keep_aspect_ratio_policy=policy), {"x": X}, 1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_older_forms(mode):
    scales = {"scales": np.float32([1, 1, 2, 1.5])}
    for op, opset in (("Resize", 10), ("Upsample", 9)):
        check(one_node(op, {"x": X}, scales, opset=opset, mode=mode), {"x": X}, 1e-5)
    whole = RNG.integers(0, 255, (1, 1, 3, 4)).astype("uint8")
    check(resized(whole, scales=[1, 1, 2, 2], coordinate_transformation_mode="asymmetric"), {"x": whole})


def test_a_compiled_resize():
    """Two axes of sizes that are not known, by weights and by nearest entries."""
    for kind in ({"mode": "linear"}, {"mode": "nearest"}):
        model = resized(free=True, scales=[1, 1, 2, 3], **kind)
        np.testing.assert_allclose(computed(model, {"x": X}, "emulate")[0], computed(model, {"x": X})[0], rtol=1e-5)


TRANSPOSED = [
    ((2, 3, 5, 6), (3, 4, 2, 2), {"strides": [2, 2]}),
    ((2, 4, 5, 6), (4, 2, 2, 3), {"strides": [2, 3], "group": 2, "pads": [1, 0, 0, 1]}),
    ((2, 3, 5, 6), (3, 4, 2, 2), {"strides": [2, 2], "output_padding": [1, 0]}),
    ((2, 3, 5, 6), (3, 4, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    ((2, 3, 5, 6), (3, 4, 3, 2), {"strides": [1, 3], "dilations": [2, 1], "pads": [0, 1, 2, 0]}),
    ((2, 4, 5, 6), (4, 2, 3, 3), {"strides": [2, 1], "group": 2, "pads": [1, 1, 1, 1]}),
    ((2, 4, 9), (4, 2, 4), {"strides": [2], "auto_pad": "SAME_UPPER"}),
    ((2, 4, 9), (4, 2, 5), {"strides": [2], "auto_pad": "SAME_LOWER"}),
    ((2, 4, 9), (4, 2, 5), {"strides": [3], "output_shape": [27]}),
    ((2, 4, 9), (4, 2, 2), {"strides": [3], "output_shape": [28]}),
]


@pytest.mark.parametrize("x, w, attributes", TRANSPOSED, ids=str)
@pytest.mark.parametrize("free", [False, True])
def test_transposed_convolutions(x, w, attributes, free):
    x, w = (RNG.normal(size=shape).astype("float32") for shape in (x, w))
    constants = {"w": w, "b": RNG.normal(size=w.shape[1] * attributes.get("group", 1)).astype("float32")}
    shapes = {"x": [None, x.shape[1], *[None] * (x.ndim - 2)]} if free else None
    check(one_node("ConvTranspose", {"x": x}, constants, shapes=shapes, opset=17, **attributes), {"x": x}, 1e-5)


def test_a_compiled_transposed_convolution():
    x, w = RNG.normal(size=(2, 3, 5, 6)).astype("float32"), RNG.normal(size=(3, 4, 3, 3)).astype("float32")
    check(one_node("ConvTranspose", {"x": x}, {"w": w}, strides=[2, 2]), {"x": x}, 1e-5, ("emulate",))


def known(x=X, **attributes):
    return resized(x, **{"scales": [1, 1, 2, 2], **attributes})


@pytest.mark.parametrize(
    "model, error, message",
    [
        (known(mode="best"), sj.FormatError, "no such mode of Resize"),
        (known(coordinate_transformation_mode="best"), sj.FormatError, "no such coordinate_transformation_mode"),
        (known(nearest_mode="best"), sj.FormatError, "no such nearest_mode"),
        (known(scales=[2, 2]), sj.FormatError, "a positive scale for each axis"),
        (known(scales=[1, 1, 0, 2]), sj.FormatError, "a positive scale for each axis"),
        (known(scales=None), sj.FormatError, "lacks both its scales and its sizes"),
        (known(scales=None, sizes=[1, 2]), sj.FormatError, "a size for each axis"),
        (known(scales=[1, 1, np.pi, 1], free=True), sj.NotSupportedError, "no simple fraction"),
        (known(X.astype("int32"), mode="linear"), sj.NotSupportedError, "of integers"),
        (
            one_node("ConvTranspose", {"x": X}, {"w": np.ones((2, 2, 2, 2), "float32")}, output_shape=[20, 20]),
            sj.ShapeError,
            "makes 8 entries at most, not 20",
        ),
        (one_node("ConvTranspose", {"x": X}, {"w": np.ones((3, 2, 2, 2), "float32")}), sj.ShapeError, "another shape"),
        (
            one_node("ConvTranspose", {"x": X}, {"w": np.ones((2, 2, 2, 2), "float32")}, strides=[1]),
            sj.FormatError,
            "an output_padding an axis",
        ),
    ],
)
def test_nodes_that_are_not_valid(model, error, message):
    with pytest.raises(error, match=f"(?s){message}.*the node 'it'"):
        sjo.load(model)
