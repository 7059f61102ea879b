"""Layers over places (pooling, convolutions, rectifiers...) beside PyTorch: values and gradients, for named sizes,
known sizes and both dtypes; and Lasagne's peculiarities beside plain loops."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like import layers
from lasagne_like.layers import InputLayer, get_output
from tests.optional import optional

torch, needs_torch = optional("torch")
F, _ = optional("torch.nn.functional")
onnxruntime, needs_onnxruntime = optional("onnxruntime")

normal = lasagne.init.Normal(1.0)


def inverse(layer: Any) -> Any:
    return layers.InverseLayer(layer, layer)


class Case(NamedTuple):
    """A layer of one input, the shape that it is made for, the shape of an input, and what it computes: a function of
    tensors of PyTorch, the input and the layer's parameters."""

    make: Callable[[Any], Any]
    declared: tuple[int | None, ...]
    size: tuple[int, ...]
    oracle: Callable[..., Any]


LINE, PICTURE, VOLUME = (None, 2, None), (None, 2, None, None), (None, 2, None, None, None)
POOLS = {
    "maximum of a line": Case(lambda x: layers.MaxPool1DLayer(x, 3), LINE, (2, 2, 11), lambda x: F.max_pool1d(x, 3)),
    "maximum of a line, overlapping, padded": Case(
        lambda x: layers.MaxPool1DLayer(x, 3, stride=2, pad=1), LINE, (2, 2, 10), lambda x: F.max_pool1d(x, 3, 2, 1)
    ),
    "maximum of a line, to its end": Case(
        lambda x: layers.MaxPool1DLayer(x, 3, stride=2, ignore_border=False),
        (None, 2, 10),
        (2, 2, 10),
        lambda x: F.max_pool1d(x, 3, 2, ceil_mode=True),
    ),
    "mean of a line, with zeros": Case(
        lambda x: layers.Pool1DLayer(x, 4, stride=3, pad=2, mode="average_inc_pad"),
        LINE,
        (2, 2, 10),
        lambda x: F.avg_pool1d(x, 4, 3, 2),
    ),
    "sum of a line": Case(
        lambda x: layers.Pool1DLayer(x, 4, mode="sum"), LINE, (2, 2, 300), lambda x: F.avg_pool1d(x, 4) * 4
    ),
    "maximum of a picture": Case(
        lambda x: layers.MaxPool2DLayer(x, 2), (None, 2, 6, 8), (3, 2, 6, 8), lambda x: F.max_pool2d(x, 2)
    ),
    "maximum of a picture, named sizes": Case(
        lambda x: layers.MaxPool2DLayer(x, (2, 3)), PICTURE, (3, 2, 7, 8), lambda x: F.max_pool2d(x, (2, 3))
    ),
    "maximum of a picture, overlapping": Case(
        lambda x: layers.MaxPool2DLayer(x, 3, stride=(2, 1), pad=(1, 0)),
        PICTURE,
        (3, 2, 7, 8),
        lambda x: F.max_pool2d(x, 3, (2, 1), (1, 0)),
    ),
    "maximum of a picture, far apart": Case(
        lambda x: layers.MaxPool2DLayer(x, 2, stride=3, ignore_border=False),
        PICTURE,
        (1, 2, 7, 9),
        lambda x: F.max_pool2d(x, 2, 3, ceil_mode=True),
    ),
    "mean of a picture": Case(
        lambda x: layers.Pool2DLayer(x, 2, mode="average_inc_pad"), PICTURE, (2, 2, 5, 6), lambda x: F.avg_pool2d(x, 2)
    ),
    "mean of a picture, without zeros": Case(
        lambda x: layers.Pool2DLayer(x, (3, 4), stride=2, pad=(1, 2), mode="average_exc_pad"),
        PICTURE,
        (2, 2, 5, 6),
        lambda x: F.avg_pool2d(x, (3, 4), 2, (1, 2), count_include_pad=False),
    ),
    "mean of a picture, to its end": Case(
        lambda x: layers.Pool2DLayer(x, 3, stride=2, ignore_border=False, mode="average_inc_pad"),
        PICTURE,
        (2, 2, 8, 6),
        lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True),
    ),
    "maximum of a volume": Case(
        lambda x: layers.MaxPool3DLayer(x, (1, 2, 2)), VOLUME, (2, 2, 3, 4, 5), lambda x: F.max_pool3d(x, (1, 2, 2))
    ),
    "mean of a volume": Case(
        lambda x: layers.Pool3DLayer(x, 2, stride=1, pad=1, mode="average_exc_pad"),
        VOLUME,
        (2, 2, 3, 4, 2),
        lambda x: F.avg_pool3d(x, 2, 1, 1, count_include_pad=False),
    ),
    "mean of channels": Case(layers.GlobalPoolLayer, PICTURE, (2, 2, 3, 5), lambda x: x.mean((2, 3))),
    "maximum of channels": Case(
        lambda x: layers.GlobalPoolLayer(x, sj.max), LINE, (2, 2, 7), lambda x: F.adaptive_max_pool1d(x, 1)[..., 0]
    ),
    "pyramid, rounded": Case(
        lambda x: layers.SpatialPyramidPoolingLayer(x, [3, 2, 1], implementation="kaiming"),
        PICTURE,
        (2, 2, 7, 5),
        lambda x: torch.cat([F.adaptive_max_pool2d(x, n).flatten(2) for n in (3, 2, 1)], 2),
    ),
    "pyramid of means, rounded": Case(
        lambda x: layers.SpatialPyramidPoolingLayer(x, [3, 1], "average_exc_pad", "kaiming"),
        (None, 2, 8, 5),
        (2, 2, 8, 5),
        lambda x: torch.cat([F.adaptive_avg_pool2d(x, n).flatten(2) for n in (3, 1)], 2),
    ),
    "pyramid, fast": Case(
        lambda x: layers.SpatialPyramidPoolingLayer(x, [2, 1]),
        PICTURE,
        (2, 2, 6, 5),
        lambda x: torch.cat([F.max_pool2d(x, (3, 3), (3, 2)).flatten(2), x.amax((2, 3))[..., None]], 2),
    ),
    "maxout": Case(
        lambda x: layers.FeaturePoolLayer(x, 3), (None, 6), (4, 6), lambda x: x.reshape(len(x), 2, 3).amax(2)
    ),
    "sums of features, last axis": Case(
        lambda x: layers.FeaturePoolLayer(x, 2, axis=-1, pool_function=sj.sum),
        (None, None, 6),
        (2, 3, 6),
        lambda x: x.reshape(2, 3, 3, 2).sum(3),
    ),
    "the winner takes all": Case(
        lambda x: layers.FeatureWTALayer(x, 3),
        (None, 6, None),
        (2, 6, 4),
        lambda x: torch.where(
            x.reshape(2, 2, 3, 4) == x.reshape(2, 2, 3, 4).amax(2, keepdim=True), x.reshape(2, 2, 3, 4), 0
        ).reshape(2, 6, 4),
    ),
    "repeated line": Case(lambda x: layers.Upscale1DLayer(x, 3), LINE, (2, 2, 4), lambda x: x.repeat_interleave(3, 2)),
    "repeated picture": Case(
        lambda x: layers.Upscale2DLayer(x, (2, 3)),
        PICTURE,
        (2, 2, 4, 5),
        lambda x: x.repeat_interleave(2, 2).repeat_interleave(3, 3),
    ),
    "spread picture": Case(
        lambda x: layers.Upscale2DLayer(x, (1, 2), "dilate"),
        PICTURE,
        (2, 2, 4, 5),
        lambda x: torch.stack([x, torch.zeros_like(x)], 4).flatten(3),
    ),
    "repeated volume": Case(
        lambda x: layers.Upscale3DLayer(x, 2),
        VOLUME,
        (1, 2, 2, 3, 2),
        lambda x: x.repeat_interleave(2, 2).repeat_interleave(2, 3).repeat_interleave(2, 4),
    ),
}
RECTIFIERS = {
    "parametric rectifier": Case(
        lambda x: layers.ParametricRectifierLayer(x, normal), (None, 3, None), (2, 3, 4), lambda x, a: F.prelu(x, a)
    ),
    "one slope": Case(
        lambda x: layers.ParametricRectifierLayer(x, normal, shared_axes="all"),
        (None, 3),
        (2, 3),
        lambda x, a: F.prelu(x, a[None]),
    ),
    "a slope for each column": Case(
        lambda x: layers.ParametricRectifierLayer(x, normal, shared_axes=(0, 1)),
        (None, None, 3),
        (2, 4, 3),
        lambda x, a: torch.where(x > 0, x, x * a),
    ),
    "after a dense layer": Case(
        lambda x: layers.prelu(layers.DenseLayer(x, 4, b=normal), alpha=normal),
        (None, 3),
        (2, 3),
        lambda x, w, b, a: F.prelu(x @ w + b, a),
    ),
}
CONVOLUTIONS = {
    "correlation of a line": Case(
        lambda x: layers.Conv1DLayer(x, 4, 3, stride=2, pad=1, b=normal, flip_filters=False, nonlinearity=None),
        LINE,
        (2, 2, 300),
        lambda x, w, b: F.conv1d(x, w, b, 2, 1),
    ),
    "convolution of a picture": Case(
        lambda x: layers.Conv2DLayer(x, 3, (3, 2), b=normal, nonlinearity=None),
        PICTURE,
        (2, 2, 6, 5),
        lambda x, w, b: F.conv2d(x, w.flip(2, 3), b),
    ),
    "correlation of a picture": Case(
        lambda x: layers.Conv2DLayer(x, 3, 3, pad="same", b=normal, flip_filters=False),
        PICTURE,
        (2, 2, 6, 5),
        lambda x, w, b: F.conv2d(x, w, b, padding=1).relu(),
    ),
    "strided, full": Case(
        lambda x: layers.Conv2DLayer(x, 3, (3, 4), stride=(2, 3), pad="full", b=None, flip_filters=False),
        PICTURE,
        (2, 2, 6, 8),
        lambda x, w: F.conv2d(x, w, None, (2, 3), (2, 3)).relu(),
    ),
    "strided, known sizes": Case(
        lambda x: layers.Conv2DLayer(x, 3, 5, stride=2, pad=(2, 1), b=None, flip_filters=False, nonlinearity=None),
        (None, 2, 10, 9),
        (2, 2, 10, 9),
        lambda x, w: F.conv2d(x, w, None, 2, (2, 1)),
    ),
    "strided over less than the stride": Case(
        lambda x: layers.Conv2DLayer(x, 3, (1, 2), stride=(2, 3), b=None, flip_filters=False, nonlinearity=None),
        PICTURE,
        (2, 2, 6, 9),
        lambda x, w: F.conv2d(x, w, None, (2, 3)),
    ),
    "groups, untied": Case(
        lambda x: layers.Conv2DLayer(
            x, 4, 2, stride=2, untie_biases=True, b=normal, flip_filters=False, num_groups=2, nonlinearity=None
        ),
        (None, 6, 5, 4),
        (2, 6, 5, 4),
        lambda x, w, b: F.conv2d(x, w, None, 2, groups=2) + b,
    ),
    "correlation of a volume": Case(
        lambda x: layers.Conv3DLayer(x, 3, 2, stride=(1, 2, 1), pad=(1, 0, 1), b=normal, flip_filters=False),
        VOLUME,
        (2, 2, 3, 4, 5),
        lambda x, w, b: F.conv3d(x, w, b, (1, 2, 1), (1, 0, 1)).relu(),
    ),
    "dilated": Case(
        lambda x: layers.DilatedConv2DLayer(x, 3, (3, 2), dilation=(2, 3), b=normal, nonlinearity=None),
        PICTURE,
        (2, 2, 8, 7),
        lambda x, w, b: F.conv2d(x, w.swapaxes(0, 1), b, dilation=(2, 3)),
    ),
    "transposed": Case(
        lambda x: layers.TransposedConv2DLayer(x, 3, (3, 2), b=normal, flip_filters=True, nonlinearity=None),
        PICTURE,
        (2, 2, 4, 5),
        lambda x, w, b: F.conv_transpose2d(x, w, b),
    ),
    "transposed, flipped": Case(
        lambda x: layers.Deconv2DLayer(x, 3, 3, stride=(2, 1), b=None),
        PICTURE,
        (2, 2, 4, 5),
        lambda x, w: F.conv_transpose2d(x, w.flip(2, 3), None, (2, 1)).relu(),
    ),
    "transposed, cropped": Case(
        lambda x: layers.TransposedConv2DLayer(x, 3, 5, stride=(3, 2), crop="same", b=normal, flip_filters=True),
        (None, 2, 4, 3),
        (2, 2, 4, 3),
        lambda x, w, b: F.conv_transpose2d(x, w, b, (3, 2), 2).relu(),
    ),
    "transposed, full": Case(
        lambda x: layers.TransposedConv2DLayer(x, 3, 3, crop="full", b=None, flip_filters=True, nonlinearity=None),
        PICTURE,
        (2, 2, 5, 6),
        lambda x, w: F.conv_transpose2d(x, w, None, 1, 2),
    ),
    "transposed, of a size, untied": Case(
        lambda x: layers.TransposedConv2DLayer(
            x, 3, 3, stride=2, untie_biases=True, b=normal, flip_filters=True, output_size=(10, 9), nonlinearity=None
        ),
        PICTURE,
        (2, 2, 4, 4),
        lambda x, w, b: F.conv_transpose2d(x, w, None, 2, 0, (1, 0)) + b,
    ),
    "transposed, side by side": Case(
        lambda x: layers.TransposedConv2DLayer(x, 3, 2, stride=2, b=None, flip_filters=True, nonlinearity=None),
        PICTURE,
        (2, 2, 4, 5),
        lambda x, w: F.conv_transpose2d(x, w, None, 2),
    ),
    "transposed, less than the stride": Case(
        lambda x: layers.TransposedConv2DLayer(x, 3, (1, 2), (2, 3), b=None, flip_filters=True, nonlinearity=None),
        PICTURE,
        (2, 2, 4, 5),
        lambda x, w: F.conv_transpose2d(x, w, None, (2, 3)),
    ),
    "transposed, a volume": Case(
        lambda x: layers.TransposedConv3DLayer(x, 3, 2, stride=(1, 2, 2), crop=(1, 0, 0), flip_filters=True),
        VOLUME,
        (2, 2, 3, 2, 3),
        lambda x, w, b: F.conv_transpose3d(x, w, b, (1, 2, 2), (1, 0, 0)).relu(),
    ),
}


