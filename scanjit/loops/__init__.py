"""Loops: `scan` and its relatives, brought into the normal form of the Scan op."""

from scanjit.loops.exponential import expm
from scanjit.loops.ifelse import ifelse
from scanjit.loops.scan import scan
from scanjit.loops.shorthands import associative_scan, filter, foldl, foldr, map, reduce
from scanjit.loops.step import until
from scanjit.loops.while_loop import while_loop

__all__ = [
    "associative_scan",
    "expm",
    "filter",
    "foldl",
    "foldr",
    "ifelse",
    "map",
    "reduce",
    "scan",
    "until",
    "while_loop",
]
