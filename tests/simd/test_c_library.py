"""The C library of each system. Those that are not here are pretended."""

import ctypes
import math
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from scanjit.errors import InternalError
from scanjit.kinds import KINDS
from scanjit.simd import c_library
from scanjit.simd.numpy_lanes import NumpyLanes

NAMES = {
    "linux": (None, "libm.so.6"),
    "darwin": (None,),
    "win32": ("ucrtbase.dll", "vcruntime140.dll", "ntdll.dll"),
}


@pytest.fixture(params=NAMES)
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str | None]]:
    """The libraries that were asked for. All are this system's, but on Windows only the first has mathematics, and
    Linux has none in the process itself."""
    asked: list[str | None] = []
    here = next(ctypes.CDLL(name) for name in c_library.names() if name or sys.platform == "darwin")

    def library(name: str | None) -> object:
        assert name in NAMES[request.param]
        asked.append(name)
        if name is None and request.param == "linux":
            return object()
        if name == "vcruntime140.dll":
            raise FileNotFoundError(name)
        return here

    monkeypatch.setattr(sys, "platform", request.param)
    monkeypatch.setattr(ctypes, "CDLL", library)
    c_library.function.cache_clear()
    yield asked
    c_library.function.cache_clear()


def test_the_emulator_calls_it(system: list[str | None]) -> None:
    """Also where `math` raises an error instead of giving nan or inf."""
    values = np.array([0.5, 2.0, -math.inf, math.nan, 0.0])
    x = NumpyLanes(values, KINDS["f64"])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(x.libm("asin").array, np.arcsin(values))
    assert x.libm("lgamma").array[4] == math.inf and math.isnan(x.libm("tan").array[2])
    np.testing.assert_array_equal(x.libm("atan2", x).array[:2], [math.pi / 4] * 2)
    assert system


def test_what_is_in_none(system: list[str | None]) -> None:
    with pytest.raises(InternalError, match="the C library has no no_such_function_anywhere"):
        c_library.function("no_such_function_anywhere", 1)
    assert tuple(system) == NAMES[sys.platform]
