"""The places of what is true in rows, as Python source.

The places of a vector that are chosen move to its front. It is stored whole behind those before it, so each vector
writes over what the one before it stored too much. In the end, the rest of the row is filled.
"""

from scanjit.codegen.lines import LOOK, indented, loaded, stretches, vectors
from scanjit.codegen.source import Parameters, Source
from scanjit.schedule.nests import NestLoop, Tile, WhereTrue
from scanjit.target import Target


def where_true_source(statement: WhereTrue, target: Target) -> Source:
    """The source of a function that finds the places in some rows."""
    parameters = Parameters()
    truths, result = (parameters.address(ref.buffer, ref.offset) for ref in (statement.truths, statement.result))
    n = parameters.number(statement.truths.shape[-1])
    lanes = target.lanes(8)

    def part(inside: str) -> list[str]:
        """Store the places of one vector; `inside` is the mask of those that are in the row, if not all."""
        return [
            f"chosen = {loaded(f'u8x{lanes}', 'first + i', inside)} != splat_u8x{lanes}(0)",
            f"moved = compress(iota_i64x{lanes}(i), chosen)",
            f"if at + {lanes} <= {n}:",
            "    store(target + at*8, moved)",
            "else:",
            f"    store_masked(target + at*8, moved, head_x{lanes}({n} - at))",
            "at += count_lanes(chosen)",
        ]

    rest = [f"store_masked(target + i*8, splat_i64x{lanes}(-1), head_x{lanes}({n} - i))"]
    lines = [
        "for row in range(begin, end):",
        *indented(LOOK),
        f"    first = {truths} + row*{n}",
        f"    target = {result} + row*{n}*8",
        "    at = 0",
        *indented(vectors(n, part, lanes)),
        *indented(stretches(n, rest, lanes, "at")),
    ]
    tile = Tile(split=NestLoop(statement.pieces))
    return parameters.source(statement.title, indented(lines), ["begin", "end", "line"], tile=tile)
