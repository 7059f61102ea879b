"""A program: statements over buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scanjit.ir import Node
from scanjit.schedule.nests.buffers import Buffer, Ref
from scanjit.schedule.nests.lifetime import Lifetime
from scanjit.schedule.nests.nest import Nest
from scanjit.schedule.nests.statement import Job, Statement
from scanjit.target import Target


@dataclass(frozen=True, eq=False)
class Program:
    """Statements, and what is known of them. Passes return a new program.

    Attributes
    ----------
    inputs : the buffers of the arguments, shared variables included.
    outputs : where each result lies in its buffer.
    suite : the statements, in order.
    codes : the nodes that may report an index out of bounds; the number of one is its position here, plus 1.
    target : the machine that it was scheduled for.
    notes : what `explain` says about how the program was made.
    once : statements of the suite that run once for each value of the shared variables, not in every call.
    lasting : the buffers that these write and others read: they keep what is in them between calls.
    lifetimes : when each temporary is in use; first come those of `lasting`, in the same order.
    single : of nests that compute several rows at a time, the form that runs where there is one row.
    pieces : the nests that are computed a piece at a time, so that a thread can end between two pieces.
    """

    inputs: Sequence[Buffer]
    outputs: Sequence[Ref]
    suite: Sequence[Statement]
    codes: Sequence[Node]
    target: Target
    notes: Sequence[str] = ()
    once: Sequence[Job] = ()
    lasting: Sequence[Buffer] = ()
    lifetimes: Sequence[Lifetime] = ()
    single: Mapping[Nest, Nest] = field(default_factory=dict)
    pieces: Sequence[Nest] = ()
