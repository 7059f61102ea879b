"""Quantized tensors, exactly as ONNX Runtime computes them."""

import numpy as np
import onnx
import pytest

import scanjit as sj
import scanjit.onnx as sjo
from tests.onnx.support import check, computed, expected, one_node

BYTES = [np.uint8, np.int8]


def integers(rng, dtype, *shape):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def weights(rng, dtype, *shape):
    """Random weights. Those with a sign have 7 bits: where a processor has no instruction for it (VNNI), ONNX Runtime
    adds two of their products in 16 bits, which do not hold those of 8 bits."""
    return integers(rng, dtype, *shape) // (2 if dtype is np.int8 else 1)


def floats(rng, *shape):
    return rng.normal(size=shape).astype("float32")


# ---- to integers and back --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("per", ["tensor", "axis", "last"])
def test_quantizing(dtype, per, rng):
    shape, axis, count = (
        (4, 3, 37),
        {"tensor": 1, "axis": 1, "last": -1}[per],
        {"tensor": (), "axis": 3, "last": 37}[per],
    )
    scale = np.abs(floats(rng, *np.atleast_1d(count).astype(int))).astype("float32") * 0.01 + 0.003
    scale, zero = np.float32(scale.reshape(count)), integers(rng, dtype, *np.shape(scale.reshape(count)))
    x = floats(rng, *shape)
    x[0, 0, :8] = [0.0, -0.0, np.inf, -np.inf, 1e30, -1e30, np.nan, 0.5]
    x[1] = (np.arange(37) - 18.5) * np.broadcast_to(scale if per != "axis" else scale[:, None], (3, 37))  # ties
    model = one_node("QuantizeLinear", {"x": x}, {"s": scale, "z": zero}, axis=axis)
    check(model, {"x": x}, modes=("reference", "emulate"))
    y = expected(model, {"x": x})[0]
    back = one_node("DequantizeLinear", {"y": y}, {"s": scale, "z": zero}, axis=axis)
    check(back, {"y": y}, modes=("reference", "emulate"))


@pytest.mark.parametrize("dtype", BYTES)
def test_blocks_have_scales_of_their_own(dtype, rng):
    x, scale, zero = floats(rng, 5, 10), np.abs(floats(rng, 5, 4)) * 0.01 + 0.003, integers(rng, dtype, 5, 4)
    attributes = {"axis": 1, "block_size": 3}
    model = one_node("QuantizeLinear", {"x": x}, {"s": scale, "z": zero}, **attributes)
    check(model, {"x": x})
    y = expected(model, {"x": x})[0]
    check(one_node("DequantizeLinear", {"y": y}, {"s": scale, "z": zero}, **attributes), {"y": y})
    check(one_node("DequantizeLinear", {}, {"y": y, "s": scale, "z": zero}, **attributes), {})


def test_without_a_zero_point(rng):
    x = floats(rng, 3, 4)
    check(one_node("QuantizeLinear", {"x": x}, {"s": np.float32(0.02)}), {"x": x})
    model = one_node("QuantizeLinear", {"x": x}, {"s": np.float32(0.02)}, output_dtype=onnx.TensorProto.INT8)
    check(model, {"x": x})
    y = rng.integers(-(2**31), 2**31, (3, 4)).astype("int32")
    check(one_node("DequantizeLinear", {"y": y}, {"s": np.float32(0.02)}), {"y": y})
    wide = one_node("QuantizeLinear", {"x": x * 100}, {"s": np.float32(0.001), "z": np.int16(-7)})
    check(wide, {"x": x * 100})


@pytest.mark.parametrize("move", [0.0, 5.0, -5.0, 1e-3])
def test_scales_that_the_bounds_of_a_tensor_ask_for(move):
    x = floats(np.random.default_rng(3), 300) + np.float32(move)
    check(one_node("DynamicQuantizeLinear", {"x": x}, outputs=3), {"x": x}, modes=("reference", "emulate"))


def test_the_bounds_of_a_tensor_of_equal_numbers():
    for number in (0.0, 3.0, -3.0):
        x = np.full((2, 3), number, "float32")
        check(one_node("DynamicQuantizeLinear", {"x": x}, outputs=3), {"x": x})


