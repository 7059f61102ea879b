"""The verifier of programs: rules that hold for every program that the scheduler makes, after each of its passes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from scanjit.errors import InternalError
from scanjit.schedule.nests.program import Program
from scanjit.schedule.nests.verify.bounds import inside_buffers
from scanjit.schedule.nests.verify.memory import kinds_of_buffers, reads_follow_writes
from scanjit.schedule.nests.verify.scope import counters_in_scope, loops_in_scope
from scanjit.schedule.nests.verify.shapes import fields_fit, tiles_fit
from scanjit.schedule.nests.verify.sharing import branches_apart, own_rows_apart, threads_apart
from scanjit.schedule.nests.verify.walk import Problem

VERIFY = os.environ.get("SCANJIT_VERIFY", "0") not in ("", "0")
"""Whether every program is verified. The tests switch it on."""

RULES: tuple[Callable[[Program], Iterator[Problem]], ...] = (
    loops_in_scope,  # the rules below ask for the sizes of loops and the atoms of counters
    counters_in_scope,
    kinds_of_buffers,
    reads_follow_writes,
    inside_buffers,
    fields_fit,
    tiles_fit,
    threads_apart,
    own_rows_apart,
    branches_apart,
)
"""The rules. Each finds the statements that break it, and says how."""


def verify(program: Program, what: str = "the scheduler") -> None:
    """Raise an InternalError for the first rule that a program breaks; `what` made the program."""
    for rule in RULES:
        for statement, text in rule(program):
            raise InternalError(f"{what} made an invalid program: {text}", got=statement.title or "a statement")


__all__ = ["RULES", "VERIFY", "verify"]
