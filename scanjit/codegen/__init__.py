"""From loop nests to Numba source."""

from scanjit.codegen.main import Generated, generate

__all__ = ["Generated", "generate"]
