"""Tensors of 16 bits, and products of few bits, in ONNX files: written, computed by ONNX Runtime, and read again."""

from typing import Any

import numpy as np
import onnx
import pytest

import scanjit as sj
import scanjit.onnx as sjo
from scanjit.arrays import named_dtype
from tests.onnx.support import by_runtime, model_of, value

pytest.importorskip("ml_dtypes")

rng = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_tensors_of_16_bits(name: str) -> None:
    half = named_dtype(name)
    w, b = normal(7, 4).astype(half), normal(4).astype(half)
    x = sj.tensor((None, 7), "float32", "x")
    f = sj.function([x], (x.astype(half) @ sj.shared(w, "w") + b).astype("float32"), mode="reference")
    model = sjo.export(f)
    onnx.checker.check_model(model)
    given = normal(5, 7)
    assert {name: tensor.data_type for name, tensor in ((t.name, t) for t in model.graph.initializer)} == {
        "w": 10 if name == "float16" else 16
    }
    np.testing.assert_allclose(by_runtime(model, given)[0], f(given), rtol=1e-2, atol=1e-2)
    again = sjo.load(model).function(mode="reference")
    np.testing.assert_array_equal(again(given), f(given))


@pytest.mark.parametrize("weights", ["bfloat16", "int8"])
def test_products_of_few_bits(weights: Any) -> None:
    x, w = sj.tensor((None, 24), "float32", "x"), sj.shared(normal(24, 6), "w")
    f = sj.mixed(sj.function([x], sj.tanh(x @ w), mode="reference"), weights=weights)
    given = normal(5, 24)
    np.testing.assert_allclose(by_runtime(sjo.export(f), given)[0], f(given), rtol=0, atol=2e-2)


def test_halves_that_are_written_as_numbers() -> None:
    """Files may hold the bits of halves as integers in place of bytes."""
    for number, name in ((10, "float16"), (16, "bfloat16")):
        values = np.array([0.5, -2, 65504 if number == 10 else 3e38], named_dtype(name))
        tensor = onnx.TensorProto(
            data_type=number, dims=[3], int32_data=values.view(np.uint16).astype(np.int32).tolist()
        )
        nodes = [
            onnx.helper.make_node("Constant", [], ["c"], value=tensor),
            onnx.helper.make_node("Cast", ["c"], ["y"], to=1),
        ]
        model = model_of(nodes, [], opset=21)
        np.testing.assert_array_equal(sjo.load(model).function(mode="reference")(), values.astype(np.float32))


def test_a_model_of_float16_throughout() -> None:
    half, helper = np.float16, onnx.helper
    w = normal(6, 3).astype(half)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"], axis=-1),
    ]
    model = model_of(nodes, [value("x", half, ["n", 6])], constants={"w": w}, opset=21, ir_version=10)
    given = normal(5, 6).astype(half)
    found = sjo.load(model).function(mode="reference")(given)
    assert found.dtype == half
    np.testing.assert_allclose(found.astype(float), by_runtime(model, given)[0].astype(float), rtol=0, atol=2e-3)
