"""What a training function of stacked layers is made of: more equal layers make no more functions."""

import re
from collections import Counter

import pytest

import scanjit as sj
from lasagne_like import layers, nonlinearities, objectives, updates


def trained(count, units=128):
    """The source of a training function of bidirectional layers with masks, dropout and Adam."""
    x = sj.tensor((None, None, 40), dtype="float32", name="x")
    mask = sj.tensor((None, None), dtype="float32", name="mask")
    y = sj.tensor((None,), dtype="int64", name="y")
    layer, which = layers.InputLayer((None, None, 40), x), layers.InputLayer((None, None), mask)
    for _ in range(count):
        both = [layers.LSTMLayer(layer, units, mask_input=which, backwards=way) for way in (False, True)]
        layer = layers.DropoutLayer(layers.ConcatLayer(both, axis=2), p=0.2)
    last = layers.DenseLayer(layers.SliceLayer(layer, -1, 1), 10, nonlinearity=nonlinearities.softmax)
    loss = objectives.categorical_crossentropy(layers.get_output(last), y).mean()
    new = updates.adam(loss, layers.get_all_params(last, trainable=True))
    return sj.function([x, mask, y], loss, updates=new, mode="emulate").source


@pytest.fixture(scope="module")
def kinds():
    """How many functions of each kind there are, for some numbers of layers."""
    with sj.config.using(floatX="float32"):
        names = {count: re.findall(r"^def ([a-z_]+)_[0-9a-f]{12}\(", trained(count), re.MULTILINE) for count in (2, 3)}
    return {count: Counter(found) for count, found in names.items()}


def test_more_equal_layers_run_the_same_branches(kinds):
    assert kinds[3]["branch"] == kinds[2]["branch"]
