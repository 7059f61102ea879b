"""A whole graph as a region: the places of inputs and results, and what is computed between them."""

from collections.abc import Collection, Sequence

from scanjit import types
from scanjit.ir import Node
from scanjit.records import record
from scanjit.schedule.lower.lowering import Lowering
from scanjit.schedule.lower.region import Context, Region, Single
from scanjit.schedule.lower.table import rules_for
from scanjit.schedule.nests import Buffer, Nest, Ref, TimeLoop
from scanjit.target import Target


@record
class Lowered:
    """A region that computes a graph. `inputs` are the buffers of its origins, `outputs` the places of its results."""

    region: Region
    context: Context
    inputs: list[Buffer]
    outputs: list[Ref]


def lower(origins: Sequence[Node], outputs: Sequence[Node], target: Target, changing: Collection[Node] = ()) -> Lowered:
    """The region that computes `outputs` from `origins` on a target. Origins are inputs, and values that an earlier
    program computed. The shared variables `changing` have another value in every call."""
    context = Context(changing)
    inputs = [
        Buffer(origin.dtype, origin.type.shape, "input", origin.name or f"input{i}", fixed=context.is_fixed(origin))
        for i, origin in enumerate(origins)
    ]
    known = {origin: Ref.whole(buffer) for origin, buffer in zip(origins, inputs, strict=True)}
    lowering = Lowering(rules_for(target), context, known)
    places = lowering.run(outputs, [None] * len(outputs))
    made = [item.statement for item in lowering.items if isinstance(item, Single)]
    plans = [statement.plan for statement in made if isinstance(statement, Nest | TimeLoop)]
    trajectories = {c.store.buffer for plan in plans if plan is not None for c in plan.carries if c.trajectory}
    results: list[Ref] = []
    for node, place in zip(outputs, places, strict=True):
        if not _can_be_given(place, trajectories):
            place = lowering.new_place(node)
            lowering.copy(node, place)
        place.buffer.kind = "output"
        results.append(place)
    return Lowered(lowering.region, lowering.context, inputs, results)


def _can_be_given(place: Ref, trajectories: Collection[Buffer]) -> bool:
    """Whether the caller can own the buffer in which a result lies.

    The caller gets whole buffers, the only slot of a carry, or the rows of a trajectory without the one before the
    first step. Other results are copied: an input that is returned, one of several slots of a carry, and a row whose
    place depends on how many steps ran.
    """
    buffer = place.buffer
    rows = len(place.shape) == len(buffer.shape) and place.shape[1:] == buffer.shape[1:]
    whole = buffer.shape in (place.shape, (1, *place.shape)) or (rows and buffer in trajectories)
    known = all(atom.kind != "counter" for atom in types.atoms(place.offset))
    return buffer.kind == "temporary" and place.contiguous and whole and known
