"""`quantize`: a network's predictions with products of fewer bits."""

from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj

rng = np.random.default_rng(1)


def network() -> lasagne.layers.Layer:
    l_in = lasagne.layers.InputLayer((None, None, 20), sj.tensor((None, None, 20), dtype="float32", name="x"))
    mask = lasagne.layers.InputLayer((None, None), sj.matrix("mask", dtype="float32"))
    hidden = lasagne.layers.LSTMLayer(l_in, 32, mask_input=mask)
    hidden = lasagne.layers.dropout(lasagne.layers.GRULayer(hidden, 24, mask_input=mask), 0.5)
    return lasagne.layers.DenseLayer(hidden, 5, num_leading_axes=2, nonlinearity=lasagne.nonlinearities.softmax)


@pytest.mark.quick(1)
@pytest.mark.parametrize(("weights", "error"), [("int8", 0.03), ("bfloat16", 0.01)])
def test_predictions_are_near_those_of_the_network(weights: str, error: float, monkeypatch: Any) -> None:
    monkeypatch.setattr(sj.config, "floatX", "float32")
    top = network()
    layers = lasagne.layers.get_all_layers(top)
    inputs = [layer.input_var for layer in layers if isinstance(layer, lasagne.layers.InputLayer)]
    plain = sj.function(inputs, lasagne.layers.get_output(top, deterministic=True))
    predict = lasagne.quantize(top, weights)
    x = rng.normal(size=(6, 9, 20)).astype("float32")
    mask = (np.arange(9) < rng.integers(3, 10, (6, 1))).astype("float32")
    wanted, got = plain(x, mask), predict(x, mask)
    assert 0 < np.abs(got - wanted).max() < error
    np.testing.assert_array_equal(predict(x[:1], mask[:1]).shape, (1, 9, 5))
    alone = predict(x[:1], mask[:1])
    assert np.abs(alone - got[:1]).max() < error  # the others in the batch have scales of their own
    assert str(predict.explain()).count("multiplies") >= 5  # masks do not keep products from packs
    padded = np.where(mask[..., None] > 0, x, 99).astype("float32")
    np.testing.assert_array_equal(predict(padded, mask)[mask > 0], got[mask > 0])


def test_a_format_that_is_none(monkeypatch: Any) -> None:
    monkeypatch.setattr(sj.config, "floatX", "float32")
    l_in = lasagne.layers.InputLayer((None, 3), sj.matrix("x"))
    with pytest.raises(sj.ArgumentError, match="the format of weights is unknown"):
        lasagne.quantize(lasagne.layers.DenseLayer(l_in, 2), "int3")


@pytest.mark.parametrize("wide", ["x", "W"])
def test_networks_of_float64_are_refused(wide: str) -> None:
    """Their products would stay as they are."""
    dtypes = {name: "float64" if name == wide else "float32" for name in "xWb"}
    l_in = lasagne.layers.InputLayer((None, 3), sj.matrix("x", dtype=dtypes["x"]))
    network = lasagne.layers.DenseLayer(l_in, 2, W=np.ones((3, 2), dtypes["W"]), b=np.zeros(2, dtypes["b"]))
    with pytest.raises(sj.ArgumentError, match=f"only products of float32(.|\\n)*{wide}.*float64"):
        lasagne.quantize(network)


def batches(count: int = 3) -> list[tuple[np.ndarray, np.ndarray]]:
    found = []
    for _ in range(count):
        mask = (np.arange(5) < rng.integers(2, 6, (3, 1))).astype("float32")
        found.append((rng.normal(size=(3, 5, 20)).astype("float32"), mask))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["reference", pytest.param("emulate", marks=pytest.mark.slow)])
