"""From loop nests to Numba source."""

from scanjit.codegen.generate import Generated, generate

__all__ = ["Generated", "generate"]
