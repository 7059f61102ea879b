"""The C library of each system. Those that are not here are pretended."""

import sys

import pytest

from scanjit.simd import c_library

NAMES = {
    "linux": (None, "libm.so.6"),
    "darwin": (None,),
    "win32": ("ucrtbase.dll", "vcruntime140.dll", "ntdll.dll"),
}


@pytest.mark.parametrize("system", NAMES)
def test_where_it_is(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert c_library.names() == NAMES[system]
