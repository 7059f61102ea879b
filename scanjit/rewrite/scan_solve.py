"""Small linear systems in steps whose right side waits for the step before, but not their matrix.

An implicit method solves `a @ u = b` in each step, with the `b` of the step before. A substitution that divides each
sum by its pivot makes a step wait for one division after the other, each of which takes as long as three additions. If
rows are divided by their pivots first, one division is left to wait for: all others are there before `b` is.
"""

from scanjit import errors
from scanjit.ir import Node, rebuilt, replace, walk, with_body
from scanjit.ops.scan import SCAN
from scanjit.rewrite.engine import Note, in_bodies
from scanjit.rewrite.loop import OpenScan
from scanjit.rewrite.systems import with_early_quotients


def early_quotients(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Write the solutions of small systems out whose matrix depends on no carry, while their right side does: with
    quotients that do not wait for each other."""
    outputs = in_bodies(outputs, lambda inner: early_quotients(inner, notes))
    return rebuilt(outputs, lambda _, new: _changed(new, notes) if new.op is SCAN else None)


def _changed(scan: Node, notes: list[Note]) -> Node | None:
    """The scan with such solutions. None if there are none."""
    body, loop = scan.params["body"], OpenScan.of(scan)
    moving = loop.depends(carry.inner for carry in loop.carries)
    found: dict[Node, Node] = {}
    with errors.located(scan.where):
        for node in walk(body.outputs):
            if len(node.operands) == 2 and node.operands[1] in moving and node.operands[0] not in moving:
                if (written := with_early_quotients(node)) is not None:
                    found[node] = written
    if not found:
        return None
    notes.append(Note("early_quotients", scan.where, "a small system is divided by its pivots before its step"))
    return with_body(scan, body.with_outputs(replace(list(body.outputs), found)))
