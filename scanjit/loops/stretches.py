"""Loops with `until` and checkpoints: a loop over stretches of steps, and in it a loop over the steps of one stretch.

Only the outer loop stores its carries for the gradient, one state for each stretch. The gradient runs the inner loop
again, stretch by stretch, and stores the states of one stretch at a time. The number of stretches is found while the
loop runs.
"""

from collections.abc import Sequence

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Graph, Node, apply, constant, new_input
from scanjit.ops.elementwise import GREATER_EQUAL, MINIMUM
from scanjit.ops.roles import Roles
from scanjit.ops.scan import checkpoints, scan_node, steps_between
from scanjit.ops.shape import CONCATENATE, RESHAPE, SET_SLICE, window
from scanjit.ops.stretch import full
from scanjit.ops.view import as_row
from scanjit.types import Dimension


def in_stretches(loop: Node) -> tuple[Node, ...]:
    """The results of a loop, computed stretch by stretch if it has `until` and asks for checkpoints."""
    asked, length = checkpoints(loop), loop.params["length"]
    if not loop.params["until"] or asked is None or loop.params["truncate"] >= 0:
        return ir.parts(loop)
    size = steps_between(asked, length)
    if size == 1 or (isinstance(size, int) and isinstance(length, int) and size >= length):
        return ir.parts(loop)
    with errors.located(loop.where):
        return _cut(loop, size)


def _cut(loop: Node, size: Dimension) -> tuple[Node, ...]:
    """The results of a loop in stretches of `size` steps."""
    roles, length, name = Roles.of(loop), loop.params["length"], loop.params["name"]
    inits, xs, consts = roles.split(loop.operands)
    stretches = (length + size - 1) // size
    before = [new_input(init.type) for init in inits]
    count, over = new_input(types.Type(np.dtype("int64"))), new_input(types.Type(np.dtype("bool")))
    blocks = [_blocks(x, stretches, size) for x in xs]
    rows = [new_input(x.type.with_shape(x.type.shape[1:])) for x in blocks]
    inner = ir.parts(_counted(loop, [*before, count, over], rows, consts, size))
    carries = len(before) + 2
    results = [*inner[:-1], inner[carries - 1]]
    captured = ir.free_variables(results, [*before, count, over, *rows])
    body = Graph.of([*before, count, over, *rows, *captured], results)
    given = [*inits, constant(np.int64(0)), constant(np.bool_(False))]
    found = ir.parts(scan_node(body, given, blocks, captured, stretches, until=True, name=name))
    ran = apply(MINIMUM, found[carries - 2], ir.dim_node(length))  # the rewrites see from this that it has a limit
    stacks = [_rows(y, length) for y in found[carries:-1]]
    return (*found[: len(before)], *stacks, ran)


def _counted(loop: Node, before: Sequence[Node], rows: Sequence[Node], consts: Sequence[Node], size: Dimension) -> Node:
    """The loop over the steps of one stretch. It has two more carries: how many steps there were in all stretches, and
    whether the last one has ended the loop."""
    roles, params = Roles.of(loop), loop.params
    inputs, outputs = params["body"].opened()
    carries, others = inputs[: roles.carries], inputs[roles.carries :]
    count, over = (new_input(x.type) for x in before[-2:])
    after, ys, stop = roles.split_results(outputs)
    assert stop is not None
    stop = stop | apply(GREATER_EQUAL, count + 1, ir.dim_node(params["length"]))
    results = [*after, count + 1, stop, *ys, stop]
    inside = [*carries, count, over, *others]
    captured = ir.free_variables(results, inside)
    return scan_node(
        Graph.of([*inside, *captured], results),
        before,
        rows,
        [*consts, *captured],
        size,
        until=True,
        lags=roles.lags,
        unroll=params["unroll"],
        checkpoint=params["checkpoint"],
        name=params["name"] and f"{params['name']}.stretch",
    )


def _blocks(x: Node, stretches: Dimension, size: Dimension) -> Node:
    """The rows of a sequence, stretch by stretch. Zeros fill the last one; no step reads them."""
    more, rest = stretches * size - x.type.shape[0], x.type.shape[1:]
    whole = x if more == 0 else CONCATENATE(x, full(0, (more, *rest), x.dtype), axis=0)
    return RESHAPE(whole, shape=(stretches, size, *rest))


def _rows(y: Node, length: Dimension) -> Node:
    """What the stretches have stacked, as rows of one loop."""
    stretches, size, *rest = y.type.shape
    return window(RESHAPE(y, shape=(stretches * size, *rest)), 0, 0, length)


def with_last_rows(loop: Node, parts: Sequence[Node], stacks: Sequence[Node]) -> list[Node]:
    """The stacks of a loop, cut to the rows that ran. If a stack holds the values of a carry, its last row is the
    carry's final value: code that reads only the last row then needs no stack."""
    roles, outputs = Roles.of(loop), loop.params["body"].outputs
    if parts[0] is ir.parts(loop)[0] or not types.not_negative(loop.params["length"] - 1):
        return list(stacks)
    found = []
    for value, stack in zip(roles.split_results(outputs)[1], stacks, strict=True):
        carry = next((i for i in range(roles.carries) if outputs[i] is value and i not in roles.lags), None)
        if carry is not None:
            start, step = (stack.type.shape[0] - 1, *[0] * (stack.ndim - 1)), (1,) * stack.ndim
            stack = SET_SLICE(stack, as_row(parts[carry]), start=start, step=step)
        found.append(stack)
    return found
