"""Every layer: its output against NumPy, and its shape against the real one, for several sizes and both dtypes."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like import layers, nonlinearities
from lasagne_like.layers import InputLayer, get_output


class Case(NamedTuple):
    """A layer, the shapes that it is made for, and what it computes: `oracle(layer, *arrays)`."""

    make: Callable[..., Any]
    declared: Sequence[tuple[int | None, ...]]
    oracle: Callable[..., np.ndarray]
    sizes: Sequence[Sequence[tuple[int, ...]]]  # shapes of inputs to run with
    integers: bool = False


def value(param: Any) -> np.ndarray:
    return param.get_value()


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def standardized(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-4)


def normalized(layer: Any, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    gamma, beta = (np.expand_dims(value(p), axes) for p in (layer.gamma, layer.beta))
    return standardized(x, axes) * gamma + beta


def center(x: np.ndarray, axis: int, size: int) -> np.ndarray:
    start = (x.shape[axis] - size) // 2
    return x.take(range(start, start + size), axis)


normal = lasagne.init.Normal(1.0)
any2, any3 = ((None, 3),), ((None, None, 3),)
CASES = {
    "dense": Case(
        lambda x: layers.DenseLayer(x, 4, W=normal, b=normal),
        any2,
        lambda l, x: relu(x @ value(l.W) + value(l.b)),
        [[(1, 3)], [(5, 3)]],
    ),
    "dense, flattening": Case(
        lambda x: layers.DenseLayer(x, 4, W=normal, b=None, nonlinearity=None),
        ((None, 2, 3),),
        lambda l, x: x.reshape(-1, 6) @ value(l.W),
        [[(5, 2, 3)]],
    ),
    "dense, two leading axes": Case(
        lambda x: layers.DenseLayer(x, 4, W=normal, nonlinearity=nonlinearities.tanh, num_leading_axes=2),
        any3,
        lambda l, x: np.tanh(x @ value(l.W)),
        [[(2, 5, 3)], [(1, 7, 3)]],
    ),
    "dense, last axis": Case(
        lambda x: layers.DenseLayer(x, 4, W=normal, b=normal, num_leading_axes=-1),
        ((None, 2, None, 3),),
        lambda l, x: relu(x @ value(l.W) + value(l.b)),
        [[(2, 2, 4, 3)]],
    ),
    "dense, no leading axes": Case(
        lambda x: layers.DenseLayer(x, 4, W=normal, num_leading_axes=0),
        ((2, 3),),
        lambda l, x: relu(x.ravel() @ value(l.W)),
        [[(2, 3)]],
    ),
    "network in network": Case(
        lambda x: layers.NINLayer(x, 5, W=normal, b=normal, nonlinearity=None),
        ((None, 3, None, 2),),
        lambda l, x: np.einsum("bcij,cf->bfij", x, value(l.W)) + value(l.b)[:, None, None],
        [[(2, 3, 4, 2)]],
    ),
    "network in network, untied": Case(
        lambda x: layers.NINLayer(x, 5, untie_biases=True, W=normal, b=normal),
        ((None, 3, 4, 2),),
        lambda l, x: relu(np.einsum("bcij,cf->bfij", x, value(l.W)) + value(l.b)),
        [[(2, 3, 4, 2)]],
    ),
    "network in network on vectors": Case(
        lambda x: layers.NINLayer(x, 5, W=normal, b=None), any2, lambda l, x: relu(x @ value(l.W)), [[(4, 3)]]
    ),
    "embedding": Case(
        lambda x: layers.EmbeddingLayer(x, 7, 4),
        ((None, None),),
        lambda l, x: value(l.W)[x],
        [[(2, 5)], [(1, 1)]],
        integers=True,
    ),
    "dropout, turned off": Case(lambda x: layers.DropoutLayer(x, p=0), any2, lambda l, x: x, [[(2, 3)]]),
    "noise, turned off": Case(lambda x: layers.GaussianNoiseLayer(x, sigma=0), any2, lambda l, x: x, [[(2, 3)]]),
    "flatten": Case(layers.FlattenLayer, ((None, 2, 3, 4),), lambda l, x: x.reshape(len(x), -1), [[(5, 2, 3, 4)]]),
    "flatten, unknown": Case(
        lambda x: layers.FlattenLayer(x, outdim=2),
        ((2, None, 3),),
        lambda l, x: x.reshape(2, -1),
        [[(2, 5, 3)], [(2, 1, 3)]],
    ),
    "flatten to a vector": Case(
        lambda x: layers.FlattenLayer(x, outdim=1), ((2, 3),), lambda l, x: x.ravel(), [[(2, 3)]]
    ),
    "reshape": Case(
        lambda x: layers.ReshapeLayer(x, ([0], [1], 5, -1)),
        ((None, 4, 20),),
        lambda l, x: x.reshape(len(x), 4, 5, 4),
        [[(3, 4, 20)]],
    ),
    "reshape, two unknown": Case(
        lambda x: layers.ReshapeLayer(x, (-1, [2])), any3, lambda l, x: x.reshape(-1, 3), [[(2, 5, 3)], [(4, 1, 3)]]
    ),
    "reshape, fixed": Case(
        lambda x: layers.ReshapeLayer(x, (3, 4)), ((2, 6),), lambda l, x: x.reshape(3, 4), [[(2, 6)]]
    ),
    "reshape, symbolic": Case(
        lambda x: layers.ReshapeLayer(x, (sj.constant(3), -1)),
        ((None, 6),),
        lambda l, x: x.reshape(3, -1),
        [[(2, 6)], [(1, 6)]],
    ),
    "dimshuffle": Case(
        lambda x: layers.DimshuffleLayer(x, (2, "x", 0, 1)),
        any3,
        lambda l, x: x.transpose(2, 0, 1)[:, None],
        [[(2, 5, 3)]],
    ),
    "dimshuffle, dropping": Case(
        lambda x: layers.DimshuffleLayer(x, (2, 0)), ((None, 1, 3),), lambda l, x: x[:, 0].T, [[(2, 1, 3)]]
    ),
    "pad": Case(
        lambda x: layers.PadLayer(x, 2),
        ((None, 3, 4, None),),
        lambda l, x: np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2))),
        [[(2, 3, 4, 5)]],
    ),
    "pad, each axis": Case(
        lambda x: layers.PadLayer(x, [1, (0, 3)], val=7, batch_ndim=1),
        any3,
        lambda l, x: np.pad(x, ((0, 0), (1, 1), (0, 3)), constant_values=7),
        [[(2, 4, 3)]],
    ),
    "slice, one entry": Case(
        lambda x: layers.SliceLayer(x, -1, axis=1), any3, lambda l, x: x[:, -1], [[(2, 5, 3)], [(2, 1, 3)]]
    ),
    "slice, a part": Case(
        lambda x: layers.SliceLayer(x, slice(-2, None)), any3, lambda l, x: x[..., -2:], [[(2, 5, 3)]]
    ),
    "slice, part of an unknown axis": Case(
        lambda x: layers.SliceLayer(x, slice(1, None, 2), axis=-2),
        any3,
        lambda l, x: x[:, 1::2],
        [[(2, 5, 3)], [(2, 1, 3)]],
    ),
    "concatenate": Case(
        lambda *xs: layers.ConcatLayer(xs),
        ((None, 3), (None, None), (None, 2)),
        lambda l, *xs: np.concatenate(xs, 1),
        [[(4, 3), (4, 5), (4, 2)]],
    ),
    "concatenate, last axis": Case(
        lambda *xs: layers.ConcatLayer(xs, axis=-1),
        ((None, None, 3), (None, 5, 2)),
        lambda l, *xs: np.concatenate(xs, -1),
        [[(4, 5, 3), (4, 5, 2)]],
    ),
    "concatenate, cropping": Case(
        lambda *xs: layers.ConcatLayer(xs, axis=1, cropping=["lower", "lower", "center"]),
        ((None, 3, 8), (None, 2, 5)),
        lambda l, x, y: np.concatenate([center(x, 2, 5)[: min(len(x), len(y))], y[: len(x)]], 1),
        [[(4, 3, 8), (4, 2, 5)], [(4, 3, 8), (2, 2, 5)], [(1, 3, 8), (2, 2, 5)]],
    ),
    "sum": Case(
        lambda *xs: layers.ElemwiseSumLayer(xs), any2 * 3, lambda l, *xs: xs[0] + xs[1] + xs[2], [[(2, 3)] * 3]
    ),
    "sum, coefficients": Case(
        lambda *xs: layers.ElemwiseSumLayer(xs, coeffs=[2, -1]), any2 * 2, lambda l, x, y: 2 * x - y, [[(2, 3)] * 2]
    ),
    "sum, one coefficient": Case(
        lambda *xs: layers.ElemwiseSumLayer(xs, coeffs=0.5), any2 * 2, lambda l, x, y: (x + y) / 2, [[(2, 3)] * 2]
    ),
    "merge": Case(
        lambda *xs: layers.ElemwiseMergeLayer(xs, sj.maximum),
        ((None, 3), (4, None)),
        lambda l, x, y: np.maximum(x, y),
        [[(4, 3), (4, 3)]],
    ),
    "merge, cropping": Case(
        lambda *xs: layers.ElemwiseMergeLayer(xs, sj.multiply, cropping=[None, "upper"]),
        ((None, None), (None, None)),
        lambda l, x, y: x[:, -min(x.shape[1], y.shape[1]) :] * y[:, -min(x.shape[1], y.shape[1]) :],
        [[(4, 3), (4, 5)], [(4, 6), (4, 5)]],
    ),
    "nonlinearity": Case(
        lambda x: layers.NonlinearityLayer(x, nonlinearities.tanh), any3, lambda l, x: np.tanh(x), [[(2, 5, 3)]]
    ),
    "no nonlinearity": Case(lambda x: layers.NonlinearityLayer(x, None), any2, lambda l, x: x, [[(2, 3)]]),
    "bias": Case(
        lambda x: layers.BiasLayer(x, b=normal),
        ((None, 3, None),),
        lambda l, x: x + value(l.b)[:, None],
        [[(2, 3, 4)]],
    ),
    "bias, shared axes": Case(
        lambda x: layers.BiasLayer(x, b=normal, shared_axes=(0, -2)),
        ((None, 3, None, 2),),
        lambda l, x: x + value(l.b)[:, None],
        [[(2, 3, 4, 2)]],
    ),
    "no bias": Case(lambda x: layers.BiasLayer(x, b=None), any2, lambda l, x: x, [[(2, 3)]]),
    "scale": Case(lambda x: layers.ScaleLayer(x, scales=normal), any2, lambda l, x: x * value(l.scales), [[(2, 3)]]),
    "scale, one axis": Case(
        lambda x: layers.ScaleLayer(x, scales=normal, shared_axes=0),
        ((None, 3, 4),),
        lambda l, x: x * value(l.scales),
        [[(2, 3, 4)]],
    ),
    "standardize": Case(
        lambda x: layers.standardize(x, np.arange(3.0), np.array([1.0, 2.0, 4.0])),
        any2,
        lambda l, x: (x - np.arange(3)) / [1, 2, 4],
        [[(2, 3)]],
    ),
    "expression": Case(lambda x: layers.ExpressionLayer(x, lambda x: x**2), any3, lambda l, x: x**2, [[(2, 5, 3)]]),
    "expression, shape found": Case(
        lambda x: layers.ExpressionLayer(x, lambda x: x.mean(-1), output_shape="auto"),
        any3,
        lambda l, x: x.mean(-1),
        [[(2, 5, 3)]],
    ),
    "expression, shape computed": Case(
        lambda x: layers.ExpressionLayer(x, lambda x: x.sum(0), output_shape=lambda shape: shape[1:]),
        any3,
        lambda l, x: x.sum(0),
        [[(2, 5, 3)]],
    ),
    "expression, shape given": Case(
        lambda x: layers.ExpressionLayer(x, lambda x: x.sum(), output_shape=()),
        any3,
        lambda l, x: x.sum(),
        [[(2, 5, 3)]],
    ),
    "batch normalization": Case(
        lambda x: layers.BatchNormLayer(x, beta=normal, gamma=normal),
        any2,
        lambda l, x: normalized(l, x, (0,)),
        [[(6, 3)], [(1, 3)]],
    ),
    "batch normalization of channels": Case(
        lambda x: layers.BatchNormLayer(x, beta=normal, gamma=normal),
        ((None, 3, None),),
        lambda l, x: normalized(l, x, (0, 2)),
        [[(6, 3, 4)]],
    ),
    "batch normalization, axes": Case(
        lambda x: layers.BatchNormLayer(x, axes=(0, 1), beta=normal, gamma=normal),
        any3,
        lambda l, x: normalized(l, x, (0, 1)),
        [[(6, 2, 3)]],
    ),
    "batch normalization, nothing learned": Case(
        lambda x: layers.BatchNormLayer(x, beta=None, gamma=None),
        any2,
        lambda l, x: standardized(x, (0,)),
        [[(6, 3)]],
    ),
    "standardization": Case(layers.StandardizationLayer, any2, lambda l, x: standardized(x, (1,)), [[(2, 3)]]),
    "standardization, spatial": Case(
        layers.StandardizationLayer, ((None, 3, None),), lambda l, x: standardized(x, (2,)), [[(2, 3, 5)]]
    ),
    "standardization, features": Case(
        lambda x: layers.StandardizationLayer(x, axes="features"),
        any3,
        lambda l, x: standardized(x, (1, 2)),
        [[(2, 4, 3)]],
    ),
    "standardization, last axis": Case(
        lambda x: layers.StandardizationLayer(x, axes=-1), any3, lambda l, x: standardized(x, (2,)), [[(2, 4, 3)]]
    ),
    "convolution": Case(
        lambda x: layers.Conv1DLayer(x, 4, 3, W=normal, b=normal),
        ((None, 2, None),),
        lambda l, x: relu(convolved(l, x)),
        [[(3, 2, 8)], [(1, 2, 3)]],
    ),
    "convolution, same": Case(
        lambda x: layers.Conv1DLayer(x, 4, 5, pad="same", W=normal, b=normal, nonlinearity=None),
        ((None, 2, None),),
        lambda l, x: convolved(l, x, 2),
        [[(3, 2, 8)], [(3, 2, 1)]],
    ),
    "convolution, full and strided": Case(
        lambda x: layers.Conv1DLayer(x, 4, 3, stride=2, pad="full", W=normal, b=normal, nonlinearity=None),
        ((None, 2, 9),),
        lambda l, x: convolved(l, x, 2, 2),
        [[(3, 2, 9)]],
    ),
    "convolution, strided": Case(
        lambda x: layers.Conv1DLayer(x, 4, 2, stride=3, pad=1, W=normal, b=normal, nonlinearity=None),
        ((None, 2, None),),
        lambda l, x: convolved(l, x, 1, 3),
        [[(3, 2, 7)], [(3, 2, 8)], [(3, 2, 9)]],
    ),
    "correlation, untied, groups": Case(
        lambda x: layers.Conv1DLayer(
            x, 4, 3, untie_biases=True, W=normal, b=normal, flip_filters=False, num_groups=2, nonlinearity=None
        ),
        ((None, 6, 9),),
        lambda l, x: (
            np.concatenate([correlated(x[:, 3 * g : 3 * g + 3], value(l.W)[2 * g : 2 * g + 2]) for g in (0, 1)], 1)
            + value(l.b)
        ),
        [[(2, 6, 9)]],
    ),
}


def correlated(x: np.ndarray, w: np.ndarray, pad: int = 0, stride: int = 1) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad)))
    size = w.shape[2]
    places = range(0, x.shape[2] - size + 1, stride)
    return np.stack([np.einsum("bck,fck->bf", x[:, :, i : i + size], w) for i in places], -1)


def convolved(layer: Any, x: np.ndarray, pad: int = 0, stride: int = 1) -> np.ndarray:
    return correlated(x, value(layer.W)[:, :, ::-1], pad, stride) + value(layer.b)[:, None]


def built(case: Case, dtype: str) -> tuple[Any, list[Any]]:
    inputs = [sj.tensor(shape, "int32" if case.integers else dtype) for shape in case.declared]
    return case.make(*(InputLayer(s, x) for s, x in zip(case.declared, inputs, strict=True))), inputs


def arrays(case: Case, shapes: Sequence[tuple[int, ...]], dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    if case.integers:
        return [rng.integers(0, 7, shape).astype("int32") for shape in shapes]
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_output_and_shape(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.config, "floatX", dtype)
    case = CASES[name]
    layer, inputs = built(case, dtype)
    f = sj.function(inputs, get_output(layer), mode="reference")
    for shapes in case.sizes:
        values = arrays(case, shapes, dtype)
        result = f(*values)
        assert result.dtype == dtype
        expected = case.oracle(layer, *values)
        np.testing.assert_allclose(result, expected, rtol=1e-10 if dtype == "float64" else 2e-4, atol=1e-5)
        assert len(layer.output_shape) == result.ndim
        assert all(a is None or a == b for a, b in zip(layer.output_shape, result.shape, strict=True))
        given = dict(zip(inputs_of(layer), shapes, strict=True))
        if name != "reshape, symbolic":  # whose sizes are never known
            assert layers.get_output_shape(layer, given) == result.shape


def inputs_of(layer: Any) -> list[Any]:
    return [one for one in layers.get_all_layers(layer) if isinstance(one, InputLayer)]


@pytest.mark.parametrize("name", ["dense", "embedding", "batch normalization", "convolution", "reshape", "pad"])
def test_a_few_layers_compiled(name: str) -> None:
    case = CASES[name]
    layer, inputs = built(case, "float64")
    output = get_output(layer)
    cost = (output**2).sum()
    trained = layer.get_params(trainable=True)
    outputs = [output, *(sj.grad(cost, trained) if trained else [])]
    compiled, reference = (sj.function(inputs, outputs, mode=mode) for mode in ("numba", "reference"))
    for shapes in case.sizes:
        values = arrays(case, shapes, "float64")
        for a, b in zip(compiled(*values), reference(*values), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: layers.DenseLayer((None, None), 3), r"\(None, None\).*num_leading_axes=1$"),
        (lambda: layers.DenseLayer((None, None, 3), 3), "num_leading_axes=1: with num_leading_axes=2"),
        (lambda: layers.DenseLayer((None, 3), 3, num_leading_axes=2), r"num_leading_axes=2.*\(None, 3\)"),
        (lambda: layers.DenseLayer((None, 3), 3, num_leading_axes=-3), "num_leading_axes=-3"),
        (lambda: layers.NINLayer((None, None, 3), 3), r"\(None, None, 3\)"),
        (lambda: layers.NINLayer((None, 3, None), 3, untie_biases=True), r"\(None, 3, None\)"),
        (lambda: layers.FlattenLayer((None, 3), 3), "outdim.*got 3"),
        (lambda: layers.FlattenLayer((None, 3), 0), "outdim.*got 0"),
        (lambda: layers.FlattenLayer((None, 3), "2"), "outdim.*got '2'"),
        (lambda: layers.ReshapeLayer((2, 6), 12), "the shape of <ReshapeLayer> must be a tuple.* got 12"),
        (lambda: layers.DimshuffleLayer((2, 6), 1), "the pattern of <DimshuffleLayer> must be a tuple.* got 1"),
        (lambda: layers.ConcatLayer([(4, 3)], cropping=[None] * 3).output_shape, "got 3 for inputs of 2 dimensions"),
        (lambda: layers.ReshapeLayer((2, 6), (5, -1)), r"\(2, 6\).*\(5, -1\)"),
        (lambda: layers.ReshapeLayer((2, 6), (3, 5)), r"\(2, 6\).*\(3, 5\)"),
        (lambda: layers.ReshapeLayer((2, 6), (2.5, -1)), r"integer scalar expression, got 2.5"),
        (lambda: layers.ReshapeLayer((2, 6), (sj.scalar("s"), -1)), r"integer scalar expression, got <s: float64\(\)>"),
        (lambda: layers.ReshapeLayer((2, 6), (-1, -1)), "may have -1 once"),
        (lambda: layers.ReshapeLayer((2, 6), (0, -1)), "positive or -1"),
        (lambda: layers.ReshapeLayer((2, 6), ([2], -1)), r"input \(2, 6\) has no axis 2"),
        (lambda: layers.ReshapeLayer((2, 6), ([0, 1], -1)), r"\[0, 1\]"),
        (lambda: layers.ReshapeLayer((2, 6), (1.5, -1)), "1.5"),
        (lambda: layers.ReshapeLayer((2, 6), (sj.vector(), -1)), "integer scalar"),
        (lambda: layers.DimshuffleLayer((2, 6), (0, 0)), "once"),
        (lambda: layers.DimshuffleLayer((2, 6), (0, 2)), r"has axis 2, but the input has shape \(2, 6\)"),
        (lambda: layers.DimshuffleLayer((2, 6), (0,)), r"axis 1.*\(2, 6\)"),
        (lambda: layers.DimshuffleLayer((2, 6), (0, 1, "y")), "'x'"),
        (lambda: layers.PadLayer((2, 3, 4), [1, 1]), "width of <PadLayer> has 2 entries, but there are 1 axes"),
        (lambda: layers.PadLayer((2, 3, 4), -1), "width of <PadLayer> must have ints of 0 or more.* got -1"),
        (lambda: layers.PadLayer((2, 3, 4), 1.5), "width of <PadLayer>.* got 1.5"),
        (lambda: layers.PadLayer((2, 3, 4), [(0, -1)]), r"width of <PadLayer>.* got \[\(0, -1\)\]"),
        (lambda: layers.PadLayer((2, 3, 4), [(0, 1, 2)]), r"width of <PadLayer>.* got \[\(0, 1, 2\)\]"),
        (
            lambda: layers.PadLayer((2, 3), 1, batch_ndim=3),
            "batch_ndim of <PadLayer>.* from 0 to 2 .* got 3",
        ),
        (
            lambda: layers.PadLayer((2, 3), 1, batch_ndim=-1),
            "batch_ndim of <PadLayer>.* from 0 to 2 .* got -1",
        ),
        (lambda: layers.SliceLayer((2, 3), 0, axis=2), r"axis of <SliceLayer>.* \(2, 3\), got 2"),
        (lambda: layers.SliceLayer((2, 3), 0, axis="time"), "axis of SliceLayer must be an int, got 'time'"),
        (lambda: layers.SliceLayer((2, 3), 0, axis=1.0), "axis of SliceLayer.* got 1.0"),
        (lambda: layers.SliceLayer((2, 3), [0, 1]), r"indices of <SliceLayer>.* got \[0, 1\]"),
        (lambda: layers.ConcatLayer([(2, 3), (2, 3)], axis=2), "axis of <ConcatLayer>.* got 2"),
        (lambda: layers.ConcatLayer([(2, 3), (2, 3)], axis=None), "axis of ConcatLayer.* got None"),
        (lambda: layers.ConcatLayer([(2, 3), (2, 3)], cropping=1), "cropping is a list .* got 1"),
        (lambda: layers.ConcatLayer([(2, 3), (2, 3)], cropping=["a"]), "a mode of cropping is .* got 'a'"),
        (lambda: layers.ElemwiseSumLayer([(2, 3), (2, 3)], cropping="center"), "cropping is a list .* got 'center'"),
        (lambda: layers.ElemwiseSumLayer([(2, 3), (2, 3)], coeffs=[1, "a"]), "coeffs of <ElemwiseSumLayer> .* got 'a'"),
        (lambda: layers.PadLayer((2, 3, 4), 1, val="a"), "val of <PadLayer> must be a number, got 'a'"),
        (lambda: layers.ExpressionLayer((2, 3), abs, output_shape=(2, 1.5)), r"output_shape of .* got \(2, 1.5\)"),
        (lambda: layers.SpatialPyramidPoolingLayer((2, 3, 4, 4), 2), "pool_dims of .* got 2"),
        (lambda: layers.SpatialPyramidPoolingLayer((2, 3, 4, 4), ["a"]), r"pool_dims of .* got \['a'\]"),
        (lambda: layers.ConcatLayer([]), "ConcatLayer takes a list of at least one layer"),
        (lambda: layers.ElemwiseSumLayer([]), "ElemwiseSumLayer takes a list of at least one layer"),
        (lambda: layers.FeaturePoolLayer((2, 4), 2, axis=-3), "axis of <FeaturePoolLayer>.* got -3"),
        (lambda: layers.FeatureWTALayer((2, 4), 2, axis="a"), "axis of FeatureWTALayer.* got 'a'"),
        (lambda: layers.DropoutLayer((2, 3), shared_axes=(0, 2)), "shared_axes of <DropoutLayer>.* got 2"),
        (lambda: layers.DropoutLayer((2, 3), shared_axes="time"), "shared_axes of <DropoutLayer>.* got 'time'"),
        (lambda: layers.GaussianNoiseLayer((2, 3), -0.5), "sigma of <GaussianNoiseLayer>.* at least 0, got -0.5"),
        (lambda: layers.GaussianNoiseLayer((2, 3), "a"), "sigma of <GaussianNoiseLayer>.* got 'a'"),
        (lambda: layers.ConcatLayer([(None, 3), (2, 3, 4)]).output_shape, r"\(None, 3\), \(2, 3, 4\)"),
        (lambda: layers.ConcatLayer([(4, 3), (2, 3)]).output_shape, r"axis 1.*\(4, 3\), \(2, 3\)"),
        (lambda: layers.ElemwiseSumLayer([(4, 3), (4, 2)]).output_shape, r"\(4, 3\), \(4, 2\)"),
        (lambda: layers.ElemwiseSumLayer([(4, 3), (4, 3)], coeffs=[1]), "1 coeffs for 2"),
        (lambda: layers.ConcatLayer([(4, 3), (4, 3)], cropping=["top"]).output_shape, "'top'|mismatch"),
        (lambda: layers.ConcatLayer([(4, 3), (4, 3)], axis=1, cropping=["top"]).output_shape, "'top'"),
        (lambda: layers.BiasLayer((None, 3), shared_axes=1), r"all axes but \(1,\).*\(None, 3\)"),
        (lambda: layers.ScaleLayer((None, None)), r"\(None, None\)"),
        (
            lambda: layers.ScaleLayer((None, 3), shared_axes=(2,)),
            r"shared_axes of <ScaleLayer> must be 'auto' or from -2 to 1.*\(None, 3\), got 2",
        ),
        (lambda: layers.BiasLayer((None, 3), shared_axes=0.5), "shared_axes of <BiasLayer>.* got 0.5"),
        (lambda: layers.ParametricRectifierLayer((None, 3), shared_axes=2), "shared_axes of .* got 2"),
        (lambda: layers.BatchNormLayer((None, None)), r"\(None, None\)"),
        (
            lambda: layers.BatchNormLayer((None, 3), axes="all"),
            "<BatchNormLayer> must be 'auto' or .* got 'all'",
        ),
        (lambda: layers.BatchNormLayer((None, 3), axes=(0, 2)), "axes of <BatchNormLayer>.* got 2"),
        (lambda: layers.BatchNormLayer((None, 3), epsilon=-1e-4), "epsilon of <BatchNormLayer>.* got -0.0001"),
        (lambda: layers.BatchNormLayer((None, 3), alpha=1.5), "alpha of <BatchNormLayer>.* at most 1, got 1.5"),
        (lambda: layers.BatchNormLayer((None, 3), alpha=None), "alpha of <BatchNormLayer>.* got None"),
        (lambda: layers.StandardizationLayer((None, 3), axes="all"), "'auto', 'spatial', 'features' or .* got 'all'"),
        (lambda: layers.StandardizationLayer((None, 3), epsilon=-1), "epsilon of <StandardizationLayer>.* got -1"),
        (lambda: layers.ExpressionLayer((None, 3), abs, output_shape="same"), "'same'"),
        (lambda: layers.Conv1DLayer((None, 3), 4, 3), r"\(None, 3\)"),
        (lambda: layers.Conv1DLayer((None, None, 3), 4, 3), r"\(None, None, 3\)"),
        (lambda: layers.Conv1DLayer((None, 3, None), 4, 3, untie_biases=True), r"\(None, 3, None\)"),
        (lambda: layers.Conv1DLayer((None, 3, None), 4, 3, num_groups=2), r"num_groups=2.*\(3\).*\(4\)"),
        (lambda: layers.Conv1DLayer((None, 3, None), 4, 3, pad="half"), "'half'"),
        (lambda: layers.Conv1DLayer((None, 3, None), 4, (3, 3)), "got 2"),
    ],
)
def test_errors(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: layers.ConcatLayer(None), "ConcatLayer takes a list of layers, got None"),
        (lambda: layers.ExpressionLayer((2, 3), None), "^function of <ExpressionLayer> must be a function, got None"),
        (lambda: layers.ElemwiseMergeLayer([(2, 3)], 3), "^merge_function of <ElemwiseMergeLayer>.* got 3"),
        (lambda: layers.FeaturePoolLayer((2, 4), 2, pool_function="max"), "^pool_function of .* got 'max'"),
        (lambda: layers.GlobalPoolLayer((2, 4, 5), pool_function="max"), "^pool_function of .* got 'max'"),
    ],
)
def test_what_is_no_function_or_list(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        make()


def test_numbers_of_layers_may_be_arrays_and_expressions() -> None:
    for value in (np.float32(0.5), np.array(0.5), sj.shared(0.5), sj.scalar("a")):
        layers.BatchNormLayer((None, 3), alpha=value, epsilon=value)
        layers.GaussianNoiseLayer((None, 3), value)


def test_same_padding_needs_an_odd_filter() -> None:
    with pytest.raises(NotImplementedError, match="got 4"):
        layers.Conv1DLayer((None, 3, None), 4, 4, pad="same")


def test_reshape_to_sizes_of_an_expression(run: Callable[..., Any]) -> None:
    x = sj.tensor3("x")
    rows, steps, _ = x.shape
    layer = layers.ReshapeLayer(layers.InputLayer((None, None, None)), (rows * steps, [2]))
    assert layer.output_shape == (None, None)
    for shape in ((3, 5, 6), (4, 5, 7)):
        assert run(layers.get_output(layer, x), {x: np.ones(shape)}).shape == (shape[0] * shape[1], shape[2])


def test_an_index_that_an_embedding_does_not_have_is_an_error_at_run_time() -> None:
    x = sj.ivector()
    f = sj.function([x], get_output(layers.EmbeddingLayer(InputLayer((None,), x), 3, 2)), mode="reference")
    for wrong in (3, -1):  # a negative one does not count from the end
        with pytest.raises(IndexError):
            f(np.array([0, wrong], "int32"))
    with pytest.raises(TypeError, match="<EmbeddingLayer> takes integers, got float64"):
        get_output(layers.EmbeddingLayer(InputLayer((None,)), 3, 2))


def test_a_parameter_can_be_trained_through_an_expression() -> None:
    w = sj.shared(np.ones((3, 2)), "w")
    layer = layers.DenseLayer(InputLayer((None, 3)), 2, W=sj.exp(w), b=None, nonlinearity=None)
    gradient = sj.grad(get_output(layer, np.ones((1, 3))).sum(), layer.get_params()[0])
    np.testing.assert_allclose(sj.function([], gradient, mode="reference")(), np.full((3, 2), np.e))


def test_tied_weights() -> None:
    first = layers.DenseLayer(InputLayer((None, 3)), 2, name="first")
    second = layers.DenseLayer(first, 3, W=first.W.T, b=None)
    assert [p.name for p in layers.get_all_params(second)] == ["first.W", "first.b"]
    assert second.output_shape == (None, 3)


def test_shortcuts_are_the_layers_themselves() -> None:
    assert layers.flatten is layers.FlattenLayer and layers.reshape is layers.ReshapeLayer
    assert layers.dimshuffle is layers.DimshuffleLayer and layers.pad is layers.PadLayer
    assert layers.concat is layers.ConcatLayer and layers.dropout is layers.DropoutLayer


def test_lengths_of_convolutions() -> None:
    for length in range(1, 12):
        for size in (1, 2, 3, 5):
            for stride in (1, 2, 3):
                for pad in (0, 1, "valid", "full", *(["same"] if size % 2 else [])):
                    zeros = pad if isinstance(pad, int) else {"valid": 0, "full": size - 1, "same": size // 2}[pad]
                    if length + 2 * zeros < size:
                        continue
                    real = len(range(0, length + 2 * zeros - size + 1, stride))
                    assert layers.conv_output_length(length, size, stride, pad) == real
                    smallest = layers.conv_input_length(real, size, stride, pad)
                    assert smallest is not None and smallest <= length < smallest + stride
    assert layers.conv_input_length(None, 3, 1) is None


def test_what_layers_refuse() -> None:
    for make in (InputLayer, layers.NonlinearityLayer, lambda shape: layers.DenseLayer(shape, 2)):
        for size in (3.0, "3"):
            with pytest.raises(ValueError, match="the sizes of a shape are ints, and None where they are not fixed"):
                make((None, size))
    with pytest.raises(ValueError, match="the sizes of a shape are ints"):
        InputLayer((None, 3.5), sj.matrix())  # type: ignore[arg-type]
    for index in (3, -4):
        with pytest.raises(ValueError, match=f"indices of <SliceLayer> must be an int from -3 to 2 .*, got {index}"):
            layers.SliceLayer((2, 3), index)
    for cut in (slice("a", 2), slice(0, 2, 0), slice(0.5), "all"):
        with pytest.raises(ValueError, match="indices of <SliceLayer> must be an int or a slice of ints, got"):
            layers.SliceLayer((2, 3), cut)
    dense = layers.DenseLayer((None, 3), 2)
    with pytest.raises(TypeError, match="SelectLayer takes a layer whose output has several tensors, got"):
        layers.SelectLayer((None, 3), 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"selects .*, but there is no 0 in the output of"):
        layers.SelectLayer(dense, 0)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: layers.Conv2DLayer((None, 3, 8, 8), 4, "3"), "filter_size of <Conv2DLayer> must be one int, or 2"),
        (lambda: layers.Conv2DLayer((None, 3, 8, 8), 4, 3, pad=None), "pad of <Conv2DLayer> must be one int, or 2"),
        (lambda: layers.Conv1DLayer((None, 3, 8), 4, 3, (1, 1)), "stride of <Conv1DLayer> must be one value, or 1"),
        (lambda: layers.MaxPool2DLayer((None, 3, 8, 8), 2.5), "pool_size of <MaxPool2DLayer> must be one int, or 2"),
        (lambda: layers.Upscale1DLayer((None, 3, 8), "2"), "scale_factor of <Upscale1DLayer> must be one int, or 1"),
        (lambda: lasagne.cells.ConvLSTM2D(3, 1.5), "filter_size of ConvLSTM2D must be one int, or 2"),
    ],
)
def test_sizes_that_are_no_ints(make: Any, what: str) -> None:
    with pytest.raises((TypeError, ValueError), match=what):
        make()


def test_slices_by_expressions() -> None:
    x, n = sj.matrix("x"), sj.lscalar("n")
    for index, shape in ((slice(n), (None, None)), (n, (None,))):
        layer = layers.SliceLayer(InputLayer((None, 3), x), index)
        assert layer.output_shape == shape
        found = sj.function([x, n], get_output(layer), mode="reference")(np.arange(6.0).reshape(2, 3), 2)
        np.testing.assert_array_equal(found, np.arange(6.0).reshape(2, 3)[:, :2] if len(shape) == 2 else [2, 5])


def test_the_table_of_a_network_has_the_parameters_of_layers_inside() -> None:
    layer = layers.RecurrentLayer((None, None, 3), 4, name="rnn")
    table = str(layers.summary(layer))
    assert all(p.name in table for p in layer.get_params()) and len(layer.params) == 4
    assert [p.name for p in layer.get_params(regularizable=True)] == ["rnn.input_to_hidden.W", "rnn.hidden_to_hidden.W"]