# ---- products --------------------------------------------------------------------------------------------------------


@pytest.mark.quick(3)
@pytest.mark.parametrize("left", BYTES)
@pytest.mark.parametrize("right", BYTES)
@pytest.mark.parametrize("terms", [5, 1000])
def test_products_of_matrices_are_exact(left, right, terms, rng):
    """1,000 products of 8 bits are a sum that float32 does not hold."""
    if left is np.int8 and right is np.uint8:
        pytest.skip("ONNX Runtime has no such product")
    a, b = integers(rng, left, 3, terms), weights(rng, right, terms, 4)
    a[0], b[:, 0] = np.iinfo(left).max, b.min()
    zeros = {"az": integers(rng, left), "bz": integers(rng, right, 4)}
    for feeds, constants in (({"a": a}, {"b": b}), ({"a": a, "b": b}, {}), ({"a": a}, {"b": b, **zeros})):
        model = one_node("MatMulInteger", feeds, constants, shapes={"a": ["n", terms]})
        (got,) = computed(model, feeds, "emulate")
        az, bz = (zeros["az"], zeros["bz"]) if "az" in constants else (0, 0)
        np.testing.assert_array_equal(got, (a.astype(int) - az) @ (b.astype(int) - bz))
        check(model, feeds)


def test_products_of_batches_and_of_rows_with_zero_points_of_their_own(rng):
    a, b = integers(rng, np.uint8, 2, 3, 5), integers(rng, np.uint8, 2, 5, 4)
    check(one_node("MatMulInteger", {"a": a, "b": b}), {"a": a, "b": b})
    each = integers(rng, np.uint8, 3)
    (got,) = computed(one_node("MatMulInteger", {"a": a[0]}, {"b": b[0], "az": each}), {"a": a[0]})
    np.testing.assert_array_equal(got, (a[0].astype(int) - each[:, None]) @ b[0].astype(int))
    free = one_node("MatMulInteger", {"a": a[0], "b": b[0]}, shapes={"a": ["n", "k"], "b": ["k", "m"]})
    check(free, {"a": a[0], "b": b[0]}, modes=("reference", "emulate"))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("channels", [4, 100])
