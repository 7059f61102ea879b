"""Libraries that are extras: without one, the error names the extra."""

import importlib
import sys

import pytest


@pytest.mark.parametrize("name", ["jax", "pytensor", "torch"])
def test_the_error_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load = getattr(importlib.import_module(f"scanjit.{name}"), f"_{name}")
    load.cache_clear()
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"pip install 'scanjit\[{name}\]'"):
        load()
    monkeypatch.undo()
    load.cache_clear()
