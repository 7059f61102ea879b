"""Digests of functions and of what they use from outside."""

import types

import numpy as np
import pytest

from scanjit.contents import captured


@pytest.mark.parametrize("name", ["mine", "mathutils", "numpy_helpers.more"])
def test_a_module_of_a_user_is_no_library(name: str) -> None:
    """Whatever its name begins with: what its functions use is looked at."""
    module = types.ModuleType(name)
    exec("k = 1\ndef f(x):\n    return x * k", module.__dict__)
    before = captured(module.f)
    assert captured(module.f) == before
    module.k = 2  # type: ignore[attr-defined]
    assert captured(module.f) != before


def test_a_library_is_known_by_its_name() -> None:
    assert captured(np.tanh) == captured(np.tanh) != captured(np.sinh)
