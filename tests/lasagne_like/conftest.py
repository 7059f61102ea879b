"""What the tests of layers share: expressions are run by the reference interpreter."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test starts from the same random numbers."""
    lasagne.random.set_rng(np.random.default_rng(1))


@pytest.fixture
def run() -> Callable[..., Any]:
    """The value of expressions, given those of inputs."""

    def value(outputs: Any, given: dict[Any, Any] | None = None, mode: str = "reference", **options: Any) -> Any:
        given = given or {}
        return sj.function(list(given), outputs, mode=mode, **options)(*given.values())

    return value
