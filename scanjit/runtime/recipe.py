"""How a computation is run, as data: everything that the rewriter, the scheduler and the generator find out about a
graph.

The arrays of a call are numbered: first the arguments, then the results of each stage. A recipe refers to arrays by
these numbers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from scanjit import types
from scanjit.errors import FormatError
from scanjit.ir import Node
from scanjit.records import record
from scanjit.runtime.layout import Layout
from scanjit.runtime.stages import Stage
from scanjit.types import Atom, Dimension


class GeneratedFunction(NamedTuple):
    """A generated function: its name, the first part of the names of its files in the cache, its number of arguments,
    and the names of the functions that it calls."""

    name: str
    stem: str
    arity: int
    calls: tuple[str, ...]


@record
class StageRecipe:
    """How a stage is run.

    Attributes
    ----------
    arguments : the numbers of the arrays that are its arguments.
    layout : the other data that a call needs.
    sizes : the sizes that are known once it has run, each with the array of its value.
    functions : its code; the last function is called.
    """

    arguments: list[int]
    layout: Layout
    sizes: list[tuple[Atom, int]]
    functions: list[GeneratedFunction]


@record
class Recipe:
    """How a computation is run.

    Attributes
    ----------
    stages : the stages, in order.
    outputs : the arrays that are its results.
    unfit : arrays that must be false. Each says whether a size that a branch computes does not fit.
    sizes : the sizes that are arguments, each with the array of its value.
    checked : the sizes of the graph that conditions are about, each as a dimension of the rewritten graph.
    """

    stages: list[StageRecipe]
    outputs: list[int]
    unfit: list[int]
    sizes: list[tuple[Atom, int]]
    checked: list[tuple[Atom, Dimension]]

    def check(self, arguments: int) -> None:
        """Raise an error if it refers to anything by a number that is too large. `arguments` is the number of
        arguments."""
        count = arguments
        _within(count, (number for _, number in self.sizes))
        for stage in self.stages:
            table, results = stage.layout.table, stage.layout.results
            _within(count, stage.arguments)
            _within(len(stage.arguments), [*stage.layout.kept_from, *(number for _, number in table.inputs)])
            pairs = [*table.inputs, *table.outputs, *table.temporaries]
            single = [*table.status, *table.sync, *table.ready, *(i for _, some in table.numbers for i in some)]
            _within(table.size, [*single, *(i for i, _ in pairs), *(i for i, _ in table.constants)])
            _within(len(table.out_buffers), [*(n for _, n in table.outputs), *(n for n, _, _ in results)])
            _within(len(table.lives), (number for _, number in table.temporaries))
            count += len(results)
            _within(count, (number for _, number in stage.sizes))
        _within(count, [*self.outputs, *self.unfit])

    @property
    def simple(self) -> bool:
        """Whether it is one stage, and there is nothing to check."""
        return len(self.stages) == 1 and not (self.unfit or self.sizes or self.checked or self.stages[0].sizes)


def _within(count: int, numbers: Iterable[int]) -> None:
    if any(not 0 <= number < count for number in numbers):
        raise FormatError("a recipe refers to what is not there")


def recipe(
    origins: Sequence[Node],
    stages: Sequence[tuple[Stage, Layout, list[GeneratedFunction]]],
    outputs: Iterable[Node],
    unfit: Iterable[Node],
    checked: list[tuple[Atom, Dimension]],
) -> Recipe:
    """The recipe that computes `outputs` in some stages."""
    asked = [atom for atom in types.atoms(*(dim for _, dim in checked)) if atom.kind == "value"]
    numbers = {node: number for number, node in enumerate(origins)}
    first = list(_sizes(numbers, [*asked, *(node.dim_atom for node in origins if node.dim_atom is not None)]))
    made: list[StageRecipe] = []
    count = len(numbers)
    for stage, layout, functions in stages:
        arguments = [numbers[node] for node in stage.origins]
        new = {node: number for number, node in enumerate(stage.outputs, count)}
        count += len(stage.outputs)
        numbers |= new
        known = list(_sizes(new, [*stage.values, *asked]))
        made.append(StageRecipe(arguments, layout, known, functions))
    return Recipe(made, [numbers[node] for node in outputs], [numbers[node] for node in unfit], first, checked)


def _sizes(numbers: Mapping[Node, int], atoms: Iterable[Atom]) -> Iterator[tuple[Atom, int]]:
    """Those of these sizes whose values are numbered arrays, each with the number of its array."""
    for atom in dict.fromkeys(atoms):
        if atom.node in numbers:
            yield atom, numbers[atom.node]
