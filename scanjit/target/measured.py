"""How fast register tiles of each shape are on some processors, measured by `python -m benchmarks tiles`."""

from collections.abc import Mapping

Shape = tuple[int, int]
"""Rows and vectors of a register tile. If several products share a left operand, those of each product."""
Speeds = Mapping[int, Mapping[Shape, float]]
"""The speed of tiles, by the number of products and by shape, as a part of the speed of multiply-adds alone."""

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
    "sapphirerapids 64": {  # two units of 64 bytes compute as fast as the first cache loads: tall tiles load least
        1: {(8, 3): 0.69, (6, 4): 0.67, (6, 3): 0.67, (8, 2): 0.66, (5, 4): 0.65, (5, 3): 0.64, (4, 4): 0.63},
        2: {(6, 2): 0.72, (5, 2): 0.68, (4, 2): 0.65, (4, 3): 0.65, (8, 1): 0.64, (6, 1): 0.63, (3, 3): 0.61},
        3: {(8, 1): 0.71, (4, 2): 0.70, (6, 1): 0.68, (5, 1): 0.66, (4, 1): 0.62, (3, 2): 0.61},
        4: {(6, 1): 0.72, (5, 1): 0.68, (4, 1): 0.64, (3, 1): 0.57, (2, 2): 0.50},
        5: {(4, 1): 0.66, (3, 1): 0.58, (2, 1): 0.49, (2, 2): 0.49},
        6: {(4, 1): 0.68, (3, 1): 0.59, (2, 1): 0.49, (2, 2): 0.38},
    },
    "znver4 32": {  # with the instructions of AVX2 alone
        1: {(4, 3): 0.97, (6, 2): 0.96, (5, 2): 0.93, (3, 3): 0.93, (4, 2): 0.91, (2, 4): 0.91},
        2: {(6, 1): 0.98, (5, 1): 0.94, (4, 1): 0.92, (2, 2): 0.91, (3, 1): 0.76},
        3: {(4, 1): 1.00, (3, 1): 0.94, (2, 1): 0.77},
        4: {(2, 1): 0.92, (1, 2): 0.67},
        5: {(2, 1): 0.95, (1, 2): 0.67},
        6: {(1, 1): 0.64},
    },
    "znver3 32": {
        1: {(5, 2): 0.92, (4, 3): 0.90, (6, 2): 0.88, (3, 3): 0.85, (4, 2): 0.83, (2, 4): 0.82},
        2: {(6, 1): 0.74, (5, 1): 0.67, (4, 1): 0.63, (2, 2): 0.65},
        3: {(4, 1): 0.79, (3, 1): 0.75, (2, 1): 0.60},
        4: {(2, 1): 0.89, (1, 2): 0.50},
        5: {(2, 1): 0.88, (1, 2): 0.49},
        6: {(1, 1): 0.49},
    },
}
"""By processor and bytes of a vector: "znver4 64". Shapes that are slow, or fill registers no better than another, are
left out."""
SLOW_MASKS = ("znver1", "znver2", "znver3")
"""The processors with AVX that take several times as long to store some lanes of a vector as to store all of it."""
FAST_PAIRS = ("znver4", "znver5")
"""The processors that multiply pairs of bfloat16 as fast as they multiply float32, by LLVM's names."""
HALVED = ("znver4",)
"""The processors that compute a vector of 64 bytes in two halves."""
LIKE = {32: "znver4 64", 16: "znver4 32"}
"""By the number of registers: the processor whose speeds stand for those that nobody has measured."""
_AMD = "znver"
_GENERIC = ("", "generic", "x86-64", "x86-64-v4")
"""LLVM's names for any processor of a family."""


def is_intels(name: str, vector_bytes: int) -> bool:
    """Whether a processor is one of Intel's with vectors of 64 bytes."""
    return vector_bytes == 64 and name not in _GENERIC and not name.startswith(_AMD)


def speeds(name: str, vector_bytes: int, registers: int) -> Speeds:
    """The speeds of a processor. If nobody has measured it, those of one of the same maker, or with as many
    registers."""
    like = "sapphirerapids 64" if is_intels(name, vector_bytes) else LIKE[registers]
    return MEASURED.get(f"{name} {vector_bytes}", MEASURED[like])
