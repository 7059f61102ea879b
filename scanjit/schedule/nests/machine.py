"""The machine that a program is scheduled for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """What schedules depend on: bytes a vector register, how many of them there are, and the processor's name."""

    vector_bytes: int = 32
    registers: int = 16
    name: str = ""

    @property
    def key(self) -> str:
        """What measurements of it are listed under."""
        return f"{self.name} {self.vector_bytes}"