def local(x: Any, w: Any) -> Any:
    """Filters that differ from place to place: a sum over the entries of windows."""
    seen = F.unfold(x, 3, padding=1).reshape(*x.shape[:2], 3, 3, *x.shape[2:])
    return torch.einsum("bckluv,ockluv->bouv", seen, w)


OTHERS = {
    "local response normalization": Case(
        lambda x: layers.LocalResponseNormalization2DLayer(x, alpha=0.1, k=1.5, n=3),
        (None, 6, None, None),
        (2, 6, 3, 4),
        lambda x: F.local_response_norm(x, 3, alpha=0.3, beta=0.75, k=1.5),
    ),
    "more neighbours than channels": Case(
        layers.LocalResponseNormalization2DLayer,
        PICTURE,
        (2, 2, 3, 4),
        lambda x: F.local_response_norm(x, 5, alpha=5e-4, beta=0.75, k=2.0),
    ),
    "locally connected": Case(
        lambda x: layers.LocallyConnected2DLayer(x, 4, 3, W=normal, b=normal, flip_filters=False, untie_biases=True),
        (None, 2, 5, 4),
        (2, 2, 5, 4),
        lambda x, w, b: (local(x, w) + b).relu(),
    ),
    "locally connected, flipped": Case(
        lambda x: layers.LocallyConnected2DLayer(x, 4, 3, W=normal, b=None, nonlinearity=None),
        (None, 2, 5, 4),
        (2, 2, 5, 4),
        lambda x, w: local(x, w.flip(2, 3)),
    ),
    "locally connected, channel by channel": Case(
        lambda x: layers.LocallyConnected2DLayer(
            x, 2, 3, W=normal, b=None, flip_filters=False, channelwise=True, nonlinearity=None
        ),
        (None, 2, 5, 4),
        (2, 2, 5, 4),
        lambda x, w: local(x, torch.eye(2, dtype=x.dtype)[:, :, None, None, None, None] * w[:, None]),
    ),
    "backwards through a convolution": Case(
        lambda x: inverse(layers.Conv2DLayer(x, 3, 3, stride=2, b=None, flip_filters=False, nonlinearity=None)),
        (None, 2, 7, 9),
        (2, 2, 7, 9),
        lambda x, w: F.conv_transpose2d(F.conv2d(x, w, None, 2), w, None, 2),
    ),
    "backwards through a dense layer": Case(
        lambda x: inverse(layers.DenseLayer(x, 4, b=normal)),
        (None, 3),
        (2, 3),
        lambda x, w, b: torch.where(x @ w + b > 0, x @ w + b, 0) @ w.T,
    ),
    "backwards through a maximum": Case(
        lambda x: inverse(layers.MaxPool2DLayer(x, 2)),
        PICTURE,
        (2, 2, 4, 6),
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    ),
}
CASES = POOLS | RECTIFIERS | CONVOLUTIONS | OTHERS


