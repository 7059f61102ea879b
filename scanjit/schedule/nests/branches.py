"""Statements that run some of their suites (`If`), or several at the same time (`Beside`)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import ClassVar, Self

from scanjit.records import record, replace
from scanjit.schedule.nests.buffers import Buffer, Ref
from scanjit.schedule.nests.statement import Reference, Statement
from scanjit.types import Dimension


@record
class If(Statement):
    """Run `then` if an int64 in memory is not 0, else `otherwise`."""

    condition: Ref
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]
    title: str = ""
    suite_names: ClassVar[tuple[str, ...]] = ("then", "otherwise")

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """Where the condition lies."""
        return (self.condition.offset,)

    def refs(self) -> Iterator[Reference]:
        """The condition."""
        yield self.condition.buffer, self.condition.offset, False


@record(eq=True)
class Wave:
    """How loops over blocks of time run side by side though one reads what another one makes: in turns.

    In turn t, branch i runs block `t - delays[i]`, if there is one: layer 2 of a stack runs a block while layer 1 runs
    the next. Threads meet after each turn. If the first or the last turn has only one block, all threads run it. There
    are `total` steps, in `many` blocks of `chosen` steps, which is decided in each call.

    If the branches have no threads of their own, `chosen` is 0. All threads run the first of `many` turns of branch 0,
    then of branch 1, and so on, then the second turn of each. Each branch has as many blocks in a turn, and as many
    steps in a block, as it says. The counter `number` tells a branch which turn it is.

    A buffer in `slots` holds the rows of a few turns: as many as the mapping says, each in a slot of its own. Turn t
    has slot `t % slots`. Every other buffer holds the rows of all turns.
    """

    delays: tuple[int, ...]
    total: Dimension
    chosen: Dimension
    many: Dimension
    number: Dimension
    slots: Mapping[Buffer, int] = field(default_factory=dict)


@record
class Beside(Statement):
    """Loops over time that do not depend on each other, or not on each other's later steps (`wave`): `branches`, each
    of one statement.

    Where `apart` is not 0, each branch has threads of its own, and no branch waits for another. Branch i has `many[i]`
    threads, from number `first[i]` on, which meet at the meeting place of number `place[i]`. Where `apart` is 0, or
    there is one thread only, all threads run one branch after the other. `threads.sharing` decides these numbers in
    each call, from the sizes and the number of threads.
    """

    branches: tuple[Statement, ...]
    apart: Dimension
    first: tuple[Dimension, ...]
    many: tuple[Dimension, ...]
    place: tuple[Dimension, ...]
    wave: Wave | None = None

    @property
    def counters(self) -> tuple[Dimension, ...]:
        """The turn of a branch, in a wave."""
        return () if self.wave is None else (self.wave.number,)

    @property
    def lasting(self) -> set[Buffer]:
        """All buffers of a wave with slots: its loops run in turns, whoever runs them."""
        return {buffer for buffer, _ in self.touched} if self.wave is not None and self.wave.slots else set()

    @property
    def title(self) -> str:
        """The titles of its branches."""
        return ", ".join(branch.title for branch in self.branches)

    @property
    def suites(self) -> tuple[Sequence[Statement], ...]:
        """One suite for each branch."""
        return tuple([branch] for branch in self.branches)

    def with_suites(self, *suites: Sequence[Statement]) -> Self:
        """The same with other branches."""
        return replace(self, branches=tuple(branch for (branch,) in suites))
