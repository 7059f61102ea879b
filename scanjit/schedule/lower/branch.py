"""Schedule an ifelse: one statement with two branches, of which the condition lets one run."""

from __future__ import annotations

from collections.abc import Sequence

from scanjit import ir
from scanjit.ir import Node
from scanjit.ops.elementwise import cast
from scanjit.schedule.lower.region import Block, Region, Task
from scanjit.schedule.lower.scan import no_ragged_step, open_body
from scanjit.schedule.nests import Buffer, If, Ref


def schedule_branch(region: Region, node: Node) -> None:
    """Schedule an ifelse in a region; its parts get their places."""
    condition, *operands = node.operands
    body = open_body(node)
    no_ragged_step(body)
    first = len(region.items)
    flag = region.copy(cast(condition, "int64"))  # the main function reads int64 only
    results = [Buffer(kind.dtype, kind.shape, "temporary", "branch") for kind in node.type]
    region.buffers.update(results)
    targets = [Ref.whole(buffer) for buffer in results]
    needs = [item for operand in operands for item in region.items_of(operand)]
    known = {inner: region.place_of(outer) for inner, outer in zip(body.inputs, operands, strict=True)}
    needs += region.items[first:] + [item for operand in operands for item in region.items_of(operand)]
    for item in needs:
        if isinstance(item, Task):
            item.escapes = True
    half, label = len(results), f"ifelse at {node.where}"
    bodies = [_branch(region, outputs, targets, known) for outputs in (body.outputs[:half], body.outputs[half:])]
    region.context.notes.append(f"{label}: only the branch that is chosen runs")
    block = Block(dict.fromkeys(needs, False), None, None, label, If(flag, [], [], label), bodies)
    region.items.append(block)
    for i, target in enumerate(targets):
        part = ir.PART(node, index=i)
        region.places[part] = target
        region.makers[part] = [block]


def _branch(region: Region, outputs: Sequence[Node], targets: Sequence[Ref], known: dict[Node, Ref]) -> Region:
    """The region that computes a branch into the places of the results."""
    # A size that is a value outside is, in the branch, the node that it was outside.
    places = {n: ref for n, ref in region.places.items() if n.dim_atom is not None and n not in region.makers}
    inner = Region(region.context, {**places, **known}, region)
    inner.schedule(outputs, targets)
    return inner
