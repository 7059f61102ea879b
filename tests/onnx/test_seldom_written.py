"""Attributes, bounds and shapes that exporters seldom write, as ONNX Runtime computes them."""

import numpy as np
import onnx
import pytest

import scanjit.onnx as sjo
from tests.onnx.support import check, computed, expected, model_of, one_node, value


@pytest.mark.parametrize("opset", [17, 20])
def test_a_transform_without_an_axis(opset: int) -> None:
    """Since version 20 it is along the last axis before that of the parts; before, along axis 1."""
    feeds = {"x": np.random.default_rng(0).normal(size=(2, 3, 8, 1)).astype("float32")}
    check(one_node("DFT", feeds, opset=opset), feeds, 1e-5)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_quotients_of_the_least_and_the_largest_integers(dtype: str) -> None:
    limits = np.iinfo(dtype)
    a = np.array([limits.max, limits.max // 3, 7, 1, limits.min // 3, limits.min + 1, limits.min], dtype)
    feeds = {"a": a[:, None], "b": a[(a != 0) & (a.astype("float64") != -1)]}
    check(one_node("Div", feeds), feeds, modes=("reference", "numba"))


FAR = 2**62


@pytest.mark.parametrize(
    "start, end, step",
    [(FAR, FAR, 1), (-FAR, FAR, 1), (0, -FAR, 1), (FAR, -FAR, -1), (-FAR, -FAR, -1), (4, FAR, -1), (-FAR, 3, 2)],
)
def test_slices_with_bounds_beyond_the_axis(start: int, end: int, step: int) -> None:
    feeds = {"x": np.arange(5, dtype="float32")}
    bounds = {name: np.array([value]) for name, value in (("starts", start), ("ends", end), ("axes", 0))}
    model = one_node("Slice", feeds, bounds | {"steps": np.array([step])})
    check(model, feeds, modes=("reference", "numba"))
    free = one_node("Slice", feeds, bounds | {"steps": np.array([step])}, shapes={"x": ("n",)})
    check(free, feeds, modes=("reference", "numba"))


@pytest.mark.parametrize("bounds", [(0.1, 0.4, 0.1), (0.0, 0.7, 0.1), (1.0, 0.0, -0.3), (1.0, 0.0, 0.5)])
def test_a_range_of_floats_has_as_many_numbers_if_they_are_known_before(bounds: tuple[float, ...]) -> None:
    names = ("start", "limit", "delta")
    given = {name: np.float32(value) for name, value in zip(names, bounds, strict=True)}
    known, unknown = one_node("Range", {}, given), one_node("Range", {k: np.array(v) for k, v in given.items()})
    check(known, {}, 1e-6)
    check(unknown, {k: np.array(v) for k, v in given.items()}, 1e-6)


@pytest.mark.parametrize("op", ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Prod", "SumSquare"])
def test_reductions_over_no_axis(op: str) -> None:
    """Nothing is added, but what is done to each element before and after is done."""
    feeds = {"x": np.array([[1, 2, 3], [4, 5, 6]], "float32") * (1 if op == "LogSum" else -1)}
    check(one_node(f"Reduce{op}", feeds, opset=18, noop_with_empty_axes=1), feeds, 1e-6)


@pytest.mark.parametrize("conditional", [False, True])
def test_a_loop_of_a_negative_number_of_steps_makes_none(conditional: bool) -> None:
    helper = onnx.helper
    info = lambda name, kind: value(name, kind, [])
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "i"], ["t"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [info("i", "int64"), info("c", "bool"), info("s", "int64")],
        [info("d", "bool"), info("t", "int64"), info("t", "int64")],
    )
    inputs = [info("m", "int64"), info("s", "int64"), *([info("c", "bool")] if conditional else [])]
    loop = helper.make_node("Loop", ["n", "c" if conditional else "", "s"], ["last", "all"], body=body)
    model = model_of([helper.make_node("Neg", ["m"], ["n"]), loop], inputs, ["last", "all"])
    for steps in (-3, 0, 3):
        feeds = {"m": np.array(-steps), "s": np.array(5)} | ({"c": np.array(True)} if conditional else {})
        check(model, feeds)


def test_a_product_of_sizes_of_which_one_is_not_known() -> None:
    """It is one number, though it is made of two."""
    nodes = [
        onnx.helper.make_node("Shape", ["x"], ["shape"]),
        onnx.helper.make_node("Equal", ["shape", "wanted"], ["equal"]),
        onnx.helper.make_node("Where", ["equal", "other", "shape"], ["chosen"]),
        onnx.helper.make_node("ReduceProd", ["chosen"], ["count"], keepdims=1),
        onnx.helper.make_node("ConstantOfShape", ["count"], ["y"]),
    ]
    model = model_of(nodes, [value("x", shape=("n", "m"))], constants={"wanted": [1, 4], "other": [2, 2]})
    assert sjo.load(model).outputs[0].ndim == 1
    for shape in ((3, 4), (1, 5)):
        feeds = {"x": np.zeros(shape, "float32")}
        np.testing.assert_array_equal(computed(model, feeds)[0], expected(model, feeds)[0], strict=True)
