"""Compiled functions as libraries for C, without Python."""

from scanjit.library.library import export_library

__all__ = ["export_library"]
