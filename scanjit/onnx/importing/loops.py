"""Scan and Loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Node
from scanjit.loops import entries
from scanjit.loops.scan import BuiltScan, build
from scanjit.loops.step import until
from scanjit.onnx import functions as tensor
from scanjit.onnx.importing import known
from scanjit.onnx.importing.call import Call, scalar
from scanjit.ops.elementwise import INVERT, where
from scanjit.ops.promotion import cast, truth
from scanjit.ops.shape import IOTA
from scanjit.tensor.variables import axis_of
from scanjit.types import Dimension

_MOST_ROWS = 1 << 20
"""A loop that a condition ends stacks its results at once if it has at most this many steps. Otherwise, a first loop
counts the steps, and a second one stacks the results."""


def scan(call: Call) -> list[Node]:
    """A loop over rows of sequences."""
    if call.version < 9:
        raise call.refuse("of version 8, which has an axis for the batch", fix="convert the model to op set 9 or newer")
    body, count = call.graph("body"), call.integer("num_scan_inputs")
    states = len(call.inputs) - count
    if states < 0 or count < 1 or len(body.output) < states:
        raise errors.FormatError("Scan has fewer inputs or outputs than its attributes say", got=f"{count} sequences")
    outputs = len(body.output) - states
    sequences = _sequences(call, [call.input(states + i) for i in range(count)])
    initial = [call.input(i) for i in range(states)]

    def step(*args: Node) -> list[Node]:
        rows, before = args[:count], args[count:]
        return call.run(body, [*before, *rows])

    infos = entries.outputs([*initial, *[None] * outputs])
    loop = build(step, entries.sequences(sequences), infos, [], name=_name(body))
    return [*last_states(loop, 0, states), *_placed(call, loop.stacked()[states:])]


def last_states(made: BuiltScan, first: int, count: int) -> list[Node]:
    """The values of states after the last step; their initial values if there was no step."""
    parts = ir.parts(made.node)
    return [parts[place] for finals in made.finals[first : first + count] for place in finals]


def _name(graph: Any) -> str | None:
    return graph.name or None


def _sequences(call: Call, given: Sequence[Node]) -> list[Node]:
    """The sequences with time as the first axis, reversed if they are read backwards."""
    axes, backwards = _per(call, "scan_input_axes", len(given)), _per(call, "scan_input_directions", len(given))
    result = []
    for x, axis, turned in zip(given, axes, backwards, strict=True):
        x = tensor.moveaxis(x, axis_of(axis, x.ndim), 0)
        result.append(tensor.flip(x, 0) if turned else x)
    return result


def _placed(call: Call, stacked: Sequence[Node]) -> list[Node]:
    """The stacked results, along the axes and in the directions that the attributes name."""
    axes, backwards = _per(call, "scan_output_axes", len(stacked)), _per(call, "scan_output_directions", len(stacked))
    result = []
    for y, axis, turned in zip(stacked, axes, backwards, strict=True):
        y = tensor.flip(y, 0) if turned else y
        result.append(tensor.moveaxis(y, 0, axis_of(axis, y.ndim)))
    return result


def _per(call: Call, name: str, count: int) -> list[int]:
    """The value of an attribute that is a list of `count` integers; zeros if it is left out."""
    values = call.integers(name, None)
    if values is None:
        return [0] * count
    if len(values) != count:
        raise errors.FormatError(f"the attribute {name!r} of Scan has another length", got=values, expected=count)
    return values


# ---- Loop ------------------------------------------------------------------------------------------------------------


def loop(call: Call) -> list[Node]:
    """A loop with a number of steps, a condition, or both."""
    body = call.graph("body")
    initial = [call.input(i) for i in range(2, len(call.inputs))]
    states = len(initial)
    if len(body.output) < states + 1:
        raise errors.FormatError("the body of Loop returns a condition and all states", got=len(body.output))
    outputs = len(body.output) - 1 - states
    limit, condition = call.optional(0), call.optional(1)
    most = types.LARGEST if limit is None else _not_negative(cast(scalar(limit), "int64"))
    length = most if condition is None else _allowed(truth(scalar(condition)), most)
    counters: set[int] = set()
    made = _built(call, body, initial, outputs, length, counters, stack=outputs > 0)
    if made.count is None or not outputs or not (isinstance(most, int) and most > _MOST_ROWS):
        return _results(made, states, outputs, counters)
    counted = _built(call, body, initial, outputs, length, counters, stack=False)
    if counted.count is None:
        raise errors.InternalError("a loop with a condition counts its steps")
    again = _built(call, body, initial, outputs, known.size(counted.count), counters, stack=True)
    return _results(again, states, outputs, counters)


def _not_negative(count: Node) -> Dimension:
    """A number of steps; 0 if it is negative."""
    size = known.size(count)
    if isinstance(size, int):
        return max(min(size, types.LARGEST), 0)
    return size if types.not_negative(size) else known.size(tensor.maximum(count, 0))


def _allowed(condition: Node, most: Dimension) -> Dimension:
    """The most steps of a loop: `most`, or 0 if the condition does not hold before the first step."""
    value = known.array(condition)
    if value is not None:
        return most if value else 0
    return known.size(where(condition, ir.dim_node(most), 0))


def _built(
    call: Call, body: Any, initial: Sequence[Node], outputs: int, length: Dimension, counters: set[int], stack: bool
) -> BuiltScan:
    """The scan. The number of a step is an element of a sequence; or if there may be too many steps, the first
    state. The places of states that count the steps are put into `counters`."""
    counting = not isinstance(length, int) or length > _MOST_ROWS

    def step(number: Node, *before: Node) -> Any:
        going, *after = call.run(body, [number, ir.constant(True), *before])
        going = truth(scalar(going))
        zero = ir.constant(np.int64(0))
        counters.update(i for i, start in enumerate(initial) if start is zero and after[i] is number + 1)
        results = [*([number + 1] if counting else []), *after]
        value = known.array(going)
        if value is not None and value:
            return results
        return results, until(ir.apply(INVERT, going))

    states = [*([ir.constant(np.int64(0))] if counting else []), *initial]
    infos = entries.outputs([*states, *[None] * outputs])
    sequences = [] if counting else [IOTA(length=length)]
    return build(step, entries.sequences(sequences), infos, [], ir.dim_node(length), name=_name(body), stack=stack)


def _results(made: BuiltScan, states: int, outputs: int, counters: set[int]) -> list[Node]:
    """The last states, and the stacked results. A state that counts the steps is the size of the stacks."""
    skipped = len(made.trees) - states - outputs
    last = last_states(made, skipped, states)
    if made.count is not None:
        last = [made.count if i in counters else state for i, state in enumerate(last)]
    stacked = made.stacked()[skipped + states :] if outputs else []
    return [*last, *stacked]
