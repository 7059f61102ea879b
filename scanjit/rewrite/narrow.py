"""Products of numbers of 16 and 8 bits: the numbers that `mixed` computes, and how this becomes fast.

Both operands are rounded (`scanjit.ops.narrow`). The last pass then packs neighbours along a summed axis, and
multiplies packs. If an operand is the same in all steps of a loop, so are its packs, and `hoist` takes them out of the
loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from scanjit import errors, types
from scanjit.ir import PART, Node, apply, constant, rebuilt, walk, walk_inside, with_body
from scanjit.ops.contraction import CONTRACT, Labels
from scanjit.ops.elementwise import ABS, LESS, NOT_EQUAL, where
from scanjit.ops.extremes import SUPREMUM
from scanjit.ops.narrow import (
    CONTRACT_PAIRS,
    CONTRACT_QUADS,
    LARGEST_INT8,
    OFFSET,
    PAIR_BFLOAT16,
    QUAD_INT8,
    QUAD_UINT8,
    REMARK,
    ROUND_BFLOAT16,
    ROUND_GRADIENT,
    ROUND_INT8,
    fills_packs,
    packs,
)
from scanjit.ops.promotion import CAST, Elementwise, cast
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import CONCATENATE, COPY, RESHAPE, SLICE
from scanjit.ops.stretch import SUM
from scanjit.ops.view import DIMSHUFFLE, View
from scanjit.ops.windows import WINDOWS
from scanjit.records import record
from scanjit.rewrite.engine import Note
from scanjit.rewrite.loop import OpenCarry, OpenScan, Y
from scanjit.rewrite.scan_hoist import hoist
from scanjit.types import Dimension

_SMALLEST = 1e-30
"""A row whose numbers are all smaller than this counts as zeros: the inverse of its scale would be infinite."""
Place = tuple[tuple[Node, ...], Node]
"""A product: the loops that it is in, the outermost first, and its node."""


@record
class MeasuredProduct:
    """Measurements of a product on typical data.

    Parameters
    ----------
    largest : for each operand, its largest absolute value; None if its scales are found while the function runs.
    remark : the remark about it in `explain()`.
    """

    largest: tuple[float | None, float | None] = (None, None)
    remark: str = ""


UNKNOWN = MeasuredProduct()
"""Nothing was measured: both scales are found while the function runs."""
Product = Callable[[Node, MeasuredProduct], Node]
"""A function that makes the replacement of a product."""

# ---- what is computed ------------------------------------------------------------------------------------------------


def with_narrow_products(
    outputs: Sequence[Node],
    weights: str,
    given: Sequence[Node] = (),
    measured: Mapping[Place, MeasuredProduct] | None = None,
    path: tuple[Node, ...] = (),
) -> list[Node]:
    """The outputs with narrow products in place of those of float32, also in loops and branches. Nodes that are
    `given`, and everything that they are computed from, stay as they are. So do convolutions: to pack them, each number
    that they read would have to be copied for each place that reads it. `path` are the loops around the outputs."""
    known, product, about = set(walk(given)), FORMATS[weights], measured or {}

    def replaced(old: Node, new: Node) -> Node | None:
        if old in known:
            return old
        body = new.params.get("body")
        if body is not None:
            inside = with_narrow_products(body.outputs, weights, (), measured, (*path, old))
            return with_body(new, body.with_outputs(inside))
        if not is_to_narrow(new):
            return None
        with errors.located(new.where):
            return product(new, about.get((path, old), UNKNOWN))

    return rebuilt(outputs, replaced)


def is_to_narrow(node: Node) -> bool:
    """Whether a node is a product of float32 that is not narrow yet, and no convolution."""
    if node.op is not CONTRACT or node.dtype != np.float32:
        return False
    return not any(x.op in (WINDOWS, ROUND_BFLOAT16, ROUND_INT8) for x in node.operands)


def _of_bfloat16(node: Node, measured: MeasuredProduct) -> Node:
    """The product of operands rounded to bfloat16. A gradient that is taken of it later has such products, too."""
    return apply(ROUND_GRADIENT, CONTRACT(*map(ROUND_BFLOAT16, node.operands), **node.params))


def _of_int8(node: Node, measured: MeasuredProduct) -> Node:
    """The product of integers of 8 bits, times two scales. Each row of the left operand has a scale, and each column of
    the right one, so that its largest number becomes 127. If the largest number of an operand was measured, the whole
    operand has one scale, and larger numbers become 127 too."""
    left, right, out = (node.params[name] for name in ("left", "right", "out"))
    integers, scales = [], []
    for x, labels, known in zip(node.operands, (left, right), measured.largest, strict=True):
        summed = tuple(axis for axis, label in enumerate(labels) if label not in out)
        largest = SUPREMUM(apply(ABS, x), axes=summed)
        if known is not None:
            step = known / LARGEST_INT8
            integers.append(ROUND_INT8(x * (1 / step)))
            lost = apply(NOT_EQUAL, largest, largest)  # packs cannot hold a NaN
            scales.append(_spread(where(lost, np.nan, constant(step, "float32")), _kept(labels, out), out))
            continue
        scale = where(apply(LESS, largest, _SMALLEST), 1.0, largest) * (1 / LARGEST_INT8)
        integers.append(ROUND_INT8(x * _spread(1 / scale, _kept(labels, out), labels)))
        scales.append(_spread(scale, _kept(labels, out), out))
    found = CONTRACT(*integers, **node.params) * (scales[0] * scales[1])
    return REMARK(found, what=measured.remark) if measured.remark else found


def _kept(labels: Labels, out: Labels) -> Labels:
    return tuple(label for label in labels if label in out)


def _spread(x: Node, labels: Labels, among: Labels) -> Node:
    """A tensor whose axes have some labels, with size 1 along the other axes of a tensor with more labels."""
    return DIMSHUFFLE(x, order=tuple(labels.index(label) if label in labels else None for label in among))


FORMATS: dict[str, Product] = {"bfloat16": _of_bfloat16, "int8": _of_int8}
"""Maps the format of operands to the function that replaces a product."""


# ---- how it is computed ----------------------------------------------------------------------------------------------

LEAST_TERMS = 16
"""Sums of fewer terms than this stay as they are: packing would take longer than it saves."""


def in_packs(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Multiply packs of numbers wherever both operands of a product are rounded alike, or are kept as bfloat16."""
    if not any(node.op in _PACKED or _is_widened(node) for node in walk_inside(outputs)):
        return outputs
    return hoist(_Level({}, notes).rewritten(outputs), notes)


