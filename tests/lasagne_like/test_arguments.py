"""Arguments of layers and cells that are annotated as numbers or flags are checked, and errors name them."""

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import cells, layers

WRONG = {"int": ["4", 1.5, True, [4], np.ones(2)], "float": ["4", np.nan, [1.0]], "bool": ["no", 2, [], np.ones(2)]}

RECURRENT = layers.LSTMLayer, layers.GRULayer, layers.RecurrentLayer, layers.CustomRecurrentLayer


def _arguments() -> Iterator[Any]:
    """Each class with the name and the type of each of its arguments that is a number or a flag."""
    for module, base in ((layers, layers.Layer), (cells, cells.Cell)):
        for cls in {value for value in vars(module).values() if inspect.isclass(value) and issubclass(value, base)}:
            if cls in RECURRENT:  # they add arguments to their own
                continue
            for one in list(inspect.signature(cls.__init__).parameters.values())[1:]:
                kind = getattr(one.annotation, "__name__", str(one.annotation))
                if kind.removesuffix(" | None") in WRONG:
                    yield pytest.param(cls, one.name, kind, id=f"{cls.__name__}-{one.name}")


@pytest.mark.parametrize("cls, name, kind", sorted(_arguments(), key=lambda one: one.id or ""))
def test_numbers_and_flags(cls: type, name: str, kind: str) -> None:
    wrong = WRONG[kind.removesuffix(" | None")]
    for value in wrong if kind.endswith(" | None") else [*wrong, None]:
        with pytest.raises(ValueError, match=f"^{name} of {cls.__name__} must be "):
            cls(**{name: value})


def test_flags_of_recurrent_layers() -> None:
    for cls in RECURRENT[:3]:
        for name in ("backwards", "learn_init", "unroll_scan", "only_return_final", "stateful", "precompute_input"):
            with pytest.raises(ValueError, match=f"^{name} of {cls.__name__} must be True or False, got 'no'"):
                cls((2, 3, 4), 5, **{name: "no"})


def test_numbers_of_numpy_and_expressions() -> None:
    layer = layers.GRULayer((2, 3, 4), np.int64(5), backwards=np.bool_(True), only_return_final=1)  # type: ignore[arg-type]
    assert layer.output_shape == (2, 5)
    assert cells.LSTM(3, forget_bias=np.float32(1.0)).forget_bias == 1.0


def test_layers_of_users_are_not_checked() -> None:
    class Scale(layers.Layer):
        def __init__(self, incoming: Any, factor: int) -> None:
            super().__init__(incoming)
            self.factor = factor

    assert Scale((2, 3), 0.5).factor == 0.5  # type: ignore[arg-type]


def test_cells_and_states() -> None:
    with pytest.raises(TypeError, match="StackedCells takes a list of cells, got <GRU>"):
        cells.StackedCells(cells.GRU(3))  # type: ignore[arg-type]
    for radii in (0.5, (0.1,), "ab", None):
        with pytest.raises(ValueError, match="radii of LRU must be two numbers"):
            cells.LRU(3, radii=radii)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_units of LRU must be 1 or more, got 0"):
        cells.LRU(0)
    layer = layers.RNNLayer((2, None, 3), cells.GRU(4), stateful=True)
    with pytest.raises(ValueError, match="batch_size of reset_states is a number of sequences, got array"):
        layer.reset_states(np.ones((2, 4)))  # type: ignore[arg-type]


def test_no_size_means_another_size() -> None:
    for make in (cells.LSTM, cells.NAS, lambda n, num_proj: cells.GLSTM(n, 1, num_proj=num_proj)):
        with pytest.raises(ValueError, match="has a size that is not positive"):
            make(4, num_proj=0).build(3)
    with pytest.raises(ValueError, match="has a size that is not positive"):
        cells.S6(4, rank=0).build(3)
    with pytest.raises(ValueError, match="grad_clipping of RecurrentLayer must be a number"):
        layers.RecurrentLayer((None, None, 3), 4, grad_clipping=None)  # type: ignore[arg-type]


def test_integers_of_embeddings_do_not_count_from_the_end() -> None:
    l_in = layers.InputLayer((None, None, 1), sj.itensor3())
    output = layers.get_output(layers.RNNLayer(l_in, cells.EmbeddingWrapper(cells.GRU(2), 5, 3)))
    f = sj.function([l_in.input_var], output, mode="reference")
    assert f(np.full((1, 1, 1), 4, "int32")).shape == (1, 1, 2)
    for wrong in (-1, 5):
        with pytest.raises(sj.OutOfBoundsError):
            f(np.full((1, 1, 1), wrong, "int32"))


def test_numbers_of_numpy_in_delays_and_dropout() -> None:
    delay = layers.PastValueLayer(layers.InputLayer((None, None, 3)), 1, initial=np.float32(0.5))
    found = sj.function([], layers.get_output(delay, np.zeros((1, 2, 3))), mode="reference")()
    np.testing.assert_array_equal(found[0, :, 0], [0.5, 0.0])
    x = sj.matrix("x")
    assert layers.get_output(layers.DropoutLayer(layers.InputLayer((None, 3), x), np.float32(0))) is x
    ended = layers.get_output(layers.DropoutLayer(layers.InputLayer((None, 3), x), np.float32(1)))
    slope = sj.function([x], sj.grad(ended.sum(), x, disconnected="ignore"), mode="reference")(np.ones((1, 3)))
    np.testing.assert_array_equal(slope, np.zeros((1, 3)))


def test_step_functions() -> None:
    layer = layers.LSTMLayer(layers.InputLayer((None, None, 3)), 2)
    for time in ("x", -1, 1.0):
        with pytest.raises(ValueError, match="time of step_function is an axis from 0 on, or a dict of axes, got"):
            layers.step_function(layer, time)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"time of step_function has <.*>, which is not an input layer of the network"):
        layers.step_function(layer, {layers.InputLayer((None, 3)): 1})
    with pytest.raises(TypeError, match="step_function takes a cell or a recurrent layer, got 3"):
        cells.step_function(3)
