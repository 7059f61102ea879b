"""Examples as objects whose attributes are their functions."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], SimpleNamespace]]:
    """Reads an example. What examples set for the whole process is set back."""
    floatX = sj.config.floatX
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield lambda name: SimpleNamespace(**runpy.run_path(str(EXAMPLES / f"{name}.py")))
    sj.config.floatX = floatX
    lasagne.random.set_rng(np.random)
