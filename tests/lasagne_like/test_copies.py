"""Layers and cells are copied and pickled, whole networks too."""

import copy
import doctest
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like import cells, layers
from lasagne_like.parameters import Parametrized

COPIES = {"pickle": lambda made: pickle.loads(pickle.dumps(made)), "deepcopy": copy.deepcopy}
KINDS = {
    name: kind for module in (layers, cells) for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Parametrized) and not name.startswith("_")
}  # fmt: skip
OWN = {"Cell", "GatedCell", "Layer", "MergeLayer", "NetworkCell", "SequencerLayer", "Wrapper"}
"""Their examples have classes and functions that no module has."""
X, MASK = np.random.default_rng(0).normal(size=(2, 5, 3)), np.array([[1.0, 1, 1, 0, 0], [1, 1, 1, 1, 1]])


def network() -> Any:
    """With a mask, an initial state that is computed, running means, and weights that two layers share."""
    l_in, l_mask = layers.InputLayer((None, None, 3), name="x"), layers.InputLayer((None, None), name="mask")
    start = sj.ones((l_in.input_var.shape[0], 4)) * l_mask.input_var[:, 0][:, None]
    rnn = layers.GRULayer(layers.LSTMLayer(l_in, 4, mask_input=l_mask), 4, backwards=True, hid_init=start)
    normal = layers.BatchNormLayer(layers.DropoutLayer(rnn, 0.3), axes=(0, 1))
    W = sj.shared(np.eye(4) + 0.1)
    dense = layers.DenseLayer(normal, 4, W=W, num_leading_axes=2)
    return layers.DenseLayer(dense, 4, W=W * 2, num_leading_axes=2, nonlinearity=lasagne.nonlinearities.softmax)


def function(made: Any) -> Callable[..., np.ndarray]:
    inputs = [layer.input_var for layer in layers.get_all_layers(made) if isinstance(layer, layers.InputLayer)]
    return sj.function(inputs, layers.get_output(made, deterministic=True), mode="reference")


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_of_a_network_has_its_own_weights(how: str) -> None:
    made = network()
    layers.get_output(made)
    other = COPIES[how](made)
    f, g = function(made), function(other)
    before = f(X, MASK)
    np.testing.assert_array_equal(g(X, MASK), before)
    params, copies = layers.get_all_params(made), layers.get_all_params(other)
    assert [p.name for p in params] == [p.name for p in copies] and not set(params) & set(copies)
    assert [p is made.input_layer.W for p in params] == [p is other.input_layer.W for p in copies]
    for param in copies:
        param.set_value(param.get_value() * 1.5 + 0.1)
    np.testing.assert_array_equal(f(X, MASK), before)
    assert np.abs(g(X, MASK) - before).max() > 1e-6
    assert not layers.get_updates(other)
    layers.get_output(other)
    assert set(layers.get_updates(other)) <= set(copies)


def test_what_is_pickled_together_stays_together() -> None:
    made = network()
    rnn = made.input_layer.input_layer
    one, other, x = pickle.loads(pickle.dumps([made, rnn, layers.get_all_layers(made)[0].input_var]))
    assert one.input_layer.input_layer is other and layers.get_all_layers(one)[0].input_var is x


def test_a_deep_copy_reads_the_same_inputs() -> None:
    x, w = sj.vector("x"), sj.shared(2.0)
    y = x * w
    assert copy.copy(y) is y and copy.deepcopy(x * 3) is x * 3
    new, own = copy.deepcopy([y, w])
    own.set_value(5.0)
    f = sj.function([x], [y, new], mode="reference")
    assert [value.tolist() for value in f([1.0])] == [[2.0], [5.0]]


@pytest.mark.quick(28)
@pytest.mark.parametrize("name", [name for name in KINDS if name not in OWN])
def test_what_the_examples_make_is_copied(name: str) -> None:
    for test in doctest.DocTestFinder(recurse=False).find(KINDS[name], name, globs={}):
        doctest.DocTestRunner(verbose=False).run(test, out=lambda text: None, clear_globs=False)
        for made in test.globs.values():
            if isinstance(made, Parametrized):
                assert [repr(make(made)) for make in COPIES.values()] == [repr(made)] * 2


@pytest.mark.parametrize("name", ["LSTMLayer", "GRULayer", "RecurrentLayer", "DenseLayer", "Conv1DLayer"])
def test_small_integers_as_sizes_do_not_overflow(name: str) -> None:
    def made(size: Any) -> Any:
        more = [size] if name == "Conv1DLayer" else []
        return getattr(layers, name)(layers.InputLayer((np.uint8(2), 120, size)), size, *more)

    small, plain = made(np.int8(100)), made(100)
    shapes = [p.shape for p in layers.get_all_params(small)]
    assert shapes == [p.shape for p in layers.get_all_params(plain)] and small.output_shape == plain.output_shape
    assert {type(n) for shape in [small.output_shape, *shapes] for n in shape} <= {int, type(None)}


@pytest.mark.parametrize(
    "kind", [cells.LSTM, cells.GRU, cells.SRU, cells.NAS, cells.LRU], ids=lambda kind: kind.__name__
)
def test_cells_take_small_integers(kind: Any) -> None:
    cell, plain = kind(np.int8(100)).build(np.int8(100)), kind(100).build(100)
    assert [p.shape for p in cell.params] == [p.shape for p in plain.params] and cell.state_shape == plain.state_shape
    assert cell.get_config() == plain.get_config()
