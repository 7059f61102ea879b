"""Schedule an ifelse: two loops of one step, of which the condition lets one run."""

from __future__ import annotations

from collections.abc import Sequence

from scanjit import ir, types
from scanjit.ir import Node
from scanjit.ops.elementwise import cast
from scanjit.schedule.lower.region import Block, Region
from scanjit.schedule.lower.scan import no_ragged_step, open_body
from scanjit.schedule.nests import Buffer, Ref, Statement, TimeLoop, counter
from scanjit.schedule.statements import statements


def schedule_branch(region: Region, node: Node) -> None:
    """Schedule an ifelse in a region; its parts get their places."""
    condition, *operands = node.operands
    body = open_body(node)
    no_ragged_step(body)
    first = len(region.items)
    flags = [_flag(region, value) for value in (condition, ir.apply("invert", condition))]
    results = [Buffer(kind.dtype, kind.shape, "temporary", "branch") for kind in node.type]
    region.buffers.update(results)
    targets = [Ref.whole(buffer) for buffer in results]
    needs = [item for operand in operands for item in region.items_of(operand)]
    known = {inner: region.place_of(outer) for inner, outer in zip(body.inputs, operands, strict=True)}
    needs += region.items[first:] + [item for operand in operands for item in region.items_of(operand)]
    for item in needs:
        if hasattr(item, "escapes"):
            item.escapes = True
    half = len(results)
    made: list[Statement] = []
    for flag, outputs in zip(flags, (body.outputs[:half], body.outputs[half:]), strict=True):
        loop = _branch(region, flag, outputs, targets, known)
        loop.label = f"ifelse at {node.where}"
        made.append(loop)
    made = [*region.held, *made]
    region.held = []
    region.context.notes.append(f"ifelse at {node.where}: only the branch that is chosen runs")
    block = Block(made, dict.fromkeys(needs, False), None, None, f"ifelse at {node.where}")
    region.items.append(block)
    for i, target in enumerate(targets):
        part = ir.PART(node, index=i)
        region.places[part] = target
        region.makers[part] = [block]


def _flag(region: Region, condition: Node) -> Ref:
    """A bool scalar as an int64 in memory, which is what the main function reads."""
    return region.copy(cast(condition, "int64"))


def _branch(
    region: Region, flag: Ref, outputs: Sequence[Node], targets: Sequence[Ref], known: dict[Node, Ref]
) -> TimeLoop:
    """A loop of one step, or none, that computes a branch into the places of the results."""
    step, row = counter("step"), counter("row")
    atoms = [atom for dim in (step, row) if (atom := types.as_atom(dim)) is not None]
    # A size that is a value outside is, in the branch, the node that it was outside.
    places = {n: ref for n, ref in region.places.items() if n.dim_atom is not None and n not in region.makers}
    inner = Region(region.context, {**places, **known}, region, atoms)
    inner.schedule(outputs, targets)
    return TimeLoop(1, step, row, statements(inner), 1, when=flag)
