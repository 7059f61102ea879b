"""Loops that compute the same are one loop: a scan, and the same scan that its gradient makes, with more results."""

from __future__ import annotations

from scanjit import errors
from scanjit.ir import PART, Node, replace, walk
from scanjit.ops.scan import SCAN
from scanjit.rewrite.engine import Note, in_bodies
from scanjit.rewrite.loop import Loop
from scanjit.rewrite.match import same_dim
from scanjit.rewrite.scan_prune import equal_carries


def merge(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """The pass: merges pairs until there are no more."""
    outputs = in_bodies(outputs, lambda inner: merge(inner, notes))
    refused: set[tuple[Node, Node]] = set()
    while True:
        scans = [node for node in walk(outputs) if node.op is SCAN]
        pairs = [(a, b) for i, b in enumerate(scans) for a in scans[:i] if (a, b) not in refused]
        for a, b in pairs:
            mapping = _merged(a, b)
            if mapping is not None:
                notes.append(Note("merge", a.where, "two loops compute the same carries: they are one"))
                outputs = replace(outputs, mapping)
                break
            refused.add((a, b))
        else:
            return outputs


def _alike(a: Node, b: Node) -> bool:
    """Whether two scans may be one: the same steps, a carry that begins the same, neither after the other."""
    p, q = a.params, b.params
    if not same_dim(p["length"], q["length"]) or p["reverse"] != q["reverse"] or p["until"] != q["until"]:
        return False
    if set(a.operands[: p["carries"]]).isdisjoint(b.operands[: q["carries"]]):
        return False
    return a not in set(walk(b.args)) and b not in set(walk(a.args))


def _merged(a: Node, b: Node) -> dict[Node, Node] | None:
    """The results of both scans as results of one, if they have a carry in common."""
    if not _alike(a, b):
        return None
    with errors.located(a.where):
        loop = Loop.of(a)
        results, stop = loop.absorb(Loop.of(b))
        own = len(loop.results)
        loop.results += results
        if not equal_carries(loop):
            return None
        if stop is not None:
            if stop.node is not loop.stop:
                return None
            loop.results = [None if r is stop else r for r in loop.results]
            loop.ys = [r.node for r in loop.results if hasattr(r, "node")]
        finished = loop.finish()
        mapping = {PART(a, index=i): node for i, node in finished.parts().items()}
        for i, result in enumerate(loop.results[own:]):
            mapping[PART(b, index=i)] = finished.result(result)
        if stop is not None:
            mapping[PART(b, index=len(results))] = finished.count()
    return mapping
