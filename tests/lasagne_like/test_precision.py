"""`get_output(precision="bfloat16")`: layers that multiply bfloat16, and keep it for their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj

pytest.importorskip("ml_dtypes")
MODES = ["reference", "numba"]


@pytest.fixture(autouse=True)
def float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.config, "floatX", "float32")
    lasagne.random.set_rng(np.random.default_rng(0))


def network(cell: Any = lasagne.layers.LSTMLayer, **options: Any) -> Any:
    rows = lasagne.layers.InputLayer((None, None, 20), sj.tensor3("rows", dtype="float32"))
    hidden = cell(rows, 24, **options)
    return rows, hidden, lasagne.layers.DenseLayer(hidden, 5, num_leading_axes=2)


def data() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(4, 30, 20)).astype(np.float32)


def trained(rows: Any, last: Any, precision: Any, mode: Any = "numba") -> sj.CompiledFunction[Any]:
    cost = (lasagne.layers.get_output(last, precision=precision) ** 2).mean()
    slopes = sj.grad(cost, lasagne.layers.get_all_params(last, trainable=True))
    return sj.function([rows.input_var], [cost, *slopes], mode=mode)


def errors(found: Any, exact: Any) -> list[float]:
    return [float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(found, exact, strict=True)]


@pytest.mark.quick(1)
@pytest.mark.parametrize("cell", [lasagne.layers.LSTMLayer, lasagne.layers.GRULayer])
def test_a_network_and_its_gradient(cell: Any) -> None:
    rows, _, last = network(cell)
    plain, made = trained(rows, last, None), {mode: trained(rows, last, "bfloat16", mode) for mode in MODES}
    exact = plain(data())
    for mode, f in made.items():
        found = errors(f(data()), exact)
        assert 0 < found[0] < 2**-8 and all(error < 2**-5 for error in found), (mode, found)
    told = str(made["numba"].explain())
    assert "as bfloat16" in told and "as bfloat16" not in str(plain.explain())
    assert told.count("pairs of bfloat16") >= 6  # forward and backward products of both layers


def test_gradients_taken_later_are_those_of_a_whole_function() -> None:
    rows, _, last = network()
    inside, outside = trained(rows, last, "bfloat16"), sj.mixed(trained(rows, last, None), "bfloat16", "bfloat16")
    assert max(errors(inside(data()), outside(data()))) < 2**-8
    assert str(inside.explain()).count("pairs of bfloat16") == str(outside.explain()).count("pairs of bfloat16")


def test_some_layers() -> None:
    rows, hidden, last = network()
    f, all_of_it = (trained(rows, last, precision) for precision in ({hidden: "bfloat16"}, "bfloat16"))
    some, every = (str(g.explain()).count("pairs of bfloat16") for g in (f, all_of_it))
    assert 0 < some < every


def test_updates_of_layers_are_computed_with_it() -> None:
    """A state that is kept between calls, and running averages: the loop runs once."""
    rows, hidden, _ = network(stateful=True)
    normal = lasagne.layers.BatchNormLayer(hidden, axes=(0, 1))
    output = lasagne.layers.get_output(normal, precision="bfloat16")
    f = sj.function([rows.input_var], output, updates=lasagne.layers.get_updates(normal))
    hidden.reset_states(batch_size=4)
    first, second = f(data()), f(data())
    assert first.shape == second.shape and np.abs(first - second).max() > 0
    told = str(f.explain())
    assert "multiplies pairs of bfloat16" in told and told.count("a loop over time") == 1


def test_layers_in_a_cycle() -> None:
    rows = lasagne.layers.InputLayer((None, None, 20), sj.tensor3("rows", dtype="float32"))
    past = lasagne.layers.PastValueLayer((None, None, 24))
    both = lasagne.layers.ConcatLayer([rows, past], axis=2)
    hidden = lasagne.layers.DenseLayer(both, 24, num_leading_axes=2, nonlinearity=lasagne.nonlinearities.tanh)
    past.connect(hidden)
    plain, f = (
        sj.function([rows.input_var], lasagne.layers.get_output(hidden, precision=each)) for each in (None, "bfloat16")
    )
    (error,) = errors([f(data())], [plain(data())])
    assert 0 < error < 2**-5
    with pytest.raises(ValueError, match="depend on each other and need the same precision"):
        lasagne.layers.get_output(hidden, precision={hidden: "bfloat16"})


def test_wrong_precisions() -> None:
    _, hidden, last = network()
    with pytest.raises(ValueError, match="the precision of a layer is 'bfloat16' or None, got 'int8'"):
        lasagne.layers.get_output(last, precision="int8")
    with pytest.raises(ValueError, match="which is not a layer of this network"):
        lasagne.layers.get_output(hidden, precision={last: "bfloat16"})


def test_layers_of_float64_are_an_error() -> None:
    """They have no products that could be rounded: the network stayed as it was, without a word."""
    _, hidden, last = network()
    sj.config.floatX = "float64"
    for layer, precision in ((last, "bfloat16"), (hidden, {hidden: "bfloat16"})):
        with pytest.raises(ValueError, match=r"is for layers of float32, but .*LSTM.* computes in float64"):
            lasagne.layers.get_output(layer, sj.tensor3(dtype="float64"), precision=precision)
    lasagne.layers.get_output(last, sj.tensor3(dtype="float64"), precision={hidden: None})
