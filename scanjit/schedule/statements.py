"""The statements of a region: its groups as nests, in order, with chains over blocks of time."""

from __future__ import annotations

from scanjit.schedule import blocks, checkpoint, deep, tile
from scanjit.schedule.fuse import fuse, nest_of
from scanjit.schedule.program import Statement
from scanjit.schedule.region import Block, Region, Single, Task


def statements(region: Region) -> list[Statement]:
    """Everything that was scheduled in a region, fused; those of a chain where its scan is."""
    groups = fuse(region)
    nests = {group: nest_of(group) for group in groups if isinstance(group.members[0], Task)}
    chained = blocks.chains(region, groups, nests)
    families = checkpoint.families(region, groups, nests, chained)
    result: list[Statement] = []
    for group in groups:
        first = group.members[0]
        if group in families:
            phase = families[group].phase_at(group)
            if phase is not None:
                result += checkpoint.statements_of(region, families[group], phase, nests)
        elif group in chained:
            if first is chained[group].scan:
                result += blocks.blocked(region, chained[group], nests)
        elif isinstance(first, Single):
            result.append(first.statement)
        elif isinstance(first, Block):
            result += first.statements if first.nest is None else tile.shape_nest(region, first.nest)
        elif (found := deep.deep(region, nests[group])) is not None:
            result += deep.blocked(region, group, nests, found)
        else:
            result += tile.shape_nest(region, nests[group])
    return result
