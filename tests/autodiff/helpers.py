"""Scans made directly, without the front end, and NumPy arrays for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scanjit import ir, types
from scanjit.ir import Graph, Node
from scanjit.ops.scan import scan_node
from scanjit.ops.stretch import SUM
from scanjit.runtime.reference import evaluate
from scanjit.types import Type


def var(name: str, *shape: Any, dtype: str = "float64") -> Node:
    """A new input; strings in the shape are named sizes."""
    return ir.new_input(Type(np.dtype(dtype), tuple(types.size(d) if isinstance(d, str) else d for d in shape)), name)


def loop(
    step: Callable[..., Any],
    inits: Sequence[Node] = (),
    xs: Sequence[Node] = (),
    consts: Sequence[Node] = (),
    length: Any = None,
    **params: Any,
) -> tuple[Node, ...]:
    """The results of a scan. `step(carries, rows, consts)` returns new carries, ys, and with `until` the condition."""
    carries = [ir.new_input(node.type) for node in inits]
    rows = [ir.new_input(node.type.with_shape(node.type.shape[1:])) for node in xs]
    fixed = [ir.new_input(node.type) for node in consts]
    new, ys, *stop = step(carries, rows, fixed)
    outputs = [*new, *ys, *stop]
    captured = ir.free_variables(outputs, [*carries, *rows, *fixed])
    body = Graph.of([*carries, *rows, *fixed, *captured], outputs)
    length = xs[0].type.shape[0] if length is None else length
    return ir.parts(scan_node(body, inits, xs, [*consts, *captured], length, until=bool(stop), **params))


def value(output: Node, env: dict[Node, Any]) -> np.ndarray:
    """The value of one node."""
    return evaluate([output], env)[0]


def values(outputs: Sequence[Node], env: dict[Node, Any]) -> list[np.ndarray]:
    """The values of nodes."""
    return evaluate(outputs, env)


def total(x: Node) -> Node:
    """The sum of all elements."""
    return SUM(x, axes=tuple(range(x.ndim)))
