"""Loops that are alike are changed once: the two directions of a layer, the layers of a stack, the members of an
ensemble.

Two loops are alike if they differ only in their operands, in their names, and in where the user wrote them.
"""

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Concatenate, Generic, ParamSpec

from scanjit.ir import PART, Node, new_input, rebuild, transferred, walk
from scanjit.ops.scan import SCAN
from scanjit.records import replace
from scanjit.rewrite.engine import Note, in_bodies, map_scans
from scanjit.types import Type
from scanjit.walks import bottom_up

Given = ParamSpec("Given")
NewResults = Mapping[int, Node] | None
"""New nodes for the results of a scan, by index. None leaves the scan as it is."""


class Alike(Generic[Given]):
    """A change of single loops that is made once for loops that are alike.

    `change` sees a symbol in place of each tensor that a loop reads. It does see constants, and ops that only move
    data: it may ask whether a sequence is a broadcast, but not how its elements are computed.
    """

    def __init__(self, change: Callable[Concatenate[Node, list[Note], Given], NewResults]) -> None:
        self._change = change
        self._made: dict[tuple[Hashable, ...], tuple[NewResults, list[Note]]] = {}
        self._symbols: dict[tuple[int, Type], Node] = {}

    def __call__(self, scan: Node, notes: list[Note], *given: Given.args, **named: Given.kwargs) -> NewResults:
        """The result of `change` for a scan. `given` are further arguments that it depends on."""
        types = (*scan.types, *[x.type for x in scan.operands])
        if scan.applied.sizes or any([type_.is_computed for type_ in types]):
            return self._change(scan, notes, *given, **named)
        read: dict[Node, Node] = {}
        general = transferred(scan, self._general(scan.operands, read), scan.where, None)
        key = general, *given, *named.items()
        if key not in self._made:
            about: list[Note] = []
            changed = self._change(general, about, *given, **named)
            self._made[key] = None if changed is None or _is_same(changed, general) else changed, about
        made, about = self._made[key]
        if made is not None and any(node.applied.sizes for node in walk(made.values(), read)):
            # A size that a new node computes belongs to one loop: names of its dimensions are not exchanged.
            return self._change(scan, notes, *given, **named)
        notes += [replace(note, where=scan.where) if note.where == general.where else note for note in about]
        return None if made is None else self._special(made, general, scan, read)

    def _general(self, operands: Sequence[Node], read: dict[Node, Node]) -> tuple[Node, ...]:
        """The operands of a loop with symbols in them. `read` gets the node that each symbol stands for."""
        done: dict[Node, Node] = {}
        for node in bottom_up(operands, lambda node: node.args if _is_seen(node) else ()):
            if _is_seen(node):
                done[node] = rebuild(node, tuple([done[arg] for arg in node.args]))
            else:
                key = len(read), node.type
                if key not in self._symbols:
                    self._symbols[key] = new_input(node.type)
                done[node] = self._symbols[key]
                read[done[node]] = node
        return tuple([done[operand] for operand in operands])

    def _special(
        self, made: Mapping[int, Node], general: Node, scan: Node, read: Mapping[Node, Node]
    ) -> dict[int, Node]:
        """A result of `change` for symbols, with the operands of one of the loops that are alike."""
        done = dict(read)
        for node in walk(made.values(), read):
            if node not in done:
                own = node.where == general.where
                name = scan.name if own and node.op is SCAN and node.name is None else node.name
                args = tuple([done[arg] for arg in node.args])
                done[node] = transferred(node, args, scan.where if own else node.where, name)
        return {index: done[node] for index, node in made.items()}


def _is_same(made: Mapping[int, Node], scan: Node) -> bool:
    """Whether new results of a loop are its results as they were."""
    return all([node.op is PART and node.args[0] is scan and node.params["index"] == i for i, node in made.items()])


def _is_seen(node: Node) -> bool:
    """Whether a change of a loop may look at this node, which the loop reads."""
    return node.is_closed or (node.op.moves_data and not node.applied.sizes)


def change_loops(
    outputs: Sequence[Node], notes: list[Note], change: Callable[[Node, list[Note]], NewResults], again: bool = False
) -> list[Node]:
    """Change all loops, inner ones first, once for those that are alike. With `again`, loops that this makes are
    changed too."""
    outputs = in_bodies(outputs, lambda inner: change_loops(inner, notes, change, again))
    alike = Alike(change)
    while True:
        before, outputs = outputs, map_scans(outputs, lambda old, scan: alike(scan, notes))
        if not again or all(map(operator.is_, before, outputs)):
            return outputs
