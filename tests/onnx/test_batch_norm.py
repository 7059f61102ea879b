"""BatchNormalization, alone and after convolutions, whose filters it multiplies; against ONNX Runtime."""

import numpy as np
import onnx
import pytest

import scanjit.onnx as sjo
from scanjit import ir
from scanjit.ops.contraction import CONTRACT
from tests.onnx.support import check, model_of, one_node, value

RNG = np.random.default_rng(0)
CHANNELS = 6
NORM = {
    name: RNG.uniform(0.5, 2, CHANNELS).astype("float32") * (-1) ** np.arange(CHANNELS).astype("float32") ** power
    for name, power in (("scale", 1), ("shift", 1), ("mean", 1), ("var", 0))
}


def after_conv(x, groups=1, bias=False, axes=2, between=(), given=(), opset=15):
    """A convolution, other nodes and BatchNormalization. What is `given` is an input of the model."""
    filters = RNG.normal(size=(CHANNELS, x.shape[1] // groups, *[3] * axes)).astype("float32")
    weights = {"w": filters, **({"b": RNG.normal(size=CHANNELS).astype("float32")} if bias else {}), **NORM}
    make = onnx.helper.make_node
    feeds = {"x": x, **{name: weights[name] for name in given}}
    nodes = [
        make("Conv", ["x", "w", *(["b"] if bias else [])], ["y0"], group=groups, pads=[1] * (2 * axes)),
        *(make(op, [f"y{i}"], [f"y{i + 1}"]) for i, op in enumerate(between)),
        make("BatchNormalization", [f"y{len(between)}", *NORM], ["z"], epsilon=1e-3),
    ]
    inputs = [value(name, shape=array.shape) for name, array in feeds.items()]
    constants = {name: array for name, array in weights.items() if name not in feeds}
    return model_of(nodes, inputs, ["z"], constants, opset), feeds


def multiplied_filters(model):
    """Whether the filters of the convolution are multiplied."""
    (product,) = [n for n in ir.walk(sjo.load(model).outputs) if n.op is CONTRACT]
    return not any(n.op is ir.INPUT for n in ir.walk([product.operands[1]])) and len(ir.walk([product.operands[1]])) > 3


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("groups, axes", [(1, 2), (2, 2), (6, 2), (1, 1), (3, 1), (2, 3)])
def test_filters_are_multiplied(groups, axes, bias):
    x = RNG.normal(size=(2, 6, *(5, 7, 4)[:axes])).astype("float32")
    model, feeds = after_conv(x, groups, bias, axes)
    assert multiplied_filters(model)
    check(model, feeds, 1e-5)


@pytest.mark.parametrize(
    "options", [{"between": ["Relu"]}, {"given": ["scale"]}, {"given": ["w"]}, {"given": ["var", "b"]}]
)
def test_what_inputs_change_is_not_multiplied(options):
    x = RNG.normal(size=(2, 6, 5, 7)).astype("float32")
    model, feeds = after_conv(x, bias=True, **options)
    assert not multiplied_filters(model)
    check(model, feeds, 1e-5)


def test_compiled():
    """The filters are multiplied once, not in every call."""
    x = RNG.normal(size=(1, 6, 5, 7)).astype("float32")
    model, feeds = after_conv(x)
    check(model, feeds, 1e-5, ["numba"])
    f = sjo.load(model).function()
    f(x)
    assert "once for each value of the shared variables" in f.explain()


@pytest.mark.parametrize("shape", [(5, CHANNELS), (2, CHANNELS, 4), (1, CHANNELS, 3, 2)])
def test_alone(shape):
    x = RNG.normal(size=shape).astype("float32")
    check(one_node("BatchNormalization", {"x": x}, NORM, opset=15), {"x": x}, 1e-5)