@needs_torch
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.config, "floatX", dtype)
    case = CASES[name]
    x = sj.tensor(case.declared, dtype)
    layer = case.make(InputLayer(case.declared, x))
    params = layers.get_all_params(layer)
    y = get_output(layer)
    weight = sj.cos(sj.arange(y.size, dtype=dtype)).reshape(y.shape)
    outputs = [y, *sj.grad((y * weight).sum(), [x, *params])]
    f = sj.function([x], outputs, mode="emulate" if dtype == "float32" else "reference")
    given = np.random.default_rng(3).normal(size=case.size).astype(dtype)
    found = f(given)
    inputs = [torch.from_numpy(value).requires_grad_() for value in (given, *(p.get_value() for p in params))]
    wanted = case.oracle(*inputs)
    (wanted * torch.cos(torch.arange(wanted.numel(), dtype=wanted.dtype)).reshape(wanted.shape)).sum().backward()
    assert found[0].shape == wanted.shape
    assert lasagne.utils.fits(layer.output_shape, found[0].shape)
    assert layers.get_output_shape(layer, {layers.get_all_layers(layer)[0]: case.size}) == found[0].shape
    close = {"rtol": 1e-9, "atol": 1e-11} if dtype == "float64" else {"rtol": 2e-4, "atol": 2e-5}
    np.testing.assert_allclose(found[0], wanted.detach().numpy(), **close)
    for own, theirs in zip(found[1:], inputs, strict=True):
        assert own.dtype == dtype
        np.testing.assert_allclose(own, theirs.grad.numpy(), **close)


