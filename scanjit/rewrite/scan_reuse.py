"""Values that a loop stacks are not computed again outside of it: for example `carry'_t`, from the carries before each
step."""

from __future__ import annotations

from collections.abc import Collection

from scanjit.ir import PART, Node, rebuild, rebuilt, walk
from scanjit.ops.promotion import Elementwise
from scanjit.ops.scan import SCAN
from scanjit.ops.view import View
from scanjit.rewrite.engine import Note, Rewriter, in_bodies
from scanjit.rewrite.loop import OpenScan, Y
from scanjit.rewrite.rules import RULES
from scanjit.rewrite.split import OverTime


def reuse(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """If the graph computes a value from stacks of a loop, and the loop stacks that value itself, read it from
    there."""
    outputs = in_bodies(outputs, lambda inner: reuse(inner, notes))
    order = walk(outputs)
    present, known = set(order), {}
    rewriter = Rewriter(RULES)
    for scan in (node for node in order if node.op is SCAN):
        for again, part in _stored(scan):
            (again,) = rewriter([again])
            if again in present and again is not part:
                known[again] = part
                notes.append(Note("reuse", scan.where, "a value that the loop stores is not computed again outside"))
    if not known:
        return outputs
    scans: dict[Node, Node] = {}

    def replaced(old: Node, new: Node) -> Node | None:
        if old.op is SCAN:
            scans[old] = new
        part = known.get(old)
        return None if part is None else rebuild(part, (scans[part.args[0]],))

    return rebuilt(outputs, replaced)


def _stored(scan: Node) -> list[tuple[Node, Node]]:
    """The ys of a loop that elementwise ops can compute from its other stacks. Each pair has the node that does so
    outside of the loop, for all steps at once, and the part of the scan that can replace it."""
    loop = OpenScan.of(scan)
    parts = {r.node: PART(scan, index=i) for i, r in enumerate(loop.results) if isinstance(r, Y)}
    if loop.stop is not None:
        return []
    carried = {c.inner for c in loop.carries}
    given = {*loop.xs.values(), *loop.consts.values()}
    found = []
    for y, part in parts.items():
        stacks = {other: stack for other, stack in parts.items() if other is not y}
        if y not in carried and _is_light(y, stacks.keys(), carried, given):
            found += [(again, part) for again in OverTime(loop)([y], stacks)]
    return found


def _is_light(y: Node, stacked: Collection[Node], carried: Collection[Node], given: Collection[Node]) -> bool:
    """Whether elementwise ops make a y of the stacks and the inputs of the loop."""
    nodes = walk([y], {*stacked, *carried, *given})
    if not any(node in stacked for node in nodes):
        return False
    return all(
        node in stacked
        or (node not in carried and (node in given or not node.args or isinstance(node.op, Elementwise | View)))
        for node in nodes
    )
