"""Compiled functions as Python packages that need NumPy alone."""

from scanjit.export.package import export_numpy

__all__ = ["export_numpy"]
