"""If: an `ifelse` of both graphs; or the results of one graph, if the other cannot be read or does not fit."""

from collections.abc import Sequence
from typing import Any

from scanjit import errors, ir
from scanjit.ir import Node
from scanjit.loops.ifelse import ifelse
from scanjit.onnx.importing import known
from scanjit.onnx.importing.call import Call, scalar
from scanjit.ops.elementwise import INVERT
from scanjit.ops.probe import ASSERT
from scanjit.ops.promotion import truth

_GRAPHS = {True: "then_branch", False: "else_branch"}


def if_(call: Call) -> list[Node]:
    """The results of an If. If the condition is known, the graph that it excludes is not read."""
    graphs = {value: call.graph(name) for value, name in _GRAPHS.items()}
    condition = truth(scalar(call.input(0)))
    value = known.truth(condition)
    if value is not None:
        return call.run(graphs[value], [])
    found, failed = _both(call, graphs)
    if failed is None:
        try:
            return list(ifelse(condition, found[True], found[False]))
        except (errors.ShapeError, errors.DtypeError) as error:
            failed = error
    usual = known.usual(condition)
    if usual is None or not found:
        raise _explained(failed, condition)
    taken = call.choices.take(usual) if len(found) == 2 else next(iter(found))
    return [_only(node, condition, taken, call.source) for node in found[taken]]


def _both(call: Call, graphs: dict[bool, Any]) -> tuple[dict[bool, Sequence[Node]], errors.ScanjitError | None]:
    """The results of each graph that can be read, and the error of the first one that cannot; None if both can."""
    found: dict[bool, Sequence[Node]] = {}
    failed: errors.ScanjitError | None = None
    for value, graph in graphs.items():
        try:
            found[value] = tuple(call.run(graph, []))
        except errors.ScanjitError as error:
            failed = failed or error
    return found, failed


def _explained(failed: errors.ScanjitError, condition: Node) -> errors.ScanjitError:
    """The error of a branch, with a hint that names the inputs on which the condition depends."""
    names = sorted(node.name for node in ir.walk([condition]) if node.op is ir.INPUT and node.name)
    if names:
        given = ", ".join(f"{name!r}: ..." for name in names)
        failed.fix = f"if the condition of the branch never changes, load the model with inputs={{{given}}}"
    return failed


def _only(node: Node, condition: Node, taken: bool, source: str) -> Node:
    """A result of one branch. A call whose condition asks for the other branch is an error."""
    return ASSERT(
        node,
        condition if taken else ir.apply(INVERT, condition),
        message=f"{source} was read for sizes that take the {_GRAPHS[taken]} of an If, and these take the other one",
        fix="load the model with these sizes: sj.onnx.load(..., sizes={...})",
    )
