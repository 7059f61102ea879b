"""A graph as a listing, one line a node; or the step of one of its loops."""

from collections.abc import Iterable
from typing import Any

from scanjit import errors, ir
from scanjit.ir import BOUND, CONSTANT, INPUT, PART, SHARED, SIZE, Graph, Node
from scanjit.ops.branch import IFELSE
from scanjit.ops.scan import SCAN
from scanjit.show.subject import number, origin_name, setting, subject


def listing(x: Any, locations: bool = False, loop: str | None = None) -> str:
    """The graph of something as text: see `scanjit.dprint`."""
    lines = _Listing(locations)
    title, roots, updates = subject(x)
    if loop is not None:
        for node in _loops_called(loop, [*roots, *(node for _, node in updates)]):
            lines.loop(node)
        return lines.text()
    if title:
        lines.lines.append(title)
    lines.graph([*roots, *(node for _, node in updates)])
    lines.lines.append("return " + ", ".join(lines.ids[node] for node in roots))
    lines.lines += [f"update {name} = {lines.ids[node]}" for name, node in updates]
    return lines.text()


def _loops_called(name: str, roots: Iterable[Node]) -> list[Node]:
    """The loops with a name, also inside of other loops. If there is none, the error lists the names that exist."""
    found: list[Node] = []
    names: dict[str, None] = {}
    waiting = ir.walk(roots)
    while waiting:
        node = waiting.pop(0)
        if node.op is SCAN:
            names[node.params["name"] or "(without a name)"] = None
            found += [node] if node.params["name"] == name else []
        for value in node.params.values():
            waiting += value.nodes() if isinstance(value, Graph) else []
    if not found:
        raise errors.ArgumentError(
            "the graph has no loop of this name",
            got=repr(name),
            expected=f"one of {', '.join(names)}" if names else "a graph with loops",
            fix="name a loop with scan(..., name=...)",
        )
    return list(dict.fromkeys(found))


class _Listing:
    """The lines of a graph. Bodies of scans are indented. The numbers of nodes are unique over the whole text."""

    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.lines: list[str] = []
        self.ids: dict[Node, str] = {}
        self.count = 0
        self.bodies: dict[Graph, str] = {}
        self.indent = ""

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def graph(self, roots: Iterable[Node]) -> None:
        for node in ir.walk(roots):
            if node not in self.ids:
                self.ids[node] = f"%{self.count}"
                self.count += 1
                self._line(node)

    def loop(self, node: Node) -> None:
        """One loop alone, without the nodes that compute its operands."""
        self.lines.append(f"{self.indent}scan{self._settings(node)}")
        self._body(node.params["body"], node)

    def _line(self, node: Node) -> None:
        kind = f"({', '.join(map(str, node.types))})" if node.several else str(node.type)
        where = f"   # {node.where}" if self.locations else ""
        self.lines.append(f"{self.indent}{self.ids[node]}: {kind} = {self._right_side(node)}{where}")
        for value in node.params.values():
            if isinstance(value, Graph):
                self._body(value, node)

    def _right_side(self, node: Node) -> str:
        if node.op is CONSTANT:
            return number(node)
        if node.op is SIZE:
            return f"size {node.params['dim']}"
        if node.op is PART:
            return f"{self.ids[node.args[0]]}[{node.params['index']}]"
        if node.op in (INPUT, SHARED):
            return f"{node.op.name} {origin_name(node)!r}" if origin_name(node) else node.op.name
        if node.op is BOUND:
            return f"bound {node.params['index']}"
        operands = "".join(f" {self.ids[arg]}" for arg in node.operands)
        return node.op.name + operands + self._settings(node)

    @staticmethod
    def _settings(node: Node) -> str:
        shown = [f"{key}={setting(value)}" for key, value in node.params.items() if _matters(node, key)]
        return f" {{{', '.join(shown)}}}" if shown else ""

    def _body(self, graph: Graph, owner: Node) -> None:
        if graph in self.bodies:
            self.lines.append(f"{self.indent}  | the body of {self.bodies[graph]}")
            return
        self.bodies[graph] = self.ids.get(owner, "the one above")
        outer, self.ids = self.ids, {}
        self.indent += "  | "
        roles = _roles(owner, graph)
        for node, role in zip(graph.inputs, roles, strict=True):
            if node not in self.ids:
                self.ids[node] = f"%{self.count}"
                self.count += 1
                self.lines.append(f"{self.indent}{self.ids[node]}: {node.type} = {role}")
        self.graph(graph.outputs)
        self.lines.append(f"{self.indent}{_results(owner, graph, self.ids)}")
        self.indent = self.indent[:-4]
        self.ids = outer


_USUAL = {"until": False, "reverse": False, "truncate": -1, "unroll": False, "checkpoint": None, "gradient": False}


def _matters(node: Node, key: str) -> bool:
    """Whether to show a parameter. Graphs are shown on lines of their own; for scans only unusual values are shown."""
    value = node.params[key]
    if node.op is IFELSE and value == ():
        return False
    if node.op is SCAN and (key in ("carries", "sequences") or value is _USUAL.get(key, node) or value == ()):
        return False
    return value is not None and not isinstance(value, Graph)


def _roles(owner: Node, graph: Graph) -> list[str]:
    """The role of each input of an op's graph."""
    if owner.op is not SCAN:
        return [f"input {i}" for i in range(len(graph.inputs))]
    carries, rows = owner.params["carries"], owner.params["sequences"]
    rest = len(graph.inputs) - carries - rows
    return [f"{kind} {i}" for kind, n in (("carry", carries), ("row", rows), ("constant", rest)) for i in range(n)]


def _results(owner: Node, graph: Graph, ids: dict[Node, str]) -> str:
    found = [ids[node] for node in graph.outputs]
    if owner.op is IFELSE:
        half = len(found) // 2
        return f"then {', '.join(found[:half])}; else {', '.join(found[half:])}"
    if owner.op is not SCAN:
        return "return " + ", ".join(found)
    carries, stop = owner.params["carries"], owner.params["until"]
    parts = [("carry", found[:carries]), ("emit", found[carries : len(found) - stop])]
    parts += [("until", found[-1:])] if stop else []
    return "; ".join(f"{word} {', '.join(nodes)}" for word, nodes in parts if nodes)
