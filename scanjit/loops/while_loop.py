"""`while_loop`: a loop whose length its own state decides."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scanjit import ir
from scanjit.errors import ScanError
from scanjit.ir import Node, apply, constant
from scanjit.loops import entries
from scanjit.loops.scan import build
from scanjit.loops.step import until
from scanjit.loops.structure import Mismatch, describe, function_location
from scanjit.ops.expect import VIA
from scanjit.types import Dimension

_NO_LIMIT = 2**62


def while_loop(cond: Callable[[Any], Any], body: Callable[[Any], Any], init: Any, max_steps: int | None = None) -> Any:
    """Repeat `state = body(state)` while `cond(state)` is true.

    Parameters
    ----------
    cond : callable
        Gets the state, returns a boolean scalar.
    body : callable
        Gets the state, returns the next one: the same structure, dtypes and shapes.
    init : tensor, or structure of tensors
        The first state. A Python number takes the dtype of what `body` returns.
    max_steps : int or integer scalar, optional
        Stop after so many steps even so. The gradient stores a state for each of them. Without it, the gradient first
        counts the steps, then runs them again and stores as many states as there are.

    Returns
    -------
    Node, or the structure of `init`
        The last state: the first for which `cond` is false, or the one after `max_steps` steps.

    Examples
    --------
    >>> from scanjit.ir import constant
    >>> while_loop(lambda x: x < 100.0, lambda x: x * 2.0, constant(3.0))  # 192
    <via: float64()>
    """
    state = entries.state(init)
    where = function_location(cond)

    def ends(leaves: Sequence[Any]) -> Node:
        return apply("invert", _condition(cond(state.tree.unflatten(leaves)), where))

    refused: list[ScanError] = []

    @functools.wraps(body)
    def step(before: Any) -> Any:
        new = body(before)
        refused.clear()
        try:
            leaves = state.tree.leaves_of(new)
            return ([new], until(ends(leaves))) if all(leaf is not None for leaf in leaves) else [new]
        except Mismatch:  # which `build` finds too, and explains
            return [new]
        except ScanError as error:  # what is wrong with the state, if anything, explains this
            refused.append(error)
            return [new]

    most = _NO_LIMIT if max_steps is None else entries.steps(max_steps)
    loop = build(step, [], [state], [], most, name="while_loop", stack=False)
    if refused:
        raise refused[0]
    at_once = ends(loop.node.operands[: len(state.leaves)])
    steps = apply("where", at_once, 0, ir.dim_node(most))
    ran = _with_length(loop.node, ir.as_dim(steps))
    *last, count = ir.parts(ran)
    if max_steps is None:
        again = ir.parts(_with_length(loop.node, ir.as_dim(count)))
        last = [VIA(x, y) for x, y in zip(last, again, strict=False)]
    return state.tree.unflatten(last[: len(state.leaves)])


def _condition(value: Any, where: str) -> Node:
    node = constant(value) if isinstance(value, bool | np.bool_) else value
    if not isinstance(node, Node) or node.ndim or node.dtype != bool:
        raise ScanError(
            "the condition of while_loop must be a boolean scalar", got=describe(value), expected="bool()", where=where
        )
    return node


def _with_length(node: Node, length: Dimension) -> Node:
    """A scan with another number of steps."""
    return node.op(*node.operands, **{**node.params, "length": length})
