"""A program: statements over buffers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scanjit.schedule.nests.buffers import Buffer, Ref
from scanjit.schedule.nests.statement import Statement
from scanjit.target import Target


@dataclass(eq=False)
class Program:
    """Statements, and the buffers for inputs and outputs. `outputs` say where each result lies in its buffer.
    `target` is the machine that it was scheduled for."""

    inputs: list[Buffer]
    outputs: list[Ref]
    body: list[Statement]
    codes: list[Any]
    target: Target
    notes: list[str] = field(default_factory=list)
