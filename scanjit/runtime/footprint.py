"""How much memory a call of a compiled function takes. The sizes alone decide it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from scanjit import errors
from scanjit.runtime import processors
from scanjit.schedule.memory.addresses import ALIGNMENT

if TYPE_CHECKING:
    from scanjit.runtime.compiled import CompiledStage


class Memory(NamedTuple):
    """Bytes: the `workspace` of all temporaries, which is kept for the next call, and the new arrays for `results`."""

    workspace: int
    results: int

    @property
    def peak(self) -> int:
        """The sum of both: the most that a call uses at one time."""
        return self.workspace + self.results


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
    threads = processors.count()
    known = [stage.sized({atom: int(sizes[atom.name]) for atom in stage.table.atoms}, threads) for stage in stages]
    workspace = sum(sized.workspace + ALIGNMENT for sized in known if sized.workspace)
    results = sum(
        math.prod(shape) * buffer.dtype.itemsize
        for stage, sized in zip(stages, known, strict=True)
        for shape, buffer in zip(sized.shapes, stage.table.out_buffers, strict=True)
    )
    return Memory(workspace, results)
