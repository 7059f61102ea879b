"""A whole graph as a region: the places of inputs and results, and the tasks between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scanjit.ir import SHARED, Node
from scanjit.ops.branch import IFELSE
from scanjit.ops.index import SCATTER
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import CONCATENATE, RESHAPE, SET_SLICE
from scanjit.schedule.lower import assemble, branch, factor, scan
from scanjit.schedule.lower.places import choose_places
from scanjit.schedule.lower.region import Context, Region
from scanjit.schedule.nests import Buffer, Ref
from scanjit.target import Target

HANDLERS = {
    SCAN: scan.schedule_scan,
    IFELSE: branch.schedule_branch,
    CONCATENATE: assemble.concatenate,
    RESHAPE: assemble.reshape,
    SET_SLICE: assemble.set_slice,
    SCATTER: assemble.scatter,
    **factor.HANDLERS,
}
"""How the ops are lowered that are more than a value at every point of a space."""


@dataclass(frozen=True, eq=False)
class Lowered:
    """A region that computes a graph, the buffers of its leaves, and where each output lies."""

    region: Region
    inputs: list[Buffer]
    outputs: list[Ref]


def lower(leaves: Sequence[Node], outputs: Sequence[Node], target: Target) -> Lowered:
    """The region that computes `outputs` from `leaves` (inputs, and values that an earlier program computed)."""
    context = Context(target, HANDLERS, choose_places)
    inputs = [
        Buffer(leaf.dtype, leaf.type.shape, "input", leaf.name or f"input{i}", fixed=leaf.op is SHARED)
        for i, leaf in enumerate(leaves)
    ]
    region = Region(context, {leaf: Ref.whole(buffer) for leaf, buffer in zip(leaves, inputs, strict=True)})
    refs = region.schedule(outputs, [None] * len(outputs))
    return Lowered(region, inputs, [_given_out(region, node, ref) for node, ref in zip(outputs, refs, strict=True)])


def _given_out(region: Region, node: Node, ref: Ref) -> Ref:
    """The place of a result: a buffer that the caller will own, all of it. What lies elsewhere is copied."""
    buffer = ref.buffer
    rows = len(ref.shape) == len(buffer.shape) and ref.shape[1:] == buffer.shape[1:]
    whole = ref.shape == buffer.shape or (rows and buffer.name == "carry" and buffer.shape[0] != 2)
    if buffer.kind != "temporary" or not ref.contiguous or not whole:
        ref = region.copy(node)
    ref.buffer.kind = "output"
    return ref
