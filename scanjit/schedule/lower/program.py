"""A whole graph as a region: the places of inputs and results, and what is computed between them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from scanjit.ir import SHARED, Node
from scanjit.schedule.lower.lowering import Lowering
from scanjit.schedule.lower.region import Context, Region, Single
from scanjit.schedule.lower.table import RULES
from scanjit.schedule.nests import Buffer, Nest, Ref, TimeLoop
from scanjit.target import Target


@dataclass(frozen=True, eq=False)
class Lowered:
    """A region that computes a graph, the buffers of its leaves, and where each output lies."""

    region: Region
    inputs: list[Buffer]
    outputs: list[Ref]


def lower(leaves: Sequence[Node], outputs: Sequence[Node], target: Target) -> Lowered:
    """The region that computes `outputs` from `leaves` (inputs, and values that an earlier program computed)."""
    inputs = [
        Buffer(leaf.dtype, leaf.type.shape, "input", leaf.name or f"input{i}", fixed=leaf.op is SHARED)
        for i, leaf in enumerate(leaves)
    ]
    known = {leaf: Ref.whole(buffer) for leaf, buffer in zip(leaves, inputs, strict=True)}
    lowering = Lowering(RULES, Region(Context(target)), known)
    places = lowering.run(outputs, [None] * len(outputs))
    made = [item.statement for item in lowering.region.items if isinstance(item, Single)]
    plans = [statement.plan for statement in made if isinstance(statement, Nest | TimeLoop)]
    trajectories = {c.store.buffer for plan in plans if plan is not None for c in plan.carries if c.trajectory}
    results = [_given_out(lowering, node, place, trajectories) for node, place in zip(outputs, places, strict=True)]
    return Lowered(lowering.region, inputs, results)


def _given_out(lowering: Lowering, node: Node, place: Ref, trajectories: Collection[Buffer]) -> Ref:
    """The place of a result: in a buffer that the caller will own. What lies elsewhere is copied.

    The caller gets whole buffers, or the rows of a trajectory: the values of a carry but for the one before the first
    step. An input that is returned is copied, and so are the slots of a carry, of which one is wanted.
    """
    buffer = place.buffer
    rows = len(place.shape) == len(buffer.shape) and place.shape[1:] == buffer.shape[1:]
    whole = place.shape == buffer.shape or (rows and buffer in trajectories)
    if buffer.kind != "temporary" or not place.contiguous or not whole:
        place = lowering.new_place(node)
        lowering.copy(node, place)
    place.buffer.kind = "output"
    return place
