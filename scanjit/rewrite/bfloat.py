"""Products whose operands are rounded to bfloat16 become products of pairs.

Neighbours along a summed axis are put into pairs (see `scanjit.ops.bfloat`). Where an operand is the same in all steps
of a loop, so are its pairs, and `hoist` then takes them out of the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scanjit import errors, types
from scanjit.ir import PART, Node, rebuilt, walk, walk_inside, with_params
from scanjit.ops.bfloat import CONTRACT_PAIRS, ROUND_BFLOAT16, is_even, pairs
from scanjit.ops.linalg import CONTRACT
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import COPY, RESHAPE, SLICE
from scanjit.ops.view import View
from scanjit.ops.windows import WINDOWS
from scanjit.rewrite.engine import Note
from scanjit.rewrite.loop import OpenScan, Y
from scanjit.rewrite.scan_hoist import hoist
from scanjit.types import Dimension

# ---- what is computed ------------------------------------------------------------------------------------------------


def with_rounded_products(outputs: Sequence[Node], given: Sequence[Node] = ()) -> list[Node]:
    """The outputs with the operands of products of float32 rounded to bfloat16, in loops and branches too. What nodes
    that are `given` are computed from stays as it is. Convolutions stay too: in pairs, each number that they read would
    have to be copied for each place that reads it."""
    known = set(walk(given))

    def replaced(old: Node, new: Node) -> Node | None:
        if old in known:
            return old
        body = new.params.get("body")
        if body is not None:
            return with_params(new, body=body.with_outputs(with_rounded_products(body.outputs)))
        if new.op is not CONTRACT or new.dtype != np.float32 or any(x.op is WINDOWS for x in new.operands):
            return None
        with errors.located(new.where):
            return CONTRACT(*(_rounded(x) for x in new.operands), **new.params)

    return rebuilt(outputs, replaced)


def _rounded(x: Node) -> Node:
    return x if x.op is ROUND_BFLOAT16 else ROUND_BFLOAT16(x)


# ---- how it is computed ----------------------------------------------------------------------------------------------

LEAST_TERMS = 16
"""Sums of fewer terms stay what they are: to make pairs would take longer than it saves."""


def in_pairs(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Multiply pairs of numbers wherever both operands of a product are rounded to bfloat16."""
    if not any(node.op is ROUND_BFLOAT16 for node in walk_inside(outputs)):
        return outputs
    return hoist(_Level({}, notes).rewritten(outputs), notes)


class _Level:
    """A graph: the whole one, or the body of a loop. `known` says of its origins whether their values are rounded."""

    def __init__(self, known: Mapping[Node, bool], notes: list[Note]) -> None:
        self.known, self.notes = dict(known), notes
        self.results: dict[Node, list[bool]] = {}
        """Of each loop: whether the numbers in each of its results are rounded."""

    def rewritten(self, outputs: Sequence[Node]) -> list[Node]:
        """The outputs, with products of pairs."""
        parts: dict[Node, Mapping[int, Node]] = {}

        def replaced(old: Node, new: Node) -> Node | None:
            self.known[old] = not old.several and self._is_rounded(old)
            if old.op is SCAN:
                parts[old] = self._inside(old, new)
            elif old.op is PART and old.args[0] in parts:
                return parts[old.args[0]].get(old.params["index"])
            elif old.op is CONTRACT and all(self.known[x] for x in old.operands):
                return self._product(new)
            return None

        return rebuilt(outputs, replaced)

    def _is_rounded(self, node: Node) -> bool:
        """Whether all numbers in a node are rounded, given whether those in its operands are."""
        if node.op is ROUND_BFLOAT16:
            return True
        if isinstance(node.op, View) or node.op in (SLICE, RESHAPE, COPY):
            return self.known[node.operands[0]]
        if node.op is PART and node.args[0] in self.results:
            return dict(enumerate(self.results[node.args[0]])).get(node.params["index"], False)
        return self.known.get(node, False)

    def _inside(self, old: Node, new: Node) -> dict[int, Node]:
        """The results of a loop with its step rewritten: `new` is the loop on operands that are rewritten already."""
        before, loop = OpenScan.of(old), OpenScan.of(new)
        read = (*before.xs.items(), *before.consts.items())
        level = _Level({inner: self.known[operand] for operand, inner in read}, self.notes)
        outputs = level.rewritten(loop.outputs)
        rows = [isinstance(result, Y) and level.known[result.node] for result in loop.results[: loop.own]]
        self.results[old] = rows  # a final carry may be its initial value, which need not be rounded
        if all(a is b for a, b in zip(outputs, loop.outputs, strict=True)):
            return {}
        loop.set_outputs(outputs)
        return loop.finish().parts()

    def _product(self, node: Node) -> Node | None:
        left, right, out = (node.params[name] for name in ("left", "right", "out"))
        a, b = node.operands
        summed = [label for label in left if label not in out]
        sizes = {label: a.type.shape[left.index(label)] for label in summed}
        total = types.product(sizes.values())
        if not summed or (isinstance(total, int) and total < LEAST_TERMS):
            return None
        label = max(summed, key=lambda each: _worth(sizes[each]))
        self.notes.append(Note("in_pairs", node.where, f"a product {node.type} multiplies pairs of bfloat16"))
        return CONTRACT_PAIRS(pairs(a, left.index(label)), pairs(b, right.index(label)), **node.params)


def _worth(size: Dimension) -> tuple[bool, float]:
    """How good an axis is to make pairs along: one that leaves no number alone, else a long one."""
    return is_even(size), size if isinstance(size, int) else float("inf")
