"""A function of a whole sequence, cut into the function of a block of steps and of a state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scanjit import ir
from scanjit.ir import PART, Node
from scanjit.records import record
from scanjit.streaming.rules import cut_node, refuse
from scanjit.streaming.values import Begun, Cut, Fixed, Last, StatePart, TimeRows, Value, latest
from scanjit.types import Atom
from scanjit.walks import grown


@record
class Block:
    """The function of a block of steps.

    `outputs` are its results. `axes` says which axis of each has an entry for each step of the block; None for a result
    without such an axis. `states` are read besides its inputs, and returned besides its outputs.
    """

    outputs: tuple[Node, ...]
    axes: tuple[int | None, ...]
    states: tuple[StatePart, ...]


def block_of(outputs: Sequence[Node], time: Atom, inputs: Mapping[Node, int], fed: Iterable[Node]) -> Block:
    """The function of a block, made of a function of a whole sequence.

    Parameters
    ----------
    outputs : the outputs of the function of a whole sequence.
    time : the number of steps, which is the size of the time axis of each of the inputs.
    inputs : maps each input that has a time axis to that axis.
    fed : the inputs that a caller feeds with results of the block before. A loop that begins with one of them continues
        from it, without a state of its own.
    """
    order = ir.walk(outputs)
    cutter = Cut(time, ir.dependents(order, set(fed).intersection(order)))
    known: dict[Node, Value | None] = {node: TimeRows(node, axis) for node, axis in inputs.items()}
    several: dict[Node, Sequence[Value | None]] = {}
    for node in order:
        if node in known:
            continue
        if node.op is PART:
            known[node] = several[node.args[0]][node.params["index"]]
            continue
        operands = [_operand(node, known[arg]) for arg in node.args]
        found = _value(cutter, node, operands)
        if isinstance(found, list):
            several[node], known[node] = found, None
        else:
            known[node] = found
    return _living(cutter, [_output(cutter, output, known[output]) for output in outputs])


def _operand(node: Node, value: Value | None) -> Value:
    if value is None:
        refuse(node, "a value that a step has only after others")
    return value


def _value(cutter: Cut, node: Node, operands: list[Value]) -> Value | list[Value | None]:
    """The value of one node in the function of a block."""
    streamed = any(not isinstance(operand, Fixed) for operand in operands)
    timed = any(atom is cutter.time for atom in ir.atoms_of(node))
    sized = timed and cutter.is_sized(node)
    if not streamed and not timed:
        return [Fixed(part) for part in ir.parts(node)] if node.several else Fixed(node)
    if any(not isinstance(operand, Fixed) for operand in operands[node.arity :]):
        refuse(node, "a size that depends on the steps")
    if not sized and not any(isinstance(operand, TimeRows) for operand in operands):
        nodes = [operand.node for operand in operands]
        made = cutter.applied(node, nodes[: node.arity], 0) if timed else ir.rebuild(node, tuple(nodes))
        ended = any(isinstance(operand, Last) for operand in operands)
        known = lambda part: Last(part) if ended else Begun(part, latest(operands))
        return [known(part) for part in ir.parts(made)] if node.several else known(made)
    return cut_node(cutter, node, operands[: node.arity])


def _output(cutter: Cut, output: Node, value: Value | None) -> Value:
    """An output, with entry t of its time axis at step t."""
    value = _operand(output, value)
    if not isinstance(value, TimeRows):
        return value
    if value.merged:
        refuse(output, "an output whose time axis was reshaped together with others")
    if value.lead < 0:
        fix = f"pad the sequence in front by {-value.lead}, so that entry t needs steps up to t"
        refuse(output, f"an output whose entry t needs step t + {-value.lead}", fix)
    return cutter.delayed(value, value.lead)


def _living(cutter: Cut, outputs: Sequence[Value]) -> Block:
    """The block, with the parts of the state that its outputs depend on."""
    roots = [output.node for output in outputs]

    def read(living: Sequence[int]) -> list[int]:
        reached = set(ir.walk([*roots, *(cutter.states[i].after for i in living)]))
        return [i for i, state in enumerate(cutter.states) if state.before in reached]

    living = [cutter.states[i] for i in grown([], read)]
    axes = tuple(output.axis if isinstance(output, TimeRows) else None for output in outputs)
    return Block(tuple(roots), axes, tuple(living))
