"""The last row of a stacked carry is the final value of the carry: `ys[-1] -> carry`."""

from __future__ import annotations

from scanjit.ir import PART, Node, rebuild, walk
from scanjit.ops.scan import SCAN, Layout
from scanjit.ops.shape import DIMSHUFFLE, SLICE
from scanjit.rewrite.engine import Note, in_bodies
from scanjit.rewrite.match import is_whole, same_dim, window_of


def last_rows(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """The pass. That there is a row at all is a condition of the slice, which is checked before anything runs."""
    outputs = in_bodies(outputs, lambda inner: last_rows(inner, notes))
    done: dict[Node, Node] = {}
    for node in walk(outputs):
        new = rebuild(node, tuple(done[arg] for arg in node.args))
        done[node] = (_final(new) if new.op is SLICE else None) or new
    return [done[output] for output in outputs]


def _final(node: Node) -> Node | None:
    """ys[T - 1 : T] -> the final carry, with an axis of size 1; in a reverse loop, ys[0:1]"""
    (part,) = node.operands
    if part.op is not PART or part.args[0].op is not SCAN:
        return None
    scan, index = part.args[0], part.params["index"]
    layout, outputs = Layout.of(scan), scan.params["body"].outputs
    if layout.until or not layout.carries <= index < layout.carries + layout.ys:
        return None
    last = 0 if scan.params["reverse"] else scan.params["length"] - 1
    (start, length, _), *rest = window_of(node)
    if not same_dim(start, last) or not same_dim(length, 1) or not is_whole(tuple(rest), part.type.shape[1:]):
        return None
    carry = next((i for i in range(layout.carries) if outputs[i] is outputs[index]), None)
    if carry is None:
        return None
    final = PART(scan, index=carry)
    return DIMSHUFFLE(final, order=(None, *range(final.ndim)))
