"""Loops that compute the same become one loop: for example a scan, and the copy of it with more results that its
gradient makes."""

from collections.abc import Sequence

from scanjit import errors
from scanjit.ir import BOUND, PART, Graph, Node, replace, walk
from scanjit.ops.roles import Roles
from scanjit.ops.scan import SCAN
from scanjit.rewrite.engine import Note, in_bodies
from scanjit.rewrite.loop import OpenScan
from scanjit.rewrite.scan_prune import equal_carries
from scanjit.walks import bottom_up


def merge(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Join two loops that compute the same carries into one: a loop, and the copy of it that its gradient makes."""
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
        self._updates: dict[tuple[Graph, tuple[int, ...]], list[tuple[Graph, list[int]]]] = {}

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

    def _prints(self, scan: Node) -> list[tuple[object, ...]]:
        roles, body = Roles.of(scan), scan.params["body"]
        kinds = ["ring" if i in roles.lags else "carry" for i in range(roles.carries)]
        kinds += ["row"] * roles.sequences + ["constant"] * (len(body.inputs) - roles.carries - roles.sequences)
        read = [*zip(kinds, scan.operands, strict=True)]
        first: dict[tuple[str, Node], int] = {}
        key = body, tuple([first.setdefault(what, i) for i, what in enumerate(read)])
        if key not in self._updates:
            self._updates[key] = _functions(body, roles.carries, key[1])
        steps = (scan.params["length"], scan.params["reverse"], scan.params["until"])
        pairs = zip(read, self._updates[key], strict=False)
        return [(*steps, carry, update, *[read[i] for i in inputs]) for carry, (update, inputs) in pairs]


def _functions(body: Graph, carries: int, first: Sequence[int]) -> list[tuple[Graph, list[int]]]:
    """The updates of carries, each as a function of the inputs that it uses, and the positions of these. `first` maps
    each input to the first one that is the same."""
    same = {node: body.inputs[i] for node, i in zip(body.inputs, first, strict=True) if node is not body.inputs[i]}
    found = []
    for node in replace(body.outputs[:carries], same):
        used = [inner for inner in walk([node]) if inner.op is BOUND]
        found.append((Graph.of(used, [node]), [inner.params["index"] for inner in used]))
    return found


def _merged(a: Node, b: Node) -> dict[Node, Node] | None:
    """The results of both scans, computed by one scan, if they have a carry in common. The earlier one comes first."""
    later = lambda node: [arg for arg in node.args if arg.serial >= a.serial]  # the others were made before `a`
    if a in set(bottom_up([b], later)):
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