class _Level:
    """A graph: the whole one, or the body of a loop. `known` maps its origins to the op by which their values are
    rounded, if there is one."""

    def __init__(self, known: Mapping[Node, Elementwise | None], notes: list[Note]) -> None:
        self.known, self.notes = dict(known), notes
        self.results: dict[Node, list[Elementwise | None]] = {}
        """For each loop, the op by which the numbers in each of its results are rounded."""

    def rewritten(self, outputs: Sequence[Node]) -> list[Node]:
        """The outputs, with products of packs."""
        parts: dict[Node, Mapping[int, Node]] = {}

        def replaced(old: Node, new: Node) -> Node | None:
            self.known[old] = None if old.several else self._rounding(old)
            if old.op is SCAN:
                parts[old] = self._inside(old, new)
            elif old.op is PART and old.args[0] in parts:
                return parts[old.args[0]].get(old.params["index"])
            elif old.op is ROUND_BFLOAT16:
                return self._rounded(old, new)
            elif old.op is CONTRACT:
                a, b = (self.known[x] for x in old.operands)
                return self._packed(new, a) if a is not None and a is b else None
            return None

        return rebuilt(outputs, replaced)

    def _rounding(self, node: Node) -> Elementwise | None:
        """The op by which the numbers in a node are rounded, given those of its operands."""
        if node.op in _PACKED:
            assert isinstance(node.op, Elementwise)
            return node.op
        if _is_widened(node):
            return ROUND_BFLOAT16
        if isinstance(node.op, View) or node.op in (SLICE, RESHAPE, COPY):
            return self.known[node.operands[0]]
        if node.op is PART and node.args[0] in self.results:
            return dict(enumerate(self.results[node.args[0]])).get(node.params["index"])
        return self.known.get(node)

    def _rounded(self, old: Node, new: Node) -> Node | None:
        """A rounded node: what is rounded already stays, and parts are rounded before they are joined."""
        (x,) = new.operands
        if self.known[old.operands[0]] is ROUND_BFLOAT16:
            return x
        return CONCATENATE(*map(ROUND_BFLOAT16, x.operands), **x.params) if x.op is CONCATENATE else None

    def _inside(self, old: Node, new: Node) -> dict[int, Node]:
        """The results of a loop with its step rewritten: `new` is the loop on operands that are rewritten already."""
        before, loop = OpenScan.of(old), OpenScan.of(new)
        read = (*before.xs.items(), *before.consts.items())
        known = {inner: self.known[operand] for operand, inner in read}
        level = _Level(known | dict.fromkeys(_round_at_the_end(loop), ROUND_BFLOAT16), self.notes)
        outputs = level.rewritten(loop.outputs)
        results = loop.results[: loop.own]  # a final carry may be its initial value, which need not be rounded
        self.results[old] = [level.known[result.node] if isinstance(result, Y) else None for result in results]
        if all(a is b for a, b in zip(outputs, loop.outputs, strict=True)):
            return {}
        loop.set_outputs(outputs)
        return loop.finish().parts()

    def _packed(self, node: Node, rounding: Elementwise) -> Node | None:
        sizes = _summed(node)
        total = types.product(sizes.values())
        if not sizes or (isinstance(total, int) and total < LEAST_TERMS):
            return None
        title, product, count = _PACKED[rounding]
        if not any(fills_packs(size, count) for size in sizes.values()):
            node = _with_one_sum(node)
            sizes = _summed(node)
        label = max(sizes, key=lambda each: _worth(sizes[each], count))
        self.notes.append(Note("in_packs", node.where, f"a product {node.type} multiplies {title}"))
        return product(node, label)


