"""Cuts a graph where a size depends on a computed value. The part before the cut runs first, and gives the size."""

from collections.abc import Iterator, Sequence

from scanjit import ir, types
from scanjit.ir import Node
from scanjit.records import record
from scanjit.types import Atom


@record
class Stage:
    """A part of a graph all of whose sizes are known before it runs. `values` are scalar results that are sizes of
    later parts."""

    origins: list[Node]
    outputs: list[Node]
    values: dict[Atom, Node]


def stages(origins: Sequence[Node], outputs: Sequence[Node]) -> list[Stage]:
    """The stages of a graph: one if no size depends on a computed value."""
    if ir.sizes_are_given(outputs):
        return [Stage(list(origins), list(outputs), {})]
    result: list[Stage] = []
    known: dict[Node, None] = dict.fromkeys(origins)
    sized = {node.dim_atom for node in origins if node.dim_atom is not None}
    shared = [node for outer in ir.walk(outputs, known) for node in _sizes_of_all_steps(outer)]
    while True:
        order = ir.walk([*shared, *outputs], known)
        ready: dict[Node, bool] = {}
        wanted: dict[Atom, Node] = {}
        for node in order:
            unknown = {atom: atom.node for atom in _value_atoms(node) if atom not in sized}
            wanted |= unknown
            ready[node] = node in known or (not unknown and all(ready[arg] for arg in node.args))
        values = {atom: node for atom, node in wanted.items() if ready[node]}
        if all(ready[node] for node in outputs):
            result.append(Stage(_used(known, order) if result else list(origins), list(outputs), {}))
            return result
        border = {arg: None for node in order if not ready[node] for arg in node.args if ready[arg]}
        border |= dict.fromkeys(node for node in outputs if ready[node])
        crossing = [n for n in (*border, *values.values()) if n not in known and n.op not in (ir.CONSTANT, ir.SIZE)]
        crossing = [n for n in dict.fromkeys(crossing) if not n.several]
        result.append(Stage(_used(known, ir.walk(crossing, known)), crossing, values))
        known |= dict.fromkeys(crossing)
        sized |= set(values)


def _used(known: dict[Node, None], order: Sequence[Node]) -> list[Node]:
    met = set(order)
    return [node for node in known if node in met]


def _value_atoms(node: Node) -> Iterator[Atom]:
    """The computed sizes in a node's type and parameters. Sizes inside the graph of a scan belong to the scan, unless
    they are the same in all steps."""
    known = {*(other.dim_atom for other in node.args), *(a for kind in node.types for a in types.atoms(*kind.shape))}
    yield from (atom for atom in ir.atoms_of(node) if atom.kind == "value" and atom in known)
    yield from (size.dim_atom for size in _sizes_of_all_steps(node) if size.dim_atom is not None)


def _sizes_of_all_steps(node: Node) -> Iterator[Node]:
    """The sizes in the graph of a scan that are computed only from constants and outer sizes, so that they are the same
    in all steps."""
    if isinstance(node.params.get("body"), ir.Graph):
        sizes = dict.fromkeys(atom.node for atom in ir.atoms_of(node) if atom.kind == "value")
        yield from (size for size in sizes if size.is_closed)
