"""How symbols are copied and pickled, as in the layers of a network.

A pickle keeps what symbols have in common: an input or a shared variable that two symbols of a pickle depend on is one
again. A deep copy depends on copies of the shared variables, and on the same inputs.
"""

import copy
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

from scanjit import ir
from scanjit.ir import INPUT, SHARED, Node
from scanjit.ops.parts import as_stored
from scanjit.runtime.decoding import decode
from scanjit.runtime.encoding import Encoded, encode

SPACING = 32
"""How long the ways between landmarks are."""


class _Landmark:
    """What a pickler gets for a node: what several symbols have in common is then pickled once.

    The data of a landmark end at those that it needs. `others` has all landmarks of a symbol.
    """

    def __init__(self, node: Node, others: frozenset[Node]) -> None:
        self.node, self.others = node, others

    def __reduce__(self) -> tuple[Any, ...]:
        found = ir.walk([self.node], self.others - {self.node})
        given = [node for node in found[:-1] if node in self.others or node.op is INPUT]
        return _restored, (_as_pickled(given, self.others), encode([self.node], given=given))


_known: WeakValueDictionary[Node, _Landmark] = WeakValueDictionary()
"""The landmarks of picklers that are at work. A pickler recognises objects that it has met."""


def _as_pickled(nodes: Sequence[Node], others: frozenset[Node]) -> list[Node | _Landmark]:
    """Nodes as a pickler gets them."""
    return [node if node.op is INPUT else _known.setdefault(node, _Landmark(node, others)) for node in nodes]


def _reduced(node: Node) -> tuple[Any, ...]:
    """For pickle. The landmarks come arguments first: the pickler has met what each needs, and does not recurse."""
    if node.op is INPUT:
        return ir.new_input, (node.params["type"], node.name)
    landmarks = [*_landmarks(node), node]
    return _last, tuple(_as_pickled(landmarks, frozenset(landmarks)))


def _landmarks(root: Node) -> list[Node]:
    """The inputs, the loops and branches, and some other nodes that a node depends on, arguments first. Whether a node
    is one of them follows from itself: there is one after every `SPACING` nodes of the longest way from an origin."""
    heights: dict[Node, int] = {}
    for node in ir.walk([root]):
        heights[node] = 1 + max((heights[arg] for arg in node.args), default=-1)
    return [
        node for node, height in heights.items()
        if node is not root and (node.op is INPUT or height % SPACING == SPACING - 1 or ir.graphs_in([node]))
    ]  # fmt: skip


def _restored(given: Sequence[Node], encoded: Encoded) -> Node:
    return decode(encoded, given=given)[0]


def _last(*nodes: Node) -> Node:
    return nodes[-1]


def _deep_copy(node: Node, memo: dict[int, Any]) -> Node:
    shared = [other for other in ir.walk([node]) if other.op is SHARED]
    copies = [as_stored(ir.as_node(copy.deepcopy(other.params["variable"], memo))) for other in shared]
    return ir.renamed([node], dict(zip(shared, copies, strict=True)))[0]


setattr(Node, "__reduce__", _reduced)  # noqa: B010
setattr(Node, "__copy__", lambda node: node)  # noqa: B010
setattr(Node, "__deepcopy__", _deep_copy)  # noqa: B010
