"""The graph that a compiled function computes, as a value, and the conditions that it must meet."""

from typing import Literal, get_args

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import INPUT, SHARED, Node
from scanjit.loops.structure import Tree
from scanjit.records import record
from scanjit.runtime.shared import SharedVariable
from scanjit.types import Type

Mode = Literal["numba", "emulate", "reference"]
"""How a function runs: see `scanjit.function`."""
MODES: tuple[Mode, ...] = get_args(Mode)


@record
class FunctionGraph:
    """The graph of a function: `outputs` (the leaves of `tree`; None returns nothing) and `updates`, computed from
    `inputs`.

    `names` are the names of the outputs in the file from which they were read. Other functions have none.
    """

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    tree: Tree | None
    updates: tuple[tuple[SharedVariable, Node], ...] = ()
    names: tuple[str, ...] = ()

    @property
    def roots(self) -> list[Node]:
        """All nodes that are computed: the outputs, then the new values."""
        return [*self.outputs, *(node for _, node in self.updates)]

    @property
    def returns(self) -> list[Type]:
        """The types of the values that a call returns."""
        flags = [] if self.tree is None else self.tree.stored()
        return [
            Type(np.result_type(node.dtype, np.complex64), node.type.shape[:-1]) if flag else node.type
            for node, flag in zip(self.outputs, flags, strict=True)
        ]

    @property
    def shared(self) -> list[Node]:
        """The shared variables that are read, as nodes."""
        return [node for node in ir.walk(self.roots) if node.op is SHARED]

    @property
    def variables(self) -> list[SharedVariable]:
        """The shared variables that are read or updated, in the order in which they were made."""
        used = {node.params["variable"] for node in self.shared} | {variable for variable, _ in self.updates}
        return sorted(used, key=lambda variable: variable.serial)


def check_mode(mode: str) -> None:
    """Raise an error unless there is such a mode."""
    errors.check_known("the mode of a function", mode, MODES)


def check_complete(graph: FunctionGraph, name: str) -> None:
    """Raise an error unless everything that the outputs need, values and sizes, comes from inputs and shared
    variables."""
    inputs = set(graph.inputs)
    nodes = ir.walk(graph.roots)
    for node in nodes:
        if node.op is INPUT and node not in inputs:
            raise errors.ArgumentError(
                f"{name} needs a value for {node.name or 'an unnamed symbol'!r}, which is not among its inputs",
                got=f"inputs [{', '.join(i.name or repr(i) for i in graph.inputs)}]",
                expected=f"also {node!r}, made at {node.where}",
                fix="add it to the inputs, or replace it with `givens`"
                " (a symbol of a scan's step exists only inside that step)",
            )
    origins = [*graph.inputs, *(node for node in nodes if node.op is SHARED)]
    known = {atom for origin in origins for atom in types.atoms(*origin.type.shape)}
    for node in {(node.applied, node.types): node for node in reversed(nodes)}.values():
        for atom in ir.atoms_of(node):
            if atom.kind == "size" and atom not in known:
                raise errors.ArgumentError(
                    f"{name} needs the size {atom.name}, and no input has it",
                    got=f"used by {node!r}, made at {node.where}",
                    fix="add the tensor that has this size to the inputs",
                )
