"""The machine that code is generated for: a value that is made once, and handed down from `runtime` to `simd`."""

from scanjit.target.measured import Shape, Speeds
from scanjit.target.named import LEVELS, NAMES, target_named
from scanjit.target.value import Target, target_for

__all__ = ["LEVELS", "NAMES", "Shape", "Speeds", "Target", "target_for", "target_named"]
