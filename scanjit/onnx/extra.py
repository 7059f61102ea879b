"""The package `onnx`, an optional dependency: it is imported when it is needed, and not before."""

import importlib
from typing import Any

from scanjit import errors


def package() -> Any:
    """The module `onnx`, or an error that says how to get it."""
    try:
        return importlib.import_module("onnx")
    except ImportError as error:
        raise errors.NotSupportedError(
            "models in ONNX's format need the package onnx, which is not installed",
            got=str(error),
            fix='pip install "scanjit[onnx]"',
        ) from None
