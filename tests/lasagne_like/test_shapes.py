"""The shape that each layer says its output has is the shape of what it computes, if sizes are known and if not."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import cells, layers
from lasagne_like.cells.structure import flatten
from lasagne_like.layers import InputLayer, get_output, get_output_shape

Made = Callable[..., layers.Layer]

LAYERS: dict[str, tuple[Made, list[tuple[int, ...]]]] = {
    "InputLayer": (lambda x: x, [(2, 3)]),
    "DenseLayer": (lambda x: layers.DenseLayer(x, 4, num_leading_axes=2), [(2, 3, 5)]),
    "DenseLayer-all": (lambda x: layers.DenseLayer(x, 4, num_leading_axes=-1), [(2, 3, 5)]),
    "NINLayer": (lambda x: layers.NINLayer(x, 4), [(2, 3, 5)]),
    "FlattenLayer": (lambda x: layers.FlattenLayer(x, 2), [(2, 3, 5)]),
    "ReshapeLayer": (lambda x: layers.ReshapeLayer(x, ([0], -1, 3)), [(2, 3, 4)]),
    "DimshuffleLayer": (lambda x: layers.DimshuffleLayer(x, (2, "x", 0, 1)), [(2, 3, 4)]),
    "PadLayer": (lambda x: layers.PadLayer(x, [(2, 1), 3]), [(2, 3, 4, 5)]),
    "SliceLayer": (lambda x: layers.SliceLayer(x, slice(-2, None), axis=2), [(2, 3, 4)]),
    "SliceLayer-one": (lambda x: layers.SliceLayer(x, -1, axis=0), [(2, 3, 4)]),
    "ConcatLayer": (lambda *x: layers.ConcatLayer(x), [(2, 3), (2, 4)]),
    "ConcatLayer-cropped": (
        lambda *x: layers.ConcatLayer(x, cropping=[None, None, "center"]), [(2, 3, 5), (2, 4, 2)]
    ),
    "ElemwiseMergeLayer": (lambda *x: layers.ElemwiseMergeLayer(x, sj.maximum), [(2, 3), (2, 3)]),
    "ElemwiseSumLayer": (lambda *x: layers.ElemwiseSumLayer(x, [1, -1]), [(2, 3), (2, 3)]),
    "NonlinearityLayer": (layers.NonlinearityLayer, [(2, 3)]),
    "BiasLayer": (layers.BiasLayer, [(2, 3)]),
    "ScaleLayer": (layers.ScaleLayer, [(2, 3, 4)]),
    "ExpressionLayer": (lambda x: layers.ExpressionLayer(x, lambda t: t.sum(1), "auto"), [(2, 3, 4)]),
    "InverseLayer": (lambda x: layers.InverseLayer(*[layers.Pool1DLayer(x, 2)] * 2), [(2, 3, 4)]),
    "ParametricRectifierLayer": (layers.ParametricRectifierLayer, [(2, 3, 4)]),
    "RandomizedRectifierLayer": (layers.RandomizedRectifierLayer, [(2, 3, 4)]),
    "DropoutLayer": (layers.DropoutLayer, [(2, 3)]),
    "GaussianNoiseLayer": (layers.GaussianNoiseLayer, [(2, 3)]),
    "BatchNormLayer": (layers.BatchNormLayer, [(2, 3, 4)]),
    "StandardizationLayer": (layers.StandardizationLayer, [(2, 3, 4)]),
    "LocalResponseNormalization2DLayer": (layers.LocalResponseNormalization2DLayer, [(2, 3, 4, 5)]),
    "EmbeddingLayer": (lambda x: layers.EmbeddingLayer(x, 5, 4), [(2, 3)]),
    "ReverseLayer": (layers.ReverseLayer, [(2, 3, 4)]),
    "PastValueLayer": (lambda x: layers.PastValueLayer(x, 2), [(2, 3, 4)]),
    "FutureValueLayer": (lambda x: layers.FutureValueLayer(x, 2), [(2, 3, 4)]),
    "DelayLayer": (layers.DelayLayer, [(2, 3, 4)]),
    "Conv1DLayer": (lambda x: layers.Conv1DLayer(x, 4, 3, stride=2, pad=1), [(2, 3, 8)]),
    "Conv2DLayer": (lambda x: layers.Conv2DLayer(x, 4, (3, 2), stride=(2, 3), pad="full"), [(2, 3, 8, 7)]),
    "Conv3DLayer": (lambda x: layers.Conv3DLayer(x, 4, (1, 3, 3), pad="same"), [(2, 3, 2, 5, 4)]),
    "DilatedConv2DLayer": (lambda x: layers.DilatedConv2DLayer(x, 4, 2, dilation=(2, 3)), [(2, 3, 6, 7)]),
    "TransposedConv2DLayer": (lambda x: layers.TransposedConv2DLayer(x, 4, 3, 2, crop=1), [(2, 3, 4, 5)]),
    "TransposedConv3DLayer": (lambda x: layers.TransposedConv3DLayer(x, 4, 2, 2), [(2, 3, 2, 3, 4)]),
    "LocallyConnected2DLayer": (lambda x: layers.LocallyConnected2DLayer(x, 4, 3), [(2, 3, 4, 5)]),
    "Pool1DLayer": (lambda x: layers.Pool1DLayer(x, 3, 2, ignore_border=False, mode="sum"), [(2, 3, 8)]),
    "Pool2DLayer": (lambda x: layers.Pool2DLayer(x, (3, 2), pad=(1, 0), mode="average_exc_pad"), [(2, 3, 7, 5)]),
    "Pool3DLayer": (lambda x: layers.Pool3DLayer(x, 2, stride=1), [(2, 3, 2, 3, 4)]),
    "MaxPool1DLayer": (lambda x: layers.MaxPool1DLayer(x, 3, ignore_border=False), [(2, 3, 8)]),
    "MaxPool2DLayer": (lambda x: layers.MaxPool2DLayer(x, 2, pad=1), [(2, 3, 8, 5)]),
    "MaxPool3DLayer": (lambda x: layers.MaxPool3DLayer(x, 2), [(2, 3, 2, 5, 4)]),
    "FeaturePoolLayer": (lambda x: layers.FeaturePoolLayer(x, 2), [(2, 6, 3)]),
    "FeatureWTALayer": (lambda x: layers.FeatureWTALayer(x, 2), [(2, 6, 3)]),
    "GlobalPoolLayer": (layers.GlobalPoolLayer, [(2, 3, 4, 5)]),
    "SpatialPyramidPoolingLayer": (layers.SpatialPyramidPoolingLayer, [(2, 3, 7, 9)]),
    "Upscale1DLayer": (lambda x: layers.Upscale1DLayer(x, 3), [(2, 3, 4)]),
    "Upscale2DLayer": (lambda x: layers.Upscale2DLayer(x, (1, 2), "dilate"), [(2, 3, 4, 5)]),
    "Upscale3DLayer": (lambda x: layers.Upscale3DLayer(x, 2), [(2, 3, 2, 3, 4)]),
    "TransformerLayer": (lambda *x: layers.TransformerLayer(*x, downsample_factor=(0.1, 3)), [(2, 3, 7, 8), (2, 6)]),
    "TPSTransformerLayer": (lambda *x: layers.TPSTransformerLayer(*x, (1, 1.5), 4), [(2, 3, 6, 7), (2, 8)]),
    "RecurrentLayer": (lambda x: layers.RecurrentLayer(x, 4), [(2, 3, 5)]),
    "LSTMLayer": (lambda x: layers.LSTMLayer(x, 4, only_return_final=True), [(2, 3, 5)]),
    "GRULayer": (lambda x: layers.GRULayer(x, 4, return_state=True, time_major=True), [(2, 3, 5)]),
    "CustomRecurrentLayer": (
        lambda x: layers.CustomRecurrentLayer(
            x, layers.DenseLayer(InputLayer((None, 5)), 4),
            layers.DenseLayer(InputLayer((None, 4)), 4),
        ),
        [(2, 3, 5)],
    ),
    "RNNLayer": (lambda x: layers.RNNLayer(x, [cells.LSTM(4), cells.GRU(3)], return_state=True), [(2, 3, 5)]),
    "RNNLayer-convolutions": (lambda x: layers.RNNLayer(x, cells.ConvLSTM1D(4, 3)), [(2, 3, 2, 6)]),
    "SelectLayer": (
        lambda x: layers.SelectLayer(layers.RNNLayer(x, cells.LSTM(4), return_state=True), 1, "cell"), [(2, 3, 5)]
    ),
    "Bidirectional": (lambda x: layers.Bidirectional(layers.LSTMLayer(x, 4, return_state=True)), [(2, 3, 5)]),
    "CudnnLSTMLayer": (lambda x: layers.CudnnLSTMLayer(x, 4, 2, "bidirectional", return_state=True), [(2, 3, 5)]),
    "CudnnGRULayer": (lambda x: layers.CudnnGRULayer(x, 4, 2), [(2, 3, 5)]),
    "SequencerLayer": (lambda x: layers.SequencerLayer(x, lambda row: layers.DenseLayer(row, 4)), [(2, 3, 5)]),
}  # fmt: skip

ABSTRACT = {"Layer", "MergeLayer", "StepLayer"}


def test_no_layer_is_missing() -> None:
    known = {name.partition("-")[0] for name in LAYERS} | ABSTRACT
    public = {n for n, v in vars(layers).items() if inspect.isclass(v) and issubclass(v, layers.Layer)}
    assert {vars(layers)[name].__name__ for name in public if not name.startswith("_")} <= known


def _compare(name: str, given: list[tuple[int, ...]], shapes: list[Any]) -> None:
    make, _ = LAYERS[name]
    kind = "int64" if name == "EmbeddingLayer" else sj.config.floatX
    inputs = [InputLayer(shape, sj.tensor(shape, kind)) for shape in shapes]
    layer = make(*inputs)
    outputs = flatten(get_output(layer))
    values = [np.ones(shape, kind) for shape in given]
    found = sj.function([one.input_var for one in inputs], outputs, mode="reference")(*values)
    real = [value.shape for value in found]
    assert flatten(get_output_shape(layer, dict(zip(inputs, given, strict=True)))) == real
    for said, shape, output in zip(flatten(layer.output_shape), real, outputs, strict=True):
        assert len(said) == len(shape)
        for size, own, known in zip(said, shape, output.shape, strict=True):
            assert size in (None, own)
            assert not isinstance(known, int) or known == own


@pytest.mark.parametrize("name", LAYERS)
def test_known_sizes(name: str) -> None:
    _compare(name, LAYERS[name][1], LAYERS[name][1])


@pytest.mark.parametrize("name", LAYERS)
def test_unknown_sizes(name: str) -> None:
    """As many sizes are unknown as the layer takes. Batches have 2 and 1 items, and 0 if the layer can do that."""
    make, given = LAYERS[name]
    shapes = [list(shape) for shape in given]
    for shape in shapes:
        for axis, size in enumerate(shape):
            shape[axis] = None  # type: ignore[call-overload]
            try:
                make(*(InputLayer(one) for one in shapes))
            except ValueError:
                shape[axis] = size
    assert all(shape[0] is None for shape in shapes)
    for batch in (2, 1) if name in ("ReshapeLayer", "SliceLayer-one") else (2, 1, 0):
        _compare(name, [(batch, *shape[1:]) for shape in given], shapes)
