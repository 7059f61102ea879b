"""ONNX models in and out: `load` makes expressions of a model, `save` and `export` make a model of a function.

They need the package `onnx` (`pip install "scanjit[onnx]"`), which is imported when one of them is called for the first
time.
"""

from scanjit.onnx.exporting.model import export, save
from scanjit.onnx.importing.model import Model, load

__all__ = ["Model", "export", "load", "save"]
