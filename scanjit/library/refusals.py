"""Errors about functions that cannot be a library, with the reason and the user's line."""

from collections.abc import Collection, Iterable, Iterator

from scanjit import ir, types
from scanjit.errors import NotSupportedError
from scanjit.ir import Node
from scanjit.library.bounds import most
from scanjit.ops.decompositions import EIGH, QR, SVD
from scanjit.ops.probe import PROBES
from scanjit.ops.systems import CHOLESKY, LU, TRIANGULAR_SOLVE
from scanjit.runtime.front import Front
from scanjit.runtime.function_graph import FunctionGraph
from scanjit.types import Atom, Dimension

_OF_LAPACK = (CHOLESKY, LU, TRIANGULAR_SOLVE, EIGH, QR, SVD)


def check_graph(graph: FunctionGraph) -> None:
    """Raise `NotSupportedError` if a function calls Python, or a guest of `from_numba`."""
    for node, around in _with_loops(graph.roots):
        if node.op in PROBES:
            why = f"`{node.op.name}` calls Python, which the library runs without"
            raise _refused(node, why, "leave it out", around)
        if "guest" in node.params:
            why = f"it calls {node.params['guest']!r}, a function given to from_numba, whose code is in this process"
            raise _refused(node, why, "write it with operations of scanjit", around)


def check_front(made: Front, known: Collection[Atom]) -> None:
    """Raise `NotSupportedError` if a program calls LAPACK, or needs memory whose size has no bound before a call. The
    sizes in `known` are known before a call."""
    for stage in made.stages:
        if stage.layout.has_lapack:
            node, around = next(pair for pair in _with_loops(stage.stage.outputs) if pair[0].op in _OF_LAPACK)
            why = f"`{node.op.name}` of this size calls LAPACK, which the library does not have"
            raise _refused(node, why, "", around)
    tables = [stage.layout.table for stage in made.stages]
    dims = [life.nbytes for table in tables for life in table.lives]
    dims += [buffer.nbytes for table in tables for buffer in table.out_buffers]
    dims += [dim for node in made.outputs for dim in node.type.shape]
    for dim in dims:
        bounded(dim, known)


def bounded(dim: Dimension, known: Collection[Atom]) -> Dimension:
    """An upper bound of a dimension, made of sizes in `known`; a `NotSupportedError` if there is none."""
    found = most(dim, known)
    if found is None:
        atom = next(atom for atom in types.atoms(dim) if atom.kind == "value" and atom not in known)
        raise _refused(
            atom.node,
            "it computes a size, so that nobody knows before a call how much memory it needs",
            "make the size an argument, a number, or a size of an argument; or cut an array to it: x[:n]",
        )
    return found


def _with_loops(outputs: Iterable[Node]) -> Iterator[tuple[Node, Node]]:
    """All nodes, each with the outermost loop or branch around it, or with itself if there is none."""
    for outer in ir.walk(outputs):
        yield outer, outer
        for graph in ir.graphs_in([outer]):
            yield from ((node, outer) for node in graph.nodes())


def _refused(node: Node, why: str, fix: str, around: Node | None = None) -> NotSupportedError:
    """The error about a node in the loop `around` it. Loops with equal bodies share one graph, whose nodes have the
    lines of the loop that was written first. So the error names the line of `around` too."""
    where = node.where
    if around is not None and around.where != where:
        where += f", in the `{around.op.name}` at {around.where}"
    return NotSupportedError(f"this function cannot be a library: {why}", got=repr(node), fix=fix, where=where)