def test_correlations_are_exact(groups, channels, rng: np.random.Generator):
    x, w = integers(rng, np.uint8, 2, channels, 6, 7), integers(rng, np.uint8, 4, channels // groups, 3, 2)
    x[0], w[0] = 255, 255
    zeros = {"xz": np.uint8(3), "wz": np.uint8(200)}
    attributes = {"pads": [1, 0, 2, 1], "strides": [2, 1], "group": groups}
    model = one_node("ConvInteger", {"x": x}, {"w": w, **zeros}, opset=17, **attributes)
    check(model, {"x": x}, modes=("reference", "emulate"))
    check(one_node("ConvInteger", {"x": x}, {"w": w}, opset=17, **attributes), {"x": x})


def test_products_of_quantized_tensors_that_are_quantized(rng: np.random.Generator):
    a, b = integers(rng, np.uint8, 3, 40), integers(rng, np.uint8, 40, 4)
    scales = {
        "a_scale": np.float32(0.02),
        "a_zero": np.uint8(120),
        "b_scale": np.float32(0.013),
        "b_zero": np.uint8(99),
    }
    constants = {"b": b, **scales, "y_scale": np.float32(0.1), "y_zero": np.uint8(100)}
    order = ["a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "y_scale", "y_zero"]
    check(one_node("QLinearMatMul", {"a": a}, constants, order=order, opset=17), {"a": a})
    x, w = integers(rng, np.uint8, 2, 5, 6, 6), weights(rng, np.int8, 4, 5, 3, 3)
    each = (np.abs(floats(rng, 4)) * 0.01 + 0.002).astype("float32")
    constants |= {"b": w, "b_scale": each, "b_zero": np.zeros(4, np.int8), "bias": np.int32([100, -2000, 3, 0])}
    check(one_node("QLinearConv", {"a": x}, constants, order=[*order, "bias"], opset=17, pads=[1, 1, 1, 1]), {"a": x})


# ---- an LSTM ---------------------------------------------------------------------------------------------------------


def lstm(rng, direction, per_column, signed, peepholes, lengths=None):
    """Inputs of DynamicQuantizeLSTM, and a model."""
    batch = 1 if lengths is None else len(lengths)
    count, (steps, size, hidden) = 1 + (direction == "bidirectional"), (7, 20, 12)
    dtype, columns = (np.int8 if signed else np.uint8), (4 * hidden,) if per_column else ()
    scale = lambda: (np.abs(floats(rng, count, *columns)) * 0.004 + 0.002).astype("float32")
    zero = lambda: np.full((count, *columns), 0 if signed else 117, dtype)
    feeds = {"X": floats(rng, steps, batch, size)}
    constants = {
        "W": weights(rng, dtype, count, size, 4 * hidden),
        "R": weights(rng, dtype, count, hidden, 4 * hidden),
        "B": 0.1 * floats(rng, count, 8 * hidden),
        "P": 0.1 * floats(rng, count, 3 * hidden),
        **{"ws": scale(), "wz": zero(), "rs": scale(), "rz": zero()},
    }
    if lengths is not None:
        constants["L"] = np.array(lengths, "int32")
    if not peepholes:
        del constants["P"]
    order = ["X", "W", "R", "B", "L", "", "", "P", "ws", "wz", "rs", "rz"]
    order = [name if name in feeds or name in constants else "" for name in order]
    options = {"domain": "com.microsoft", "order": order, "hidden_size": hidden, "direction": direction, "opset": 17}
    return one_node("DynamicQuantizeLSTM", feeds, constants, outputs=3, **options), feeds


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    "per_column, signed, peepholes", [(False, False, False), (True, True, False), (True, True, True)]
)
def test_an_lstm_whose_weights_are_integers(direction, per_column, signed, peepholes):
    """Activations differ in their last bits, which may move a state to the next integer now and then."""
    model, feeds = lstm(np.random.default_rng(8), direction, per_column, signed, peepholes)
    for got, want in zip(computed(model, feeds), expected(model, feeds), strict=True):
        assert np.abs(got - want).max() < 2e-3
        assert np.median(np.abs(got - want)) < 1e-6


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [(7, 3, 5), (4, 3, 4, 1), (7, 7)])
def test_sequences_of_an_lstm_whose_weights_are_integers(direction, lengths):
    """All rows of a step share one scale: it depends on which sequences have ended."""
    model, feeds = lstm(np.random.default_rng(8), direction, True, True, False, lengths)
    for got, want in zip(computed(model, feeds), expected(model, feeds), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)


def test_an_lstm_whose_weights_are_integers_compiled():
    model, feeds = lstm(np.random.default_rng(9), "bidirectional", True, True, True)
    wanted = computed(model, feeds)
    for got, want in zip(computed(model, feeds, "numba"), wanted, strict=True):
        assert np.abs(got - want).max() < 2e-3


# ---- errors ----------------------------------------------------------------------------------------------------------


INT8, UINT8, FLOATS = np.ones((2, 3), "int8"), np.ones((2, 3), "uint8"), np.ones((2, 3), "float32")


@pytest.mark.parametrize(
    "op, feeds, constants, error, message",
    [
        ("DequantizeLinear", {"x": FLOATS}, {"s": np.float32(1)}, sj.DtypeError, "integers"),
        ("DequantizeLinear", {"x": INT8}, {"s": np.ones(4, "float32")}, sj.ShapeError, "the scale of DequantizeLinear"),
        ("DequantizeLinear", {"x": INT8}, {"s": np.float32(1), "z": np.uint8(1)}, sj.DtypeError, "one dtype"),
        ("MatMulInteger", {"a": UINT8.astype("int32"), "b": INT8}, {}, sj.DtypeError, "8 bits"),
        ("DynamicQuantizeLSTM", {"x": FLOATS[None]}, {}, sj.FormatError, "lacks its input 1"),
    ],
)
def test_nodes_that_are_not_valid(op, feeds, constants, error, message):
    domain = "com.microsoft" if op.startswith("Dynamic") else ""
    with pytest.raises(error, match=f"(?s){message}.*the node 'it'"):
        sjo.load(one_node(op, feeds, constants, domain=domain))
