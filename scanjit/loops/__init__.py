"""Loops: `scan` and its relatives, brought into the normal form of the Scan op."""

from scanjit.loops.scan import scan
from scanjit.loops.shorthands import filter, foldl, foldr, map, reduce
from scanjit.loops.step import until

__all__ = ["filter", "foldl", "foldr", "map", "reduce", "scan", "until"]
