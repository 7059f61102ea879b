"""Loops that compute the same become one loop. For example a scan, and the copy of it with more results that its
gradient makes."""

from __future__ import annotations

from scanjit import errors
from scanjit.ir import PART, Node, new_input, replace, walk
from scanjit.ops.scan import SCAN
from scanjit.rewrite.engine import Note, in_bodies
from scanjit.rewrite.loop import OpenScan
from scanjit.rewrite.scan_prune import equal_carries


def merge(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Make one loop of two that compute the same carries: a loop, and the copy of it that its gradient makes."""
    outputs = in_bodies(outputs, lambda inner: merge(inner, notes))
    pairs = _Pairs()
    while True:
        found = pairs.of([node for node in walk(outputs) if node.op is SCAN])
        if not found:
            return outputs
        mapping: dict[Node, Node] = {}
        for a, b in found:
            merged = _merged(a, b)
            if merged is None:
                pairs.refused.add((a, b))
                continue
            notes.append(Note("merge", a.where, "two loops compute the same carries: they are one"))
            new = replace(list(merged.values()), mapping)  # operands may be results of loops that have been merged
            mapping |= dict(zip(merged, new, strict=True))
        outputs = replace(outputs, mapping) if mapping else outputs


class _Pairs:
    """Loops that may have a carry in common, found by fingerprints. The fingerprint of a carry is its initial value,
    and its update as a function of the operands. It takes carries with the same initial value for equal."""

    def __init__(self) -> None:
        self.refused: set[tuple[Node, Node]] = set()
        self._symbols: dict[tuple[str, Node], Node] = {}
        self._known: dict[Node, set[tuple[object, ...]]] = {}

    def of(self, scans: list[Node]) -> list[tuple[Node, Node]]:
        """Pairs with a fingerprint in common, the earlier one first; each loop in one pair at most."""
        first: dict[tuple[object, ...], Node] = {}
        found: list[tuple[Node, Node]] = []
        taken: set[Node] = set()
        for b in scans:
            for key in self._prints(b):
                a = first.setdefault(key, b)
                if a is not b and a not in taken and b not in taken and (a, b) not in self.refused:
                    found.append((a, b))
                    taken |= {a, b}
        return found

    def _prints(self, scan: Node) -> set[tuple[object, ...]]:
        if scan not in self._known:
            loop = OpenScan.of(scan)
            roles = {c.inner: "carry" if c.lag is None else "ring" for c in loop.carries}
            mapping = {c.inner: self._symbol(roles[c.inner], c.init, c.inner) for c in loop.carries}
            mapping |= {inner: self._symbol("row", x, inner) for x, inner in loop.xs.items()}
            mapping |= {inner: self._symbol("constant", x, inner) for x, inner in loop.consts.items()}
            new = replace([c.new for c in loop.carries], mapping)
            steps = (scan.params["length"], scan.params["reverse"], scan.params["until"])
            pairs = zip(loop.carries, new, strict=True)
            self._known[scan] = {(*steps, roles[c.inner], c.init, node) for c, node in pairs}
        return self._known[scan]

    def _symbol(self, role: str, operand: Node, inner: Node) -> Node:
        if (role, operand) not in self._symbols:
            self._symbols[role, operand] = new_input(inner.type)
        return self._symbols[role, operand]


def _merged(a: Node, b: Node) -> dict[Node, Node] | None:
    """The results of both scans, computed by one scan, if they have a carry in common."""
    if a in set(walk(b.args)) or b in set(walk(a.args)):
        return None
    with errors.located(a.where):
        loop = OpenScan.of(a)
        results, stop = loop.absorb(OpenScan.of(b))
        own = len(loop.results)
        loop.results += results
        if not equal_carries(loop):
            return None
        if stop is not None:
            if stop.node is not loop.stop:
                return None
            loop.results = [None if r is stop else r for r in loop.results]
        finished = loop.finish()
        mapping = {PART(a, index=i): node for i, node in finished.parts().items()}
        for i, result in enumerate(loop.results[own:]):
            mapping[PART(b, index=i)] = finished.result(result)
        if stop is not None:
            mapping[PART(b, index=len(results))] = finished.count()
    return mapping
