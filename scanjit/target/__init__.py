"""The machine that code is generated for: a value that is made once, and handed down from `runtime` to `simd`."""

from scanjit.target.measured import Shape, Speeds
from scanjit.target.named import LEVELS, NAMES, target_named
from scanjit.target.value import MATRIX_ROW_BYTES, MATRIX_ROWS, Target, target_for

__all__ = [
    "LEVELS",
    "MATRIX_ROWS",
    "MATRIX_ROW_BYTES",
    "NAMES",
    "Shape",
    "Speeds",
    "Target",
    "target_for",
    "target_named",
]
