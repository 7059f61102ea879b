"""Networks exported to NumPy."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like import layers as L


def loaded(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"{name}_exported", path / name / "__init__.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def test_a_network_of_many_layers(tmp_path: Path) -> None:
    """Several inputs, a mask, an embedding, both directions, noise that is off, two outputs."""
    tokens = L.InputLayer((None, None), sj.imatrix("tokens"))
    mask = L.InputLayer((None, None), name="the mask")
    words = L.EmbeddingLayer(tokens, 7, 4)
    both = L.Bidirectional(L.LSTMLayer(words, 3, mask_input=mask), merge="concat")
    last = L.GRULayer(L.DropoutLayer(both, 0.5), 5, only_return_final=True, mask_input=mask)
    out = L.DenseLayer(last, 2, nonlinearity=lasagne.nonlinearities.softmax)
    path = lasagne.exporters.export_numpy([out, both], tmp_path / "tagger", "tagger")
    x = np.array([[1, 2, 3], [6, 0, 0]], "int32")
    m = np.array([[1.0, 1, 1], [1, 1, 0]])
    inputs = [one.input_var for one in L.get_all_layers([out, both]) if isinstance(one, L.InputLayer)]
    given = [x if symbol is tokens.input_var else m for symbol in inputs]
    expected = sj.function(inputs, L.get_output([out, both], deterministic=True), mode="reference")(*given)
    for a, b in zip(loaded(path, "tagger")(*given), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    source = (path / "tagger" / "__init__.py").read_text()
    assert "def tagger(tokens, the_mask)" in source or "def tagger(the_mask, tokens)" in source


def test_a_stateful_network_goes_on(tmp_path: Path) -> None:
    l_in = L.InputLayer((1, None, 2))
    layer = L.RNNLayer(l_in, lasagne.cells.LSTM(3), stateful=True)
    f = sj.function([l_in.input_var], L.get_output(layer), updates=L.get_updates(layer), mode="reference")
    path = lasagne.exporters.export_numpy(f, tmp_path, "stream")
    stream = loaded(path, "stream")
    for x in np.random.default_rng(0).normal(size=(3, 1, 2, 2)):
        np.testing.assert_allclose(stream(x), f(x), rtol=1e-12, atol=1e-13)
