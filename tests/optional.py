"""Libraries that some tests compare with."""

import importlib
from typing import Any

import pytest


def optional(name: str) -> tuple[Any, pytest.MarkDecorator]:
    """A library, or None if it is not installed; and the mark of tests that need it."""
    try:
        library = importlib.import_module(name)
    except ImportError:
        library = None
    return library, pytest.mark.skipif(library is None, reason=f"{name} is not installed")
