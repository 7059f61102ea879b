"""How much memory a call of a compiled function takes. The sizes alone decide it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scanjit import errors
from scanjit.runtime import processors
from scanjit.schedule.threads.teams import Way
from scanjit.show import Document, Table

if TYPE_CHECKING:
    from scanjit.runtime.compiled import CompiledStage
    from scanjit.runtime.sized import Sized


class Temporary(NamedTuple):
    """A temporary of a call: its name, its bytes, where it begins in the workspace, and the first and the last
    statement that needs it. No two temporaries of a workspace are in the same place at the same time."""

    name: str
    nbytes: int
    offset: int
    first: int
    last: int


@dataclass(frozen=True)
class Memory:
    """The memory of a call, in bytes, made by `CompiledFunction.memory`. Print it, or draw it with
    `scanjit.plot.memory`.

    Attributes
    ----------
    workspace : the bytes of all temporaries; they are kept for the next call.
    results : the bytes of the new arrays for the results.
    name : the name of the function.
    temporaries : the temporaries in the workspace, as `Temporary` (`name`, `nbytes`, `offset`, `first`, `last`).
    """

    workspace: int
    results: int
    name: str = field(default="", compare=False, repr=False)
    temporaries: tuple[Temporary, ...] = field(default=(), compare=False, repr=False)

    @property
    def peak(self) -> int:
        """The sum of both: the most that a call uses at one time."""
        return self.workspace + self.results

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        rows = [(f"{self.workspace:,}", "workspace"), (f"{self.results:,}", "results"), (f"{self.peak:,}", "both")]
        lie = [
            (f"{t.nbytes:,}", f"{t.offset:,}", f"{t.first}", f"{t.last}", t.name)
            for t in sorted(self.temporaries, key=lambda t: -t.nbytes)
        ]
        return Document(
            f"memory of a call of {self.name}",
            Table(("bytes", "of"), rows),
            Document("workspace", Table(("bytes", "begin at", "from statement", "to", "temporary"), lie), folded=True),
        ).forms(include, exclude)


def footprint(stages: Sequence[CompiledStage], sizes: Mapping[str, int], name: str) -> Memory:
    """The memory of a call with these sizes, which are given by name."""
    atoms = list(dict.fromkeys(atom for stage in stages for atom in stage.table.atoms))
    missing = [str(atom) for atom in atoms if atom.name not in sizes]
    if missing:
        raise errors.ArgumentError(
            f"the memory of {name} depends on sizes that are not given",
            got=", ".join(f"{key}={value}" for key, value in sizes.items()) or "none",
            expected=", ".join(missing),
            fix="name the sizes of the inputs, as in sj.tensor(('T', 'B', 64)); or look at explain() after a call",
        )
    given: Mapping[str, Any] = sizes
    for label, size in given.items():
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 0:
            raise errors.ArgumentError("a size is an integer from 0 on", got=f"{label}={size!r}")
    way = Way(processors.count())
    known = [stage.sized({atom: int(sizes[atom.name]) for atom in stage.table.atoms}, way) for stage in stages]
    workspace = sum(sized.workspace for sized in known)
    results = sum(
        sized.number(buffer.nbytes)
        for stage, sized in zip(stages, known, strict=True)
        for buffer in stage.table.out_buffers
    )
    return Memory(workspace, results, name, tuple(_temporaries(stages, known)))


def _temporaries(stages: Sequence[CompiledStage], known: Sequence[Sized]) -> Iterator[Temporary]:
    """The temporaries of all stages. The workspace and the statements of a stage come after those of the stage
    before."""
    begin = moment = 0
    for stage, sized in zip(stages, known, strict=True):
        lives = stage.table.lives
        end = max((m for life in lives for m in (life.first, life.last) if m < sys.maxsize), default=0)
        for life, offset, nbytes in zip(lives, sized.offsets, sized.nbytes, strict=True):
            first, last = max(life.first, 0), min(life.last, end)
            yield Temporary(life.buffer.name, nbytes, begin + offset, moment + first, moment + last)
        begin, moment = begin + sized.workspace, moment + end + 1
