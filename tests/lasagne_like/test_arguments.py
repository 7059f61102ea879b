"""Arguments of layers and cells that are annotated as numbers or flags are checked, and errors name them."""

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

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