def test_scales_from_data(mode: Any, monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setattr(sj.config, "floatX", "float32")
    top = network()
    inputs = [layer.input_var for layer in lasagne.layers.get_all_layers(top) if hasattr(layer, "input_var")]
    plain = sj.function(inputs, lasagne.layers.get_output(top, deterministic=True))
    data = batches()
    predict = lasagne.quantize(top, calibrate=data)
    x, mask = batches(1)[0]
    wanted, got = plain(x, mask), predict(x, mask)
    assert 0 < np.abs(got - wanted).max() < 0.05
    np.testing.assert_array_equal(predict(x[:1], mask[:1]), got[:1])  # the others in the batch change nothing
    told = str(predict.explain())
    assert told.count("multiplies quads of int8") >= 5 and told.count("errors up to") >= 3
    again = lasagne.quantize(top, mode=mode, calibrate=data)(x, mask)
    np.testing.assert_allclose(again, got, rtol=0, atol=2e-2)  # a number next to a tie may be rounded otherwise
    predict.save(tmp_path / "predict")
    loaded = sj.load(tmp_path / "predict")
    np.testing.assert_array_equal(loaded(x, mask), got)
    assert "errors up to" in str(loaded.explain())


def test_larger_numbers_than_the_data_had_become_the_largest() -> None:
    x, w = sj.matrix("x", dtype="float32"), sj.shared(np.eye(20, dtype="float32"))
    f = sj.mixed(sj.function([x], x @ w), weights="int8", calibrate=[np.full((1, 20), 2, "float32")])
    given = np.linspace(-4, 4, 20, dtype="float32")[None]
    step = 2 / 127
    np.testing.assert_allclose(f(given), np.clip(np.rint(given / step), -128, 127) * step, rtol=1e-5)
    assert "results up to 2 " in str(f.explain())


def test_scales_in_loops_that_end_early_and_in_branches() -> None:
    x = sj.tensor((None, 3, 24), "float32", "x")
    w = sj.shared((rng.normal(size=(24, 24)) * 0.2).astype("float32"))

    def step(row: Any, h: Any) -> Any:
        h = sj.tanh(row + h @ w)
        h = sj.ifelse(h.sum() > 0, lambda: h + 0.1 * (h @ w), lambda: h)
        return h, sj.until(h[0, 0] > 0.8)

    outputs = sj.scan(step, x, sj.zeros((3, 24), "float32"))
    plain = sj.function([x], outputs)
    data = [(rng.normal(size=(t, 3, 24)).astype("float32"),) for t in (5, 9)]
    for mode in ("numba", "reference"):
        f = sj.mixed(sj.function([x], outputs, mode=mode), weights="int8", calibrate=data)
        for (given,) in data:
            assert f(given).shape == plain(given).shape
            assert 0 < np.abs(f(given) - plain(given)).max() < 0.1
        assert "errors up to" in str(f.explain())


def test_states_stay_as_they_were_while_scales_are_found() -> None:
    x, state = sj.matrix("x", dtype="float32"), sj.shared(np.zeros((2, 20), "float32"))
    w = sj.shared(np.eye(20, dtype="float32"))
    f = sj.function([x], x @ w, updates={state: state + x})
    g = sj.mixed(f, weights="int8", calibrate=[(np.ones((2, 20), "float32"),)])
    assert (state.get_value() == 0).all()
    g(np.ones((2, 20), "float32"))
    assert (state.get_value() == 1).all()


@pytest.mark.parametrize("mode", ["numba", "emulate", "reference"])
def test_a_nan_stays_one_with_constant_scales(mode: Any) -> None:
    """Integers have no NaN. The row in which one is has none but NaN; infinities are the largest number."""
    x, w = sj.tensor((None, None, 32), "float32"), sj.shared(rng.normal(size=(32, 16)).astype("float32"))
    given = rng.normal(size=(3, 5, 32)).astype("float32")
    f = sj.mixed(sj.function([x], x @ w, mode=mode), weights="int8", calibrate=[given])
    finite = f(given)
    given[1, 2, 7], given[2, 0, 1] = np.nan, np.inf
    found = f(given)
    assert np.isnan(found[1, 2]).all() and np.isnan(found).sum() == 16 and np.isfinite(found[2, 0]).all()
    found[1, 2], found[2, 0] = finite[1, 2], finite[2, 0]
    np.testing.assert_array_equal(found, finite)


def test_what_cannot_be_calibrated() -> None:
    x = sj.matrix("x", dtype="float32")
    f = sj.function([x], x @ x.T, mode="reference")
    for nothing in ([], 5, x):
        with pytest.raises(sj.ArgumentError, match=r"nothing is given to calibrate with(.|\n)*calibrate=\[\(x,\), "):
            sj.mixed(f, weights="int8", calibrate=nothing)
    with pytest.raises(sj.ShapeError, match=rf"argument 0 \('x'\) of {f.name} must have 2 dimensions"):
        sj.mixed(f, weights="int8", calibrate=np.ones((2, 20), "float32"))
    with pytest.raises(sj.ArgumentError, match="numbers that are not finite enter a product"):
        sj.mixed(f, weights="int8", calibrate=[np.full((2, 20), np.nan, "float32")])
    with pytest.raises(sj.ArgumentError, match="calibrate is for compiled functions and integers of 8 bits"):
        sj.mixed(f, weights="bfloat16", calibrate=[np.ones((2, 20), "float32")])
    with pytest.raises(sj.ArgumentError, match="calibrate is for compiled functions"):
        sj.mixed(lambda x: x @ x, "int8", calibrate=[np.ones((2, 2), "float32")])  # type: ignore[call-overload]
    empty = sj.mixed(f, weights="int8", calibrate=[np.ones((0, 20), "float32")])
    assert empty(np.ones((2, 20), "float32")).shape == (2, 2)