@pytest.mark.quick(14)
@pytest.mark.parametrize("name", CASES)
def test_layers_are_shown_and_saved(name: str) -> None:
    case = CASES[name]
    layer = case.make(InputLayer(case.declared))
    assert type(layer).__name__ in repr(layer)
    assert type(layer).__name__ in str(layers.summary(layer))
    f = sj.function([layers.get_all_layers(layer)[0].input_var], get_output(layer), mode="reference")
    x = np.random.default_rng(3).normal(size=case.size)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(f))(x), f(x))


@needs_torch
@pytest.mark.parametrize("border_mode", ["nearest", "mirror"])
@pytest.mark.parametrize("factor", [1, (2, 0.5)])
@pytest.mark.parametrize("declared", [(None, 2, 6, 5), (None, 2, None, None)])
def test_pictures_are_moved(
    border_mode: str, factor: Any, declared: tuple[int | None, ...], rng: np.random.Generator
) -> None:
    l_in, l_places = InputLayer(declared), InputLayer((None, 6))
    layer = layers.TransformerLayer(l_in, l_places, factor, border_mode)
    x, places = rng.normal(size=(3, 2, 6, 5)), rng.normal(size=(3, 6)) + np.array([1.0, 0, 0, 0, 1, 0])
    y = get_output(layer)
    weight = sj.cos(sj.arange(y.size, dtype="float64")).reshape(y.shape)
    slopes = sj.grad((y * weight).sum(), [l_in.input_var, l_places.input_var])
    f = sj.function([l_in.input_var, l_places.input_var], [y, *slopes], mode="emulate" if factor == 1 else "reference")
    found = f(x, places)
    tx, tp = (torch.from_numpy(a).requires_grad_() for a in (x, places))
    size = (3, 2, 6, 5) if factor == 1 else (3, 2, 3, 10)
    padding = {"nearest": "border", "mirror": "reflection"}[border_mode]
    grid = F.affine_grid(tp.reshape(3, 2, 3), size, align_corners=True)
    wanted = F.grid_sample(tx, grid, padding_mode=padding, align_corners=True)
    (wanted * torch.cos(torch.arange(wanted.numel(), dtype=wanted.dtype)).reshape(wanted.shape)).sum().backward()
    for own, theirs in zip(found, (wanted.detach(), tx.grad, tp.grad), strict=True):
        np.testing.assert_allclose(own, theirs.numpy(), rtol=1e-8, atol=1e-9)
    assert lasagne.utils.fits(layer.output_shape, found[0].shape)


