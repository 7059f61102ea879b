"""What `help` shows of signatures reads as code."""

import inspect
import pickle
from typing import Any

import pytest

import lasagne_like as lasagne
from lasagne_like import cells, importers, init, layers, nonlinearities, objectives, packing, training, updates

MODULES = (lasagne, layers, cells, init, nonlinearities, objectives, updates, training, importers, packing)
THINGS = {f"{m.__name__}.{name}": thing for m in MODULES for name, thing in vars(m).items() if not name.startswith("_")}


def signatures(thing: Any) -> list[str]:
    found = []
    for one in [thing, *(vars(thing).values() if inspect.isclass(thing) else [])]:
        if callable(one):
            try:
                found.append(str(inspect.signature(one)))
            except (TypeError, ValueError):  # written in C
                continue
    return found


@pytest.mark.quick(98)
@pytest.mark.parametrize("name", THINGS)
def test_a_signature_shows_no_address(name: str) -> None:
    assert not [text for text in signatures(THINGS[name]) if " at 0x" in text]


def test_what_is_shown_is_the_call_that_made_it() -> None:
    assert repr(init.Normal(0.1, mean=2)) == "Normal(0.1, mean=2)"
    assert repr(layers.Gate(W_cell=None, nonlinearity=nonlinearities.tanh)) == "Gate(W_cell=None, nonlinearity=tanh)"
    assert repr(nonlinearities.LeakyRectify(0.2)) == "LeakyRectify(0.2)"
    assert "nonlinearity=tanh" in str(inspect.signature(layers.LSTMLayer))


@pytest.mark.parametrize(
    "thing", [nonlinearities.tanh, nonlinearities.linear, init.Normal(0.1), layers.Gate()], ids=repr
)
def test_copies_are_shown_alike(thing: Any) -> None:
    assert repr(pickle.loads(pickle.dumps(thing))) == repr(thing)
