"""Loops over time, compiled: recurrences written in Python, with gradients, at the speed of hand-written kernels."""

__version__ = "0.1.0"

import scanjit.ops  # the op table
from scanjit.runtime.function import CompiledFunction, function
from scanjit.runtime.shared import SharedVariable, shared

__all__ = ["CompiledFunction", "SharedVariable", "function", "shared"]
