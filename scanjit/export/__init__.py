"""Compiled functions as code for others to run: NumPy's."""

from scanjit.export.package import export_numpy

__all__ = ["export_numpy"]
