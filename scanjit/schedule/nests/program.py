"""A program: statements over buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cached_property

from scanjit.ir import Node
from scanjit.records import record, replace
from scanjit.schedule.nests.buffers import Buffer, Ref
from scanjit.schedule.nests.lifetime import Lifetime
from scanjit.schedule.nests.nest import Nest
from scanjit.schedule.nests.statement import Job, Statement
from scanjit.target import Target


@record
class Program:
    """Statements, and what is known about them. Passes return a new program.

    Attributes
    ----------
    inputs : the buffers of the arguments, shared variables included.
    outputs : where each result lies in its buffer.
    suite : the statements, in order.
    codes : the nodes that may report an error. The code of a node is its position here, plus 1.
    target : the machine that it was scheduled for.
    notes : what `explain` says about how the program was made.
    once : statements of the suite that run only when a shared variable has a new value, not in every call.
    lasting : the buffers that `once` writes and other statements read. Their contents stay between calls.
    lifetimes : when each temporary is in use. Those of `lasting` come first, in the same order.
    single : maps a nest that computes several rows at a time to the variant that runs where there is one row.
    pieces : the nests that are computed a piece at a time, so that a thread can end between two pieces.
    """

    inputs: tuple[Buffer, ...]
    outputs: tuple[Ref, ...]
    suite: tuple[Statement, ...]
    codes: tuple[Node, ...]
    target: Target
    notes: tuple[str, ...] = ()
    once: tuple[Job, ...] = ()
    lasting: tuple[Buffer, ...] = ()
    lifetimes: tuple[Lifetime, ...] = ()
    single: Mapping[Nest, Nest] = field(default_factory=dict)
    pieces: tuple[Nest, ...] = ()

    @cached_property
    def uses(self) -> Counter[Buffer]:
        """How often it refers to each buffer, results included."""
        refs = [buffer for statement in self.suite for buffer, _, _ in statement.all_refs()]
        return Counter([*(ref.buffer for ref in self.outputs), *refs])

    @cached_property
    def lives(self) -> dict[Buffer, Lifetime]:
        """The lifetime of each temporary."""
        return {life.buffer: life for life in self.lifetimes}

    def with_suite(self, suite: Iterable[Statement], notes: Iterable[str] = ()) -> Program:
        """The same program with other statements, and `notes` added to its own."""
        return replace(self, suite=tuple(suite), notes=(*self.notes, *notes))
