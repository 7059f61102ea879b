"""The package `onnx`, an optional dependency, which is imported when it is first needed."""

import importlib
from typing import Any

from scanjit import errors


def package() -> Any:
    """The module `onnx`; an error that names the command to install it, if it is missing."""
    try:
        return importlib.import_module("onnx")
    except ImportError as error:
        raise errors.NotSupportedError(
            "models in ONNX's format need the package onnx, which is not installed",
            got=str(error),
            fix='pip install "scanjit[onnx]"',
        ) from None
