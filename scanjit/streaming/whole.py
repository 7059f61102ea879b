"""The arguments of `step_function`, checked: the inputs that have a time axis, and the outputs that are fed back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scanjit import errors, ir, types
from scanjit.ir import Node
from scanjit.loops.structure import Tree
from scanjit.ops.stretch import full
from scanjit.runtime.function_graph import FunctionGraph


class Whole:
    """A function of a whole sequence, whose inputs share one number of steps.

    Attributes
    ----------
    size : the number of steps.
    given : maps the inputs that a user gives to their time axes; None for inputs without one.
    fed : maps the inputs that are fed back to the numbers of the outputs that feed them.
    outputs : all outputs.
    kept : the numbers of the outputs that are not fed back.
    tree : the structure of these outputs.
    """

    def __init__(self, graph: FunctionGraph, time: Any, feedback: Mapping[Any, Any], name: str) -> None:
        if graph.tree is None or graph.updates:
            updated = ", ".join(variable.label for variable, _ in graph.updates) or "nothing"
            raise errors.NotSupportedError(
                "a function that is cut into steps returns its results, and updates nothing",
                got=f"{name}, with updates of {updated}",
                fix="return what the updates compute; or call it with blocks: its state is in these variables",
            )
        fed = _fed(graph, feedback, name)
        axes = _axes(graph.inputs, time, fed, name)
        common: types.Dimension = types.anonymous_size("steps")
        sizes = {node.type.shape[axis] for node, axis in axes.items()}
        if len(sizes) == 1 and types.as_atom(only := next(iter(sizes))) is not None:
            common = only
        atom = types.as_atom(common)
        assert atom is not None
        self.size: types.Atom = atom
        new = {node: _with_size(node, axes[node], common) if node in axes else node for node in graph.inputs}
        changed = {old: fresh for old, fresh in new.items() if old is not fresh}
        roots = ir.renamed([*graph.outputs, *new.values()], changed) if changed else [*graph.outputs, *new.values()]
        self.outputs: list[Node] = roots[: len(graph.outputs)]
        renamed = dict(zip(graph.inputs, roots[len(graph.outputs) :], strict=True))
        self.given: dict[Node, int | None] = {renamed[node]: axes.get(node) for node in graph.inputs if node not in fed}
        self.timed = {node: axis for node, axis in self.given.items() if axis is not None}
        self.fed: dict[Node, int] = {renamed[node]: number for node, number in fed.items()}
        self.kept = [i for i in range(len(self.outputs)) if i not in fed.values()]
        self.tree: Tree = _without(graph.tree, set(fed.values()))

    def fed_parts(self, outputs: Sequence[Node]) -> list[tuple[str, Node, Node, Node]]:
        """The parts of the state that are inputs: the name, the input, its first value, and its next value."""
        return [
            (symbol.name or f"state_{i}", symbol, full(0, symbol.type.shape, symbol.dtype), outputs[number])
            for i, (symbol, number) in enumerate(self.fed.items())
        ]


def _with_size(node: Node, axis: int, size: types.Dimension) -> Node:
    """An input with another size of one axis."""
    kind = ir.declared(node)
    if kind.shape[axis] == size:
        return node
    return ir.new_input(kind.with_shape((*kind.shape[:axis], size, *kind.shape[axis + 1 :])), node.name)


def _input(graph: FunctionGraph, key: Any, name: str) -> Node:
    for node in graph.inputs:
        if key is node or (isinstance(key, str) and node.name == key):
            return node
    raise errors.ArgumentError(
        f"{name} has no input of this name", got=repr(key), expected=", ".join(str(node.name) for node in graph.inputs)
    )


def _output(graph: FunctionGraph, key: Any, name: str) -> int:
    """The number of an output, from its number, its key or its name in a file."""
    tree = graph.tree
    assert tree is not None
    names: list[Any] = list(graph.names) or [
        key for key, child in zip(tree.names, tree.children, strict=True) for _ in range(child.size)
    ]
    found = [number for number, known in enumerate(names) if known == key]
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        raise errors.ArgumentError(
            f"an output of {name} that is fed back is one tensor",
            got=f"{key!r}, which is {len(found)} tensors",
            fix="feed each of them back to an input of its own, by its number among all tensors that are returned",
        )
    count = len(graph.outputs)
    if isinstance(key, int) and -count <= key < count:
        return key % count
    raise errors.ArgumentError(
        f"{name} has no output of this name or number",
        got=repr(key),
        expected=f"one of {[*dict.fromkeys(names)]}" if names else f"a number below {count}",
    )


def _fed(graph: FunctionGraph, feedback: Any, name: str) -> dict[Node, int]:
    if not isinstance(feedback, Mapping):
        raise errors.ArgumentError(
            "feedback maps inputs to outputs", got=repr(feedback), expected="{'state': 'stateN'}"
        )
    found = {_input(graph, key, name): _output(graph, value, name) for key, value in feedback.items()}
    for node, number in found.items():
        output = graph.outputs[number]
        if output.dtype != node.dtype or output.ndim != node.ndim:
            raise errors.ArgumentError(
                f"an output that is fed back to {node.name!r} has another type than it",
                got=output.type,
                expected=node.type,
            )
    return found


def _axes(inputs: Sequence[Node], time: Any, fed: Mapping[Node, int], name: str) -> dict[Node, int]:
    """The inputs that have a time axis, and that axis."""
    if time is None:
        return {}
    if isinstance(time, Mapping):
        wanted = {_input(FunctionGraph(tuple(inputs), (), None), key, name): axis for key, axis in time.items()}
    elif isinstance(time, int):
        wanted = {node: time for node in inputs if node not in fed and ir.declared(node).ndim > time}
    else:
        raise errors.ArgumentError(
            f"time of {name} must be the number of an axis", got=repr(time), expected="an int, {input: int}, or None"
        )
    found = {}
    for node, axis in wanted.items():
        shape = ir.declared(node).shape
        if isinstance(axis, bool) or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
            raise errors.ArgumentError(
                f"{node.name!r} has no axis that is time",
                got=f"axis {axis!r} of {ir.declared(node)}",
                expected="an axis",
            )
        if isinstance(shape[axis], int):
            raise errors.ArgumentError(
                "the time axis of a function that is cut into steps has no fixed size",
                got=f"{node!r}, axis {axis}",
                fix='give it a name, as in sj.tensor(("T", 3)), or None in the shape of an InputLayer',
                where=node.where,
            )
        found[node] = axis % len(shape)
    if not found:
        raise errors.ArgumentError(
            f"no input of {name} has the axis that is time",
            got=f"time={time!r} for {', '.join(map(repr, inputs))}",
            fix="say which axis of which input is time; None if each call is a step",
        )
    return found


def _without(tree: Tree, dropped: set[int]) -> Tree:
    """The structure without the outputs that are fed back. A list or tuple of which one item is left becomes this
    item."""
    if not dropped:
        return tree
    kept, at = [], 0
    for name, child in zip(tree.names, tree.children, strict=True):
        own = {number - at for number in dropped if at <= number < at + child.size}
        at += child.size
        if not own or len(own) < child.size:
            kept.append((name, _without(child, own)))
    if len(kept) == 1 and tree.kind in (tuple, list):
        return kept[0][1]
    return Tree(tree.kind or tuple, tuple(name for name, _ in kept), tuple(child for _, child in kept))
