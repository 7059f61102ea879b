"""Putting the elements of rows into the order of two groups, as Python source.

For each group, the row is read once, and the elements of the group move to the front of a vector, which is stored whole
behind those before it.
"""

from scanjit.codegen.lines import LOOK, indented
from scanjit.codegen.source import Parameters, Source
from scanjit.codegen.stretches import vectors
from scanjit.kinds import KINDS, kind_of
from scanjit.schedule.nests import NestLoop, Parting, Tile
from scanjit.target import Target


def parting_source(statement: Parting, target: Target) -> Source:
    """The source of a function that puts some rows in order."""
    parameters = Parameters()
    refs = (statement.values, statement.groups, statement.result)
    values, groups, result = (parameters.address(ref.buffer, ref.offset) for ref in refs)
    n = parameters.number(statement.values.shape[-1])
    stored = KINDS[kind_of(statement.values.buffer.dtype).moved]
    kept = stored if stored.bits >= 32 else KINDS["i32"]
    size, lanes = stored.size, target.lanes(kept.size)

    def part(inside: str) -> list[str]:
        """Move the elements of a group in one vector; `inside` is the mask of those that are in the row, if not all."""
        load, more = ("load_masked", f", {inside}") if inside else ("load", "")
        chosen = f"{load}_i8x{lanes}(groups + i{more}) == splat_i8x{lanes}(group)"
        x = f"{load}_{stored.name}x{lanes}(first + i*{size}{more})"
        moved = f"compress({x if kept is stored else f'cast_{kept.name}x{lanes}({x})'}, chosen)"
        return [
            f"chosen = ({chosen}) & {inside}" if inside else f"chosen = {chosen}",
            f"moved = {moved if kept is stored else f'cast_{stored.name}x{lanes}({moved})'}",
            f"if at + {lanes} <= {n}:",
            f"    store(target + at*{size}, moved)",
            "else:",
            f"    store_masked(target + at*{size}, moved, head_x{lanes}({n} - at))",
            "at += count_lanes(chosen)",
        ]

    lines = [
        "for row in range(begin, end):",
        *indented(LOOK),
        f"    first = {values} + row*{n}*{size}",
        f"    groups = {groups} + row*{n}",
        f"    target = {result} + row*{n}*{size}",
        "    at = 0",
        "    for group in range(2):",
        *indented(vectors(n, part, lanes), 2),
    ]
    tile = Tile(split=NestLoop(statement.pieces))
    return parameters.source(statement.title, indented(lines), ["begin", "end", "line"], tile=tile)