def test_pictures_that_wrap() -> None:
    x = np.arange(24.0).reshape(1, 1, 4, 6)
    layer = layers.TransformerLayer(InputLayer((None, 1, 4, 6)), InputLayer((None, 6)), border_mode="wrap")
    shift = np.array([[1.0, 0, 2 * 2 / 5, 0, 1, -2 / 3]])  # two columns on, one row back
    y = sj.function([], get_output(layer, {layer.input_layers[0]: x, layer.input_layers[1]: shift}), mode="reference")()
    np.testing.assert_allclose(y[0, 0], np.roll(x[0, 0], (1, -2), (0, 1)), atol=1e-9)


def test_places_that_are_no_numbers_read_nothing_outside() -> None:
    for mode in ("nearest", "mirror", "wrap"):
        layer = layers.TransformerLayer(InputLayer((1, 1, 4, 6)), InputLayer((1, 6)), border_mode=mode)
        variables = [one.input_var for one in layer.input_layers]
        f = sj.function(variables, get_output(layer), mode="emulate")
        for value in (np.nan, np.inf, -1e300, 1e19):
            f(np.ones((1, 1, 4, 6)), np.full((1, 6), value))


@pytest.mark.parametrize("known", [True, False])
def test_pictures_are_deformed(known: bool) -> None:
    """A spline that moves nothing gives the picture; one that moves all points alike shifts it; and the picture at a
    control point comes from where that point goes."""
    l_in = InputLayer((None, 1, 5, 5) if known else (None, 1, None, None))
    l_moves = InputLayer((None, 18))
    layer = layers.TPSTransformerLayer(l_in, l_moves, control_points=9)
    assert layer.precompute_grid == known
    f = sj.function([l_in.input_var, l_moves.input_var], get_output(layer), mode="reference")
    x = np.random.default_rng(1).normal(size=(3, 1, 5, 5))
    moves = np.zeros((3, 2, 9))
    moves[1, 0] = 0.5  # one column on
    moves[2, :, 4] = 0.5, -0.5  # the one in the middle: one column on, one row back
    y = f(x, moves.reshape(3, 18))
    np.testing.assert_allclose(y[0], x[0], atol=1e-9)
    np.testing.assert_allclose(y[1, 0, :, :-1], x[1, 0, :, 1:], atol=1e-9)
    np.testing.assert_allclose(y[2, 0, 2, 2], x[2, 0, 1, 3], atol=1e-9)
    for corner in ((0, 0), (0, 4), (4, 2)):
        np.testing.assert_allclose(y[2, 0][corner], x[2, 0][corner], atol=1e-9)
    sj.check_grad(
        lambda m: (sj.cos(sj.arange(25.0)).reshape((5, 5)) * get_output(layer, {l_in: x[:1], l_moves: m})).sum(),
        [moves[2:].reshape(1, 18) + 0.013],
    )


OPS_OF_ONNX = {
    "maximum of a line, overlapping, padded": "MaxPool",
    "maximum of a picture": "MaxPool",
    "maximum of a volume": "MaxPool",
    "mean of a line, with zeros": "AveragePool",
    "mean of a picture": "AveragePool",
    "correlation of a picture": "Conv",
}


