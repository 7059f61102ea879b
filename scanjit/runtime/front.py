"""From a graph to generated code: the rewriter, the scheduler and the generator, one after the other."""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from scanjit import types
from scanjit.codegen.generate import Generated, generate
from scanjit.ir import Node, as_dim, remembered_walks
from scanjit.rewrite import lower, run as rewrite
from scanjit.rewrite.branches import share
from scanjit.rewrite.unfit import without_unfit
from scanjit.runtime import host
from scanjit.runtime.kernels import Kernel, kernels
from scanjit.runtime.layout import Layout
from scanjit.runtime.recipe import GeneratedFunction, Recipe, recipe
from scanjit.runtime.sizes import Check
from scanjit.runtime.stages import Stage, stages
from scanjit.schedule.nests import Program
from scanjit.schedule.pipeline import schedule
from scanjit.types import Type


class MadeStage(NamedTuple):
    """A stage, and the program and the code that were made of it."""

    stage: Stage
    program: Program
    code: Generated
    layout: Layout


class Front(NamedTuple):
    """The result of the front end: the `outputs` in the rewritten graph, the nodes that must be false there (`unfit`),
    the sizes that conditions are about, notes of the rewriter, and the stages."""

    outputs: list[Node]
    unfit: list[Node]
    checked: list[tuple[types.Atom, types.Dimension]]
    notes: list[str]
    stages: list[MadeStage]

    def recipe(self, origins: Sequence[Node], functions: Callable[[MadeStage], list[GeneratedFunction]]) -> Recipe:
        """The recipe for running it. `functions` gives the functions of a stage."""
        made = [(each.stage, each.layout, functions(each)) for each in self.stages]
        return recipe(origins, made, self.outputs, self.unfit, self.checked)


def front(
    origins: list[Node],
    outputs: list[Node],
    conditions: list[Check],
    name: str,
    timed: bool,
    changing: Collection[Node],
) -> Front:
    """The stages that compute `outputs` from `origins`, and the sizes that `conditions` are about. With `timed`, the
    code takes the time of its statements. The shared variables `changing` get new values in every call."""
    sized = _sized_by(conditions, origins)
    with remembered_walks():
        written, unfit = without_unfit(share([*outputs, *sized], []))
        rewritten = rewrite([*written, *unfit])
        lowered = lower(rewritten.outputs)
    found = [as_dim(node) for node in lowered[len(outputs) : len(written)]]
    checked = [(node.dim_atom, dim) for node, dim in zip(sized, found, strict=True) if node.dim_atom]
    made = [_made(stage, name, timed, changing) for stage in stages(origins, lowered)]
    return Front(lowered[: len(outputs)], lowered[len(written) :], checked, list(map(str, rewritten.notes)), made)


def _made(stage: Stage, name: str, timed: bool, changing: Collection[Node]) -> MadeStage:
    program = schedule(stage.origins, stage.outputs, host.target(), changing)
    _check_memory(stage, program)
    code = generate(program, name, profile=timed)
    return MadeStage(stage, program, code, Layout.of(program, code))


def _check_memory(stage: Stage, program: Program) -> None:
    """Raise an error if no memory can hold a buffer, as far as its sizes are known: its addresses would not fit into
    the int64 that generated code counts with."""
    places = {ref.buffer: node.where for ref, node in zip(program.outputs, stage.outputs, strict=True)}
    for buffer in (*places, *(life.buffer for life in program.lifetimes)):
        types.check_memory(buffer.dtype.itemsize, Type(buffer.dtype, buffer.shape), places.get(buffer))


def _sized_by(conditions: list[Check], origins: list[Node]) -> list[Node]:
    """The nodes whose values conditions are about. The rewritten graph computes them too: it has sizes of its own."""
    atoms = dict.fromkeys(atom for c in conditions if c.body is None for atom in c.atoms() if atom.kind == "value")
    nodes = [atom.node for atom in atoms]
    return [node for node in nodes if not any(node is origin for origin in origins)]


def compiled(code: Generated) -> list[Kernel]:
    """The kernels of generated code, compiled."""
    arity = {source.name: source.arity for source in code.functions}
    return kernels([(f.text, f.name, {name: arity[name] for name in f.calls}) for f in code.functions])


def described(code: Generated, made: Sequence[Kernel]) -> list[GeneratedFunction]:
    """The functions of generated code, from which these kernels were made."""
    return [GeneratedFunction(f.name, k.stem, f.arity, f.calls) for f, k in zip(code.functions, made, strict=True)]
