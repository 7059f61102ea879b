"""The things that can be shown (expressions, compiled functions, graphs), and the names of their parts."""

from typing import Any

from scanjit import errors
from scanjit.ir import SHARED, Graph, Node


def subject(x: Any) -> tuple[str | None, list[Node], list[tuple[str, Node]]]:
    """A title, the nodes to show, and the updates (name and node) of something that has a graph."""
    if isinstance(x, Node):
        return None, [x], []
    if hasattr(x, "__scanjit_node__"):
        return None, [x.__scanjit_node__()], []
    if isinstance(x, list | tuple):
        return None, [node for item in x for node in subject(item)[1]], []
    if isinstance(x, Graph):
        return None, list(x.outputs), []
    graph = getattr(x, "graph", None)
    if graph is None:
        raise errors.ArgumentError(
            "this has no graph to show",
            got=f"{x!r} ({type(x).__name__})",
            expected="an expression or a compiled function",
            fix="of a jitted function, show that for some arguments: f.function(*args)" if callable(x) else "",
        )
    updates = [(variable.name or "an unnamed shared variable", node) for variable, node in graph.updates]
    return repr(x), list(graph.outputs), updates


def origin_name(node: Node) -> str | None:
    """The name of an input or a shared variable, if it has one."""
    return node.params["variable"].name if node.op is SHARED else node.name


def number(node: Node) -> str:
    """The value of a constant as a short text."""
    data = node.params["data"]
    return repr(data.array.item()) if data.array.ndim == 0 else repr(data)


def setting(value: Any) -> str:
    """A parameter of an op, as Python writes it."""
    if type(value) in (tuple, list):
        inner = ", ".join(map(setting, value))
        return f"({inner}{',' if len(value) == 1 else ''})" if type(value) is tuple else f"[{inner}]"
    return str(value)
