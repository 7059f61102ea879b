"""The shapes of register tiles: how fast each is on some processor, as `python -m benchmarks tiles` measured it."""

from __future__ import annotations

from collections.abc import Mapping

from scanjit.schedule.nests import Machine, NestLoop

Shape = tuple[int, int]
"""Rows and vectors of a register tile; of each product, where several share a left operand."""
Speeds = Mapping[int, Mapping[Shape, float]]
"""By the number of products: the part of the limit (multiply-adds alone) that tiles of a shape reach."""

MEASURED: dict[str, Speeds] = {
    "znver4 64": {
        1: {(4, 4): 0.97, (8, 2): 0.97, (6, 4): 0.97, (5, 4): 0.97, (5, 3): 0.97, (3, 4): 0.97},
        2: {(4, 2): 0.99, (5, 2): 0.98, (6, 2): 0.98, (3, 3): 0.99, (8, 1): 0.98, (2, 4): 0.95},
        3: {(4, 1): 0.99, (5, 1): 0.99, (6, 1): 0.99, (3, 2): 0.99, (8, 1): 0.98, (2, 2): 0.97},
        4: {(4, 1): 1.00, (5, 1): 0.99, (3, 1): 0.98, (6, 1): 0.98, (2, 2): 0.96},
        5: {(4, 1): 0.99, (3, 1): 1.00, (2, 2): 0.97},
        6: {(4, 1): 0.99, (3, 1): 1.00, (2, 2): 0.97},
        7: {(2, 1): 0.92, (3, 1): 0.92, (1, 2): 0.92},
        8: {(2, 1): 0.93, (3, 1): 0.94, (1, 2): 0.94},
    },
    "znver4 32": {  # with the instructions of AVX2 alone
        1: {(4, 3): 0.97, (6, 2): 0.96, (5, 2): 0.93, (3, 3): 0.93, (4, 2): 0.91, (2, 4): 0.91},
        2: {(6, 1): 0.98, (5, 1): 0.94, (4, 1): 0.92, (2, 2): 0.91, (3, 1): 0.76},
        3: {(4, 1): 1.00, (3, 1): 0.94, (2, 1): 0.77},
        4: {(2, 1): 0.92, (1, 2): 0.67},
        5: {(2, 1): 0.95, (1, 2): 0.67},
        6: {(1, 1): 0.64},
    },
}
"""By processor and bytes a vector (`Machine.key`); what is slow, or fills registers no better, is left out."""
LIKE = {32: "znver4 64", 16: "znver4 32"}
"""Whose speeds are taken for what has not been measured, by the number of registers: accumulators have to fit them."""
MOST = {32: 24, 16: 12}
"""So many accumulators leave registers for operands."""
USUAL = (4, 8, 16, 32, 64)
"""How many rows there are, where that is not known."""


def shape(products: int, rows: NestLoop | None, machine: Machine) -> Shape:
    """The (rows, vectors) of a register tile for so many products over some rows: the fastest, of which as few rows as
    possible lie beyond the last."""
    if not products:
        return 1, 1
    if rows is None:
        return 1, max(1, 4 // products)
    speeds = MEASURED.get(machine.key, MEASURED[LIKE[machine.registers]]).get(products, {(1, 1): 1.0})
    sizes = (max(rows.size, 1),) if isinstance(rows.size, int) else USUAL

    def speed(shape: Shape) -> float:
        return speeds[shape] * sum(size / (-(-size // shape[0]) * shape[0]) for size in sizes)

    block, vectors = max(speeds, key=speed)
    return min(block, max(sizes)), vectors