def _summed(node: Node) -> dict[int, Dimension]:
    """The sizes of the axes of a product that are summed, by their labels."""
    left, out = node.params["left"], node.params["out"]
    return {label: n for label, n in zip(left, node.operands[0].type.shape, strict=True) if label not in out}


def _with_one_sum(node: Node) -> Node:
    """A product whose summed axes are one axis, if they are neighbours in both operands. Packs along the outer one of
    two axes would leave two loops. The inner loop would have a turn for each row of a batch, which may be one turn."""
    left, right, out = (node.params[name] for name in ("left", "right", "out"))
    follows = dict(itertools.pairwise(left)).items() & dict(itertools.pairwise(right)).items()
    pair = next(((a, b) for a, b in sorted(follows) if a not in out and b not in out), None)
    if pair is None:
        return node
    operands = [_joined(x, own.index(pair[0])) for x, own in zip(node.operands, (left, right), strict=True)]
    first, second = (tuple(label for label in own if label != pair[1]) for own in (left, right))
    return _with_one_sum(CONTRACT(*operands, left=first, right=second, out=out))


def _joined(x: Node, axis: int) -> Node:
    """A tensor whose axis is joined with the next one. A bfloat16 is still widened last, where it is loaded."""
    if _is_widened(x):
        return cast(_joined(x.operands[0], axis), "float32")
    shape = x.type.shape
    return RESHAPE(x, shape=(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _round_at_the_end(loop: OpenScan) -> list[Node]:
    """Let a step round the states that it makes, while they are in registers, instead of those that it reads. Returns
    the rounded states, as the body reads them."""
    inside = set(walk(loop.outputs))
    read = [carry for carry in loop.carries if carry.lag is None and ROUND_BFLOAT16(carry.inner) in inside]
    return [_with_rounded(loop, carry) for carry in read]


def _with_rounded(loop: OpenScan, carry: OpenCarry) -> Node:
    """The symbol of a new carry: another one, rounded."""
    rounded = loop.add_carry(ROUND_BFLOAT16(carry.init), lambda _: ROUND_BFLOAT16(carry.new)).inner
    loop.substitute({ROUND_BFLOAT16(carry.inner): rounded})
    return rounded


def _is_widened(node: Node) -> bool:
    """Whether a node is a bfloat16 as a float32."""
    return node.op is CAST and node.dtype == np.float32 and str(node.operands[0].dtype) == "bfloat16"


def _worth(size: Dimension, pack: Elementwise) -> tuple[bool, float]:
    """How good an axis is to pack along: one that leaves no number alone, else a long one."""
    return fills_packs(size, pack), size if isinstance(size, int) else float("inf")


def _pairs(node: Node, label: int) -> Node:
    """A product of bfloat16, with pairs along a label."""
    (a, b), left, right = node.operands, node.params["left"], node.params["right"]
    a, b = packs(a, left.index(label), PAIR_BFLOAT16), packs(b, right.index(label), PAIR_BFLOAT16)
    return CONTRACT_PAIRS(a, b, **node.params)


def _quads(node: Node, label: int) -> Node:
    """A product of integers, with quads along a label. 128 is added to the left integers; its part of the sums is
    subtracted again."""
    (a, b), left, right, out = node.operands, *(node.params[name] for name in ("left", "right", "out"))
    quads = [
        packs(_before_rounding(x), labels.index(label), pack)
        for x, labels, pack in ((a, left, QUAD_UINT8), (b, right, QUAD_INT8))
    ]
    summed = tuple(axis for axis, own in enumerate(right) if own not in out)
    more = _spread(cast(SUM(b, axes=summed), "int32") * constant(OFFSET, "int32"), _kept(right, out), out)
    return cast(CONTRACT_QUADS(*quads, **node.params) - more, "float32")


def _before_rounding(x: Node) -> Node:
    """The numbers before they are rounded to integers, as quads round them."""
    return x.operands[0] if x.op is ROUND_INT8 else x


_PACKED: dict[object, tuple[str, Callable[[Node, int], Node], Elementwise]] = {
    ROUND_BFLOAT16: ("pairs of bfloat16", _pairs, PAIR_BFLOAT16),
    ROUND_INT8: ("quads of int8", _quads, QUAD_INT8),
}
"""For each rounding: the name of its packs, the function that makes a product of packs, and the op that packs."""