@pytest.mark.quick(14)
@needs_onnxruntime
@pytest.mark.parametrize("name", CASES)
def test_layers_are_exported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.config, "floatX", "float32")
    case = CASES[name]
    x = sj.tensor(case.declared, "float32")
    y = get_output(case.make(InputLayer(case.declared, x)), deterministic=True)
    model = sj.onnx.export(([x], [y]))
    if name in OPS_OF_ONNX:
        assert OPS_OF_ONNX[name] in {node.op_type for node in model.graph.node}
    session = onnxruntime.InferenceSession(model.SerializeToString())
    given = np.random.default_rng(3).normal(size=case.size).astype("float32")
    (found,) = session.run(None, {session.get_inputs()[0].name: given})
    np.testing.assert_allclose(found, sj.function([x], y, mode="reference")(given), rtol=1e-4, atol=1e-5)


def pooled_length(n: int, size: int, stride: int) -> int:
    """The number of windows that begin inside of an axis, and only while the one before does not reach its end."""
    count = 1
    while (count - 1) * stride + size < n and count * stride < n:
        count += 1
    return count


@pytest.mark.parametrize("size", range(1, 5))
@pytest.mark.parametrize("stride", range(1, 6))
def test_windows_to_the_end(size: int, stride: int) -> None:
    x = sj.vector("x")
    rows = layers.InputLayer((None, 1, None), x.dimshuffle("x", "x", 0))
    pooled = get_output(layers.MaxPool1DLayer(rows, size, stride, ignore_border=False))
    f = sj.function([x], pooled[0, 0], mode="reference")
    for n in range(1, 14):
        values = np.random.default_rng(n).normal(size=n)
        count = pooled_length(n, size, stride)
        assert layers.pool_output_length(n, size, stride, ignore_border=False) == count
        np.testing.assert_array_equal(f(values), [values[i * stride :][:size].max() for i in range(count)])


def test_integers_are_pooled() -> None:
    x = np.array([[3, -7, 5, -9, -2]])
    pools = [sj.pool(x, 2, 2, (1, 0), False, mode) for mode in ("max", "sum", "average_exc_pad")]
    largest, total, mean = sj.function([], pools, mode="reference")()
    assert largest.tolist() == [[3, 5, -2]] and largest.dtype == np.int64
    assert total.tolist() == [[3, -2, -11]]
    assert mean.tolist() == [[3, -1, -5.5]]


def test_a_random_slope_lies_between_its_bounds() -> None:
    l_in = InputLayer((None, 3, None))
    layer = layers.rrelu(layers.NonlinearityLayer(l_in, sj.tanh), lower=0.2, upper=0.6, shared_axes=(0,))
    x = -np.ones((2, 3, 50))
    f = sj.function([l_in.input_var], get_output(layer), mode="reference")
    slopes = -f(x)
    assert 0.2 <= slopes.min() < 0.25 and 0.55 < slopes.max() <= 0.6
    np.testing.assert_array_equal(slopes[0], slopes[1])
    assert len(np.unique(slopes)) == 150
    assert (f(x) != -slopes).any()
    kept = sj.function([l_in.input_var], get_output(layer, deterministic=True), mode="reference")
    np.testing.assert_allclose(kept(x), -0.4)
    np.testing.assert_array_equal(kept(-x), 1)
    one = layers.RandomizedRectifierLayer(l_in, shared_axes="all")
    assert len(np.unique(sj.function([l_in.input_var], get_output(one), mode="reference")(x))) == 1


def test_parameters_and_their_tags() -> None:
    layer = layers.prelu(layers.DenseLayer((None, 3), 4, name="dense"), name="slopes")
    assert [str(p.name) for p in layers.get_all_params(layer)] == ["dense.W", "dense.b", "slopes.alpha"]
    assert layers.get_all_params(layer, regularizable=True) == [layer.input_layer.W]
    assert layer.input_layer.nonlinearity is lasagne.nonlinearities.linear
    assert layer.alpha.get_value().tolist() == [0.25] * 4


