"""What is exported, as data: the interface that C sees, and a program for each target."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from scanjit import errors, types
from scanjit.codegen.places import SCRATCH, SCRATCH_BYTES
from scanjit.ir import SHARED, Node
from scanjit.library.names import distinct
from scanjit.library.prepared import prepared
from scanjit.library.refusals import bounded, check_front, check_graph
from scanjit.records import record
from scanjit.runtime import host, kernels, sizes as runtime_sizes
from scanjit.runtime.front import front
from scanjit.runtime.function_graph import FunctionGraph
from scanjit.runtime.layout import Layout
from scanjit.runtime.recipe import Recipe
from scanjit.runtime.shared import SharedVariable
from scanjit.runtime.sizes import Check
from scanjit.runtime.unit import Unit
from scanjit.schedule.nests import Lifetime
from scanjit.schedule.threads.sharing import decided
from scanjit.signatures import DType
from scanjit.target import Target
from scanjit.types import Atom, Dimension


def stored(dtype: DType) -> str:
    """A dtype, or that of its bits if languages have no such numbers."""
    return {"bool": "uint8", "float16": "uint16", "bfloat16": "uint16"}.get(dtype.name, dtype.name)


@record
class Array:
    """An array of the interface: its name in C, what the user calls it, its dtype and its shape. Of a size that the
    caller gives as a number, `atom` is that size. Where the function computes the shape, `room` is the most that it can
    be: so much memory the caller gives."""

    name: str
    label: str
    dtype: DType
    shape: tuple[Dimension, ...]
    atom: Atom | None = None
    most: tuple[Dimension, ...] | None = None

    @property
    def room(self) -> tuple[Dimension, ...]:
        """The shape that its memory is for."""
        return self.shape if self.most is None else self.most


@record
class Interface:
    """What C sees.

    Attributes
    ----------
    name : what all names in C begin with.
    sizes : the sizes that a call gives, each with its name.
    fixed : the sizes that are the same in all calls.
    inputs, outputs : the arguments and the results, in the order of Python.
    shapes : for each result whose shape the function computes, the array that gets it.
    state : the shared variables that the function updates, whose values of now a new state has.
    checks : conditions on sizes, each of which has a status.
    call : what the name of the function that computes ends with: `run`, or `step` of a function that is cut into steps.
    """

    name: str
    sizes: Mapping[Atom, str]
    fixed: Mapping[Atom, int]
    inputs: list[Array]
    outputs: list[Array]
    shapes: dict[Array, Array]
    state: list[tuple[Array, SharedVariable]]
    checks: list[Check]
    call: str = "run"

    @property
    def given_back(self) -> list[Array]:
        """All that a call writes, but the state."""
        return [*self.outputs, *self.shapes.values()]

    def named(self, start: str) -> dict[Atom, str]:
        """What sizes are called in some language, where names begin with `start`; or the numbers that they are."""
        fixed = {atom: str(value) for atom, value in self.fixed.items()}
        return {**fixed, **{atom: start + name for atom, name in self.sizes.items()}}

    @property
    def guard(self) -> str:
        """What names of macros begin with."""
        return self.name.upper()


@record
class StageCall:
    """A stage of a program: how it is called, the symbol of its main function, and the nodes that may report an index
    out of bounds."""

    layout: Layout
    program: str
    codes: tuple[Node, ...]


@record
class Level:
    """The program for one target.

    Attributes
    ----------
    label : what names of this target end with; nothing where there is one.
    target : what it is made for.
    stages, recipe : how it is called.
    decided : the numbers that Python decides in each call, as they are in all calls of the library.
    leaves : its arguments and shared variables.
    units : its functions.
    """

    label: str
    target: Target
    stages: list[StageCall]
    recipe: Recipe
    decided: Mapping[Atom, int]
    leaves: list[Node]
    units: list[Unit]

    @property
    def programs(self) -> list[str]:
        """The symbols of its main functions."""
        return [stage.program for stage in self.stages]

    @property
    def codes(self) -> tuple[Node, ...]:
        """The nodes that may report an index out of bounds."""
        return tuple(node for stage in self.stages for node in stage.codes)


@record
class LibraryModel:
    """A function as a library: its interface, its levels (the best one last), and its data: the values of constants and
    of shared variables that it does not update."""

    interface: Interface
    graph: FunctionGraph
    levels: list[Level]
    threads: int
    data: dict[bytes, str] = field(default_factory=dict)

    def datum(self, array: np.ndarray) -> str:
        """The name of an array in the data. Equal bytes lie there once."""
        held = array.tobytes()
        return self.data.setdefault(held, f"{self.interface.name}_data_{len(self.data)}")


def interface(name: str, graph: FunctionGraph, sizes: Mapping[str, int], call: str = "run") -> Interface:
    """What C sees of a graph. `sizes` says what some sizes are in all calls."""
    check_graph(graph)
    variables = [node.params["variable"] for node in graph.shared]
    fixed = runtime_sizes.bind(graph.shared, [variable.stored.shape for variable in variables]) | _given(graph, sizes)
    asked = [atom for atom in _sizes_of(graph) if atom not in fixed]
    named = dict(zip(asked, distinct(map(_label, asked), "size"), strict=True))
    names = distinct([node.name for node in graph.inputs], "input")
    inputs = [
        Array(made, node.name or made, node.dtype, node.type.shape, node.dim_atom)
        for node, made in zip(graph.inputs, names, strict=True)
    ]
    paths = [] if graph.tree is None else ["_".join(re.findall(r"\w+", path)) for path in graph.tree.paths()]
    names = distinct(["_".join(filter(None, ["output", p])) if not p or p[0].isdigit() else p for p in paths], "output")
    outputs = []
    for node, made in zip(graph.outputs, names, strict=True):
        room = tuple(bounded(dim, {*asked, *fixed}) for dim in node.type.shape)
        outputs.append(Array(made, made, node.dtype, node.type.shape, most=None if room == node.type.shape else room))
    computed = [each for each in outputs if each.most is not None]
    names = distinct([*names, *(f"{each.name}_shape" for each in computed)], "output")[len(names) :]
    shapes = {
        each: Array(made, f"the shape of {each.name}", np.dtype("int64"), (len(each.shape),))
        for each, made in zip(computed, names, strict=True)
    }
    updated = [variable for variable, _ in graph.updates]
    state = [
        (Array(made, variable.name or made, variable.stored.dtype, variable.stored.shape), variable)
        for variable, made in zip(updated, distinct([each.name for each in updated], "variable"), strict=True)
    ]
    checks = [check for check in runtime_sizes.conditions(graph.roots) if check.body is None]
    return Interface(name, named, fixed, inputs, outputs, shapes, state, [*checks, *_kept_shapes(graph)], call)


def _sizes_of(graph: FunctionGraph) -> list[Atom]:
    """The sizes of the arguments, and the arguments that are sizes."""
    dims = [dim for node in graph.inputs for dim in node.type.shape]
    found = [atom for dim in dims for atom in types.atoms(dim) if atom.kind == "size"]
    return list(dict.fromkeys([*found, *(node.dim_atom for node in graph.inputs if node.dim_atom is not None)]))


def _kept_shapes(graph: FunctionGraph) -> list[Check]:
    """The new value of a variable has the shape of the old one."""
    return [
        Check("==", dim, size, f"dimension {axis} of {variable.label} and of its new value", node.where)
        for variable, node in graph.updates
        for axis, (dim, size) in enumerate(zip(node.type.shape, variable.stored.shape, strict=True))
        if dim != size
    ]


def _label(atom: Atom) -> str:
    return atom.node.name if atom.kind == "value" and atom.node.name else str(atom.name)


def _given(graph: FunctionGraph, sizes: Mapping[str, Any]) -> dict[Atom, int]:
    """The sizes that the user fixes, by their names."""
    known = {_label(atom): atom for atom in _sizes_of(graph)}
    for name, value in sizes.items():
        if name not in known:
            raise errors.ArgumentError(
                "the function has no such size", got=repr(name), expected=f"one of {sorted(known)}", where=""
            )
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < 2**63:
            raise errors.ArgumentError(
                "a size is a whole number, not below 0",
                got=f"{name}={value!r}",
                expected="an integer from 0 to 2**63 - 1",
                where="",
            )
    return {known[name]: int(value) for name, value in sizes.items()}


def level(interface: Interface, graph: FunctionGraph, label: str, target: Target, threads: int) -> Level:
    """The program of a graph for a target."""
    target = replace(target, alone=threads == 1)
    leaves = [*graph.inputs, *graph.shared]
    on_values = [check for check in interface.checks if check.on_values]
    updated = {variable for variable, _ in graph.updates}
    changing = {node for node in graph.shared if node.params["variable"] in updated}
    with host.using(target):
        made = front(leaves, list(dict.fromkeys(graph.roots)), on_values, interface.name, False, changing)
        decisions = {atom: number for stage in made.stages for atom, number in _decided(stage.layout).items()}
        check_front(made, {*interface.sizes, *interface.fixed, *decisions})
        recipe = made.recipe(leaves, lambda made: [])
        functions = [source for stage in made.stages for source in stage.code.functions]
        arity = {source.name: source.arity for source in functions}
        wanted = [(each.text, each.name, {callee: arity[callee] for callee in each.calls}) for each in functions]
        units = kernels.units(wanted, target)
    stages: list[StageCall] = []
    for number, (stage, found) in enumerate(zip(made.stages, recipe.stages, strict=True)):
        symbol = "_".join(
            [f"{interface.name}_program", *([label] if label else []), *([str(number)] if number else [])]
        )
        main = stage.code.main.name
        units[main] = units[main]._replace(symbol=symbol)
        constant = {
            i: leaves[argument].params["variable"].stored
            for i, argument in enumerate(found.arguments)
            if argument < len(leaves) and leaves[argument].op is SHARED and leaves[argument] not in changing
        }
        layout = _for_threads(prepared(stage, {**interface.fixed, **decisions}, constant), threads)
        stages.append(StageCall(layout, symbol, stage.program.codes))
    return Level(label, target, stages, recipe, decisions, leaves, list(units.values()))


def _for_threads(layout: Layout, threads: int) -> Layout:
    """The layout with as much room for register tiles as so many threads need."""
    lives = [
        Lifetime(replace(life.buffer, shape=(threads * SCRATCH_BYTES,)), life.first, life.last)
        if life.buffer is SCRATCH
        else life
        for life in layout.table.lives
    ]
    return replace(layout, table=replace(layout.table, lives=lives))


def _decided(layout: Layout) -> dict[Atom, int]:
    """The numbers that Python decides in each call, for a library: threads share all work, none keeps rows of its own,
    and a share is one piece."""
    found: dict[Dimension, int] = dict.fromkeys(decided(layout.costs), 0)
    found |= {piece.turns: 0 for piece in layout.pieces}
    for part in layout.costs:
        found |= {price.rows.copies: 1 for some in part.branches for price in some if price.rows is not None}
    return {atom: value for dim, value in found.items() if (atom := types.as_atom(dim)) is not None}
