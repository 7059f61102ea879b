"""ONNX models in and out: `load` reads one as expressions, `save` and `export` write any function as one.

They need the package `onnx` (`pip install "scanjit[onnx]"`), which is imported when one of them is called.
"""

from scanjit.onnx.exporting.model import export, save
from scanjit.onnx.importing.model import Model, load

__all__ = ["Model", "export", "load", "save"]