def test_the_size_of_a_transposed_convolution_may_be_computed() -> None:
    picture, small = InputLayer((None, 1, None, None)), InputLayer((None, 4, None, None))
    x, y = picture.input_var, small.input_var
    for size in (x.shape[2:], sj.shape(x)[2:], sj.stack([sj.as_tensor(n) for n in x.shape[2:]])):
        layer = layers.TransposedConv2DLayer(small, 1, 3, stride=2, crop=1, output_size=size)
        assert layer.output_shape == (None, 1, None, None)
        f = sj.function([x, y], get_output(layer), mode="reference")
        assert f(np.ones((2, 1, 7, 8)), np.ones((2, 4, 4, 4))).shape == (2, 1, 7, 8)
        with pytest.raises(sj.ShapeError, match="conv_transpose for this output_size"):
            f(np.ones((2, 1, 7, 9)), np.ones((2, 4, 4, 4)))


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: layers.MaxPool1DLayer((2, 3), 2), r"MaxPool1DLayer takes.*\(batch, channels, length\), got \(2, 3\)"),
        (lambda: layers.Pool2DLayer((2, 3, 4), 2), r"Pool2DLayer takes.*\(batch, channels, rows, columns\)"),
        (lambda: layers.Pool3DLayer((2, 3, 4, 5), 2), r"\(batch, channels, depth, rows, columns\)"),
        (lambda: layers.Pool2DLayer((2, 3, 4, 5), (1, 2, 3)), "2 of them, got 3"),
        (lambda: layers.Pool1DLayer((2, 3, 4), 0), "Pool1DLayer.*windows and strides of 1 or more.*pool_size=0"),
        (lambda: layers.Pool1DLayer((2, 3, 4), 2, pad=2), "Pool1DLayer.*smaller than its windows, got 2 for 2"),
        (lambda: layers.Pool1DLayer((2, 3, 4), 2, pad=1, ignore_border=False), "only with ignore_border=True"),
        (lambda: layers.Pool1DLayer((2, 3, 4), 2, mode="mean"), "mode of.*Pool1DLayer.*got 'mean'"),
        (lambda: layers.MaxPool2DLayer((2, 3, 4, 5), 6), r"output_shape=\(2, 3, 0, 0\)"),
        (lambda: layers.Upscale1DLayer((2, 3, 4), 0), "scale_factor of.*Upscale1DLayer.*got 0"),
        (lambda: layers.Upscale2DLayer((2, 3, 4, 5), 2, "linear"), "one of 'repeat', 'dilate', got 'linear'"),
        (
            lambda: layers.FeaturePoolLayer((2, 5), 2),
            r"pool_size of.*FeaturePoolLayer.*axis 1 of its input \(2, 5\), got 2",
        ),
        (lambda: layers.FeatureWTALayer((2, 4), 2, axis=2), r"axis of <FeatureWTALayer>.* \(2, 4\), got 2"),
        (lambda: layers.GlobalPoolLayer((2, 4)), r"GlobalPoolLayer.*\(2, 4\)"),
        (lambda: layers.SpatialPyramidPoolingLayer((2, 4, 5)), "SpatialPyramidPoolingLayer takes"),
        (lambda: layers.SpatialPyramidPoolingLayer((2, 4, 5, 5), [0]), r"pool_dims of.*got \[0\]"),
        (lambda: layers.SpatialPyramidPoolingLayer((2, 4, 5, 5), implementation="slow"), "one of 'fast', 'kaiming'"),
        (lambda: layers.SpatialPyramidPoolingLayer((2, 4, 5, 5), mode="sum"), "got 'sum'"),
        (lambda: layers.Conv2DLayer((None, 3, None), 4, 3), r"Conv2DLayer takes.*got \(None, 3, None\)"),
        (lambda: layers.Conv2DLayer((2, None, 5, 5), 4, 3), "Conv2DLayer.*fixed number of channels"),
        (lambda: layers.Conv2DLayer((2, 3, 5, 5), 4, 0), "Conv2DLayer.*filters and strides of 1 or more"),
        (lambda: layers.Conv2DLayer((2, 3, 5, 5), 4, 3, pad=-1), "Conv2DLayer.*got -1"),
        (lambda: layers.Conv2DLayer((2, 3, 5, 5), 4, 3, pad="half"), "pad of.*Conv2DLayer.*'half'"),
        (lambda: layers.Conv2DLayer((2, 3, 5, 5), 4, (3, 4), pad="same"), "Conv2DLayer.*odd filter_size, got 3, 4"),
        (lambda: layers.Conv2DLayer((2, 3, 5, 5), 4, 7), r"Conv2DLayer.*output_shape=\(2, 4, -1, -1\)"),
        (lambda: layers.Conv2DLayer((2, 3, None, 5), 4, 3, untie_biases=True), "untied biases need fixed sizes"),
        (lambda: layers.DilatedConv2DLayer((2, 3, 5, 5), 4, 3, pad=1), "pad of <DilatedConv2DLayer.* must be 0, got 1"),
        (lambda: layers.DilatedConv2DLayer((2, 3, 5, 5), 4, 3, flip_filters=True), "flip_filters must be False"),
        (lambda: layers.DilatedConv2DLayer((2, 3, 5, 5), 4, 3, dilation=0), "dilation of.*got 0"),
        (lambda: layers.TransposedConv2DLayer((2, 3, 5, 5), 4, 3, output_size=(1, 2, 3)), "2 of them, got 3"),
        (lambda: layers.TransposedConv2DLayer((2, 3, 5), 4, 3), "TransposedConv2DLayer takes"),
        (lambda: layers.ParametricRectifierLayer((2, None), shared_axes=0), r"ParametricRectifierLayer.*\(2, None\)"),
        (lambda: layers.ParametricRectifierLayer((2, 3), shared_axes="both"), "'auto'.*'both'"),
        (lambda: layers.LocallyConnected2DLayer((2, 3, None, 5), 4, 3), "LocallyConnected2DLayer.*fixed sizes"),
        (lambda: layers.LocallyConnected2DLayer((2, 3, 5, 5), 4, 3, stride=2), "needs stride=1 and pad='same'"),
        (
            lambda: layers.LocallyConnected2DLayer((2, 3, 5, 5), 4, 3, channelwise=True),
            "num_filters must be .* 3; got 4",
        ),
        (lambda: layers.LocalResponseNormalization2DLayer((2, 3, 5, 5), n=4), "odd number of channels, got 4"),
        (lambda: layers.LocalResponseNormalization2DLayer((2, 3, 5, 5), n="5"), "n of <Local.*odd number.*got '5'"),
        (lambda: layers.LocalResponseNormalization2DLayer((2, 3, 5, 5), n=3.0), "n of <Local.*got 3.0"),
        (
            lambda: layers.LocalResponseNormalization2DLayer((2, 3, 5, 5), beta=None),
            "beta of <Local.* a number, got None",
        ),
        (lambda: layers.LocalResponseNormalization2DLayer((2, 3, 5)), "LocalResponseNormalization2DLayer takes"),
        (lambda: layers.InverseLayer((2, 3), (2, 3)), r"a layer with one input, got \(2, 3\)"),
        (lambda: layers.InverseLayer((2, 3), layers.ConcatLayer([(2, 3), (2, 3)])), "a layer with one input"),
        (lambda: layers.InverseLayer((2, 3), layers.DenseLayer((2, 3), 4)), r"InverseLayer.*\(2, 3\).*\(2, 4\)"),
        (lambda: layers.TransformerLayer((2, 3, 4), (2, 6)), r"TransformerLayer.*\(2, 3, 4\)"),
        (
            lambda: layers.TransformerLayer((2, 3, 4, 4), (2, 5)),
            r"must have the output shape \(batch, 6\), got \(2, 5\)",
        ),
        (lambda: layers.TransformerLayer((2, 3, 4, 4), (2, 6), 0), "downsample_factor of.*got 0"),
        (lambda: layers.TransformerLayer((2, 3, 4, 4), (2, 6), border_mode="zero"), "'mirror', 'wrap', got 'zero'"),
        (
            lambda: layers.TPSTransformerLayer((2, 3, 4, 4), (2, 32), control_points=15),
            "square number of 4 or more, got 15",
        ),
        (lambda: layers.TPSTransformerLayer((2, 3, 4, 4), (2, 18)), r"must have the output shape \(batch, 32\)"),
        (lambda: layers.TPSTransformerLayer((2, 3, None, 4), (2, 32), precompute_grid=True), "fixed rows and columns"),
        (
            lambda: layers.RandomizedRectifierLayer((2, 3), 0.8, 0.3),
            "RandomizedRectifierLayer.*lower=0.8 and upper=0.3",
        ),
        (lambda: layers.RandomizedRectifierLayer((2, 3), "0.3"), "lower of <Rand.* must be a number, got '0.3'"),
        (lambda: layers.RandomizedRectifierLayer((2, 3), upper=[1, 2]), r"upper of <Rand.* a number, got \[1, 2\]"),
    ],
)
def test_wrong_arguments(make: Callable[[], Any], text: str) -> None:
    with pytest.raises((NotImplementedError, TypeError, ValueError), match=text):
        make()


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda x: sj.pool(x, (2, 2, 2)), "have 3 axes, its input has 2"),
        (lambda x: sj.pool(x, 2, mode="mean"), "mode of pool is unknown"),
        (lambda x: sj.pool(x, 0), "size of pool is a positive int"),
        (lambda x: sj.pool(x, (2, 2), stride=(1, 2, 3)), "stride of pool"),
        (lambda x: sj.pool(x, 2, pad=-1), "pad of pool does not say"),
        (lambda x: sj.pool(x, 2, pad=2), "fewer places than a window covers"),
        (lambda x: sj.pool(x, 9), "reaches over 9 entries"),
        (lambda x: sj.conv_transpose(x, x), "conv_transpose takes images"),
        (lambda x: sj.conv_transpose(x[None], x[None]), "the tensor of filters of conv_transpose"),
        (lambda x: sj.conv_transpose(x[None], x[:, None], output_size=(9, 9)), "output_size of conv_transpose is 1"),
        (lambda x: sj.conv_transpose(x[None], x[:, None], output_size=14), "conv_transpose for this output_size"),
        (lambda x: sj.conv_transpose(x[None], x[:, None], output_size=16), "conv_transpose for this output_size"),
        (lambda x: sj.conv_transpose(x[None], x[:, None], "same"), 'border_mode="same"'),
    ],
)
def test_wrong_pools(call: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(sj.ScanjitError, match=text):
        call(sj.tensor((3, 8)))
