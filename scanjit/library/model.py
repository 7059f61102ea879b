"""A library as data: the interface that C sees, and a program for each target."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np

from scanjit import errors, types
from scanjit.ir import SHARED, Node
from scanjit.library.names import distinct
from scanjit.library.prepared import prepared
from scanjit.library.refusals import bounded, check_front, check_graph
from scanjit.records import record, replace
from scanjit.runtime import host, kernels, sizes as runtime_sizes
from scanjit.runtime.front import front
from scanjit.runtime.function_graph import FunctionGraph
from scanjit.runtime.layout import Layout
from scanjit.runtime.recipe import Recipe
from scanjit.runtime.shared import SharedVariable
from scanjit.runtime.sizes import Check
from scanjit.runtime.unit import Unit
from scanjit.schedule.threads.sharing import decided
from scanjit.signatures import DType
from scanjit.target import Target
from scanjit.types import Atom, Dimension


def stored(dtype: DType) -> str:
    """The dtype in which other languages store an array: that of its bits for bool, float16 and bfloat16, otherwise its
    own."""
    return {"bool": "uint8", "float16": "uint16", "bfloat16": "uint16"}.get(dtype.name, dtype.name)


@record
class Array:
    """An array of the interface.

    Attributes
    ----------
    name, label : its name in C, and its name for the user.
    atom : for an argument that is a size (a number, passed in the struct of sizes), this size; None for others.
    most : an upper bound of the shape, if the function computes the shape; otherwise None.
    """

    name: str
    label: str
    dtype: DType
    shape: tuple[Dimension, ...]
    atom: Atom | None = None
    most: tuple[Dimension, ...] | None = None

    @property
    def room(self) -> tuple[Dimension, ...]:
        """The shape for which the caller gives memory."""
        return self.shape if self.most is None else self.most


@record
class Interface:
    """The functions and structs that C sees.

    Attributes
    ----------
    name : the prefix of all names in C.
    sizes : the sizes that the caller passes in each call, with their names.
    fixed : the sizes that are the same in all calls.
    inputs, outputs : the arguments and the results, in the order of Python.
    shapes : for each result whose shape the function computes, the array that gets it.
    state : the shared variables that the function updates. A new state holds their values at the time of the export.
    checks : conditions on sizes. Each has a status, which a call returns if the condition does not hold.
    call : the suffix of the function that computes: `run`, or `step` for a `StepFunction`.
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
    def given(self) -> list[Array]:
        """The inputs that a call reads as arrays. (An input that is a size is one of the `sizes`.)"""
        return [each for each in self.inputs if each.atom is None]

    @property
    def given_back(self) -> list[Array]:
        """The arrays that a call writes, apart from the state."""
        return [*self.outputs, *self.shapes.values()]

    def named(self, start: str) -> dict[Atom, str]:
        """The texts of sizes in an expression: `start` and the name, such as "sizes.n"; or a number for fixed sizes."""
        fixed = {atom: str(value) for atom, value in self.fixed.items()}
        return {**fixed, **{atom: start + name for atom, name in self.sizes.items()}}

    @property
    def guard(self) -> str:
        """The prefix of the names of macros."""
        return self.name.upper()


@record
class StageCall:
    """A stage of a program: the layout of its arguments, the symbol of its main function, and the nodes that may report
    an index out of bounds. `codes[i]` reports the number i + 1."""

    layout: Layout
    program: str
    codes: tuple[Node, ...]


@record
class Level:
    """The program for one target.

    Attributes
    ----------
    label : the suffix of the names of this target; empty if it is the only one.
    target : the machine that it is for.
    stages, recipe : its stages, and the numbers of the arrays that each stage gets and gives.
    decided : the values, in all calls of the library, of numbers that Python decides anew in each call.
    leaves : the arguments, then the shared variables.
    units : its functions, as LLVM compiles them.
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
    """A function as a library: its interface; its levels, the best one last; and its data, which are the values of
    constants and of shared variables that it does not update."""

    interface: Interface
    graph: FunctionGraph
    levels: list[Level]
    threads: int
    data: dict[bytes, str] = field(default_factory=dict)

    def datum(self, array: np.ndarray) -> str:
        """The name in C of an array, which is added to the data. Arrays with equal bytes share a name."""
        held = array.tobytes()
        return self.data.setdefault(held, f"{self.interface.name}_data_{len(self.data)}")


def interface(name: str, graph: FunctionGraph, sizes: Mapping[str, int], call: str = "run") -> Interface:
    """The interface of a graph. `sizes` maps names of sizes to the numbers that they are in all calls."""
    check_graph(graph)
    variables = [node.params["variable"] for node in graph.shared]
    fixed = runtime_sizes.bind(graph.shared, [variable.stored.shape for variable in variables]) | _fixed_sizes(
        graph, sizes
    )
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
    """The conditions under which the new values of variables have the shapes of the old ones."""
    return [
        Check("==", dim, size, f"dimension {axis} of {variable.label} and of its new value", node.where)
        for variable, node in graph.updates
        for axis, (dim, size) in enumerate(zip(node.type.shape, variable.stored.shape, strict=True))
        if dim != size
    ]


def _label(atom: Atom) -> str:
    return atom.node.name if atom.kind == "value" and atom.node.name else str(atom.name)


def _fixed_sizes(graph: FunctionGraph, sizes: Mapping[str, Any]) -> dict[Atom, int]:
    """The sizes that the user fixes, with their values; an `ArgumentError` if one is unknown or no valid size."""
    known = {_label(atom): atom for atom in _sizes_of(graph)}
    for name, value in sizes.items():
        if name not in known:
            raise errors.ArgumentError(
                "sizes has a name that is no size of the function",
                got=repr(name),
                expected=f"one of {sorted(known)}",
                where="",
            )
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < 2**63:
            raise errors.ArgumentError(
                "a size must be an integer that is not negative",
                got=f"{name}={value!r}",
                expected="an integer from 0 to 2**63 - 1",
                where="",
            )
    return {known[name]: int(value) for name, value in sizes.items()}


def level(interface: Interface, graph: FunctionGraph, label: str, target: Target, threads: int) -> Level:
    """The program of a graph for a target."""
    target = replace(target, alone=threads == 1, has_matrices=False)  # nobody asks the system for them
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
        layout = prepared(stage, {**interface.fixed, **decisions}, constant)
        layout = replace(layout, table=replace(layout.table, lives=layout.table.lives_for(threads)))
        stages.append(StageCall(layout, symbol, stage.program.codes))
    return Level(label, target, stages, recipe, decisions, leaves, list(units.values()))


def _decided(layout: Layout) -> dict[Atom, int]:
    """The values, in all calls of the library, of numbers that Python decides anew in each call: threads share all
    work, none keeps rows of its own, and a share is one piece."""
    found: dict[Dimension, int] = dict.fromkeys(decided(layout.costs), 0)
    found |= {piece.turns: 0 for piece in layout.pieces}
    for part in layout.costs:
        found |= {price.rows.copies: 1 for some in part.branches for price in some if price.rows is not None}
    return {atom: value for dim, value in found.items() if (atom := types.as_atom(dim)) is not None}
