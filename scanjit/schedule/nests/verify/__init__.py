"""The verifier of programs: rules that hold for every program that the scheduler makes, after each of its passes."""

import os
from collections.abc import Callable, Iterator

from scanjit.errors import InternalError
from scanjit.schedule.nests.program import Program
from scanjit.schedule.nests.verify.bounds import inside_buffers
from scanjit.schedule.nests.verify.decided import forms_fit, lifetimes_cover_uses, once_is_enough
from scanjit.schedule.nests.verify.memory import kinds_of_buffers, reads_follow_writes
from scanjit.schedule.nests.verify.problem import Problem
from scanjit.schedule.nests.verify.scope import counters_in_scope, loops_in_scope
from scanjit.schedule.nests.verify.shapes import fields_fit, tiles_fit
from scanjit.schedule.nests.verify.sharing import branches_apart, own_rows_apart, threads_apart

VERIFY = os.environ.get("SCANJIT_VERIFY", "0") not in ("", "0")
"""Whether every program is verified. The tests switch it on."""

Rule = Callable[[Program], Iterator[Problem]]

STATEMENT_RULES: tuple[Rule, ...] = (
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
"""The rules about statements. Each yields the statements that break it, with a message."""
RULES: tuple[Rule, ...] = (*STATEMENT_RULES, once_is_enough, forms_fit, lifetimes_cover_uses)
"""All rules: also those about what a program says of its statements, such as their lifetimes."""


def verify(program: Program, maker: str = "the scheduler", before: Program | None = None) -> None:
    """Raise an InternalError for the first rule that a program breaks. The message says that `maker` made the program.
    `before` is a program that is known to be right: if it has the same statements, only the other rules are checked."""
    same = before is not None and before.suite == program.suite
    for rule in RULES[len(STATEMENT_RULES) :] if same else RULES:
        for statement, text in rule(program):
            raise InternalError(f"{maker} made an invalid program: {text}", got=statement.title or "a statement")


__all__ = ["RULES", "STATEMENT_RULES", "VERIFY", "verify"]
