"""From loop nests to Python source."""

from scanjit.codegen.generate import Generated, generate

__all__ = ["Generated", "generate"]
