"""A computation, compiled: its stages, run one after the other."""

from collections.abc import Callable, Mapping

import numpy as np

from scanjit import errors, types
from scanjit.codegen import Generated
from scanjit.ir import Node, as_dim
from scanjit.rewrite import lower
from scanjit.rewrite import run as rewrite
from scanjit.rewrite.branches import share
from scanjit.rewrite.unfit import without_unfit
from scanjit.runtime import sizes as runtime_sizes
from scanjit.runtime.bounds import explained
from scanjit.runtime.compiled import CompiledStage, Timer
from scanjit.runtime.layout import Layout
from scanjit.runtime.stages import stages
from scanjit.types import Atom


class Staged:
    """A compiled computation. Safe to call from several threads at once.

    Where a size depends on a computed value, what comes before is a stage of its own: it runs before the sizes of the
    next stage are known. With `timer`, each stage takes the time of its statements.
    """

    def __init__(
        self,
        origins: list[Node],
        outputs: list[Node],
        name: str,
        mode: str,
        timer: Callable[[Generated, Layout], Timer] | None = None,
    ) -> None:
        self.origins, self.name, self.mode, self._asked = origins, name, mode, outputs
        self._conditions = [c for c in runtime_sizes.conditions(outputs) if c.on_values]
        sized = _sized_by(self._conditions, origins)
        written, unfit = without_unfit(share([*outputs, *sized], []))
        rewritten = rewrite([*written, *unfit])
        lowered = lower(rewritten.outputs)
        self.outputs, self.notes = lowered[: len(outputs)], rewritten.notes
        self._unfit = lowered[len(written) :]
        found = [as_dim(node) for node in lowered[len(outputs) : len(written)]]
        self._checked = [(node.dim_atom, dim) for node, dim in zip(sized, found, strict=True) if node.dim_atom]
        self.stages = [CompiledStage(stage, name, mode, timer) for stage in stages(origins, lowered)]

    def __call__(self, arrays: list[np.ndarray], sizes: dict[Atom, int]) -> list[np.ndarray]:
        """New arrays, one an output."""
        try:
            return self._results(arrays, sizes)
        except (errors.OutOfBoundsError, _Unfit) as error:
            raise explained(error, self._asked, dict(zip(self.origins, arrays, strict=True))) from None

    def _results(self, arrays: list[np.ndarray], sizes: dict[Atom, int]) -> list[np.ndarray]:
        if len(self.stages) == 1 and not self._conditions and not self._unfit and self.stages[0].simple:
            return self.stages[0].run(arrays, sizes)
        values: dict[Node, np.ndarray] = dict(zip(self.origins, arrays, strict=True))
        sizes = dict(sizes)
        sizes |= {origin.dim_atom: int(a) for origin, a in values.items() if origin.dim_atom is not None}
        self._learn(sizes, values)
        left = runtime_sizes.check(self._conditions, sizes)
        for compiled in self.stages:
            stage = compiled.stage
            results = compiled.run([values[origin] for origin in stage.origins], sizes)
            values |= dict(zip(stage.outputs, results, strict=True))
            sizes |= {atom: int(values[node]) for atom, node in stage.values.items()}
            self._learn(sizes, values)
            left = runtime_sizes.check(left, sizes)
        if any(values[node] for node in self._unfit):
            raise _Unfit("a size that is computed in a branch of ifelse does not fit")
        return [values[node] for node in self.outputs]

    def _learn(self, sizes: dict[Atom, int], values: Mapping[Node, np.ndarray]) -> None:
        """Add the sizes that conditions are about and that are known by now."""
        for atom, dim in self._checked:
            for other in types.atoms(dim):
                if other.kind == "value" and (node := other.node) in values:
                    sizes[other] = int(values[node])
            if all(other in sizes for other in types.atoms(dim)):
                sizes[atom] = types.evaluate(dim, sizes)

    @property
    def source(self) -> str:
        """All generated code: for each stage its main function, then the functions that it calls."""
        return "\n\n".join(text for stage in self.stages for text in stage.sources())

    def explain(self) -> str:
        """What was done to make it fast, and what was not: rewrites, loops, nests, memory."""
        notes = [*map(str, self.notes), *(note for stage in self.stages for note in stage.notes())]
        return "\n".join([f"{self.name}:", *(f"  {note}" for note in notes)]) + "\n"

    def inspect_asm(self) -> str:
        """The assembly of all kernels."""
        return "\n\n".join(kernel.asm() for stage in self.stages for kernel in stage.kernels)


class _Unfit(errors.ShapeError):
    """A size that a branch computes is none that the branch can be run with."""


def _sized_by(conditions: list[runtime_sizes.Check], origins: list[Node]) -> list[Node]:
    """The nodes whose values conditions are about. The rewritten graph computes them too: it has sizes of its own."""
    atoms = dict.fromkeys(atom for c in conditions if c.body is None for atom in c.atoms() if atom.kind == "value")
    nodes = [atom.node for atom in atoms]
    return [node for node in nodes if not any(node is origin for origin in origins)]
