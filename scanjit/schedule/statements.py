"""The statements of a region: its groups as nests, in order, with chains over blocks of time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from scanjit.schedule.fuse.groups import Group, fuse, nest_of
from scanjit.schedule.lower.region import Block, Region, Single, Task
from scanjit.schedule.nests import Nest, Statement
from scanjit.schedule.tiles.apply import in_forms, tile_nest
from scanjit.schedule.time import blocks, deep
from scanjit.schedule.time.checkpoint import stretches


def statements(region: Region) -> list[Statement]:
    """Everything that was scheduled in a region, fused; those of a chain where its scan is."""
    groups = fuse(region)
    nests = {group: nest_of(group) for group in groups if isinstance(group.members[0], Task)}
    chained = blocks.chains(region, groups, nests)
    families = stretches.families(region, groups, nests, chained)
    result: list[Statement] = []
    for group in groups:
        first = group.members[0]
        if group in families:
            phase = families[group].phase_at(group)
            if phase is not None:
                result += stretches.statements_of(region, families[group], phase, nests)
        elif group in chained:
            if first is chained[group].scan:
                result += blocks.blocked(region, chained[group], nests)
        elif isinstance(first, Single):
            result.append(first.statement)
        elif isinstance(first, Block):
            result += first.statements if first.nest is None else tile_nest(region, first.nest)
        else:
            result += in_forms(region, nests[group], partial(_shaped, region, group, nests))
    return result


def _shaped(region: Region, group: Group, nests: Mapping[Group, Nest], nest: Nest) -> list[Statement]:
    """The statements of a nest: of long sums, in blocks."""
    packs, nest = deep.packed(region, nest)
    found = deep.deep(region, nest)
    if found is None:
        return [*packs, *tile_nest(region, nest)]
    return [*packs, *deep.blocked(region, group, {**nests, group: nest}, found)]
