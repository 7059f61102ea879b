"""RNN, LSTM and GRU, each direction as a scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scanjit import errors
from scanjit.ir import Node
from scanjit.loops import entries
from scanjit.loops.scan import build
from scanjit.onnx import functions as tensor
from scanjit.onnx.importing import activations
from scanjit.onnx.importing.activations import Activation
from scanjit.onnx.importing.call import Call
from scanjit.onnx.importing.loops import last_states
from scanjit.onnx.importing.shapes import turned
from scanjit.ops.elementwise import where
from scanjit.ops.promotion import cast
from scanjit.ops.shape import IOTA
from scanjit.ops.view import DIMSHUFFLE
from scanjit.records import record
from scanjit.types import Dimension

Step = Callable[[Node, Sequence[Node]], Sequence[Node]]
"""A function from `x @ W + b`, for a row x, and the states to the states after the step. The state h is the first."""

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


Product = Callable[[Node], Node]
"""A function from rows to their products with a matrix of weights."""


@record
class Weights:
    """The weights of one direction: products with the weights of inputs and of states, whose columns are those of the
    gates; biases; peepholes."""

    of_input: Product
    of_state: Product
    input_bias: Node | None
    state_bias: Node | None
    peepholes: Node | None
    size: Dimension


StepMaker = Callable[[Call, Weights, tuple[Activation, ...]], Step]
Matrices = Callable[[Call, Node, int, int], tuple[Node, Dimension, list[tuple[Product, Product]]]]
"""A function of a node, its input, and the numbers of gates and directions. It returns the sequence that the loop reads
in place of the input, the number of units, and the two products of each direction: with the weights of inputs and of
states."""


def dense(call: Call, x: Node, gates: int, count: int) -> tuple[Node, Dimension, list[tuple[Product, Product]]]:
    """Weights of floats, with a row for each gate of each unit."""
    w, r = call.input(1), call.input(2)
    call.alike(x, w, r)
    check_rank(call, w, r)
    size = call.integer("hidden_size", r.type.shape[2])
    w = tensor.specify_shape(w, (count, gates * size, x.type.shape[2]), f"W of {call.op}")
    r = tensor.specify_shape(r, (count, gates * size, size), f"R of {call.op}")
    times = lambda matrix: lambda rows: tensor.dot(rows, matrix)
    return x, size, [(times(w[d].T), times(r[d].T)) for d in range(count)]


def check_rank(call: Call, w: Node, r: Node) -> None:
    """Raise an error unless both weights have three axes: directions, the multiplied axis, and gates."""
    if w.ndim != 3 or r.ndim != 3:
        raise errors.ShapeError(f"the weights W and R of {call.op} have three axes", got=f"{w.type} and {r.type}")


def recurrent(
    gates: int, states: int, defaults: Sequence[str], cell: StepMaker, matrices: Matrices = dense
) -> Callable[[Call], list[Node]]:
    """The rule of a recurrent op with this number of gates and of states.

    Its results are the outputs of all steps (time, direction, batch, unit), then the last of each state.
    """

    def rule(call: Call) -> list[Node]:
        directions = _DIRECTIONS.get(call.text("direction", "forward"))
        if directions is None:
            raise errors.FormatError(f"the direction of {call.op} is unknown", got=call.text("direction"))
        count = len(directions)
        functions = activations.of(call, defaults, count)
        batch_first = call.flag("layout")
        x = call.input(0)
        if x.ndim != 3:
            raise errors.ShapeError(f"the input of {call.op} has three axes", got=x.type)
        x = tensor.swapaxes(x, 0, 1) if batch_first else x
        x, size, products = matrices(call, x, gates, count)
        weights = _weights(call, size, gates, products)
        initial = _initial(call, x, size, states, count, batch_first)
        lengths = _lengths(call, x)
        call.ignore("output_sequence")
        found = []
        for d, backwards in enumerate(directions):
            rest = initial[d], cell(call, weights[d], functions[d]), weights[d], backwards, call.op
            if lengths is None or matrices is dense:
                found.append(_direction(x, lengths, *rest))
            else:
                found.append(_direction_of_ended_rows(x, lengths, *rest))
        outputs = [tensor.stack([rows for rows, _ in found], axis=2 if batch_first else 1)]
        if batch_first:  # (time, batch, direction, unit) so far
            outputs = [tensor.swapaxes(outputs[0], 0, 1)]
        last = [tensor.stack([state[i] for _, state in found], axis=1 if batch_first else 0) for i in range(states)]
        return [*outputs, *last]

    return rule


def _weights(call: Call, size: Dimension, gates: int, products: Sequence[tuple[Product, Product]]) -> list[Weights]:
    """The weights of each direction. All shapes must agree."""
    count, b, p = len(products), call.optional(3), call.optional(7)
    b = None if b is None else tensor.specify_shape(b, (count, 2 * gates * size), f"B of {call.op}")
    p = None if p is None else tensor.specify_shape(p, (count, 3 * size), f"P of {call.op}")
    return [
        Weights(
            *products[d],
            None if b is None else b[d, : gates * size],
            None if b is None else b[d, gates * size :],
            None if p is None else p[d],
            size,
        )
        for d in range(count)
    ]


def _initial(call: Call, x: Node, size: Dimension, states: int, count: int, batch_first: bool) -> list[list[Node]]:
    """The initial states of each direction; zeros where none are given."""
    batch = x.type.shape[1]
    shape = (batch, count, size) if batch_first else (count, batch, size)

    def each(i: int) -> list[Node]:
        given = call.optional(5 + i)
        if given is None:
            return [tensor.zeros((batch, size), x.dtype)] * count
        given = tensor.specify_shape(given, shape, f"the initial state {'hc'[i]} of {call.op}")
        return [given[:, d] if batch_first else given[d] for d in range(count)]

    return [list(states_of) for states_of in zip(*map(each, range(states)), strict=True)]


def _lengths(call: Call, x: Node) -> Node | None:
    """The number of steps of each sequence; None if the node does not give it."""
    lengths = call.optional(4)
    if lengths is None:
        return None
    return cast(tensor.specify_shape(lengths, (x.type.shape[1],), f"sequence_lens of {call.op}"), "int64")


def _direction(
    x: Node, lengths: Node | None, initial: Sequence[Node], step: Step, weights: Weights, backwards: bool, name: str
) -> tuple[Node, list[Node]]:
    """The outputs of all steps in the order of time, and the last states.

    Backwards, a shorter sequence keeps its initial state until the step of its own last row.
    """
    project = _projection(weights)

    def run(row: Node, *rest: Node) -> Any:
        if lengths is None:
            return list(step(project(row), rest))
        kept, *before = rest
        after = list(step(project(row), before))
        after = [where(kept, new, old) for new, old in zip(after, before, strict=True)]
        return [*after, where(kept, after[0], 0)]

    rows = [x] if lengths is None else [x, _mask(x, lengths)]
    infos = [*initial, *([] if lengths is None else [None])]
    loop = build(run, entries.sequences(rows), entries.outputs(infos), [], go_backwards=backwards, name=name.lower())
    outputs = loop.stacked()[0 if lengths is None else -1]
    return (tensor.flip(outputs, 0) if backwards else outputs), last_states(loop, 0, len(initial))


def _direction_of_ended_rows(
    x: Node, lengths: Node, initial: Sequence[Node], step: Step, weights: Weights, backwards: bool, name: str
) -> tuple[Node, list[Node]]:
    """`_direction` for quantized states. Their rows share a scale, so the rows of sequences that have ended change the
    others.

    As in ONNX Runtime, all sequences begin at the first step, also backwards, and the state of a sequence is 0 from the
    second step after its end on.
    """
    project = _projection(weights)

    def run(row: Node, kept: Node, output: Node, *before: Node) -> Any:
        after = step(project(row), [output, *before[1:]])
        return [where(kept, after[0], 0), *(where(kept, new, old) for new, old in zip(after, before, strict=True))]

    sequences = entries.sequences([turned(x, lengths) if backwards else x, _mask(x, lengths)])
    loop = build(run, sequences, entries.outputs([initial[0], *initial]), [], name=name.lower())
    outputs = loop.stacked()[0]
    return (turned(outputs, lengths) if backwards else outputs), last_states(loop, 1, len(initial))


def _projection(weights: Weights) -> Product:
    """The products of rows with the weights of inputs, with their bias."""
    return lambda row: _plus(weights.of_input(row), weights.input_bias)


def _mask(x: Node, lengths: Node) -> Node:
    """A tensor (time, batch, 1) of bools: whether a step belongs to a sequence."""
    return DIMSHUFFLE(IOTA(length=x.type.shape[0]), order=(0, None, None)) < DIMSHUFFLE(lengths, order=(None, 0, None))


def _clipped(call: Call) -> Activation:
    """The function that cuts the argument of each activation to +- `clip`."""
    limit = call.number("clip", None)
    if limit is None:
        return lambda x: x
    if not limit >= 0:
        raise errors.FormatError(f"the clip of {call.op} is not negative", got=limit)
    return lambda x: tensor.clip(x, -limit, limit)


def _plus(x: Node, bias: Node | None) -> Node:
    return x if bias is None else x + bias


# ---- cells -----------------------------------------------------------------------------------------------------------


def rnn(call: Call, weights: Weights, functions: tuple[Activation, ...]) -> Step:
    """`h = f(x W + h_ R + b)`."""
    clip = _clipped(call)

    def step(z: Node, states: Sequence[Node]) -> list[Node]:
        (h,) = states
        return [functions[0](clip(z + _plus(weights.of_state(h), weights.state_bias)))]

    return step


def lstm(call: Call, weights: Weights, functions: tuple[Activation, ...]) -> Step:
    """Gates i, o, f, c; peepholes i, o, f, of which o sees the new cell."""
    clip = _clipped(call)
    f, g, h_of = functions
    coupled = call.flag("input_forget")
    p = weights.peepholes
    peep = [None] * 3 if p is None else tensor.split(p, 3)

    def step(z: Node, states: Sequence[Node]) -> list[Node]:
        h, c = states
        z = z + _plus(weights.of_state(h), weights.state_bias)
        i, o, forget, new = tensor.split(z, 4, axis=1)
        seen = lambda gate, k, cell: gate if peep[k] is None else gate + peep[k] * cell
        i = f(clip(seen(i, 0, c)))
        forget = 1.0 - i if coupled else f(clip(seen(forget, 2, c)))
        c = forget * c + i * g(clip(new))
        o = f(clip(seen(o, 1, c)))
        return [o * h_of(c), c]

    return step


def gru(call: Call, weights: Weights, functions: tuple[Activation, ...]) -> Step:
    """Gates z, r, h; `h = (1 - z) * new + z * h_`. The reset gate multiplies the state before its product, or the
    product."""
    clip, size = _clipped(call), weights.size
    f, g = functions
    after = call.flag("linear_before_reset")
    bias = weights.state_bias
    gate_bias, new_bias = (None, None) if bias is None else (bias[: 2 * size], bias[2 * size :])

    def step(projected: Node, states: Sequence[Node]) -> list[Node]:
        (h,) = states
        both = projected[:, : 2 * size] + _plus(weights.of_state(h)[:, : 2 * size], gate_bias)
        z, r = (f(clip(gate)) for gate in tensor.split(both, 2, axis=1))
        if after:
            product = r * _plus(weights.of_state(h)[:, 2 * size :], new_bias)
        else:
            product = _plus(weights.of_state(r * h)[:, 2 * size :], new_bias)
        new = g(clip(projected[:, 2 * size :] + product))
        return [(1.0 - z) * new + z * h]

    return step
