"""Compute values that are the same in every step once, before the loop.

Views stay in the loop: they compute nothing, and where they are used they say how an operand is read. A view whose
value is a size does leave the loop: sizes of all steps are known before the loop runs.
"""

from __future__ import annotations

from scanjit.ir import Node, replace, walk
from scanjit.ops.view import View
from scanjit.rewrite.alike import change_loops
from scanjit.rewrite.engine import Note
from scanjit.rewrite.loop import OpenScan
from scanjit.rewrite.match import is_free


def hoist(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Before a loop, compute the values that are the same in all of its steps. Inner loops come first: a value that
    leaves an inner loop may then leave the outer one."""
    return change_loops(outputs, notes, _hoisted)


def _hoisted(scan: Node, notes: list[Note]) -> dict[int, Node] | None:
    loop = OpenScan.of(scan)
    invariant = _invariant(loop)
    leaving = frontier(loop, invariant)
    if not leaving:
        return None
    outside = replace(leaving, loop.outside())
    loop.substitute({node: loop.const(outer) for node, outer in zip(leaving, outside, strict=True)})
    names = ", ".join(sorted({node.op.name for node in leaving}))
    notes.append(Note("hoist", scan.where, f"does not change from step to step, and is made before the loop: {names}"))
    return loop.finish().parts()


def _invariant(loop: OpenScan) -> set[Node]:
    """The nodes of the body that are the same in every step, without those that cost nothing."""
    varying = loop.depends([*(c.inner for c in loop.carries), *loop.xs.values()])
    return {node for node in walk(loop.outputs) if node not in varying and not is_free(node)}


def frontier(loop: OpenScan, chosen: set[Node]) -> list[Node]:
    """The computed nodes among `chosen` that the rest of the body uses: as sizes, as other values, or through views."""
    inputs = {*loop.consts.values(), *loop.xs.values()}
    found: dict[Node, None] = {}

    def use(node: Node, is_size: bool = False) -> None:
        while not is_size and isinstance(node.op, View) and node in chosen and not node.args[node.arity :]:
            node = node.args[0]
        if node in chosen and node not in inputs:
            found[node] = None

    for node in walk(loop.outputs):
        if node not in chosen:
            sizes = {*node.applied.sizes}
            for arg in node.args:
                use(arg, arg in sizes)
    for node in loop.outputs:
        use(node)
    return list(found)
